/* fast_head.cu - the head in chunks: logits, loss and gradients by cuBLASLt and one kernel between.
 *
 * H1  Logits of a chunk are BF16, as the planner has room for, and become their gradient in place.
 *     Sums over a row are FP32.
 * H2  A block of 1,024 threads takes a row and reads it twice, the second time backwards: the 132
 *     rows that are under way (40 MB with 151,936 words) still lie in the L2 cache.
 * H3  With OVERWRITE the first chunk writes the weight gradient, and the others add to it. */
#include "backend/cuda/kernels/fast_head.cuh"

struct narrow_rows {
    __nv_bfloat16 *logits; /* [n][V] */
    targets to;
    int64_t n_v;
    float scale;
    bool gradient;
};

static __global__ void __launch_bounds__(ROW_THREADS) narrow_loss_kernel(narrow_rows r)
{
    const int64_t i = blockIdx.x, label = r.to.labels[i];
    const numbers l = {r.logits + i * r.n_v, true};
    const float weight = r.to.weight(i);
    totals all = {0, 0};
    if (weight != 0) {
        all.right = get(l, label);
        const tops t =
            tops_of_row(l, r.n_v); /* all have read the label's logit behind its barrier */
        all.lse = t.top + logf(t.sum);
    }
    if (threadIdx.x == 0) r.to.put(i, weight, all);
    if (r.gradient) row_gradient(l, r.n_v, all.lse, label, weight * r.scale);
}

/* ---- plans: of whole chunks and of the last one */

typedef struct head_plans {
    lt_plan *logits[2], *dx[2], *dw[2];
    lt_plan *first; /* the weight gradient of the first chunk, where that is written (H3) */
} head_plans;

static bool takes(const op *o, const op_types *t)
{
    const op_head_loss z = op_head_loss_of(o);
    return all_bf16(o, t, IN_HEAD_LOSS_labels, 0) && is_wide(o, t, OUT_HEAD_LOSS_dw) && z.T > 0 &&
           z.H > 0 && z.V > 0 && z.H % WIDE == 0 && z.V % WIDE == 0;
}

static void release(void *state)
{
    head_plans *p = (head_plans *)state;
    for (int i = 0; p && i < 2; i++) {
        lt_plan_free(p->logits[i]);
        lt_plan_free(p->dx[i]);
        lt_plan_free(p->dw[i]);
    }
    if (p) lt_plan_free(p->first);
    free(p);
}

static status plan_chunk(head_plans *p, int i, const op *o, const op_types *t, error *err)
{
    const op_head_loss z = op_head_loss_of(o);
    const int64_t h = z.H, n_v = z.V, rows = rows_at_once(z), n = i == 0 ? rows : z.T % rows;
    const lt_shape logits = {n, n_v, h, false, false, DTYPE_BF16, DTYPE_BF16, false},
                   dx = {n, h, n_v, false, true, DTYPE_BF16, t->out[OUT_HEAD_LOSS_dx], false},
                   dw = {n_v, h, n, true, true, DTYPE_BF16, t->out[OUT_HEAD_LOSS_dw], true};
    lt_shape first = dw;
    first.add = false;
    if (n == 0) return OK;
    status s = lt_plan_make(&p->logits[i], &logits, "head, logits", err);
    if (s == OK && o->out[OUT_HEAD_LOSS_dx] >= 0)
        s = lt_plan_make(&p->dx[i], &dx, "head, data gradient", err);
    if (s == OK && o->out[OUT_HEAD_LOSS_dw] >= 0)
        s = lt_plan_make(&p->dw[i], &dw, "head, weight gradient", err);
    if (s == OK && i == 0 && o->out[OUT_HEAD_LOSS_dw] >= 0 && (o->flags & OVERWRITE))
        s = lt_plan_make(&p->first, &first, "head, weight gradient", err);
    return s;
}

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    head_plans *p = (head_plans *)calloc(1, sizeof *p);
    if (!p) return error_set(err, ERR_MACHINE, "head: out of memory");
    status s = plan_chunk(p, 0, o, t, err);
    if (s == OK) s = plan_chunk(p, 1, o, t, err);
    if (s == OK)
        *state = p;
    else
        release(p);
    return s;
}

/* ---- the chunks */

/* The workspace: a chunk of logits, two terms a row, and cuBLASLt's. */
static int64_t logits_bytes(const op_head_loss &o)
{
    return room_of(rows_at_once(o) * o.V * 2);
}

static int64_t terms_bytes(const op_head_loss &o)
{
    return room_of(rows_at_once(o) * 2 * (int64_t)sizeof(float));
}

static int64_t bytes(const op *o, const op_types *)
{
    const op_head_loss z = op_head_loss_of(o);
    return logits_bytes(z) + terms_bytes(z) + LT_WORKSPACE;
}

static bool chunk(const kernel_call *c, const op_head_loss &o, int64_t first, int64_t n)
{
    const head_plans *p = (const head_plans *)c->state;
    const int i = n != rows_at_once(o);
    const void *x = from(o.x, first * o.H).p;
    void *logits = c->workspace;
    float *terms = (float *)((char *)logits + logits_bytes(o));
    void *rest = (char *)terms + terms_bytes(o);
    if (!lt_run(p->logits[i], x, o.w.p, logits, rest, c->stream)) return false;
    narrow_loss_kernel<<<(unsigned)n, ROW_THREADS, 0, stream_of(c)>>>(
        {(__nv_bfloat16 *)logits, targets_of(o, first, terms, o.V), o.V, o.scale,
         o.dx.p || o.dw.p});
    add_terms(c, terms, n, o.loss);
    if (o.dx.p && !lt_run(p->dx[i], logits, o.w.p, from(o.dx, first * o.H).p, rest, c->stream))
        return false;
    lt_plan *by_weight = first == 0 && p->first ? p->first : p->dw[i];
    return !o.dw.p || lt_run(by_weight, logits, x, o.dw.p, rest, c->stream);
}

static void launch(const kernel_call *c)
{
    const op_head_loss o = op_head_loss_of(c);
    const int64_t rows = rows_at_once(o);
    bool fine = true;
    for (int64_t t = 0; fine && t < o.T; t += rows)
        fine = chunk(c, o, t, o.T - t < rows ? o.T - t : rows);
    if (!fine) launch_failed(c);
}

extern "C" cuda_part cuda_fast_head(void)
{
    static const kernel rows[] = {
        {.kind = OP_HEAD_LOSS,
         .name = "cublaslt",
         .accepts = takes,
         .prepare = prepare,
         .release = release,
         .workspace = bytes,
         .launch = launch},
    };
    return PART(rows);
}
