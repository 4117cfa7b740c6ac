/* grouped.cu - GEMMs of every expert with its own rows, and their biases.
 *
 * G1  Blocks are launched for the room: a tile of 64 rows, whoever they belong to. It goes through
 *     the experts that have rows in it, each with its own weights; rows of nobody become zero. So
 *     counts stay on the device, and empty experts cost nothing.
 * G2  For the gradient by weights a block has a tile of one expert's, and sums over its rows. */
#include "backend/cuda/kernels/columns.cuh"
#include "backend/cuda/kernels/experts.cuh"
#include "backend/cuda/kernels/gemm.cuh"

static experts experts_of(const kernel_call *c, int i)
{
    return {ints_in(c, i), c->o->dim[DIM_GROUPED_E], c->o->dim[DIM_GROUPED_ROOM]};
}

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

static void rows_by_expert(const kernel_call *call, matrix a, matrix b, matrix c, int64_t n,
                           int64_t k)
{
    const experts ex = experts_of(call, 2);
    if (ex.room <= 0 || n <= 0) return;
    const dim3 grid((unsigned)ceil_of(ex.room, TILE), (unsigned)ceil_of(n, TILE));
    rows_by_expert_kernel<<<grid, BLOCK, 0, stream_of(call)>>>(a, b, n * k, c, ex, n, k);
}

static void grouped(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GROUPED_N], k = c->o->dim[DIM_GROUPED_K];
    rows_by_expert(c, {in_of(c, IN_GROUPED_x), k, 1}, {in_of(c, IN_GROUPED_w), k, 1},
                   {out_of(c, OUT_GROUPED_y), n, 1}, n, k);
}

static void grouped_d(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GROUPED_D_N], k = c->o->dim[DIM_GROUPED_D_K];
    rows_by_expert(c, {in_of(c, IN_GROUPED_D_dy), n, 1}, {in_of(c, IN_GROUPED_D_w), 1, k},
                   {out_of(c, OUT_GROUPED_D_dx), k, 1}, k, n);
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
    const int64_t n = c->o->dim[DIM_GROUPED_W_N], k = c->o->dim[DIM_GROUPED_W_K];
    const experts ex = experts_of(c, IN_GROUPED_W_offsets);
    if (n <= 0 || k <= 0 || ex.n <= 0) return;
    clear_first(c, ex.n * n * k);
    const dim3 grid((unsigned)ceil_of(n, TILE), (unsigned)ceil_of(k, TILE), (unsigned)ex.n);
    weights_kernel<<<grid, BLOCK, 0, stream_of(c)>>>({in_of(c, IN_GROUPED_W_dy), 1, n},
                                                     {in_of(c, IN_GROUPED_W_x), 1, k},
                                                     {out_of(c, OUT_GROUPED_W_dw), k, 1}, ex, n, k);
}

/* ---- biases */

struct grouped_bias_rows {
    numbers b, y;   /* [E][N], [ROOM][N] */
    const float *p; /* [ROOM], may be missing */
    experts ex;
    int64_t n;
    float scale;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t e = ex.of(i);
        if (e == ex.n) return;
        const float by = (p ? p[i] : 1) * scale;
        for (int64_t j = thread * W; j < n; j += THREADS * W) {
            lanes<W> v = load<W>(b, e * n + j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= by;
            store_or_add(y, i * n + j, v, true);
        }
    }
};

static void grouped_bias(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GROUPED_BIAS_N];
    const experts ex = experts_of(c, IN_GROUPED_BIAS_offsets);
    for_rows(c, ex.room, n,
             grouped_bias_rows{in_of(c, IN_GROUPED_BIAS_b), out_of(c, OUT_GROUPED_BIAS_y),
                               floats_in(c, IN_GROUPED_BIAS_p), ex, n,
                               (float)c->o->real[REAL_GROUPED_BIAS_scale]});
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
    const int64_t n = c->o->dim[DIM_GROUPED_BIAS_W_N];
    const experts ex = experts_of(c, IN_GROUPED_BIAS_W_offsets);
    if (n <= 0 || ex.n <= 0) return;
    const dim3 grid((unsigned)ceil_of(n, WARP), (unsigned)ex.n);
    bias_w_kernel<<<grid, BLOCK, 0, stream_of(c)>>>(in_of(c, IN_GROUPED_BIAS_W_dy),
                                                    floats_in(c, IN_GROUPED_BIAS_W_p), ex, n,
                                                    floats_out(c, OUT_GROUPED_BIAS_W_db));
}

struct bias_p_rows {
    numbers dy, b; /* [ROOM][N], [E][N] */
    experts ex;
    float *dp; /* [ROOM] */
    int64_t n;
    float scale;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t e = ex.of(i);
        float sum = 0;
        if (e == ex.n) return;
        for (int64_t j = thread * W; j < n; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * n + j), by = load<W>(b, e * n + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += d.v[k] * by.v[k];
        }
        sum = sum_over<THREADS>(sum);
        if (thread == 0) dp[i] += scale * sum;
    }
};

static void grouped_bias_p(const kernel_call *c)
{
    const int64_t room = c->o->dim[DIM_GROUPED_BIAS_P_ROOM], n = c->o->dim[DIM_GROUPED_BIAS_P_N];
    for_rows(c, room, n,
             bias_p_rows{in_of(c, IN_GROUPED_BIAS_P_dy), in_of(c, IN_GROUPED_BIAS_P_b),
                         experts_of(c, IN_GROUPED_BIAS_P_offsets),
                         floats_out(c, OUT_GROUPED_BIAS_P_dp), n,
                         (float)c->o->real[REAL_GROUPED_BIAS_P_scale]});
}

extern "C" cuda_part cuda_grouped(void)
{
    static const kernel rows[] = {
        {OP_GROUPED, "plain", NULL, NULL, NULL, NULL, grouped},
        {OP_GROUPED_D, "plain", NULL, NULL, NULL, NULL, grouped_d},
        {OP_GROUPED_W, "plain", NULL, NULL, NULL, NULL, grouped_w},
        {OP_GROUPED_BIAS, "plain", NULL, NULL, NULL, NULL, grouped_bias},
        {OP_GROUPED_BIAS_W, "plain", sums_wide, NULL, NULL, NULL, grouped_bias_w},
        {OP_GROUPED_BIAS_P, "plain", NULL, NULL, NULL, NULL, grouped_bias_p},
    };
    return PART(rows);
}
