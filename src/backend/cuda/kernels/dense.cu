/* dense.cu - GEMMs, biases, embedding and learned positions. */
#include "backend/cuda/kernels/columns.cuh"
#include "backend/cuda/kernels/gemm.cuh"

/* ---- GEMMs */

static void gemm(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GEMM_M], n = c->o->dim[DIM_GEMM_N], k = c->o->dim[DIM_GEMM_K];
    gemm(c, {in_of(c, IN_GEMM_x), k, 1}, {in_of(c, IN_GEMM_w), k, 1}, {out_of(c, OUT_GEMM_y), n, 1},
         m, n, k, c->o->flags & ACCUMULATE);
}

static void gemm_d(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GEMM_D_M], n = c->o->dim[DIM_GEMM_D_N],
                  k = c->o->dim[DIM_GEMM_D_K];
    gemm(c, {in_of(c, IN_GEMM_D_dy), n, 1}, {in_of(c, IN_GEMM_D_w), 1, k},
         {out_of(c, OUT_GEMM_D_dx), k, 1}, m, k, n, c->o->flags & ACCUMULATE);
}

static void gemm_w(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GEMM_W_M], n = c->o->dim[DIM_GEMM_W_N],
                  k = c->o->dim[DIM_GEMM_W_K];
    gemm(c, {in_of(c, IN_GEMM_W_dy), 1, n}, {in_of(c, IN_GEMM_W_x), 1, k},
         {out_of(c, OUT_GEMM_W_dw), k, 1}, n, k, m, !(c->o->flags & OVERWRITE));
}

struct bias_rows {
    numbers b, y; /* [N], [M][N] */
    int64_t n;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        for (int64_t j = thread * W; j < n; j += THREADS * W)
            store_or_add(y, i * n + j, load<W>(b, j), true);
    }
};

static void bias(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_BIAS_N];
    for_rows(c, c->o->dim[DIM_BIAS_M], n, bias_rows{in_of(c, IN_BIAS_b), out_of(c, OUT_BIAS_y), n});
}

static int64_t bias_w_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_BIAS_W_M], o->dim[DIM_BIAS_W_N]);
}

static void bias_w(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_BIAS_W_M], n = c->o->dim[DIM_BIAS_W_N];
    const numbers dy = in_of(c, IN_BIAS_W_dy);
    add_columns(c, m, n, c->workspace, floats_out(c, OUT_BIAS_W_db),
                [=] __device__(int64_t i, int64_t j) { return get(dy, i * n + j); });
}

/* ---- embedding */

static void embed(const kernel_call *c)
{
    const int64_t n_t = c->o->dim[DIM_EMBED_T], h = c->o->dim[DIM_EMBED_H],
                  n_v = c->o->dim[DIM_EMBED_V], first = c->o->dim[DIM_EMBED_FIRST];
    const numbers w = in_of(c, IN_EMBED_w), x = out_of(c, OUT_EMBED_x);
    const int32_t *ids = ints_in(c, IN_EMBED_ids);
    for_each(c, n_t * h, [=] __device__(int64_t i) {
        const int64_t v = ids[i / h] - first;
        put(x, i, v < 0 || v >= n_v ? 0 : get(w, v * h + i % h));
    });
}

struct word_sum {
    numbers dx;         /* [T][H] */
    const int32_t *ids; /* [T] */
    float *dw;          /* [V][H] */
    int64_t n_t, h, n_v, first;
};

/* A block a token. The first token with an id owns the id's row, and adds all tokens with it in
 * their order: of BLOCK tokens at a time those that match are listed, then added. */
static __global__ void embed_w_kernel(word_sum s)
{
    __shared__ int matches[WARPS];
    __shared__ int64_t list[BLOCK];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    for (int64_t t = blockIdx.x; t < s.n_t; t += gridDim.x) {
        const int32_t id = s.ids[t];
        const int64_t v = id - s.first;
        bool earlier = v < 0 || v >= s.n_v;
        for (int64_t i = threadIdx.x; i < t && !earlier; i += BLOCK) earlier |= s.ids[i] == id;
        if (__syncthreads_or(earlier)) continue;
        for (int64_t i0 = t; i0 < s.n_t; i0 += BLOCK) {
            const int64_t i = i0 + threadIdx.x;
            const bool match = i < s.n_t && s.ids[i] == id;
            const unsigned votes = __ballot_sync(ALL_LANES, match);
            if (lane == 0) matches[warp] = __popc(votes);
            __syncthreads();
            int before = 0, n = 0;
            for (int k = 0; k < WARPS; k++) {
                before += k < warp ? matches[k] : 0;
                n += matches[k];
            }
            if (match) list[before + __popc(votes & ((1u << lane) - 1))] = i;
            __syncthreads();
            for (int64_t j = threadIdx.x; n > 0 && j < s.h; j += BLOCK) {
                float sum = s.dw[v * s.h + j];
                for (int k = 0; k < n; k++) sum += get(s.dx, list[k] * s.h + j);
                s.dw[v * s.h + j] = sum;
            }
            __syncthreads();
        }
    }
}

