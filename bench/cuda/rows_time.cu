/* rows_time.cu - how fast the CUDA rows are at the sizes of a Qwen3-30B-A3B layer with 32,768
 * tokens and at DeepSeek-V3's widths, in BF16; and what an optimizer's step over 10^9 parameters
 * takes in one launch.
 *
 *     rows_time [--limit] [PART OF A NAME ...]
 *
 * First an 8192-cubed product and a copy, beside what torch reached: the rest counts where
 * both are near. Rows that memory binds print GB/s (what must be read and written, once), products
 * TFLOP/s. Each is the median of 9 calls with 20 ms of pause before each; with --limit, of the
 * calls of 0.2 s without pauses behind as many others, at the power limit, and cuBLASLt is timed
 * where our own kernel would be taken, too. */
#include "common.h"
#include "backend/cuda/kernels/cuda_rows.h"
#include "op/update.h"

enum { T = 32768, H = 2048, E = 128, K = 8, F = 768, N = 32, G = 4, D = 128, V = 151936 };
static bool at_limit;
static bool library_too; /* cuBLASLt even where a row of ours takes its place */

enum { TD = 16384, HD = 7168, ED = 32, FD = 2048, ND = 128, VD = 129280 };

/* Tensors as products of sizes, as in tests/cuda: "01" is dim 0 times dim 1, "0(1+1)" dim 0 times
 * twice dim 1; before it i: int32, f: FP32, else BF16; -: missing; =2: two numbers. */
typedef struct probe {
    const char *name;
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    unsigned flags;
    const char *in, *out;
    double gigabytes, teraflop; /* of work; the other is 0 */
    bool plain;                 /* the plain row, too */
} probe;

#define GB(bytes)                     ((double)(bytes)*1e-9)
#define TERA(...)                     (2e-12 * gemm_of({__VA_ARGS__}))
#define ATTN_TERA(b, s, n, d, dv, by) (1e-12 * (b) * (n) * (double)(s) * (s)*by)

static constexpr double gemm_of(const double (&x)[3])
{
    return x[0] * x[1] * x[2];
}

#define GEMMS(name, m, n, k)                                                                       \
    {name, OP_GEMM, {m, n, k}, 0, "02 12", "01", 0, TERA(m, n, k), false},                         \
        {name ", data gradient", OP_GEMM_D, {m, n, k}, 0, "01 12", "02", 0, TERA(m, n, k), false}, \
    {                                                                                              \
        name ", weight gradient", OP_GEMM_W, {m, n, k}, 0, "01 02", "f12", 0, TERA(m, n, k), false \
    }

#define EXPERTS(name, room, e, n, k)                                                               \
    {name, OP_GROUPED, {room, e, n, k}, 0, "03 123 o1", "02", 0, TERA(room, n, k), false},         \
        {name ", data gradient", OP_GROUPED_D, {room, e, n, k}, 0, "02 123 o1", "03", 0,           \
         TERA(room, n, k),       false},                                                           \
    {                                                                                              \
        name ", weight gradient", OP_GROUPED_W, {room, e, n, k}, 0, "02 03 o1", "f123", 0,         \
            TERA(room, n, k), false                                                                \
    }

#define ATTENTION(name, b, s, n, g, d, dv)                                                         \
    {name,                                                                                         \
     OP_ATTN,                                                                                      \
     {b, s, n, g, d, dv},                                                                          \
     0,                                                                                            \
     "0124 0134 0135 -",                                                                           \
     "0125 f012",                                                                                  \
     0,                                                                                            \
     ATTN_TERA(b, s, n, d, dv, ((d) + (dv))),                                                      \
     false},                                                                                       \
    {                                                                                              \
        name ", gradient", OP_ATTN_D, {b, s, n, g, d, dv}, 0, "0125 0124 0134 0135 0125 f012 -",   \
            "0124 0134 0135 -", 0, ATTN_TERA(b, s, n, d, dv, (3 * (d) + 2 * (dv))), false          \
    }

/* A block of a ring of four ranks with 32,768 tokens: `share` of the 8,192 x 8,192 pairs are seen.
 * Results are FP32 sums over blocks, as in a step; keys' gradients are not. */
