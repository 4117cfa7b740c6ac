/* lt_fp8.c - dense GEMMs of operands of 8 and 4 bits by cuBLASLt: rows for lt.h.
 *
 * Both operands are contiguous along what is summed, which is the only form that the library takes
 * of 8 bits on Hopper and of 4 bits, and our scales lie as it reads them (op/quant.h). MXFP8
 * and NVFP4 are GEMMs of Blackwell (compute capability 10 and above): compiled, not run. On
 * other GPUs these rows do not take them, and the reference rows multiply (quant.cu).
 *
 * Sums are not cut short (CUBLASLT_MATMUL_DESC_FAST_ACCUM stays 0): with scales for blocks the
 * library takes nothing else.
 *
 * Where the library has no algorithm, the operation is given to the next row of ours that takes it,
 * and stderr says so once for each kind. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/kernels/lt.h"
#include "backend/cuda/kernels/parts.h"
#include "op/op_operands.h"
#include "op/quant.h"

typedef struct fp8_plan {
    lt_plan *plan; /* NULL: another row multiplies */
    const kernel *other;
    void *state; /* of the other row */
} fp8_plan;

static void launch(const kernel_call *c);

static bool is_blackwell(void)
{
    int at = 0, major = 0;
    cudaError_t e = cudaGetDevice(&at);
    if (!e) e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, at);
    if (e) (void)cudaGetLastError(); /* nobody asked for it */
    return !e && major >= 10;
}

/* Operands' formats and the elements that are summed: 16 bytes divide rows of operands, and blocks
 * of MXFP8 and NVFP4 are whole; of scales for 128 elements the library wants a multiple of 8
 * rows. */
static bool form_fits(const quant_pair *p)
{
    const bool e4m3 = p->at == DTYPE_E4M3 && p->bt == DTYPE_E4M3;
    const bool bytes = e4m3 || (p->at == DTYPE_E5M2 && p->bt == DTYPE_E4M3);
    switch (p->a.form) {
    case QUANT_BLOCK:
        return e4m3 && p->a.cols % 16 == 0 && p->a.rows % 8 == 0;
    case QUANT_TENSOR:
        return bytes && p->a.cols % 16 == 0;
    case QUANT_MX:
        return bytes && p->a.cols % 32 == 0 && is_blackwell();
    case QUANT_NV:
        return p->at == DTYPE_FP4 && p->bt == DTYPE_FP4 && p->a.cols % 32 == 0 && is_blackwell();
    default:
        return false;
    }
}

/* 16 bytes divide rows of the result. */
static bool takes(const op *o, const op_types *t)
{
    if (!cuda_types_fit(o, t)) return false;
    const quant_pair p = quant_pair_of(o);
    return p.a.rows > 0 && p.b.rows > 0 && p.a.cols > 0 && p.b.rows % 8 == 0 && form_fits(&p);
}

static lt_scaling scaling_of(const quant_pair *p)
{
    static const lt_scaling all[QUANT_FORMS] = {[QUANT_TENSOR] = LT_FACTORS,
                                                [QUANT_BLOCK] = LT_ROWS,
                                                [QUANT_MX] = LT_MX,
                                                [QUANT_NV] = LT_NV};
    return p->b.square ? LT_SQUARES : all[p->a.form];
}

static lt_shape shape_of(const op *o, const op_types *t)
{
    const quant_pair p = quant_pair_of(o);
    return (lt_shape){.m = p.a.rows,
                      .n = p.b.rows,
                      .k = p.a.cols,
                      .in = p.at,
                      .in_b = p.bt,
                      .out = t->out[OUT_QGEMM_y],
                      .add = p.weight_gradient ? !(o->flags & OVERWRITE)
                                               : (o->flags & ACCUMULATE) != 0,
                      .scaling = scaling_of(&p)};
}

/* The best of the rows that are not these. */
static const kernel *other_row(const op *o, const op_types *t)
{
    int n;
    const kernel *rows = kernels_cuda(&n), *best = NULL;
    for (int i = 0; i < n; i++)
        if (rows[i].kind == o->kind && rows[i].launch != launch && rows[i].accepts(o, t))
            best = &rows[i];
    return best;
}

static void say_once(op_kind kind, const char *why, const char *row)
{
    static bool said[OP_COUNT];
    if (said[kind]) return;
    said[kind] = true;
    fprintf(stderr, "%s; our own kernel (%s) multiplies instead, here and in others like it\n", why,
            row);
}

static void release(void *state)
{
    fp8_plan *p = state;
    if (!p) return;
    lt_plan_free(p->plan);
    if (p->other && p->other->release) p->other->release(p->state);
    free(p);
}

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    const lt_shape s = shape_of(o, t);
    error why = {""};
    fp8_plan *p = calloc(1, sizeof *p);
    status st = OK;
    if (!p) return error_set(err, ERR_MACHINE, "%s: out of memory", op_infos[o->kind].name);
    if (lt_plan_make(&p->plan, &s, o->name ? o->name : op_infos[o->kind].name, &why)) {
        p->plan = NULL;
        p->other = other_row(o, t);
        if (!p->other)
            st = error_set(err, ERR_MACHINE, "%s", why.text);
        else if (p->other->prepare)
            st = p->other->prepare(o, t, &p->state, err);
        if (!st) say_once(o->kind, why.text, p->other->name);
    }
    if (st) {
        free(p);
        return st;
    }
    *state = p;
    return OK;
}

static int64_t bytes(const op *o, const op_types *t)
{
    (void)o, (void)t;
    return LT_WORKSPACE;
}

/* CUDA's last error then says so, which whoever launches looks at. */
static void launch_failed(const kernel_call *c)
{
    const dim3 one = {1, 1, 1};
    (void)cudaLaunchKernel(NULL, one, one, NULL, 0, (cudaStream_t)c->stream);
}

static void launch(const kernel_call *c)
{
    fp8_plan *p = c->state;
    const quant_pair q = quant_pair_of(c->o);
    const op_qgemm o = op_qgemm_of(c->o, c->in, c->out); /* its gradients' operands stand alike */
    lt_scales s = {o.xs, o.ws, o.xg, o.wg};
    if (q.a.form == QUANT_TENSOR) s.a = s.a_factor, s.b = s.b_factor;
    if (!p->plan) {
        kernel_call other = *c;
        other.row = p->other;
        other.state = p->state;
        p->other->launch(&other);
        return;
    }
    if (!lt_set_scales(p->plan, &s) || !lt_run(p->plan, o.x, o.w, o.y, c->workspace, c->stream))
        launch_failed(c);
}

cuda_part cuda_lt_fp8(void)
{
    static const op_kind kinds[] = {OP_QGEMM, OP_QGEMM_D, OP_QGEMM_W};
    static kernel rows[sizeof kinds / sizeof kinds[0]];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        rows[i] = (kernel){.kind = kinds[i],
                           .name = "cublaslt",
                           .accepts = takes,
                           .prepare = prepare,
                           .release = release,
                           .workspace = bytes,
                           .launch = launch};
    return (cuda_part){rows, sizeof rows / sizeof rows[0]};
}
