/* plan.h - what the files of `moefold plan` share. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "answer/rows.h"
#include "cli/cli.h"
#include "cli/routing.h"
#include "plan/repairs.h"
#include "plan/against.h"
#include "plan/search_own.h"

typedef struct plan_words {
    const char *gpus, *seq, *gbs, *out, *routed, *precision, *stack, *against, *seconds, *bring_up,
        *headroom, *space;
    megatron_options how; /* --set, --command: how a file of Megatron-LM is read */
    bool json, more, pin_all;
} plan_words;

/* The smallest cluster that holds the job. */
typedef struct plan_fewest {
    int64_t gpus;      /* 0: none was found */
    int64_t gbs;       /* samples a step there */
    int64_t looked_to; /* none was found up to this count */
    bool exact;        /* all smaller counts were looked at, and none does */
    found f;           /* a layout that fits; where these GPUs do not do, the fastest */
} plan_fewest;

/* The best that was met with activations on the host. */
typedef struct plan_offload {
    int tried;           /* variants that could be priced */
    bool tried_any;      /* what follows is there */
    bool helps;          /* it fits, and is faster than the first or nothing else fits */
    choice c;            /* beside which */
    int set;             /* of plan_offload.c */
    const char *modules; /* of model.offload_modules */
    price p;
} plan_offload;

/* The winner with one of its choices made otherwise. */
typedef struct plan_other {
    const char *topic; /* "memory", "pipeline", "experts", "context", "dispatcher", "overlap",
                          "graphs", "precision" */
    const char *name;  /* what it would be instead */
    bool priced;
    const char *rule;        /* not priced: the id of a rule that it breaks */
    const char *unsupported; /* what no published run has; NULL: all of it */
    const char *left;        /* why it is not the winner although it is faster and fits; NULL */
    price p;
} plan_other;

enum { REASONS_MAX = 40 };

typedef struct plan_reasons {
    plan_other list[REASONS_MAX];
    int n;
    setup *winner;       /* NULL: not looked for */
    violations warnings; /* that `check` draws from the winner, with prices of their repairs */
} plan_reasons;

/* A step of bringing the winner up. */
typedef struct bring_up_step {
    const char *name, *what, *file;
    const char *skipped;            /* why it is left out; NULL: it is not */
    const char *changed;            /* overrides against the step before */
    const char *added;              /* so that it fits; NULL: nothing */
    const char *const *added_rules; /* overrides so that it breaks no rule; NULL: none */
    int n_warnings;                 /* and notes */
    recipe *r;
    price p;
} bring_up_step;

typedef struct plan_bring_up {
    const char *folder; /* NULL: not asked for */
    bring_up_step list[8];
    int n;
} plan_bring_up;

/* Fewer GPUs that take no longer for the same batch. */
typedef struct plan_rounder {
    int64_t gpus; /* 0: none was found */
    double step_s, before_s;
} plan_rounder;

/* Defaults that leave out layouts, in the order in which a plan leaves them where nothing fits. */
typedef enum plan_default {
    PLAN_FP8_WEIGHTS, /* weights in the format of GEMMs */
    PLAN_PUBLISHED,   /* features of published runs */
    PLAN_PRECISION,   /* the platform's number format */
    PLAN_DEFAULTS
} plan_default;

/* The reason of what the command line set. */
#define PLAN_BY_WORDS "command line"

typedef struct plan_answer {
    const recipe *given;
    recipe *set;  /* as it was read, before what is searched was left open */
    bool pin_all; /* nothing was (--pin all) */
    recipe *own;  /* of --against, on the plan's cluster; NULL: none */
    const hardware *hw;
    price_options prices;
    int64_t world;
    bool more;                /* --more */
    bool published;           /* only what published runs have was searched (--search) */
    bool left[PLAN_DEFAULTS]; /* nothing fits with this default, so more was searched */
    bool any_precision;       /* several number formats were */
    double until;             /* of clock_seconds: all searches end then (--seconds) */
    double limit;             /* those seconds */
    bool complete;            /* none was cut short */
    search_result *result;
    search_own ways;    /* chunks that were found to help */
    bool miss_exact;    /* the nearest miss is a layout of which all is known */
    int64_t miss_least; /* no layout needs less */
    plan_fewest fewest;
    plan_offload offload;
    plan_reasons reasons;
    plan_bring_up bring_up;
    other_routing other; /* of the winner */
    plan_rounder rounder;
    bool has_next;
    price next;        /* the winner on twice as many GPUs */
    against *compared; /* own, beside the result; NULL: none */
} plan_answer;

/* plan_words.c: from words to a job. */
status plan_take_pins(int argc, char **argv, char **out, int *n, bool *all, error *err);
bool plan_was_set(const plan_answer *p, knob_id k);    /* by the recipe's file */
bool plan_was_opened(const plan_answer *p, knob_id k); /* of these: it is searched */
status plan_prepare(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err);