#define RING(name, flags, qa, qb, ka, kb, share, plain)                                            \
    {name,                                                                                         \
     OP_ATTN_BLOCK,                                                                                \
     {1, 8192, 8192, N, G, D, D, 0, qa, qb, ka, kb},                                               \
     flags,                                                                                        \
     "0135 0245 0246",                                                                             \
     "f0136 f013",                                                                                 \
     0,                                                                                            \
     TERA(8192.0 * 8192, N * (D + D), share),                                                      \
     plain},                                                                                       \
    {                                                                                              \
        name ", gradient", OP_ATTN_BLOCK_D, {1, 8192, 8192, N, G, D, D, 0, qa, qb, ka, kb}, flags, \
            "0136 0135 0245 0246 0136 f013", "f0135 0245 0246", 0,                                 \
            TERA(8192.0 * 8192, N * 5 * D, share), plain                                           \
    }

static const probe probes[] = {
    GEMMS("QKV", T, 5120, 2048),
    GEMMS("output projection", T, 2048, 4096),
    {"router product", OP_GEMM, {T, E, H}, 0, "02 12", "f01", 0, TERA(T, E, H), false},
    {"router product, data gradient",
     OP_GEMM_D,
     {T, E, H},
     0,
     "f01 12",
     "02",
     0,
     TERA(T, E, H),
     true},
    {"router product, weight gradient",
     OP_GEMM_W,
     {T, E, H},
     0,
     "f01 02",
     "f12",
     0,
     TERA(T, E, H),
     true},
    EXPERTS("experts N1536 K2048", T *K, E, 2 * F, H),
    EXPERTS("experts N2048 K768", T *K, E, H, F),
    ATTENTION("attention 8x4096", 8, 4096, N, G, D, D),
    ATTENTION("attention 1x32768", 1, 32768, N, G, D, D),
    {"attention 8x4096, gradient, deterministic",
     OP_ATTN_D,
     {8, 4096, N, G, D, D},
     FIXED_ORDER,
     "0125 0124 0134 0135 0125 f012 -",
     "0124 0134 0135 -",
     0,
     ATTN_TERA(8, 4096, N, D, D, 5 * D),
     false},
    GEMMS("head chunk", 4096, V, H),
    {"head and loss, 8,192 rows at a time, written",
     OP_HEAD_LOSS,
     {T, H, V, 8192},
     OVERWRITE,
     "01 21 i0 f0",
     "=2 01 f21",
     0,
     3 * TERA(T, V, H),
     false},
    {"head and loss, 4,096 rows at a time",
     OP_HEAD_LOSS,
     {T, H, V, 4096},
     0,
     "01 21 i0 f0",
     "=2 01 f21",
     0,
     3 * TERA(T, V, H),
     false},
    RING("ring, own keys", 0, 4096, 24576, 4096, 24576, 0.5, true),
    RING("ring, keys of an earlier rank", ACCUMULATE, 4096, 24576, 0, 28672, 0.5, false),
    RING("ring, keys of a later rank", ACCUMULATE, 4096, 24576, 8192, 20480, 0.5, false),
    {"head of an eighth of the words, 4,096 rows",
     OP_HEAD_PART,
     {T, H, V / 8, 4096, 0, 0},
     0,
     "01 21 i0",
     "32 f(3+3+3)",
     0,
     TERA(4096, V / 8, H),
     true},
    {"head of an eighth of the words, 4,096 rows, gradients",
     OP_HEAD_PART_D,
     {T, H, V / 8, 4096, 0, 0, 8},
     0,
     "f6(3+3+3) 01 21 i0 f0",
     "32 =2 01 f21",
     0,
     2 * TERA(4096, V / 8, H),
     true},
    {"copy", OP_COPY, {1 << 28}, 0, "0", "0", GB(4L << 28), 0, false},
    {"add", OP_ADD, {T * H}, 0, "0 0", "0", GB(6L * T * H), 0, false},
    {"norm", OP_NORM, {T, H}, 0, "01 1", "01 f0", GB(4L * T * H), 0, true},
    {"norm, gradient by x", OP_NORM_D, {T, H}, 0, "01 01 1 f0", "01", GB(6L * T * H), 0, true},
    {"norm, gradient by w", OP_NORM_W, {T, H}, 0, "01 01 f0", "f1", GB(4L * T * H), 0, true},
    {"query norm", OP_NORM, {T * N, D}, 0, "01 1", "01 f0", GB(4L * T * N * D), 0, true},
    {"query norm, gradient by x",
     OP_NORM_D,
     {T * N, D},
     0,
     "01 01 1 f0",
     "01",
     GB(6L * T * N * D),
     0,
     true},
    {"query norm, gradient by w",
     OP_NORM_W,
     {T * N, D},
     0,
     "01 01 f0",
     "f1",
     GB(4L * T * N * D),
     0,
     true},
    {"rotary, queries",
     OP_ROPE,
     {T, 4096, N, D, 0, D},
     0,
     "f15",
     "023",
     GB(4L * T * N * D),
     0,
     true},
    {"qkv split",
     OP_QKV_SPLIT,
     {T, N, G, D},
     0,
     "0(1+2+2)3",
     "013 023 023",
     GB(4L * T * (N + 2 * G) * D),
     0,
     false},
    {"residual sum and norm",
     OP_ADD_NORM,
     {T, H},
     0,
     "01 01 1",
     "01 01 f0",
     GB(8L * T * H),
     0,
     true},
    {"norm, both gradients, added",
     OP_NORM_BACK,
     {T, H},
     ACCUMULATE,
     "01 01 1 f0",
     "01 f1",
     GB(8L * T * H),
     0,
     true},
    {"heads: split, norm, rotary",
     OP_QKV_HEADS,
     {T, N, G, D, 4096, D},
     0,
     "0(1+2+2)3 3 3 f45",
     "013 023 023 - f01 f02",
     GB(4L * T * (N + 2 * G) * D),
     0,
     true},
    {"heads, gradients",
     OP_QKV_HEADS_D,
     {T, N, G, D, 4096, D},
     0,
     "013 023 023 - 0(1+2+2)3 3 3 f01 f02 f45",
     "0(1+2+2)3 f3 f3",
     GB(2L * T * D * (3 * N + 5 * G)),
     0,
     true},
    {"SwiGLU with probability",
     OP_ACT,
     {T * K, F},
     0,
     "0(1+1) f0",
     "01",
     GB(6L * T * K * F),
     0,
     true},
    {"SwiGLU, gradient",
     OP_ACT_D,
     {T * K, F},
     0,
     "01 0(1+1) f0",
     "0(1+1) f0",
     GB(10L * T * K * F),
     0,
     true},
    {"SwiGLU of a dense layer, 18,432 wide",
     OP_ACT,
     {TD, 18432},
     0,
     "0(1+1) -",
     "01",
     GB(6L * TD * 18432),
     0,
     true},
    {"SwiGLU of a dense layer, gradient",
     OP_ACT_D,
     {TD, 18432},
     0,
     "01 0(1+1) -",
     "0(1+1) -",
     GB(10L * TD * 18432),
     0,
     true},
    {"latent keys and values",
     OP_MLA_KV_JOIN,
     {TD, ND, 128, 64, 128},
     0,
     "01(2+4) 03",
     "01(2+3) 014",
     GB(2L * TD * ND * (256 + 320)),
     0,
     true},
    {"latent keys and values, gradient",
     OP_MLA_KV_JOIN_D,
     {TD, ND, 128, 64, 128},
     0,
     "01(2+3) 014",
     "01(2+4) 03",
     GB(2L * TD * ND * (256 + 320)),
     0,
     true},
    {"rotary, latent queries",
     OP_ROPE,
     {TD, 4096, ND, 192, 128, 64},
     INTERLEAVED,
     "f15",
     "023",
     GB(4L * TD * ND * 64),
     0,
     true},
    {"norm 7,168 wide, both gradients, added",
     OP_NORM_BACK,
     {TD, HD},
     ACCUMULATE,
     "01 01 1 f0",
     "01 f1",
     GB(8L * TD * HD),
     0,
     true},
    {"norm 7,168 wide, gradient by x",
     OP_NORM_D,
     {TD, HD},
     ACCUMULATE,
     "01 01 1 f0",
     "01",
     GB(8L * TD * HD),
     0,
     false},
    {"norm 7,168 wide, gradient by w",
     OP_NORM_W,
     {TD, HD},
     0,
     "01 01 f0",
     "f1",
     GB(4L * TD * HD),
     0,
     false},
    {"router", OP_ROUTER, {T, E, K}, 0, "f01 -", "f02 i02", GB(4L * T * E), 0, true},
    {"words", OP_EMBED, {T, H, V}, 0, "21 i0", "01", GB(4L * T * H), 0, true},
    {"words, gradient", OP_EMBED_W, {T, H, V}, 0, "01 i0", "f21", GB(10L * T * H), 0, true},
    {"router, forced balance",
     OP_ROUTER,
     {T, E, K},
     FORCED,
     "f01 -",
     "f02 i02",
     GB(4L * T * E),
     0,
     true},
    {"load-balancing loss",
     OP_AUX_LOSS,
     {T, 4096, E, K},
     0,
     "f02 -",
     "=2 f02",
     GB(16L * T * E),
     0,
     true},
    {"router, gradient", OP_ROUTER_D, {T, E, K}, 0, "f02 f01 i02", "f01", GB(8L * T * E), 0, true},
    {"sort", OP_SORT, {T, E, K, T *K}, 0, "i02 -", "i02 i1(0+0) -", GB(8L * T * K), 0, true},
    {"permute",
     OP_PERMUTE,
     {T, K, H, T *K},
     0,
     "02 f01 r01",
     "32 f3",
     GB(2L * T * H * (K + 1)),
     0,
     true},
    {"permute, gradient",
     OP_PERMUTE_D,
     {T, K, H, T *K},
     0,
     "32 f3 r01",
     "02 f01",
     GB(2L * T * H * (K + 1)),
     0,
     true},
    {"unpermute",
     OP_UNPERMUTE,
     {T, K, H, T *K},
     0,
     "32 r01",
     "02",
     GB(2L * T * H * (K + 1)),
     0,
     true},
    {"unpermute, gradient",
     OP_UNPERMUTE_D,
     {T, K, H, T *K},
     0,
     "02 r01",
     "32",
     GB(2L * T * H * (K + 1)),
     0,
     true},
    EXPERTS("DeepSeek-V3 experts N4096 K7168", 65536, ED, 2 * FD, HD),
    EXPERTS("DeepSeek-V3 experts N7168 K2048", 65536, ED, HD, FD),
    ATTENTION("MLA 4x4096, 128 heads of 192/128", 4, 4096, ND, ND, 192, 128),
    GEMMS("DeepSeek-V3 head chunk", 4096, VD, HD),
    GEMMS("DeepSeek-V3 q up", TD, ND * 192, 1536),
    GEMMS("DeepSeek-V3 output", TD, HD, ND * 128),
    {"DeepSeek-V3 head and loss",
     OP_HEAD_LOSS,
     {TD, HD, VD, 4096},
     0,
     "01 21 i0 f0",
     "=2 01 f21",
     0,
     3 * TERA(TD, VD, HD),
     false},
    ATTENTION("gpt-oss attention 8x4096, heads of 64", 8, 4096, 64, 8, 64, 64),
    {"gpt-oss attention 8x4096, window 128",
     OP_ATTN,
     {8, 4096, 64, 8, 64, 64, 128},
     0,
     "0124 0134 0135 -",
     "0125 f012",
     0,
     0,
     false},
    {"gpt-oss attention 8x4096, window 128, gradient",
     OP_ATTN_D,
     {8, 4096, 64, 8, 64, 64, 128},
     0,
     "0125 0124 0134 0135 0125 f012 -",
     "0124 0134 0135 -",
     0,
     0,
     false},
    {"norm 2,880 wide, gradient by x",
     OP_NORM_D,
     {T, 2880},
     ACCUMULATE,
     "01 01 1 f0",
     "01",
     GB(8L * T * 2880),
     0,
     false},
    {"gpt-oss bias of experts",
     OP_GROUPED_BIAS,
     {4 * T, 32, 5760},
     0,
     "12 - o1",
     "02",
     GB(4L * 4 * T * 5760),
     0,
     false},
    GEMMS("gpt-oss head chunk", 4096, 201088, 2880),
    {"gpt-oss head and loss",
     OP_HEAD_LOSS,
     {T, 2880, 201088, 4096},
     0,
     "01 21 i0 f0",
     "=2 01 f21",
     0,
     3 * TERA(T, 2880, 201088),
     false},
    EXPERTS("gpt-oss experts N5760 K2880", 4 * T, 32, 5760, 2880),
    EXPERTS("gpt-oss experts N2880 K2880", 4 * T, 32, 2880, 2880),
    {"clamped SwiGLU, 2,880 wide",
     OP_ACT,
     {4 * T, 2880},
     CLAMPED,
     "0(1+1) f0",
     "01",
     GB(6L * 4 * T * 2880),
     0,
     false},
    {"clamped SwiGLU, 2,880 wide, gradient",
     OP_ACT_D,
     {4 * T, 2880},
     CLAMPED,
     "01 0(1+1) f0",
     "0(1+1) f0",
     GB(10L * 4 * T * 2880),
     0,
     false},
    {"GELU, 18,432 wide",
     OP_ACT_AS,
     {T, 18432, 0, ACT_FAST_GELU},
     0,
     "01 -",
     "01",
     GB(4L * T * 18432),
     0,
     false},
    {"GELU, 18,432 wide, gradient",
     OP_ACT_AS_D,
     {T, 18432, 0, ACT_FAST_GELU},
     0,
     "01 01 -",
     "01 -",
     GB(6L * T * 18432),
     0,
     false},
    EXPERTS("Mixtral experts N28672 K4096", 2 * T, 8, 28672, 4096),
    EXPERTS("Mixtral experts N4096 K14336", 2 * T, 8, 4096, 14336),
    EXPERTS("Moonlight experts N2048 K1408", 6 * T, 64, 2048, 1408),
    {"convolution", OP_CONV, {8, 4096, 8192, 4}, 0, "012 23", "012", GB(4L * T * 8192), 0, false},
    {"convolution, gradient",
     OP_CONV_D,
     {8, 4096, 8192, 4},
     0,
     "012 012 23",
     "012",
     GB(6L * T * 8192),
     0,
     false},
    {"convolution, gradient by weights",
     OP_CONV_W,
     {8, 4096, 8192, 4},
     0,
     "012 012 23",
     "f23",
     GB(4L * T * 8192),
     0,
     false},
    {"gated norm, heads of 128",
     OP_GATED_NORM,
     {T * 32, D},
     0,
     "01 01 1",
     "01 f0",
     GB(6L * T * 32 * D),
     0,
     true},
    {"gated norm, heads of 128, gradient",
     OP_GATED_NORM_D,
     {T * 32, D},
     0,
     "01 01 01 1 f0",
     "01 01",
     GB(10L * T * 32 * D),
     0,
     true},
    {"plain product 8192 x 2048 x 2048",
     OP_GEMM,
     {8192, 2048, 2048},
     0,
     "02 12",
     "01",
     0,
     TERA(8192, 2048, 2048),
     true},
    {"delta rule 1x4096, 16/32 heads of 128",
     OP_GDN_RULE,
     {1, 4096, 16, 32, 128, 128, 64},
     0,
     "01(2+2+3)4 f013 f013",
     "0135 f=33554432",
     0,
     0,
     true},
    {"delta rule 1x4096, 16/32 heads of 128, gradient",
     OP_GDN_RULE_D,
     {1, 4096, 16, 32, 128, 128, 64},
     0,
     "0135 01(2+2+3)4 f013 f013 f=33554432",
     "01(2+2+3)4 f013 f013",
     0,
     0,
     true},
};

