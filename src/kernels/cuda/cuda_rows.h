/* cuda_rows.h - the GPU's rows: one plain kernel of ours for every kind that is no message.
 *
 * C1  A row may be launched on any stream, and captured into a graph. It allocates nothing, waits
 *     for nothing and reads no operand on the host: counts that the program computes stay in device
 *     memory, so launches are made for the room and blocks without work leave.
 * C2  The same call gives the same bits: sums have a fixed order and no float is added atomically.
 * C3  Numbers are FP32 or BF16, each tensor by itself; sums and everything in between are FP32.
 *     What ops.def keeps for long (statistics, scores, weights of experts, losses, gradients of
 *     weights) is FP32 always. A row's letters say which is which.
 * C4  Indices have 64 bits. No kernel has a stack: one with 4 KiB of it would reserve 792 MiB.
 *
 * The header is C; only the .cu files see CUDA. */
#ifndef KERNELS_CUDA_CUDA_ROWS_H
#define KERNELS_CUDA_CUDA_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "program/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch. Addresses are of device memory (COPY_OUT, COPY_IN: the host's side is pinned), NULL
 * where the operation has -1; the workspace is device memory, aligned to 256 bytes. */
typedef struct cuda_call {
    const op *o;
    const op_types *types;
    void *const *in, *const *out; /* [OP_IN_MAX], [OP_OUT_MAX] */
    void *workspace;
    void *stream; /* a cudaStream_t */
} cuda_call;

typedef struct cuda_row {
    op_kind kind;
    const char *name;
    const char *in, *out; /* a letter a tensor: n FP32 or BF16, f FP32, i int32, w any of these */
    void (*launch)(const cuda_call *c);
    int64_t (*workspace)(const op *o); /* bytes; NULL: none */
    bool (*fits)(const op *o);         /* NULL: any sizes */
} cuda_row;

/* All rows; valid for ever. */
const cuda_row *cuda_rows(int *n);

/* The row for an operation on tensors of these types, or NULL: nothing of ours can run it. */
const cuda_row *cuda_row_for(const op *o, const op_types *t);

/* Bytes of workspace that the row wants. */
int64_t cuda_row_workspace(const cuda_row *r, const op *o);

#ifdef __cplusplus
}
#endif

#endif
