/* fast_gemm.cu - dense GEMMs by cuBLASLt, where our own kernel is not the faster one.
 *
 * The gradient of a router's scores is FP32 and what it is multiplied with BF16, which no library
 * takes. Such a dy is cut in two BF16 numbers, dy = high + low with 16 bits of mantissa together,
 * and both are multiplied: in dx = dy w as one GEMM over twice as many columns, in dw = dy^T x
 * one after the other, added in FP32. */
#include "backend/cuda/kernels/fast_wgmma.cuh"
#include "backend/cuda/kernels/lt.h"

/* ---- which */

/* Rows of K numbers begin at multiples of 16 bytes; a router may have any even number of
 * experts. */
static bool aligned(const op *o, int64_t to)
{
    const int64_t m = o->dim[DIM_GEMM_M], n = o->dim[DIM_GEMM_N], k = o->dim[DIM_GEMM_K];
    return m > 0 && n > 1 && k > 0 && n % 2 == 0 && k % to == 0;
}

static bool takes_alike(const op *o, const op_types *t)
{
    if (!cuda_types_fit(o, t) || t->in[0] != t->in[1]) return false;
    if (wgmma_takes(o, t) && wgmma_fills(o)) return false; /* is faster */
    return t->in[0] == DTYPE_BF16 ? aligned(o, 8) : t->out[0] == DTYPE_F32 && aligned(o, 4);
}

enum { SPLIT_MOST = 1024 }; /* columns of dy: a copy of it and of w lies in the workspace */

static bool takes_split(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[0] == DTYPE_F32 && t->in[1] == DTYPE_BF16 &&
           aligned(o, 8) && o->dim[DIM_GEMM_N] <= SPLIT_MOST &&
           o->dim[DIM_GEMM_M] * o->dim[DIM_GEMM_N] % 8 == 0; /* where the second half begins */
}

static bool takes_split_w(const op *o, const op_types *t)
{
    return takes_split(o, t) && t->out[0] == DTYPE_F32;
}

/* ---- plans */

static lt_shape shape_of(const op *o, const op_types *t)
{
    const int64_t m = o->dim[DIM_GEMM_M], n = o->dim[DIM_GEMM_N], k = o->dim[DIM_GEMM_K];
    const bool add = o->flags & ACCUMULATE;
    if (o->kind == OP_GEMM) return {m, n, k, false, false, t->in[0], t->out[0], add};
    if (o->kind == OP_GEMM_D) return {m, k, n, false, true, t->in[0], t->out[0], add};
    return {n, k, m, true, true, t->in[0], t->out[0], !(o->flags & OVERWRITE)};
}

static status plan(const lt_shape &s, const op *o, void **state, error *err)
{
    return lt_plan_make((lt_plan **)state, &s, o->name ? o->name : op_infos[o->kind].name, err);
}

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    return plan(shape_of(o, t), o, state, err);
}

static status prepare_split(const op *o, const op_types *t, void **state, error *err)
{
    lt_shape s = shape_of(o, t);
    s.in = DTYPE_BF16;
    if (o->kind == OP_GEMM_D) s.k *= 2;
    if (o->kind == OP_GEMM_W) s.add = true; /* the second half is added to the first */
    return plan(s, o, state, err);
}

static void release(void *state)
{
    lt_plan_free((lt_plan *)state);
}

/* ---- launches */

static void run(const kernel_call *c, const void *a, const void *b, numbers to, void *workspace)
{
    if (!lt_run((const lt_plan *)c->state, a, b, to.p, workspace, c->stream)) launch_failed(c);
}

static int64_t bytes(const op *, const op_types *)
{
    return LT_WORKSPACE;
}

static void launch(const kernel_call *c)
{
    const op_gemm o = op_gemm_of(c); /* its gradients' operands stand alike */
    run(c, o.x.p, o.w.p, o.y, c->workspace);
}

/* high[M][step], low[M][step] of dy[M][N]. */
template <class O>
static void split(const kernel_call *c, const O &o, int64_t step, __nv_bfloat16 *high,
                  __nv_bfloat16 *low)
{
    const int64_t n = o.N;
    const float *dy = o.dy.floats();
    for_each(c, o.M * n, [=] __device__(int64_t i) {
        const int64_t at = i / n * step + i % n;
        const __nv_bfloat16 top = __float2bfloat16(dy[i]);
        high[at] = top;
        low[at] = __float2bfloat16(dy[i] - __bfloat162float(top));
    });
}

/* The workspace: cuBLASLt's, both halves of dy, and for dx w twice. */
static int64_t split_bytes(const op *o, const op_types *)
{
    const int64_t m = o->dim[DIM_GEMM_M], n = o->dim[DIM_GEMM_N], k = o->dim[DIM_GEMM_K];
    return LT_WORKSPACE + room_of(4 * m * n) + (o->kind == OP_GEMM_D ? 4 * n * k : 0);
}

static void split_d(const kernel_call *c)
{
    const op_gemm_d o = op_gemm_d_of(c);
    __nv_bfloat16 *halves = (__nv_bfloat16 *)((char *)c->workspace + LT_WORKSPACE);
    char *twice = (char *)halves + room_of(4 * o.M * o.N);
    const numbers both = {twice, true};
    split(c, o, 2 * o.N, halves, halves + o.N);
    for (int i = 0; i < 2; i++) copy_rows(c, o.N, {from(both, i * o.N * o.K), o.w, o.K, o.K, o.K});
    run(c, halves, twice, o.dx, c->workspace);
}

static void split_w(const kernel_call *c)
{
    const op_gemm_w o = op_gemm_w_of(c);
    __nv_bfloat16 *high = (__nv_bfloat16 *)((char *)c->workspace + LT_WORKSPACE);
    split(c, o, o.N, high, high + o.M * o.N);
    clear_first(c, o.N * o.K);
    run(c, high, o.x.p, o.dw, c->workspace);
    run(c, high + o.M * o.N, o.x.p, o.dw, c->workspace);
}

extern "C" cuda_part cuda_fast_gemm(void)
{
    static const kernel alike = {.name = "cublaslt",
                                 .accepts = takes_alike,
                                 .prepare = prepare,
                                 .release = release,
                                 .workspace = bytes,
                                 .launch = launch};
    static const kernel rows[] = {
        row_of(OP_GEMM, alike),
        row_of(OP_GEMM_D, alike),
        row_of(OP_GEMM_W, alike),
        {.kind = OP_GEMM_D,
         .name = "cublaslt, two halves",
         .accepts = takes_split,
         .prepare = prepare_split,
         .release = release,
         .workspace = split_bytes,
         .launch = split_d},
        {.kind = OP_GEMM_W,
         .name = "cublaslt, two halves",
         .accepts = takes_split_w,
         .prepare = prepare_split,
         .release = release,
         .workspace = split_bytes,
         .launch = split_w},
    };
    return PART(rows);
}
