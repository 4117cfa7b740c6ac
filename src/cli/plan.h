/* plan.h - what the files of `moefold plan` share. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "cli/cli.h"
#include "price/search.h"

typedef struct plan_words {
    const char *gpus, *seq, *gbs, *out, *routed, *precision, *stack;
    bool json;
} plan_words;

typedef struct plan_answer {
    const recipe *given;
    const hardware *hw;
    price_options prices;
    int64_t world;
    search_result *result;
    int64_t fewest; /* GPUs that would do, where these do not; 0: none found */
    bool has_next;
    price next; /* the winner on twice as many GPUs */
} plan_answer;

void plan_print(const plan_answer *p, arena *a);      /* the table, the front */
void plan_print_miss(const plan_answer *p, arena *a); /* nothing fits */
void plan_print_json(const plan_answer *p, arena *a);
void plan_explain(const plan_answer *p, arena *a); /* in the order of thought */

#endif
