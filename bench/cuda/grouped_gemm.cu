/* grouped_gemm.cu - the expert GEMMs of our own: checked against a plain kernel, timed beside a
 * loop of cublasGemmEx. Needs a Hopper GPU.
 *
 * Usage: grouped_gemm [part of a variant's name [case, -1 for all [once]]]; "once" runs without
 * timing, for profilers. */
#include <cublas_v2.h>
#include <math.h>
#include "common.h"
#include "grouped_problem.cuh"

typedef struct {
    const char *name;
    int out;
    void (*run[3])(void *problem_, cudaStream_t); /* one a kind */
} variant;

/* ---- cuBLAS, one call an expert ---- */

static cublasHandle_t cublas;

static void cublas_loop(void *problem_, cudaStream_t stream)
{
    const problem *q = (const problem *)problem_;
    const gemm p = q->p;
    const float one = 1, zero = 0;
    size_t row = 0;
    (void)stream;
    for (int e = 0; e < q->n_experts; e++) {
        const int rows = q->host_counts[e];
        const size_t w = (size_t)e * (size_t)p.n * (size_t)(p.kind == GEMM_WEIGHT ? p.m : p.k);
        cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
        bf16 *c = (bf16 *)q->c;
        if (rows && p.kind == GEMM_FORWARD)
            s = cublasGemmEx(cublas, CUBLAS_OP_T, CUBLAS_OP_N, p.n, rows, p.k, &one, q->b + w,
                             CUDA_R_16BF, p.k, q->a + row * p.k, CUDA_R_16BF, p.k, &zero,
                             c + row * p.n, CUDA_R_16BF, p.n, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT);
        else if (rows && p.kind == GEMM_DATA)
            s = cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, p.n, rows, p.k, &one, q->b + w,
                             CUDA_R_16BF, p.n, q->a + row * p.k, CUDA_R_16BF, p.k, &zero,
                             c + row * p.n, CUDA_R_16BF, p.n, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT);
        else if (rows)
            s = cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_T, p.n, p.m, rows, &one,
                             q->b + row * p.n, CUDA_R_16BF, p.n, q->a + row * p.m, CUDA_R_16BF, p.m,
                             &zero, c + w, CUDA_R_16BF, p.n, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT);
        if (s != CUBLAS_STATUS_SUCCESS) {
            fprintf(stderr, "cublasGemmEx: %d\n", (int)s);
            exit(3);
        }
        row += (size_t)rows;
    }
}

/* ---- the plain kernel ---- */

/* One warp an element: result (row, n) of all rows, or (e * m + row, n) of the weight gradient. */
__device__ float plain_element(const problem q, const int *first_row, size_t row, int n)
{
    const gemm p = q.p;
    const int lane = threadIdx.x % 32;
    int e = 0, from = 0, to = p.k;
    if (p.kind == GEMM_WEIGHT) {
        e = (int)(row / p.m);
        from = first_row[e];
        to = first_row[e + 1];
    } else {
        while ((size_t)first_row[e + 1] <= row) e++;
    }
    double sum = 0;
    for (int i = from + lane; i < to; i += 32) {
        float x, y;
        if (p.kind == GEMM_WEIGHT) {
            x = __bfloat162float(q.a[(size_t)i * p.m + row % p.m]);
            y = __bfloat162float(q.b[(size_t)i * p.n + n]);
        } else {
            x = __bfloat162float(q.a[row * p.k + i]);
            size_t at = p.kind == GEMM_FORWARD ? (size_t)n * p.k + i : (size_t)i * p.n + n;
            y = __bfloat162float(q.b[(size_t)e * p.n * p.k + at]);
        }
        sum += (double)x * (double)y;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    return (float)sum;
}

/* Every `skip`-th element; err[0] += (c - plain)^2, err[1] += plain^2, err[2] counts NaN. */
__global__ void compare(const problem q, const int *first_row, size_t n_elements, size_t skip,
                        int fp32, double *err)
{
    size_t warp = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32;
    size_t warps = (size_t)gridDim.x * blockDim.x / 32;
    for (size_t i = warp * skip; i < n_elements; i += warps * skip) {
        float want = plain_element(q, first_row, i / q.p.n, (int)(i % q.p.n));
        float got = fp32 ? ((const float *)q.c)[i] : __bfloat162float(((const bf16 *)q.c)[i]);
        if (threadIdx.x % 32) continue;
        double d = (double)got - (double)want;
        if (isnan(got)) {
            atomicAdd(err + 2, 1.0);
        } else {
            atomicAdd(err, d * d);
            atomicAdd(err + 1, (double)want * (double)want);
        }
    }
}

__global__ void count_nan(const void *c, size_t n, int fp32, double *err)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        float v = fp32 ? ((const float *)c)[i] : __bfloat162float(((const bf16 *)c)[i]);
        if (isnan(v)) atomicAdd(err + 2, 1.0);
    }
}

