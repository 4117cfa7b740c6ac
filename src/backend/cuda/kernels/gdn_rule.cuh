/* gdn_rule.cuh - what the gated delta rule and its gradient share.
 *
 * A head's state S [Dk][Dv] maps keys to values. A token lets it fade, looks up what the state has
 * under its key, and writes a part beta of what was missing:
 *     S = e^g S;  delta = beta (v - S^T k);  S = S + k delta^T;  o = S^T q
 * with k and q of length one, q divided by sqrt(Dk) besides.
 *
 * Columns of S never meet in the forward: PARTS threads of one warp have a column, each every
 * PARTS-th of its Dk numbers, and a block has some columns of one head. */
#ifndef BACKEND_CUDA_KERNELS_GDN_RULE_CUH
#define BACKEND_CUDA_KERNELS_GDN_RULE_CUH

#include "backend/cuda/kernels/gdn_shape.cuh"

enum { PARTS = 8, KEY_MOST = 1024 };

static inline int64_t factors_bytes(const rule &r)
{
    return room_of(r.b * r.s * 2 * r.nk * (int64_t)sizeof(float));
}

/* One number for each token and head of q and of k. */
struct factor_rows {
    numbers qkv;
    float *factors; /* [B*S * 2 Nk] */
    int64_t heads, nk, dk, row_size;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t first = i / heads * row_size + i % heads * dk;
        float sum = 0;
        for (int64_t j = thread; j < dk; j += THREADS) {
            const float v = get(qkv, first + j);
            sum += v * v;
        }
        const float by = 1 / sqrtf(sum_over<THREADS>(sum) + 1e-6f);
        if (thread == 0) factors[i] = i % heads < nk ? by / sqrtf((float)dk) : by;
    }
};

static void make_factors(const kernel_call *c, const rule &r, float *factors)
{
    for_narrow_rows(c, r.b * r.s * 2 * r.nk, r.dk,
                    factor_rows{r.qkv, factors, 2 * r.nk, r.nk, r.dk, r.row});
}

/* The place of a block: sequence, value head, first of its columns. */
struct rule_place {
    int64_t b, h, key_head, first;
};

/* q and k of a token, normalised, to shared memory; all threads take part. */
static __device__ void load_token(const rule &r, const rule_place &at, int64_t t, float *q,
                                  float *k)
{
    const int64_t token = at.b * r.s + t, from = token * r.row + at.key_head * r.dk;
    const float by_q = r.factors[token * 2 * r.nk + at.key_head];
    const float by_k = r.factors[token * 2 * r.nk + r.nk + at.key_head];
    for (int64_t i = threadIdx.x; i < r.dk; i += blockDim.x) {
        if (q) q[i] = by_q * get(r.qkv, from + i);
        k[i] = by_k * get(r.qkv, from + r.nk * r.dk + i);
    }
}

/* Over the PARTS threads of a column. */
static __device__ __forceinline__ float sum_parts(float v)
{
    for (int step = PARTS / 2; step > 0; step /= 2) v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

/* Columns lie PARTS words apart in the banks. */
static inline __host__ __device__ int64_t column_stride(int64_t dk)
{
    return (dk + 31) / 32 * 32 + PARTS;
}

/* What a token does to a column's state; gives delta. */
static __device__ float advance(float *s, const float *k, int64_t dk, int part, float decay,
                                float beta, float v)
{
    float dot = 0;
    for (int64_t i = part; i < dk; i += PARTS) {
        s[i] *= decay;
        dot += s[i] * k[i];
    }
    const float delta = beta * (v - sum_parts(dot));
    for (int64_t i = part; i < dk; i += PARTS) s[i] += k[i] * delta;
    return delta;
}

static __device__ float value_at(const rule &r, const rule_place &at, int64_t t, int64_t column)
{
    if (column >= r.dv) return 0;
    return get(r.qkv, (at.b * r.s + t) * r.row + 2 * r.nk * r.dk + at.h * r.dv + column);
}

static __device__ int64_t state_at(const rule &r, const rule_place &at, int64_t chunk)
{
    return ((at.b * r.n_chunks + chunk) * r.nv + at.h) * r.dk * r.dv;
}

#endif
