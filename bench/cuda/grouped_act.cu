/* grouped_act.cu - does SwiGLU in the epilogue of the experts' first GEMM pay? The GEMM that
 * writes [gate | up] and what SwiGLU makes of it, beside the GEMM of grouped_gemm.cuh and a pass
 * of its own behind it: the same bits, and how long each takes. Needs a Hopper GPU.
 *
 * A tile has 128 columns of gate and the 128 of up that belong to them, so that a thread has both
 * of every pair. Results leave through the one buffer twice: first both, then their SwiGLU. */
#include "grouped_problem.cuh"
#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/registers.cuh"

typedef struct {
    gemm_args g; /* n: gate and up */
    bf16 *y;     /* [rows][n / 2] */
    const float *p;
} act_args;

enum { STAGES = 4, PAIR = 2, HALF_BLOCKS = OUT_BLOCKS / 2 };

/* Columns of a tile: those of gate begin at the first, those of up half a row later. */
__device__ __forceinline__ int column_of(const act_args &x, const tile *t, int half)
{
    return half * (x.g.n / 2) + t->n0 / 2;
}

__device__ __forceinline__ void load_pair(uint32_t to, const CUtensorMap *map, const act_args &x,
                                          const tile *t, int k0, uint32_t full, int rank)
{
    const int bytes = B_BYTES / PAIR;
    if (!t->alone) {
        load_part<GEMM_FORWARD, TILE_N / PAIR, true, TILE_N>(to + bytes * rank, map, t,
                                                             column_of(x, t, rank), k0, full, 3);
        return;
    }
    for (int i = 0; i < PAIR; i++)
        load_part<GEMM_FORWARD, TILE_N / PAIR, false, TILE_N>(to + bytes * i, map, t,
                                                              column_of(x, t, i), k0, full, 0);
}

__device__ void produce_pairs(gemm_shared<STAGES> *s, const CUtensorMap *a, const CUtensorMap *b,
                              const act_args &x, int rank)
{
    ring r = {0, 1};
    tile t;
    int e = 0;
    for (int i = blockIdx.x / PAIR;
         find_tile<GEMM_FORWARD, PAIR>(x.g, s->tiles_end, s->first_row, i, &e, rank, &t);
         i += gridDim.x / PAIR) {
        const bool rows = t.valid > 0;
        for (int step = 0; step < t.n_steps; step++, ring_next<STAGES>(&r)) {
            const uint32_t full = shared_address(&s->full[r.at]);
            const uint32_t to = shared_address(s->stage[r.at]);
            barrier_wait(shared_address(&s->empty[r.at]), r.phase);
            barrier_expect(full, rows ? STAGE_BYTES : t.alone ? 0 : B_BYTES);
            if (rows) load_a<GEMM_FORWARD>(to, a, &t, step * TILE_K, full);
            if (rows || !t.alone) load_pair(to + A_BYTES, b, x, &t, step * TILE_K, full, rank);
        }
    }
}

__device__ void store_pairs(gemm_shared<STAGES> *s, const CUtensorMap *c, const CUtensorMap *y,
                            const act_args &x, int rank)
{
    uint32_t phase = 0;
    tile t;
    int e = 0;
    for (int i = blockIdx.x / PAIR;
         find_tile<GEMM_FORWARD, PAIR>(x.g, s->tiles_end, s->first_row, i, &e, rank, &t);
         i += gridDim.x / PAIR)
        for (int turn = 0; turn < 4; turn++) { /* of each half both, then their SwiGLU */
            const int half = turn / 2, row = t.first_row + t.m0 + half * HALF_M;
            if (idle<GEMM_FORWARD>(&t, half)) continue;
            barrier_arrive(shared_address(&s->out_granted[half]));
            barrier_wait(shared_address(&s->out_full), phase);
            phase ^= 1;
            if (!whole<GEMM_FORWARD>(&t, half)) continue;
            for (int b = 0; b < (turn % 2 ? HALF_BLOCKS : OUT_BLOCKS); b++) {
                const int n = column_of(x, &t, b / HALF_BLOCKS) + b % HALF_BLOCKS * 64;
                tma_store<2>(turn % 2 ? y : c, {n, row, 0, 0}, shared_address(s->out[b]));
            }
            tma_commit();
            tma_wait_read();
        }
    tma_wait_all();
}

