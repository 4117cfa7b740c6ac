/* plain_quant.h - a quantised matrix as the CPU reads it. */
#ifndef BACKEND_CPU_KERNELS_PLAIN_QUANT_H
#define BACKEND_CPU_KERNELS_PLAIN_QUANT_H

#include "backend/kernels/kernels.h"
#include "op/quant.h"

typedef struct quant_view {
    quant_shape z;
    dtype type;
    const uint8_t *codes; /* [rows][cols] */
    const void *scales;   /* or none */
    const float *factor;  /* [1] or none */
} quant_view;

/* The operands of a quantised GEMM; of expert e where it has several. */
quant_view quant_view_a(const op *o, void *const *in, int64_t e);
quant_view quant_view_b(const op *o, void *const *in, int64_t e);

/* n elements of row i from column j on, as FP32. */
void quant_read(const quant_view *v, int64_t i, int64_t j, int64_t n, float *out);

#endif
