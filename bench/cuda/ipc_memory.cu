/* ipc_memory.cu - memory of one process, used by another that shares the GPU: plain allocations,
 * allocations of a stream-ordered pool, and physical memory with a handle (the driver's virtual
 * memory calls). For each: does it open, how long that takes, and at what rate it is copied. */
#include <cuda.h>
#include "pair.h"

static const size_t bytes = (size_t)1 << 30;

__global__ void fill(uint32_t *x, size_t n, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        x[i] = (uint32_t)i * 2654435761u + seed;
}

__global__ void count_wrong(const uint32_t *x, size_t n, uint32_t seed, unsigned *wrong)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        if (x[i] != (uint32_t)i * 2654435761u + seed) atomicAdd(wrong, 1);
}

typedef struct {
    void *from, *to;
} copy;

static void run_copy(void *c, cudaStream_t s)
{
    CHECK(cudaMemcpyAsync(((copy *)c)->to, ((copy *)c)->from, bytes, cudaMemcpyDeviceToDevice, s));
}

/* In the process that opened the memory. */
static void use(const char *name, void *p, uint32_t seed, double open_s)
{
    unsigned *wrong, n = 0;
    copy c = {p, NULL};
    CHECK(cudaMalloc(&wrong, 4));
    CHECK(cudaMemset(wrong, 0, 4));
    CHECK(cudaMalloc(&c.to, bytes));
    count_wrong<<<1056, 256>>>((const uint32_t *)p, bytes / 4, seed, wrong);
    CHECK(cudaMemcpy(&n, wrong, 4, cudaMemcpyDeviceToHost));
    double ms = time_ms(run_copy, &c, 3, 20, 0);
    printf("%-28s opened in %7.0f us, %u words wrong, copied at %5.0f GB/s (read + write)\n", name,
           open_s * 1e6, n, 2e-6 * (double)bytes / ms);
    CHECK(cudaFree(c.to));
    CHECK(cudaFree(wrong));
}

static void fill_memory(void *p, uint32_t seed)
{
    fill<<<1056, 256>>>((uint32_t *)p, bytes / 4, seed);
    CHECK(cudaDeviceSynchronize());
}

static void plain(pair p)
{
    cudaIpcMemHandle_t h;
    void *m;
    if (!p.second) {
        CHECK(cudaMalloc(&m, bytes));
        fill_memory(m, 1);
        CHECK(cudaIpcGetMemHandle(&h, m));
        pair_send(p, &h, sizeof h);
        pair_meet(p);
        CHECK(cudaFree(m));
        return;
    }
    pair_receive(p, &h, sizeof h);
    double t = seconds_now();
    CHECK(cudaIpcOpenMemHandle(&m, h, cudaIpcMemLazyEnablePeerAccess));
    use("cudaMalloc", m, 1, seconds_now() - t);
    void *again = NULL;
    cudaError_t twice = cudaIpcOpenMemHandle(&again, h, cudaIpcMemLazyEnablePeerAccess);
    printf("the same handle opened twice: %s%s\n", cudaGetErrorName(twice),
           again == m ? ", the same address" : "");
    if (twice == cudaSuccess) CHECK(cudaIpcCloseMemHandle(again));
    cudaGetLastError();
    CHECK(cudaIpcCloseMemHandle(m));
    pair_meet(p);
}