static void embed_w(const kernel_call *c)
{
    const op *o = c->o;
    const word_sum s = {in_of(c, IN_EMBED_W_dx),       ints_in(c, IN_EMBED_W_ids),
                        floats_out(c, OUT_EMBED_W_dw), o->dim[DIM_EMBED_W_T],
                        o->dim[DIM_EMBED_W_H],         o->dim[DIM_EMBED_W_V],
                        o->dim[DIM_EMBED_W_FIRST]};
    clear_first(c, s.n_v * s.h);
    if (s.n_t > 0) embed_w_kernel<<<blocks_of(s.n_t), BLOCK, 0, stream_of(c)>>>(s);
}

/* ---- learned positions */

static void positions(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t n_t = o->dim[DIM_POSITIONS_T], h = o->dim[DIM_POSITIONS_H],
                  s = o->dim[DIM_POSITIONS_S], first = o->dim[DIM_POSITIONS_FIRST];
    const int64_t qa = o->dim[DIM_POSITIONS_QA], qb = o->dim[DIM_POSITIONS_QB], half = s / 2;
    const numbers w = in_of(c, IN_POSITIONS_w), x = out_of(c, OUT_POSITIONS_x);
    for_each(c, n_t * h, [=] __device__(int64_t i) {
        const int64_t p = (first + i / h) % s, row = p < half ? qa + p : qb + p - half;
        put(x, i, get(x, i) + get(w, row * h + i % h));
    });
}

/* A thread adds all tokens of its position, which lie S apart. */
static void positions_w(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t n_t = o->dim[DIM_POSITIONS_W_T], h = o->dim[DIM_POSITIONS_W_H],
                  s = o->dim[DIM_POSITIONS_W_S], first = o->dim[DIM_POSITIONS_W_FIRST] % s;
    const int64_t qa = o->dim[DIM_POSITIONS_W_QA], qb = o->dim[DIM_POSITIONS_W_QB], half = s / 2;
    const numbers dx = in_of(c, IN_POSITIONS_W_dx);
    float *dw = floats_out(c, OUT_POSITIONS_W_dw);
    for_each(c, s * h, [=] __device__(int64_t i) {
        const int64_t p = i / h, j = i % h, row = p < half ? qa + p : qb + p - half;
        int64_t t = p >= first ? p - first : p - first + s;
        if (t >= n_t) return;
        float sum = dw[row * h + j];
        for (; t < n_t; t += s) sum += get(dx, t * h + j);
        dw[row * h + j] = sum;
    });
}

/* The two halves are parts of one sequence: no row belongs to both. */
static bool halves_apart(const op *o, const op_types *t)
{
    const int64_t s = o->dim[DIM_POSITIONS_W_S], qa = o->dim[DIM_POSITIONS_W_QA],
                  qb = o->dim[DIM_POSITIONS_W_QB];
    return sums_wide(o, t) && s > 0 && (s < 2 || qa + s / 2 <= qb || qb + (s - s / 2) <= qa);
}

extern "C" cuda_part cuda_dense(void)
{
    static const kernel rows[] = {
        {OP_GEMM, "plain", NULL, NULL, NULL, NULL, gemm},
        {OP_GEMM_D, "plain", NULL, NULL, NULL, NULL, gemm_d},
        {OP_GEMM_W, "plain", NULL, NULL, NULL, NULL, gemm_w},
        {OP_BIAS, "plain", NULL, NULL, NULL, NULL, bias},
        {OP_BIAS_W, "plain", sums_wide, NULL, NULL, bias_w_bytes, bias_w},
        {OP_EMBED, "plain", NULL, NULL, NULL, NULL, embed},
        {OP_EMBED_W, "plain", sums_wide, NULL, NULL, NULL, embed_w},
        {OP_POSITIONS, "plain", NULL, NULL, NULL, NULL, positions},
        {OP_POSITIONS_W, "plain", halves_apart, NULL, NULL, NULL, positions_w},
    };
    return PART(rows);
}
