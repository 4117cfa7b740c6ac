/* fast_heads.cu - queries, keys and values of a joint projection in BF16: split, norm of heads and
 * rotation in one pass, and its gradient in another.
 *
 * A team of D / 8 threads has a token: its angles stay in registers for all heads, and the loads of
 * HEADS heads are on their way before the first is used. Numbers are those of the parts, rounded
 * where they would be stored. The gradient by weights is summed by thread over the tokens of a
 * team, over the teams of a block in order, then over blocks. */
#include "backend/cuda/kernels/registers.cuh"

enum { HEADS_PIECES = 1056, PIECE_TOKENS = 2 }; /* eight blocks an SM; tokens of a block at least */
enum { HEADS = 4, TEAM_BLOCK = 128 };

static int64_t pieces_of(int64_t tokens)
{
    const int64_t n = ceil_of(tokens, PIECE_TOKENS);
    return n < HEADS_PIECES ? n : HEADS_PIECES;
}

struct heads_shape {
    int n, g, gates; /* query heads, groups, 1 with gates */
    int64_t t, s;    /* tokens; of a sample */
    int half;        /* of the rotated part */
    bool pairs, normed;
    float plus, eps;
    const float *table; /* [S][half cosines, half sines] */

    __host__ __device__ int slots() const
    {
        return n * (1 + gates) + 2 * g;
    }
};

/* How the 8 numbers of a thread turn, for all heads of a token. */
template <int LANES> struct turn_of {
    float cosine[WIDE], sine[WIDE]; /* of pairs: the first half of each */
    int other, side;                /* halves: the thread that has the partners, and which half */
    bool pairs;

    __device__ turn_of(const heads_shape &z, int64_t token, int lane, float sign) : pairs(z.pairs)
    {
        const float *angle = z.table + token % z.s * 2 * z.half;
        const int span = z.half / WIDE;
        side = z.pairs ? (lane * WIDE < 2 * z.half ? 0 : 2) : lane / span;
        other = z.pairs ? lane : side == 0 ? lane + span : side == 1 ? lane - span : lane;
        const int j = z.pairs ? lane * WIDE / 2 : (side == 1 ? other : lane) * WIDE;
#pragma unroll
        for (int k = 0; k < WIDE; k++) {
            const bool used = side < 2 && (!z.pairs || k < WIDE / 2);
            cosine[k] = used ? angle[j + k] : 1;
            sine[k] = used ? sign * angle[z.half + j + k] : 0;
        }
    }

    static __device__ __forceinline__ void turn(float &u, float &v, float cosine, float by)
    {
        const float a = u, b = v;
        u = a * cosine - b * by;
        v = b * cosine + a * by;
    }

    /* All threads of a warp call it. */
    __device__ __forceinline__ lanes<WIDE> of(lanes<WIDE> v) const
    {
        if (pairs) {
#pragma unroll
            for (int k = 0; k < WIDE; k += 2)
                if (side < 2) turn(v.v[k], v.v[k + 1], cosine[k / 2], sine[k / 2]);
            return v;
        }
#pragma unroll
        for (int k = 0; k < WIDE; k++) {
            const float w = __shfl_sync(ALL_LANES, v.v[k], other, LANES);
            float u = side == 1 ? w : v.v[k], x = side == 1 ? v.v[k] : w;
            turn(u, x, cosine[k], sine[k]);
            if (side < 2) v.v[k] = side == 1 ? x : u;
        }
        return v;
    }
};

static __device__ __forceinline__ lanes<WIDE> weights_at(numbers w, int lane, float plus)
{
    lanes<WIDE> by = {};
    if (w.p) by = load<WIDE>(w, lane * WIDE);
#pragma unroll
    for (int k = 0; k < WIDE; k++) by.v[k] += plus;
    return by;
}

static __device__ __forceinline__ uint4 load_if(bool there, numbers x, int64_t at)
{
    return there ? ((const uint4 *)x.p)[at] : make_uint4(0, 0, 0, 0);
}

/* ---- forward */

struct heads_forward {
    heads_shape z;
    numbers qkv, wq, wk;   /* [T][slots][D], [D] */
    numbers q, k, v, gate; /* [T][n or g][D] */
    float *rq, *rk;        /* [T][n], [T][g] */
};

