/* grouped_fp8.cu - expert GEMMs in E4M3 with scales a block: checked against a plain kernel, timed
 * beside our BF16 kernel and, for dense GEMMs, cuBLASLt. Needs a Hopper GPU.
 *
 * Usage: grouped_fp8 [part of a variant's name [case, -1 for all]] */
#include <cublasLt.h>
#include <math.h>
#include "common.h"
#include "grouped_problem.cuh"
#include "grouped_fp8.cuh"
#include "quantise_fp8.cuh"

typedef struct {
    bf16 *x, *w;           /* [rows][k], [n_experts][n][k] */
    uint8_t *qx, *qw;      /* the same in E4M3 */
    float *sx, *sw;        /* their scales */
    void *c;               /* BF16 [rows][n] */
    int *first;            /* [n_experts + 1] */
    double *err;           /* [3] */
    int n_rows, n_experts; /* of this problem */
    int n, k;
} memory;

typedef struct {
    const char *name;
    void (*run)(void *memory_, cudaStream_t);
    bool scaled, dense_only, fp8;
} variant;

/* ---- the kernels ---- */

static problem as_problem(const memory *m, bool fp8)
{
    problem q = {};
    q.a = fp8 ? (const bf16 *)m->qx : m->x;
    q.b = fp8 ? (const bf16 *)m->qw : m->w;
    q.c = m->c;
    q.first_row = m->first;
    q.n_experts = m->n_experts;
    q.n_rows = m->n_rows;
    q.p = {"", GEMM_FORWARD, 0, m->n, fp8 ? m->k / 2 : m->k};
    return q;
}

static gemm_args fp8_args_of(const memory *m, CUtensorMap map[3])
{
    const problem q = as_problem(m, true);
    const gemm_args g = {q.first_row, q.c, q.n_experts, q.n_rows, 0, q.p.n, q.p.k};
    if (!make_maps<GEMM_FORWARD, 2>({q.a, q.b, g}, map)) exit(3);
    return g;
}

static void ours_fp8(void *memory_, cudaStream_t stream)
{
    static int n_clusters;
    const memory *m = (const memory *)memory_;
    CUtensorMap map[3];
    const gemm_args g = fp8_args_of(m, map);
    const int blocks = m->k / 128;
    const fp8_scales s = {m->sx, m->sw, m->n_rows, blocks, m->n_rows - 1, blocks, NULL, NULL};
    CHECK((launch_clusters<2>(grouped_fp8<GEMM_FORWARD, OUT_BF16, SCALE_SQUARES, false, 2, 4>,
                              &n_clusters, (int)sizeof(gemm_shared<4>), stream, map[0], map[1],
                              map[2], g, s)));
}

static void ours_whole(void *memory_, cudaStream_t stream)
{
    static int n_clusters;
    CUtensorMap map[3];
    const gemm_args g = fp8_args_of((const memory *)memory_, map);
    CHECK((launch_clusters<2>(grouped_fp8_whole<2, 4>, &n_clusters, (int)sizeof(gemm_shared<4>),
                              stream, map[0], map[1], map[2], g)));
}

static void ours_bf16(void *memory_, cudaStream_t stream)
{
    problem q = as_problem((const memory *)memory_, false);
    ours<GEMM_FORWARD, OUT_BF16, 2, 4>(&q, stream);
}

static void quantise_x(void *memory_, cudaStream_t stream)
{
    const memory *m = (const memory *)memory_;
    const size_t warps =
        (size_t)((m->n_rows + QUANTISE_ROWS - 1) / QUANTISE_ROWS) * (size_t)(m->k / 128);
    const unsigned blocks = (unsigned)((warps + 7) / 8);
    quantise_rows<<<blocks, QUANTISE_THREADS, 0, stream>>>(m->x, m->qx, m->sx, m->n_rows, m->k);
}

static void quantise_w(void *memory_, cudaStream_t stream)
{
    const memory *m = (const memory *)memory_;
    const dim3 blocks((unsigned)m->k / 128, (unsigned)(m->n + 127) / 128, (unsigned)m->n_experts);
    quantise_squares<<<blocks, QUANTISE_THREADS, 0, stream>>>(m->w, m->qw, m->sw, m->n, m->k);
}