/* A tile that ends inside a warpgroup's rows; `to` has `width` columns. */
__device__ __forceinline__ void store_some_at(const uint8_t *from, bf16 *to, int width, int n,
                                              const tile *t, int half)
{
    const int lane = threadIdx.x % 32, chunk = lane % 8;
    for (int i = 0; i < 4; i++) {
        const int row = threadIdx.x / 32 % 4 * 16 + i * 4 + lane / 8, m = half * HALF_M + row;
        if (m >= t->valid) continue;
        *(float4 *)(to + (size_t)(t->first_row + t->m0 + m) * width + n + chunk * 8) =
            *(const float4 *)(from + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4));
    }
}

__device__ __forceinline__ float rounded(float v)
{
    return __bfloat162float(__float2bfloat16(v));
}

/* Of a thread's two rows: columns of gate are the first 64 numbers, those of up the others. */
__device__ __forceinline__ void activate(float acc[128], const act_args &x, const tile *t, int half)
{
    const int m = half * HALF_M + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    float by[2] = {1, 1};
    for (int i = 0; i < 2; i++)
        if (x.p && m + 8 * i < t->valid) by[i] = x.p[t->first_row + t->m0 + m + 8 * i];
#pragma unroll
    for (int j = 0; j < 64; j++)
        acc[j] = silu(rounded(acc[j])) * rounded(acc[j + 64]) * by[j % 4 / 2];
}

/* `n_blocks` of 64 columns, when the buffer is granted. */
template <int N_BLOCKS>
__device__ __forceinline__ void hand_over_blocks(const float acc[128], gemm_shared<STAGES> *s,
                                                 const act_args &x, const tile *t, int half,
                                                 uint32_t *granted)
{
    const bool both = N_BLOCKS == OUT_BLOCKS;
    barrier_wait(shared_address(&s->out_granted[half]), *granted);
    *granted ^= 1;
#pragma unroll
    for (int b = 0; b < N_BLOCKS; b++) stage_bf16<TILE_N>(s->out[b], acc, b);
    if (!whole<GEMM_FORWARD>(t, half)) {
        __syncwarp();
        for (int b = 0; b < N_BLOCKS; b++)
            store_some_at(s->out[b], both ? (bf16 *)x.g.c : x.y, both ? x.g.n : x.g.n / 2,
                          column_of(x, t, b / HALF_BLOCKS) + b % HALF_BLOCKS * 64, t, half);
    }
    proxy_fence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(&s->out_full));
}

__device__ void consume_pairs(gemm_shared<STAGES> *s, const act_args &x, int rank, int half)
{
    ring r = {0, 0};
    tile t, next;
    int e = 0, i = blockIdx.x / PAIR;
    const int stride = gridDim.x / PAIR;
    uint32_t granted = 0;
    bool more = find_tile<GEMM_FORWARD, PAIR>(x.g, s->tiles_end, s->first_row, i, &e, rank, &t);
    while (more) {
        float acc[128];
        int last = 0;
        if (idle<GEMM_FORWARD>(&t, half)) {
            pass_by<PAIR, STAGES>(s, &t, &r, half);
            more = find_tile<GEMM_FORWARD, PAIR>(x.g, s->tiles_end, s->first_row, i += stride, &e,
                                                 rank, &t);
            continue;
        }
        for (int step = 0; step < t.n_steps; step++, ring_next<STAGES>(&r)) {
            const uint32_t stage = shared_address(s->stage[r.at]);
            barrier_wait(shared_address(&s->full[r.at]), r.phase);
            multiply_stage<GEMM_FORWARD, TILE_N>(acc, stage + half * BLOCK_BYTES, stage + A_BYTES,
                                                 step == 0);
            if (step) {
                wgmma_wait<1>();
                release<PAIR>(&s->empty[last]);
            }
            last = r.at;
        }
        more = find_tile<GEMM_FORWARD, PAIR>(x.g, s->tiles_end, s->first_row, i += stride, &e, rank,
                                             &next);
        wgmma_wait<0>();
        release<PAIR>(&s->empty[last]);
        hand_over_blocks<OUT_BLOCKS>(acc, s, x, &t, half, &granted);
        activate(acc, x, &t, half);
        hand_over_blocks<HALF_BLOCKS>(acc, s, x, &t, half, &granted);
        t = next;
    }
}

