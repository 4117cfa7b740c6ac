/* fast_quant.c - quantised GEMMs through OpenBLAS, on FP32 copies of both operands.
 *
 * Q1  Codes times power-of-two scales are exact in FP32; with the factor of a tensor an element is
 *     rounded once more. Sums are FP32.
 * Q2  Copies lie in the workspace: a, then b of every expert. */
#include <limits.h>
#include <string.h>

#include "backend/cpu/kernels/blas.h"
#include "backend/cpu/kernels/plain_moe.h"
#include "backend/cpu/kernels/plain_quant.h"
#include "op/op_operands.h"

static bool library_takes(const op *o, const op_types *t)
{
    (void)t;
    for (int i = 0; i < 4; i++)
        if (o->dim[i] > INT_MAX) return false;
    return blas_ready();
}

/* Rows or columns of a matrix. */
static void widen(const quant_view *v, span rows, span columns, float *out)
{
    int64_t n = columns.end - columns.begin;
#pragma omp parallel for schedule(static)
    for (int64_t i = rows.begin; i < rows.end; i++)
        quant_read(v, i, columns.begin, n, out + i * v->z.cols + columns.begin);
}

typedef struct copies {
    float *a, *b;
} copies;

static copies copies_of(const op *o)
{
    quant_pair p = quant_pair_of(o);
    float *a = kernel_workspace((size_t)quant_gemm_room(o));
    return (copies){a, a + p.a.rows * p.a.cols};
}

static void gemm(const op *o, void *const *in, void *const *out)
{
    quant_view a = quant_view_a(o, in, 0), b = quant_view_b(o, in, 0);
    copies c = copies_of(o);
    widen(&a, (span){0, a.z.rows}, (span){0, a.z.cols}, c.a);
    widen(&b, (span){0, b.z.rows}, (span){0, b.z.cols}, c.b);
    blas_operands p =
        blas_forward(c.a, c.b, op_qgemm_of(o, in, out).y, a.z.rows, b.z.rows, a.z.cols);
    p.add = o->kind == OP_QGEMM_W ? !(o->flags & OVERWRITE) : (o->flags & ACCUMULATE) != 0;
    blas_gemm(&p);
}

static void grouped(const op *o, void *const *in, void *const *out)
{
    const op_qgrouped x = op_qgrouped_of(o, in, out); /* QGROUPED_D's operands stand alike */
    int64_t n = 0;
    float *y = x.y; /* [ROOM][n] */
    copies c = copies_of(o);
    for (int64_t e = 0; e < x.E; e++) {
        quant_view a = quant_view_a(o, in, e), b = quant_view_b(o, in, e);
        span s = expert_rows(x.offsets, e, x.ROOM);
        n = b.z.rows;
        if (s.begin == s.end) continue;
        float *w = c.b + e * n * b.z.cols;
        widen(&a, s, (span){0, a.z.cols}, c.a);
        widen(&b, (span){0, n}, (span){0, b.z.cols}, w);
        blas_operands p = blas_forward(c.a + s.begin * a.z.cols, w, y + s.begin * n,
                                       s.end - s.begin, n, a.z.cols);
        blas_gemm(&p);
    }
    int64_t end = x.offsets[x.E] < x.ROOM ? x.offsets[x.E] : x.ROOM;
    memset(y + end * n, 0, (size_t)((x.ROOM - end) * n) * sizeof *y);
}

static void grouped_w(const op *o, void *const *in, void *const *out)
{
    const op_qgrouped_w x = op_qgrouped_w_of(o, in, out);
    bool overwrites = o->flags & OVERWRITE;
    copies c = copies_of(o);
    for (int64_t e = 0; e < x.E; e++) {
        quant_view a = quant_view_a(o, in, e), b = quant_view_b(o, in, e);
        span s = expert_rows(x.offsets, e, x.ROOM);
        int64_t n = a.z.rows, k = b.z.rows;
        float *dw = (float *)x.dw + e * n * k; /* [N][K] */
        if (s.begin == s.end && overwrites) memset(dw, 0, (size_t)(n * k) * sizeof *dw);
        if (s.begin == s.end) continue;
        widen(&a, (span){0, n}, s, c.a);
        widen(&b, (span){0, k}, s, c.b);
        blas_operands p = blas_forward(c.a + s.begin, c.b + s.begin, dw, n, k, s.end - s.begin);
        p.lda = p.ldb = x.ROOM;
        p.add = !overwrites;
        blas_gemm(&p);
    }
}

kernel_rows fast_quant(void)
{
    static const kernel rows[] = {
        {OP_QGEMM, "openblas", .accepts = library_takes, .run = gemm},
        {OP_QGEMM_D, "openblas", .accepts = library_takes, .run = gemm},
        {OP_QGEMM_W, "openblas", .accepts = library_takes, .run = gemm},
        {OP_QGROUPED, "openblas", .accepts = library_takes, .run = grouped},
        {OP_QGROUPED_D, "openblas", .accepts = library_takes, .run = grouped},
        {OP_QGROUPED_W, "openblas", .accepts = library_takes, .run = grouped_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}
