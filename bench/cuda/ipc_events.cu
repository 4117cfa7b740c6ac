/* ipc_events.cu - order between streams of two processes that share the GPU.
 *
 * An event of one process is waited for by a stream of the other. What that costs is read off the
 * GPU's own clock: the end of the kernel before the event, the start of the kernel after the wait.
 * Beside it the same with two streams of one process, and whether kernels of both run at once. */
#include "pair.h"

enum { N = 40 };

typedef struct {
    unsigned long long end, start; /* ns */
} stamps;

__device__ __forceinline__ unsigned long long clock_ns(void)
{
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

__global__ void busy(unsigned long long ns, unsigned long long *end)
{
    unsigned long long t = clock_ns(), now;
    do now = clock_ns();
    while (now - t < ns);
    if (end) *end = now;
}

__global__ void stamp(unsigned long long *at)
{
    *at = clock_ns();
}

static void print_waits(const char *name, const stamps *device)
{
    static stamps s[N];
    double us[N];
    CHECK(cudaMemcpy(s, device, sizeof s, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) us[i] = ((double)s[i].start - (double)s[i].end) * 1e-3;
    double mid = median(us, N);
    printf("%-44s median %8.1f us, least %8.1f, most %8.1f\n", name, mid, us[0], us[N - 1]);
}

static void one_process(stamps *s)
{
    cudaStream_t a, b;
    cudaEvent_t e;
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreate(&b));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int i = 0; i < N; i++) {
        busy<<<1, 1, 0, a>>>(300000, &s[i].end);
        CHECK(cudaEventRecord(e, a));
        CHECK(cudaStreamWaitEvent(b, e, 0));
        stamp<<<1, 1, 0, b>>>(&s[i].start);
        CHECK(cudaDeviceSynchronize());
    }
    print_waits("event wait, two streams of one process", s);
}

/* The first records, the second waits; the wait is enqueued while the kernel before still runs. */
static void two_processes(pair p, stamps *s)
{
    cudaIpcEventHandle_t h;
    cudaEvent_t e;
    double host[N];
    char c = 0;
    if (!p.second) {
        CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventInterprocess));
        CHECK(cudaIpcGetEventHandle(&h, e));
        pair_send(p, &h, sizeof h);
    } else {
        pair_receive(p, &h, sizeof h);
        CHECK(cudaIpcOpenEventHandle(&e, h));
    }
    for (int i = 0; i < N; i++) {
        pair_meet(p);
        double t = seconds_now();
        if (!p.second) {
            busy<<<1, 1>>>(300000, &s[i].end);
            CHECK(cudaEventRecord(e, 0));
            pair_send(p, &c, 1);
            pair_receive(p, &c, 1);
        } else {
            pair_receive(p, &c, 1);
            CHECK(cudaStreamWaitEvent(0, e, 0));
            stamp<<<1, 1>>>(&s[i].start);
            CHECK(cudaDeviceSynchronize());
            pair_send(p, &c, 1);
        }
        host[i] = (seconds_now() - t) * 1e6;
        CHECK(cudaDeviceSynchronize());
    }
    if (p.second) return;
    print_waits("event wait, two processes", s);
    printf("seen by the host, 300 us of kernel included: %.0f us\n", median(host, N));
}

/* A message back and forth without kernels before it: what a small exchange costs. */
static void round_trips(pair p, stamps *s)
{
    cudaIpcEventHandle_t h, other;
    cudaEvent_t mine, theirs;
    char c = 0;
    CHECK(cudaEventCreateWithFlags(&mine, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetEventHandle(&h, mine));
    pair_send(p, &h, sizeof h);
    pair_receive(p, &other, sizeof other);
    CHECK(cudaIpcOpenEventHandle(&theirs, other));
    pair_meet(p);
    double t = seconds_now();
    for (int i = 0; i < 200; i++) {
        if (i || p.second) {
            pair_receive(p, &c, 1);
            CHECK(cudaStreamWaitEvent(0, theirs, 0));
        }
        stamp<<<1, 1>>>(&s[0].start);
        CHECK(cudaEventRecord(mine, 0));
        pair_send(p, &c, 1);
    }
    if (!p.second) pair_receive(p, &c, 1);
    CHECK(cudaDeviceSynchronize());
    if (!p.second)
        printf("200 kernels there and back through events: %.1f us a round trip\n",
               (seconds_now() - t) * 1e6 / 200);
}

__global__ void wait_for(volatile unsigned *flag, unsigned value, unsigned long long *at)
{
    unsigned long long t = clock_ns();
    while (*flag != value && clock_ns() - t < 100000000ull)
        ;
    *at = *flag == value ? clock_ns() : 0;
}

__global__ void raise_flag(volatile unsigned *flag, unsigned value, unsigned long long *at)
{
    *at = clock_ns();
    __threadfence_system();
    *flag = value;
}

/* A kernel that polls memory until a kernel of the other process has written it. */
static void flags(pair p, stamps *s, unsigned *flag)
{
    for (int i = 0; i < N; i++) {
        pair_meet(p);
        if (!p.second) {
            wait_for<<<1, 1>>>(flag, (unsigned)i + 1, &s[i].start);
        } else {
            usleep(2000);
            raise_flag<<<1, 1>>>(flag, (unsigned)i + 1, &s[i].end);
        }
        CHECK(cudaDeviceSynchronize());
        pair_meet(p);
    }
    if (!p.second) print_waits("polled flag, two processes", s);
}

/* Work that takes as long as it takes: a kernel that reads the clock cannot tell whether it was
 * put aside meanwhile. */
__global__ void work(int n, float *out)
{
    float x = threadIdx.x;
    for (int i = 0; i < n; i++) x = x * 0.999f + 1.0f;
    if (x == -1) *out = x;
}

static void at_once(pair p, float *out)
{
    const int n = 8000000;
    double t[2];
    work<<<1, 32>>>(n, out);
    CHECK(cudaDeviceSynchronize());
    for (int both = 0; both < 2; both++) {
        pair_meet(p);
        t[both] = seconds_now();
        if (!p.second || both) work<<<1, 32>>>(n, out);
        CHECK(cudaDeviceSynchronize());
        t[both] = seconds_now() - t[both];
        pair_meet(p);
    }
    if (!p.second)
        printf("a kernel of one block: alone %.1f ms, beside one of the other process %.1f ms\n",
               t[0] * 1e3, t[1] * 1e3);
}

int main(void)
{
    pair p = pair_start();
    cudaIpcMemHandle_t h;
    void *shared;
    const size_t half = sizeof(stamps) * N;
    if (!p.second) {
        CHECK(cudaMalloc(&shared, 2 << 20));
        CHECK(cudaMemset(shared, 0, 2 << 20));
        CHECK(cudaIpcGetMemHandle(&h, shared));
        pair_send(p, &h, sizeof h);
        busy<<<1, 1>>>(1000, NULL);
        stamp<<<1, 1>>>((unsigned long long *)shared);
        CHECK(cudaDeviceSynchronize());
        one_process((stamps *)shared);
    } else {
        pair_receive(p, &h, sizeof h);
        CHECK(cudaIpcOpenMemHandle(&shared, h, cudaIpcMemLazyEnablePeerAccess));
    }
    pair_meet(p);
    two_processes(p, (stamps *)shared);
    pair_meet(p);
    round_trips(p, (stamps *)shared);
    pair_meet(p);
    at_once(p, (float *)shared);
    flags(p, (stamps *)shared, (unsigned *)((char *)shared + half + 64));
    return pair_end(p);
}
