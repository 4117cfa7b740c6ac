/* fast_dense.c - GEMMs through OpenBLAS, and the table of all fast_dense*.c. */
#include "backend/cpu/kernels/fast_dense.h"

#include <limits.h>

#include "base/maths.h"
#include "backend/cpu/kernels/blas.h"
#include "op/op_operands.h"

/* ---- sharing */

void share(span_work work, const call *c, int64_t n, int64_t grain)
{
    const int64_t n_spans = ceil_div(n, grain);
#pragma omp parallel for schedule(static) if (n_spans > 1)
    for (int64_t i = 0; i < n_spans; i++)
        work(c, i * grain, (i + 1) * grain < n ? (i + 1) * grain : n);
}

void share_rows(span_work work, const call *c, int64_t n, int64_t width)
{
    enum { NUMBERS = 8192 };
    share(work, c, n, width < NUMBERS ? NUMBERS / (width > 0 ? width : 1) : 1);
}

/* ---- GEMMs */

bool library_takes(const op *o, const op_types *t)
{
    (void)t;
    for (int i = 0; i < 3; i++)
        if (o->dim[i] > INT_MAX) return false;
    return blas_ready();
}

static void fast_gemm(const op *o, void *const *in, void *const *out)
{
    const op_gemm a = op_gemm_of(o, in, out);
    blas_operands p = blas_forward(a.x, a.w, a.y, a.M, a.N, a.K);
    p.add = o->flags & ACCUMULATE;
    blas_gemm(&p);
}

static void fast_gemm_d(const op *o, void *const *in, void *const *out)
{
    const op_gemm_d a = op_gemm_d_of(o, in, out);
    blas_operands p = blas_data(a.dy, a.w, a.dx, a.M, a.N, a.K);
    p.add = o->flags & ACCUMULATE;
    blas_gemm(&p);
}

static void fast_gemm_w(const op *o, void *const *in, void *const *out)
{
    const op_gemm_w a = op_gemm_w_of(o, in, out);
    blas_operands p = blas_weight(a.dy, a.x, a.dw, a.M, a.N, a.K);
    p.add = !(o->flags & OVERWRITE);
    blas_gemm(&p);
}

static void fast_head_logits(const op *o, void *const *in, void *const *out)
{
    const op_head_logits a = op_head_logits_of(o, in, out);
    blas_operands p = blas_forward(a.x, a.w, a.logits, a.T, a.V, a.H);
    blas_gemm(&p);
}

/* ---- the table */

static const kernel own_rows[] = {
    {OP_GEMM, "openblas", .accepts = library_takes, .run = fast_gemm},
    {OP_GEMM_D, "openblas", .accepts = library_takes, .run = fast_gemm_d},
    {OP_GEMM_W, "openblas", .accepts = library_takes, .run = fast_gemm_w},
    {OP_HEAD_LOGITS, "openblas", .accepts = library_takes, .run = fast_head_logits},
};

kernel_rows fast_dense(void)
{
    enum { ROOM = 64 };
    static kernel rows[ROOM];
    const kernel_rows parts[] = {{own_rows, sizeof own_rows / sizeof own_rows[0]},
                                 fast_dense_rows(),
                                 fast_dense_maps(),
                                 fast_dense_heads(),
                                 fast_dense_loss()};
    return kernel_rows_joined(rows, ROOM, parts, sizeof parts / sizeof parts[0]);
}