/* Small numbers in either format; for int32, ids of experts, which are labels as well. */
__global__ void fill(void *x, int64_t n, dtype type)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const uint32_t h = (uint32_t)i * 2654435761u ^ (uint32_t)(i >> 32) * 40503u;
        const float v = ((float)(h >> 8) * 0x1p-24f - 0.5f) * 2;
        if (type == DTYPE_F32) ((float *)x)[i] = v;
        if (type == DTYPE_BF16) ((uint16_t *)x)[i] = (uint16_t)(__float_as_uint(v) >> 16);
        if (type == DTYPE_I32) ((int32_t *)x)[i] = (int32_t)((h >> 16) % E);
    }
}

/* A permutation of all rows, as a sort would give it: pair (t, k) of expert e = t * K + k mod E. */
__global__ void fill_rows(int32_t *rows)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < T * K;
         i += (int64_t)gridDim.x * blockDim.x)
        rows[i] = (int32_t)(i % E * (T * K / E) + i / E);
}

/* Every expert has as many. */
__global__ void fill_offsets(int32_t *offsets, int n, int64_t room)
{
    for (int i = (int)threadIdx.x; i <= n; i += (int)blockDim.x)
        offsets[i] = (int32_t)(room / n * i);
}

typedef struct bench_case {
    op o;
    op_types types;
    const kernel *row;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX], *workspace, *state;
} bench_case;

