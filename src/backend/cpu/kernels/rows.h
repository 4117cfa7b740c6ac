/* rows.h - where the CPU's rows come from: each file of kernels gives a table of its own. */
#ifndef BACKEND_CPU_KERNELS_ROWS_H
#define BACKEND_CPU_KERNELS_ROWS_H

#include "backend/kernels/kernels.h"

typedef struct kernel_rows {
    const kernel *rows;
    int n;
} kernel_rows;

/* The tables of several files as one, in `room` of n rows. */
kernel_rows kernel_rows_joined(kernel *room, int n, const kernel_rows *parts, size_t n_parts);

/* Plain rows. */
kernel_rows plain_dense(void);
kernel_rows plain_attention(void);
kernel_rows plain_moe(void);
kernel_rows plain_gdn(void);
kernel_rows plain_move(void);
kernel_rows plain_layer(void);
kernel_rows plain_update(void);
kernel_rows plain_quant(void);
kernel_rows plain_fused(void);

/* Fast rows. */
kernel_rows fast_dense(void);
kernel_rows fast_attention(void);
kernel_rows fast_moe(void);
kernel_rows fast_gdn(void);
kernel_rows fast_move(void);
kernel_rows fast_quant(void);
kernel_rows fast_fused(void);

#endif