/* ---- cuBLASLt, one expert ---- */

#define CHECK_LT(call)                                                                             \
    do {                                                                                           \
        cublasStatus_t status_ = (call);                                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                    \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)status_);           \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static struct {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t algo;
    void *workspace;
    bool usable;
} lt;

static const size_t workspace_bytes = 64 << 20;

static void lt_set(cublasLtMatmulDescAttributes_t a, const void *value, size_t n)
{
    CHECK_LT(cublasLtMatmulDescSetAttribute(lt.d, a, value, n));
}

/* Row-major y[rows][n] is column-major n x rows: weights come first. */
static void lt_prepare(const memory *m)
{
    const cublasOperation_t turned = CUBLAS_OP_T;
    const int32_t squares = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    const int32_t rows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    const uint64_t n = (uint64_t)m->n, k = (uint64_t)m->k, t = (uint64_t)m->n_rows;
    cublasLtMatmulPreference_t pref;
    cublasLtMatmulHeuristicResult_t r;
    int found = 0;
    if (!lt.lt) {
        CHECK_LT(cublasLtCreate(&lt.lt));
        CHECK(cudaMalloc(&lt.workspace, workspace_bytes));
    }
    CHECK_LT(cublasLtMatmulDescCreate(&lt.d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    lt_set(CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    lt_set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &squares, sizeof squares);
    lt_set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &rows, sizeof rows);
    lt_set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &m->sw, sizeof m->sw);
    lt_set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &m->sx, sizeof m->sx);
    CHECK_LT(cublasLtMatrixLayoutCreate(&lt.w, CUDA_R_8F_E4M3, k, n, (int64_t)k));
    CHECK_LT(cublasLtMatrixLayoutCreate(&lt.x, CUDA_R_8F_E4M3, k, t, (int64_t)k));
    CHECK_LT(cublasLtMatrixLayoutCreate(&lt.y, CUDA_R_16BF, n, t, (int64_t)n));
    CHECK_LT(cublasLtMatmulPreferenceCreate(&pref));
    CHECK_LT(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace_bytes, sizeof workspace_bytes));
    cublasStatus_t s =
        cublasLtMatmulAlgoGetHeuristic(lt.lt, lt.d, lt.w, lt.x, lt.y, lt.y, pref, 1, &r, &found);
    lt.usable = s == CUBLAS_STATUS_SUCCESS && found;
    if (!lt.usable) printf("cuBLASLt: status %d, %d algorithms\n", (int)s, found);
    lt.algo = r.algo;
    CHECK_LT(cublasLtMatmulPreferenceDestroy(pref));
}

static void lt_run(void *memory_, cudaStream_t stream)
{
    const memory *m = (const memory *)memory_;
    const float one = 1, zero = 0;
    CHECK_LT(cublasLtMatmul(lt.lt, lt.d, &one, m->qw, lt.w, m->qx, lt.x, &zero, m->c, lt.y, m->c,
                            lt.y, &lt.algo, lt.workspace, workspace_bytes, stream));
}

/* ---- data and plain kernels ---- */

/* Blocks of 128 values, or of 128 rows of them, get magnitudes of their own: 2^-4 to 2^3. */
__global__ void spread(bf16 *x, size_t n, int k, int rows)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        const size_t block = i / k / rows * (k / 128) + i % k / 128;
        x[i] = __float2bfloat16(ldexpf(__bfloat162float(x[i]), (int)(hash(block) % 8) - 4));
    }
}

__device__ float e4m3_value(uint8_t v)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(v, __NV_E4M3)));
}

/* Counts values that are not the nearest E4M3 ones (half a step: 2^-4 of the value, or 2^-10 of the
 * scale), scales that are no powers of two; err[0] and err[1] as in compare(). */