static int64_t factor(const op *o, const char **s)
{
    if (**s != '(') return o->dim[*(*s)++ - '0'];
    int64_t sum = 0;
    while (*(*s)++ != ')') sum += o->dim[*(*s)++ - '0'];
    return sum;
}

/* Reads one tensor of a list and makes it; NULL: missing. */
static void *make(const op *o, const char **s, dtype *type)
{
    const char first = **s;
    void *p = NULL;
    int64_t n = 1;
    *type = first == 'f' || first == '=' ? DTYPE_F32
            : strchr("iro", first)       ? DTYPE_I32
                                         : DTYPE_BF16;
    if (first == '-') {
        ++*s;
    } else {
        if (strchr("firo", first)) ++*s;
        if (first == 'o') n = o->dim[*(*s)++ - '0'] + 1;
        if (**s == '=') n = strtoll(*s + 1, (char **)s, 10);
        while (**s && **s != ' ') n *= factor(o, s);
        CHECK(cudaMalloc(&p, (size_t)n * (*type == DTYPE_BF16 ? 2 : 4)));
        fill<<<1024, 256>>>(p, n, *type);
        if (first == 'r') fill_rows<<<1024, 256>>>((int32_t *)p);
        if (first == 'o') fill_offsets<<<1, 256>>>((int32_t *)p, (int)(n - 1), o->dim[0]);
    }
    *s += **s == ' ';
    return p;
}

