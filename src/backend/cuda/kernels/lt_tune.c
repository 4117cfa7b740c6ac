/* lt_tune.c - which of the heuristic's algorithms is fastest here.
 *
 * T1  A GEMM finds its operands as it does in a step: written by something else a while ago. So
 *     before each timed call 256 MiB are filled, five times the L2 cache, which also lets the host
 *     run ahead of calls that are shorter than its own.
 * T2  A step is held at the GPU's power limit, where a GEMM that draws more takes the clock down
 *     for all. Taking turns call by call, 7 % were gained for a head that gained 2 % in its step,
 *     and the step nothing: all algorithms ran at the clock of their mean. So each runs by itself
 *     for WINDOW, without pauses, until the clock has settled where the limit holds it; its time is
 *     then its energy. The first half does not count, of the second the median does; the first
 *     algorithm runs once more before all, so that none starts from a cool chip.
 * T3  Operands are random numbers: what zeros take says nothing, since power binds. Scales and
 *     factors are 1.
 * T4  What wins gives the same bits twice, or the next one is taken. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "backend/cuda/kernels/lt_plan.h"
#include "op/quant.h"

static const double window = 0.2; /* seconds of one algorithm's calls */
static const int64_t FLUSH = (int64_t)256 << 20;
enum { CALLS_LEAST = 8, CALLS_MOST = 128, PIECE = 1 << 22 };

/* Memory of one GEMM. */
typedef struct bench_top {
    char *all;
    void *a, *b, *c, *workspace, *flush, *a_scales, *b_scales, *factor;
    unsigned long long *sum;
    int64_t a_bytes, b_bytes, c_bytes, scale_bytes[2];
    cudaStream_t stream;
    cudaEvent_t before[CALLS_MOST], behind[CALLS_MOST];
} bench_top;

/* ---- memory */

static int64_t room_for(int64_t bytes)
{
    return (bytes + LT_ALIGN - 1) / LT_ALIGN * LT_ALIGN;
}

/* Bytes of A's scales (0) or B's (1), one at least. */
static int64_t scale_bytes_of(const lt_shape *s, int side)
{
    static const quant_form forms[LT_SCALINGS] = {[LT_SQUARES] = QUANT_BLOCK,
                                                  [LT_ROWS] = QUANT_BLOCK,
                                                  [LT_MX] = QUANT_MX,
                                                  [LT_NV] = QUANT_NV};
    const quant_form form = forms[s->scaling];
    const quant_shape z = {form, side && s->scaling == LT_SQUARES, side ? s->n : s->m, s->k};
    return form ? dtype_bytes(quant_info_of(form).scale, quant_scales(z)) : 4;
}

static cudaError_t take(bench_top *t, const lt_shape *s)
{
    t->a_bytes = dtype_bytes(s->in, s->m * s->k);
    t->b_bytes = dtype_bytes(s->scaling ? s->in_b : s->in, s->n * s->k);
    t->c_bytes = dtype_bytes(s->out, s->m * s->n);
    for (int i = 0; i < 2; i++) t->scale_bytes[i] = scale_bytes_of(s, i);
    const int64_t rooms[] = {t->a_bytes, t->b_bytes,        t->c_bytes,        LT_WORKSPACE, FLUSH,
                             LT_ALIGN,   t->scale_bytes[0], t->scale_bytes[1], LT_ALIGN};
    void **const places[] = {&t->a,         &t->b,        &t->c,
                             &t->workspace, &t->flush,    (void **)&t->sum,
                             &t->a_scales,  &t->b_scales, &t->factor};
    enum { PLACES = sizeof rooms / sizeof rooms[0] };
    int64_t bytes = 0;
    for (int i = 0; i < PLACES; i++) bytes += room_for(rooms[i]);
    cudaError_t e = cudaMalloc((void **)&t->all, (size_t)bytes);
    char *at = t->all;
    for (int i = 0; i < PLACES; at += room_for(rooms[i]), i++) *places[i] = at;
    if (!e) e = cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking);
    for (int i = 0; i < CALLS_MOST && !e; i++) e = cudaEventCreate(&t->before[i]);
    for (int i = 0; i < CALLS_MOST && !e; i++) e = cudaEventCreate(&t->behind[i]);
    return e;
}

