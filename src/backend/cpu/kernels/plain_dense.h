/* plain_dense.h - the parts of the table that plain_dense() gives. */
#ifndef BACKEND_CPU_KERNELS_PLAIN_DENSE_H
#define BACKEND_CPU_KERNELS_PLAIN_DENSE_H

/* A test builds the plain_dense*.c a second time, for double, and links both. */
#ifdef REAL_DOUBLE
#define plain_dense       plain_dense_double
#define plain_dense_maps  plain_dense_maps_double
#define plain_dense_heads plain_dense_heads_double
#define plain_dense_loss  plain_dense_loss_double
#endif

#include "backend/cpu/kernels/rows.h"

kernel_rows plain_dense_maps(void);
kernel_rows plain_dense_heads(void);
kernel_rows plain_dense_loss(void);

#endif
