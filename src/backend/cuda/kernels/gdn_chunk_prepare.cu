/* gdn_chunk_prepare.cu - matrices of every chunk of the gated delta rule, all at once.
 *
 * A block takes a chunk of a key head and its value heads one after another: k.k and q.k are the
 * same for all of them. I + A is inverted by squares of 16: those on the diagonal by substitution,
 * a thread a column; the others from them, T[i][j] = -T[i][i] (sum over k of A[i][k] T[k][j]). */
#include "backend/cuda/kernels/gdn_chunk.cuh"

enum { STRIDE = CHUNK + 1, SQUARE = 16, SQUARES = CHUNK / SQUARE };

struct prepare_memory {
    bf16 q[CHUNK * KEY_STRIDE], k[CHUNK * KEY_STRIDE];
    float a[CHUNK * STRIDE], t[CHUNK * STRIDE];
    gates g;
};

/* A warp takes eight tokens. */
static __device__ void make_factors_here(const rule &r, prepare_memory &m)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    for (int t = warp; t < CHUNK; t += WARPS) {
        float q = 0, k = 0;
        for (int i = lane; i < HEAD; i += WARP) {
            const float x = __bfloat162float(m.q[t * KEY_STRIDE + i]),
                        y = __bfloat162float(m.k[t * KEY_STRIDE + i]);
            q += x * x;
            k += y * y;
        }
        q = sum_warp(q);
        k = sum_warp(k);
        if (lane) continue;
        m.g.by_q[t] = 1 / sqrtf(q + 1e-6f) / sqrtf((float)r.dk);
        m.g.by_k[t] = 1 / sqrtf(k + 1e-6f);
    }
}

/* Sums of g in double: exponents are differences of numbers that may be far larger. A lane of the
 * first warp has two tokens. */
static __device__ void read_gates(const rule &r, const chunk_place &c, prepare_memory &m)
{
    const int lane = (int)threadIdx.x, t = 2 * lane;
    if (lane >= WARP) return;
    const float *g = (const float *)r.g.p, *beta = (const float *)r.beta.p;
    float x[2] = {0, 0}, y[2] = {0, 0};
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int64_t at = (c.first + t + e) * r.nv + c.h;
        if (t + e < c.n) x[e] = g[at], y[e] = beta[at];
    }
    const double both = (double)x[0] + (double)x[1];
    double sum = both;
    for (int step = 1; step < WARP; step *= 2) {
        const double before = __shfl_up_sync(ALL_LANES, sum, step);
        if (lane >= step) sum += before;
    }
    m.g.sum[t] = (float)(sum - (double)x[1]);
    m.g.sum[t + 1] = (float)sum;
    m.g.beta[t] = y[0];
    m.g.beta[t + 1] = y[1];
}

/* A to shared memory, P to where it belongs; upper halves are zero. */
static __device__ void make_squares(const chunks &w, const chunk_place &c, prepare_memory &m,
                                    const float (&kk)[4][4], const float (&qk)[4][4])
{
    const int warp = (int)threadIdx.x / WARP, row = warp % 4 * 16 + tile_row();
    bf16 *p = w.p + c.at * CHUNK * CHUNK;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int t = row + 8 * half, j = warp / 4 * 32 + tile_column(i);
            float out[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int u = j + e;
                const float decay = u <= t ? expf(m.g.sum[t] - m.g.sum[u]) * m.g.by_k[u] : 0;
                m.a[t * STRIDE + u] =
                    u < t ? m.g.beta[t] * decay * m.g.by_k[t] * kk[i][2 * half + e] : 0;
                out[e] = decay * m.g.by_q[t] * qk[i][2 * half + e];
            }
            put_pair(p + t * CHUNK + j, out[0], out[1]);
        }
}

/* Squares on the diagonal, and zeros everywhere else. */
static __device__ void invert_diagonal(prepare_memory &m)
{
    const int first = (int)threadIdx.x / SQUARE * SQUARE, j = (int)threadIdx.x % SQUARE;
    for (int e = (int)threadIdx.x; e < CHUNK * CHUNK; e += BLOCK)
        m.t[e / CHUNK * STRIDE + e % CHUNK] = 0;
    __syncthreads();
    if (threadIdx.x >= CHUNK) return;
    float x[SQUARE];
#pragma unroll
    for (int i = 0; i < SQUARE; i++) {
        const float *a = m.a + (first + i) * STRIDE + first;
        float sum = i == j ? 1 : 0;
#pragma unroll
        for (int k = 0; k < i; k++) sum -= a[k] * x[k];
        x[i] = sum;
        m.t[(first + i) * STRIDE + first + j] = sum;
    }
}

