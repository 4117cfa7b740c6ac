/* card_parts.h - what cards.c, card_build.c and card_light.c share; nobody else includes it. */
#ifndef PLAN_CARD_PARTS_H
#define PLAN_CARD_PARTS_H

#include "ir/order.h"
#include "ir/segment.h"
#include "plan/cards.h"
#include "plan/search_memo.h"

typedef struct card_key {
    int16_t what, kind, other, cp_kind, to, overlap, precision, picks;
    int32_t tp, cp, mbs, ep, etp;
    uint32_t drop;
} card_key;

/* Where parts are built: a setup without graphs, and what it costs. */
typedef struct card_bench {
    choice c;
    bool ok;
    setup s;
    patch_log log;
    cost_model cost;
    builder b;
} card_bench;

/* A part as builders leave it: recompute is tried on copies of it. */
typedef struct known_part {
    choice c;
    arena *a;
    arena_place empty;
    segment seg;
} known_part;

/* Orders of the ranks of one pipeline: what is tried next often has the same. */
typedef struct known_orders {
    order_shape shape; /* of any rank */
    arena *a;
    arena_place empty;
    step_order *ranks;  /* list NULL: not made yet */
    order_meets *meets; /* alone NULL: not counted yet */
} known_orders;

typedef struct card_layer {
    const layer_kind *of;
    unsigned has;   /* a bit a block_kind */
    unsigned wide;  /* see wide_in (cards.c) */
    int64_t sample; /* a layer of this kind */
} card_layer;

struct cards {
    choice_maker *m;
    const hardware *hw;
    const price_options *o;
    arena *a, *scratch;
    card_layer kinds[LAYER_KINDS_MAX];
    int n_kinds;
    int *kind_of_layer;                /* [layers] */
    int half_kind[2][LAYER_KINDS_MAX]; /* the first kind with the same attention, the same MLP */
    bool offload;                      /* of activations: copies of one half run beside the other */
    const model *model;
    unsigned captured[SCOPES]; /* CAPTURED_ bits */
    card_bench *bench[3];      /* the last for parts without experts, with them, for pairs */
    known_part *parts[CARD_KINDS][LAYER_KINDS_MAX][OVERLAP_KINDS]; /* the last of each */
    known_orders orders[2]; /* without and with combined 1F1B */
    memo cards, lights;
    cost_model of_message;
    int64_t built;
};

/* Does this part depend on how experts are spread? */
bool card_has_experts(const cards *k, card_what what, int kind);

/* NULL: the choice cannot be made. Good until the next call. */
card_bench *card_set_up(cards *k, const choice *c, card_what what, int kind);

/* The part of this setup, without recompute; its buffers may be changed, its lists not. */
void card_part(cards *k, card_bench *w, segment *seg, card_what what, int kind);
pair_options card_pairing(const card_bench *w, const choice *c);

/* What operations cost under a scope of graphs; a whole iteration comes with fused experts and the
 * paged stash of what is not recomputed (search_choice.c). */
void card_set_scope(const cards *k, cost_model *c, graph_scope g, unsigned drop);

/* Built anew, with the key's recompute behind it. */
card *card_build(cards *k, const choice *c, const card_key *key);

/* The same without a memory plan, of a half or of a pair, and remembered. */
card_light *card_build_light(cards *k, const choice *c, card_key *key);
card_light *card_build_pair_light(cards *k, const choice *c, card_key *key);

#endif