static bool case_init(bench_case *s, const probe *p, const kernel *row)
{
    const char *in = p->in, *out = p->out;
    error err = {""};
    *s = bench_case{};
    s->o.kind = p->kind;
    s->o.flags = p->flags;
    s->o.real[0] = s->o.real[1] = 0.088;
    memcpy(s->o.dim, p->dim, sizeof p->dim);
    for (int i = 0; i < OP_IN_MAX; i++) {
        s->in[i] = *in ? make(&s->o, &in, &s->types.in[i]) : NULL;
        s->o.in[i] = s->in[i] ? i : -1;
    }
    for (int i = 0; i < OP_OUT_MAX; i++) {
        s->out[i] = *out ? make(&s->o, &out, &s->types.out[i]) : NULL;
        s->o.out[i] = s->out[i] ? i : -1;
    }
    s->row = row;
    if (!row->accepts(&s->o, &s->types) && !(library_too && strcmp(row->name, "cublaslt") == 0))
        return false;
    const int64_t bytes = kernel_workspace_of(s->row, &s->o, &s->types);
    if (bytes) CHECK(cudaMalloc(&s->workspace, (size_t)bytes));
    if (s->row->prepare && s->row->prepare(&s->o, &s->types, &s->state, &err) != OK) {
        printf("%s\n", err.text);
        return false;
    }
    return true;
}

