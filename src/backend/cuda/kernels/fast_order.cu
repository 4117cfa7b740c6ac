/* fast_order.cu - sorting pairs of tokens and experts, and counting them, in blocks.
 *
 * O1  A block has ITEMS pairs, a warp ITEMS / WARPS neighbouring ones, and goes through them in
 *     order, 32 at a time. So a pair's number among its expert's is: those of blocks before, those
 *     of warps before, those that its own warp has seen, and lanes before it with the same expert.
 * O2  Counts are integers: atomics on them have no order that could show. */
#include "backend/cuda/kernels/device.cuh"

enum { ROUNDS = 8, ITEMS = BLOCK * ROUNDS, EXPERTS_MOST = 1024, SCAN = 1024 };

struct pairs {
    const int32_t *ids; /* [T][K] */
    const float *keep;  /* [T][K], may be missing */
    int64_t n;
    int experts, first;
    /* -1: of nobody here. */
    __device__ __forceinline__ int expert(int64_t i) const
    {
        const int e = i < n ? ids[i] - first : -1;
        return e < 0 || e >= experts || (keep && keep[i] == 0) ? -1 : e;
    }
};

static int64_t blocks_for(int64_t n)
{
    return ceil_of(n, ITEMS);
}

/* counts[expert][block]. */
static __global__ void count_kernel(pairs p, int32_t *counts)
{
    extern __shared__ int own[]; /* [experts] */
    for (int e = (int)threadIdx.x; e < p.experts; e += BLOCK) own[e] = 0;
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.x * ITEMS;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int e = p.expert(first + r * BLOCK + threadIdx.x);
        if (e >= 0) atomicAdd(&own[e], 1);
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < p.experts; e += BLOCK)
        counts[(int64_t)e * gridDim.x + blockIdx.x] = own[e];
}

/* What comes before x in the warp; the last lane's sum goes into `all`. */
static __device__ int before_in_warp(int x, int *all)
{
    const int lane = (int)threadIdx.x % WARP;
    int sum = x;
    for (int step = 1; step < WARP; step *= 2) {
        const int other = __shfl_up_sync(ALL_LANES, sum, step);
        if (lane >= step) sum += other;
    }
    *all = __shfl_sync(ALL_LANES, sum, WARP - 1);
    return sum - x;
}

/* From counts to how many come before, a warp an expert; `total` gets an expert's sum. */
static __device__ void scan_blocks(int32_t *counts, int blocks, int experts, int *totals)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int e = (int)threadIdx.x / WARP; e < experts; e += SCAN / WARP) {
        int before = 0, all;
        for (int b0 = 0; b0 < blocks; b0 += WARP) {
            int32_t *at = counts + (int64_t)e * blocks + b0 + lane;
            const int x = b0 + lane < blocks ? *at : 0, here = before_in_warp(x, &all);
            if (b0 + lane < blocks) *at = before + here;
            before += all;
        }
        if (lane == 0) totals[e] = before;
    }
}

struct starts {
    int32_t *offsets, *demand; /* [experts + 1], [2] or missing */
    int64_t room, pad, align;
    __device__ void put(int i, int64_t sum) const
    {
        offsets[i] = (int32_t)(sum < room ? sum : room);
    }
};

/* One block: all of the table, then where experts start, by the first warp. */
static __global__ void __launch_bounds__(SCAN)
    scan_kernel(int32_t *counts, int blocks, int experts, starts s)
{
    __shared__ int totals[EXPERTS_MOST];
    scan_blocks(counts, blocks, experts, totals);
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    int64_t before = 0;
    if (threadIdx.x == 0) s.put(0, 0);
    for (int e0 = 0; e0 < experts; e0 += WARP) {
        const int e = e0 + (int)threadIdx.x,
                  x = e < experts ? (int)aligned_rows(totals[e], s.align) : 0;
        int all;
        const int64_t sum = before + before_in_warp(x, &all) + x;
        if (e < experts) s.put(e + 1, s.pad ? (e + 1) * s.pad : sum);
        before += all;
    }
    if (threadIdx.x == 0 && s.demand) {
        s.demand[0] = (int32_t)(s.pad ? experts * s.pad : before);
        s.demand[1] = (int32_t)s.room;
    }
}

