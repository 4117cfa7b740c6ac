/* fast_head_part.cu - the head of a vocabulary that is cut over ranks, in BF16 by cuBLASLt.
 *
 * As fast_head.cu, in two operations with a message between: logits and what the other ranks need
 * of them; then, with what all ranks have, the gradient in place and its two GEMMs. Logits stand
 * in a buffer of the program. */
#include "backend/cuda/kernels/fast_head.cuh"

static bool sizes_fit(const op *o)
{
    const op_head_part z = op_head_part_of(o); /* its gradient has the same sizes */
    return z.H > 0 && z.V > 0 && z.H % WIDE == 0 && z.V % WIDE == 0;
}

static bool takes(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_HEAD_PART_labels, OUT_HEAD_PART_stats) && sizes_fit(o);
}

static bool takes_gradient(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && sizes_fit(o) && t->in[IN_HEAD_PART_D_x] == DTYPE_BF16 &&
           t->in[IN_HEAD_PART_D_w] == DTYPE_BF16 && t->out[OUT_HEAD_PART_D_logits] == DTYPE_BF16 &&
           is_wide(o, t, OUT_HEAD_PART_D_dw);
}

/* ---- plans; of a chunk without rows there are none */

typedef struct part_plans {
    lt_plan *logits, *dx, *dw;
} part_plans;

static void release(void *state)
{
    part_plans *p = (part_plans *)state;
    if (!p) return;
    lt_plan_free(p->logits);
    lt_plan_free(p->dx);
    lt_plan_free(p->dw);
    free(p);
}

static status make_plans(part_plans *p, const op *o, const op_types *t, error *err)
{
    const op_head_part z = op_head_part_of(o); /* its gradient has the same sizes */
    const int64_t n = rows_there(z), h = z.H, n_v = z.V;
    if (n == 0) return OK;
    if (o->kind == OP_HEAD_PART) {
        const lt_shape logits = {n, n_v, h, false, false, DTYPE_BF16, DTYPE_BF16, false};
        return lt_plan_make(&p->logits, &logits, "head, logits", err);
    }
    const lt_shape dx = {n, h, n_v, false, true, DTYPE_BF16, t->out[OUT_HEAD_PART_D_dx], false},
                   dw = {n_v,
                         h,
                         n,
                         true,
                         true,
                         DTYPE_BF16,
                         t->out[OUT_HEAD_PART_D_dw],
                         !(o->flags & OVERWRITE)};
    status s = OK;
    if (o->out[OUT_HEAD_PART_D_dx] >= 0) s = lt_plan_make(&p->dx, &dx, "head, data gradient", err);
    if (s == OK && o->out[OUT_HEAD_PART_D_dw] >= 0)
        s = lt_plan_make(&p->dw, &dw, "head, weight gradient", err);
    return s;
}

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    part_plans *p = (part_plans *)calloc(1, sizeof *p);
    if (!p) return error_set(err, ERR_MACHINE, "head: out of memory");
    const status s = make_plans(p, o, t, err);
    if (s == OK)
        *state = p;
    else
        release(p);
    return s;
}

/* ---- logits and what the others need of them */

static __global__ void __launch_bounds__(ROW_THREADS)
    part_stats_kernel(numbers logits, const int32_t *labels, int64_t n_v, int64_t first,
                      float *stats)
{
    const int64_t i = blockIdx.x, label = labels[i] - first;
    const numbers l = from(logits, i * n_v);
    const tops t = tops_of_row(l, n_v);
    if (threadIdx.x) return;
    stats[i * 3] = t.top;
    stats[i * 3 + 1] = t.sum;
    stats[i * 3 + 2] = label >= 0 && label < n_v ? get(l, label) : 0;
}

static int64_t bytes(const op *, const op_types *)
{
    return LT_WORKSPACE;
}

static void launch(const kernel_call *c)
{
    const op_head_part o = op_head_part_of(c);
    const int64_t n = rows_there(o);
    if (n > 0) {
        if (!lt_run(((const part_plans *)c->state)->logits, from(o.x, o.FIRST * o.H).p, o.w.p,
                    o.logits.p, c->workspace, c->stream)) {
            launch_failed(c);
            return;
        }
        part_stats_kernel<<<(unsigned)n, ROW_THREADS, 0, stream_of(c)>>>(
            o.logits, o.labels + o.FIRST, o.V, o.VFIRST, o.stats);
    }
    clear(c, o.logits, n * o.V, o.ROWS * o.V);
    clear(c, as_numbers(o.stats), n * 3, o.ROWS * 3);
}

/* ---- the rest */

static __global__ void __launch_bounds__(ROW_THREADS)
    part_gradient_kernel(op_head_part_d o, targets to)
{
    const int64_t i = blockIdx.x;
    const float weight = to.weight(i);
    totals all = {0, 0};
    if (weight != 0) all = totals_of_parts(o.stats, o.PARTS, o.ROWS, i);
    if (threadIdx.x == 0) to.put(i, weight, all);
    row_gradient(from(o.logits, i * o.V), o.V, all.lse, to.labels[i] - o.VFIRST, weight * o.scale);
}

static int64_t terms_bytes(const op *o)
{
    return room_of(o->dim[DIM_HEAD_PART_D_ROWS] * 2 * (int64_t)sizeof(float));
}

static int64_t gradient_bytes(const op *o, const op_types *)
{
    return terms_bytes(o) + LT_WORKSPACE;
}

static void launch_gradient(const kernel_call *c)
{
    const op_head_part_d o = op_head_part_d_of(c);
    const part_plans *p = (const part_plans *)c->state;
    const int64_t n = rows_there(o), at = o.FIRST * o.H;
    float *terms = (float *)c->workspace; /* [n][2] */
    void *rest = (char *)c->workspace + terms_bytes(c->o);
    clear(c, o.logits, n * o.V, o.ROWS * o.V);
    if (n == 0 && o.dw.p && (c->o->flags & OVERWRITE)) clear(c, o.dw, 0, o.V * o.H);
    if (n == 0) return;
    part_gradient_kernel<<<(unsigned)n, ROW_THREADS, 0, stream_of(c)>>>(
        o, targets_of(o, o.FIRST, terms, o.V * o.PARTS));
    add_terms(c, terms, n, o.loss);
    if (p->dx && !lt_run(p->dx, o.logits.p, o.w.p, from(o.dx, at).p, rest, c->stream))
        launch_failed(c);
    else if (p->dw && !lt_run(p->dw, o.logits.p, from(o.x, at).p, o.dw.p, rest, c->stream))
        launch_failed(c);
}

extern "C" cuda_part cuda_fast_head_part(void)
{
    static const kernel rows[] = {
        {.kind = OP_HEAD_PART,
         .name = "cublaslt",
         .accepts = takes,
         .prepare = prepare,
         .release = release,
         .workspace = bytes,
         .launch = launch},
        {.kind = OP_HEAD_PART_D,
         .name = "cublaslt",
         .accepts = takes_gradient,
         .prepare = prepare,
         .release = release,
         .workspace = gradient_bytes,
         .launch = launch_gradient},
    };
    return PART(rows);
}
