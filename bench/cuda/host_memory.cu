/* host_memory.cu - pinned memory of the host: how long it takes to get, how fast the host's AdamW
 * works on it, and what copies reach, each way, both ways at once, and beside AdamW.
 *
 * Twice: as the driver gives it, and as pinned.c does (large pages, touched by all
 * threads, registered). AdamW is that of HOST_ADAMW: FP32 masters, moments and gradients, BF16
 * weights, 16 M elements a call, 64 M in all, which no cache holds. */
#include <cuda_runtime.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern "C" {
#include "backend/cuda/device/pinned.h"
#include "backend/cpu/kernels/update.h"
}

static const int64_t GIB = (int64_t)1 << 30, ALL = (int64_t)1 << 26, PIECE = (int64_t)1 << 24;
enum { N_PIECES = 4, BYTES_EACH = 18 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(cudaError_t e, const char *what)
{
    if (!e) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(3);
}

/* ---- AdamW */

/* Arrays one behind the other: masters, first and second moments, gradients, weights. */
static update_arrays arrays_in(unsigned char *at)
{
    float *x = (float *)at;
    update_arrays a;
    a.masters = {DTYPE_F32, x};
    a.first = {DTYPE_F32, x + ALL};
    a.second = {DTYPE_F32, x + 2 * ALL};
    a.gradients = {DTYPE_F32, x + 3 * ALL};
    a.weights = {DTYPE_BF16, x + 4 * ALL};
    return a;
}

static void update_piece(const update_arrays *a, int64_t k)
{
    const update_row row = {.n = ALL, .decays = 1};
    double verdict[VERDICT_COUNT] = {0};
    verdict[VERDICT_OUTCOME] = STEP_TAKEN;
    verdict[VERDICT_SCALE] = verdict[VERDICT_CORRECT1] = verdict[VERDICT_CORRECT2] = 1;
    verdict[VERDICT_LR] = 1e-3;
    adam_numbers numbers = adam_of(0.9, 0.95, 1e-8, false);
    update_arrays x = *a;
    x.masters.at = (float *)a->masters.at + k * PIECE;
    x.first.at = (float *)a->first.at + k * PIECE;
    x.second.at = (float *)a->second.at + k * PIECE;
    x.gradients.at = (float *)a->gradients.at + k * PIECE;
    x.weights.at = (uint16_t *)a->weights.at + k * PIECE;
    update_window of = {k * PIECE, PIECE, k * PIECE};
    update_adamw_apart(&numbers, verdict, {&row, 1}, &x, &of);
}

/* Elements a second, best of three passes. */
static double adam_rate(unsigned char *at, int threads)
{
    update_arrays a = arrays_in(at);
    double best = 0;
    omp_set_num_threads(threads);
    for (int pass = 0; pass < 4; pass++) {
        double t = now();
        for (int k = 0; k < N_PIECES; k++) update_piece(&a, k);
        double rate = (double)ALL / (now() - t);
        if (pass && rate > best) best = rate;
    }
    omp_set_num_threads(omp_get_num_procs());
    return best;
}

/* ---- copies */

typedef struct lanes {
    cudaStream_t up, down;
    unsigned char *device;
} lanes;

/* In pieces of 64 MiB; the two ways use different halves of both memories. */
static void put_copies(const lanes *l, unsigned char *host, int64_t bytes, bool up, bool down)
{
    const int64_t piece = 64 << 20, half = GIB / 2;
    for (int64_t i = 0; i < bytes; i += piece) {
        int64_t at = i % half;
        if (up) cudaMemcpyAsync(l->device + at, host + at, piece, cudaMemcpyDefault, l->up);
        if (down)
            cudaMemcpyAsync(host + half + at, l->device + half + at, piece, cudaMemcpyDefault,
                            l->down);
    }
}

/* Bytes a second, of both ways together. */
static double copy_rate(const lanes *l, unsigned char *host, bool up, bool down)
{
    double best = 0;
    for (int pass = 0; pass < 3; pass++) {
        double t = now();
        put_copies(l, host, 4 * GIB, up, down);
        check(cudaDeviceSynchronize(), "copies");
        double rate = (double)(4 * GIB) * (up + down) / (now() - t);
        if (rate > best) best = rate;
    }
    return best;
}

/* AdamW with copies both ways under way all the time: its rate, and theirs. */
static double adam_beside(const lanes *l, unsigned char *at, unsigned char *host, double *copies)
{
    update_arrays a = arrays_in(at);
    const int64_t bytes = 16 * GIB;
    cudaEvent_t ends[2];
    for (int i = 0; i < 2; i++) cudaEventCreate(&ends[i]);
    double t = now();
    put_copies(l, host, bytes, true, true);
    cudaEventRecord(ends[0], l->up);
    cudaEventRecord(ends[1], l->down);
    int64_t n = 0;
    while (cudaEventQuery(ends[0]) == cudaErrorNotReady) update_piece(&a, n++ % N_PIECES);
    double took = now() - t;
    check(cudaDeviceSynchronize(), "copies");
    *copies = 2.0 * (double)bytes / (now() - t);
    return (double)(n * PIECE) / took;
}

/* ---- both kinds */

static void measure(const char *name, pinned p, double seconds, const lanes *l)
{
    unsigned char *arrays = p.at + GIB;
    double copies = 0;
    printf("%s: %.2f GiB/s to take it\n", name, (double)p.bytes / (double)GIB / seconds);
    for (int n = omp_get_num_procs(); n >= 2; n /= 2)
        printf("  AdamW, %d threads: %.3g elements/s\n", n, adam_rate(arrays, n));
    double up = copy_rate(l, p.at, true, false), down = copy_rate(l, p.at, false, true);
    printf("  copies: up %.1f, down %.1f, both ways at once %.1f GB/s together\n", 1e-9 * up,
           1e-9 * down, 1e-9 * copy_rate(l, p.at, true, true));
    double beside = adam_beside(l, arrays, p.at, &copies);
    printf("  AdamW beside copies both ways: %.3g elements/s, copies %.1f GB/s together\n", beside,
           1e-9 * copies);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int64_t bytes = GIB + ALL * BYTES_EACH + GIB;
    const int64_t large = argc > 1 ? atoll(argv[1]) * GIB : 0;
    lanes l;
    check(cudaStreamCreateWithFlags(&l.up, cudaStreamNonBlocking), "a stream");
    check(cudaStreamCreateWithFlags(&l.down, cudaStreamNonBlocking), "a stream");
    check(cudaMalloc((void **)&l.device, (size_t)GIB), "the GPU's memory");
    pinned p = {NULL, bytes, false};
    double t = now();
    check(cudaHostAlloc((void **)&p.at, (size_t)bytes, cudaHostAllocDefault), "pinned memory");
    memset(p.at, 0, (size_t)bytes);
    measure("by the driver", p, now() - t, &l);
    pinned_give(&p);
    t = now();
    check(pinned_take(&p, bytes), "pinned memory");
    printf("%s\n", p.registered ? "registered" : "not registered");
    measure("large pages, touched by all", p, now() - t, &l);
    pinned_give(&p);
    if (!large) return 0;
    t = now();
    check(pinned_take(&p, large), "pinned memory");
    printf("%lld GiB: %.2f s to take, ", (long long)(large / GIB), now() - t);
    t = now();
    pinned_give(&p);
    printf("%.2f s to give back\n", now() - t);
    return 0;
}
