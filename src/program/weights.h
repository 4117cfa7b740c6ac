/* weights.h - every weight of a rank and its place in the rank's flat arrays.
 *
 * The rank holds weights, gradients and optimizer state as arrays of the same shape: weight i
 * starts at element `offset` of each. Starts are multiples of 64 elements and the array ends at a
 * multiple of 128, as Megatron pads its buffers (facts about alignment are in layout/state.h, whose
 * totals these equal). Untrained buffers (the router's correction bias) stand behind all trained
 * weights and have no gradient.
 *
 * The list is in the order of the network: embedding, layers, head, prediction modules. */
#ifndef PROGRAM_WEIGHTS_H
#define PROGRAM_WEIGHTS_H

#include "layout/setup.h"

enum { WEIGHT_ALIGN_ELEMENTS = 64, WEIGHT_END_ELEMENTS = 128 };

typedef struct weight {
    const param *row;
    int64_t layer;  /* of the decoder, from n_layers on of a prediction module; else 0 */
    int64_t offset; /* elements from the start of the arrays */
    int64_t n;      /* elements on this rank */
} weight;

typedef struct weight_list {
    weight *list;
    int n;
    int64_t trained;  /* elements of the arrays that have gradients, padding included */
    int64_t elements; /* all, buffers included */
} weight_list;

/* For the whole model on one rank (later steps add shards and stages). Memory comes from `a`. */
void weight_list_init(weight_list *w, const setup *s, arena *a);

/* The weight of this row of the parameter table in this layer; NULL: not on this rank. */
const weight *weight_find(const weight_list *w, const param *row, int64_t layer);

/* In Megatron's words: "decoder.layers.3.self_attention.linear_qkv.weight". */
const char *weight_name(arena *a, const setup *s, const weight *w);

#endif
