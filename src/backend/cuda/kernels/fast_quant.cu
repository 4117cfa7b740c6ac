/* fast_quant.cu - products of E4M3 and E5M2 matrices on tensor cores.
 *
 * A block of threads has a tile of 128 x 128 results. It sums 128 products at a time with
 * mma.m16n8k32, then multiplies by both scales and adds to its FP32 sums: the tensor core's own
 * sums, which keep fewer bits than FP32, are never longer than that.
 *
 * I1  Experts start at multiples of 128 rows, so a tile of rows is one expert's, and steps over
 *     tokens are, too.
 * I2  Tiles lie in shared memory as rows of 128 bytes, whose 16-byte parts are exchanged by the
 *     row's number: eight rows are then read without conflict. */
#include "backend/cuda/kernels/copies.cuh"
#include "backend/cuda/kernels/quant.cuh"

enum { SIDE = 128, STAGES = 3, TILE = SIDE * SIDE, MMA_M = 16, MMA_N = 8, MMA_K = 32 };
enum { WARP_ROWS = 64, WARP_COLS = 32, FRAGS_M = WARP_ROWS / MMA_M, FRAGS_N = WARP_COLS / MMA_N };

/* Rows row0 .. row0+127 and 128 columns from k0 on; what lies outside is zero. */
static __device__ void load_tile(uint8_t *to, const quant_side &s, int64_t row0, int64_t k0,
                                 int64_t k_end)
{
    for (int i = (int)threadIdx.x; i < SIDE * 8; i += BLOCK) {
        const int r = i / 8, part = i % 8;
        const int64_t row = row0 + r, k = k0 + part * 16, left = k_end - k;
        const bool in = row < s.z.rows && left > 0;
        const int bytes = in ? (left < 16 ? (int)left : 16) : 0;
        const uint8_t *from = s.q + (in ? row * s.z.cols + k : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         shared_address(to + r * SIDE + (part ^ (r & 7)) * 16)),
                     "l"(from), "r"(bytes));
    }
}

static __device__ __forceinline__ uint32_t tile_address(const uint8_t *tile, int row, int part)
{
    return shared_address(tile + row * SIDE + (part ^ (row & 7)) * 16);
}

static __device__ __forceinline__ void read_four(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

#define MMA(A, B)                                                                                  \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." A "." B ".f32 "                          \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                           \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <bool WIDE_A>
static __device__ __forceinline__ void multiply(float d[4], const uint32_t a[4], const uint32_t *b)
{
    if constexpr (WIDE_A)
        MMA("e5m2", "e4m3");
    else
        MMA("e4m3", "e4m3");
}

typedef float sums[FRAGS_M][FRAGS_N][4];

/* One step of 128: products of a warp's 64 x 32 results. */
template <bool WIDE_A>
static __device__ void step(sums d, const uint8_t *a, const uint8_t *b, int row0, int col0)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll 1 /* more in flight spills registers */
    for (int k = 0; k < SIDE / MMA_K; k++) {
        uint32_t fa[FRAGS_M][4], fb[FRAGS_N / 2][4];
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
            read_four(fa[i], tile_address(a, row0 + i * MMA_M + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int j = 0; j < FRAGS_N / 2; j++)
            read_four(fb[j], tile_address(b, col0 + j * 16 + lane / 16 * 8 + lane % 8,
                                          2 * k + lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++)
                multiply<WIDE_A>(d[i][j], fa[i], &fb[j / 2][j % 2 * 2]);
    }
}

/* Scales of a matrix by blocks of 128, as quant_scale_at has them; none: 1. */
struct scales {
    const float *s;
    int64_t rows, down, across; /* from one row (of blocks, where they are square) or step on */
    bool square;
    __device__ __forceinline__ float at(int64_t i, int64_t step) const
    {
        if (!s || i >= rows) return 1;
        return __ldg(s + (square ? i >> 7 : i) * down + step * across);
    }
};

static __device__ scales scales_of(const quant_side &q)
{
    const int64_t blocks = quant_up4((q.z.cols + SIDE - 1) >> 7);
    if (q.z.square) return {(const float *)q.s, q.z.rows, blocks, 1, true};
    return {(const float *)q.s, q.z.rows, 1, quant_up4(q.z.rows), false};
}

struct place {
    int64_t row0, col0; /* of this warp's results */
    int lane;
    __device__ int64_t row(int i, int half) const
    {
        return row0 + i * MMA_M + lane / 4 + half * 8;
    }
    __device__ int64_t col(int j, int odd) const
    {
        return col0 + j * MMA_N + lane % 4 * 2 + odd;
    }
};

static __device__ void add_scaled(sums acc, const sums d, const scales &a, const scales &b,
                                  const place &p, int64_t k)
{
    float sa[FRAGS_M][2], sb[FRAGS_N][2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < FRAGS_M; i++) sa[i][h] = a.at(p.row(i, h), k);
        for (int j = 0; j < FRAGS_N; j++) sb[j][h] = b.at(p.col(j, h), k);
    }
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
            for (int n = 0; n < 4; n++) acc[i][j][n] += d[i][j][n] * (sa[i][n / 2] * sb[j][n % 2]);
}

static __device__ void write_sums(const quant_gemm &p, const sums acc, const place &at,
                                  int64_t part, float factor)
{
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const int64_t row = at.row(i, n / 2), col = at.col(j, n % 2);
                if (row < p.rows && col < p.cols)
                    put_or_add(p.y, (part * p.rows + row) * p.cols + col, acc[i][j][n] * factor,
                               p.add);
            }
}

