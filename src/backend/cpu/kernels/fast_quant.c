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
    blas_operands p = blas_forward(c.a, c.b, out[OUT_QGEMM_y], a.z.rows, b.z.rows, a.z.cols);
    p.add = o->kind == OP_QGEMM_W ? !(o->flags & OVERWRITE) : (o->flags & ACCUMULATE) != 0;
    blas_gemm(&p);
}

static void grouped(const op *o, void *const *in, void *const *out)
{
    const int32_t *offsets = in[IN_QGROUPED_offsets]; /* [E+1] */
    int64_t room = o->dim[DIM_QGROUPED_ROOM], E = o->dim[DIM_QGROUPED_E], n = 0;
    float *y = out[OUT_QGROUPED_y]; /* [ROOM][n] */
    copies c = copies_of(o);
    for (int64_t e = 0; e < E; e++) {
        quant_view a = quant_view_a(o, in, e), b = quant_view_b(o, in, e);
        span s = expert_rows(offsets, e, room);
        n = b.z.rows;
        if (s.begin == s.end) continue;
        float *w = c.b + e * n * b.z.cols;
        widen(&a, s, (span){0, a.z.cols}, c.a);
        widen(&b, (span){0, n}, (span){0, b.z.cols}, w);
        blas_operands p = blas_forward(c.a + s.begin * a.z.cols, w, y + s.begin * n,
                                       s.end - s.begin, n, a.z.cols);
        blas_gemm(&p);
    }
    int64_t end = offsets[E] < room ? offsets[E] : room;
    memset(y + end * n, 0, (size_t)((room - end) * n) * sizeof *y);
}

static void grouped_w(const op *o, void *const *in, void *const *out)
{
    const int32_t *offsets = in[IN_QGROUPED_W_offsets]; /* [E+1] */
    int64_t room = o->dim[DIM_QGROUPED_W_ROOM], E = o->dim[DIM_QGROUPED_W_E];
    bool overwrites = o->flags & OVERWRITE;
    copies c = copies_of(o);
    for (int64_t e = 0; e < E; e++) {
        quant_view a = quant_view_a(o, in, e), b = quant_view_b(o, in, e);
        span s = expert_rows(offsets, e, room);
        int64_t n = a.z.rows, k = b.z.rows;
        float *dw = (float *)out[OUT_QGROUPED_W_dw] + e * n * k; /* [N][K] */
        if (s.begin == s.end && overwrites) memset(dw, 0, (size_t)(n * k) * sizeof *dw);
        if (s.begin == s.end) continue;
        widen(&a, (span){0, n}, s, c.a);
        widen(&b, (span){0, k}, s, c.b);
        blas_operands p = blas_forward(c.a + s.begin, c.b + s.begin, dw, n, k, s.end - s.begin);
        p.lda = p.ldb = room;
        p.add = !overwrites;
        blas_gemm(&p);
    }
}

kernel_rows fast_quant(void)
{
    static const kernel rows[] = {
        {OP_QGEMM, "openblas", library_takes, .run = gemm},
        {OP_QGEMM_D, "openblas", library_takes, .run = gemm},
        {OP_QGEMM_W, "openblas", library_takes, .run = gemm},
        {OP_QGROUPED, "openblas", library_takes, .run = grouped},
        {OP_QGROUPED_D, "openblas", library_takes, .run = grouped},
        {OP_QGROUPED_W, "openblas", library_takes, .run = grouped_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}