static void give_back(bench_top *t)
{
    if (t->stream) cudaStreamSynchronize(t->stream);
    for (int i = 0; i < CALLS_MOST; i++) {
        if (t->before[i]) cudaEventDestroy(t->before[i]);
        if (t->behind[i]) cudaEventDestroy(t->behind[i]);
    }
    if (t->stream) cudaStreamDestroy(t->stream);
    cudaFree(t->all);
}

/* T3: numbers between -1 and 1, the same in every process. */
static void random_numbers(unsigned char *piece, int64_t bytes, dtype type)
{
    uint32_t seed = 12345;
    const int64_t size = dtype_bytes(type, 1);
    for (int64_t i = 0; i < bytes / size; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float x = (float)(int32_t)seed * 0x1p-31f;
        const uint16_t narrow = bf16_of_float(x);
        uint8_t code = size == 1 ? narrow_of_float(narrow_format_of(type), x) : 0;
        if (type == DTYPE_FP4) code = (uint8_t)(code | (seed >> 8 & 0xf0)); /* any other beside */
        const void *from = size == 1 ? (const void *)&code : size == 2 ? (const void *)&narrow : &x;
        memcpy(piece + i * size, from, (size_t)size);
    }
}

static void ones(unsigned char *piece, int64_t bytes, lt_scaling scaling)
{
    const float one = 1;
    const uint8_t e4m3 = narrow_of_float(narrow_format_of(DTYPE_E4M3), 1);
    if (scaling == LT_MX || scaling == LT_NV)
        memset(piece, scaling == LT_MX ? e8m0_of_power(1) : e4m3, (size_t)bytes);
    else
        for (int64_t i = 0; i + 4 <= bytes; i += 4) memcpy(piece + i, &one, sizeof one);
}

/* The piece, and then twice as much each time. */
static cudaError_t fill(const bench_top *t, void *to, int64_t bytes, const unsigned char *piece)
{
    int64_t done = bytes < PIECE ? bytes : PIECE;
    cudaError_t e = cudaMemcpyAsync(to, piece, (size_t)done, cudaMemcpyDefault, t->stream);
    for (int64_t n; done < bytes && !e; done += n) {
        n = bytes - done < done ? bytes - done : done;
        e = cudaMemcpyAsync((char *)to + done, to, (size_t)n, cudaMemcpyDefault, t->stream);
    }
    return e;
}

static cudaError_t fill_operands(const bench_top *t, const lt_shape *s)
{
    unsigned char *pieces = malloc(3 * PIECE);
    if (!pieces) return cudaErrorMemoryAllocation;
    random_numbers(pieces, PIECE, s->in);
    random_numbers(pieces + PIECE, PIECE, s->scaling ? s->in_b : s->in);
    ones(pieces + 2 * PIECE, PIECE, s->scaling);
    cudaError_t e = fill(t, t->a, t->a_bytes, pieces);
    if (!e) e = fill(t, t->b, t->b_bytes, pieces + PIECE);
    if (!e) e = fill(t, t->a_scales, t->scale_bytes[0], pieces + 2 * PIECE);
    if (!e) e = fill(t, t->b_scales, t->scale_bytes[1], pieces + 2 * PIECE);
    if (!e) e = cudaMemsetAsync(t->c, 0, (size_t)t->c_bytes, t->stream);
    if (!e) e = cudaStreamSynchronize(t->stream);
    ones(pieces, LT_ALIGN, LT_FACTORS);
    if (!e) e = fill(t, t->factor, LT_ALIGN, pieces);
    if (!e) e = cudaStreamSynchronize(t->stream);
    free(pieces);
    return e;
}

/* ---- times */

