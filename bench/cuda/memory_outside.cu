/* memory_outside.cu - device memory that is taken beside the arena: by the context, by modules, by
 * library handles and plans. Usage: memory_outside [processes]
 *
 * Every process takes the same steps, and waits after each; the first one prints what the driver
 * counts as used on the whole GPU (NVML, which needs no context of its own). */
#include <cublas_v2.h>
#include <cublasLt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sdpa.h"

typedef struct {
    unsigned long long total, free, used;
} nvml_memory;

static int (*memory_info)(void *, nvml_memory *);
static void *nvml_device;
static pthread_barrier_t *everyone;
static int self, n_processes;
static double before;

static void open_nvml(void)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!lib) exit(3);
    int (*init)(void) = (int (*)(void))dlsym(lib, "nvmlInit_v2");
    int (*device)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
    memory_info = (int (*)(void *, nvml_memory *))dlsym(lib, "nvmlDeviceGetMemoryInfo");
    if (!init || !device || !memory_info || init() || device(0, &nvml_device)) exit(3);
}

static void step(const char *name)
{
    nvml_memory m;
    if (strcmp(name, "nothing")) CHECK(cudaDeviceSynchronize());
    pthread_barrier_wait(everyone);
    if (self == 0) {
        if (memory_info(nvml_device, &m)) exit(3);
        double now = (double)m.used / MIB;
        printf("%d processes, %-34s used %9.1f MiB, %+8.1f (%+8.1f each)\n", n_processes, name, now,
               now - before, (now - before) / n_processes);
        before = now;
    }
    pthread_barrier_wait(everyone);
}

__global__ void small(float *x)
{
    x[threadIdx.x] += 1;
}

/* 4 KiB of local memory a thread: reserved for all threads that the chip can hold. */
__global__ void with_stack(int *x)
{
    volatile int a[1024];
    for (int i = 0; i < 1024; i++) a[i] = x[i % 32];
    x[threadIdx.x] = a[x[threadIdx.x] & 1023];
}

static void lt_gemm(void *a, void *b, void *c, void *workspace, size_t workspace_bytes)
{
    const uint64_t n = 8192;
    const float one = 1, zero = 0;
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t l;
    cublasLtMatmulPreference_t p;
    cublasLtMatmulHeuristicResult_t r;
    int found = 0;
    if (cublasLtCreate(&lt)) exit(3);
    step("cublasLtCreate");
    cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&l, CUDA_R_16BF, n, n, (int64_t)n);
    cublasLtMatmulPreferenceCreate(&p);
    cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace_bytes, sizeof workspace_bytes);
    if (cublasLtMatmulAlgoGetHeuristic(lt, d, l, l, l, l, p, 1, &r, &found) || !found) exit(3);
    if (cublasLtMatmul(lt, d, &one, a, l, b, l, &zero, c, l, c, l, &r.algo, workspace,
                       workspace_bytes, 0))
        exit(3);
    step("cublasLtMatmul 8192^3");
}

static void cublas_gemm(void *a, void *b, void *c)
{
    const int n = 8192;
    const float one = 1, zero = 0;
    cublasHandle_t h;
    if (cublasCreate(&h)) exit(3);
    step("cublasCreate");
    if (cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16BF, n, b, CUDA_R_16BF,
                     n, &zero, c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT))
        exit(3);
    step("cublasGemmEx 8192^3");
}

static void attention(char *arena)
{
    const sdpa_shape z = shape_of(1, 32, 4, 4096, 128, 128);
    const size_t piece = (size_t)(z.s * z.h * z.d) * 4;
    cudnnHandle_t h;
    CHECK_DNN(cudnnCreate(&h));
    step("cudnnCreate");
    for (int backward = 0; backward < 2; backward++) {
        sdpa_graph g;
        probe_plan p;
        sdpa_memory m = {};
        graph_init(&g, z, backward ? SDPA_BACKWARD : SDPA_FORWARD);
        if (!probe_plan_make(&g, h, NULL, &p)) exit(3);
        step(backward ? "attention backward planned" : "attention forward planned");
        for (int i = 1; i < (backward ? SDPA_IDS : SDPA_DO); i++)
            m.at[i] = arena + (size_t)i * piece;
        node pack = sdpa_bind(&m, z.d, backward, arena + (size_t)SDPA_IDS * piece);
        CHECK_DNN(cudnnBackendExecute(h, p.plan, pack));
        step(backward ? "attention backward run" : "attention forward run");
    }
}

static void streams(void)
{
    cudaStream_t s;
    cudaEvent_t e;
    for (int i = 0; i < 8; i++) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    step("8 streams");
    for (int i = 0; i < 1000; i++) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    step("1000 events");
}

int main(int argc, char **argv)
{
    const size_t arena_bytes = (size_t)4 << 30;
    char *arena;
    n_processes = argc > 1 ? atoi(argv[1]) : 1;
    everyone = (pthread_barrier_t *)mmap(NULL, sizeof *everyone, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(everyone, &shared, (unsigned)n_processes);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < n_processes; i++)
        if (fork() == 0) {
            self = i;
            break;
        }
    if (self == 0) open_nvml();
    step("nothing");
    CHECK(cudaFree(0));
    step("context");
    CHECK(cudaMalloc(&arena, arena_bytes));
    CHECK(cudaMemset(arena, 0, arena_bytes));
    step("arena of 4096 MiB");
    small<<<1, 32>>>((float *)arena);
    step("first kernel of ours");
    streams();
    lt_gemm(arena, arena + (1 << 28), arena + (2 << 28), arena + ((size_t)3 << 28), 32 << 20);
    cublas_gemm(arena, arena + (1 << 28), arena + (2 << 28));
    attention(arena);
    with_stack<<<1, 32>>>((int *)arena);
    step("kernel with 4 KiB of stack");
    while (self == 0 && wait(NULL) > 0)
        ;
    return 0;
}
