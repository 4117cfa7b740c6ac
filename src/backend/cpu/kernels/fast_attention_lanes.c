/* fast_attention_lanes.c - one instruction set after another, and the choice between them.
 *
 * The program must start on any x86-64 or arm64 chip, so nothing is compiled for the builder's own:
 * a set beyond the architecture's minimum is compiled under its own target, and used only where the
 * processor says that it has it. */
#include "backend/cpu/kernels/fast_attention_lanes.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define ROWS   6 /* of a GEMM's tile */

#define PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#define TARGET(names)                                                                              \
    PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define TARGET_END _Pragma("clang attribute pop")
#else
#define UNROLL        _Pragma("GCC unroll 8")
#define TARGET(names) _Pragma("GCC push_options") PRAGMA(GCC target(names))
#define TARGET_END    _Pragma("GCC pop_options")
#endif

static bool works_base(void)
{
    return true;
}

#if defined(__x86_64__)

static const char set_name_base[] = "sse2";
#define SET          base
#define WIDTH        4
#define TILE         2
#define FMA(a, b, c) ((a) * (b) + (c))
#define MAX(a, b)    _mm_max_ps(a, b)
#define MIN(a, b)    _mm_min_ps(a, b)
#include "backend/cpu/kernels/fast_attention_lanes_body.h"

static bool works_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static const char set_name_avx2[] = "avx2";
TARGET("avx2,fma")
#define SET          avx2
#define WIDTH        8
#define TILE         2
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MAX(a, b)    _mm256_max_ps(a, b)
#define MIN(a, b)    _mm256_min_ps(a, b)
#include "backend/cpu/kernels/fast_attention_lanes_body.h"
TARGET_END

static bool works_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

static const char set_name_avx512[] = "avx512";
TARGET("avx512f")
#define SET          avx512
#define WIDTH        16
#define TILE         4
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MAX(a, b)    _mm512_max_ps(a, b)
#define MIN(a, b)    _mm512_min_ps(a, b)
#include "backend/cpu/kernels/fast_attention_lanes_body.h"
TARGET_END

static const lanes *const sets[] = {&lanes_avx512, &lanes_avx2, &lanes_base};

#elif defined(__aarch64__)

static const char set_name_base[] = "neon";
#define SET          base
#define WIDTH        4
#define TILE         4
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define MAX(a, b)    vmaxq_f32(a, b)
#define MIN(a, b)    vminq_f32(a, b)
#include "backend/cpu/kernels/fast_attention_lanes_body.h"

static const lanes *const sets[] = {&lanes_base};

#else

static const char set_name_base[] = "c";
#define SET          base
#define WIDTH        4
#define TILE         2
#define FMA(a, b, c) ((a) * (b) + (c))
#include "backend/cpu/kernels/fast_attention_lanes_body.h"

static const lanes *const sets[] = {&lanes_base};

#endif

const lanes *lanes_nth(int i)
{
    for (size_t at = 0; at < sizeof sets / sizeof sets[0]; at++)
        if (sets[at]->works() && i-- == 0) return sets[at];
    return NULL;
}

const lanes *lanes_best(void)
{
    return lanes_nth(0);
}

/* ---- turning round, four by four: vectors of four are in every set */

typedef float four __attribute__((vector_size(16)));

#if defined(__clang__) || __GNUC__ >= 12
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PICK(a, b, i, j, k, l)                                                                     \
    __builtin_shuffle(a, b, (int32_t __attribute__((vector_size(16)))){i, j, k, l})
#endif

static void transpose_four(const transposition *t, int64_t r, int64_t c)
{
    four x[4], y[4];
    for (int i = 0; i < 4; i++) memcpy(&x[i], t->x + (r + i) * t->x_row + c, sizeof x[i]);
    four low = PICK(x[0], x[1], 0, 4, 1, 5), high = PICK(x[0], x[1], 2, 6, 3, 7);
    four low2 = PICK(x[2], x[3], 0, 4, 1, 5), high2 = PICK(x[2], x[3], 2, 6, 3, 7);
    y[0] = PICK(low, low2, 0, 1, 4, 5), y[1] = PICK(low, low2, 2, 3, 6, 7);
    y[2] = PICK(high, high2, 0, 1, 4, 5), y[3] = PICK(high, high2, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++) {
        float *to = t->y + (c + i) * t->y_row + r;
        four old = {0};
        if (t->add) memcpy(&old, to, sizeof old);
        y[i] = t->by * y[i] + old;
        memcpy(to, &y[i], sizeof y[i]);
    }
}

static void transpose_one(const transposition *t, int64_t r, int64_t c)
{
    float *to = t->y + c * t->y_row + r;
    *to = t->by * t->x[r * t->x_row + c] + (t->add ? *to : 0);
}

/* Four rows of n numbers, two groups ahead: rows lie far apart, and the processor guesses only what
 * lies together. */
static void fetch_ahead(const float *x, int64_t row, int64_t from, int64_t past, int64_t n)
{
    enum { AHEAD = 8, LINE = 16 };
    for (int64_t i = from + AHEAD; i < from + AHEAD + 4 && i < past; i++)
        for (int64_t at = 0; at < n; at += LINE) __builtin_prefetch(x + i * row + at);
}

void lanes_transpose(const transposition *t)
{
    const int64_t rows = t->n_rows / 4 * 4, cols = t->n_cols / 4 * 4;
    if (t->x_row > t->y_row) { /* along the rows of the side that is farther apart */
        for (int64_t r = 0; r < rows; r += 4) {
            fetch_ahead(t->x, t->x_row, r, rows, cols);
            for (int64_t c = 0; c < cols; c += 4) transpose_four(t, r, c);
        }
    } else {
        for (int64_t c = 0; c < cols; c += 4) {
            fetch_ahead(t->y, t->y_row, c, cols, rows);
            for (int64_t r = 0; r < rows; r += 4) transpose_four(t, r, c);
        }
    }
    for (int64_t r = 0; r < t->n_rows; r++)
        for (int64_t c = r < rows ? cols : 0; c < t->n_cols; c++) transpose_one(t, r, c);
    for (int64_t c = 0; c < t->n_cols; c++)
        for (int64_t r = t->n_rows; r < t->pad; r++) t->y[c * t->y_row + r] = 0;
}
