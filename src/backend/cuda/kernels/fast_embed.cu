/* fast_embed.cu - words and their gradients, eight neighbours a thread where they are aligned.
 *
 * E1  A row of the table is added to by one block, that of the first token with its id, and all
 *     tokens with it in their order: the same bits always, and no workspace.
 * E2  Finding them is a search through all ids for every token. Each thread has AT_ONCE loads under
 *     way, and a group of ids without a match costs one barrier.
 * E3  A table that is written (OVERWRITE) is cleared first: most of its rows are no token's. */
#include "backend/cuda/kernels/device.cuh"

enum { WIDE = 8, AT_ONCE = 16, GROUP = AT_ONCE * BLOCK };

/* Bit k: ids[base + k BLOCK + thread] is `id`, of those before `past`. */
static __device__ __forceinline__ unsigned matches_at(const int32_t *ids, int64_t base,
                                                      int64_t past, int32_t id)
{
    int32_t own[AT_ONCE];
    unsigned found = 0;
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
        const int64_t i = base + k * BLOCK + threadIdx.x;
        own[k] = i < past ? ids[i] : ~id;
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) found |= own[k] == id ? 1u << k : 0;
    return found;
}

static __device__ bool has_earlier(const op_embed_w &s, int64_t t, int32_t id)
{
    for (int64_t base = 0; base < t; base += GROUP)
        if (__syncthreads_or(matches_at(s.ids, base, t, id) != 0)) return true;
    return false;
}

/* The bits of all threads. */
static __device__ unsigned join_bits(unsigned own)
{
    __shared__ unsigned all;
    __syncthreads();
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    own = __reduce_or_sync(ALL_LANES, own);
    if (threadIdx.x % WARP == 0 && own) atomicOr(&all, own);
    __syncthreads();
    return all;
}

/* Numbers of the threads whose `match` is set, in order; how many. */
static __device__ int list_threads(bool match, int *list)
{
    __shared__ int counts[WARPS];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const unsigned votes = __ballot_sync(ALL_LANES, match);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = 0, n = 0;
    for (int k = 0; k < WARPS; k++) {
        before += k < warp ? counts[k] : 0;
        n += counts[k];
    }
    if (match) list[before + __popc(votes & ((1u << lane) - 1))] = (int)threadIdx.x;
    __syncthreads();
    return n;
}

template <int W>
static __device__ void add_rows(const op_embed_w &s, float *row, int64_t base, const int *list,
                                int n)
{
    const numbers to = {row, false};
    for (int64_t j = threadIdx.x * W; j < s.H; j += BLOCK * W) {
        lanes<W> sum = load<W>(to, j);
        for (int k = 0; k < n; k++) {
            const lanes<W> x = load<W>(s.dx, (base + list[k]) * s.H + j);
#pragma unroll
            for (int i = 0; i < W; i++) sum.v[i] += x.v[i];
        }
        store(to, j, sum);
    }
}

template <int W> static __global__ void __launch_bounds__(BLOCK) embed_w_kernel(op_embed_w s)
{
    __shared__ int list[BLOCK];
    for (int64_t t = blockIdx.x; t < s.T; t += gridDim.x) {
        const int32_t id = s.ids[t];
        const int64_t v = id - s.FIRST;
        if (v < 0 || v >= s.V || has_earlier(s, t, id)) continue; /* for all threads alike */
        for (int64_t base = t; base < s.T; base += GROUP) {
            const unsigned own = matches_at(s.ids, base, s.T, id);
            if (!__syncthreads_or(own != 0)) continue;
            for (unsigned left = join_bits(own); left; left &= left - 1) {
                const int k = __ffs((int)left) - 1;
                const int n = list_threads(own >> k & 1, list);
                add_rows<W>(s, s.dw.floats() + v * s.H, base + k * BLOCK, list, n);
                __syncthreads(); /* who still reads the list */
            }
        }
    }
}

static void embed_w(const kernel_call *c)
{
    const op_embed_w o = op_embed_w_of(c);
    clear_first(c, o.V * o.H); /* E3 */
    auto *run = o.H % WIDE == 0 && all_aligned(c) ? embed_w_kernel<WIDE> : embed_w_kernel<1>;
    run<<<blocks_of(o.T), BLOCK, 0, stream_of(c)>>>(o);
}

/* ---- rows of the table */

struct word_rows : op_embed {
    template <int THREADS, int W> __device__ void row(int64_t t, int thread) const
    {
        const int64_t v = ids[t] - FIRST;
        const bool known = v >= 0 && v < V;
        for (int64_t j = thread * W; j < H; j += THREADS * W)
            store(x, t * H + j, known ? load<W>(w, v * H + j) : lanes<W>{});
    }
};

static void embed(const kernel_call *c)
{
    const op_embed o = op_embed_of(c);
    for_rows(c, o.T, o.H, word_rows{o});
}

static bool takes(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_EMBED_T] > 0;
}

static bool takes_w(const op *o, const op_types *t)
{
    return sums_wide(o, t) && o->dim[DIM_EMBED_W_T] > 0;
}

extern "C" cuda_part cuda_fast_embed(void)
{
    static const kernel rows[] = {
        {.kind = OP_EMBED, .name = "wide", .accepts = takes, .launch = embed},
        {.kind = OP_EMBED_W, .name = "groups", .accepts = takes_w, .launch = embed_w},
    };
    return PART(rows);
}
