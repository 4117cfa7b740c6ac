/* cuda_rows.h - the GPU's rows: one plain kernel of ours for every kind that is no message, and
 * fast ones for what takes the time.
 *
 * C1  A row may be launched on any stream, and captured into a graph. It allocates nothing, waits
 *     for nothing and reads no operand on the host: counts that the program computes stay in device
 *     memory, so launches are made for the room and blocks without work leave.
 * C2  The same call gives the same bits: sums have a fixed order and no float is added atomically.
 * C3  Numbers are FP32 or BF16, each tensor by itself; sums and everything in between are FP32.
 *     Gradients of weights that are not GEMMs are FP32 always.
 * C4  Indices have 64 bits. No kernel has a stack: one with 4 KiB of it would reserve 792 MiB.
 *
 * The header is C; only the .cu files see CUDA. */
#ifndef BACKEND_CUDA_KERNELS_CUDA_ROWS_H
#define BACKEND_CUDA_KERNELS_CUDA_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All rows, plain ones first; valid for ever. Every row has an `accepts`. kernel_pick chooses. */
const kernel *kernels_cuda(int *n);

/* Before any row is prepared: where the host's rows are (kernels_cpu), which HOST_ADAMW runs. */
void kernels_cuda_host(const kernel *(*rows)(int *n));

/* ---- for rows: what accepts() is made of */

/* Formats of ops.def, and numbers FP32 or BF16 (copies to and from the host, and zeros: any). */
bool cuda_types_fit(const op *o, const op_types *t);

/* cuda_types_fit, and the first n_in inputs and n_out outputs are there, in BF16. */
bool all_bf16(const op *o, const op_types *t, int n_in, int n_out);

/* Is output i FP32, or not there? */
bool is_wide(const op *o, const op_types *t, int i);

/* cuda_types_fit, and outputs 0 and 1 are FP32: for kinds that add to those. */
bool sums_wide(const op *o, const op_types *t);

#ifdef __cplusplus
}
#endif

#endif