/* `count` heads that stand together in the projection from `from` on, and in `to` from `at` on. */
template <int LANES>
static __device__ __forceinline__ void
norm_and_turn(const heads_forward &f, int64_t from, numbers to, float *rstd, int64_t at, int count,
              const lanes<WIDE> &by, const turn_of<LANES> &angle, int lane, bool there)
{
    for (int h0 = 0; h0 < count; h0 += HEADS) {
        uint4 raw[HEADS];
#pragma unroll
        for (int h = 0; h < HEADS; h++)
            raw[h] = load_if(there && h0 + h < count, f.qkv, (from + h0 + h) * LANES + lane);
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            lanes<WIDE> x = unpack(raw[h]);
            float r = 0;
            if (f.z.normed) {
                float sum = 0;
#pragma unroll
                for (int j = 0; j < WIDE; j++) sum += x.v[j] * x.v[j];
                r = rsqrtf(sum_row<LANES>(sum) / (float)(LANES * WIDE) + f.z.eps);
#pragma unroll
                for (int j = 0; j < WIDE; j++) x.v[j] *= r * by.v[j];
                x = unpack(pack(x));
            }
            x = angle.of(x);
            if (!there || h0 + h >= count) continue;
            ((uint4 *)to.p)[(at + h0 + h) * LANES + lane] = pack(x);
            if (f.z.normed && lane == 0) rstd[at + h0 + h] = r;
        }
    }
}

template <int LANES>
static __device__ __forceinline__ void copy_heads(numbers from, int64_t at, numbers to,
                                                  int64_t place, int count, int lane, bool there)
{
    for (int h0 = 0; h0 < count; h0 += HEADS) {
        uint4 raw[HEADS];
#pragma unroll
        for (int h = 0; h < HEADS; h++)
            raw[h] = load_if(there && h0 + h < count, from, (at + h0 + h) * LANES + lane);
#pragma unroll
        for (int h = 0; h < HEADS; h++)
            if (there && h0 + h < count) ((uint4 *)to.p)[(place + h0 + h) * LANES + lane] = raw[h];
    }
}

template <int LANES>
static __global__ void __launch_bounds__(TEAM_BLOCK) heads_kernel(heads_forward f)
{
    constexpr int teams = TEAM_BLOCK / LANES;
    const int lane = (int)threadIdx.x % LANES, each = f.z.n / f.z.g, gates = each * f.z.gates;
    const lanes<WIDE> wq = weights_at(f.wq, lane, f.z.plus), wk = weights_at(f.wk, lane, f.z.plus);
    for (int64_t i0 = (int64_t)blockIdx.x * teams; i0 < f.z.t; i0 += (int64_t)gridDim.x * teams) {
        const int64_t i = i0 + threadIdx.x / LANES;
        const bool there = i < f.z.t;
        const int64_t token = there ? i : 0;
        const turn_of<LANES> angle(f.z, token, lane, 1);
        int64_t from = token * f.z.slots();
        for (int g = 0; g < f.z.g; g++) {
            const int64_t q = token * f.z.n + g * each, k = token * f.z.g + g;
            norm_and_turn<LANES>(f, from, f.q, f.rq, q, each, wq, angle, lane, there);
            if (gates) copy_heads<LANES>(f.qkv, from + each, f.gate, q, each, lane, there);
            from += each + gates;
            const uint4 value = load_if(there, f.qkv, (from + 1) * LANES + lane);
            norm_and_turn<LANES>(f, from, f.k, f.rk, k, 1, wk, angle, lane, there);
            if (there) ((uint4 *)f.v.p)[k * LANES + lane] = value;
            from += 2;
        }
    }
}

/* ---- gradient */

struct heads_back {
    heads_shape z;
    numbers dq, dk, dv, dgate; /* [T][n or g][D] */
    numbers qkv, wq, wk;       /* as forward */
    const float *rq, *rk;      /* [T][n], [T][g] */
    numbers dqkv;              /* [T][slots][D] */
    float *parts;              /* [blocks][2][D] */
    int64_t each;              /* tokens of a block */
};

