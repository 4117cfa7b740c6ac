/* maths.h - whole numbers that saturate instead of overflowing.
 *
 * Sizes come from users. A product of six of them may leave 64 bits; then it stays at SIZE_HUGE,
 * which no comparison mistakes for a real size. */
#ifndef BASE_MATHS_H
#define BASE_MATHS_H

#include <stdbool.h>
#include <stdint.h>

#define SIZE_HUGE (INT64_MAX / 4)

static inline int64_t mul_sat(int64_t a, int64_t b)
{
    int64_t p;
    return __builtin_mul_overflow(a, b, &p) || p > SIZE_HUGE ? SIZE_HUGE : p;
}

/* Sum of sizes that are not negative. */
static inline int64_t add_sat(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum > SIZE_HUGE ? SIZE_HUGE : sum;
}

static inline int64_t gcd64(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Least common multiple of positive numbers. */
static inline int64_t lcm64(int64_t a, int64_t b)
{
    return mul_sat(a / gcd64(a, b), b);
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t round_up(int64_t a, int64_t unit)
{
    return mul_sat(ceil_div(a, unit), unit);
}

/* Is a a whole multiple of b? Not-positive sizes are another rule's business: they pass. */
static inline bool divides(int64_t b, int64_t a)
{
    return b <= 0 || a <= 0 || a % b == 0;
}

#endif