static __global__ void place_kernel(pairs p, const int32_t *counts, starts s, int32_t *rows)
{
    extern __shared__ int numbers_of[]; /* [WARPS][experts]: the next number */
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    int *own = numbers_of + warp * p.experts, e[ROUNDS];
    const int64_t first = (int64_t)blockIdx.x * ITEMS + warp * (WARP * ROUNDS) + lane;
    for (int i = lane; i < p.experts; i += WARP) own[i] = 0;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        e[r] = p.expert(first + r * WARP);
        if (e[r] >= 0) atomicAdd(&own[e[r]], 1);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < p.experts; i += BLOCK) {
        int next = counts[(int64_t)i * gridDim.x + blockIdx.x];
        for (int w = 0; w < WARPS; w++) {
            const int n = numbers_of[w * p.experts + i];
            numbers_of[w * p.experts + i] = next;
            next += n;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const unsigned alike = __match_any_sync(ALL_LANES, e[r]);
        const int ahead = __popc(alike & ((1u << lane) - 1));
        const int64_t i = first + r * WARP;
        int32_t row = -1;
        if (e[r] >= 0) {
            const int64_t number = own[e[r]] + ahead,
                          start = s.pad ? e[r] * s.pad : s.offsets[e[r]];
            if (start + number < s.room && (!s.pad || number < s.pad))
                row = (int32_t)(start + number);
        }
        __syncwarp();
        if (e[r] >= 0 && ahead == 0) own[e[r]] += __popc(alike);
        __syncwarp();
        if (i < p.n) rows[i] = row;
    }
}

/* ---- rows of the table */

static bool sort_fits(const op *o, const op_types *t)
{
    const int64_t *d = o->dim, n = d[DIM_SORT_T] * d[DIM_SORT_K];
    return cuda_types_fit(o, t) && n > 0 && n <= INT32_MAX && d[DIM_SORT_E] > 0 &&
           d[DIM_SORT_E] <= EXPERTS_MOST;
}

static int64_t sort_bytes(const op *o, const op_types *)
{
    const int64_t *d = o->dim;
    return room_of(blocks_for(d[DIM_SORT_T] * d[DIM_SORT_K]) * d[DIM_SORT_E] * 4);
}

static void sort(const kernel_call *c)
{
    const op_sort o = op_sort_of(c);
    const int experts = (int)o.E;
    const pairs p = {o.ids, o.keep, o.T * o.K, experts, (int)o.FIRST};
    const starts s = {o.offsets, o.demand, o.ROOM, aligned_rows(o.PAD, o.ALIGN), o.ALIGN};
    int32_t *counts = (int32_t *)c->workspace; /* [experts][blocks] */
    const unsigned blocks = (unsigned)blocks_for(p.n);
    const size_t each = (size_t)experts * sizeof(int);
    count_kernel<<<blocks, BLOCK, each, stream_of(c)>>>(p, counts);
    scan_kernel<<<1, SCAN, 0, stream_of(c)>>>(counts, (int)blocks, experts, s);
    place_kernel<<<blocks, BLOCK, WARPS * each, stream_of(c)>>>(p, counts, s, o.rows);
}

/* A warp adds the counts of an expert. */
static __global__ void add_counts_kernel(const int32_t *counts, int blocks, float *to)
{
    const int64_t e = blockIdx.x;
    int sum = 0;
    for (int b = (int)threadIdx.x; b < blocks; b += WARP) sum += counts[e * blocks + b];
    sum = __reduce_add_sync(ALL_LANES, sum);
    if (threadIdx.x == 0) to[e] += (float)sum;
}

static void load_counts(const kernel_call *c)
{
    const op_load o = op_load_of(c);
    const int experts = (int)o.E;
    const pairs p = {o.ids, o.keep, o.T * o.K, experts, 0};
    int32_t *counts = (int32_t *)c->workspace;
    const unsigned blocks = (unsigned)blocks_for(p.n);
    count_kernel<<<blocks, BLOCK, (size_t)experts * sizeof(int), stream_of(c)>>>(p, counts);
    add_counts_kernel<<<(unsigned)experts, WARP, 0, stream_of(c)>>>(counts, (int)blocks, o.counts);
}

extern "C" cuda_part cuda_fast_order(void)
{
    static const kernel rows[] = {
        {.kind = OP_SORT,
         .name = "blocks",
         .accepts = sort_fits,
         .workspace = sort_bytes,
         .launch = sort},
        {.kind = OP_LOAD,
         .name = "blocks",
         .accepts = sort_fits,
         .workspace = sort_bytes,
         .launch = load_counts},
    };
    return PART(rows);
}
