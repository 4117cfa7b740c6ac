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
    numbers logits; /* [n][V] */
    targets to;
    int64_t n_v, first; /* words here, and the first of them */
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
        const int64_t label = r.to.labels[i] - r.first;
        const float weight = r.to.weight(i), scale = weight * r.scale;
        totals all = {0, 0};
        if (weight != 0)
            all = r.stats ? totals_of_parts(r.stats, r.parts, r.stats_rows, i)
                          : totals_here(l, r.n_v, label);
        __syncthreads(); /* the label's logit is read */
        for (int64_t v = threadIdx.x; r.gradient && v < r.n_v; v += BLOCK)
            put(l, v,
                scale == 0 ? 0 : scale * (expf(get(l, v) - all.lse) - (v == label ? 1.f : 0.f)));
        if (threadIdx.x == 0) r.to.put(i, weight, all);
    }
}

static void run_rows(const kernel_call *c, const loss_rows &r, int64_t n)
{
    if (n > 0) loss_kernel<<<blocks_of(n), BLOCK, 0, stream_of(c)>>>(r, n);
}

/* From the gradient of n rows of logits, those of x from `row` on, to dx and dw, for HEAD_LOSS and
 * HEAD_PART_D; `first`: of the operation, whose dw is written where it has OVERWRITE. */
template <class O>
static void push(const kernel_call *c, const O &o, numbers g, int64_t row, int64_t n, bool first)
{
    const bool writes = first && (c->o->flags & OVERWRITE);
    const numbers x = from(o.x, row * o.H);
    if (o.dx.p)
        gemm(c, {g, o.V, 1}, {o.w, 1, o.H}, {from(o.dx, row * o.H), o.H, 1}, n, o.H, o.V, false);
    if (o.dw.p) gemm(c, {g, 1, o.V}, {x, 1, o.H}, {o.dw, o.H, 1}, o.V, o.H, n, !writes);
}

/* ---- a whole vocabulary */

static int64_t head_loss_bytes(const op *o, const op_types *)
{
    const op_head_loss z = op_head_loss_of(o);
    return room_of(z.T * 2 * (int64_t)sizeof(float)) +
           room_of(rows_at_once(z) * z.V * (int64_t)sizeof(float));
}

static void head_loss(const kernel_call *c)
{
    const op_head_loss o = op_head_loss_of(c);
    const int64_t rows = rows_at_once(o);
    float *terms = (float *)c->workspace;
    float *logits = (float *)((char *)c->workspace + room_of(o.T * 2 * (int64_t)sizeof(float)));
    const numbers g = {logits, false};
    if (o.dw.p && o.T == 0 && (c->o->flags & OVERWRITE)) clear(c, o.dw, 0, o.V * o.H);
    for (int64_t t = 0; t < o.T; t += rows) {
        const int64_t n = o.T - t < rows ? o.T - t : rows;
        gemm(c, {from(o.x, t * o.H), o.H, 1}, {o.w, o.H, 1}, {g, o.V, 1}, n, o.V, o.H, false);
        run_rows(c,
                 {g, targets_of(o, t, terms + 2 * t, o.V), o.V, 0, o.scale, o.dx.p || o.dw.p, NULL,
                  0, 0},
                 n);
        push(c, o, g, t, n, t == 0);
    }
    add_terms(c, terms, o.T, o.loss);
}

static void head_logits(const kernel_call *c)
{
    const op_head_logits o = op_head_logits_of(c);
    gemm(c, {o.x, o.H, 1}, {o.w, o.H, 1}, {o.logits, o.V, 1}, o.T, o.V, o.H, false);
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
    const op_head_part o = op_head_part_of(c);
    const int64_t n = rows_there(o);
    gemm(c, {from(o.x, o.FIRST * o.H), o.H, 1}, {o.w, o.H, 1}, {o.logits, o.V, 1}, n, o.V, o.H,
         false);
    if (n > 0)
        stats_kernel<<<blocks_of(n), BLOCK, 0, stream_of(c)>>>(o.logits, o.labels + o.FIRST, n, o.V,
                                                               o.VFIRST, o.stats);
    clear(c, o.logits, n * o.V, o.ROWS * o.V);
    clear(c, as_numbers(o.stats), n * 3, o.ROWS * 3);
}

static int64_t head_part_d_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_HEAD_PART_D_ROWS] * 2 * (int64_t)sizeof(float));
}

static void head_part_d(const kernel_call *c)
{
    const op_head_part_d o = op_head_part_d_of(c);
    const int64_t n = rows_there(o);
    float *terms = (float *)c->workspace;
    run_rows(c,
             {o.logits, targets_of(o, o.FIRST, terms, o.V * o.PARTS), o.V, o.VFIRST, o.scale, true,
              o.stats, o.PARTS, o.ROWS},
             n);
    push(c, o, o.logits, o.FIRST, n, true);
    clear(c, o.logits, n * o.V, o.ROWS * o.V);
    add_terms(c, terms, n, o.loss);
}

extern "C" cuda_part cuda_loss(void)
{
    static const kernel rows[] = {
        {.kind = OP_HEAD_LOSS,
         .name = "plain",
         .accepts = head_loss_fits,
         .workspace = head_loss_bytes,
         .launch = head_loss},
        {.kind = OP_HEAD_PART, .name = "plain", .launch = head_part},
        {.kind = OP_HEAD_PART_D,
         .name = "plain",
         .workspace = head_part_d_bytes,
         .launch = head_part_d},
        {.kind = OP_HEAD_LOGITS, .name = "plain", .launch = head_logits},
    };
    return PART(rows);
}
