/* gdn_chunk.cuh - the gated delta rule in chunks on tensor cores: what its kernels share.
 *
 * With G_t the sum of g up to and with token t of a chunk, S the state before it (gdn_rule.cuh):
 *     (I + A) delta = beta (v - e^G K S)        A[t][j] = beta_t e^(G_t - G_j) k_t.k_j   j < t
 *     o = e^G Q S + P delta                     P[t][j] = e^(G_t - G_j) q_t.k_j          j <= t
 *     S' = e^(G_last) S + (e^(G_last - G) K)^T delta
 * T = (I + A)^-1 and P do not depend on S: they are made for all chunks at once (prepare), so that
 * only what does goes from chunk to chunk.
 *
 * D1  A chunk has 64 tokens here and heads 128 numbers; what is missing of either is zero: such
 *     tokens have beta 0, change nothing, and fade nothing (g 0).
 * D2  Operands are BF16, sums FP32. q and k go in as they are, exactly; the factors that make them
 *     one long are applied to sums, or to what is rounded anyway. T is found in FP32.
 * D3  All exponents are differences of later and earlier sums, never positive. */
#ifndef BACKEND_CUDA_KERNELS_GDN_CHUNK_CUH
#define BACKEND_CUDA_KERNELS_GDN_CHUNK_CUH

#include "backend/cuda/kernels/gdn_shape.cuh"
#include "backend/cuda/kernels/mma.cuh"

enum {
    CHUNK = 64,
    HEAD = 128,
    KEY_STRIDE = HEAD + 8,
    SQUARE_STRIDE = CHUNK + 8,
    GROUP = 32, /* columns of a state that one block carries along */
    GROUP_STRIDE = GROUP + 8,
};

/* Of each token of a chunk. */
struct gates {
    float sum[CHUNK]; /* G */
    float beta[CHUNK];
    float by_q[CHUNK], by_k[CHUNK]; /* what q and k are multiplied with */
};

/* What prepare leaves, for chunk (b, index, value head). */
struct chunks {
    rule r;
    bf16 *t, *p; /* [B][n_chunks][Nv][64][64] */
    gates *g;    /* [B][n_chunks][Nv] */
};

static inline int64_t chunk_count(const rule &r)
{
    return r.b * r.n_chunks * r.nv;
}

static inline int64_t squares_bytes(const rule &r)
{
    return room_of(chunk_count(r) * CHUNK * CHUNK * (int64_t)sizeof(bf16));
}

static inline int64_t chunks_bytes(const rule &r)
{
    return 2 * squares_bytes(r) + room_of(chunk_count(r) * (int64_t)sizeof(gates));
}

static inline chunks chunks_at(const rule &r, char *p)
{
    return {r, (bf16 *)p, (bf16 *)(p + squares_bytes(r)), (gates *)(p + 2 * squares_bytes(r))};
}

/* A chunk of one value head: its tokens are first .. first+n-1 of the batch. */
struct chunk_place {
    int64_t b, index, h, key_head, first, n, at; /* at: among all chunks */
};

static __device__ __forceinline__ chunk_place place_of(const rule &r, int64_t b, int64_t index,
                                                       int64_t h)
{
    const int64_t start = index * r.chunk, left = r.s - start;
    return {b,
            index,
            h,
            (int)h / ((int)r.nv / (int)r.nk),
            b * r.s + start,
            left < r.chunk ? left : r.chunk,
            (b * r.n_chunks + index) * r.nv + h};
}

static __device__ __forceinline__ const bf16 *query_at(const rule &r, const chunk_place &c)
{
    return (const bf16 *)r.qkv.p + c.first * r.row + c.key_head * r.dk;
}

static __device__ __forceinline__ const bf16 *key_at(const rule &r, const chunk_place &c)
{
    return query_at(r, c) + r.nk * r.dk;
}

/* Of the chunk's first token; the same place in dqkv. */
static __device__ __forceinline__ int64_t value_offset(const rule &r, const chunk_place &c)
{
    return c.first * r.row + 2 * r.nk * r.dk + c.h * r.dv;
}

static __device__ __forceinline__ float from_start(const gates &g, int t)
{
    return expf(g.sum[t]);
}

static __device__ __forceinline__ float to_end(const gates &g, int t)
{
    return expf(g.sum[CHUNK - 1] - g.sum[t]);
}

static __device__ __forceinline__ void copy_gates(gates *to, const gates *from)
{
    for (int i = (int)threadIdx.x; i < (int)sizeof(gates) / 16; i += (int)blockDim.x)
        copy_16((char *)to + 16 * i, (const char *)from + 16 * i, true);
}

/* Does the rule in chunks take these sizes? Rows ask for BF16 themselves. */
static inline bool chunks_fit(const op *o, const op_types *t)
{
    const op_gdn_rule z = op_gdn_rule_of(o); /* its gradient has the same sizes */
    return cuda_types_fit(o, t) && z.B * z.S * z.Nv > 0 && z.CHUNK <= CHUNK && z.Dk <= HEAD &&
           z.Dv <= HEAD && z.Dk > 0 && z.Dv > 0 && z.Dk % 8 == 0 && z.Dv % 8 == 0;
}

/* Makes T, P and the gates of all chunks. */
void gdn_prepare_chunks(const kernel_call *c, const chunks &k);

#endif
