/* dense.cu - GEMMs, biases, embedding and learned positions. */
#include "backend/cuda/kernels/columns.cuh"
#include "backend/cuda/kernels/gemm.cuh"

/* ---- GEMMs */

static void gemm(const kernel_call *c)
{
    const op_gemm o = op_gemm_of(c);
    gemm(c, {o.x, o.K, 1}, {o.w, o.K, 1}, {o.y, o.N, 1}, o.M, o.N, o.K, o.flags & ACCUMULATE);
}

static void gemm_d(const kernel_call *c)
{
    const op_gemm_d o = op_gemm_d_of(c);
    gemm(c, {o.dy, o.N, 1}, {o.w, 1, o.K}, {o.dx, o.K, 1}, o.M, o.K, o.N, o.flags & ACCUMULATE);
}

static void gemm_w(const kernel_call *c)
{
    const op_gemm_w o = op_gemm_w_of(c);
    gemm(c, {o.dy, 1, o.N}, {o.x, 1, o.K}, {o.dw, o.K, 1}, o.N, o.K, o.M,
         !(c->o->flags & OVERWRITE));
}

struct bias_rows : op_bias {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        for (int64_t j = thread * W; j < N; j += THREADS * W)
            store_or_add(y, i * N + j, load<W>(b, j), true);
    }
};

static void bias(const kernel_call *c)
{
    const op_bias o = op_bias_of(c);
    for_rows(c, o.M, o.N, bias_rows{o});
}

static int64_t bias_w_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_BIAS_W_M], o->dim[DIM_BIAS_W_N]);
}

static void bias_w(const kernel_call *c)
{
    const op_bias_w o = op_bias_w_of(c);
    add_columns(c, o.M, o.N, c->workspace, o.db.floats(),
                [=] __device__(int64_t i, int64_t j) { return get(o.dy, i * o.N + j); });
}

/* ---- embedding */

static void embed(const kernel_call *c)
{
    const op_embed o = op_embed_of(c);
    for_each(c, o.T * o.H, [=] __device__(int64_t i) {
        const int64_t v = o.ids[i / o.H] - o.FIRST;
        put(o.x, i, v < 0 || v >= o.V ? 0 : get(o.w, v * o.H + i % o.H));
    });
}

/* A block a token. The first token with an id owns the id's row, and adds all tokens with it in
 * their order: of BLOCK tokens at a time those that match are listed, then added. */
static __global__ void embed_w_kernel(op_embed_w s)
{
    float *dw = s.dw.floats();
    __shared__ int matches[WARPS];
    __shared__ int64_t list[BLOCK];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    for (int64_t t = blockIdx.x; t < s.T; t += gridDim.x) {
        const int32_t id = s.ids[t];
        const int64_t v = id - s.FIRST;
        bool earlier = v < 0 || v >= s.V;
        for (int64_t i = threadIdx.x; i < t && !earlier; i += BLOCK) earlier |= s.ids[i] == id;
        if (__syncthreads_or(earlier)) continue;
        for (int64_t i0 = t; i0 < s.T; i0 += BLOCK) {
            const int64_t i = i0 + threadIdx.x;
            const bool match = i < s.T && s.ids[i] == id;
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
            for (int64_t j = threadIdx.x; n > 0 && j < s.H; j += BLOCK) {
                float sum = dw[v * s.H + j];
                for (int k = 0; k < n; k++) sum += get(s.dx, list[k] * s.H + j);
                dw[v * s.H + j] = sum;
            }
            __syncthreads();
        }
    }
}

static void embed_w(const kernel_call *c)
{
    const op_embed_w o = op_embed_w_of(c);
    clear_first(c, o.V * o.H);
    if (o.T > 0) embed_w_kernel<<<blocks_of(o.T), BLOCK, 0, stream_of(c)>>>(o);
}

/* ---- learned positions */

static void positions(const kernel_call *c)
{
    const op_positions o = op_positions_of(c);
    for_each(c, o.T * o.H, [=] __device__(int64_t i) {
        const int64_t p = (o.FIRST + i / o.H) % o.S, half = o.S / 2,
                      row = p < half ? o.QA + p : o.QB + p - half;
        put(o.x, i, get(o.x, i) + get(o.w, row * o.H + i % o.H));
    });
}

/* A thread adds all tokens of its position, which lie S apart. */
static void positions_w(const kernel_call *c)
{
    const op_positions_w o = op_positions_w_of(c);
    const int64_t first = o.FIRST % o.S;
    float *dw = o.dw.floats();
    for_each(c, o.S * o.H, [=] __device__(int64_t i) {
        const int64_t p = i / o.H, j = i % o.H, half = o.S / 2,
                      row = p < half ? o.QA + p : o.QB + p - half;
        int64_t t = p >= first ? p - first : p - first + o.S;
        if (t >= o.T) return;
        float sum = dw[row * o.H + j];
        for (; t < o.T; t += o.S) sum += get(o.dx, t * o.H + j);
        dw[row * o.H + j] = sum;
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
        {.kind = OP_GEMM, .name = "plain", .launch = gemm},
        {.kind = OP_GEMM_D, .name = "plain", .launch = gemm_d},
        {.kind = OP_GEMM_W, .name = "plain", .launch = gemm_w},
        {.kind = OP_BIAS, .name = "plain", .launch = bias},
        {.kind = OP_BIAS_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = bias_w_bytes,
         .launch = bias_w},
        {.kind = OP_EMBED, .name = "plain", .launch = embed},
        {.kind = OP_EMBED_W, .name = "plain", .accepts = sums_wide, .launch = embed_w},
        {.kind = OP_POSITIONS, .name = "plain", .launch = positions},
        {.kind = OP_POSITIONS_W, .name = "plain", .accepts = halves_apart, .launch = positions_w},
    };
    return PART(rows);
}