__global__ void check_quantised(memory m, size_t n, bool squares, double *err)
{
    double d2 = 0, x2 = 0, bad = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        const size_t row = i / m.k, block = i % m.k / 128;
        const size_t down = (m.n + 127) / 128;
        const size_t square = (row / m.n * down + row % m.n / 128) * (m.k / 128) + block;
        const float s = squares ? m.sw[square] : m.sx[block * m.n_rows + row];
        const float x = __bfloat162float(squares ? m.w[i] : m.x[i]);
        const float d = e4m3_value(squares ? m.qw[i] : m.qx[i]) * s - x;
        bad += !(fabsf(d) <= fmaxf(fabsf(x) / 16, s / 1024)) || (__float_as_uint(s) & 0x7fffff);
        d2 += (double)d * (double)d;
        x2 += (double)x * (double)x;
    }
    atomicAdd(err, d2);
    atomicAdd(err + 1, x2);
    atomicAdd(err + 2, bad);
}

/* One warp an element, in double. */
__device__ float plain_element(const memory m, bool scaled, size_t row, int n)
{
    int e = 0;
    while ((size_t)m.first[e + 1] <= row) e++;
    const uint8_t *x = m.qx + row * m.k, *w = m.qw + ((size_t)e * m.n + n) * m.k;
    const float *sw = m.sw + ((size_t)e * ((m.n + 127) / 128) + n / 128) * (m.k / 128);
    double sum = 0;
    for (int i = threadIdx.x % 32; i < m.k; i += 32) {
        const float s = scaled ? sw[i / 128] * m.sx[(size_t)(i / 128) * m.n_rows + row] : 1;
        sum += (double)(e4m3_value(x[i]) * e4m3_value(w[i])) * (double)s;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    return (float)sum;
}

/* Every `skip`-th element; err[0] += (c - plain)^2, err[1] += plain^2, err[2] counts NaN. */
__global__ void compare(const memory m, bool scaled, size_t n, size_t skip, double *err)
{
    const size_t warp = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32;
    const size_t warps = (size_t)gridDim.x * blockDim.x / 32;
    for (size_t i = warp * skip; i < n; i += warps * skip) {
        const float want = plain_element(m, scaled, i / m.n, (int)(i % m.n));
        const float got = __bfloat162float(((const bf16 *)m.c)[i]);
        if (threadIdx.x % 32) continue;
        const double d = (double)got - (double)want;
        if (isnan(got)) continue;
        atomicAdd(err, d * d);
        atomicAdd(err + 1, (double)want * (double)want);
    }
}

__global__ void count_nan(const bf16 *c, size_t n, double *err)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        if (isnan(__bfloat162float(c[i]))) atomicAdd(err + 2, 1.0);
}

__global__ void digest(const uint32_t *c, size_t n, unsigned long long *sum)
{
    unsigned long long s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        s += (unsigned long long)hash(i * 4294967296ull + c[i]) << (i % 24);
    atomicAdd(sum, s);
}

/* ---- checks ---- */

