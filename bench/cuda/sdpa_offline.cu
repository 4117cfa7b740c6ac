/* sdpa_offline.cu - can an attention plan be built where there is no GPU?
 *
 *     sdpa_offline save PROPS          with a GPU: writes its properties as cuDNN serialises them
 *     sdpa_offline plan PROPS [PLAN]   anywhere: builds the plans from them, writes the forward one
 *     sdpa_offline run PLAN            with a GPU: runs the plan that was built elsewhere */
#include "sdpa.h"

static const sdpa_shape shape = {8, 32, 4, 4096, 128, 128};

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
    static const char *names[] = {"forward", "backward", "backward, deterministic"};
    node props = from_json(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                           CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, props_file, NULL);
    int failed = 0;
    for (int i = 0; i < 3; i++) {
        sdpa_graph g;
        sdpa_plan p;
        if (i)
            sdpa_backward(&g, shape, i == 2);
        else
            sdpa_forward(&g, shape);
        bool ok = sdpa_plan_make(&g, NULL, props, &p);
        printf("%-24s %s: %d configurations, number %d, workspace %.1f MiB, %.2f s\n", names[i],
               ok ? "built" : "NOT built", p.n_configs, p.used, (double)p.workspace_bytes / MIB,
               p.seconds);
        failed |= !ok;
        if (ok && !i && plan_file)
            write_json(p.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, plan_file);
    }
    return failed;
}

static int run_plan(const char *plan_file)
{
    cudnnHandle_t handle;
    sdpa_memory m = {};
    int64_t workspace_bytes = 0;
    void *workspace;
    const size_t rows = (size_t)(shape.b * shape.s), q = rows * (size_t)(shape.h * shape.d) * 2;
    CHECK_DNN(cudnnCreate(&handle));
    double t = seconds_now();
    node plan = from_json(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                          CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, plan_file, handle);
    t = seconds_now() - t;
    CHECK_DNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, NULL, &workspace_bytes));
    const int ids[] = {ID_Q, ID_K, ID_V, ID_O, ID_STATS};
    for (int i = 0; i < 5; i++) {
        CHECK(cudaMalloc(&m.at[ids[i]], q));
        CHECK(cudaMemset(m.at[ids[i]], 0, q));
    }
    CHECK(cudaMalloc(&workspace, (size_t)workspace_bytes + 16));
    CHECK_DNN(cudnnBackendExecute(handle, plan, sdpa_bind(&m, shape.d, false, workspace)));
    CHECK(cudaDeviceSynchronize());
    float stat; /* of the last row: log of its 4096 keys, all scores being 0 */
    CHECK(cudaMemcpy(&stat, (float *)m.at[ID_STATS] + rows * (size_t)shape.h - 1, 4,
                     cudaMemcpyDeviceToHost));
    printf("a plan built elsewhere: loaded in %.3f s, ran; log(4096) = %.5f\n", t, (double)stat);
    return fabs((double)stat - log(4096)) > 1e-3;
}

int main(int argc, char **argv)
{
    printf("cuDNN %zu\n", cudnnGetVersion());
    if (argc > 2 && !strcmp(argv[1], "save")) {
        write_json(device_properties_of(0), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, argv[2]);
        return 0;
    }
    if (argc > 2 && !strcmp(argv[1], "plan")) return plan_all(argv[2], argc > 3 ? argv[3] : NULL);
    if (argc > 2 && !strcmp(argv[1], "run")) return run_plan(argv[2]);
    fprintf(stderr, "usage: sdpa_offline save|plan|run FILE\n");
    return 2;
}
