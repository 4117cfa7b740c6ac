/* fast_attention_lanes.h - small GEMMs and exponentials of attention and the gated delta rule.
 *
 * Both spend their time in GEMMs of blocks that fit into the nearest caches, and attention in
 * one exponential a score besides. A library packs and checks for longer than such a block takes,
 * so these are ours: C on compiler vectors, compiled once for each instruction set. What comes out
 * depends on the set, never on threads.
 *
 * "Lanes" are the numbers that one instruction works on. Attention lays queries along them: the
 * maximum and the sum over keys are then plain vector operations, keys and values are read number
 * by number where they lie, and nothing but queries and outputs is ever turned round. */
#ifndef BACKEND_CPU_KERNELS_FAST_ATTENTION_LANES_H
#define BACKEND_CPU_KERNELS_FAST_ATTENTION_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Queries of a block, and the widest vector of any set: rows of scratch are multiples of it, so
 * that a GEMM may read whole vectors. */
enum { LANES_BLOCK = 64, LANES_MAX = 16 };

static inline int64_t lanes_round(int64_t n)
{
    return (n + LANES_MAX - 1) / LANES_MAX * LANES_MAX;
}

/* c[m][n] = a[m][k] b[k][n], or += with `add`. a may lie either way round: (i, p) is at
 * a[i * a_row + p * a_col]. Rows of b are read up to lanes_round(n); of c only n are written. */
typedef struct gemm {
    int64_t m, n, k;
    const float *a; /* [m][k] */
    int64_t a_row, a_col;
    const float *b; /* [k][b_row] */
    int64_t b_row;
    float *c; /* [m][c_row] */
    int64_t c_row;
    bool add;
} gemm;

/* A block of scores for LANES_BLOCK queries; scores are in units of ln 2. */
typedef struct score_block {
    int64_t n_keys;
    float *s;           /* [n_keys][LANES_BLOCK]: scores, then weights */
    float *top, *sum;   /* [LANES_BLOCK]: forward: largest score and sum of weights so far */
    float *shrink;      /* [LANES_BLOCK]: forward: what earlier sums have to be multiplied by */
    float *ds;          /* [n_keys][LANES_BLOCK]: backward: gradients by weights, then by scores */
    const float *lse;   /* [LANES_BLOCK]: backward */
    const float *delta; /* [LANES_BLOCK]: backward: do . o */
} score_block;

typedef struct lanes {
    const char *name;
    bool (*works)(void); /* on this processor */
    void (*gemm)(const gemm *p);
    /* weights = 2^(s - top), with top, sum and shrink brought up to date */
    void (*weigh)(const score_block *b);
    /* weights = 2^(s - lse), ds = weights * (ds - delta) */
    void (*weigh_d)(const score_block *b);
    /* x[n_rows][LANES_BLOCK] *= by[LANES_BLOCK] */
    void (*scale_columns)(float *x, int64_t n_rows, const float *by);
    float (*dot)(const float *x, const float *y, int64_t n);
    /* y[n] += by * x[n] */
    void (*add_scaled)(float *y, const float *x, float by, int64_t n);
    void (*exp)(float *y, const float *x, int64_t n);  /* y[n] = e^x[n]; y may be x */
    void (*silu)(float *y, const float *x, int64_t n); /* y[n] = x / (1 + e^-x); y may be x */
    /* dx[n] = dy * d silu(x) / dx; dx may be dy or x */
    void (*silu_d)(float *dx, const float *dy, const float *x, int64_t n);
} lanes;

/* The best instruction set that this processor has. */
const lanes *lanes_best(void);

/* All that this processor has, for tests: the i-th, NULL past the last. */
const lanes *lanes_nth(int i);

/* y[n_cols][y_row] = by * x[n_rows][x_row] transposed, or += with `add`; columns of y from n_rows
 * to `pad` become zeros. */
typedef struct transposition {
    const float *x; /* [n_rows][x_row] */
    int64_t n_rows, n_cols, x_row;
    float *y; /* [n_cols][y_row] */
    int64_t y_row, pad;
    float by;
    bool add;
} transposition;

void lanes_transpose(const transposition *t);

#endif