static void case_release(bench_case *s)
{
    for (int i = 0; i < OP_IN_MAX; i++) cudaFree(s->in[i]);
    for (int i = 0; i < OP_OUT_MAX; i++) cudaFree(s->out[i]);
    cudaFree(s->workspace);
    if (s->row && s->row->release && s->state) s->row->release(s->state);
}

static void launch(void *arg, cudaStream_t stream)
{
    const bench_case *s = (const bench_case *)arg;
    const kernel_call c = {s->row, &s->o, &s->types, s->in, s->out, s->workspace, stream, s->state};
    s->row->launch(&c);
}

/* At the power limit. */
static double limit_ms(bench_case *s)
{
    const double one = time_ms(launch, s, 1, 3, 0), calls = 200 / one;
    const int n = calls < 5 ? 5 : calls > 4096 ? 4096 : (int)calls;
    return time_ms(launch, s, n, n, 0);
}

static double time_row(const probe *p, const kernel *row)
{
    bench_case s;
    double ms = -1;
    if (case_init(&s, p, row)) {
        ms = at_limit ? limit_ms(&s) : time_ms(launch, &s, 3, 9, 20);
        printf("| %s | %s | %.3f |", p->name, s.row->name, ms);
        if (p->gigabytes > 0)
            printf(" %.0f GB/s |\n", p->gigabytes / ms * 1e3);
        else if (p->teraflop > 0)
            printf(" %.1f TFLOP/s |\n", p->teraflop / ms * 1e3);
        else
            printf(" |\n");
    }
    fflush(stdout);
    case_release(&s);
    return ms;
}

