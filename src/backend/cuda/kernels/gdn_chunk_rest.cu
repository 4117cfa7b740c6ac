/* gdn_chunk_rest.cu - gradients by q, k, beta and g of all chunks at once (gdn_chunk_back.cuh).
 *
 *     dP = do delta^T                       dA = -Y delta^T
 *     dq = e^G do S^T + (dP e^(..)) K
 *     dk = e^(G_last - G) delta dS^T - beta e^G Y S^T + (dP e^(..))^T Q + (dA and its turn) K
 *
 * R1  A block takes a chunk of a key head with all its value heads, so nobody else adds to its dq
 *     and dk; they stay in registers until the last head, and go through the norms at the end.
 * R2  What stands under e^(G_t - G_j) gives to G_t what it takes from G_j; dg is the sum of the
 *     later ones. Each share of a row or column has a slot of its own, added up in one order.
 * R3  A token's part of K dS times delta, and of K S times Y, are rows of dk times k. */
#include "backend/cuda/kernels/gdn_chunk_back.cuh"

struct slots {
    float pairs[2][CHUNK], found_in[4][CHUNK]; /* under e^(G_t - G_j): by rows, by columns */
    float by_beta[2][CHUNK];                   /* of A, beside the beta in it */
    float ended[2][CHUNK];                     /* under e^(G_last - G) */
    float asked[2][CHUNK], found[2][CHUNK];    /* under e^G: in o, in what keys have found */
    float y_v[CHUNK];                          /* Y times v */
    float kept[WARPS];                         /* S times dS */
    float dsum[CHUNK];
};

struct rest_memory {
    bf16 q[CHUNK * KEY_STRIDE], k[CHUNK * KEY_STRIDE];
    bf16 v[CHUNK * KEY_STRIDE], d_o[CHUNK * KEY_STRIDE], y[CHUNK * KEY_STRIDE];
    bf16 delta[CHUNK * KEY_STRIDE];
    bf16 s[HEAD * KEY_STRIDE], ds[HEAD * KEY_STRIDE];
    bf16 t[CHUNK * SQUARE_STRIDE];                             /* T, later dP for dq */
    bf16 dp[CHUNK * SQUARE_STRIDE], da[CHUNK * SQUARE_STRIDE]; /* for dk */
    gates g;
    slots sum;
};

/* Which 16 rows and which half of the columns are a warp's. */
struct warp_place {
    int row, half;
};

static __device__ __forceinline__ warp_place warp_at(void)
{
    const int warp = (int)threadIdx.x / WARP;
    return {warp % 4 * 16, warp / 4};
}

enum { STATES_AT_ONCE = 8 }; /* loads that are on their way; a warp has a row */

/* S and dS, and what they have in common. */
static __device__ void read_states(const back_chunks &w, const chunk_place &c, rest_memory &m)
{
    const rule &r = w.w.r;
    const float *s = r.states + c.at * r.dk * r.dv;
    const bf16 *ds = w.ds + c.at * r.dk * r.dv;
    const int row = (int)threadIdx.x / (HEAD / 4), j = (int)threadIdx.x % (HEAD / 4) * 4;
    float kept = 0;
    for (int i0 = 0; i0 < HEAD; i0 += 8 * STATES_AT_ONCE) {
        float4 x[STATES_AT_ONCE];
        uint2 y[STATES_AT_ONCE]; /* four numbers */
#pragma unroll
        for (int n = 0; n < STATES_AT_ONCE; n++) {
            const int i = i0 + 8 * n + row;
            const bool there = i < (int)r.dk && j < (int)r.dv;
            x[n] = there ? *(const float4 *)(s + i * r.dv + j) : make_float4(0, 0, 0, 0);
            y[n] = there ? *(const uint2 *)(ds + i * r.dv + j) : make_uint2(0, 0);
        }
#pragma unroll
        for (int n = 0; n < STATES_AT_ONCE; n++) {
            bf16 *to = m.s + (i0 + 8 * n + row) * KEY_STRIDE + j;
            const float2 a = get_pair((const bf16 *)&y[n].x), b = get_pair((const bf16 *)&y[n].y);
            kept += x[n].x * a.x + x[n].y * a.y + x[n].z * b.x + x[n].w * b.y;
            put_pair(to, x[n].x, x[n].y);
            put_pair(to + 2, x[n].z, x[n].w);
            *(uint2 *)(m.ds + (i0 + 8 * n + row) * KEY_STRIDE + j) = y[n];
        }
    }
    kept = sum_warp(kept);
    if (threadIdx.x % WARP == 0) m.sum.kept[threadIdx.x / WARP] = kept;
}

