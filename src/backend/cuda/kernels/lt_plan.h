/* lt_plan.h - a plan from inside: for lt.c and lt_tune.c. */
#ifndef BACKEND_CUDA_KERNELS_LT_PLAN_H
#define BACKEND_CUDA_KERNELS_LT_PLAN_H

#include <cublasLt.h>

#include "backend/cuda/kernels/lt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lt_plan {
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t first, second, result; /* as cuBLAS sees them: columns first */
    cublasLtMatmulAlgo_t algo;
    float beta;
    bool by_factors;  /* L4 */
    lt_scales scales; /* of the next launch */
};

/* What a product is multiplied by, and what is there (L4); each at a multiple of 16 bytes. */
typedef struct lt_factors {
    float alpha, unused[3], beta;
} lt_factors;

/* alpha: the product of both factors. */
void lt_put_factors(const lt_scales *s, float beta, lt_factors *to, void *stream);

/* Times p by each algorithm of `list` and makes the fastest that repeats its bits p->algo; the
 * first stays where nothing is faster by LT_GAIN. Fills tried, place, first_s and own_s of `u`,
 * whose shape is p's. ERR_MACHINE: no memory on the GPU, or it failed. */
#define LT_GAIN 0.01
status lt_tune(lt_plan *p, const cublasLtMatmulAlgo_t *list, int n, lt_use *u, error *err);

/* The sum of all 32-bit words of n bytes (a multiple of 2), whatever the order, into *sum on the
 * device. */
void lt_checksum(const void *data, int64_t bytes, unsigned long long *sum, void *stream);

#ifdef __cplusplus
}
#endif

#endif
