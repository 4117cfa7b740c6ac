/* lt_determinism.cu - what it costs to forbid cuBLASLt to split the summed dimension (split-K and
 * stream-K reductions): time of the heuristic's first choice with and without, whether results
 * repeat bit by bit, and the largest relative difference between the two. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include "common.h"

typedef struct {
    const char *name;
    int m, n, k; /* C[m][n], k summed */
    int ta, tb;  /* operand stored with the result's dimension contiguous */
    int fp32;    /* all in FP32, else BF16 with results in `out32 ? FP32 : BF16` */
    int out32;
} gemm;

static const gemm gemms[] = {
    {"QKV forward", 32768, 5120, 2048, 0, 0, 0, 0},
    {"QKV weight gradient", 5120, 2048, 32768, 1, 1, 0, 1},
    {"output projection forward", 32768, 2048, 4096, 0, 0, 0, 0},
    {"output projection weight gradient", 2048, 4096, 32768, 1, 1, 0, 1},
    {"QKV forward, 4096 tokens", 4096, 5120, 2048, 0, 0, 0, 0},
    {"QKV weight gradient, 4096 tokens", 5120, 2048, 4096, 1, 1, 0, 1},
    {"router forward, FP32", 32768, 128, 2048, 0, 0, 1, 1},
    {"router weight gradient, FP32", 128, 2048, 32768, 1, 1, 1, 1},
    {"router weight gradient, BF16", 128, 2048, 32768, 1, 1, 0, 1},
    {"latent down-projection weight gradient", 576, 7168, 16384, 1, 1, 0, 1},
};

#define CHECK_LT(call)                                                                             \
    do {                                                                                           \
        cublasStatus_t status_ = (call);                                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                    \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)status_);           \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    void *pa, *pb, *pc, *workspace;
} call;

static const size_t workspace_bytes = 64 << 20;

static void execute(void *call_, cudaStream_t s)
{
    const call *c = (const call *)call_;
    const float one = 1, zero = 0;
    CHECK_LT(cublasLtMatmul(c->lt, c->d, &one, c->pb, c->b, c->pa, c->a, &zero, c->pc, c->c, c->pc,
                            c->c, &c->algo, c->workspace, workspace_bytes, s));
}

__global__ void fill_random(void *x, size_t n, int fp32, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u + seed;
        h = (h ^ (h >> 15)) * 0x2c1b3c6du;
        h = (h ^ (h >> 12)) * 0x297a2d39u;
        float v = (float)((h ^ (h >> 15)) >> 8) / 8388608.0f - 1.0f;
        if (fp32)
            ((float *)x)[i] = v;
        else
            ((__nv_bfloat16 *)x)[i] = __float2bfloat16(v);
    }
}

/* Row-major C[m][n] is column-major n x m: the second operand comes first. */
static void describe(call *c, gemm p)
{
    cudaDataType_t in = p.fp32 ? CUDA_R_32F : CUDA_R_16BF;
    cudaDataType_t out = p.out32 ? CUDA_R_32F : CUDA_R_16BF;
    cublasOperation_t tb = p.tb ? CUBLAS_OP_N : CUBLAS_OP_T, ta = p.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t m = (uint64_t)p.m, n = (uint64_t)p.n, k = (uint64_t)p.k;
    CHECK_LT(cublasLtMatmulDescCreate(&c->d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK_LT(cublasLtMatmulDescSetAttribute(c->d, CUBLASLT_MATMUL_DESC_TRANSA, &tb, sizeof tb));
    CHECK_LT(cublasLtMatmulDescSetAttribute(c->d, CUBLASLT_MATMUL_DESC_TRANSB, &ta, sizeof ta));
    CHECK_LT(
        cublasLtMatrixLayoutCreate(&c->b, in, p.tb ? n : k, p.tb ? k : n, (int64_t)(p.tb ? n : k)));
    CHECK_LT(
        cublasLtMatrixLayoutCreate(&c->a, in, p.ta ? m : k, p.ta ? k : m, (int64_t)(p.ta ? m : k)));
    CHECK_LT(cublasLtMatrixLayoutCreate(&c->c, out, n, m, (int64_t)n));
}

static void choose(call *c, uint32_t reductions)
{
    cublasLtMatmulPreference_t pref;
    cublasLtMatmulHeuristicResult_t r;
    int found = 0;
    CHECK_LT(cublasLtMatmulPreferenceCreate(&pref));
    CHECK_LT(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace_bytes, sizeof workspace_bytes));
    CHECK_LT(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                  &reductions, sizeof reductions));
    CHECK_LT(
        cublasLtMatmulAlgoGetHeuristic(c->lt, c->d, c->b, c->a, c->c, c->c, pref, 1, &r, &found));
    if (!found) exit(3);
    c->algo = r.algo;
    CHECK_LT(cublasLtMatmulPreferenceDestroy(pref));
}

static int attribute(const call *c, cublasLtMatmulAlgoConfigAttributes_t a)
{
    int32_t v = 0;
    size_t n;
    CHECK_LT(cublasLtMatmulAlgoConfigGetAttribute(&c->algo, a, &v, sizeof v, &n));
    return v;
}

/* Runs that give other bits than the first. */
static int changes(call *c, size_t n_bytes, char *first, char *other)
{
    int n = 0;
    for (int i = 0; i < 5; i++) {
        CHECK(cudaMemset(c->pc, 0xff, n_bytes));
        execute(c, 0);
        CHECK(cudaMemcpy(i ? other : first, c->pc, n_bytes, cudaMemcpyDeviceToHost));
        n += i && memcmp(first, other, n_bytes) != 0;
    }
    return n;
}

int main(void)
{
    call c = {};
    const size_t most = (size_t)1 << 30;
    char *first = (char *)malloc(most), *other = (char *)malloc(most);
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaMalloc(&c.pa, most));
    CHECK(cudaMalloc(&c.pb, most));
    CHECK(cudaMalloc(&c.pc, most));
    CHECK(cudaMalloc(&c.workspace, workspace_bytes));
    CHECK_LT(cublasLtCreate(&c.lt));
    printf("cuBLASLt %zu\n", cublasLtGetVersion());
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++) {
        const gemm p = gemms[i];
        const double tera = 2e-12 * p.m * (double)p.n * p.k;
        describe(&c, p);
        fill_random<<<1056, 256>>>(c.pa, (size_t)p.m * (size_t)p.k, p.fp32, 1);
        fill_random<<<1056, 256>>>(c.pb, (size_t)p.n * (size_t)p.k, p.fp32, 2);
        for (int forbidden = 0; forbidden < 2; forbidden++) {
            choose(&c, forbidden ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_MASK);
            int n = changes(&c, (size_t)p.m * (size_t)p.n * (p.out32 ? 4 : 2), first, other);
            double ms = time_ms(execute, &c, 5, 30, 5);
            printf(
                "%-40s %-17s split %2d, scheme %d: %7.3f ms %6.1f TFLOP/s, %d of 4 runs differ\n",
                p.name, forbidden ? "split-K forbidden" : "free choice",
                attribute(&c, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                attribute(&c, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), ms, tera / ms * 1e3, n);
        }
    }
    return 0;
}
