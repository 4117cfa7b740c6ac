/* jig.c - one operation under the clock.
 *
 * I1  Every rank spends the same window on the same operation, so that each is measured beside busy
 *     neighbours. Who is done early would leave the others more memory than they have in a run.
 * I2  Other programs disturb: of many times the lowest tenth counts, of several rounds the
 *     best. Where ranks share cores they disturb one another in a run too, and the mean counts. */
#include "base/clock.h"
#include "run/measure/jig.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void jig_barrier(const jig *j)
{
    if (j->c) comm_barrier(j->c, GROUP_WORLD);
}

double jig_mean(const jig *j, double x)
{
    if (j->c) comm_sum(j->c, GROUP_WORLD, &x, 1);
    return x / (double)j->ranks;
}

void jig_step(jig *j)
{
    j->done++;
    if (j->o->says) j->o->says(j->o->who, j->done, j->total);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* I2 */
double jig_typical(const jig *j, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += j->times[i];
    if (j->crowded) return sum / n;
    qsort(j->times, (size_t)n, sizeof *j->times, by_size);
    return j->times[(n - 1) / 10];
}

void jig_point(curve *c, int i, double x, double y)
{
    if (i == c->n) c->y[c->n++] = 0;
    c->x[i] = x;
    c->y[i] = fmax(c->y[i], y);
}

/* The next n elements of a pool, round and round. */
static float *next(float *pool, int64_t *at, int64_t n)
{
    const int64_t line = 16; /* floats of a cache line */
    assert(n <= ROOM_FLOATS);
    if (*at + n > ROOM_FLOATS) *at = 0;
    float *x = pool + *at;
    *at += (n + line - 1) / line * line;
    return x;
}

static void take_tensors(jig *j, const timed_op *t, void **in, void **out)
{
    for (int i = 0; i < JIG_TENSORS; i++) {
        in[i] = out[i] = NULL;
        if (t->in[i]) in[i] = next(j->in, &j->in_at, t->in[i]);
        if (t->out[i]) out[i] = next(j->out, &j->out_at, t->out[i]);
    }
    if (t->table >= 0) in[t->table] = j->table;
}

static void bind(timed_op *t)
{
    for (int i = 0; i < OP_IN_MAX; i++) t->o.in[i] = -1;
    for (int i = 0; i < OP_OUT_MAX; i++) t->o.out[i] = -1;
    for (int i = 0; i < JIG_TENSORS; i++) {
        if (t->in[i]) t->o.in[i] = i;
        if (t->out[i]) t->o.out[i] = JIG_TENSORS + i;
    }
    if (t->table >= 0) t->o.in[t->table] = t->table;
}

double jig_time(jig *j, timed_op *t)
{
    enum { LEAST_RUNS = 2 };
    void *in[OP_IN_MAX] = {0}, *out[OP_OUT_MAX] = {0};
    int n_rows, n = 0;
    const kernel *rows = kernels_cpu(&n_rows);
    bind(t);
    const kernel *k = kernel_pick(rows, n_rows, &t->o, NULL, false);
    assert(k && kernel_workspace_bytes(&t->o) <= ROOM_WORKSPACE);
    take_tensors(j, t, in, out);
    k->run(&t->o, in, out); /* threads and library wake up */
    jig_barrier(j);
    double begin = clock_seconds();
    while (n < LEAST_RUNS || (n < ROOM_TIMES && clock_seconds() - begin < j->window)) {
        take_tensors(j, t, in, out);
        double start = clock_seconds();
        k->run(&t->o, in, out);
        j->times[n++] = clock_seconds() - start;
    }
    jig_step(j);
    return jig_mean(j, jig_typical(j, n));
}

/* ---- who computes */

/* All but idle and waiting for disks. Zero where there is no such file. */
static double computed_by_all(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    double t[FIELDS] = {0};
    FILE *f = fopen("/proc/stat", "r");
    if (!f) return 0;
    int n = fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[USER], &t[NICE], &t[SYSTEM],
                   &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ], &t[STEAL]);
    fclose(f);
    if (n != FIELDS) return 0;
    double ticks = t[USER] + t[NICE] + t[SYSTEM] + t[IRQ] + t[SOFTIRQ] + t[STEAL];
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

jig_load jig_load_now(const jig *j)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double own = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    own = jig_mean(j, own) * (double)j->ranks;
    return (jig_load){clock_seconds(), computed_by_all(), own};
}

double jig_flops(jig *j, timed_op *list, int n)
{
    double flops = 0, seconds = 0;
    for (int i = 0; i < n; i++) {
        seconds += jig_time(j, &list[i]);
        flops += op_flops(&list[i].o);
    }
    return flops / seconds;
}
