/* loss.cu - the head's logits and cross entropy.
 *
 * Logits are made ROWS rows at a time; of a whole vocabulary they stand in the workspace, of one
 * that is cut over ranks in a buffer of the program, since the ranks have to meet before their
 * gradient. A block takes a row: its largest logit, the sum of exponentials, then the gradient in
 * place. A label that is no word of the vocabulary counts as masked. */
#include "backend/cuda/kernels/loss.cuh"
#include "backend/cuda/kernels/gemm.cuh"

/* Rows of logits that become their gradient. */
struct loss_rows {
    numbers logits;        /* [n][V] */
    const int32_t *labels; /* [n] */
    const float *mask;     /* [n], may be missing: all ones */
    float *terms;          /* [n][2]: weight * loss, weight */
    int64_t n_v;           /* words here */
    int64_t first, words;  /* the first of them, and the words of all ranks */
    float scale;
    bool gradient;
    const float *stats; /* [PARTS][ROWS][3] of all ranks; NULL: all words are here */
    int64_t parts, stats_rows;
};

static __device__ float row_top(numbers l, int64_t n)
{
    float top = -CUDART_INF_F;
    for (int64_t v = threadIdx.x; v < n; v += BLOCK) top = fmaxf(top, get(l, v));
    return most_over<BLOCK>(top);
}

static __device__ float row_sum(numbers l, int64_t n, float top)
{
    float sum = 0;
    for (int64_t v = threadIdx.x; v < n; v += BLOCK) sum += expf(get(l, v) - top);
    return sum_over<BLOCK>(sum);
}

static __device__ totals totals_here(numbers l, int64_t n_v, int64_t label)
{
    const float top = row_top(l, n_v);
    return {top + logf(row_sum(l, n_v, top)), get(l, label)};
}

static __global__ void loss_kernel(loss_rows r, int64_t n)
{
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const numbers l = from(r.logits, i * r.n_v);
        const int64_t word = r.labels[i], label = word - r.first;
        const bool known = word >= 0 && word < r.words;
        const float weight = !known ? 0 : r.mask ? r.mask[i] : 1, scale = weight * r.scale;
        totals all = {0, 0};
        if (weight != 0)
            all = r.stats ? totals_of_parts(r.stats, r.parts, r.stats_rows, i)
                          : totals_here(l, r.n_v, label);
        __syncthreads(); /* the label's logit is read */
        for (int64_t v = threadIdx.x; r.gradient && v < r.n_v; v += BLOCK)
            put(l, v,
                scale == 0 ? 0 : scale * (expf(get(l, v) - all.lse) - (v == label ? 1.f : 0.f)));
        if (threadIdx.x) continue;
        r.terms[2 * i] = weight == 0 ? 0 : weight * (all.lse - all.right);
        r.terms[2 * i + 1] = weight;
    }
}

static void run_rows(const kernel_call *c, const loss_rows &r, int64_t n)
{
    if (n > 0) loss_kernel<<<blocks_of(n), BLOCK, 0, stream_of(c)>>>(r, n);
}

/* From the gradient of n rows of logits to dx and dw, for HEAD_LOSS and HEAD_PART_D; `first`: of
 * the operation, whose dw is written where it has OVERWRITE. */
static_assert((int)DIM_HEAD_PART_D_H == DIM_HEAD_LOSS_H &&
              (int)DIM_HEAD_PART_D_V == DIM_HEAD_LOSS_V);

static void push(const kernel_call *c, numbers g, numbers x, numbers w, numbers dx, numbers dw,
                 int64_t n, bool first)
{
    const int64_t h = c->o->dim[DIM_HEAD_LOSS_H], n_v = c->o->dim[DIM_HEAD_LOSS_V];
    const bool writes = first && (c->o->flags & OVERWRITE);
    if (dx.p) gemm(c, {g, n_v, 1}, {w, 1, h}, {dx, h, 1}, n, h, n_v, false);
    if (dw.p) gemm(c, {g, 1, n_v}, {x, 1, h}, {dw, h, 1}, n_v, h, n, !writes);
}

/* ---- a whole vocabulary */

static int64_t head_loss_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_HEAD_LOSS_T] * 2 * (int64_t)sizeof(float)) +
           room_of(rows_at_once(o) * o->dim[DIM_HEAD_LOSS_V] * (int64_t)sizeof(float));
}

static void head_loss(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t n_t = o->dim[DIM_HEAD_LOSS_T], h = o->dim[DIM_HEAD_LOSS_H],
                  n_v = o->dim[DIM_HEAD_LOSS_V], rows = rows_at_once(o);
    const numbers x = in_of(c, IN_HEAD_LOSS_x), w = in_of(c, IN_HEAD_LOSS_w),
                  dx = out_of(c, OUT_HEAD_LOSS_dx), dw = out_of(c, OUT_HEAD_LOSS_dw);
    float *terms = (float *)c->workspace;
    float *logits = (float *)((char *)c->workspace + room_of(n_t * 2 * (int64_t)sizeof(float)));
    const numbers g = {logits, false};
    if (dw.p && n_t == 0 && (o->flags & OVERWRITE)) clear(c, dw, 0, n_v * h);
    for (int64_t t = 0; t < n_t; t += rows) {
        const int64_t n = n_t - t < rows ? n_t - t : rows;
        const float *mask =
            floats_in(c, IN_HEAD_LOSS_mask) ? floats_in(c, IN_HEAD_LOSS_mask) + t : NULL;
        gemm(c, {from(x, t * h), h, 1}, {w, h, 1}, {g, n_v, 1}, n, n_v, h, false);
        run_rows(c,
                 {g, ints_in(c, IN_HEAD_LOSS_labels) + t, mask, terms + 2 * t, n_v, 0, n_v,
                  (float)o->real[REAL_HEAD_LOSS_scale], dx.p || dw.p, NULL, 0, 0},
                 n);
        push(c, g, from(x, t * h), w, dx.p ? from(dx, t * h) : dx, dw, n, t == 0);
    }
    add_terms(c, terms, n_t, floats_out(c, OUT_HEAD_LOSS_loss));
}

