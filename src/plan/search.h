/* search.h - every layout of a model on a cluster, judged; the best ten.
 *
 * A layout is judged when it is priced (its memory summed exactly, its step played over chunks) or
 * excluded by a bound: a rank cannot hold its state or activations, or a step from below is not
 * shorter than the tenth best. Whole groups are excluded at once and counted. The best are then
 * priced as whole programs, and sorted by that. */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "predict/price.h"
#include "rules/rules.h"
#include "plan/search_choice.h"

enum { BEST_MAX = 10, NEAR_MAX = 32, FRONT_MAX = 48, LADDER_MAX = 16, BREAKS_MAX = 32 };

/* A layout where routing is not as it is assumed: balanced; twice as uneven. */
enum { ROUTED_EVEN, ROUTED_UNEVEN, FOUND_ROUTINGS };

typedef struct routed_price {
    double skew, step_s; /* 0: not priced */
    int64_t peak_bytes;
} routed_price;

typedef struct found {
    choice c;
    int64_t dp, edp, micros;
    double step_s;      /* as cards say */
    int64_t peak_bytes; /* of the fullest rank, to the byte */
    bool priced;        /* `exact` is there */
    price exact;        /* of the whole programs */
    double band;        /* half of the band of its time (predict/bands.h); 0: not judged */
    bool tie;           /* with the fastest, as far as published pairs let tell */
    bool supported;     /* each of its features occurs in a published run on such GPUs */
    const char *before; /* why it is listed before a faster row; NULL: it is not */
    int behind;         /* that row, an index of `best`; -1: none */
    routed_price routed[FOUND_ROUTINGS];
} found;

typedef struct search_counts {
    int64_t legal;          /* layouts of the space */
    int64_t state, saved;   /* excluded: weights and optimizer, activations do not fit */
    int64_t slow;           /* excluded: a bound above the tenth best */
    int64_t simulated;      /* played, and slower than the tenth */
    int64_t summed, fitted; /* memory summed exactly; of those fitted, and played */
    int64_t rules;          /* excluded: break a rule */
    int64_t broken;         /* judge_all: bounds above what they bound */
    int64_t cards;
    double seconds;
} search_counts;

/* A rule that layouts broke which bounds and memory would have let through. */
typedef struct rule_break {
    const rule *rule;
    choice c; /* the first of them */
    int64_t n;
} rule_break;

typedef struct search_options {
    const hardware *hw;
    price_options prices;
    bool any_precision;
    bool wide;      /* where weights are FP8 also those in 16 bits: BF16, and what the optimizer on
                       the host needs; the latter always where that is asked for */
    bool published; /* of features that nobody set only those that a published run has */
    bool only_fit;  /* stop at the first layout that fits */
    bool judge_all; /* no bounds: for tests */
    bool front;     /* look for what is fastest in parts of the memory, too (search_front.c) */
    bool unpriced;  /* the best are left as sums of cards have them (search_price_found) */
    bool judged;    /* ties decide the order of the best (search_ties.h), and so the winner */
    int best;       /* how many are priced whole; 0: BEST_MAX */
    double below;   /* seconds: only layouts whose step is shorter are looked for; 0: all are */
    double until;   /* of clock_seconds: ends then with what it has; 0: runs to its end */
    double work;    /* of clock_work: likewise, and a loaded machine does not move it */
} search_options;

typedef struct search_result {
    found best[BEST_MAX];
    int n_best, room;     /* of at most BEST_MAX places */
    double below;         /* as the options have it, or INFINITY */
    found near[NEAR_MAX]; /* as fast as those of the same sizes, but for what cards leave open */
    int n_near;
    found front[FRONT_MAX]; /* faster needs more memory: speed against headroom */
    int n_front;
    found ladder[LADDER_MAX]; /* the winner's layout, from no recompute on: rung by rung */
    int n_ladder;
    found miss; /* nothing fits: the layout that needs least */
    bool has_miss;
    violations never; /* rules that no layout can satisfy: nothing was searched */
    rule_break breaks[BREAKS_MAX];
    int n_breaks;
    bool complete;         /* nothing was cut short by `until` */
    const char *not_known; /* nothing was searched: no model of FSDP, or of this optimizer */
    search_counts counts;
    choice_maker *maker;
} search_result;

/* `given`: model_fill behind it; cluster.gpu, cluster.n_gpus, model.seq_length and
 * train.global_batch_size are set. Knobs that a person set are not searched. ERR_RULE: no layout is
 * legal, with the reason, or `never` has rules that none can satisfy. Memory comes from `a`. */
status search_run(search_result *out, const recipe *given, const search_options *o, arena *a,
                  error *err);

/* Are whole programs of so many layers and microbatches too large to be built for comparisons? */
bool search_is_giant(int64_t layers, int64_t micros);

/* Prices one of a result's layouts as whole programs, unless those would have millions of items.
 * `evidence` is left out; the arena that the result came from is still there, and `hw` is that of
 * its search. */
void search_price_found(found *f, const search_result *r, const search_options *o);

/* The same with this skew of routing, as far as it goes; `out` is as it was where it cannot be. */
void search_price_routed(routed_price *out, const found *f, const search_result *r,
                         const search_options *o, double skew);

/* The recipe of a layout, as a person would write it. */
void search_recipe(recipe *out, search_result *r, const recipe *given, const choice *c);

#endif
