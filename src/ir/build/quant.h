/* quant.h - GEMMs whose operands are quantised, or plain ones: builders need not know which. */
#ifndef IR_BUILD_QUANT_H
#define IR_BUILD_QUANT_H

#include "ir/build/build.h"

/* Codes, scales and factor of one copy; NONE: not there. */
typedef struct quant_bufs {
    int q, s, g;
} quant_bufs;

/* Both copies of a matrix: along its columns, along its rows. */
typedef struct quant_copies {
    quant_bufs row, turned;
} quant_copies;

/* The gradient of a GEMM's result, as its other GEMMs take it. */
typedef struct gemm_dy {
    int dy;
    quant_copies copies;
} gemm_dy;

/* Rows of routed experts; E 0: a GEMM of all rows with one weight. */
typedef struct expert_shape {
    int64_t E;
    int offsets;
} expert_shape;

/* Which of a gradient's GEMMs are wanted. */
enum { FOR_DATA = 1, FOR_WEIGHT = 2 };

typedef struct gemm_ends {
    int64_t rows;
    int x, y;
} gemm_ends;

/* y[rows][n] = x[rows][k] W^T. Where x is only saved for the weight's gradient its copy along
 * tokens is, instead. */
op *gemm_forward(builder *b, int phase, const gemm *p, expert_shape e, gemm_ends at);
gemm_dy gemm_gradient(builder *b, const gemm *p, expert_shape e, int64_t rows, int dy,
                      unsigned wanted);
op *gemm_data(builder *b, const gemm *p, expert_shape e, int64_t rows, const gemm_dy *d, int dx);
op *gemm_weight(builder *b, const gemm *p, expert_shape e, int64_t rows, const gemm_dy *d, int x);

/* Rows at whose multiples experts start; 1: anywhere. */
int64_t expert_align(const builder *b);

/* The copies of a segment's weights, made once a step: a segment beside it. */
void build_copies(builder *b, segment *seg, const segment *of);

#endif
