/* rows_time.cu - how fast the plain CUDA rows are at the sizes of a Qwen3-30B-A3B layer with 32,768
 * tokens, in BF16; and what an optimizer's step over 10^9 parameters takes in one launch.
 *
 * Rows that memory binds print GB/s (what must be read and written, once), products TFLOP/s. */
#include "common.h"
#include "kernels/cuda/cuda_rows.h"

enum { T = 32768, H = 2048, E = 128, K = 8, F = 768, N = 32, G = 4, D = 128, V = 151936 };

typedef struct probe {
    const char *name;
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    double real[2];
    unsigned flags;
    int64_t in[OP_IN_MAX], out[OP_OUT_MAX]; /* numbers; 0: missing */
    double gigabytes, teraflop;
} probe;

#define GB(bytes) ((double)(bytes)*1e-9)

static const probe probes[] = {
    {"copy", OP_COPY, {1 << 28}, {0}, 0, {1 << 28}, {1 << 28}, GB(4L << 28), 0},
    {"add", OP_ADD, {T * H}, {0}, 0, {T * H, T *H}, {T * H}, GB(6L * T * H), 0},
    {"norm", OP_NORM, {T, H}, {1e-5}, 0, {T * H, H}, {T * H, T}, GB(4L * T * H), 0},
    {"norm, gradient by x",
     OP_NORM_D,
     {T, H},
     {0},
     0,
     {T * H, T *H, H, T},
     {T * H},
     GB(6L * T * H),
     0},
    {"norm, gradient by w", OP_NORM_W, {T, H}, {0}, 0, {T * H, T *H, T}, {H}, GB(4L * T * H), 0},
    {"query norm",
     OP_NORM,
     {T * N, D},
     {1e-5},
     0,
     {T * N * D, D},
     {T * N * D, T *N},
     GB(4L * T * N * D),
     0},
    {"rotary, queries",
     OP_ROPE,
     {T, T, N, D, 0, D},
     {0},
     0,
     {T * D},
     {T * N * D},
     GB(4L * T * N * D),
     0},
    {"qkv split",
     OP_QKV_SPLIT,
     {T, N, G, D},
     {0},
     0,
     {T * (N + 2 * G) * D},
     {T * N * D, T *G *D, T *G *D},
     GB(4L * T * (N + 2 * G) * D),
     0},
    {"SwiGLU with probability",
     OP_ACT,
     {T * K, F},
     {0},
     0,
     {2L * T * K * F, T *K},
     {(int64_t)T * K * F},
     GB(6L * T * K * F),
     0},
    {"SwiGLU, gradient",
     OP_ACT_D,
     {T * K, F},
     {0},
     0,
     {(int64_t)T * K * F, 2L * T *K *F, T *K},
     {2L * T * K * F, T *K},
     GB(10L * T * K * F),
     0},
    {"router", OP_ROUTER, {T, E, K}, {1}, 0, {T * E}, {T * K, T *K}, GB(4L * T * E), 0},
    {"router, gradient",
     OP_ROUTER_D,
     {T, E, K},
     {1},
     0,
     {T * K, T *E, T *K},
     {T * E},
     GB(8L * T * E),
     0},
    {"sort", OP_SORT, {T, E, K, T *K}, {0}, 0, {T * K}, {T * K, E + 1}, GB(8L * T * K), 0},
    {"permute",
     OP_PERMUTE,
     {T, K, H, T *K},
     {0},
     0,
     {T * H, T *K, T *K},
     {(int64_t)T * K * H, T *K},
     GB(2L * T * H * (K + 1)),
     0},
    {"unpermute",
     OP_UNPERMUTE,
     {T, K, H, T *K},
     {0},
     0,
     {(int64_t)T * K * H, T *K},
     {T * H},
     GB(2L * T * H * (K + 1)),
     0},
    {"cross entropy and its gradient, 4,096 rows of FP32 logits",
     OP_HEAD_PART_D,
     {4096, 1, V, 4096, 0, 0, 1},
     {1},
     0,
     {4096 * 3, 4096, V, 4096, 4096},
     {4096L * V, 2},
     GB(8L * 4096 * V),
     0},
    {"product 8192 x 2048 x 2048",
     OP_GEMM,
     {8192, 2048, 2048},
     {0},
     0,
     {8192 * 2048, 2048 * 2048},
     {8192 * 2048},
     0,
     2e-12 * 8192 * 2048 * 2048},
    {"attention 1x4096, 32/4 heads of 128",
     OP_ATTN,
     {1, 4096, N, G, D, D, 0},
     {0.088},
     0,
     {4096 * N * D, 4096 * G *D, 4096 * G *D},
     {4096 * N * D, 4096 * N},
     0,
     2e-12 * 4096 * 4096 * N *D},
    {"attention, gradient",
     OP_ATTN_D,
     {1, 4096, N, G, D, D, 0},
     {0.088},
     0,
     {4096 * N * D, 4096 * N *D, 4096 * G *D, 4096 * G *D, 4096 * N *D, 4096 * N},
     {4096 * N * D, 4096 * G *D, 4096 * G *D},
     0,
     5e-12 * 4096 * 4096 * N *D},
    {"delta rule 1x4096, 16/32 heads of 128",
     OP_GDN_RULE,
     {1, 4096, 16, 32, 128, 128, 64},
     {0},
     0,
     {4096 * 8192, 4096 * 32, 4096 * 32},
     {4096 * 4096, 64 * 32 * 16384},
     0,
     0},
    {"delta rule, gradient",
     OP_GDN_RULE_D,
     {1, 4096, 16, 32, 128, 128, 64},
     {0},
     0,
     {4096 * 4096, 4096 * 8192, 4096 * 32, 4096 * 32, 64 * 32 * 16384},
     {4096 * 8192, 4096 * 32, 4096 * 32},
     0,
     0},
};