/* All rows that take it, the one that is chosen first; plain ones only where asked for or alone.
 * That one's time. */
static double time_probe(const probe *p)
{
    int n;
    double ms = -1;
    const kernel *rows = kernels_cuda(&n);
    for (int i = n - 1; i >= 0; i--) {
        const bool plain = strcmp(rows[i].name, "plain") == 0;
        if (rows[i].kind != p->kind || (plain && !p->plain && ms > 0)) continue;
        const double this_ms = time_row(p, &rows[i]);
        if (ms < 0) ms = this_ms;
    }
    return ms;
}

/* ---- an optimizer's step over 3 * 10^9 parameters: FP32 gradients, masters and moments, BF16
 * weights */

static void time_update(op_kind kind, const char *name, double bytes_each)
{
    int n_rows;
    const int64_t n = 3000000000;
    const kernel *rows = kernels_cuda(&n_rows);
    const update_row table = {.n = n, .decays = 1, .answers = 1};
    const double verdict[VERDICT_COUNT] = {STEP_TAKEN, 1, 1, 1, 1e-3, 1e-3, 0.1, 1, 1};
    bench_case s = {};
    s.o.kind = kind;
    s.o.dim[DIM_ADAMW_N] = n;
    s.o.dim[DIM_ADAMW_ROWS] = 1;
    s.o.dim[DIM_ADAMW_COUNT] = n;
    s.o.real[0] = 0.9, s.o.real[1] = 0.95, s.o.real[2] = 1e-8;
    s.types.in[1] = s.types.in[2] = DTYPE_F64;
    CHECK(cudaMalloc(&s.in[0], (size_t)n * 4));
    CHECK(cudaMemset(s.in[0], 0, (size_t)n * 4));
    CHECK(cudaMalloc(&s.in[1], sizeof table));
    CHECK(cudaMalloc(&s.in[2], sizeof verdict));
    CHECK(cudaMemcpy(s.in[1], &table, sizeof table, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(s.in[2], verdict, sizeof verdict, cudaMemcpyHostToDevice));
    for (int i = 0; i < (kind == OP_ADAMW ? 4 : 1); i++) {
        s.types.out[i] = kind == OP_SQUARES ? DTYPE_F64 : i ? DTYPE_F32 : DTYPE_BF16;
        CHECK(cudaMalloc(&s.out[i], (size_t)n * 4));
        CHECK(cudaMemset(s.out[i], 0, (size_t)n * 4));
    }
    for (int i = 0; i < OP_IN_MAX; i++) s.o.in[i] = s.in[i] ? i : -1;
    for (int i = 0; i < OP_OUT_MAX; i++) s.o.out[i] = s.out[i] ? i : -1;
    s.row = kernel_pick(rows, n_rows, &s.o, &s.types, false);
    const int64_t bytes = kernel_workspace_of(s.row, &s.o, &s.types);
    if (bytes) CHECK(cudaMalloc(&s.workspace, (size_t)bytes));
    const double ms = time_ms(launch, &s, 3, 9, 20);
    printf("| %s, 3 * 10^9 parameters | %s | %.3f | %.0f GB/s |\n", name, s.row->name, ms,
           bytes_each * n * 1e-6 / ms);
    case_release(&s);
}

/* ---- the two ceilings */

/* As they were first measured: torch's product of two matrices of normal numbers, as they lie, and
 * torch's copy, each ten times one behind another. One copy behind a pause of 20 ms is 4 %
 * slower. */
enum { BURST = 10 };

static void copy_launch(void *arg, cudaStream_t stream)
{
    char *p = (char *)arg;
    for (int i = 0; i < BURST; i++)
        CHECK(cudaMemcpyAsync(p, p + (2L << 30), 2L << 30, cudaMemcpyDeviceToDevice, stream));
}

static void burst_launch(void *arg, cudaStream_t stream)
{
    for (int i = 0; i < BURST; i++) launch(arg, stream);
}

__device__ uint32_t scrambled(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Normal numbers, of mean 0 and variance 1. */
__global__ void fill_normal(uint16_t *x, uint32_t n, uint32_t seed)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const uint32_t h = scrambled(2 * i ^ seed), g = scrambled(2 * i + 1 ^ seed);
        const float u = ((float)(h >> 8) + 0.5f) * 0x1p-24f;
        const float v = sqrtf(-2 * logf(u)) * cospif((float)(g >> 8) * 0x1p-23f);
        x[i] = (uint16_t)(__float_as_uint(v) + 0x8000u >> 16);
    }
}

