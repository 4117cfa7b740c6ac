/* common.h - what the probes share: checked calls, a clock, medians. A probe that fails says where
 * and ends. */
#ifndef BENCH_CUDA_COMMON_H
#define BENCH_CUDA_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cuda_runtime.h>

#define GIB (1024.0 * 1024.0 * 1024.0)
#define MIB (1024.0 * 1024.0)

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cudaGetErrorString(status_));                                                  \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    return x[n / 2];
}

/* Median milliseconds of `n` timed calls after `n_warm` others. With a pause before each call the
 * chip stays below its power limit; without, it settles where the limit holds it. */
static inline double time_ms(void (*call)(void *, cudaStream_t), void *arg, int n_warm, int n,
                             int pause_ms)
{
    cudaEvent_t start, end;
    double ms[64];
    if (n > 64) n = 64;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    for (int i = -n_warm; i < n; i++) {
        float f;
        struct timespec pause = {0, pause_ms * 1000000L};
        if (pause_ms) nanosleep(&pause, NULL);
        CHECK(cudaEventRecord(start, 0));
        call(arg, 0);
        CHECK(cudaEventRecord(end, 0));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        CHECK(cudaEventElapsedTime(&f, start, end));
        if (i >= 0) ms[i] = f;
    }
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    return median(ms, n);
}

#endif