/* Small numbers in either format; for int32, ids of experts, which are rows and labels as well. */
__global__ void fill(void *x, int64_t n, dtype type)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const uint32_t h = (uint32_t)i * 2654435761u;
        if (type == DTYPE_F32) ((float *)x)[i] = (float)(h >> 8) * 0x1p-24f;
        if (type == DTYPE_BF16) ((uint16_t *)x)[i] = (uint16_t)(0x3d00 + (h >> 24));
        if (type == DTYPE_I32) ((int32_t *)x)[i] = (int32_t)((h >> 16) % E);
    }
}

typedef struct bench_case {
    op o;
    op_types types;
    const cuda_row *row;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX], *workspace;
} bench_case;

static dtype type_of(const char *letters, int i)
{
    const char c = i < (int)strlen(letters) ? letters[i] : 'f';
    return c == 'n' ? DTYPE_BF16 : c == 'i' ? DTYPE_I32 : DTYPE_F32;
}

static void *make(int64_t n, dtype type)
{
    void *p = NULL;
    if (n == 0) return NULL;
    CHECK(cudaMalloc(&p, (size_t)n * (type == DTYPE_BF16 ? 2 : 4)));
    fill<<<1024, 256>>>(p, n, type);
    return p;
}

/* A permutation of all rows, as a sort would give it: pair (t, k) of expert e = t * K + k mod E. */
__global__ void fill_rows(int32_t *rows)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < T * K;
         i += (int64_t)gridDim.x * blockDim.x)
        rows[i] = (int32_t)(i % E * (T * K / E) + i / E);
}

static const cuda_row *row_of(op_kind kind)
{
    int n;
    const cuda_row *rows = cuda_rows(&n);
    for (int i = 0; i < n; i++)
        if (rows[i].kind == kind) return &rows[i];
    return NULL;
}

static void case_init(bench_case *s, const probe *p)
{
    *s = bench_case{};
    s->row = row_of(p->kind);
    s->o.kind = p->kind;
    s->o.flags = p->flags;
    memcpy(s->o.dim, p->dim, sizeof p->dim);
    memcpy(s->o.real, p->real, sizeof p->real);
    for (int i = 0; i < OP_IN_MAX; i++) {
        s->types.in[i] = type_of(s->row->in, i);
        s->in[i] = make(p->in[i], s->types.in[i]);
        s->o.in[i] = s->in[i] ? i : -1;
        const bool map = p->kind == OP_PERMUTE || p->kind == OP_UNPERMUTE;
        if (map && s->types.in[i] == DTYPE_I32 && s->in[i])
            fill_rows<<<1024, 256>>>((int32_t *)s->in[i]);
    }
    for (int i = 0; i < OP_OUT_MAX; i++) {
        s->types.out[i] = type_of(s->row->out, i);
        s->out[i] = make(p->out[i], s->types.out[i]);
        s->o.out[i] = s->out[i] ? i : -1;
    }
    const int64_t bytes = cuda_row_workspace(s->row, &s->o);
    if (bytes) CHECK(cudaMalloc(&s->workspace, (size_t)bytes));
}

