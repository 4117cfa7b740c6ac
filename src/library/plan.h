/* plan.h - a plan: what is asked, and all that is found of it.
 *
 * A recipe with cluster, sequence and batch is searched (search.h); where nothing fits, without the
 * defaults that leave out layouts. Of what is found follow: why the first is first, fewer GPUs,
 * activations on the host, the order in which it is brought up; where nothing fits, what would. */
#ifndef LIBRARY_PLAN_H
#define LIBRARY_PLAN_H

#include "plan/against.h"
#include "library/other_routing.h"
#include "plan/repairs.h"
#include "plan/search_own.h"

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
    plan_offload offload;
    plan_reasons reasons;
    plan_bring_up bring_up;
    other_routing other; /* of the winner */
    plan_rounder rounder;
    bool has_next;
    price next;        /* the winner on twice as many GPUs */
    against *compared; /* own, beside the result; NULL: none */
} plan_answer;

/* `p` has what is asked: everything before `end`, but what the words say of several searches
 * (published, any_precision), which becomes what was searched in the end. ERR_RULE: no layout is
 * legal, and why; the time was up before any was found (`end`). */
status plan_run(plan_answer *p, arena *a, error *err);

bool plan_was_set(const plan_answer *p, knob_id k);    /* by the recipe's file */
bool plan_was_opened(const plan_answer *p, knob_id k); /* of these: it is searched */

const char *plan_lost_pins(const plan_answer *p, arena *a); /* not in the winner; NULL: all are */
const char *plan_dispatcher(const plan_answer *p, const choice *c); /* "DeepEP" */
const char *plan_overlap(overlap_kind overlap);                     /* "EP, delayed wgrad" */

/* plan_bring_up.c: refuses a folder that holds anything. */
status plan_bring_up_folder(const char *folder, error *err);

#endif
