/* quant_plan.h - what a recipe's FP8 or FP4 asks of a program of our own.
 *
 * A program for Megatron has plain GEMMs in every precision: its price knows what Transformer
 * Engine makes of them. One of our own has QUANTISE and quantised GEMMs (ops_quant.def), so that
 * their bytes are planned and used. */
#ifndef IR_QUANT_PLAN_H
#define IR_QUANT_PLAN_H

#include "model/model.h"
#include "op/quant.h"
#include "job/job.h"

typedef struct quant_plan {
    quant_form form;         /* QUANT_NONE: nothing is quantised */
    dtype forward, gradient; /* codes of inputs and weights; of gradients */
    bool weights;            /* are weight gradients quantised GEMMs, too? */
} quant_plan;

/* Of our own programs; those of Megatron quantise nothing. */
quant_plan quant_plan_of(const job *j);

/* Is this layer quantised, or one of those at the ends that stay wide? The prediction module's
 * (number n_layers) always is. */
bool quant_layer(const job *j, const model *m, int64_t layer);

/* The quantised copies of a weight [parts][n][k], one behind another: along k for forward, along n
 * for the data gradient. */
typedef struct quant_places {
    int64_t q, s, g, qt, st, bytes;
} quant_places;
quant_places quant_places_of(const quant_plan *p, int64_t parts, int64_t n, int64_t k);

#endif