/* Differs, but for accidents, where one bit does. */
__global__ void digest(const uint32_t *c, size_t n, unsigned long long *sum)
{
    unsigned long long s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        s += (unsigned long long)hash(i * 4294967296ull + c[i]) << (i % 24);
    atomicAdd(sum, s);
}

/* ---- the run ---- */

typedef struct {
    bf16 *a, *b;
    void *c;
    int *first_row;
    double *err;
} memory;

static size_t result_elements(const problem *q)
{
    size_t rows =
        q->p.kind == GEMM_WEIGHT ? (size_t)q->n_experts * (size_t)q->p.m : (size_t)q->n_rows;
    return rows * (size_t)q->p.n;
}

static unsigned long long digest_of(const memory *mem, const void *c, size_t n_bytes)
{
    unsigned long long sum;
    CHECK(cudaMemset(mem->err, 0, sizeof sum));
    digest<<<1056, 256>>>((const uint32_t *)c, n_bytes / 4, (unsigned long long *)mem->err);
    CHECK(cudaMemcpy(&sum, mem->err, sizeof sum, cudaMemcpyDeviceToHost));
    return sum;
}

/* Relative error of the norm. Infinite where what lies behind the result was touched, or where a
 * second run gives other bits; no number where an element was not written. */
static double check(const memory *mem, problem *q, const variant *v)
{
    const int fp32 = v->out == OUT_FP32_ADD;
    const size_t n = result_elements(q), bytes = n * (fp32 ? 4 : 2);
    const size_t summed = (size_t)(q->p.kind == GEMM_WEIGHT ? q->n_rows / q->n_experts : q->p.k);
    const size_t some = ((size_t)1 << 34) / (summed + 1), most = (size_t)1 << 21;
    const size_t skip = n / (some < most ? some : most) + 1; /* a second or two of checking */
    unsigned long long sum[2];
    unsigned char after[256];
    double err[3];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMemset(q->c, fp32 ? 0 : 0xff, bytes));
        CHECK(cudaMemset((char *)q->c + bytes, 0xab, sizeof after));
        v->run[q->p.kind](q, 0);
        CHECK(cudaDeviceSynchronize());
        sum[i] = digest_of(mem, q->c, bytes);
    }
    CHECK(cudaMemset(mem->err, 0, sizeof err));
    compare<<<1056, 256>>>(*q, mem->first_row, n, skip, fp32, mem->err);
    count_nan<<<1056, 256>>>(q->c, n, fp32, mem->err);
    CHECK(cudaMemcpy(err, mem->err, sizeof err, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(after, (char *)q->c + bytes, sizeof after, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof after; i++)
        if (after[i] != 0xab) return INFINITY;
    if (sum[0] != sum[1]) return INFINITY;
    if (err[2] > 0) return NAN;
    return sqrt(err[0] / err[1]);
}

static void set_counts(const memory *mem, problem *q, const int *counts, int n_experts)
{
    int first[MAX_EXPERTS + 1] = {0};
    for (int e = 0; e < n_experts; e++) first[e + 1] = first[e] + counts[e];
    q->n_experts = n_experts;
    q->n_rows = first[n_experts];
    q->host_counts = counts;
    CHECK(cudaMemcpy(mem->first_row, first, (size_t)(n_experts + 1) * 4, cudaMemcpyHostToDevice));
}

#include "grouped_variants.h"

/* Qwen3-30B-A3B's experts, DeepSeek-V3's, and one dense GEMM as the chip's own measure. */
static const gemm qwen[] = {
    {"N1536 K2048 forward", GEMM_FORWARD, 0, 1536, 2048},
    {"N1536 K2048 data gradient", GEMM_DATA, 0, 2048, 1536},
    {"N1536 K2048 weight gradient", GEMM_WEIGHT, 1536, 2048, 0},
    {"N2048 K768 forward", GEMM_FORWARD, 0, 2048, 768},
    {"N2048 K768 data gradient", GEMM_DATA, 0, 768, 2048},
    {"N2048 K768 weight gradient", GEMM_WEIGHT, 2048, 768, 0},
    {NULL, 0, 0, 0, 0},
};

static const gemm deepseek[] = {
    {"N4096 K7168 forward", GEMM_FORWARD, 0, 4096, 7168},
    {"N4096 K7168 data gradient", GEMM_DATA, 0, 7168, 4096},
    {"N4096 K7168 weight gradient", GEMM_WEIGHT, 4096, 7168, 0},
    {"N7168 K2048 forward", GEMM_FORWARD, 0, 7168, 2048},
    {"N7168 K2048 data gradient", GEMM_DATA, 0, 2048, 7168},
    {"N7168 K2048 weight gradient", GEMM_WEIGHT, 7168, 2048, 0},
    {NULL, 0, 0, 0, 0},
};

static const gemm dense[] = {
    {"8192^3 forward", GEMM_FORWARD, 0, 8192, 8192},
    {"head forward", GEMM_FORWARD, 0, 151936, 2048},
    {"head data gradient", GEMM_DATA, 0, 2048, 151936},
    {"head weight gradient", GEMM_WEIGHT, 151936, 2048, 0},
    {NULL, 0, 0, 0, 0},
};

static const gemm projections[] = {
    {"QKV forward", GEMM_FORWARD, 0, 5120, 2048},
    {"QKV data gradient", GEMM_DATA, 0, 2048, 5120},
    {"QKV weight gradient", GEMM_WEIGHT, 5120, 2048, 0},
    {"output forward", GEMM_FORWARD, 0, 2048, 4096},
    {"output data gradient", GEMM_DATA, 0, 4096, 2048},
    {"output weight gradient", GEMM_WEIGHT, 2048, 4096, 0},
    {NULL, 0, 0, 0, 0},
};

/* Rows of expert e, as even_rows() and skewed_rows(). */
static int half_empty_rows(int e)
{
    return e % 2 ? 0 : 4096;
}

static int few_rows(int e)
{
    (void)e;
    return 256;
}

static int many_rows(int e)
{
    (void)e;
    return 8192;
}

static int all_rows(int e)
{
    (void)e;
    return 32768;
}

static const struct {
    const char *name;
    int n_experts;
    int (*rows)(int e);
    const gemm *gemms;
} cases[] = {
    {"even", 128, even_rows, qwen},
    {"skew", 128, skewed_rows, qwen},
    {"half empty", 128, half_empty_rows, qwen},
    {"256 rows", 128, few_rows, qwen},
    {"32 x 2048", 32, even_rows, deepseek},
    {"8192 rows", 1, many_rows, dense},
    {"32768 rows", 1, all_rows, projections},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

/* Experts without rows, with one, and with rows on either side of every tile's edge. */
static bool odd_shapes(const memory *mem, const variant *v)
{
    static const int counts[] = {0,   1,   63,  64,  65,  0,   0, 127, 128,
                                 129, 255, 256, 257, 300, 640, 7, 0};
    static const gemm small[] = {{"", GEMM_FORWARD, 0, 512, 192}, {"", GEMM_FORWARD, 0, 320, 64},
                                 {"", GEMM_DATA, 0, 512, 192},    {"", GEMM_DATA, 0, 320, 448},
                                 {"", GEMM_WEIGHT, 256, 512, 0},  {"", GEMM_WEIGHT, 192, 320, 0}};
    bool bad = false;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        problem q = {mem->a, mem->b, mem->c, mem->first_row, NULL, 0, 0, small[i]};
        if (!v->run[q.p.kind]) continue;
        set_counts(mem, &q, counts, sizeof counts / sizeof counts[0]);
        double err = check(mem, &q, v);
        printf("%s: kind %d, %d x %d x %d: relative error %g\n", v->name, q.p.kind, q.p.m, q.p.n,
               q.p.k, err);
        bad |= !(err < 5e-3);
    }
    return bad;
}

static void time_case(const memory *mem, int i, const char *only, bool once)
{
    int counts[MAX_EXPERTS];
    for (int e = 0; e < cases[i].n_experts; e++) counts[e] = cases[i].rows(e);
    for (const gemm *p = cases[i].gemms; p->name; p++) {
        problem q = {mem->a, mem->b, mem->c, mem->first_row, NULL, 0, 0, *p};
        set_counts(mem, &q, counts, cases[i].n_experts);
        double k = p->kind == GEMM_WEIGHT ? p->m : p->k, tera = 2e-12 * q.n_rows * p->n * k;
        for (int v = 0; v < N_VARIANTS; v++) {
            if (!variants[v].run[p->kind] || (only && !strstr(variants[v].name, only))) continue;
            if (cases[i].rows == half_empty_rows && variants[v].run[0] == cublas_loop) continue;
            double err = check(mem, &q, &variants[v]);
            if (once) continue;
            double cool = time_ms(variants[v].run[p->kind], &q, 2, 10, 20);
            double hot = time_ms(variants[v].run[p->kind], &q, 150, 64, 0);
            printf("%-10s %-28s %-14s %6.1f TFLOP/s with pauses, %6.1f without; error %.1e\n",
                   cases[i].name, p->name, variants[v].name, tera / cool * 1e3, tera / hot * 1e3,
                   err);
        }
    }
}

int main(int argc, char **argv)
{
    const size_t n = (size_t)8192 * 151936; /* elements of the largest operand */
    const char *only = argc > 1 ? argv[1] : NULL;
    const int one = argc > 2 ? atoi(argv[2]) : -1;
    bool bad = false;
    memory mem;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaMalloc(&mem.a, n * 2));
    CHECK(cudaMalloc(&mem.b, n * 2));
    CHECK(cudaMalloc(&mem.c, n * 4 + 4096));
    CHECK(cudaMalloc(&mem.first_row, MAX_EXPERTS * 4 + 4));
    CHECK(cudaMalloc(&mem.err, 3 * sizeof(double)));
    fill_random<<<1056, 256>>>(mem.a, n, 1);
    fill_random<<<1056, 256>>>(mem.b, n, 2);
    CHECK(cudaDeviceSynchronize());
    if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS) return 3;
    for (int v = 0; v < N_VARIANTS; v++)
        if (variants[v].run[GEMM_FORWARD] != cublas_loop &&
            (!only || strstr(variants[v].name, only)))
            bad |= odd_shapes(&mem, &variants[v]);
    printf("odd shapes: %s\n", bad ? "WRONG" : "all agree with the plain kernel");
    for (int i = 0; i < N_CASES; i++)
        if (one < 0 || one == i) time_case(&mem, i, only, argc > 3);
    return bad;
}
