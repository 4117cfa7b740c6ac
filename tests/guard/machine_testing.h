/* machine_testing.h - may results be compared, to the bit, with what was recorded elsewhere?
 *
 * The plain kernels round every GEMM and sum by itself, in an order that is written down. What
 * is left to the machine are the last bits of exp, log, sin and so on (versions of glibc; CPUs with
 * and without FMA), and flags that let the compiler contract a * b + c. So the record says what
 * these functions gave where it was made; where they give something else nothing is compared, and a
 * sentence says so. */
#ifndef TESTS_GUARD_MACHINE_TESTING_H
#define TESTS_GUARD_MACHINE_TESTING_H

#include "guard/guard_testing.h"

#include <gnu/libc-version.h>
#include <math.h>

#define GUARD_RECORD "tests/guard/state.txt"

/* Arguments and results pass through volatile objects: the compiler computes none of it. */
static inline uint64_t guard_libm(void)
{
    uint64_t sum = 0;
    for (int i = 1; i <= 4096; i++) {
        volatile double x = i / 273.0;
        volatile float f = (float)i / 137.0f;
        volatile double d[] = {exp(-x), exp(x),     log(x),  log1p(x), pow(x, 0.37),
                               sin(x),  cos(x),     tanh(x), erf(x),   pow(10000, -x / 64),
                               sqrt(x), exp(sin(x))};
        volatile float g[] = {expf(-f), expf(f), logf(f),  powf(f, 0.37f), sinf(f),   cosf(f),
                              tanhf(f), erff(f), sqrtf(f), log1pf(f),      expm1f(f), exp2f(f)};
        for (size_t k = 0; k < sizeof d / sizeof d[0]; k++) {
            double v = d[k];
            uint64_t bits;
            memcpy(&bits, &v, sizeof bits);
            sum = guard_mix(sum + bits);
        }
        for (size_t k = 0; k < sizeof g / sizeof g[0]; k++) {
            float v = g[k];
            uint32_t bits;
            memcpy(&bits, &v, sizeof bits);
            sum = guard_mix(sum + bits);
        }
    }
    return sum;
}

/* Zero where GEMMs and sums are rounded each, as the kernels assume. */
static inline double guard_contraction(void)
{
    volatile double one = 1 + 0x1p-30, first = one * one;
    return one * one - first; /* each read anew: nothing to share between the two GEMMs */
}

static inline const char *guard_machine(arena *a)
{
    return arena_text(a, "libm %016llx", (unsigned long long)guard_libm());
}

static inline char *guard_record(arena *a)
{
    char *text;
    size_t n;
    error err;
    if (file_read(a, GUARD_RECORD, 1 << 24, &text, &n, &err)) fail_msg("%s", err.text);
    return text;
}

static inline bool guard_comparable(const char *record, arena *a)
{
    const char *sum = guard_machine(a);
    if (guard_contraction() != 0) {
        print_message("this build contracts a * b + c (a flag like -march=native): results are "
                      "not comparable with " GUARD_RECORD "\n");
        return false;
    }
    if (strstr(record, sum)) return true;
    print_message(
        "exp, log, sin and the like of this machine (glibc %s) give other bits than where "
        "" GUARD_RECORD " was recorded: not compared\n",
        gnu_get_libc_version());
    return false;
}

#endif
