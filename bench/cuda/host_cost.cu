/* host_cost.cu - what a launch costs the host, call by call, and what a graph of them saves.
 *
 * Each kind of call is made 200 times on one stream, small enough that the GPU keeps up; then the
 * same 200 are captured and launched as one graph. A kernel row must be capturable: a call that is
 * not shows itself here. */
#include <cublasLt.h>
#include "sdpa.h"
#include "backend/cuda/kernels/tensor_map.cuh"

enum { N = 200 };

__global__ void small(float *x)
{
    x[threadIdx.x] += 1;
}

typedef struct {
    cudaStream_t stream, other;
    cudaEvent_t event;
    char *memory;
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t gemm;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulAlgo_t algo;
    cudnnHandle_t dnn;
    node plan[2], pack[2];
} state;

static void kernel(state *s)
{
    small<<<1, 32, 0, s->stream>>>((float *)s->memory);
}

static void event_pair(state *s)
{
    CHECK(cudaEventRecord(s->event, s->stream));
    CHECK(cudaStreamWaitEvent(s->other, s->event, 0));
    CHECK(cudaEventRecord(s->event, s->other));
    CHECK(cudaStreamWaitEvent(s->stream, s->event, 0));
}

static void copy(state *s)
{
    CHECK(cudaMemcpyAsync(s->memory, s->memory + 65536, 4096, cudaMemcpyDeviceToDevice, s->stream));
}

static void fill(state *s)
{
    CHECK(cudaMemsetAsync(s->memory, 0, 4096, s->stream));
}

static void gemm(state *s)
{
    const float one = 1, zero = 0;
    char *m = s->memory;
    if (cublasLtMatmul(s->lt, s->gemm, &one, m, s->layout, m + (1 << 20), s->layout, &zero,
                       m + (2 << 20), s->layout, m + (2 << 20), s->layout, &s->algo, m + (4 << 20),
                       32 << 20, s->stream))
        exit(3);
}

static void attention(state *s)
{
    CHECK_DNN(cudnnBackendExecute(s->dnn, s->plan[0], s->pack[0]));
}

static void attention_backward(state *s)
{
    CHECK_DNN(cudnnBackendExecute(s->dnn, s->plan[1], s->pack[1]));
}

static void encode_map(state *s)
{
    tensor_shape t = {2, {512, 512}, {1, 512}, {64, 64}};
    CUtensorMap map;
    if (!tensor_map(&map, s->memory, t)) exit(3);
}

static void prepare(state *s)
{
    const uint64_t n = 512;
    const size_t workspace = 32 << 20;
    const sdpa_shape z = shape_of(1, 32, 4, 256, 128, 128);
    const size_t piece = (size_t)(z.s * z.h * z.d) * 4;
    cublasLtMatmulPreference_t pref;
    cublasLtMatmulHeuristicResult_t r;
    int found = 0;
    CHECK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&s->other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&s->memory, 1 << 30));
    CHECK(cudaMemset(s->memory, 0, 1 << 30));
    if (cublasLtCreate(&s->lt)) exit(3);
    cublasLtMatmulDescCreate(&s->gemm, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&s->layout, CUDA_R_16BF, n, n, (int64_t)n);
    cublasLtMatmulPreferenceCreate(&pref);
    cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    if (cublasLtMatmulAlgoGetHeuristic(s->lt, s->gemm, s->layout, s->layout, s->layout, s->layout,
                                       pref, 1, &r, &found) ||
        !found)
        exit(3);
    s->algo = r.algo;
    CHECK_DNN(cudnnCreate(&s->dnn));
    CHECK_DNN(cudnnSetStream(s->dnn, s->stream));
    for (int backward = 0; backward < 2; backward++) {
        sdpa_graph g;
        probe_plan p;
        static sdpa_memory m[2];
        graph_init(&g, z, backward ? SDPA_BACKWARD : SDPA_FORWARD);
        if (!probe_plan_make(&g, s->dnn, NULL, &p)) exit(3);
        for (int i = 1; i < (backward ? SDPA_IDS : SDPA_DO); i++)
            m[backward].at[i] = s->memory + (size_t)i * piece;
        s->plan[backward] = p.plan;
        s->pack[backward] =
            sdpa_bind(&m[backward], z.d, backward, s->memory + (size_t)SDPA_IDS * piece);
    }
}

static const struct {
    const char *name;
    void (*call)(state *);
    int captured;
} calls[] = {
    {"kernel", kernel, 1},
    {"event record and wait, twice", event_pair, 1},
    {"copy of 4 KiB", copy, 1},
    {"fill of 4 KiB", fill, 1},
    {"cublasLtMatmul 512^3", gemm, 1},
    {"attention forward 1x256", attention, 1},
    {"attention backward 1x256", attention_backward, 1},
    {"cuTensorMapEncodeTiled", encode_map, 0},
};

static void graph(state *s, int i)
{
    cudaGraph_t g;
    cudaGraphExec_t e;
    size_t nodes = 0;
    double host[9], whole[9];
    CHECK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
    for (int k = 0; k < N; k++) calls[i].call(s);
    CHECK(cudaStreamEndCapture(s->stream, &g));
    CHECK(cudaGraphGetNodes(g, NULL, &nodes));
    CHECK(cudaGraphInstantiate(&e, g, 0));
    for (int k = 0; k < 9; k++) {
        double t = seconds_now();
        CHECK(cudaGraphLaunch(e, s->stream));
        host[k] = (seconds_now() - t) * 1e6;
        CHECK(cudaStreamSynchronize(s->stream));
        whole[k] = (seconds_now() - t) * 1e6 / N;
    }
    printf("; as a graph of %zu nodes: launch %.0f us, whole %.2f us a call", nodes,
           median(host, 9), median(whole, 9));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
}

int main(void)
{
    state s;
    setvbuf(stdout, NULL, _IOLBF, 0);
    prepare(&s);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        double host[9], whole[9];
        for (int r = 0; r < 9; r++) {
            double t = seconds_now();
            for (int k = 0; k < N; k++) calls[i].call(&s);
            host[r] = (seconds_now() - t) * 1e6 / N;
            CHECK(cudaDeviceSynchronize());
            whole[r] = (seconds_now() - t) * 1e6 / N;
        }
        printf("%-30s host %6.2f us a call, whole %6.2f", calls[i].name, median(host, 9),
               median(whole, 9));
        if (calls[i].captured) graph(&s, (int)i);
        printf("\n");
    }
    return 0;
}
