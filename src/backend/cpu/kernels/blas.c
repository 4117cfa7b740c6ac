/* blas.c - which OpenBLAS, which of its kernels, and how a GEMM is cut among threads.
 *
 * Debian 12's OpenBLAS does not know chips younger than itself and then uses SSE3 kernels, five
 * times slower than the processor allows, without a word. So we ask the processor, not the
 * library's list of models. On arm64 the library is left alone: its fallback (armv8) has the same
 * NEON GEMM as the named chips, and releases that know SVE find it by themselves. */
#include "backend/cpu/kernels/blas.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/maths.h"

enum { ROW_MAJOR = 101, AS_STORED = 111, TURNED = 112 }; /* cblas.h; we need no more of it */

typedef void (*sgemm_call)(int order, int ta, int tb, int m, int n, int k, float alpha,
                           const float *a, int lda, const float *b, int ldb, float beta, float *c,
                           int ldc);

static struct {
    pthread_once_t once;
    sgemm_call sgemm; /* NULL: no library */
    char text[512];
} blas = {.once = PTHREAD_ONCE_INIT};

/* ---- which kernels */

static unsigned cpu_features(void)
{
    unsigned cpu = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) cpu |= CPU_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        cpu |= CPU_AVX512;
#endif
    return cpu;
}

const char *blas_core_for(unsigned cpu)
{
    if (cpu & CPU_AVX512) return "SKYLAKEX";
    if (cpu & CPU_AVX2) return "HASWELL";
    return NULL;
}

static bool named(const char *const *names, const char *core)
{
    for (; *names; names++)
        if (strcasecmp(*names, core) == 0) return true;
    return false;
}

bool blas_core_is_poor(const char *core, unsigned cpu)
{
    static const char *const with_512[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};
    static const char *const with_256[] = {"Haswell", "Zen", "Excavator", NULL};
    if (named(with_512, core)) return false;
    if (cpu & CPU_AVX512) return true;
    return (cpu & CPU_AVX2) && !named(with_256, core);
}

static const char *cpu_words(unsigned cpu)
{
    return cpu & CPU_AVX512 ? "AVX-512" : cpu & CPU_AVX2 ? "AVX2" : "no AVX2";
}

/* ---- loading */

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* With the two variables set for the time of loading: children that we start choose for themselves,
 * and a pool of threads that nobody uses (I2) is not started. */
static void *load(const char *path, const char *core)
{
    const char *was = getenv("OPENBLAS_NUM_THREADS");
    char *n_threads = was ? strdup(was) : NULL;
    set_variable("OPENBLAS_NUM_THREADS", "1");
    if (core) set_variable("OPENBLAS_CORETYPE", core);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (core) set_variable("OPENBLAS_CORETYPE", NULL);
    set_variable("OPENBLAS_NUM_THREADS", n_threads);
    free(n_threads);
    return library;
}

/* C has no cast from an object pointer to a function pointer; POSIX says that the bytes agree. */
static void find(void *library, const char *name, void *function)
{
    void *p = dlsym(library, name);
    memcpy(function, &p, sizeof p);
}

/* "OpenBLAS 0.3.21 NO_LAPACKE ..." -> "OpenBLAS 0.3.21" */
static int version_length(const char *config)
{
    size_t n = strcspn(config, " ");
    if (config[n]) n += 1 + strcspn(config + n + 1, " ");
    return (int)n;
}

static void describe(const char *config, const char *core, const char *set, const char *user)
{
    unsigned cpu = cpu_features();
    int n = snprintf(blas.text, sizeof blas.text, "%.*s, %s kernels", version_length(config),
                     config, core);
    char *end = blas.text + n;
    size_t room = sizeof blas.text - (size_t)n;
    if (user)
        n = snprintf(end, room, " (OPENBLAS_CORETYPE=%.40s is set)", user);
    else if (set)
        n = snprintf(end, room, " (chosen for %s)", cpu_words(cpu));
    else
        n = snprintf(end, room, " (its own choice)");
    if (blas_core_is_poor(core, cpu))
        snprintf(end + n, room - (size_t)n, "; it does not use the %s that the processor has",
                 cpu_words(cpu));
}

