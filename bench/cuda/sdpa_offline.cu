/* sdpa_offline.cu - can an attention plan be built where there is no GPU?
 *
 *     sdpa_offline save PROPS          with a GPU: writes its properties as cuDNN serialises them
 *     sdpa_offline plan PROPS [PLAN]   anywhere: builds the plans, writes PLAN.0 to PLAN.2
 *     sdpa_offline run PLAN            with a GPU: runs plans that were built elsewhere, beside
 *                                      plans built now, and compares the results bit by bit */
#include <cuda_bf16.h>
#include "sdpa.h"

static const sdpa_shape shape = shape_of(8, 32, 4, 4096, 128, 128);
static const char *names[] = {"forward", "backward", "backward, deterministic"};

static void graph_of(sdpa_graph *g, int kind)
{
    graph_init(g, shape, (sdpa_pass)kind);
}

static const char *plan_name(const char *stem, int kind)
{
    static char name[4096];
    snprintf(name, sizeof name, "%s.%d", stem, kind);
    return name;
}

/* `n` bytes and no more; the caller frees. */
static char *read_file(const char *name, int64_t *n)
{
    FILE *f = fopen(name, "rb");
    if (!f) exit(2);
    char *text = (char *)malloc(1 << 24);
    *n = (int64_t)fread(text, 1, 1 << 24, f);
    fclose(f);
    return text;
}

static void write_json(node n, cudnnBackendAttributeName_t a, const char *name)
{
    int64_t size = 0;
    CHECK_DNN(cudnnBackendGetAttribute(n, a, CUDNN_TYPE_CHAR, 0, &size, NULL));
    char *text = (char *)malloc((size_t)size);
    CHECK_DNN(cudnnBackendGetAttribute(n, a, CUDNN_TYPE_CHAR, size, &size, text));
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(text, 1, (size_t)size, f) != (size_t)size) exit(2);
    fclose(f);
    printf("%s: %lld bytes\n", name, (long long)size);
    free(text);
}

static node from_json(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t a,
                      const char *name, cudnnHandle_t handle)
{
    int64_t n;
    char *text = read_file(name, &n);
    node d = make(type);
    if (handle) set(d, (cudnnBackendAttributeName_t)400, CUDNN_TYPE_HANDLE, 1, &handle);
    set(d, a, CUDNN_TYPE_CHAR, n, text);
    CHECK_DNN(cudnnBackendFinalize(d));
    free(text);
    return d;
}

static int plan_all(const char *props_file, const char *plan_file)
{
    node props = from_json(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                           CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, props_file, NULL);
    int failed = 0;
    for (int i = 0; i < 3; i++) {
        sdpa_graph g;
        probe_plan p;
        graph_of(&g, i);
        bool ok = probe_plan_make(&g, NULL, props, &p);
        printf("%-24s %s: %d configurations, number %d, workspace %.1f MiB, %.2f s\n", names[i],
               ok ? "built" : "NOT built", p.n_configs, p.used, (double)p.workspace_bytes / MIB,
               p.seconds);
        failed |= !ok;
        if (ok && plan_file)
            write_json(p.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                       plan_name(plan_file, i));
    }
    return failed;
}

__global__ void fill_random(__nv_bfloat16 *x, size_t n, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u + seed;
        h = (h ^ (h >> 15)) * 0x2c1b3c6du;
        h = (h ^ (h >> 12)) * 0x297a2d39u;
        x[i] = __float2bfloat16((float)((h ^ (h >> 15)) >> 8) / 8388608.0f - 1.0f);
    }
}

/* Sums over all elements: those that differ, (x - y)^2, y^2. */
__global__ void compare(const __nv_bfloat16 *x, const __nv_bfloat16 *y, size_t n, double *out)
{
    double different = 0, d2 = 0, y2 = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        double a = __bfloat162float(x[i]), b = __bfloat162float(y[i]);
        different += a != b;
        d2 += (a - b) * (a - b);
        y2 += b * b;
    }
    atomicAdd(out, different);
    atomicAdd(out + 1, d2);
    atomicAdd(out + 2, y2);
}

static const int results[3][4] = {
    {SDPA_O}, {SDPA_DQ, SDPA_DK, SDPA_DV}, {SDPA_DQ, SDPA_DK, SDPA_DV}};

static size_t elements(int id)
{
    const bool wide = id == SDPA_Q || id == SDPA_O || id == SDPA_DO || id == SDPA_DQ;
    return (size_t)(shape.b * shape.s * (wide ? shape.h : shape.h_kv) * shape.d);
}

