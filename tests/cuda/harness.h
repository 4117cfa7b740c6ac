/* harness.h - one operation on tensors of its own, on the CPU by row 0 and on the GPU.
 *
 * A tensor is made as floats (or int32) on the host. For a run each gets a format; what is BF16 is
 * rounded first, so that both sides start from the same numbers. */
#ifndef TESTS_CUDA_HARNESS_H
#define TESTS_CUDA_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cuda/kernels/cuda_rows.h"

typedef struct tensor {
    int64_t n;
    bool ints, doubles;
    union { /* NULL: missing */
        void *start;
        float *f;
        int32_t *i;
        double *d;
    };
} tensor;

typedef struct trial {
    op o;
    const kernel *row;
    tensor in[OP_IN_MAX], out[OP_OUT_MAX];
    int in_place; /* output 0 is the buffer of this input, plus 1; 0: of its own */
    int way;      /* for whoever fills the tensors */
    uint64_t random;
} trial;

/* Formats of the numbers that ops.def leaves open. */
typedef enum formats { ALL_FP32, ALL_BF16, MIXED, WIDE_RESULTS, N_FORMATS } formats;

extern const char *const format_names[N_FORMATS];

double next_random(trial *t); /* -1 .. 1 */
int64_t next_below(trial *t, int64_t n);

/* A tensor of n random numbers, or of zeros to be filled. */
void tensor_reals(trial *t, tensor *x, int64_t n);
void tensor_ints(tensor *x, int64_t n);
void tensor_doubles(trial *t, tensor *x, int64_t n);
void tensor_release(tensor *x);
void tensor_scale(tensor *x, double by, double plus);

/* Runs row 0 of the CPU on the starts of the tensors themselves: to make inputs of gradients. */
void oracle(const op *o, void *const *in, void *const *out);

/* `exact`: a tensor's allocation ends where it ends, for the memory checker; else bytes behind are
 * looked at. `once`: one run, for slow checkers; else a second and a captured one give the same
 * bits. `bits` prints what the results hash to, for whoever compares two builds. */
typedef struct manner {
    bool exact, once, bits;
} manner;

/* Does the trial's row take it in these formats? Where a row wants an output in FP32, it gets
 * it. */
bool trial_is_taken(trial *t, formats f);

/* Does the planner's formula have room for the row's workspace? Says so where it has not. */
bool trial_is_planned(trial *t, formats f);

/* Runs on both sides and says what is wrong, in `text`; true: nothing. */
bool trial_check(trial *t, formats f, const manner *how, char *text, int room);

#endif
