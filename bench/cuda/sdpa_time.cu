/* sdpa_time.cu - what determinism costs in cuDNN's causal attention: time and workspace of forward,
 * backward and deterministic backward, and whether two runs give the same bits. */
#include <cuda_bf16.h>
#include "sdpa.h"

typedef __nv_bfloat16 bf16;

static cudnnHandle_t handle;

typedef struct {
    node plan, pack;
} call;

static void execute(void *c, cudaStream_t s)
{
    (void)s;
    CHECK_DNN(cudnnBackendExecute(handle, ((call *)c)->plan, ((call *)c)->pack));
}

__global__ void fill_random(bf16 *x, size_t n, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u + seed;
        h = (h ^ (h >> 15)) * 0x2c1b3c6du;
        h = (h ^ (h >> 12)) * 0x297a2d39u;
        h ^= h >> 15;
        x[i] = __float2bfloat16(((float)(h & 0xffff) + (float)(h >> 16)) / 65536.0f * 2.4f - 2.4f);
    }
}

/* One block a query row: the row of O, by the definition, against what was computed. */
__global__ void plain_row(const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *o, sdpa_shape z,
                          int64_t row, double *err)
{
    __shared__ float out[128], sum;
    const int64_t b = blockIdx.y, h = blockIdx.x, hk = h / (z.h / z.h_kv);
    const bf16 *qr = q + ((b * z.s + row) * z.h + h) * z.d;
    out[threadIdx.x] = 0;
    if (!threadIdx.x) sum = 0;
    __syncthreads();
    for (int64_t j = threadIdx.x; j <= row; j += blockDim.x) {
        const bf16 *kr = k + ((b * z.s + j) * z.h_kv + hk) * z.d;
        const bf16 *vr = v + ((b * z.s + j) * z.h_kv + hk) * z.d_v;
        float s = 0;
        for (int i = 0; i < z.d; i++) s += __bfloat162float(qr[i]) * __bfloat162float(kr[i]);
        float p = expf(s * rsqrtf((float)z.d) - 30.0f); /* scores here stay below 60 */
        atomicAdd(&sum, p);
        for (int i = 0; i < z.d_v; i++) atomicAdd(&out[i], p * __bfloat162float(vr[i]));
    }
    __syncthreads();
    double want = out[threadIdx.x] / sum;
    double got = __bfloat162float(o[((b * z.s + row) * z.h + h) * z.d_v + threadIdx.x]);
    atomicAdd(err, (want - got) * (want - got));
    atomicAdd(err + 1, want * want);
}

/* How many elements differ, and the squares of difference and value. */
__global__ void compare(const bf16 *x, const bf16 *y, size_t n, double *out)
{
    double different = 0, d2 = 0, x2 = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        double a = __bfloat162float(x[i]), b = __bfloat162float(y[i]);
        different += a != b;
        d2 += (a - b) * (a - b);
        x2 += a * a;
    }
    atomicAdd(out, different);
    atomicAdd(out + 1, d2);
    atomicAdd(out + 2, x2);
}

typedef struct {
    sdpa_shape z;
    size_t n_q, n_k, n_v; /* elements of Q, K, V */
    sdpa_memory m;
    bf16 *kept[3]; /* gradients of an earlier run */
    double *sums;
} problem;

static void *take(size_t n_bytes)
{
    void *p;
    CHECK(cudaMalloc(&p, n_bytes));
    return p;
}

static void setup(problem *p, sdpa_shape z)
{
    memset(p, 0, sizeof *p);
    p->z = z;
    p->n_q = (size_t)(z.b * z.s * z.h * z.d);
    p->n_k = (size_t)(z.b * z.s * z.h_kv * z.d);
    p->n_v = (size_t)(z.b * z.s * z.h_kv * z.d_v);
    static const int wide[] = {SDPA_Q, SDPA_O, SDPA_DO, SDPA_DQ},
                     narrow[] = {SDPA_K, SDPA_V, SDPA_DK, SDPA_DV};
    for (int i = 0; i < 4; i++) {
        p->m.at[wide[i]] = take(p->n_q * 2);
        p->m.at[narrow[i]] = take(p->n_k * 2);
        fill_random<<<1056, 256>>>((bf16 *)p->m.at[wide[i]], p->n_q, 77u * (uint32_t)i);
        fill_random<<<1056, 256>>>((bf16 *)p->m.at[narrow[i]], p->n_k, 99u * (uint32_t)i + 5);
    }
    p->m.at[SDPA_STATS] = take((size_t)(z.b * z.s * z.h) * 4);
    p->m.at[SDPA_DO_O] = take((size_t)(z.b * z.s * z.h) * 4);
    p->m.at[SDPA_DQ_SUM] = take(p->n_q * 4);
    p->kept[0] = (bf16 *)take(p->n_q * 2);
    p->kept[1] = (bf16 *)take(p->n_k * 2);
    p->kept[2] = (bf16 *)take(p->n_v * 2);
    p->sums = (double *)take(32);
    CHECK(cudaDeviceSynchronize());
}

static void release(problem *p)
{
    for (int i = 1; i < SDPA_IDS; i++)
        if (i != SDPA_SCALE && i != SDPA_MASKED && i != SDPA_ONE) CHECK(cudaFree(p->m.at[i]));
    for (int i = 0; i < 3; i++) CHECK(cudaFree(p->kept[i]));
    CHECK(cudaFree(p->sums));
}