static void take_errors(const memory *m, double err[3])
{
    CHECK(cudaMemcpy(err, m->err, 3 * sizeof *err, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(m->err, 0, 3 * sizeof *err));
}

/* Random values of deviation 1, quantised; `spread_too` for checks, since else all scales agree. */
static void fill(memory *m, bool spread_too)
{
    const size_t nx = (size_t)m->n_rows * (size_t)m->k;
    const size_t nw = (size_t)m->n_experts * (size_t)m->n * (size_t)m->k;
    fill_random<<<1056, 256>>>(m->x, nx, 1);
    fill_random<<<1056, 256>>>(m->w, nw, 2);
    if (spread_too) {
        spread<<<1056, 256>>>(m->x, nx, m->k, 1);
        spread<<<1056, 256>>>(m->w, nw, m->k, 128);
    }
    quantise_x(m, 0);
    quantise_w(m, 0);
    CHECK(cudaDeviceSynchronize());
}

static bool check_quantise(memory *m)
{
    bool bad = false;
    for (int squares = 0; squares < 2; squares++) {
        double err[3];
        const size_t rows = (size_t)(squares ? m->n_experts * m->n : m->n_rows);
        check_quantised<<<1056, 256>>>(*m, rows * (size_t)m->k, squares, m->err);
        take_errors(m, err);
        printf("quantised %s: %.0f wrong, relative error %.2e\n", squares ? "squares" : "rows",
               err[2], sqrt(err[0] / err[1]));
        bad |= err[2] > 0;
    }
    return bad;
}

/* Relative error of the norm. Infinite where what lies behind the result was touched, or where a
 * second run gives other bits; no number where an element was not written. */
static double check(const memory *m, const variant *v, size_t most)
{
    const size_t n = (size_t)m->n_rows * (size_t)m->n, bytes = n * 2;
    unsigned long long sum[2];
    unsigned char after[256];
    double err[3];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMemset(m->c, 0xff, bytes));
        CHECK(cudaMemset((char *)m->c + bytes, 0xab, sizeof after));
        v->run((void *)m, 0);
        CHECK(cudaDeviceSynchronize());
        digest<<<1056, 256>>>((const uint32_t *)m->c, bytes / 4, (unsigned long long *)m->err);
        CHECK(cudaMemcpy(&sum[i], m->err, sizeof sum[i], cudaMemcpyDeviceToHost));
        CHECK(cudaMemset(m->err, 0, 3 * sizeof *err));
    }
    compare<<<1056, 256>>>(*m, v->scaled, n, n / most + 1, m->err);
    count_nan<<<1056, 256>>>((const bf16 *)m->c, n, m->err);
    take_errors(m, err);
    CHECK(cudaMemcpy(after, (char *)m->c + bytes, sizeof after, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof after; i++)
        if (after[i] != 0xab) return INFINITY;
    if (sum[0] != sum[1]) return INFINITY;
    if (err[2] > 0) return NAN;
    return sqrt(err[0] / err[1]);
}

static void set_counts(memory *m, const int *counts, int n_experts)
{
    int first[MAX_EXPERTS + 1] = {0};
    for (int e = 0; e < n_experts; e++) first[e + 1] = first[e] + counts[e];
    m->n_experts = n_experts;
    m->n_rows = first[n_experts];
    CHECK(cudaMemcpy(m->first, first, (size_t)(n_experts + 1) * 4, cudaMemcpyHostToDevice));
}

/* ---- the run ---- */

static const variant variants[] = {
    {"FP8", ours_fp8, true, false, true},
    {"FP8 unscaled", ours_whole, false, false, true},
    {"BF16", ours_bf16, true, false, false},
    {"cuBLASLt FP8", lt_run, true, true, true},
};

enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static int all_rows(int e)
{
    (void)e;
    return 32768;
}

static const struct {
    const char *name;
    int n_experts;
    int (*rows)(int e);
    int n[2], k[2];
} cases[] = {
    {"128, even", 128, even_rows, {1536, 2048}, {2048, 768}},
    {"128, skew", 128, skewed_rows, {1536, 2048}, {2048, 768}},
    {"32, even", 32, even_rows, {4096, 7168}, {7168, 2048}},
    {"32, skew", 32, skewed_rows, {4096, 7168}, {7168, 2048}},
    {"dense", 1, all_rows, {5120, 8192}, {2048, 8192}},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };

static bool wanted(const variant *v, const char *only)
{
    return !only || strstr(v->name, only);
}

/* Experts without rows, with one, and with rows on either side of every tile's edge. */
static bool odd_shapes(memory *m, const char *only)
{
    static const int counts[] = {0,   1,   63,  64,  65,  0,   0, 127, 128,
                                 129, 255, 256, 257, 300, 640, 7, 0};
    static const int shapes[][2] = {{512, 384}, {320, 128}, {64, 1024}};
    bool bad = false;
    for (int i = 0; i < 3; i++) {
        m->n = shapes[i][0];
        m->k = shapes[i][1];
        set_counts(m, counts, sizeof counts / sizeof counts[0]);
        fill(m, true);
        bad |= check_quantise(m);
        for (int v = 0; v < N_VARIANTS; v++) {
            if (!variants[v].fp8 || variants[v].dense_only || !wanted(&variants[v], only)) continue;
            double err = check(m, &variants[v], SIZE_MAX);
            printf("%s: N%d K%d: relative error %g\n", variants[v].name, m->n, m->k, err);
            bad |= !(err < 5e-3);
        }
    }
    return bad;
}