/* The expert of a tile, and what it sums over; past the last expert nothing. */
struct extent {
    int64_t e, first, end;
};

static __device__ extent extent_of(const quant_gemm &p, int64_t row0)
{
    extent x = {blockIdx.z, 0, p.a.z.cols};
    if (!p.offsets) return x;
    if (p.weights) {
        const int64_t room = p.a.z.cols;
        x.first = p.offsets[x.e] < room ? p.offsets[x.e] : room;
        x.end = p.offsets[x.e + 1] < room ? p.offsets[x.e + 1] : room;
        return x;
    }
    for (x.e = 0; x.e < p.n_experts && row0 >= p.offsets[x.e + 1];) x.e++; /* I1 */
    if (x.e == p.n_experts) x.e = 0, x.end = 0;
    return x;
}

template <bool WIDE_A> static __global__ void __launch_bounds__(BLOCK) mma_kernel(quant_gemm p)
{
    extern __shared__ __align__(128) uint8_t tiles[]; /* [STAGES][2][TILE] */
    const int warp = (int)threadIdx.x / WARP, row_w = warp % 2 * WARP_ROWS,
              col_w = warp / 2 * WARP_COLS;
    const int64_t row0 = (int64_t)blockIdx.y * SIDE, col0 = (int64_t)blockIdx.x * SIDE;
    const extent x = extent_of(p, row0);
    const quant_side a = p.side_a(x.e), b = p.side_b(x.e);
    const place at = {row0 + row_w, col0 + col_w, (int)threadIdx.x % WARP};
    const scales scale_a = scales_of(a), scale_b = scales_of(b);
    const int64_t steps = (x.end - x.first + SIDE - 1) / SIDE;
    sums acc = {};
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            load_tile(tiles + 2 * s * TILE, a, row0, x.first + s * SIDE, x.end);
            load_tile(tiles + (2 * s + 1) * TILE, b, col0, x.first + s * SIDE, x.end);
        }
        asm volatile("cp.async.commit_group;");
    }
    for (int64_t s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        const int64_t ahead = s + STAGES - 1;
        if (ahead < steps) {
            const int64_t k = x.first + ahead * SIDE;
            load_tile(tiles + 2 * (ahead % STAGES) * TILE, a, row0, k, x.end);
            load_tile(tiles + (2 * (ahead % STAGES) + 1) * TILE, b, col0, k, x.end);
        }
        asm volatile("cp.async.commit_group;");
        sums d = {};
        const uint8_t *now = tiles + 2 * (s % STAGES) * TILE;
        step<WIDE_A>(d, now, now + TILE, row_w, col_w);
        add_scaled(acc, d, scale_a, scale_b, at, (x.first >> 7) + s);
    }
    const float factor = (a.g ? a.g[0] : 1) * (b.g ? b.g[0] : 1);
    write_sums(p, acc, at, p.weights ? x.e : 0, factor);
}

static bool takes(const op *o, const op_types *t)
{
    if (!cuda_types_fit(o, t)) return false;
    const quant_pair p = quant_pair_of(o);
    const bool form = p.a.form == QUANT_BLOCK || p.a.form == QUANT_TENSOR;
    return form && p.bt == DTYPE_E4M3 && p.a.cols % 16 == 0 && p.a.rows > 0 && p.b.rows > 0 &&
           p.a.rows < (int64_t)65535 * SIDE;
}

static void gemm(const kernel_call *c)
{
    const quant_gemm p = quant_gemm_of(c);
    const dim3 grid((unsigned)quant_blocks(p.cols, SIDE), (unsigned)quant_blocks(p.rows, SIDE),
                    (unsigned)p.parts_out);
    const int shared = STAGES * 2 * TILE;
    auto *kernel = p.a.type == DTYPE_E5M2 ? mma_kernel<true> : mma_kernel<false>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    kernel<<<grid, BLOCK, shared, stream_of(c)>>>(p);
}

extern "C" cuda_part cuda_fast_quant(void)
{
    static const kernel mma = {.name = "mma", .accepts = takes, .launch = gemm};
    static const kernel rows[] = {row_of(OP_QGEMM, mma),      row_of(OP_QGEMM_D, mma),
                                  row_of(OP_QGEMM_W, mma),    row_of(OP_QGROUPED, mma),
                                  row_of(OP_QGROUPED_D, mma), row_of(OP_QGROUPED_W, mma)};
    return PART(rows);
}
