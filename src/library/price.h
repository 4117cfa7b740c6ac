/* price.h - what a recipe's step takes, and what one change would bring. */
#ifndef LIBRARY_PRICE_H
#define LIBRARY_PRICE_H

#include "answer/answer.h"
#include "library/other_routing.h"
#include "library/price_trace.h"
#include "library/word_routing.h"
#include "library/words.h"
#include "measure/profile/fixes.h"
#include "plan/changes.h"
#include "predict/not_priced.h"

typedef struct price_words {
    bool json, why, everything;
    const char *stack, *routed, *headroom;
    trace_words trace;
} price_words;

/* Options of `moefold price`; returns how many. */
int price_word_options(word_option out[WORD_OPTIONS_MAX], price_words *w);

enum { PRICED_CHANGES = 10 };

typedef struct priced {
    const setup *s;
    const hardware *hw;
    price_options o;
    violations found;
    const char *why_not; /* no program can be built, and why */
    price p;
    price_change changes[PRICED_CHANGES];
    int n_changes;
    try_budget budget;              /* of changes */
    profile_fix repairs[FIXES_MAX]; /* of a pipeline bubble: what fits and gains */
    int n_repairs;
    not_priced left_out[NOT_PRICED_MAX];
    int n_left_out;
    other_routing other;
    const trace_words *trace;
    trace_written traced;
    int64_t rank;    /* whose memory is shown: the fullest, or --rank */
    reported memory; /* of that rank */
    bool bad;        /* a rule is broken, or it does not fit */
} priced;

/* A recipe that can be priced: sets what stands before `p`; of `o` the stack is given. ERR_RULE: no
 * program can be built (`why_not`). */
status price_ready(priced *q, const recipe *r, const char *routed, arena *a, error *err);

/* The whole. `r` is what words_read made of the words. ERR_RULE as there. */
status price_run(priced *out, recipe *r, const price_words *w, arena *a, error *err);

const price_answer *price_answer_of(const priced *q, arena *a); /* a program can be built */
json_t *price_json(const priced *q, arena *a);                  /* also where `why_not` says so */

#endif
