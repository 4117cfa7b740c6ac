/* fast_heads.cu - queries, keys and values of a joint projection in BF16: split, norm of heads and
 * rotation in one pass, and its gradient in another.
 *
 * A team of D / 8 threads has a head: the heads of a token stand in the projection as they are taken,
 * so that all reads there (of the gradient: all writes) go straight on. Numbers are those of the
 * parts, rounded where they would be stored. The gradient by weights is summed by thread over the
 * tokens of a block, over its teams in order, then over blocks. */
#include "kernels/cuda/registers.cuh"

enum { HEADS_PIECES = 1056, PIECE_TOKENS = 2 }; /* eight blocks an SM; tokens of a block at least */

static int64_t pieces_of(int64_t tokens)
{
    const int64_t n = ceil_of(tokens, PIECE_TOKENS);
    return n < HEADS_PIECES ? n : HEADS_PIECES;
}

/* What a head of the projection is. */
enum slot_kind { SLOT_QUERY, SLOT_GATE, SLOT_KEY, SLOT_VALUE };
struct slot {
    slot_kind kind;
    int head; /* of its kind */
};

struct heads_shape {
    int n, g, gates; /* query heads, groups, 1 with gates */
    int64_t t, s;    /* tokens; of a sample */
    int half;        /* of the rotated part */
    bool pairs, normed;
    float plus, eps;
    const float *table; /* [S][half cosines, half sines] */

    __device__ int slots() const
    {
        return n * (1 + gates) + 2 * g;
    }

    __device__ slot at(int i) const
    {
        const int each = n / g, per = each * (1 + gates) + 2, group = i / per, j = i % per;
        if (j < each) return {SLOT_QUERY, group * each + j};
        if (j < per - 2) return {SLOT_GATE, group * each + j - each};
        return {j == per - 2 ? SLOT_KEY : SLOT_VALUE, group};
    }

    static __device__ __forceinline__ void turn(float &u, float &v, float cosine, float by)
    {
        const float a = u, b = v;
        u = a * cosine - b * by;
        v = b * cosine + a * by;
    }

    /* Numbers 8 * lane .. of a head, turned by the angle of token t (sign -1: back). All threads of a
     * warp call it. */
    template <int LANES>
    __device__ __forceinline__ lanes<WIDE> turned(lanes<WIDE> v, int64_t token, int lane,
                                                  float sign) const
    {
        const float *angle = table + token % s * 2 * half;
        if (pairs) {
            if (lane * WIDE >= 2 * half) return v;
#pragma unroll
            for (int k = 0; k < WIDE; k += 2) {
                const int j = (lane * WIDE + k) / 2;
                turn(v.v[k], v.v[k + 1], angle[j], sign * angle[half + j]);
            }
            return v;
        }
        const int span = half / WIDE, side = lane / span; /* 0, 1: the halves; beyond: stays */
        const int other = side == 0 ? lane + span : side == 1 ? lane - span : lane;
        lanes<WIDE> w;
#pragma unroll
        for (int k = 0; k < WIDE; k++) w.v[k] = __shfl_sync(ALL_LANES, v.v[k], other, LANES);
        if (side > 1) return v;
        const int j = (side ? other : lane) * WIDE;
        const lanes<WIDE> cosine = load<WIDE>({(void *)(angle + j), false}, 0),
                          sine = load<WIDE>({(void *)(angle + half + j), false}, 0);
#pragma unroll
        for (int k = 0; k < WIDE; k++) {
            float u = side ? w.v[k] : v.v[k], x = side ? v.v[k] : w.v[k];
            turn(u, x, cosine.v[k], sign * sine.v[k]);
            v.v[k] = side ? x : u;
        }
        return v;
    }
};

static __device__ __forceinline__ lanes<WIDE> weights_at(numbers w, int lane, float plus)
{
    lanes<WIDE> by = load<WIDE>(w, lane * WIDE);
#pragma unroll
    for (int k = 0; k < WIDE; k++) by.v[k] += plus;
    return by;
}

/* ---- forward */

struct heads_forward {
    heads_shape z;
    numbers qkv, wq, wk;   /* [T][slots][D], [D] */
    numbers q, k, v, gate; /* [T][n or g][D] */
    float *rq, *rk;        /* [T][n], [T][g] */