static void head_logits(const kernel_call *c)
{
    const int64_t n_t = c->o->dim[DIM_HEAD_LOGITS_T], h = c->o->dim[DIM_HEAD_LOGITS_H],
                  n_v = c->o->dim[DIM_HEAD_LOGITS_V];
    gemm(c, {in_of(c, IN_HEAD_LOGITS_x), h, 1}, {in_of(c, IN_HEAD_LOGITS_w), h, 1},
         {out_of(c, OUT_HEAD_LOGITS_logits), n_v, 1}, n_t, n_v, h, false);
}

/* ---- a vocabulary that is cut over ranks */

static __global__ void stats_kernel(numbers logits, const int32_t *labels, int64_t n, int64_t n_v,
                                    int64_t first, float *stats)
{
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const numbers l = from(logits, i * n_v);
        const float top = row_top(l, n_v), sum = row_sum(l, n_v, top);
        const int64_t label = labels[i] - first;
        if (threadIdx.x) continue;
        stats[i * 3] = top;
        stats[i * 3 + 1] = sum;
        stats[i * 3 + 2] = label >= 0 && label < n_v ? get(l, label) : 0;
    }
}

static void head_part(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t h = o->dim[DIM_HEAD_PART_H], n_v = o->dim[DIM_HEAD_PART_V],
                  rows = o->dim[DIM_HEAD_PART_ROWS], first = o->dim[DIM_HEAD_PART_FIRST];
    const int64_t n = rows_there(o);
    const numbers logits = out_of(c, OUT_HEAD_PART_logits);
    float *stats = floats_out(c, OUT_HEAD_PART_stats);
    gemm(c, {from(in_of(c, IN_HEAD_PART_x), first * h), h, 1}, {in_of(c, IN_HEAD_PART_w), h, 1},
         {logits, n_v, 1}, n, n_v, h, false);
    if (n > 0)
        stats_kernel<<<blocks_of(n), BLOCK, 0, stream_of(c)>>>(
            logits, ints_in(c, IN_HEAD_PART_labels) + first, n, n_v, o->dim[DIM_HEAD_PART_VFIRST],
            stats);
    clear(c, logits, n * n_v, rows * n_v);
    clear(c, {stats, false}, n * 3, rows * 3);
}

static int64_t head_part_d_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_HEAD_PART_D_ROWS] * 2 * (int64_t)sizeof(float));
}

static void head_part_d(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t h = o->dim[DIM_HEAD_PART_D_H], n_v = o->dim[DIM_HEAD_PART_D_V],
                  rows = o->dim[DIM_HEAD_PART_D_ROWS], first = o->dim[DIM_HEAD_PART_D_FIRST];
    const int64_t n = rows_there(o);
    const numbers x = from(in_of(c, IN_HEAD_PART_D_x), first * h),
                  dx = out_of(c, OUT_HEAD_PART_D_dx);
    const float *mask =
        floats_in(c, IN_HEAD_PART_D_mask) ? floats_in(c, IN_HEAD_PART_D_mask) + first : NULL;
    const numbers logits = out_of(c, OUT_HEAD_PART_D_logits);
    float *terms = (float *)c->workspace;
    run_rows(c,
             {logits, ints_in(c, IN_HEAD_PART_D_labels) + first, mask, terms, n_v,
              o->dim[DIM_HEAD_PART_D_VFIRST], n_v * o->dim[DIM_HEAD_PART_D_PARTS],
              (float)o->real[REAL_HEAD_PART_D_scale], true, floats_in(c, IN_HEAD_PART_D_stats),
              o->dim[DIM_HEAD_PART_D_PARTS], rows},
             n);
    push(c, logits, x, in_of(c, IN_HEAD_PART_D_w), dx.p ? from(dx, first * h) : dx,
         out_of(c, OUT_HEAD_PART_D_dw), n, true);
    clear(c, logits, n * n_v, rows * n_v);
    add_terms(c, terms, n, floats_out(c, OUT_HEAD_PART_D_loss));
}

extern "C" cuda_part cuda_loss(void)
{
    static const kernel rows[] = {
        {OP_HEAD_LOSS, "plain", head_loss_fits, NULL, NULL, head_loss_bytes, head_loss},
        {OP_HEAD_PART, "plain", NULL, NULL, NULL, NULL, head_part},
        {OP_HEAD_PART_D, "plain", NULL, NULL, NULL, head_part_d_bytes, head_part_d},
        {OP_HEAD_LOGITS, "plain", NULL, NULL, NULL, NULL, head_logits},
    };
    return PART(rows);
}