/* As forward; sum[8] takes what it adds to the gradient by weights. */
template <int LANES>
static __device__ __forceinline__ void
turn_and_norm(const heads_back &f, numbers from, const float *rstd, int64_t at, int64_t to,
              int count, const lanes<WIDE> &by, const turn_of<LANES> &angle, int lane, bool there,
              float *sum)
{
    for (int h0 = 0; h0 < count; h0 += HEADS) {
        uint4 raw[HEADS], raw_x[HEADS];
        float r[HEADS];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            const bool is = there && h0 + h < count, normed = is && f.z.normed;
            raw[h] = load_if(is, from, (at + h0 + h) * LANES + lane);
            raw_x[h] = load_if(normed, f.qkv, (to + h0 + h) * LANES + lane);
            r[h] = normed ? rstd[at + h0 + h] : 0;
        }
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            lanes<WIDE> d = unpack(pack(angle.of(unpack(raw[h]))));
            if (f.z.normed) {
                const lanes<WIDE> x = unpack(raw_x[h]);
                float dot = 0;
#pragma unroll
                for (int j = 0; j < WIDE; j++) dot += d.v[j] * by.v[j] * x.v[j];
                const float along =
                    r[h] * r[h] * r[h] * sum_row<LANES>(dot) / (float)(LANES * WIDE);
#pragma unroll
                for (int j = 0; j < WIDE; j++) {
                    sum[j] += d.v[j] * x.v[j] * r[h];
                    d.v[j] = r[h] * d.v[j] * by.v[j] - x.v[j] * along;
                }
            }
            if (there && h0 + h < count)
                ((uint4 *)f.dqkv.p)[(to + h0 + h) * LANES + lane] = pack(d);
        }
    }
}

template <int LANES>
static __global__ void __launch_bounds__(TEAM_BLOCK) heads_back_kernel(heads_back f)
{
    constexpr int teams = TEAM_BLOCK / LANES, d = LANES * WIDE;
    const int lane = (int)threadIdx.x % LANES, team = (int)threadIdx.x / LANES;
    const int each = f.z.n / f.z.g, gates = each * f.z.gates;
    const int64_t first = blockIdx.x * f.each;
    const int64_t past = first + f.each < f.z.t ? first + f.each : f.z.t;
    const lanes<WIDE> wq = weights_at(f.wq, lane, f.z.plus), wk = weights_at(f.wk, lane, f.z.plus);
    float sum[2][WIDE] = {};
    for (int64_t i0 = first; i0 < past; i0 += teams) {
        const bool there = i0 + team < past;
        const int64_t token = there ? i0 + team : 0;
        const turn_of<LANES> angle(f.z, token, lane, -1);
        int64_t to = token * f.z.slots();
        for (int g = 0; g < f.z.g; g++) {
            const int64_t q = token * f.z.n + g * each, k = token * f.z.g + g;
            turn_and_norm<LANES>(f, f.dq, f.rq, q, to, each, wq, angle, lane, there, sum[0]);
            if (gates) copy_heads<LANES>(f.dgate, q, f.dqkv, to + each, each, lane, there);
            to += each + gates;
            const uint4 value = load_if(there, f.dv, k * LANES + lane);
            turn_and_norm<LANES>(f, f.dk, f.rk, k, to, 1, wk, angle, lane, there, sum[1]);
            if (there) ((uint4 *)f.dqkv.p)[(to + 1) * LANES + lane] = value;
            to += 2;
        }
    }
    if (!f.z.normed) return;
    __shared__ float sums[teams][2][d];
#pragma unroll
    for (int k = 0; k < WIDE; k++)
        for (int w = 0; w < 2; w++) sums[team][w][lane * WIDE + k] = sum[w][k];
    __syncthreads();
    for (int j = (int)threadIdx.x; j < 2 * d; j += TEAM_BLOCK) {
        float all = 0;
        for (int l = 0; l < teams; l++) all += (&sums[l][0][0])[j];
        f.parts[(int64_t)blockIdx.x * 2 * d + j] = all;
    }
}

/* A column each: queries' weights, then keys'. */
static __global__ void add_heads(const float *parts, int64_t pieces, int d, float *dwq, float *dwk)
{
    __shared__ float sums[WARP][WARP + 1];
    const int lane = (int)threadIdx.x % WARP, line = (int)threadIdx.x / WARP;
    const int j = (int)blockIdx.x * WARP + lane;
    float sum = 0;
    for (int64_t i = line; j < 2 * d && i < pieces; i += WARP) sum += parts[i * 2 * d + j];
    sums[line][lane] = sum;
    __syncthreads();
    if (line != 0 || j >= 2 * d) return;
    for (int l = 1; l < WARP; l++) sum += sums[l][lane];
    *(j < d ? dwq + j : dwk + j - d) += sum;
}

/* ---- which, and how they are launched */

static bool sizes_fit(const op *o)
{
    const op_qkv_heads z = op_qkv_heads_of(o); /* its gradient has the same sizes */
    return z.T > 0 && (z.D == 64 || z.D == 128 || z.D == 256) && z.ROT > 0 && z.ROT <= z.D &&
           z.ROT % (2 * WIDE) == 0 && z.G > 0 && z.N % z.G == 0 && z.N < (1 << 20);
}