static const kernel *library_row(op_kind kind)
{
    int n;
    const kernel *rows = kernels_cuda(&n);
    for (int i = 0; i < n; i++)
        if (rows[i].kind == kind && strcmp(rows[i].name, "cublaslt") == 0) return &rows[i];
    return NULL;
}

/* By cuBLAS, whatever row of ours is chosen for it. */
static double time_cube(void)
{
    enum { SIDE = 8192 };
    static const probe cube = {"",   OP_GEMM_D, {SIDE, SIDE, SIDE},     0,    "01 12",
                               "02", 0,         TERA(SIDE, SIDE, SIDE), false};
    bench_case s;
    const bool was = library_too;
    library_too = true;
    const bool taken = case_init(&s, &cube, library_row(cube.kind));
    library_too = was;
    double ms = -1;
    if (taken) {
        for (int i = 0; i < 2; i++)
            fill_normal<<<1024, 256>>>((uint16_t *)s.in[i], SIDE * SIDE, 77u + (uint32_t)i);
        ms = time_ms(burst_launch, &s, 1, 5, 20) / BURST;
    }
    case_release(&s);
    return cube.teraflop / ms * 1e3;
}

static void time_ceilings(void)
{
    char *p;
    const double tera = time_cube();
    printf("| product of 8192 cubed | cublaslt | | %.1f TFLOP/s |\n", tera);
    CHECK(cudaMalloc(&p, 4L << 30));
    const double ms = time_ms(copy_launch, p, 3, 9, 20) / BURST;
    const double rate = 4.0 * (1 << 30) / ms * 1e-6;
    printf("| device copy | | %.3f | %.0f GB/s |\n", ms, rate);
    printf("| ceilings beside 794 TFLOP/s and 4,244 GB/s | | | %+.1f %%, %+.1f %% |\n",
           100 * (tera / 794 - 1), 100 * (rate / 4244 - 1));
    cudaFree(p);
}

static bool asked_for(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--limit") == 0) at_limit = library_too = true, argv++, argc--;
    printf("| what | row | ms | |\n|---|---|--:|--:|\n");
    time_ceilings();
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        if (!asked_for(argc, argv, probes[i].name)) continue;
        time_probe(&probes[i]);
    }
    if (asked_for(argc, argv, "squares")) time_update(OP_SQUARES, "squares", 4);
    if (asked_for(argc, argv, "AdamW")) time_update(OP_ADAMW, "AdamW", 30);
    return 0;
}
