/* harness.h - one operation on tensors of its own: row against row, threads, differences.
 *
 * A test includes harness.c after cmocka.h. A tensor keeps what it holds before a run (`start`), so
 * that a case can be run again and again, by any row. Every tensor is an allocation of its own: the
 * sanitizer sees each edge. */
#ifndef TESTS_KERNELS_HARNESS_H
#define TESTS_KERNELS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/kernels/kernels.h"

typedef enum number { F32, F64, I32 } number;

typedef struct tensor {
    number type;
    int64_t n;
    void *start;    /* [n] before a run; NULL: missing */
    void *data;     /* [n] what a row gets */
    double *weight; /* [n] outputs: gradient that flows in; NULL: nothing flows in */
    bool borrowed;  /* data is an input's: in place */
} tensor;

typedef struct test_case {
    op o;
    number real; /* F32, or F64 for row 0 in double */
    uint64_t random;
    tensor in[OP_IN_MAX], out[OP_OUT_MAX];
} test_case;

void case_init(test_case *c, op_kind kind, number real, const int64_t *dims, int n_dims);
void case_release(test_case *c);

/* A tensor of the case with random numbers in -1 .. 1, or ids in low .. high-1. */
void case_reals(test_case *c, tensor *t, int64_t n);
void case_ids(test_case *c, tensor *t, int64_t n, int low, int high);
void case_weights(test_case *c, tensor *out); /* random, in -1 .. 1 */

/* A tensor with the numbers given; with NULL zeros. Only for cases in F64. */
void case_given(test_case *c, tensor *t, int64_t n, const double *values);

/* The output is the input's buffer. */
void case_in_place(test_case *c, int out, int in);

/* Puts every tensor to its start and runs. */
void case_run(test_case *c, kernel_run run);

/* The largest relative error by norm of any output: `run` against row 0. */
double case_error(test_case *c, kernel_run plain, kernel_run run);

/* Do 1, 2 and 3 threads give the same bits? */
bool case_threads_agree(test_case *c, kernel_run run);

/* Relative error by norm of `gradient` [by->n], against central differences of the sum over outputs
 * of weight * output; `by` is an input or what an output holds at the start. F64. */
double case_gradient_error(test_case *c, kernel_run forward, tensor *by, const double *gradient);

/* |a - b| / |b| by Euclidean norm; |a| where b is zero. */
double relative_error(const double *a, const double *b, int64_t n);

/* The row of a kind, NULL if there is none. */
const kernel *row_of(kernel_rows rows, op_kind kind);

#endif