static __device__ void read_head(const back_chunks &w, const chunk_place &c, rest_memory &m)
{
    const rule &r = w.w.r;
    const int64_t head = (c.first * r.nv + c.h) * r.dv, step = r.nv * r.dv;
    copy_tile<CHUNK, HEAD>(m.v, KEY_STRIDE, (const bf16 *)r.qkv.p + value_offset(r, c), r.row, c.n,
                           r.dv);
    copy_tile<CHUNK, HEAD>(m.d_o, KEY_STRIDE, w.d_o + head, step, c.n, r.dv);
    copy_tile<CHUNK, HEAD>(m.y, KEY_STRIDE, w.y + head, step, c.n, r.dv);
    copy_tile<CHUNK, CHUNK>(m.t, SQUARE_STRIDE, w.w.t + c.at * CHUNK * CHUNK, CHUNK, CHUNK, CHUNK);
    copy_gates(&m.g, w.w.g + c.at);
    read_states(w, c, m);
    copies_wait();
    __syncthreads();
}

/* Four threads a token. */
static __device__ void dot_values(rest_memory &m)
{
    const int t = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4;
    float sum = 0;
    for (int i = part * 2; i < HEAD; i += 8) {
        const float2 v = get_pair(m.v + t * KEY_STRIDE + i), y = get_pair(m.y + t * KEY_STRIDE + i);
        sum += v.x * y.x + v.y * y.y;
    }
    sum = sum_row(sum);
    if (part == 0) m.sum.y_v[t] = sum;
}

/* delta, by way of beta (v - e^G K S) in the place of v. */
static __device__ void make_delta(rest_memory &m)
{
    const warp_place at = warp_at();
    float x[8][4];
    clear_tiles(x);
    multiply<false, false>(x, matrix{m.k, KEY_STRIDE}, at.row, matrix{m.s, KEY_STRIDE},
                           64 * at.half, HEAD);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = at.row + tile_row() + 8 * half;
        const float by = from_start(m.g, t) * m.g.by_k[t], beta = m.g.beta[t];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            bf16 *v = m.v + t * KEY_STRIDE + 64 * at.half + tile_column(i);
            const float2 old = get_pair(v);
            put_pair(v, beta * (old.x - by * x[i][2 * half]),
                     beta * (old.y - by * x[i][2 * half + 1]));
        }
    }
    __syncthreads();
    clear_tiles(x);
    multiply<false, false>(x, matrix{m.t, SQUARE_STRIDE}, at.row, matrix{m.v, KEY_STRIDE},
                           64 * at.half, CHUNK);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            put_pair(m.delta + (at.row + tile_row() + 8 * half) * KEY_STRIDE + 64 * at.half +
                         tile_column(i),
                     x[i][2 * half], x[i][2 * half + 1]);
    __syncthreads();
}

/* One number of dP and of Y delta^T, at token t and j: what each of the two products of dk and that
 * of dq gets, and the shares of G and beta. */
struct share {
    float of_q, of_k, pair, by_beta;
    float a; /* -beta e^(..) times Y delta^T */
};

static __device__ __forceinline__ share share_of(const gates &g, int t, int j, float dp, float yd,
                                                 float kk, float p)
{
    share s = {0, 0, 0, 0, 0};
    if (j > t) return s;
    const float decay = expf(g.sum[t] - g.sum[j]);
    s.of_q = dp * decay * g.by_k[j];
    s.of_k = dp * decay * g.by_q[t];
    if (j == t) return s;
    s.a = -g.beta[t] * decay * yd;
    s.by_beta = decay * yd * kk * g.by_k[t] * g.by_k[j];
    s.pair = dp * p - g.beta[t] * s.by_beta;
    return s;
}