__global__ void __launch_bounds__(GEMM_THREADS, 1)
    grouped_act(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap y,
                const act_args x)
{
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    gemm_shared<STAGES> *s = (gemm_shared<STAGES> *)shared_bytes;
    const int role = threadIdx.x / 128, rank = (int)cluster_rank();
    set_up<GEMM_FORWARD, OUT_BF16, PAIR, STAGES>(s, x.g);
    if (role == 0) {
        registers_fewer<40>();
        if (threadIdx.x == 0)
            produce_pairs(s, &a, &b, x, rank);
        else if (threadIdx.x == 32)
            store_pairs(s, &c, &y, x, rank);
        __syncwarp();
    } else {
        registers_more<232>();
        consume_pairs(s, x, rank, role - 1);
    }
    cluster_sync();
}

/* ---- beside it, the pass */

__global__ void pass(const bf16 *u, const float *p, bf16 *y, int64_t rows, int f)
{
    const int64_t n = rows * f / WIDE, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t row = i * WIDE / f, at = row * 2 * f + i * WIDE % f;
        const lanes<WIDE> gate = unpack(*(const uint4 *)(u + at)),
                          up = unpack(*(const uint4 *)(u + at + f));
        const float by = p ? p[row] : 1;
        lanes<WIDE> to;
        for (int k = 0; k < WIDE; k++) to.v[k] = silu(gate.v[k]) * up.v[k] * by;
        ((uint4 *)y)[i] = pack(to);
    }
}

typedef struct {
    problem q;
    bf16 *y;
    float *p;
} act_problem;

static void gemm_alone(void *of, cudaStream_t stream)
{
    ours<GEMM_FORWARD, OUT_BF16, PAIR, STAGES>(&((act_problem *)of)->q, stream);
}

static void pass_alone(void *of, cudaStream_t stream)
{
    const act_problem *x = (const act_problem *)of;
    pass<<<1056, 256, 0, stream>>>((const bf16 *)x->q.c, x->p, x->y, x->q.n_rows, x->q.p.n / 2);
}

static void one_behind_another(void *of, cudaStream_t stream)
{
    gemm_alone(of, stream);
    pass_alone(of, stream);
}

static void in_one(void *of, cudaStream_t stream)
{
    static int n_clusters;
    const act_problem *x = (const act_problem *)of;
    const problem *q = &x->q;
    const act_args args = {
        {q->first_row, q->c, q->n_experts, q->n_rows, 0, q->p.n, q->p.k}, x->y, x->p};
    const uint64_t rows = (uint64_t)q->n_rows, f = (uint64_t)q->p.n / 2;
    CUtensorMap map[4];
    if (!make_maps<GEMM_FORWARD, PAIR>({q->a, q->b, args.g}, map) ||
        !tensor_map(&map[3], x->y, {2, {f, rows}, {1, f}, {64, HALF_M}})) {
        fprintf(stderr, "no tensor map\n");
        exit(3);
    }
    CHECK((launch_clusters<PAIR>(grouped_act, &n_clusters, (int)sizeof(gemm_shared<STAGES>), stream,
                                 map[0], map[1], map[2], map[3], args)));
}

/* ---- the run */

typedef struct {
    bf16 *a, *b, *c, *y;
    float *p;
    int *first_row;
} memory;

