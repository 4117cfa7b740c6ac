/* kernels.h - implementations of operations: one table a backend.
 *
 * A row says which kind it implements, whether it accepts an operation's sizes, and runs it on
 * addresses. Row 0 of each kind is plain C, the oracle of every test; a later row is preferred
 * where it accepts. Kernels allocate nothing, keep no state and use sums of fixed order: the same
 * call gives the same bits, for any number of threads. What they need beside an operation's buffers
 * is the workspace, which the planner sizes and the run lends; its content lasts for one call. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stddef.h>

#include "program/op.h"

/* in[i], out[i] are the addresses of op.in[i], op.out[i]; NULL where the op has -1. */
typedef void (*kernel_run)(const op *o, void *const *in, void *const *out);

typedef struct kernel {
    op_kind kind;
    const char *name;             /* "plain", "openblas", "blocks" */
    bool (*accepts)(const op *o); /* NULL: always */
    kernel_run run;
} kernel;

/* The CPU's rows: all plain ones first, then fast ones. */
const kernel *kernels_cpu(int *n);

/* The row to use: the last that accepts, or row 0 with `plain_only`. NULL: no such kind. */
const kernel *kernel_pick(const kernel *table, int n, const op *o, bool plain_only);

/* Threads of the CPU's kernels. To be called by the thread that will run them, before the first
 * step: it also makes the matrix library take the memory that it keeps. */
void kernels_threads(int n);

/* Bytes beside its buffers that any row of this operation may use; mostly 0. */
size_t kernel_workspace_bytes(const op *o);

/* Lends `bytes` at `p` to the kernels that the calling thread runs, as many as the neediest
 * operation wants. They stay the caller's and must stay in place until others are lent. */
void kernels_workspace(void *p, size_t bytes);

/* For kernels, in the thread that was called: the workspace, which must have been lent with at
 * least that many bytes. */
void *kernel_workspace(size_t bytes);

#endif