/* dP and dA become operands; their sums by rows and columns go to slots (R2). */
static __device__ void make_pairs(const back_chunks &w, const chunk_place &c, rest_memory &m)
{
    const warp_place at = warp_at();
    const matrix delta = {m.delta, KEY_STRIDE}, k = {m.k, KEY_STRIDE};
    const bf16 *p = w.w.p + c.at * CHUNK * CHUNK;
    float dp[4][4], yd[4][4], kk[4][4];
    clear_tiles(dp);
    clear_tiles(yd);
    clear_tiles(kk);
    multiply<false, true>(dp, matrix{m.d_o, KEY_STRIDE}, at.row, delta, 32 * at.half, HEAD);
    multiply<false, true>(yd, matrix{m.y, KEY_STRIDE}, at.row, delta, 32 * at.half, HEAD);
    multiply<false, true>(kk, k, at.row, k, 32 * at.half, HEAD);
    float rows[2] = {0, 0}, betas[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int j = 32 * at.half + tile_column(i);
        float columns[2] = {0, 0};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int t = at.row + tile_row() + 8 * half;
            const float2 was = get_pair(p + t * CHUNK + j);
            share s[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                s[e] = share_of(m.g, t, j + e, dp[i][2 * half + e], yd[i][2 * half + e],
                                kk[i][2 * half + e], e ? was.y : was.x);
                rows[half] += s[e].pair;
                betas[half] += s[e].by_beta;
                columns[e] += s[e].pair;
                if (j + e <= t) {
                    m.da[t * SQUARE_STRIDE + j + e] = __float2bfloat16(s[e].a * m.g.by_k[j + e]);
                    m.da[(j + e) * SQUARE_STRIDE + t] = __float2bfloat16(s[e].a * m.g.by_k[t]);
                }
            }
            put_pair(m.t + t * SQUARE_STRIDE + j, s[0].of_q, s[1].of_q);
            put_pair(m.dp + t * SQUARE_STRIDE + j, s[0].of_k, s[1].of_k);
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float sum = sum_column(columns[e]);
            if (tile_row() == 0) m.sum.found_in[at.row / 16][j + e] = sum;
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = at.row + tile_row() + 8 * half;
        const float pairs = sum_row(rows[half]), by_beta = sum_row(betas[half]);
        if (threadIdx.x % 4) continue;
        m.sum.pairs[at.half][t] = pairs;
        m.sum.by_beta[at.half][t] = by_beta;
    }
    __syncthreads();
}

/* to += scale x' with x' = by[t] x; a row's part of x' times `with` goes to a slot. */
template <class BY, class SCALE>
static __device__ __forceinline__ void add_scaled(float (&to)[8][4], const float (&x)[8][4],
                                                  const bf16 *with, float (*slot)[CHUNK], BY by,
                                                  SCALE scale)
{
    const warp_place at = warp_at();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = at.row + tile_row() + 8 * half;
        const float first = by(t), second = scale(t);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float2 y = get_pair(with + t * KEY_STRIDE + 64 * at.half + tile_column(i));
            const float a = first * x[i][2 * half], b = first * x[i][2 * half + 1];
            sum += a * y.x + b * y.y;
            to[i][2 * half] += second * a;
            to[i][2 * half + 1] += second * b;
        }
        sum = sum_row(sum);
        if (threadIdx.x % 4 == 0) slot[at.half][t] = sum;
    }
}

/* What comes through S and dS. Slots hold sums with q and k as they are, without their factors. */
static __device__ void add_states(rest_memory &m, float (&dq)[8][4], float (&dk)[8][4])
{
    const warp_place at = warp_at();
    const int column = 64 * at.half;
    const gates &g = m.g;
    const auto one = [](int) { return 1.f; };
    const auto start = [&](int t) { return from_start(g, t); };
    float x[8][4];
    clear_tiles(x);
    multiply<false, true>(x, matrix{m.delta, KEY_STRIDE}, at.row, matrix{m.ds, KEY_STRIDE}, column,
                          HEAD);
    add_scaled(
        dk, x, m.k, m.sum.ended, [&](int t) { return to_end(g, t); }, one);
    clear_tiles(x);
    multiply<false, true>(x, matrix{m.d_o, KEY_STRIDE}, at.row, matrix{m.s, KEY_STRIDE}, column,
                          HEAD);
    add_scaled(dq, x, m.q, m.sum.asked, start, one);
    clear_tiles(x);
    multiply<false, true>(x, matrix{m.y, KEY_STRIDE}, at.row, matrix{m.s, KEY_STRIDE}, column,
                          HEAD);
    add_scaled(dk, x, m.k, m.sum.found, start, [&](int t) { return -g.beta[t]; });
}

static __device__ void add_pairs(const rest_memory &m, float (&dq)[8][4], float (&dk)[8][4])
{
    const warp_place at = warp_at();
    const int column = 64 * at.half;
    const matrix q = {m.q, KEY_STRIDE}, k = {m.k, KEY_STRIDE};
    multiply<false, false>(dq, matrix{m.t, SQUARE_STRIDE}, at.row, k, column, CHUNK);
    multiply<true, false>(dk, matrix{m.dp, SQUARE_STRIDE}, at.row, q, column, CHUNK);
    multiply<false, false>(dk, matrix{m.da, SQUARE_STRIDE}, at.row, k, column, CHUNK);
}