static void case_release(bench_case *s)
{
    for (int i = 0; i < OP_IN_MAX; i++) cudaFree(s->in[i]);
    for (int i = 0; i < OP_OUT_MAX; i++) cudaFree(s->out[i]);
    cudaFree(s->workspace);
}

static void launch(void *arg, cudaStream_t stream)
{
    const bench_case *s = (const bench_case *)arg;
    const cuda_call c = {&s->o, &s->types, s->in, s->out, s->workspace, stream};
    s->row->launch(&c);
}

/* ---- an optimizer's step: FP32 weight, gradient and moments, and the BF16 copy */

typedef struct shard {
    float4 *w, *g, *m, *v;
    uint2 *copy;
    int64_t n; /* in fours */
} shard;

static __device__ uint32_t pair_of(float a, float b)
{
    const uint32_t x = __float_as_uint(a), y = __float_as_uint(b);
    return ((x + 0x7fff + (x >> 16 & 1)) >> 16) | ((y + 0x7fff + (y >> 16 & 1)) & 0xffff0000u);
}

static __device__ float adam_one(float w, float g, float &m, float &v)
{
    m = 0.9f * m + 0.1f * g;
    v = 0.95f * v + 0.05f * g * g;
    return w - 1e-3f * (m / (sqrtf(v) + 1e-8f) + 0.1f * w);
}

__global__ void adam(shard s)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < s.n;
         i += (int64_t)gridDim.x * blockDim.x) {
        float4 w = s.w[i], g = s.g[i], m = s.m[i], v = s.v[i];
        w.x = adam_one(w.x, g.x, m.x, v.x);
        w.y = adam_one(w.y, g.y, m.y, v.y);
        w.z = adam_one(w.z, g.z, m.z, v.z);
        w.w = adam_one(w.w, g.w, m.w, v.w);
        s.w[i] = w, s.m[i] = m, s.v[i] = v;
        s.copy[i] = make_uint2(pair_of(w.x, w.y), pair_of(w.z, w.w));
    }
}

static void adam_launch(void *arg, cudaStream_t stream)
{
    const shard *s = (const shard *)arg;
    adam<<<132 * 8, 512, 0, stream>>>(*s);
}

static void time_adam(void)
{
    const int64_t n = 1000000000;
    shard s = {};
    s.n = n / 4;
    float4 **all[] = {&s.w, &s.g, &s.m, &s.v};
    for (int i = 0; i < 4; i++) {
        CHECK(cudaMalloc(all[i], (size_t)n * 4));
        CHECK(cudaMemset(*all[i], 0, (size_t)n * 4));
    }
    CHECK(cudaMalloc(&s.copy, (size_t)n * 2));
    const double ms = time_ms(adam_launch, &s, 3, 9, 20);
    printf("| AdamW, 10^9 parameters, one launch | %.3f | %.0f GB/s |\n", ms, 30.0 * n * 1e-6 / ms);
    for (int i = 0; i < 4; i++) cudaFree(*all[i]);
    cudaFree(s.copy);
}

int main(void)
{
    printf("| row | ms | |\n|---|--:|--:|\n");
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        bench_case s;
        case_init(&s, &probes[i]);
        const double ms = time_ms(launch, &s, 3, 9, 20);
        printf("| %s | %.3f |", probes[i].name, ms);
        if (probes[i].gigabytes > 0)
            printf(" %.0f GB/s |\n", probes[i].gigabytes / ms * 1e3);
        else if (probes[i].teraflop > 0)
            printf(" %.1f TFLOP/s |\n", probes[i].teraflop / ms * 1e3);
        else
            printf(" |\n");
        fflush(stdout);
        case_release(&s);
    }
    time_adam();
    return 0;
}
