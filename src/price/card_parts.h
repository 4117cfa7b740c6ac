/* card_parts.h - what cards.c and card_build.c share; nobody else includes it. */
#ifndef PRICE_CARD_PARTS_H
#define PRICE_CARD_PARTS_H

#include "price/cards.h"
#include "price/search_memo.h"

typedef struct card_key {
    int16_t what, kind, other, cp_kind, to, beside, precision, tp_overlap;
    int32_t tp, cp, mbs, ep, etp;
    uint32_t drop;
} card_key;

struct cards {
    choice_maker *m;
    const hardware *hw;
    const price_options *o;
    arena *a, *scratch;
    unsigned char kinds[LAYER_KINDS_MAX]; /* layer_kind_bits */
    int64_t sample[LAYER_KINDS_MAX];      /* a layer of each */
    int n_kinds;
    bool offload; /* of activations: copies of one half run beside the other */
    const model *model;
    memo cards, lights;
    int64_t built;
};

/* Does this part depend on how experts are spread? */
bool card_has_experts(const cards *k, card_what what, int kind);

/* Built anew, with the key's recompute behind it. */
card *card_build(cards *k, const choice *c, const card_key *key);

/* The same for a half, and remembered. */
card_light *card_build_light(cards *k, const choice *c, card_key *key);

#endif