/* Many allocations of 2 MiB, one handle each. */
static void many(pair p)
{
    enum { N = 4096 };
    static void *m[N];
    cudaIpcMemHandle_t h;
    int n = 0;
    double t = 0;
    for (int i = 0; i < N; i++) {
        int ok = 1;
        if (!p.second) {
            CHECK(cudaMalloc(&m[i], 2 << 20));
            double t0 = seconds_now();
            CHECK(cudaIpcGetMemHandle(&h, m[i]));
            t += seconds_now() - t0;
            pair_send(p, &h, sizeof h);
            pair_receive(p, &ok, sizeof ok);
        } else {
            pair_receive(p, &h, sizeof h);
            double t0 = seconds_now();
            ok = cudaIpcOpenMemHandle(&m[i], h, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
            t += seconds_now() - t0;
            pair_send(p, &ok, sizeof ok);
        }
        if (!ok) break;
        n++;
    }
    printf("%d handles of 2 MiB: %s %.1f us each\n", n, p.second ? "opening" : "making",
           t * 1e6 / n);
    for (int i = 0; i < n && p.second; i++) CHECK(cudaIpcCloseMemHandle(m[i]));
    pair_meet(p);
    for (int i = 0; i < n && !p.second; i++) CHECK(cudaFree(m[i]));
}

static void pool(pair p)
{
    cudaMemPoolProps props = {};
    cudaMemPoolPtrExportData data;
    cudaMemPool_t q;
    void *m;
    int fd;
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    if (!p.second) {
        cudaIpcMemHandle_t h;
        CHECK(cudaMallocAsync(&m, bytes, 0));
        printf("cudaIpcGetMemHandle of cudaMallocAsync memory: %s\n",
               cudaGetErrorName(cudaIpcGetMemHandle(&h, m)));
        cudaGetLastError();
        CHECK(cudaFreeAsync(m, 0));
        CHECK(cudaMemPoolCreate(&q, &props));
        CHECK(cudaMallocFromPoolAsync(&m, bytes, q, 0));
        fill_memory(m, 2);
        CHECK(cudaMemPoolExportToShareableHandle(&fd, q, cudaMemHandleTypePosixFileDescriptor, 0));
        CHECK(cudaMemPoolExportPointer(&data, m));
        pair_send_file(p, fd);
        pair_send(p, &data, sizeof data);
        pair_meet(p);
        CHECK(cudaFree(m));
        return;
    }
    fd = pair_receive_file(p);
    pair_receive(p, &data, sizeof data);
    double t = seconds_now();
    CHECK(cudaMemPoolImportFromShareableHandle(&q, (void *)(intptr_t)fd,
                                               cudaMemHandleTypePosixFileDescriptor, 0));
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    CHECK(cudaMemPoolSetAccess(q, &access, 1));
    CHECK(cudaMemPoolImportPointer(&m, q, &data));
    use("pool with a file handle", m, 2, seconds_now() - t);
    CHECK(cudaFree(m));
    pair_meet(p);
}

#define DRIVER(call)                                                                               \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_ != CUDA_SUCCESS) {                                                                  \
            fprintf(stderr, "%s: error %d\n", #call, (int)r_);                                     \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

/* Physical memory (ours or the other's) at an address of our own. */
static void *map_handle(CUmemGenericAllocationHandle h)
{
    CUdeviceptr at;
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    DRIVER(cuMemMap(at, bytes, 0, h, 0));
    DRIVER(cuMemSetAccess(at, bytes, &access, 1));
    return (void *)at;
}

static void physical(pair p)
{
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp prop = {};
    size_t grain;
    int fd;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!p.second) {
        DRIVER(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        printf("cuMemCreate: granularity %zu KiB\n", grain / 1024);
        DRIVER(cuMemCreate(&h, bytes, &prop, 0));
        void *m = map_handle(h);
        fill_memory(m, 3);
        DRIVER(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        pair_send_file(p, fd);
        pair_meet(p);
        return;
    }
    fd = pair_receive_file(p);
    double t = seconds_now();
    DRIVER(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    void *m = map_handle(h);
    use("cuMemCreate, file handle", m, 3, seconds_now() - t);
    pair_meet(p);
}

int main(void)
{
    pair p = pair_start();
    CHECK(cudaFree(0));
    if (p.second) {
        void *own;
        CHECK(cudaMalloc(&own, bytes));
        fill_memory(own, 0);
        use("its own memory", own, 0, 0);
        CHECK(cudaFree(own));
    }
    pair_meet(p);
    plain(p);
    many(p);
    pool(p);
    physical(p);
    return pair_end(p);
}
