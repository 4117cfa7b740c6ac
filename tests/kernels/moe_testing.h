/* moe_testing.h - tensors, rows by kind, and row 0 once more in double. */
#ifndef TESTS_KERNELS_MOE_TESTING_H
#define TESTS_KERNELS_MOE_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/rows.h"

/* From here on `real` and row 0's own functions are for double; plain_moe() stays float's. */
kernel_rows plain_moe_double(void);
#define REAL_DOUBLE
#define plain_moe plain_moe_double
#include "backend/cpu/kernels/plain_moe_choice.c"
#include "backend/cpu/kernels/plain_moe_router.c"
#include "backend/cpu/kernels/plain_moe_loss.c"
#include "backend/cpu/kernels/plain_moe_dispatch.c"
#include "backend/cpu/kernels/plain_moe_grouped.c"
#include "backend/cpu/kernels/plain_moe_route.c"
#include "backend/cpu/kernels/plain_moe_flex.c"
#include "backend/cpu/kernels/plain_moe_meta.c"
#include "backend/cpu/kernels/plain_moe.c"
#undef plain_moe

/* Every tensor is an allocation of its own, so that the sanitizer sees each edge. */
typedef struct pool {
    void *taken[512];
    int n;
    uint64_t random;
} pool;

static inline void *pool_take(pool *p, size_t bytes)
{
    if (p->n == sizeof p->taken / sizeof p->taken[0]) fail_msg("pool is full");
    void *x = calloc(1, bytes ? bytes : 1);
    if (!x) fail_msg("no memory");
    return p->taken[p->n++] = x;
}

static inline void pool_release(pool *p)
{
    while (p->n > 0) free(p->taken[--p->n]);
}

#define TAKE(p, type, n) ((type *)pool_take((p), sizeof(type) * (size_t)(n)))

/* Uniform in -1 .. 1. */
static inline double random_next(pool *p)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(p->random >> 11) * 0x1p-52 - 1;
}

static inline float *random_floats(pool *p, int64_t n, double scale)
{
    float *x = TAKE(p, float, n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(scale * random_next(p));
    return x;
}

static inline double *random_doubles(pool *p, int64_t n, double scale)
{
    double *x = TAKE(p, double, n);
    for (int64_t i = 0; i < n; i++) x[i] = scale * random_next(p);
    return x;
}

/* Addresses of an operation's inputs or outputs; the rest is NULL. */
#define LIST(...) ((void *[OP_IN_MAX]){__VA_ARGS__})

static inline const kernel *row_of(kernel_rows t, op_kind kind)
{
    for (int i = 0; i < t.n; i++)
        if (t.rows[i].kind == kind) return &t.rows[i];
    return NULL;
}

/* Fast rows, or row 0 of kinds that have no other. */
static inline void run(kernel_rows t, const op *o, void *const *in, void *const *out)
{
    const kernel *k = row_of(t, o->kind);
    if (!k) k = row_of(plain_moe(), o->kind);
    if (!k) fail_msg("kind %d has no row", (int)o->kind);
    if (k->accepts && !k->accepts(o, &(op_types){.in = {0}}))
        fail_msg("kind %d: %s refuses", (int)o->kind, k->name);
    k->run(o, in, out);
}

static inline double magnitude(double x)
{
    return x < 0 ? -x : x;
}

#endif