static void execute(cudnnHandle_t handle, node plan, sdpa_memory m, int kind)
{
    int64_t workspace_bytes = 0;
    void *workspace;
    CHECK_DNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, NULL, &workspace_bytes));
    CHECK(cudaMalloc(&workspace, (size_t)workspace_bytes + 16));
    for (int i = SDPA_DO; i < SDPA_IDS && !kind; i++) m.at[i] = NULL;
    if (kind == 2) m.at[SDPA_DQ_SUM] = NULL;
    for (int i = 0; results[kind][i]; i++)
        CHECK(cudaMemset(m.at[results[kind][i]], 0xff, elements(results[kind][i]) * 2));
    CHECK_DNN(cudnnBackendExecute(handle, plan, sdpa_bind(&m, shape.d, kind > 0, workspace)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(workspace));
}

static int run_plan(cudnnHandle_t handle, const char *file, const sdpa_memory *m, int kind)
{
    __nv_bfloat16 *kept[3];
    double *sums, s[3];
    sdpa_graph g;
    probe_plan here;
    int failed = 0;
    CHECK(cudaMalloc(&sums, sizeof s));
    double t = seconds_now();
    node plan = from_json(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                          CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, file, handle);
    printf("%s, built elsewhere: loaded in %.3f s;", names[kind], seconds_now() - t);
    execute(handle, plan, *m, kind);
    for (int i = 0; results[kind][i]; i++) {
        const size_t bytes = elements(results[kind][i]) * 2;
        CHECK(cudaMalloc(&kept[i], bytes));
        CHECK(cudaMemcpy(kept[i], m->at[results[kind][i]], bytes, cudaMemcpyDeviceToDevice));
    }
    graph_of(&g, kind);
    if (!probe_plan_make(&g, handle, NULL, &here)) return 1;
    execute(handle, here.plan, *m, kind);
    for (int i = 0; results[kind][i]; i++) {
        const size_t n = elements(results[kind][i]);
        CHECK(cudaMemset(sums, 0, sizeof s));
        compare<<<264, 256>>>(kept[i], (__nv_bfloat16 *)m->at[results[kind][i]], n, sums);
        CHECK(cudaMemcpy(s, sums, sizeof s, cudaMemcpyDeviceToHost));
        printf(" result %d: %.3f %% of elements differ, norm %.1e;", i, 100 * s[0] / (double)n,
               sqrt(s[1] / s[2]));
        failed |= !(sqrt(s[1] / s[2]) < 1e-3);
        CHECK(cudaFree(kept[i]));
    }
    printf(" %s\n", failed ? "WRONG" : "agrees with the plan built here");
    return failed;
}

static int run_all(const char *stem)
{
    static const int ids[] = {SDPA_Q, SDPA_K, SDPA_V, SDPA_O, SDPA_DO, SDPA_DQ, SDPA_DK, SDPA_DV};
    const size_t rows = (size_t)(shape.b * shape.s * shape.h);
    cudnnHandle_t handle;
    sdpa_memory m = {};
    int failed = 0;
    CHECK_DNN(cudnnCreate(&handle));
    for (int i = 0; i < 8; i++) {
        CHECK(cudaMalloc(&m.at[ids[i]], elements(ids[i]) * 2));
        fill_random<<<1056, 256>>>((__nv_bfloat16 *)m.at[ids[i]], elements(ids[i]),
                                   77u * (uint32_t)i);
    }
    CHECK(cudaMalloc(&m.at[SDPA_STATS], rows * 4));
    CHECK(cudaMalloc(&m.at[SDPA_DO_O], rows * 4));
    CHECK(cudaMalloc(&m.at[SDPA_DQ_SUM], rows * (size_t)shape.d * 4));
    for (int kind = 0; kind < 3; kind++)
        failed |= run_plan(handle, plan_name(stem, kind), &m, kind);
    return failed;
}

int main(int argc, char **argv)
{
    printf("cuDNN %zu\n", cudnnGetVersion());
    if (argc > 2 && !strcmp(argv[1], "save")) {
        write_json(device_properties_of(0), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, argv[2]);
        return 0;
    }
    if (argc > 2 && !strcmp(argv[1], "plan")) return plan_all(argv[2], argc > 3 ? argv[3] : NULL);
    if (argc > 2 && !strcmp(argv[1], "run")) return run_all(argv[2]);
    fprintf(stderr, "usage: sdpa_offline save|plan|run FILE\n");
    return 2;
}