/* dbeta and dg out of the slots (R2). */
static __device__ void write_gates(const back_chunks &w, const chunk_place &c, rest_memory &m)
{
    const int t = (int)threadIdx.x;
    slots &s = m.sum;
    float ended = 0;
    __syncthreads();
    if (t < CHUNK) {
        const float found = m.g.by_k[t] * (s.found[0][t] + s.found[1][t]);
        ended = m.g.by_k[t] * (s.ended[0][t] + s.ended[1][t]);
        const float columns =
            s.found_in[0][t] + s.found_in[1][t] + s.found_in[2][t] + s.found_in[3][t];
        s.dsum[t] = s.pairs[0][t] + s.pairs[1][t] - columns - ended +
                    m.g.by_q[t] * (s.asked[0][t] + s.asked[1][t]) - m.g.beta[t] * found;
        if (t < c.n)
            w.dbeta[(c.first + t) * w.w.r.nv + c.h] =
                s.y_v[t] - found - s.by_beta[0][t] - s.by_beta[1][t];
        s.ended[0][t] = ended;
    }
    __syncthreads();
    if (t >= c.n) return;
    float later = 0, kept = 0;
    for (int i = 0; i < WARPS; i++) kept += s.kept[i];
    for (int u = 0; u < CHUNK; u++) later += s.ended[0][u];
    later += from_start(m.g, CHUNK - 1) * kept; /* both are the last token's */
    for (int u = t; u < CHUNK; u++) later += s.dsum[u];
    w.dg[(c.first + t) * w.w.r.nv + c.h] = later;
}

/* From gradients by q or k of length one, times `by`, to those by q or k. */
static __device__ void write_norm(const back_chunks &w, const chunk_place &c, const bf16 *x,
                                  const float *factor, float by, const float (&dx)[8][4],
                                  float (*slot)[CHUNK], bf16 *to)
{
    const warp_place at = warp_at();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = at.row + tile_row() + 8 * half;
        float along = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float2 y = get_pair(x + t * KEY_STRIDE + 64 * at.half + tile_column(i));
            along += y.x * dx[i][2 * half] + y.y * dx[i][2 * half + 1];
        }
        along = sum_row(along);
        if (threadIdx.x % 4 == 0) slot[at.half][t] = along;
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = at.row + tile_row() + 8 * half;
        const float unit = factor[t] / by; /* that of the length alone */
        const float along = unit * unit * (slot[0][t] + slot[1][t]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int j = 64 * at.half + tile_column(i);
            const float2 y = get_pair(x + t * KEY_STRIDE + j);
            if (t < c.n && j < w.w.r.dk)
                put_pair(to + t * w.w.r.row + j, factor[t] * (dx[i][2 * half] - y.x * along),
                         factor[t] * (dx[i][2 * half + 1] - y.y * along));
        }
    }
}

static __global__ void __launch_bounds__(BLOCK) rest_kernel(back_chunks w)
{
    extern __shared__ __align__(16) char memory[];
    rest_memory &m = *(rest_memory *)memory;
    const rule &r = w.w.r;
    const int64_t key_head = blockIdx.y, heads = r.nv / r.nk;
    chunk_place c = place_of(r, blockIdx.z, blockIdx.x, key_head * heads);
    copy_tile<CHUNK, HEAD>(m.q, KEY_STRIDE, query_at(r, c), r.row, c.n, r.dk);
    copy_tile<CHUNK, HEAD>(m.k, KEY_STRIDE, key_at(r, c), r.row, c.n, r.dk);
    float dq[8][4], dk[8][4];
    clear_tiles(dq);
    clear_tiles(dk);
    for (int64_t h = key_head * heads; h < (key_head + 1) * heads; h++) {
        c = place_of(r, blockIdx.z, blockIdx.x, h);
        read_head(w, c, m);
        dot_values(m);
        __syncthreads();
        make_delta(m);
        make_pairs(w, c, m);
        add_states(m, dq, dk);
        add_pairs(m, dq, dk);
        write_gates(w, c, m);
        __syncthreads();
    }
    bf16 *to = w.dqkv + c.first * r.row + key_head * r.dk;
    write_norm(w, c, m.q, m.g.by_q, 1 / sqrtf((float)r.dk), dq, m.sum.asked, to);
    write_norm(w, c, m.k, m.g.by_k, 1, dk, m.sum.found, to + r.nk * r.dk);
}

void gdn_chunks_rest(const kernel_call *c, const back_chunks &w)
{
    const rule &r = w.w.r;
    const dim3 grid((unsigned)r.n_chunks, (unsigned)r.nk, (unsigned)r.b);
    cudaFuncSetAttribute(rest_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)sizeof(rest_memory));
    rest_kernel<<<grid, BLOCK, sizeof(rest_memory), stream_of(c)>>>(w);
}