/* A search that is under way when a walk's time is up may go on for so long. Walks count the
 * processor's seconds, so that other jobs on the machine change no answer. */
static const double WALK_GRACE_SECONDS = 2;

/* plan_search.c: sets `result` and what goes with it; `o` is what was searched in the end. */
status plan_search(plan_answer *p, const plan_words *w, search_options *o, arena *a, error *err);

/* plan_fewest.c: sets `fewest`; looks no longer than about that many seconds. */
void plan_find_fewest(plan_answer *p, const search_options *o, double seconds, arena *a);
void plan_print_fewest(const plan_answer *p, arena *a); /* where nothing fits */
void plan_say_fewest(const plan_answer *p, arena *a);   /* in the explanation */

/* plan_rounder.c: sets `rounder`, in about that many seconds of the processor. */
void plan_find_rounder(plan_answer *p, const search_options *o, double seconds);
void plan_print_rounder(const plan_answer *p);

/* plan_miss.c: finds the nearest miss, in about that many seconds. */
void plan_find_miss(plan_answer *p, const search_options *o, double seconds);

/* plan_offload.c: sets `offload`. */
void plan_try_offload(plan_answer *p, arena *a);
void plan_say_offload(const plan_answer *p, arena *a);   /* in the explanation */
void plan_print_offload(const plan_answer *p, arena *a); /* where nothing fits */

/* plan_refuse.c: what cannot be planned, and what to change. plan_refuses says which rules stand
 * against every layout, if any do; plan_why_none sets `err`. */
bool plan_refuses(const plan_answer *p, const search_options *o, bool json, arena *a);
status plan_why_none(const plan_answer *p, const search_options *o, arena *a, error *err);
void plan_print_kept(const plan_answer *p, arena *a);       /* what a file sets: kept, searched */
const char *plan_lost_pins(const plan_answer *p, arena *a); /* not in the winner; NULL: all are */

void plan_print(const plan_answer *p, arena *a);      /* the table, the front */
void plan_print_miss(const plan_answer *p, arena *a); /* nothing fits */

/* plan_first.c: why the first is before a faster row, over which routings it stays first, and what
 * it sets beyond its row. */
void plan_print_first(const plan_answer *p, arena *a);
void plan_answer_first(first_answer *out, const plan_answer *p, arena *a);

/* The first beside the fastest published run of this model, length and GPU. */
void plan_print_claim(const plan_answer *p, arena *a);
const claim_answer *plan_claim_answer(const plan_answer *p, arena *a); /* NULL: none is known */
const char *plan_knobs_text(const plan_answer *p, const choice *c, arena *a); /* after sizes */
const char *plan_dispatcher(const plan_answer *p, const choice *c);           /* "DeepEP" */
const char *plan_overlap(overlap_kind overlap);    /* "EP, delayed wgrad" */
void plan_explain(const plan_answer *p, arena *a); /* in the order of thought */

/* plan_reasons.c: ERR_RULE, and result->never, where a pin is nothing that the target can run. */
status plan_refuse_target(plan_answer *p, arena *a, error *err);

/* Sets `reasons`; what was found, in the explanation. */
void plan_find_reasons(plan_answer *p, arena *a);
void plan_say_others(const plan_answer *p, const char *topic);
void plan_say_warnings(const plan_answer *p, arena *a);

/* plan_bring_up.c: refuses a folder that holds anything; writes the recipes, after reasons are
 * found. */
status plan_bring_up_folder(const char *folder, error *err);
status plan_make_bring_up(plan_answer *p, const char *folder, arena *a, error *err);
void plan_print_bring_up(const plan_answer *p);

/* plan_rows.c: the rest of the list, row by row. */
void plan_explain_rows(const plan_answer *p, arena *a);

/* The price of a layout with overrides ("key=value key=value"; NULL: none). False: it breaks a
 * rule. */
bool plan_price_words(price *out, const plan_answer *p, const choice *c, const char *words,
                      arena *a);

/* The same; of what does not fit memory alone is found. */
bool plan_fit_words(price *out, const plan_answer *p, const choice *c, const char *words, arena *a);

/* The same: sets its price and what is unsupported, or the rule that it breaks; NULL there: there
 * is no such layout. */
bool plan_price_trial(plan_other *out, const plan_answer *p, const choice *c, const char *words,
                      arena *a);

/* Half of TP, CP or PP; false: there is no half. */
bool plan_halve(choice *c, knob_id size);

/* plan_against.c: a recipe beside its plan. */
void plan_print_against(const plan_answer *p, arena *a);
const against_answer *plan_against_answer(const plan_answer *p, arena *a);

/* plan_answer.c: what programs read. */
void plan_print_json(const plan_answer *p, arena *a);
void plan_print_json_none(const plan_answer *p, const violations *v, const char *why, arena *a);

#endif
