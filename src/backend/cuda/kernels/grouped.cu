/* grouped.cu - GEMMs of every expert with its own rows, and their biases.
 *
 * G1  Blocks are launched for the room: a tile of 64 rows, whoever they belong to. It goes through
 *     the experts that have rows in it, each with its own weights; rows of nobody become zero. So
 *     counts stay on the device, and empty experts cost nothing.
 * G2  For the gradient by weights a block has a tile of one expert's, and sums over its rows. */
#include "backend/cuda/kernels/columns.cuh"
#include "backend/cuda/kernels/experts.cuh"
#include "backend/cuda/kernels/gemm.cuh"

/* c[row][n] = a[row][l] times expert e's b, which begins at e * each. */
static __global__ void rows_by_expert_kernel(matrix a, matrix b, int64_t each, matrix c, experts ex,
                                             int64_t n, int64_t k)
{
    __shared__ gemm_memory s;
    const int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    const int64_t filled = ex.start(ex.n), past = i0 + TILE < filled ? i0 + TILE : filled;
    float acc[EACH][EACH];
    for (int64_t row = i0; row < past;) {
        const int64_t e = ex.of(row), next = ex.start(e + 1);
        const range rows = {row, next < past ? next : past};
        const matrix own = {from(b.x, e * each), b.row, b.column};
        gemm_tile(s, a, i0, rows, own, j0, {0, n}, {0, k}, acc);
        store_tile(c, i0, rows, j0, {0, n}, acc, false);
        row = rows.past;
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int q = 0; q < EACH; q++) acc[r][q] = 0;
    store_tile(c, i0, {filled > i0 ? filled : i0, ex.room}, j0, {0, n}, acc, false);
}

template <class O>
static void rows_by_expert(const kernel_call *call, const O &o, matrix a, matrix b, matrix c)
{
    const experts ex = {o.offsets, o.E, o.ROOM};
    const int64_t n = c.row, k = a.row;
    if (ex.room <= 0 || n <= 0) return;
    const dim3 grid((unsigned)ceil_of(ex.room, TILE), (unsigned)ceil_of(n, TILE));
    rows_by_expert_kernel<<<grid, BLOCK, 0, stream_of(call)>>>(a, b, n * k, c, ex, n, k);
}

static void grouped(const kernel_call *c)
{
    const op_grouped o = op_grouped_of(c);
    rows_by_expert(c, o, {o.x, o.K, 1}, {o.w, o.K, 1}, {o.y, o.N, 1});
}

static void grouped_d(const kernel_call *c)
{
    const op_grouped_d o = op_grouped_d_of(c);
    rows_by_expert(c, o, {o.dy, o.N, 1}, {o.w, 1, o.K}, {o.dx, o.K, 1});
}

/* dw[e][n][k] += sum over e's rows of dy[row][n] x[row][k]. */
static __global__ void weights_kernel(matrix dy, matrix x, matrix dw, experts ex, int64_t n,
                                      int64_t k)
{
    __shared__ gemm_memory s;
    const int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    const int64_t e = blockIdx.z;
    const range rows = {ex.start(e), ex.start(e + 1)};
    float acc[EACH][EACH];
    if (rows.first >= rows.past) return;
    const matrix own = {from(dw.x, e * n * k), dw.row, dw.column};
    gemm_tile(s, dy, i0, {0, n}, x, j0, {0, k}, rows, acc);
    store_tile(own, i0, {0, n}, j0, {0, k}, acc, true);
}

static void grouped_w(const kernel_call *c)
{
    const op_grouped_w o = op_grouped_w_of(c);
    if (o.N <= 0 || o.K <= 0 || o.E <= 0) return;
    clear_first(c, o.E * o.N * o.K);
    const dim3 grid((unsigned)ceil_of(o.N, TILE), (unsigned)ceil_of(o.K, TILE), (unsigned)o.E);
    weights_kernel<<<grid, BLOCK, 0, stream_of(c)>>>({o.dy, 1, o.N}, {o.x, 1, o.K}, {o.dw, o.K, 1},
                                                     {o.offsets, o.E, o.ROOM}, o.N, o.K);
}

/* ---- biases */

struct grouped_bias_rows : op_grouped_bias {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t e = experts{offsets, E, ROOM}.of(i);
        if (e == E) return;
        const float by = (p ? p[i] : 1) * scale;
        for (int64_t j = thread * W; j < N; j += THREADS * W) {
            lanes<W> v = load<W>(b, e * N + j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= by;
            store_or_add(y, i * N + j, v, true);
        }
    }
};

static void grouped_bias(const kernel_call *c)
{
    const op_grouped_bias o = op_grouped_bias_of(c);
    for_rows(c, o.ROOM, o.N, grouped_bias_rows{o});
}

/* A block has 32 columns of one expert, 8 of its rows at a time. */
static __global__ void bias_w_kernel(numbers dy, const float *p, experts ex, int64_t n, float *db)
{
    __shared__ float sums[COLUMN_ROWS][WARP];
    const int lane = (int)threadIdx.x % WARP, line = (int)threadIdx.x / WARP;
    const int64_t e = blockIdx.y, j = (int64_t)blockIdx.x * WARP + lane;
    const int64_t past = ex.start(e + 1);
    float sum = 0;
    for (int64_t row = ex.start(e) + line; j < n && row < past; row += COLUMN_ROWS)
        sum += get(dy, row * n + j) * (p ? p[row] : 1);
    sums[line][lane] = sum;
    __syncthreads();
    if (line != 0 || j >= n) return;
    for (int k = 1; k < COLUMN_ROWS; k++) sum += sums[k][lane];
    db[e * n + j] += sum;
}

static void grouped_bias_w(const kernel_call *c)
{
    const op_grouped_bias_w o = op_grouped_bias_w_of(c);
    if (o.N <= 0 || o.E <= 0) return;
    const dim3 grid((unsigned)ceil_of(o.N, WARP), (unsigned)o.E);
    bias_w_kernel<<<grid, BLOCK, 0, stream_of(c)>>>(o.dy, o.p, {o.offsets, o.E, o.ROOM}, o.N,
                                                    o.db.floats());
}

struct bias_p_rows : op_grouped_bias_p {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t e = experts{offsets, E, ROOM}.of(i);
        float sum = 0;
        if (e == E) return;
        for (int64_t j = thread * W; j < N; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * N + j), by = load<W>(b, e * N + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += d.v[k] * by.v[k];
        }
        sum = sum_over<THREADS>(sum);
        if (thread == 0) dp[i] += scale * sum;
    }
};

static void grouped_bias_p(const kernel_call *c)
{
    const op_grouped_bias_p o = op_grouped_bias_p_of(c);
    for_rows(c, o.ROOM, o.N, bias_p_rows{o});
}

extern "C" cuda_part cuda_grouped(void)
{
    static const kernel rows[] = {
        {.kind = OP_GROUPED, .name = "plain", .launch = grouped},
        {.kind = OP_GROUPED_D, .name = "plain", .launch = grouped_d},
        {.kind = OP_GROUPED_W, .name = "plain", .launch = grouped_w},
        {.kind = OP_GROUPED_BIAS, .name = "plain", .launch = grouped_bias},
        {.kind = OP_GROUPED_BIAS_W,
         .name = "plain",
         .accepts = sums_wide,
         .launch = grouped_bias_w},
        {.kind = OP_GROUPED_BIAS_P, .name = "plain", .launch = grouped_bias_p},
    };
    return PART(rows);
}