static act_problem problem_of(const memory *m, const int *counts, int n_experts, int n, int k)
{
    int first[MAX_EXPERTS + 1] = {0};
    for (int e = 0; e < n_experts; e++) first[e + 1] = first[e] + counts[e];
    CHECK(cudaMemcpy(m->first_row, first, (size_t)(n_experts + 1) * 4, cudaMemcpyHostToDevice));
    return {{m->a,
             m->b,
             m->c,
             m->first_row,
             NULL,
             n_experts,
             first[n_experts],
             {"", GEMM_FORWARD, 0, n, k}},
            m->y,
            m->p};
}

/* Bytes of both results that differ between the two ways. */
static size_t wrong(act_problem *x)
{
    const size_t c = (size_t)x->q.n_rows * (size_t)x->q.p.n * 2, y = c / 2;
    unsigned char *got[2];
    size_t bad = 0;
    for (int i = 0; i < 2; i++) {
        got[i] = (unsigned char *)malloc(c + y);
        CHECK(cudaMemset(x->q.c, 0xff, c));
        CHECK(cudaMemset(x->y, 0xff, y));
        (i ? in_one : one_behind_another)(x, 0);
        CHECK(cudaMemcpy(got[i], x->q.c, c, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(got[i] + c, x->y, y, cudaMemcpyDeviceToHost));
    }
    for (size_t i = 0; i < c + y; i++) bad += got[0][i] != got[1][i];
    free(got[0]);
    free(got[1]);
    return bad;
}

static void time_one(const char *name, act_problem *x)
{
    static const struct {
        const char *name;
        void (*run)(void *, cudaStream_t);
    } ways[] = {{"the product", gemm_alone},
                {"SwiGLU", pass_alone},
                {"one behind another", one_behind_another},
                {"in one", in_one}};
    printf("%s: %zu bytes differ\n", name, wrong(x));
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const double cool = time_ms(ways[i].run, x, 2, 10, 20);
        const double hot = time_ms(ways[i].run, x, 150, 64, 0);
        printf("  %-20s %.3f ms with pauses, %.3f without\n", ways[i].name, cool, hot);
    }
}

int main(void)
{
    static const int odd[] = {0, 1, 63, 64, 65, 0, 0, 127, 128, 129, 255, 256, 257, 300, 640, 7, 0};
    static const struct {
        const char *name;
        int n_experts, n, k;
        int (*rows)(int e);
    } cases[] = {{"128 x 2048 rows, N1536 K2048", 128, 1536, 2048, even_rows},
                 {"skewed", 128, 1536, 2048, skewed_rows},
                 {"32 x 2048 rows, N4096 K7168", 32, 4096, 7168, even_rows}};
    const size_t rows = 262144, widest = 7168, weights = (size_t)32 * 4096 * 7168;
    memory m;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaMalloc(&m.a, rows * widest * 2));
    CHECK(cudaMalloc(&m.b, weights * 2));
    CHECK(cudaMalloc(&m.c, rows * 4096 * 2));
    CHECK(cudaMalloc(&m.y, rows * 2048 * 2));
    CHECK(cudaMalloc(&m.p, rows * 4));
    CHECK(cudaMalloc(&m.first_row, MAX_EXPERTS * 4 + 4));
    fill_random<<<1056, 256>>>(m.a, rows * widest, 1);
    fill_random<<<1056, 256>>>(m.b, weights, 2);
    CHECK(cudaMemset(m.p, 0x3f, rows * 4)); /* 0.747 each */
    act_problem small = problem_of(&m, odd, sizeof odd / sizeof odd[0], 512, 192);
    const size_t bad = wrong(&small);
    printf("odd shapes: %zu bytes differ\n", bad);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int counts[MAX_EXPERTS];
        for (int e = 0; e < cases[i].n_experts; e++) counts[e] = cases[i].rows(e);
        act_problem x = problem_of(&m, counts, cases[i].n_experts, cases[i].n, cases[i].k);
        time_one(cases[i].name, &x);
    }
    return bad != 0;
}