    template <int LANES> __device__ void head(int64_t i, int lane, bool there) const
    {
        constexpr int d = LANES * WIDE;
        const int slots = z.slots();
        const int64_t token = i / slots;
        const slot at = z.at((int)(i % slots));
        const uint4 raw = there ? ((const uint4 *)qkv.p)[i * LANES + lane] : make_uint4(0, 0, 0, 0);
        const bool key = at.kind == SLOT_KEY, turns = key || at.kind == SLOT_QUERY;
        lanes<WIDE> x = unpack(raw);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < WIDE; j++) sum += x.v[j] * x.v[j];
        const float r = rsqrtf(sum_row<LANES>(sum) / (float)d + z.eps);
        if (z.normed && turns) {
            const lanes<WIDE> by = weights_at(key ? wk : wq, lane, z.plus);
#pragma unroll
            for (int j = 0; j < WIDE; j++) x.v[j] *= r * by.v[j];
            x = unpack(pack(x));
        }
        const lanes<WIDE> y = z.turned<LANES>(x, token, lane, 1);
        if (!there) return;
        const int heads = key || at.kind == SLOT_VALUE ? z.g : z.n;
        const int64_t place = token * heads + at.head;
        const numbers to = key ? k : at.kind == SLOT_VALUE ? v : at.kind == SLOT_QUERY ? q : gate;
        ((uint4 *)to.p)[place * LANES + lane] = turns ? pack(y) : raw;
        if (z.normed && turns && lane == 0) (key ? rk : rq)[place] = r;
    }
};

template <int LANES> static __global__ void __launch_bounds__(BLOCK) heads_kernel(heads_forward f)
{
    constexpr int teams = BLOCK / LANES;
    const int lane = (int)threadIdx.x % LANES;
    const int64_t n = f.z.t * f.z.slots();
    for (int64_t i0 = (int64_t)blockIdx.x * teams; i0 < n; i0 += (int64_t)gridDim.x * teams) {
        const int64_t i = i0 + threadIdx.x / LANES;
        f.head<LANES>(i, lane, i < n);
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

    /* sum[0], sum[1]: what it adds to the gradients by wq and wk. */
    template <int LANES>
    __device__ void head(int64_t i, int lane, bool there, float (*sum)[WIDE]) const
    {
        constexpr int d = LANES * WIDE;
        const int slots = z.slots();
        const int64_t token = i / slots;
        const slot at = z.at((int)(i % slots));
        const bool key = at.kind == SLOT_KEY, turns = key || at.kind == SLOT_QUERY;
        const int heads = key || at.kind == SLOT_VALUE ? z.g : z.n;
        const int64_t place = token * heads + at.head;
        const numbers from = key                     ? dk
                             : at.kind == SLOT_VALUE ? dv
                             : at.kind == SLOT_QUERY ? dq
                                                     : dgate;
        const uint4 none = make_uint4(0, 0, 0, 0);
        const uint4 raw = there ? ((const uint4 *)from.p)[place * LANES + lane] : none;
        const bool normed = z.normed && turns && there;
        const lanes<WIDE> x = unpack(normed ? ((const uint4 *)qkv.p)[i * LANES + lane] : none);
        const float r = normed ? (key ? rk : rq)[place] : 0;
        lanes<WIDE> g = unpack(pack(z.turned<LANES>(unpack(raw), token, lane, -1)));
        lanes<WIDE> by = {};
        float dot = 0;
        if (normed) by = weights_at(key ? wk : wq, lane, z.plus);
#pragma unroll
        for (int j = 0; j < WIDE; j++) dot += g.v[j] * by.v[j] * x.v[j];
        const float along = r * r * r * sum_row<LANES>(dot) / (float)d;
        if (!there) return;
        if (normed) {
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                const float w = g.v[j] * x.v[j] * r;
                sum[0][j] += key ? 0.f : w;
                sum[1][j] += key ? w : 0.f;
                g.v[j] = r * g.v[j] * by.v[j] - x.v[j] * along;
            }
        }
        ((uint4 *)dqkv.p)[i * LANES + lane] = turns ? pack(g) : raw;
    }
};