static void time_quantise(memory *m)
{
    const double nx = (double)m->n_rows * m->k, nw = (double)m->n_experts * m->n * m->k;
    const double bx = nx * (3 + 4.0 / 128), bw = nw * 3;
    for (int hot = 0; hot < 2; hot++) {
        double x = time_ms(quantise_x, m, hot ? 100 : 2, hot ? 40 : 10, hot ? 0 : 20);
        double w = time_ms(quantise_w, m, hot ? 100 : 2, hot ? 40 : 10, hot ? 0 : 20);
        printf("quantise %s: rows [%d][%d] %.3f ms %.0f GB/s, squares %d x [%d][%d] %.3f ms %.0f "
               "GB/s (read + write)\n",
               hot ? "without pauses" : "with pauses", m->n_rows, m->k, x, bx / x * 1e-6,
               m->n_experts, m->n, m->k, w, bw / w * 1e-6);
    }
}

static void time_case(memory *m, int i, const char *only)
{
    int counts[MAX_EXPERTS];
    for (int e = 0; e < cases[i].n_experts; e++) counts[e] = cases[i].rows(e);
    set_counts(m, counts, cases[i].n_experts);
    for (int j = 0; j < 2; j++) {
        double err[N_VARIANTS] = {0};
        m->n = cases[i].n[j];
        m->k = cases[i].k[j];
        if (cases[i].n_experts == 1) lt_prepare(m);
        for (int check_first = 1; check_first >= 0; check_first--) {
            fill(m, check_first);
            for (int v = 0; v < N_VARIANTS; v++) {
                if (!wanted(&variants[v], only)) continue;
                if (variants[v].dense_only && (cases[i].n_experts > 1 || !lt.usable)) continue;
                if (check_first) {
                    if (variants[v].fp8) err[v] = check(m, &variants[v], 1 << 18);
                    continue;
                }
                const double tera = 2e-12 * m->n_rows * (double)m->n * m->k;
                double cool = time_ms(variants[v].run, m, 2, 10, 20);
                double hot = time_ms(variants[v].run, m, 150, 64, 0);
                printf("%-10s N%d K%d %-14s %6.1f TFLOP/s with pauses, %6.1f without; error %.1e\n",
                       cases[i].name, m->n, m->k, variants[v].name, tera / cool * 1e3,
                       tera / hot * 1e3, err[v]);
            }
        }
        if (i % 2 == 0) time_quantise(m);
    }
}

int main(int argc, char **argv)
{
    const size_t nx = (size_t)262144 * 2048, nw = (size_t)32 * 4096 * 7168;
    const char *only = argc > 1 ? argv[1] : NULL;
    const int one = argc > 2 ? atoi(argv[2]) : -1;
    memory m = {};
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaMalloc(&m.x, nx * 2));
    CHECK(cudaMalloc(&m.w, nw * 2));
    CHECK(cudaMalloc(&m.qx, nx));
    CHECK(cudaMalloc(&m.qw, nw));
    CHECK(cudaMalloc(&m.sx, nx / 128 * 4));
    CHECK(cudaMalloc(&m.sw, nw / 128 * 4));
    CHECK(cudaMalloc(&m.c, nx * 2 + 4096));
    CHECK(cudaMalloc(&m.first, MAX_EXPERTS * 4 + 4));
    CHECK(cudaMalloc(&m.err, 3 * sizeof(double)));
    CHECK(cudaMemset(m.err, 0, 3 * sizeof(double)));
    bool bad = odd_shapes(&m, only);
    printf("odd shapes: %s\n", bad ? "WRONG" : "all agree with the plain kernel");
    for (int i = 0; i < N_CASES; i++)
        if (one < 0 || one == i) time_case(&m, i, only);
    return bad;
}
