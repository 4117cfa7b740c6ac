/* accuracy_stats.h - medians, shares and rank correlation. */
#ifndef BENCH_ACCURACY_STATS_H
#define BENCH_ACCURACY_STATS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATS_MAX = 2048 };

/* A list of numbers that stays small enough to be sorted on the stack. */
typedef struct numbers {
    int n;
    double x[STATS_MAX];
} numbers;

static inline void numbers_add(numbers *l, double x)
{
    if (l->n < STATS_MAX) l->x[l->n++] = x;
}

static inline int numbers_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double numbers_median(const numbers *l)
{
    if (!l->n) return 0;
    numbers sorted = *l;
    qsort(sorted.x, (size_t)l->n, sizeof sorted.x[0], numbers_order);
    return (sorted.x[(l->n - 1) / 2] + sorted.x[l->n / 2]) / 2;
}

/* The part whose absolute value is at most `limit`. */
static inline double numbers_within(const numbers *l, double limit)
{
    int n = 0;
    for (int i = 0; i < l->n; i++) n += fabs(l->x[i]) <= limit;
    return l->n ? (double)n / l->n : 0;
}

/* Of the largest absolute value. */
static inline int numbers_worst(const numbers *l)
{
    int worst = 0;
    for (int i = 1; i < l->n; i++)
        if (fabs(l->x[i]) > fabs(l->x[worst])) worst = i;
    return worst;
}

static inline numbers numbers_absolute(const numbers *l)
{
    numbers out = *l;
    for (int i = 0; i < out.n; i++) out.x[i] = fabs(out.x[i]);
    return out;
}

static inline double numbers_mean(const numbers *l)
{
    double sum = 0;
    for (int i = 0; i < l->n; i++) sum += l->x[i];
    return l->n ? sum / l->n : 0;
}

/* Equal numbers share the mean of their ranks. */
static inline numbers numbers_ranks(const numbers *l)
{
    numbers out = {.n = l->n};
    for (int i = 0; i < l->n; i++) {
        int below = 0, equal = 0;
        for (int k = 0; k < l->n; k++) {
            below += l->x[k] < l->x[i];
            equal += l->x[k] == l->x[i];
        }
        out.x[i] = below + (equal + 1) / 2.0;
    }
    return out;
}

/* Spearman's rank correlation; 0 where one side has a single value. */
static inline double rank_correlation(const numbers *a, const numbers *b)
{
    numbers x = numbers_ranks(a), y = numbers_ranks(b);
    double mx = numbers_mean(&x), my = numbers_mean(&y), xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < x.n; i++) {
        xy += (x.x[i] - mx) * (y.x[i] - my);
        xx += (x.x[i] - mx) * (x.x[i] - mx);
        yy += (y.x[i] - my) * (y.x[i] - my);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

#endif