template <int LANES> static __global__ void __launch_bounds__(BLOCK) heads_back_kernel(heads_back f)
{
    constexpr int teams = BLOCK / LANES, d = LANES * WIDE;
    const int lane = (int)threadIdx.x % LANES, team = (int)threadIdx.x / LANES;
    const int64_t slots = f.z.slots(), first = blockIdx.x * f.each * slots;
    const int64_t end = (blockIdx.x + 1) * f.each, past = (end < f.z.t ? end : f.z.t) * slots;
    float sum[2][WIDE] = {};
    for (int64_t i0 = first; i0 < past; i0 += teams) {
        const int64_t i = i0 + team;
        f.head<LANES>(i, lane, i < past, sum);
    }
    if (!f.z.normed) return;
    __shared__ float sums[teams][2][d];
#pragma unroll
    for (int k = 0; k < WIDE; k++)
        for (int w = 0; w < 2; w++) sums[team][w][lane * WIDE + k] = sum[w][k];
    __syncthreads();
    for (int j = (int)threadIdx.x; j < 2 * d; j += BLOCK) {
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

static_assert((int)DIM_QKV_HEADS_D_T == DIM_QKV_HEADS_T &&
              (int)DIM_QKV_HEADS_D_N == DIM_QKV_HEADS_N &&
              (int)DIM_QKV_HEADS_D_ROT == DIM_QKV_HEADS_ROT);

static bool sizes_fit(const op *o)
{
    const int64_t *d = o->dim, size = d[DIM_QKV_HEADS_D], rot = d[DIM_QKV_HEADS_ROT];
    const int64_t n = d[DIM_QKV_HEADS_N], g = d[DIM_QKV_HEADS_G];
    return d[DIM_QKV_HEADS_T] > 0 && (size == 64 || size == 128 || size == 256) && rot > 0 &&
           rot <= size && rot % (2 * WIDE) == 0 && g > 0 && n % g == 0 && n < (1 << 20);
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

static heads_shape shape_of(const kernel_call *c, bool gates, bool normed, int table)
{
    const int64_t *d = c->o->dim;
    return {(int)d[DIM_QKV_HEADS_N],
            (int)d[DIM_QKV_HEADS_G],
            gates ? 1 : 0,
            d[DIM_QKV_HEADS_T],
            d[DIM_QKV_HEADS_S],
            (int)d[DIM_QKV_HEADS_ROT] / 2,
            (c->o->flags & INTERLEAVED) != 0,
            normed,
            c->o->flags & ZERO_CENTRED ? 1.f : 0.f,
            (float)c->o->real[REAL_QKV_HEADS_eps],
            floats_in(c, table)};
}

template <int LANES> static void run_forward(const kernel_call *c, const heads_forward &f)
{
    const int64_t heads = f.z.t * (f.z.n * (1 + f.z.gates) + 2 * f.z.g);
    heads_kernel<LANES><<<blocks_of(ceil_of(heads, BLOCK / LANES)), BLOCK, 0, stream_of(c)>>>(f);
}

static void forward(const kernel_call *c)
{
    const bool gates = c->o->out[OUT_QKV_HEADS_gate] >= 0, normed = c->o->in[IN_QKV_HEADS_wq] >= 0;
    const heads_forward f = {shape_of(c, gates, normed, IN_QKV_HEADS_table),
                             in_of(c, IN_QKV_HEADS_qkv),
                             in_of(c, IN_QKV_HEADS_wq),
                             in_of(c, IN_QKV_HEADS_wk),
                             out_of(c, OUT_QKV_HEADS_q),
                             out_of(c, OUT_QKV_HEADS_k),
                             out_of(c, OUT_QKV_HEADS_v),
                             out_of(c, OUT_QKV_HEADS_gate),
                             floats_out(c, OUT_QKV_HEADS_rq),
                             floats_out(c, OUT_QKV_HEADS_rk)};
    const int64_t d = c->o->dim[DIM_QKV_HEADS_D];
    (d == 64 ? run_forward<8> : d == 128 ? run_forward<16> : run_forward<32>)(c, f);
}

template <int LANES> static void run_back(const kernel_call *c, const heads_back &f)
{
    const unsigned blocks = (unsigned)ceil_of(f.z.t, f.each);
    heads_back_kernel<LANES><<<blocks, BLOCK, 0, stream_of(c)>>>(f);
}

static int64_t back_bytes(const op *o, const op_types *)
{
    return room_of(pieces_of(o->dim[DIM_QKV_HEADS_D_T]) * 2 * o->dim[DIM_QKV_HEADS_D_D] * 4);
}

static void back(const kernel_call *c)
{
    const int64_t t = c->o->dim[DIM_QKV_HEADS_D_T], d = c->o->dim[DIM_QKV_HEADS_D_D];
    const bool gates = c->o->in[IN_QKV_HEADS_D_dgate] >= 0;
    const bool normed = c->o->in[IN_QKV_HEADS_D_wq] >= 0;
    const heads_back f = {shape_of(c, gates, normed, IN_QKV_HEADS_D_table),
                          in_of(c, IN_QKV_HEADS_D_dq),
                          in_of(c, IN_QKV_HEADS_D_dk),
                          in_of(c, IN_QKV_HEADS_D_dv),
                          in_of(c, IN_QKV_HEADS_D_dgate),
                          in_of(c, IN_QKV_HEADS_D_qkv),
                          in_of(c, IN_QKV_HEADS_D_wq),
                          in_of(c, IN_QKV_HEADS_D_wk),
                          floats_in(c, IN_QKV_HEADS_D_rq),
                          floats_in(c, IN_QKV_HEADS_D_rk),
                          out_of(c, OUT_QKV_HEADS_D_dqkv),
                          (float *)c->workspace,
                          ceil_of(t, pieces_of(t))};
    (d == 64 ? run_back<8> : d == 128 ? run_back<16> : run_back<32>)(c, f);
    if (!normed) return;
    add_heads<<<(unsigned)ceil_of(2 * d, WARP), WARP * WARP, 0, stream_of(c)>>>(
        f.parts, ceil_of(t, f.each), (int)d, floats_out(c, OUT_QKV_HEADS_D_dwq),
        floats_out(c, OUT_QKV_HEADS_D_dwk));
}

extern "C" cuda_part cuda_fast_heads(void)
{
    static const kernel rows[] = {
        {OP_QKV_HEADS, "one pass", forward_fits, NULL, NULL, NULL, forward},
        {OP_QKV_HEADS_D, "one pass", back_fits, NULL, NULL, back_bytes, back},
    };
    return PART(rows);
}
