/* fast_head_part.cu - the head of a vocabulary that is cut over ranks, in BF16 by cuBLASLt.
 *
 * As fast_head.cu, in two operations with a message between: logits and what the other ranks need
 * of them; then, with what all ranks have, the gradient in place and its two GEMMs. Logits stand
 * in a buffer of the program. */
#include "backend/cuda/kernels/fast_head.cuh"

static_assert((int)DIM_HEAD_PART_D_T == DIM_HEAD_PART_T &&
              (int)DIM_HEAD_PART_D_FIRST == DIM_HEAD_PART_FIRST &&
              (int)DIM_HEAD_PART_D_ROWS == DIM_HEAD_PART_ROWS &&
              (int)DIM_HEAD_PART_D_V == DIM_HEAD_PART_V &&
              (int)DIM_HEAD_PART_D_H == DIM_HEAD_PART_H);

static bool sizes_fit(const op *o)
{
    return o->dim[DIM_HEAD_PART_H] > 0 && o->dim[DIM_HEAD_PART_V] > 0 &&
           o->dim[DIM_HEAD_PART_H] % WIDE == 0 && o->dim[DIM_HEAD_PART_V] % WIDE == 0;
}

static bool takes(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && sizes_fit(o) && t->in[IN_HEAD_PART_x] == DTYPE_BF16 &&
           t->in[IN_HEAD_PART_w] == DTYPE_BF16 && t->out[OUT_HEAD_PART_logits] == DTYPE_BF16;
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
    const int64_t n = rows_there(o), h = o->dim[DIM_HEAD_PART_H], n_v = o->dim[DIM_HEAD_PART_V];
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
    const op *o = c->o;
    const int64_t n = rows_there(o), h = o->dim[DIM_HEAD_PART_H], n_v = o->dim[DIM_HEAD_PART_V],
                  rows = o->dim[DIM_HEAD_PART_ROWS], first = o->dim[DIM_HEAD_PART_FIRST];
    const numbers logits = out_of(c, OUT_HEAD_PART_logits);
    float *stats = floats_out(c, OUT_HEAD_PART_stats);
    if (n > 0) {
        if (!lt_run(((const part_plans *)c->state)->logits,
                    from(in_of(c, IN_HEAD_PART_x), first * h).p, c->in[IN_HEAD_PART_w], logits.p,
                    c->workspace, c->stream)) {
            launch_failed(c);
            return;
        }
        part_stats_kernel<<<(unsigned)n, ROW_THREADS, 0, stream_of(c)>>>(
            logits, ints_in(c, IN_HEAD_PART_labels) + first, n_v, o->dim[DIM_HEAD_PART_VFIRST],
            stats);
    }
    clear(c, logits, n * n_v, rows * n_v);
    clear(c, {stats, false}, n * 3, rows * 3);
}

/* ---- the rest */

struct part_rows {
    numbers logits;        /* [n][V], BF16 */
    const int32_t *labels; /* [n] */
    const float *mask;     /* [n], may be missing: all ones */
    const float *stats;    /* [parts][rows][3] */
    float *terms;          /* [n][2]: weight * loss, weight */
    int64_t n_v, first, parts, rows;
    float scale;
};

static __global__ void __launch_bounds__(ROW_THREADS) part_gradient_kernel(part_rows r)
{
    const int64_t i = blockIdx.x, word = r.labels[i];
    const bool known = word >= 0 && word < r.n_v * r.parts;
    const float weight = !known ? 0 : r.mask ? r.mask[i] : 1;
    totals all = {0, 0};
    if (weight != 0) all = totals_of_parts(r.stats, r.parts, r.rows, i);
    if (threadIdx.x == 0) {
        r.terms[2 * i] = weight == 0 ? 0 : weight * (all.lse - all.right);
        r.terms[2 * i + 1] = weight;
    }
    row_gradient(from(r.logits, i * r.n_v), r.n_v, all.lse, word - r.first, weight * r.scale);
}

static int64_t terms_bytes(const op *o)
{
    return room_of(o->dim[DIM_HEAD_PART_D_ROWS] * 2 * (int64_t)sizeof(float));
}

static int64_t gradient_bytes(const op *o, const op_types *)
{
    return terms_bytes(o) + LT_WORKSPACE;
}

static bool gemms(const kernel_call *c, const numbers &logits, int64_t first)
{
    const part_plans *p = (const part_plans *)c->state;
    const int64_t at = first * c->o->dim[DIM_HEAD_PART_D_H];
    const numbers dx = out_of(c, OUT_HEAD_PART_D_dx);
    void *rest = (char *)c->workspace + terms_bytes(c->o);
    if (p->dx && !lt_run(p->dx, logits.p, c->in[IN_HEAD_PART_D_w], from(dx, at).p, rest, c->stream))
        return false;
    return !p->dw || lt_run(p->dw, logits.p, from(in_of(c, IN_HEAD_PART_D_x), at).p,
                            c->out[OUT_HEAD_PART_D_dw], rest, c->stream);
}

static void launch_gradient(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t n = rows_there(o), n_v = o->dim[DIM_HEAD_PART_D_V],
                  rows = o->dim[DIM_HEAD_PART_D_ROWS], first = o->dim[DIM_HEAD_PART_D_FIRST];
    const numbers logits = out_of(c, OUT_HEAD_PART_D_logits);
    const float *mask = floats_in(c, IN_HEAD_PART_D_mask);
    float *terms = (float *)c->workspace;
    const numbers dw = out_of(c, OUT_HEAD_PART_D_dw);
    clear(c, logits, n * n_v, rows * n_v);
    if (n == 0 && dw.p && (o->flags & OVERWRITE)) clear(c, dw, 0, n_v * o->dim[DIM_HEAD_PART_D_H]);
    if (n == 0) return;
    part_gradient_kernel<<<(unsigned)n, ROW_THREADS, 0, stream_of(c)>>>(
        {logits, ints_in(c, IN_HEAD_PART_D_labels) + first, mask ? mask + first : NULL,
         floats_in(c, IN_HEAD_PART_D_stats), terms, n_v, o->dim[DIM_HEAD_PART_D_VFIRST],
         o->dim[DIM_HEAD_PART_D_PARTS], rows, (float)o->real[REAL_HEAD_PART_D_scale]});
    add_terms(c, terms, n, floats_out(c, OUT_HEAD_PART_D_loss));
    if (!gemms(c, logits, first)) launch_failed(c);
}

extern "C" cuda_part cuda_fast_head_part(void)
{
    static const kernel rows[] = {
        {OP_HEAD_PART, "cublaslt", takes, prepare, release, bytes, launch},
        {OP_HEAD_PART_D, "cublaslt", takes_gradient, prepare, release, gradient_bytes,
         launch_gradient},
    };
    return PART(rows);
}
