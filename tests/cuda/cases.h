/* cases.h - which operations the GPU's rows are tried on. */
#ifndef TESTS_CUDA_CASES_H
#define TESTS_CUDA_CASES_H

#include "cuda/harness.h"

/* Tensors have the shapes of ops.def and random numbers; ids of words are from -1 to past the last.
 * Where sizes do not tell a shape, and for other integers, the filler makes the tensor. */
typedef struct shape {
    op_kind kind;
    double real[2];
    void (*fill)(trial *t); /* what random numbers are not good enough for; NULL: nothing */
} shape;

/* One operation to try. `without` names tensors that are missing ("i1 o3"). */
typedef struct sizes {
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    unsigned flags;
    const char *without; /* NULL: all are there */
    int in_place;        /* see trial */
    int way;             /* see trial */
} sizes;

typedef struct sizes_part {
    const sizes *list;
    int n;
} sizes_part;

sizes_part sizes_dense(void);
sizes_part sizes_attention(void);
sizes_part sizes_moe(void);
sizes_part sizes_update(void);
sizes_part sizes_fused(void);

const shape *shape_of(op_kind kind);
const sizes *all_sizes(int *n);

void trial_init(trial *t, const sizes *s);
void trial_release(trial *t);

/* Tensors of more than 2^31 numbers; how many cases are wrong. */
int check_large(void);

/* Operations of FP8 programs without a row, or without the fast one; needs no GPU. */
int wrong_programs(void);

/* Quantising and quantised products, which random bytes are no test of; and how long they take. */
int wrong_quantised(void);
int wrong_quantised_fused(void); /* kinds that end with QUANTISE, against their parts */
void time_quantised(void);

/* ---- fillers, by part */
void fill_wide(trial *t);       /* activations: numbers that reach past the clamps */
void fill_head_stats(trial *t); /* sums of exponentials are positive */
void fill_attention_d(trial *t);
void fill_block(trial *t);
void fill_block_d(trial *t);
void fill_rule(trial *t);
void fill_rule_d(trial *t);
void fill_router(trial *t);
void fill_router_d(trial *t);
void fill_counts(trial *t);
void fill_choice(trial *t); /* DROP, LOAD, SORT */
void fill_permute(trial *t);
void fill_grouped(trial *t);
void fill_route(trial *t);
void fill_flex(trial *t);
void fill_demand(trial *t);
void fill_update(
    trial *t); /* SQUARES, ADAMW: a table of weights; way 1: a step that is not taken */
void fill_tally(trial *t);
void fill_verdict(trial *t); /* VERDICT, BIAS_UPDATE */

#endif
