/* target.h - what programs for a kind of machine have in common: one row for each.
 *
 * A row is chosen by moefold.target and the GPU, never by where a program happens to run: a program
 * that was planned for a GPU keeps its buffers when the CPU's kernels run it. */
#ifndef IR_TARGET_H
#define IR_TARGET_H

#include "layout/setup.h"
#include "ir/segment.h"

typedef struct target_row {
    const char *name;
    bool widens;          /* kernels compute on FP32 copies of narrow operands, in the workspace */
    bool writes_first;    /* the first weight gradient of a step is written, and needs no zeros */
    bool wide_blocks;     /* blocks of attention are merged in FP32, and rounded once */
    unsigned can_fuse;    /* FUSE_ bits (fused.h) that its kernels have rows for */
    unsigned fusions;     /* those that are done where moefold.fusion does not say: they pay */
    int64_t logits_bytes; /* a chunk of the head has as many rows as these take in FP32 .. */
    int64_t logits_rows;  /* .. or, where this is not 0, so many */
    dtype logits;
    int64_t (*room)(const op *o, const op_types *t); /* workspace by formula; NULL: as below */
} target_row;

/* megatron: the program that Megatron would run, for its bytes and its time. Of our own programs
 * cpu is for CPUs and cuda-sm90 for Hopper; a rule refuses other GPUs. */
const target_row *target_row_of(const setup *s);
/* What the kernels of a device ask for, whatever they run. */
const target_row *target_row_cpu(void);
const target_row *target_row_cuda(void);

/* Rows of a chunk of logits of V columns, of `tokens` tokens. */
int64_t target_logits_rows(const target_row *t, int64_t V, int64_t tokens);

/* What an operation needs beside its buffers: places in a workspace of its own, in order. First the
 * kernel's, then, where the target widens, a copy of each narrow operand; an output that is also an
 * input has one. A target that does not widen multiplies codes as they are. */
enum { WORKSPACE_PARTS = 1 + OP_IN_MAX + OP_OUT_MAX, WORKSPACE_ALIGN = 64 };
typedef struct workspace_part {
    int64_t at, bytes;
    int in, out; /* the operand that is copied, or -1: of an input that is an output, both */
} workspace_part;
int workspace_parts(workspace_part out[WORKSPACE_PARTS], const target_row *t, const segment *seg,
                    const op *o);

/* The formula of GPUs (target_cuda.c): a bound for all rows of a kind. */
int64_t target_cuda_room(const op *o, const op_types *t);

/* Its bytes, at most. */
int64_t workspace_bytes(const target_row *t, const segment *seg, const op *o);

#endif