/* Row i of squares; sums on the way stand in the upper half of a, which nobody reads. */
static __device__ void invert_row(prepare_memory &m, int i)
{
    const int y = (int)threadIdx.x / SQUARE, x = (int)threadIdx.x % SQUARE;
    const float *a = m.a + (i * SQUARE + y) * STRIDE;
    for (int j = 0; j < i; j++) {
        float sum = 0;
        for (int k = j * SQUARE; k < i * SQUARE; k += SQUARE)
#pragma unroll
            for (int l = k; l < k + SQUARE; l++) sum += a[l] * m.t[l * STRIDE + j * SQUARE + x];
        m.a[(j * SQUARE + y) * STRIDE + i * SQUARE + x] = sum;
    }
    __syncthreads();
    for (int j = 0; j < i; j++) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < SQUARE; k++)
            sum += m.t[(i * SQUARE + y) * STRIDE + i * SQUARE + k] *
                   m.a[(j * SQUARE + k) * STRIDE + i * SQUARE + x];
        m.t[(i * SQUARE + y) * STRIDE + j * SQUARE + x] = -sum;
    }
    __syncthreads();
}

static __device__ void write_inverse(const chunks &w, const chunk_place &c, const prepare_memory &m)
{
    bf16 *t = w.t + c.at * CHUNK * CHUNK;
    for (int e = (int)threadIdx.x * 2; e < CHUNK * CHUNK; e += 2 * BLOCK) {
        const float *from = m.t + e / CHUNK * STRIDE + e % CHUNK;
        put_pair(t + e, from[0], from[1]);
    }
    const float *from = (const float *)&m.g;
    float *to = (float *)(w.g + c.at);
    for (int i = (int)threadIdx.x; i < (int)(sizeof(gates) / sizeof(float)); i += BLOCK)
        to[i] = from[i];
}

static __global__ void __launch_bounds__(BLOCK) prepare_kernel(chunks w)
{
    extern __shared__ __align__(16) char memory[];
    prepare_memory &m = *(prepare_memory *)memory;
    const rule &r = w.r;
    const int64_t key_head = blockIdx.y, heads = r.nv / r.nk;
    const int warp = (int)threadIdx.x / WARP;
    chunk_place c = place_of(r, blockIdx.z, blockIdx.x, key_head * heads);
    copy_tile<CHUNK, HEAD>(m.q, KEY_STRIDE, query_at(r, c), r.row, c.n, r.dk);
    copy_tile<CHUNK, HEAD>(m.k, KEY_STRIDE, key_at(r, c), r.row, c.n, r.dk);
    copies_wait();
    __syncthreads();
    make_factors_here(r, m);
    const matrix q = {m.q, KEY_STRIDE}, k = {m.k, KEY_STRIDE};
    float kk[4][4], qk[4][4];
    clear_tiles(kk);
    clear_tiles(qk);
    multiply<false, true>(kk, k, warp % 4 * 16, k, warp / 4 * 32, HEAD);
    multiply<false, true>(qk, q, warp % 4 * 16, k, warp / 4 * 32, HEAD);
    for (int64_t h = key_head * heads; h < (key_head + 1) * heads; h++) {
        c = place_of(r, blockIdx.z, blockIdx.x, h);
        __syncthreads();
        read_gates(r, c, m);
        __syncthreads();
        make_squares(w, c, m, kk, qk);
        invert_diagonal(m); /* a barrier stands between its zeros and its reads of a */
        __syncthreads();
        for (int i = 1; i < SQUARES; i++) invert_row(m, i);
        write_inverse(w, c, m);
    }
}

void gdn_prepare_chunks(const kernel_call *c, const chunks &w)
{
    const dim3 grid((unsigned)w.r.n_chunks, (unsigned)w.r.nk, (unsigned)w.r.b);
    cudaFuncSetAttribute(prepare_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)sizeof(prepare_memory));
    prepare_kernel<<<grid, BLOCK, sizeof(prepare_memory), stream_of(c)>>>(w);
}