static const int gradients[] = {SDPA_DQ, SDPA_DK, SDPA_DV};

static size_t gradient_elements(const problem *p, int i)
{
    return i == 0 ? p->n_q : i == 1 ? p->n_k : p->n_v;
}

static void keep(problem *p)
{
    for (int i = 0; i < 3; i++)
        CHECK(cudaMemcpy(p->kept[i], p->m.at[gradients[i]], gradient_elements(p, i) * 2,
                         cudaMemcpyDeviceToDevice));
}

static void print_difference(problem *p, const char *what)
{
    static const char *names[] = {"dQ", "dK", "dV"};
    printf("    %s:", what);
    for (int i = 0; i < 3; i++) {
        double s[3];
        size_t n = gradient_elements(p, i);
        CHECK(cudaMemset(p->sums, 0, sizeof s));
        compare<<<264, 256>>>((bf16 *)p->m.at[gradients[i]], p->kept[i], n, p->sums);
        CHECK(cudaMemcpy(s, p->sums, sizeof s, cudaMemcpyDeviceToHost));
        printf(" %s %.2f %% of elements, norm %.1e;", names[i], 100 * s[0] / (double)n,
               sqrt(s[1] / s[2]));
    }
    printf("\n");
}

static void check_rows(problem *p)
{
    double s[2];
    CHECK(cudaMemset(p->sums, 0, sizeof s));
    for (int64_t row = 0; row < p->z.s; row += p->z.s / 4 - 1)
        plain_row<<<dim3((unsigned)p->z.h, (unsigned)p->z.b), 128>>>(
            (bf16 *)p->m.at[SDPA_Q], (bf16 *)p->m.at[SDPA_K], (bf16 *)p->m.at[SDPA_V],
            (bf16 *)p->m.at[SDPA_O], p->z, row, p->sums);
    CHECK(cudaMemcpy(s, p->sums, sizeof s, cudaMemcpyDeviceToHost));
    printf("    O against the definition, 5 rows of every head: relative error %.1e\n",
           sqrt(s[0] / s[1]));
}

static void run(problem *p, int kind)
{
    static const char *names[] = {"forward", "backward", "backward, deterministic"};
    sdpa_graph g;
    probe_plan plan;
    const sdpa_shape z = p->z;
    graph_init(&g, z, (sdpa_pass)kind);
    if (!probe_plan_make(&g, handle, NULL, &plan)) {
        printf("%lldx%lld %-24s no plan\n", (long long)z.b, (long long)z.s, names[kind]);
        return;
    }
    size_t free_bytes, all;
    CHECK(cudaMemGetInfo(&free_bytes, &all));
    printf("%lldx%lld %-24s workspace %9.1f MiB, planned in %.2f s, configuration %d of %d\n",
           (long long)z.b, (long long)z.s, names[kind], (double)plan.workspace_bytes / MIB,
           plan.seconds, plan.used, plan.n_configs);
    if ((size_t)plan.workspace_bytes + (1 << 28) > free_bytes) {
        printf("    does not fit: %.1f GiB free\n", (double)free_bytes / GIB);
        return;
    }
    void *workspace = take((size_t)plan.workspace_bytes + 16);
    sdpa_memory m = p->m;
    for (int i = SDPA_DO; i < SDPA_IDS && !kind; i++) m.at[i] = NULL;
    if (kind == 2) m.at[SDPA_DQ_SUM] = NULL;
    call c = {plan.plan, sdpa_bind(&m, z.d, kind > 0, workspace)};
    execute(&c, 0);
    CHECK(cudaDeviceSynchronize());
    if (kind == 2) print_difference(p, "against the other backward");
    if (kind) keep(p);
    bool is_long = z.s > 100000; /* seconds each */
    double ms = time_ms(execute, &c, is_long ? 1 : 3, is_long ? 3 : 15, 0);
    double per_pair = kind ? 6.0 * (double)z.d + 4.0 * (double)z.d_v : 2.0 * (double)(z.d + z.d_v);
    double flops = per_pair * (double)(z.b * z.h * z.s * z.s) / 2;
    printf("    %.2f ms, %.0f TFLOP/s\n", ms, flops / ms * 1e-9);
    if (kind)
        print_difference(p, "against its own first run");
    else
        check_rows(p);
    CHECK(cudaFree(workspace));
}

/* sdpa_time [TOKENS]: all shapes, or those of that length. */
int main(int argc, char **argv)
{
    const sdpa_shape shapes[] = {
        shape_of(8, 32, 4, 4096, 128, 128),     shape_of(1, 32, 4, 32768, 128, 128),
        shape_of(4, 128, 128, 4096, 192, 128),  shape_of(1, 32, 4, 65536, 128, 128),
        shape_of(1, 128, 128, 32768, 192, 128), shape_of(1, 32, 4, 131072, 128, 128),
        shape_of(1, 32, 4, 262144, 128, 128),   shape_of(1, 32, 4, 524288, 128, 128)};
    const long only = argc > 1 ? atol(argv[1]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK_DNN(cudnnCreate(&handle));
    printf("cuDNN %zu\n", cudnnGetVersion());
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        problem p;
        if (only && shapes[i].s != only) continue;
        setup(&p, shapes[i]);
        for (int kind = 0; kind < 3; kind++) run(&p, kind);
        release(&p);
    }
    return 0;
}
