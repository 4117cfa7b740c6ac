/* card_ranks.h - what the ranks of a layout hold, as sums of cards: to the byte what program_build
 * plans for them. */
#ifndef PLAN_CARD_RANKS_H
#define PLAN_CARD_RANKS_H

#include "ir/shape.h"
#include "plan/cards.h"

/* A stage: how many layers of each kind, and whether it has each of the other parts. */
enum { MIX_EMBEDDING = LAYER_KINDS_MAX, MIX_FINAL, MIX_MTP, MIX_HEAD, MIX_PARTS };

typedef struct chunk_mix {
    int n[MIX_PARTS];
    bool receives, sends;
    int64_t parts_in, parts_out; /* of [T][H], that arrive and leave */
} chunk_mix;

/* A bucket as the time of a step sees it. */
typedef struct bucket_time {
    double reduce, gather;
} bucket_time;

/* What a pipeline rank has whatever the microbatch, recompute and dispatcher. */
typedef struct rank_facts {
    int64_t state[3];       /* weights, gradients, optimizer */
    state_bytes all;        /* the same by kind */
    int64_t overlap;        /* under Megatron, at least: allocated_state_least */
    bool as_before;         /* the rank before it has the same chunks, and more of them in flight */
    int64_t copies;         /* of weights, quantised */
    int64_t trained, owned; /* elements: of all its buckets, of its slices of them */
    int64_t weights;        /* that are trained */
    int64_t uncut;          /* bytes: gradients that are packed and summed over TP */
    double optimizer;
    int n_buckets;
    bucket_time *buckets;
    int *first_bucket; /* [vpp + 1] */
} rank_facts;

typedef struct layout_facts {
    const pipe_split *split;
    const chunk_mix *mix; /* [pp * vpp] by stage */
    rank_facts *ranks;    /* [pp] */
    bool ok;
} layout_facts;

typedef struct ranks ranks;
ranks *ranks_create(cards *k, choice_maker *m, const hardware *hw, const price_options *o,
                    arena *a);

void ranks_release(ranks *r); /* what building took; facts live on in their arena */

/* Depends on precision, TP, EP, ETP, PP, VPP, split and offload alone: DP x CP is what they
 * leave. */
const layout_facts *ranks_facts(ranks *r, const choice *c);

/* Regions of a rank but for REGION_SAVED and REGION_TEMP. */
void rank_regions(int64_t bytes[REGION_COUNT], const setup *s, const step_shape *z,
                  const layout_facts *f, int64_t rank);

/* The order of microbatches on a pipeline rank. */
order_shape choice_order(const choice *c, const step_shape *z, int64_t rank);

/* What each part of a stage saves for one microbatch, and takes. */
typedef struct part_sums {
    int64_t saved[MIX_PARTS];
    int64_t part[MIX_PARTS][SAVED_PARTS]; /* of what is saved */
    double seconds[MIX_PARTS][2];         /* by phase */
} part_sums;
void sums_saved(part_sums *p, cards *k, const choice *c);
void sums_times(part_sums *p, cards *k, const choice *c);
double layer_seconds(cards *k, const choice *c, int kind, int phase);

/* What a set of modules drops in the prediction module: full recompute leaves it as it is. */
unsigned drop_of_module(unsigned drop);

/* A chunk is the sum of its parts. */
typedef struct chunk_sum {
    int64_t saved;
    double seconds[2];
} chunk_sum;
chunk_sum chunk_sum_of(const part_sums *p, const chunk_mix *m);

/* Saved bytes of a rank: packed exactly as the plan does; those that live at once, from the same
 * walk; or a bound from below that takes no time. `chunks`: saved bytes of each chunk. */
typedef struct slots_of {
    const choice *c;
    const step_shape *z;
    const layout_facts *f;
    cards *k;
    const part_sums *sums;
    int64_t rank;
} slots_of;
int64_t saved_least(const slots_of *s, const int64_t *chunks);
int64_t saved_packed(const slots_of *s, arena *scratch);
int64_t saved_alive(const slots_of *s, arena *scratch);

/* Most activations at once under Megatron, as program_live finds them; and most layers in
 * flight. */
live_level live_exact(const slots_of *s, arena *scratch);
int64_t layers_exact(const slots_of *s, arena *scratch);

/* The same from below: with what the parts of a stage save, and the logits. */
int64_t live_least(const slots_of *s, const int64_t *chunks);

/* The same before cards are built: without offload and combined 1F1B what it will be. */
live_level live_light(const slots_of *s, const int64_t *chunks, arena *scratch);

/* Temporaries and workspace of a rank: from below, and as they are. `scratch` is not the cards'
 * arena: some are made here. */
int64_t temp_least(const slots_of *s, arena *scratch);
int64_t temp_bytes(const slots_of *s, arena *scratch);

#endif
