/* plan.h - a plan: what is asked, and all that is found of it.
 *
 * A recipe with cluster, sequence and batch is searched (search.h); where nothing fits, without the
 * defaults that leave out layouts. Of what is found follow: why the first is first, fewer GPUs,
 * activations on the host, the order in which it is brought up; where nothing fits, what would. */
#ifndef LIBRARY_PLAN_H
#define LIBRARY_PLAN_H

#include "answer/rows.h"
#include "library/other_routing.h"
#include "library/word_routing.h"
#include "library/words.h"
#include "plan/activation_offload.h"
#include "plan/against.h"
#include "plan/bring_up.h"
#include "plan/instead.h"
#include "plan/search_own.h"
#include "predict/bands.h"

typedef struct plan_words {
    const char *pin, *gpus, *seq, *gbs, *out, *routed, *precision, *stack, *against, *seconds,
        *bring_up, *headroom, *space;
    megatron_options how; /* --set, --command: how a file of Megatron-LM is read */
    bool json, more, pin_all, why, everything;
} plan_words;

/* The smallest cluster that holds the job. */
typedef struct plan_fewest {
    int64_t gpus;      /* 0: none was found */
    int64_t gbs;       /* samples a step there */
    int64_t looked_to; /* none was found up to this count */
    bool exact;        /* all smaller counts were looked at, and none does */
    found f;           /* a layout that fits; where these GPUs do not do, the fastest */
} plan_fewest;

/* The winner with one of its choices made otherwise. */
typedef struct plan_other {
    const char *topic; /* "memory", "pipeline", "experts", "context", "dispatcher", "overlap",
                          "graphs", "precision" */
    const char *name;  /* what it would be instead */
    bool priced;
    const char *rule; /* not priced: the id of a rule that it breaks */
    const char *left; /* why it is not the winner although it is faster and fits; NULL */
    price p;
} plan_other;

typedef struct plan_reasons {
    plan_other list[INSTEAD_MAX];
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
    recipe *r;
    price p;
} bring_up_step;

typedef struct plan_bring_up {
    const char *folder; /* NULL: not asked for */
    bring_up_step list[BRING_UP_STAGES];
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

typedef enum plan_end {
    PLAN_FOUND,
    PLAN_NOTHING, /* nothing fits */
    PLAN_REFUSED, /* rules stand against every layout, or every one that fits */
    PLAN_LATE,    /* time was up before anything was found */
} plan_end;

typedef struct refusal {
    violations by;              /* of each an example */
    const char *const *repairs; /* words of each that leave layouts; NULL: none is known */
    bool always;                /* every layout breaks these, not those alone that fit */
} refusal;

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
    const char *out;          /* --out: the winner as a recipe; NULL: it is not written */
    const char *steps;        /* --bring-up: a folder for the recipes of its steps; NULL: none */
    bool published;           /* only what published runs have was searched (--search) */
    bool left[PLAN_DEFAULTS]; /* nothing fits with this default, so more was searched */
    bool any_precision;       /* several number formats were */
    double until;             /* of clock_seconds: all searches end then (--seconds) */
    double limit;             /* those seconds */
    plan_end end;
    refusal refused;
    bool complete; /* none was cut short */
    search_result *result;
    search_own ways;    /* chunks that were found to help */
    bool miss_exact;    /* the nearest miss is a layout of which all is known */
    int64_t miss_least; /* no layout needs less */
    plan_fewest fewest;
    activation_offload offload;
    plan_reasons reasons;
    plan_bring_up bring_up;
    other_routing other; /* of the winner */
    plan_rounder rounder;
    bool has_next;
    price next;        /* the winner on twice as many GPUs */
    against *compared; /* own, beside the result; NULL: none */
} plan_answer;

/* Options of `moefold plan`; returns how many. */
int plan_options(word_option out[WORD_OPTIONS_MAX], plan_words *w);

/* The words as words_read takes them: --pin key=value is an override, --pin all is noted in `w`,
 * and where only --against names a recipe, it is the recipe. `out` has room for two more. */
status plan_ready_words(int argc, char **argv, char **out, int *n, plan_words *w, error *err);

/* `r` is what words_read made of them. ERR_RULE: no layout is legal, and why; the time was up
 * before any was found (`end`). */
status plan_run(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err);

/* `why_not`: what plan_run said where it ended so. */
json_t *plan_json(const plan_answer *p, const char *why_not, arena *a);

bool plan_was_set(const plan_answer *p, knob_id k);    /* by the recipe's file */
bool plan_was_opened(const plan_answer *p, knob_id k); /* of these: it is searched */

/* What stands against every layout, with repairs, in lines. */
const char *plan_refusal_text(const refusal *x, arena *a);

const char *plan_lost_pins(const plan_answer *p, arena *a); /* not in the winner; NULL: all are */
const char *plan_dispatcher(const plan_answer *p, const choice *c); /* "DeepEP" */
const char *plan_overlap(overlap_kind overlap);                     /* "EP, delayed wgrad" */
const char *plan_sizes_text(const setup *s, arena *a);              /* of --against */

/* ---- plan_claim.c: the first beside the fastest published run of this model, length and GPU */

typedef struct claim {
    const band_run *run;     /* NULL: nothing is published */
    const band_run *fastest; /* in any precision; NULL: it is `run` */
    const band_row *row;     /* of the run; NULL: its layout is not known, so it has no price */
    band_traits traits;
    const char *differs;
    int n_differ;
    double ratio, bears; /* of speeds; what pairs that differ in so many knobs bear */
    double to_fastest;
} claim;

/* False: no other framework runs there, or the layout cannot be made. */
bool plan_find_claim(claim *out, const plan_answer *p, arena *a);

/* ---- plan_first.c: over which routings the first stays first */

/* In parts of the unevenness that is assumed: 0 is balanced, 1 as assumed, 2 twice as uneven. */
static const double PLAN_UNEVEN_STEP = 0.05, PLAN_UNEVEN_MOST = 2;

typedef struct plan_held {
    bool known;
    double from, to;   /* of unevenness: where number 1 stays first */
    int below, beyond; /* the fastest rows where balanced, and where twice as uneven */
    double fits_to;    /* so uneven at most its memory fits; PLAN_UNEVEN_MOST or above: always */
} plan_held;

plan_held plan_held_of(const plan_answer *p);
double plan_step_at(const found *f, double part);
double plan_skew_at(const found *f, double part);

/* Each knob that the winner sets, nobody asked for, and no word of the row stands for. */
const text_answer *plan_extras(int *n, const plan_answer *p, arena *a);

#endif
