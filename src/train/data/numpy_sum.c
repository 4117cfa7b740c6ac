/* numpy_sum.c - pairwise summation. */
#include "train/data/numpy_sum.h"

enum { LANES = 8, BLOCK = 128 };

static double sum_lanes(const double *v, int64_t n)
{
    double lane[LANES];
    int64_t i = LANES;
    for (int j = 0; j < LANES; j++) lane[j] = v[j];
    for (; i < n - n % LANES; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += v[i + j];
    double sum =
        ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < n; i++) sum += v[i];
    return sum;
}

double numpy_sum(const double *v, int64_t n)
{
    if (n > BLOCK) {
        int64_t half = n / 2 - n / 2 % LANES;
        return numpy_sum(v, half) + numpy_sum(v + half, n - half);
    }
    if (n >= LANES) return sum_lanes(v, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    return sum;
}

void numpy_normalize(double *v, int64_t n)
{
    double sum = numpy_sum(v, n);
    for (int64_t i = 0; i < n; i++) v[i] /= sum;
}