static void start(void)
{
    const char *path = getenv("MOEFOLD_OPENBLAS"); /* another library, or one that is not there */
    const char *user = getenv("OPENBLAS_CORETYPE");
    const char *set = user ? NULL : blas_core_for(cpu_features()); /* I1 */
    void *library = load(path ? path : "libopenblas.so.0", set);
    if (!library) {
        snprintf(blas.text, sizeof blas.text,
                 "no OpenBLAS (%.200s): plain C GEMM kernels are used, which are many times "
                 "slower; install libopenblas0-pthread (Debian, Ubuntu)",
                 dlerror());
        return;
    }
    const char *(*config)(void), *(*corename)(void);
    void (*set_num_threads)(int);
    find(library, "openblas_get_config", &config);
    find(library, "openblas_get_corename", &corename);
    find(library, "openblas_set_num_threads", &set_num_threads);
    find(library, "cblas_sgemm", &blas.sgemm);
    if (!config || !corename || !set_num_threads || !blas.sgemm) {
        blas.sgemm = NULL;
        snprintf(blas.text, sizeof blas.text,
                 "%.200s is not OpenBLAS: plain C GEMM kernels are used",
                 path ? path : "libopenblas.so.0");
        return;
    }
    set_num_threads(1); /* I2, also where the variable was not heeded */
    describe(config(), corename(), set, user);
}

bool blas_ready(void)
{
    pthread_once(&blas.once, start);
    return blas.sgemm != NULL;
}

const char *blas_describe(void)
{
    blas_ready();
    return blas.text;
}

/* ---- GEMMs */

void blas_gemm_here(const blas_operands *p)
{
    if (p->m == 0 || p->n == 0) return;
    blas.sgemm(ROW_MAJOR, p->ta ? TURNED : AS_STORED, p->tb ? TURNED : AS_STORED, (int)p->m,
               (int)p->n, (int)p->k, 1, p->a, (int)p->lda, p->b, (int)p->ldb, p->add ? 1 : 0, p->c,
               (int)p->ldc);
}

typedef struct tiling {
    int64_t height, width; /* of a tile, the last ones apart */
    int64_t down, across;  /* tiles */
} tiling;

/* Each tile packs its own operands, which costs 3 % at 512 x 512, 6 % at 256 x 256, 13 % at 128 x
 * 128; too few tiles leave threads without work. So: the largest that give TILES_WANTED. */
static tiling tiles_of(const blas_operands *p)
{
    enum { TILES_WANTED = 8, UNIT = 16, SMALL = 1 << 20 };
    static const int sizes[][2] = {{512, 512}, {512, 256}, {256, 256}, {256, 128}, {128, 128}};
    enum { N_SIZES = sizeof sizes / sizeof sizes[0] };
    if (mul_sat(p->m, mul_sat(p->n, p->k)) < SMALL) return (tiling){p->m, p->n, 1, 1};
    tiling t = {0};
    for (int i = 0; i < N_SIZES && t.down * t.across < TILES_WANTED; i++) {
        t.down = ceil_div(p->m, sizes[i][0]);
        t.across = ceil_div(p->n, sizes[i][1]);
    }
    t.height = round_up(ceil_div(p->m, t.down), UNIT);
    t.width = round_up(ceil_div(p->n, t.across), UNIT);
    t.down = ceil_div(p->m, t.height);
    t.across = ceil_div(p->n, t.width);
    return t;
}

int64_t blas_tiles(const blas_operands *p)
{
    if (p->m == 0 || p->n == 0) return 0;
    tiling t = tiles_of(p);
    return t.down * t.across;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Neighbouring tiles, which run at about the same time, share the panel of the longer side: the
 * other operand is the smaller one and stays in the cache anyway. */
void blas_tile(const blas_operands *p, int64_t tile)
{
    tiling t = tiles_of(p);
    assert(tile >= 0 && tile < t.down * t.across);
    bool tall = p->m >= p->n;
    int64_t i = (tall ? tile / t.across : tile % t.down) * t.height;
    int64_t j = (tall ? tile % t.across : tile / t.down) * t.width;
    blas_operands part = *p;
    part.m = smaller(t.height, p->m - i);
    part.n = smaller(t.width, p->n - j);
    part.a += p->ta ? i : i * p->lda;
    part.b += p->tb ? j * p->ldb : j;
    part.c += i * p->ldc + j;
    blas_gemm_here(&part);
}

void blas_gemm(const blas_operands *p)
{
    int64_t n = blas_tiles(p);
#pragma omp parallel for schedule(dynamic, 1) if (n > 1)
    for (int64_t i = 0; i < n; i++) blas_tile(p, i);
}

/* GEMMs long enough, and often enough, that all threads are inside one at the same time. */
void blas_warm(int n_threads)
{
    enum { EDGE = 128, TIMES = 16 };
    static const float zeros[EDGE * EDGE];
    if (!blas_ready()) return;
#pragma omp parallel num_threads(n_threads)
    {
        float c[EDGE * EDGE]; /* [EDGE][EDGE] */
        blas_operands p = {.a = zeros, .b = zeros, .c = c, .m = EDGE, .n = EDGE, .k = EDGE};
        p.lda = p.ldb = p.ldc = EDGE;
#pragma omp barrier
        for (int i = 0; i < TIMES; i++) blas_gemm_here(&p);
    }
}