static bool are_bf16(const op *o, const op_types *t)
{
    const char *in = op_infos[o->kind].types;
    int i = 0;
    for (; in[i] != '>'; i++)
        if (o->in[i] >= 0 && in[i] == '.' && t->in[i] != DTYPE_BF16) return false;
    return cuda_types_fit(o, t);
}

static bool forward_fits(const op *o, const op_types *t)
{
    if (!are_bf16(o, t) || !sizes_fit(o)) return false;
    for (int i = 0; i <= OUT_QKV_HEADS_gate; i++)
        if (o->out[i] >= 0 && t->out[i] != DTYPE_BF16) return false;
    const bool norms = o->in[IN_QKV_HEADS_wq] >= 0;
    return norms == (o->in[IN_QKV_HEADS_wk] >= 0) && norms == (o->out[OUT_QKV_HEADS_rq] >= 0) &&
           norms == (o->out[OUT_QKV_HEADS_rk] >= 0);
}

static bool back_fits(const op *o, const op_types *t)
{
    const bool norms = o->in[IN_QKV_HEADS_D_wq] >= 0;
    return are_bf16(o, t) && sizes_fit(o) && t->out[OUT_QKV_HEADS_D_dqkv] == DTYPE_BF16 &&
           norms == (o->in[IN_QKV_HEADS_D_qkv] >= 0) &&
           norms == (o->out[OUT_QKV_HEADS_D_dwq] >= 0) &&
           norms == (o->out[OUT_QKV_HEADS_D_dwk] >= 0) && is_wide(o, t, OUT_QKV_HEADS_D_dwq) &&
           is_wide(o, t, OUT_QKV_HEADS_D_dwk);
}

template <class O> static heads_shape shape_of(const O &o, numbers gates, float eps)
{
    return {(int)o.N,
            (int)o.G,
            gates.p ? 1 : 0,
            o.T,
            o.S,
            (int)o.ROT / 2,
            (o.flags & INTERLEAVED) != 0,
            o.wq.p != NULL,
            o.flags & ZERO_CENTRED ? 1.f : 0.f,
            eps,
            o.table};
}

template <int LANES> static void run_forward(const kernel_call *c, const heads_forward &f)
{
    const unsigned blocks = blocks_of(ceil_of(f.z.t, TEAM_BLOCK / LANES));
    heads_kernel<LANES><<<blocks, TEAM_BLOCK, 0, stream_of(c)>>>(f);
}

static void forward(const kernel_call *c)
{
    const op_qkv_heads o = op_qkv_heads_of(c);
    const heads_forward f = {
        shape_of(o, o.gate, o.eps), o.qkv, o.wq, o.wk, o.q, o.k, o.v, o.gate, o.rq, o.rk};
    (o.D == 64 ? run_forward<8> : o.D == 128 ? run_forward<16> : run_forward<32>)(c, f);
}

template <int LANES> static void run_back(const kernel_call *c, const heads_back &f)
{
    const unsigned blocks = (unsigned)ceil_of(f.z.t, f.each);
    heads_back_kernel<LANES><<<blocks, TEAM_BLOCK, 0, stream_of(c)>>>(f);
}

static int64_t back_bytes(const op *o, const op_types *)
{
    return room_of(pieces_of(o->dim[DIM_QKV_HEADS_D_T]) * 2 * o->dim[DIM_QKV_HEADS_D_D] * 4);
}

static void back(const kernel_call *c)
{
    const op_qkv_heads_d o = op_qkv_heads_d_of(c);
    const heads_back f = {shape_of(o, o.dgate, 0),
                          o.dq,
                          o.dk,
                          o.dv,
                          o.dgate,
                          o.qkv,
                          o.wq,
                          o.wk,
                          o.rq,
                          o.rk,
                          o.dqkv,
                          (float *)c->workspace,
                          ceil_of(o.T, pieces_of(o.T))};
    (o.D == 64 ? run_back<8> : o.D == 128 ? run_back<16> : run_back<32>)(c, f);
    if (!f.z.normed) return;
    add_heads<<<(unsigned)ceil_of(2 * o.D, WARP), WARP * WARP, 0, stream_of(c)>>>(
        f.parts, ceil_of(o.T, f.each), (int)o.D, o.dwq.floats(), o.dwk.floats());
}

extern "C" cuda_part cuda_fast_heads(void)
{
    static const kernel rows[] = {
        {.kind = OP_QKV_HEADS, .name = "one pass", .accepts = forward_fits, .launch = forward},
        {.kind = OP_QKV_HEADS_D,
         .name = "one pass",
         .accepts = back_fits,
         .workspace = back_bytes,
         .launch = back},
    };
    return PART(rows);
}
