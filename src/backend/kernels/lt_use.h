/* lt_use.h - the GEMMs that cuBLASLt computes, as devices report them to the program: which
 * algorithm each one uses, who chose it (the run, `bench` or the heuristic), and what tuning
 * gained.
 *
 * The header is C and knows nothing of CUDA; devices hand such lists on (device.h, GEMMs). */
#ifndef BACKEND_KERNELS_LT_USE_H
#define BACKEND_KERNELS_LT_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* How operands of 8 or 4 bits are scaled. Scales lie as op/quant.h has them; files of choices
 * have the numbers, so that new ones go behind. */
typedef enum lt_scaling {
    LT_UNSCALED, /* they have more bits */
    LT_FACTORS,  /* by one FP32 factor each */
    LT_SQUARES,  /* FP32: A for 128 elements of a row, B for squares of 128 x 128 */
    LT_ROWS,     /* FP32: both for 128 elements of a row */
    LT_MX,       /* E8M0: both for 32 elements of a row; Blackwell */
    LT_NV,       /* E4M3: both for 16 elements of a row, and by one FP32 factor each; Blackwell */
    LT_SCALINGS
} lt_scaling;

typedef struct lt_shape {
    int64_t m, n, k;
    bool a_turned, b_turned; /* stored as [k][m], [k][n] */
    dtype in, out;           /* BF16 and either, FP32 and FP32, or A in 8 or 4 bits and either */
    bool add;                /* to what is there */
    lt_scaling scaling;
    dtype in_b; /* of B, where operands are scaled */
} lt_shape;

/* Whose choice: the heuristic's, the run's own from before, the machine's (`bench`). */
typedef enum lt_source { LT_FIRST, LT_KEPT, LT_TUNED, LT_SOURCES } lt_source;

enum { LT_NAME = 64, LT_TRIED = 8 };

typedef struct lt_use {
    char name[LT_NAME]; /* of the operation that met it first */
    lt_shape shape;
    lt_source from;
    int place; /* of the algorithm in the heuristic's list, from 0; -1: not in its first LT_TRIED */
    int tried; /* algorithms timed by this process; 0: none was */
    double first_s, own_s; /* seconds of the heuristic's first and of the one that is used */
} lt_use;

#endif