static bool put(bench_top *t, lt_plan *p, const cublasLtMatmulAlgo_t *algo)
{
    p->algo = *algo;
    return lt_run(p, t->a, t->b, t->c, t->workspace, t->stream);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seconds of n calls, the median of the second half (T1, T2). Negative: they could not be run. */
static double run_calls(bench_top *t, lt_plan *p, const cublasLtMatmulAlgo_t *algo, int n)
{
    float ms[CALLS_MOST];
    bool fine = true;
    for (int i = 0; i < n && fine; i++) {
        cudaMemsetAsync(t->flush, i, (size_t)FLUSH, t->stream);
        cudaEventRecord(t->before[i], t->stream);
        fine = put(t, p, algo);
        cudaEventRecord(t->behind[i], t->stream);
    }
    if (cudaStreamSynchronize(t->stream) != cudaSuccess || !fine) return -1;
    for (int i = 0; i < n; i++) cudaEventElapsedTime(&ms[i], t->before[i], t->behind[i]);
    const int half = n / 2;
    qsort(ms + half, (size_t)(n - half), sizeof *ms, by_size);
    return 1e-3 * (double)ms[half + (n - half) / 2];
}

static int calls_for(double seconds)
{
    const double flush = 1e-4, n = window / (seconds + flush);
    return n < CALLS_LEAST ? CALLS_LEAST : n > CALLS_MOST ? CALLS_MOST : (int)n;
}

/* Of all algorithms. False: one could not be run. */
static bool time_all(bench_top *t, lt_plan *p, const cublasLtMatmulAlgo_t *list, int n, double *s)
{
    for (int i = 0; i < n; i++) { /* loads them */
        s[i] = run_calls(t, p, &list[i], 3);
        if (s[i] < 0) return false;
    }
    bool fine = run_calls(t, p, &list[0], calls_for(s[0])) >= 0;
    for (int i = 0; i < n && fine; i++) {
        s[i] = run_calls(t, p, &list[i], calls_for(s[i]));
        fine = s[i] >= 0;
    }
    return fine;
}

/* ---- the choice */

/* T4 */
static bool repeats(bench_top *t, lt_plan *p, const cublasLtMatmulAlgo_t *algo)
{
    unsigned long long sum[2] = {0, 1};
    bool fine = true;
    for (int i = 0; i < 2 && fine; i++) {
        cudaMemsetAsync(t->c, 0, (size_t)t->c_bytes, t->stream);
        fine = put(t, p, algo);
        lt_checksum(t->c, t->c_bytes, t->sum, t->stream);
        cudaMemcpyAsync(&sum[i], t->sum, sizeof sum[i], cudaMemcpyDefault, t->stream);
        fine &= cudaStreamSynchronize(t->stream) == cudaSuccess;
    }
    return fine && sum[0] == sum[1];
}

static int best_of(bench_top *t, lt_plan *p, const cublasLtMatmulAlgo_t *list, double *s, int n)
{
    for (;;) {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (s[i] < s[best]) best = i;
        if (s[best] > (1 - LT_GAIN) * s[0]) return 0;
        if (best == 0 || repeats(t, p, &list[best])) return best;
        s[best] = 2 * s[0];
    }
}

status lt_tune(lt_plan *p, const cublasLtMatmulAlgo_t *list, int n, lt_use *u, error *err)
{
    bench_top *t = calloc(1, sizeof *t);
    double s[LT_TRIED] = {0};
    if (!t) return error_set(err, ERR_MACHINE, "%s: no host memory to time it", u->name);
    cudaError_t e = take(t, &u->shape);
    if (!e) e = fill_operands(t, &u->shape);
    const lt_scales scales = {t->a_scales, t->b_scales, t->factor, t->factor};
    if (!e && u->shape.scaling && !lt_set_scales(p, &scales)) e = cudaErrorInvalidValue;
    const bool fine = !e && time_all(t, p, list, n, s);
    if (fine) {
        u->tried = n;
        u->first_s = s[0];
        u->place = best_of(t, p, list, s, n);
        u->own_s = s[u->place];
        p->algo = list[u->place];
    }
    give_back(t);
    free(t);
    if (fine) return OK;
    if (!e) e = cudaGetLastError();
    return error_set(err, ERR_MACHINE, "%s: %lld x %lld x %lld cannot be timed: %s", u->name,
                     (long long)u->shape.m, (long long)u->shape.n, (long long)u->shape.k,
                     e ? cudaGetErrorString(e) : "cuBLASLt refused an algorithm of its own");
}
