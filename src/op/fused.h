/* fused.h - which operations a fused kind stands for: forms, as its row in ops_fused.def says them.
 *
 * tools/op_names makes the table of enumerators: a name that no row has does not compile, and
 * nothing is parsed at run time. Three readers share it: the transformation (memory/fuse.c), which
 * looks for the parts in a list; rows of the CPU and plain rows of a GPU, which run the parts one
 * after another; and the planner, for what these rows need beside an operation's buffers. */
#ifndef OP_FUSED_H
#define OP_FUSED_H

#include "op/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fusions, as moefold.fusion names them: a bit FUSE_word each, and FUSIONS(F) is F(word) of all. */
#include "op/op_fusions.h"

static inline bool op_is_fused(op_kind k)
{
    return op_is(k, OF_PARTS);
}

/* Operands are numbered: inputs of the fused kind from 0, its outputs from OP_IN_MAX, and behind
 * them what is between its parts. */
enum {
    FUSED_BETWEEN = OP_IN_MAX + OP_OUT_MAX,
    FUSED_BETWEEN_MAX = 10,
    FUSED_OPERANDS = FUSED_BETWEEN + FUSED_BETWEEN_MAX,
    FUSED_PARTS_MAX = 12,
    FUSED_FACTORS = 3,
};

/* A product of sizes of the fused kind, and a number. */
typedef struct fused_size {
    int dim[FUSED_FACTORS], n;
    int64_t number;
} fused_size;

typedef struct fused_part {
    op_kind kind;
    int in[OP_IN_MAX], out[OP_OUT_MAX]; /* operands, -1: none */
    fused_size size[OP_DIM_MAX];
    int n_sizes;
} fused_part;

typedef struct fused_between {
    fused_size elements;
    int like, with; /* has the format of that operand; is there where this one is (-1: always) */
} fused_between;

typedef struct fused_form {
    op_kind kind;
    unsigned fusion; /* FUSE_; 0: it is not looked for */
    bool runs;       /* its kernels may run these parts, .. */
    int with;        /* .. where this operand is there; -1: always */
    fused_part parts[FUSED_PARTS_MAX];
    int n_parts;
    fused_between between[FUSED_BETWEEN_MAX];
    int n_between;
} fused_form;

/* All of them: the first of a kind that fits is the one. */
const fused_form *fused_forms(int *n);

/* The length of a part, given sizes of the fused kind. */
int64_t fused_size_of(const fused_size *z, const int64_t *dim);

/* A fused operation as its parts: operations whose `in` and `out` are operands as numbered above,
 * with formats and sizes, and what lies between them. `t` NULL: FP32 everywhere. */
typedef struct fused_steps {
    op ops[FUSED_PARTS_MAX];
    op_types types[FUSED_PARTS_MAX];
    int n;
    int64_t elements[FUSED_BETWEEN_MAX]; /* -1: it is not there */
    dtype type[FUSED_BETWEEN_MAX];
    int n_between;
} fused_steps;
void fused_expand(fused_steps *out, const op *o, const op_types *t);

/* Where each of those lies in a workspace, aligned; returns the bytes of all. */
int64_t fused_places(const fused_steps *f, int64_t at[FUSED_BETWEEN_MAX]);

#ifdef __cplusplus
}
#endif

#endif
