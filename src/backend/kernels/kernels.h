/* kernels.h - implementations of operations: one table a device.
 *
 * A row says which kind it implements, whether it accepts an operation's sizes and formats, and
 * launches it on addresses. Row 0 of each kind is plain C on the CPU, the oracle of every test; a
 * later row is preferred where it accepts.
 *
 * K1  A launch allocates nothing, waits for nothing on the host and reads no operand there: it may
 *     be captured into a graph. On the CPU it is done when it returns.
 * K2  The same call gives the same bits: sums have a fixed order, for any number of threads.
 * K3  What a row needs beside the operation's buffers is its workspace, whose content lasts for one
 *     call. Its size is that of the target's formula (ir/target.h): the planner has no rows.
 * K4  What a row keeps between calls (a library's plan, places of copies) is its state, made once.
 *
 * The header is C; .cu files include it, too. */
#ifndef BACKEND_KERNELS_KERNELS_H
#define BACKEND_KERNELS_KERNELS_H

#include <stddef.h>

#include "base/status.h"
#include "op/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kernel kernel;

/* One launch. in[i], out[i] are the addresses of op.in[i], op.out[i] in the device's memory (of
 * copies to and from the host one side is pinned host memory); NULL where the op has -1. */
typedef struct kernel_call {
    const kernel *row;
    const op *o;
    const op_types *types;
    void *const *in, *const *out; /* [OP_IN_MAX], [OP_OUT_MAX] */
    void *workspace;
    void *stream; /* the device's own: a cudaStream_t; NULL on the CPU */
    void *state;  /* what prepare made, or NULL */
} kernel_call;

/* A function of the CPU on FP32 operands: the CPU's rows name one, and what launches it is the same
 * for all (cpu/launch.h). */
typedef void (*kernel_run)(const op *o, void *const *in, void *const *out);

struct kernel {
    op_kind kind;
    const char *name;                                /* "plain", "openblas", "blocks" */
    bool (*accepts)(const op *o, const op_types *t); /* NULL: always */
    status (*prepare)(const op *o, const op_types *t, void **state, error *err); /* once, before the
                                                                                  * first launch;
                                                                                  * NULL: nothing */
    void (*release)(void *state);                         /* NULL: nothing to release */
    int64_t (*workspace)(const op *o, const op_types *t); /* bytes; NULL: none */
    void (*launch)(const kernel_call *c);
    kernel_run run; /* of the CPU's rows; NULL elsewhere */
};

/* The CPU's rows: all plain ones first, then fast ones. */
const kernel *kernels_cpu(int *n);

/* The row to use: the last that accepts, or row 0 with `plain_only`. NULL: no such kind. `t` may be
 * NULL: FP32 everywhere. */
const kernel *kernel_pick(const kernel *table, int n, const op *o, const op_types *t,
                          bool plain_only);

/* Bytes of workspace that the row wants. */
int64_t kernel_workspace_of(const kernel *k, const op *o, const op_types *t);

/* ---- the CPU's */

/* Threads of the CPU's kernels. To be called by the thread that will run them, before the first
 * step: it also makes the matrix library take the memory that it keeps. */
void kernels_threads(int n);

/* Bytes beside its buffers that any `run` of this operation may use; mostly 0. A launch lends them
 * from its workspace; who calls `run` by itself lends them with kernels_workspace. */
size_t kernel_workspace_bytes(const op *o);

/* Lends `bytes` at `p` to the kernels that the calling thread runs, as many as the neediest
 * operation wants. They stay the caller's and must stay in place until others are lent. */
void kernels_workspace(void *p, size_t bytes);

/* For kernels, in the thread that was called: the workspace, which must have been lent with at
 * least that many bytes. */
void *kernel_workspace(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
