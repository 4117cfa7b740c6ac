/* fast_latent.cu - keys and values of latent attention in BF16, eight numbers at a time.
 *
 * With 128 heads of 192 and 128 this moves 2.4 GB for 16,384 tokens, each way, in every layer.
 *
 * L1  A block takes a token. Pieces of 8 numbers are counted through its heads, so that neighbours
 *     of a warp read and write neighbouring memory, and AT_ONCE loads are under way before the
 *     first is stored.
 * L2  The gradient of the part that all heads share is summed in FP32: each line of threads has
 *     every so many-th head, and lines are added in their order. */
#include "backend/cuda/kernels/device.cuh"

enum { WIDE = 8, AT_ONCE = 4, SHARED_MOST = BLOCK }; /* numbers that heads share, at most */

/* Sizes in pieces of WIDE. */
struct latent_shape {
    int64_t t;
    int n, own, shared, values; /* heads; of a key its own part and the shared one; of a value */
};

template <class O> static latent_shape shape_of(const O &o)
{
    return {o.T, (int)o.N, (int)o.Dn / WIDE, (int)o.Dr / WIDE, (int)o.Dv / WIDE};
}

/* ---- forward: kv [T][N][own + values], kpe [T][shared] to k [T][N][own + shared], v */

struct joined {
    latent_shape z;
    const uint4 *kv, *kpe;
    uint4 *k, *v;
};

/* Piece u of a token's keys and values. */
static __device__ __forceinline__ const uint4 *source(const joined &f, int64_t token, int u)
{
    const int width = f.z.own + f.z.shared + f.z.values, head = u / width, j = u % width;
    const bool own = j < f.z.own, value = j >= f.z.own + f.z.shared;
    if (!own && !value) return f.kpe + token * f.z.shared + (j - f.z.own);
    const int64_t at = (token * f.z.n + head) * (f.z.own + f.z.values);
    return f.kv + at + (own ? j : j - f.z.shared);
}

static __device__ __forceinline__ uint4 *target(const joined &f, int64_t token, int u)
{
    const int key = f.z.own + f.z.shared, width = key + f.z.values, head = u / width, j = u % width;
    const int64_t at = token * f.z.n + head;
    return j < key ? f.k + at * key + j : f.v + at * f.z.values + (j - key);
}

/* All pieces of a token, the loads of AT_ONCE of a thread first. */
template <class F>
static __device__ __forceinline__ void move_pieces(const F &f, int64_t token, int pieces)
{
    for (int u0 = (int)threadIdx.x; u0 < pieces; u0 += AT_ONCE * BLOCK) {
        uint4 x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (u0 + i * BLOCK < pieces) x[i] = *source(f, token, u0 + i * BLOCK);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (u0 + i * BLOCK < pieces) *target(f, token, u0 + i * BLOCK) = x[i];
    }
}

static __global__ void __launch_bounds__(BLOCK) join_kernel(joined f)
{
    const int pieces = f.z.n * (f.z.own + f.z.shared + f.z.values);
    for (int64_t token = blockIdx.x; token < f.z.t; token += gridDim.x)
        move_pieces(f, token, pieces);
}

/* ---- gradient: dk, dv to dkv, and dkpe, the sum over heads */

struct parted {
    latent_shape z;
    const uint4 *dk, *dv;
    uint4 *dkv;
    numbers dkpe;
};

static __device__ __forceinline__ const uint4 *source(const parted &f, int64_t token, int u)
{
    const int width = f.z.own + f.z.values, head = u / width, j = u % width;
    const int64_t at = token * f.z.n + head;
    return j < f.z.own ? f.dk + at * (f.z.own + f.z.shared) + j
                       : f.dv + at * f.z.values + (j - f.z.own);
}

static __device__ __forceinline__ uint4 *target(const parted &f, int64_t token, int u)
{
    return f.dkv + token * f.z.n * (f.z.own + f.z.values) + u;
}

static __device__ __forceinline__ void add_piece(float (&sum)[WIDE], uint4 p)
{
    const uint32_t pair[WIDE / 2] = {p.x, p.y, p.z, p.w};
#pragma unroll
    for (int k = 0; k < WIDE; k++)
        sum[k] += __uint_as_float(k % 2 ? pair[k / 2] & 0xffff0000u : pair[k / 2] << 16);
}

/* L2. All threads of a block call it. */
static __device__ void sum_shared(const parted &f, int64_t token)
{
    __shared__ float sums[BLOCK][WIDE + 1];
    const int lines = BLOCK / f.z.shared, line = (int)threadIdx.x / f.z.shared,
              j = (int)threadIdx.x % f.z.shared, key = f.z.own + f.z.shared;
    float sum[WIDE] = {};
#pragma unroll 4
    for (int head = line; line < lines && head < f.z.n; head += lines)
        add_piece(sum, f.dk[(token * f.z.n + head) * key + f.z.own + j]);
#pragma unroll
    for (int k = 0; k < WIDE; k++) sums[threadIdx.x][k] = sum[k];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < f.z.shared * WIDE; i += BLOCK) {
        float all = 0;
        for (int l = 0; l < lines; l++) all += sums[l * f.z.shared + i / WIDE][i % WIDE];
        put(f.dkpe, token * f.z.shared * WIDE + i, all);
    }
    __syncthreads(); /* before the next token's sums */
}

static __global__ void __launch_bounds__(BLOCK) part_kernel(parted f)
{
    const int pieces = f.z.n * (f.z.own + f.z.values);
    for (int64_t token = blockIdx.x; token < f.z.t; token += gridDim.x) {
        move_pieces(f, token, pieces);
        sum_shared(f, token);
    }
}

/* ---- which, and how they are launched */

static bool takes(const op *o, const op_types *t)
{
    const op_mla_kv_join z = op_mla_kv_join_of(o); /* its gradient has the same sizes */
    return all_bf16(o, t, 2, 2) && z.T > 0 && z.N > 0 && z.N < (1 << 16) && z.Dn > 0 && z.Dr > 0 &&
           z.Dv > 0 && z.Dn % WIDE == 0 && z.Dr % WIDE == 0 && z.Dv % WIDE == 0 &&
           z.Dn + z.Dv < (1 << 14) && z.Dr <= SHARED_MOST;
}

static void join(const kernel_call *c)
{
    const op_mla_kv_join o = op_mla_kv_join_of(c);
    const joined f = {shape_of(o), (const uint4 *)o.kv.p, (const uint4 *)o.kpe.p, (uint4 *)o.k.p,
                      (uint4 *)o.v.p};
    join_kernel<<<blocks_of(o.T), BLOCK, 0, stream_of(c)>>>(f);
}

static void part(const kernel_call *c)
{
    const op_mla_kv_join_d o = op_mla_kv_join_d_of(c);
    const parted f = {shape_of(o), (const uint4 *)o.dk.p, (const uint4 *)o.dv.p, (uint4 *)o.dkv.p,
                      o.dkpe};
    part_kernel<<<blocks_of(o.T), BLOCK, 0, stream_of(c)>>>(f);
}

extern "C" cuda_part cuda_fast_latent(void)
{
    static const kernel rows[] = {
        {.kind = OP_MLA_KV_JOIN, .name = "pieces", .accepts = takes, .launch = join},
        {.kind = OP_MLA_KV_JOIN_D, .name = "pieces", .accepts = takes, .launch = part},
    };
    return PART(rows);
}
