/* microbenchmark.c - times one operation on the device that a run would use.
 *
 * I1  Every rank spends the same time on the same operation, so that each is measured while the
 *     others are busy. A rank that finished early would leave the others more memory bandwidth than
 *     they have in a run.
 * I2  Other programs disturb measurements, so the lowest tenth of many times counts, and the best
 *     of several rounds. If ranks share cores, they disturb each other in a run, too, and the mean
 *     counts. If power is the limit, the median of the second half counts.
 * I3  A device that runs asynchronously gets a batch of calls between two readings of the clock, so
 *     that kernels hide launches, as they do in a step.
 * I4  If a launch takes longer than its kernel, launches are queued behind long kernels, and the
 *     time of those kernels alone is subtracted.
 * I5  Where power binds, the clock follows what ran for some ten milliseconds: alone, GEMMs are
 *     slower than among the operations of a step, and attention is faster. So between two batches
 *     GEMMs and copies run, about as long as a step has them, and are not counted.
 * I6  The host's time for a replay is a line over the kernels that the graph holds. Each graph is
 *     replayed once between two waits, as in a step, and what is under way stays below what a
 *     GPU's queue takes: a host that waits for room would measure the GPU. */
#include "measure/bench/microbench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void microbench_barrier(const microbench *j)
{
    if (j->c) comm_barrier(j->c, GROUP_WORLD);
}

double microbench_mean(const microbench *j, double x)
{
    if (j->c) comm_sum(j->c, GROUP_WORLD, &x, 1);
    return x / (double)j->ranks;
}

void microbench_copies_end(const microbench *j)
{
    const device_table *t = j->d->table;
    t->record(j->d, STREAM_COPY, 0);
    t->record(j->d, STREAM_COPY_BACK, 1);
    t->wait_here(j->d, 0);
    t->wait_here(j->d, 1);
}

void microbench_step(microbench *j)
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
double microbench_typical(const microbench *j, int n)
{
    double sum = 0, *t = j->times;
    if (j->scale->limited) {
        t += n / 2;
        n -= n / 2;
    }
    for (int i = 0; i < n; i++) sum += t[i];
    if (j->crowded) return sum / n;
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[j->scale->limited ? n / 2 : (n - 1) / 10];
}

void microbench_point(curve *c, int i, double x, double y)
{
    if (i == c->n) c->y[c->n++] = 0;
    c->x[i] = x;
    c->y[i] = fmax(c->y[i], y);
}

static void unbind(const microbench_bound *b)
{
    if (b->call.row && b->call.row->release) b->call.row->release(b->call.state);
}

static void put(microbench *j, microbench_bound *b)
{
    microbench_tensors(j, b->t, b->in, b->out);
    b->call.in = b->in;
    b->call.out = b->out;
    j->d->table->launch(j->d, STREAM_COMPUTE, &b->call);
}

/* Seconds of n calls, one after another. */
static double run(microbench *j, microbench_bound *b, int n)
{
    double start = clock_seconds();
    for (int i = 0; i < n; i++) put(j, b);
    j->d->table->record(j->d, STREAM_COMPUTE, 0);
    j->d->table->wait_here(j->d, 0);
    return clock_seconds() - start;
}

/* I3 */
static int batch_of(const microbench *j, double one)
{
    const double long_enough = 1.5e-3;
    enum { MOST = 256 };
    if (!j->scale->limited) return 1;
    double n = long_enough / (one > 1e-7 ? one : 1e-7);
    return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

/* ---- what a step has beside the operation (I5) */

typedef struct concurrent {
    timed_op t[2];
    microbench_bound b[2];
} concurrent;

static status concurrent_bind(microbench *j, concurrent *x)
{
    const int64_t side = j->scale->side, n = 1 << 27;
    x->t[0] = gemm_op(OP_GEMM, side, side, j->scale->depth);
    x->t[1] = (timed_op){.o = {.kind = OP_COPY, .dim = {n}, .name = "beside"}};
    x->t[1].in[IN_COPY_a] = x->t[1].out[OUT_COPY_y] = n;
    TRY(microbench_bind(j, &x->t[0], &x->b[0]));
    return microbench_bind(j, &x->t[1], &x->b[1]);
}

static void concurrent_run(microbench *j, concurrent *x)
{
    enum { PRODUCTS = 8, COPIES = 3 }; /* of an H200: 6.5 and 0.4 ms */
    for (int i = 0; i < PRODUCTS; i++) put(j, &x->b[0]);
    run(j, &x->b[1], COPIES);
}

/* ---- the window */

static int run_times(microbench *j, microbench_bound *b, concurrent *x)
{
    int n = 0, least = x ? 6 : 2;
    run(j, b, 1); /* threads and library wake up */
    int batch = batch_of(j, x ? run(j, b, 1) : 0);
    microbench_barrier(j);
    double begin = clock_seconds();
    while (n < least || (n < ROOM_TIMES && clock_seconds() - begin < j->window)) {
        if (x) concurrent_run(j, x);
        j->times[n++] = run(j, b, batch) / batch;
    }
    return n;
}

static int run_window(microbench *j, microbench_bound *b)
{
    concurrent x;
    if (!j->scale->limited) return run_times(j, b, NULL);
    j->st = concurrent_bind(j, &x);
    int n = j->st ? 0 : run_times(j, b, &x);
    for (int i = 0; i < 2 && !j->st; i++) unbind(&x.b[i]);
    return n;
}

/* ---- operations that take less than the host's call (I4) */

enum { BLOCKS = 4, SMALL_CALLS = 256, SMALL_TIMES = 9 };

static double run_behind(microbench *j, microbench_bound *block, microbench_bound *b, int n)
{
    double start = clock_seconds();
    for (int i = 0; i < BLOCKS; i++) put(j, block);
    for (int i = 0; i < n; i++) put(j, b);
    j->d->table->record(j->d, STREAM_COMPUTE, 0);
    j->d->table->wait_here(j->d, 0);
    return clock_seconds() - start;
}

static int middle_of(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return n / 2;
}

static double small_seconds(microbench *j, microbench_bound *b)
{
    const int64_t side = j->scale->side;
    double with[SMALL_TIMES], without[SMALL_TIMES];
    timed_op long_one = gemm_op(OP_GEMM, side, side, side);
    microbench_bound block;
    j->st = microbench_bind(j, &long_one, &block);
    for (int i = 0; i < SMALL_TIMES && !j->st; i++) {
        without[i] = run_behind(j, &block, b, 0);
        with[i] = run_behind(j, &block, b, SMALL_CALLS);
    }
    if (j->st) return 1;
    unbind(&block);
    double all = with[middle_of(with, SMALL_TIMES)], own = without[middle_of(without, SMALL_TIMES)];
    return fmax((all - own) / SMALL_CALLS, 1e-7);
}

double microbench_time(microbench *j, timed_op *t)
{
    const double host_bound = 20e-6;
    microbench_bound b;
    double seconds = 1;
    if (!j->st) j->st = microbench_bind(j, t, &b);
    if (!j->st) {
        int n = run_window(j, &b);
        seconds = n ? microbench_typical(j, n) : 1;
        if (j->scale->limited && seconds < host_bound) seconds = small_seconds(j, &b);
        unbind(&b);
        seconds = microbench_mean(j, seconds);
    }
    microbench_step(j);
    return seconds;
}

double microbench_host(microbench *j, timed_op *t)
{
    enum { CALLS = 100 }; /* fewer than a GPU's queue takes */
    microbench_bound b;
    double least = 1;
    if (!j->st) j->st = microbench_bind(j, t, &b);
    for (int n = 0; n < 5 && !j->st; n++) {
        run(j, &b, 1);
        double start = clock_seconds();
        for (int i = 0; i < CALLS; i++) put(j, &b);
        least = fmin(least, (clock_seconds() - start) / CALLS);
        j->d->table->sync(j->d);
    }
    if (!j->st) unbind(&b);
    microbench_step(j);
    return least;
}

/* ---- graphs (I6) */

enum { GRAPHS = 3, FEW = 32, MANY = 256, REPLAY_TIMES = 30 };

/* As many graphs of n operations, from number `first` on. Returns the kernels of one. */
static int capture_graphs(microbench *j, microbench_bound *b, int first, int n)
{
    int kernels = 0;
    for (int g = first; g < first + GRAPHS; g++) {
        j->d->table->capture(j->d, g);
        for (int i = 0; i < n; i++) put(j, b);
        kernels = j->d->table->captured(j->d, g);
    }
    return kernels;
}

static double replay_seconds(microbench *j, int first, const op *o)
{
    double least = 1;
    for (int n = 0; n < REPLAY_TIMES; n++) {
        j->d->table->sync(j->d);
        double start = clock_seconds();
        for (int g = first; g < first + GRAPHS; g++) j->d->table->replay(j->d, g, o);
        least = fmin(least, (clock_seconds() - start) / GRAPHS);
    }
    j->d->table->sync(j->d);
    return least;
}

static microbench_graph graph_line(microbench *j, microbench_bound *b)
{
    const double unseen = 1e-9; /* seconds: a kernel may take the host less than clocks show */
    int few = capture_graphs(j, b, 0, FEW), many = capture_graphs(j, b, GRAPHS, MANY);
    if (few < FEW || many <= few) {
        j->st = error_set(j->err, ERR_MACHINE,
                          "bench: device %s captured %d and %d kernels of %d and %d operations",
                          j->d->table->name, few, many, FEW, MANY);
        return (microbench_graph){1, 1};
    }
    double short_one = replay_seconds(j, 0, &b->t->o),
           long_one = replay_seconds(j, GRAPHS, &b->t->o);
    double each = fmax((long_one - short_one) / (many - few), unseen);
    return (microbench_graph){each, fmax(short_one - each * few, unseen)};
}

microbench_graph microbench_host_graph(microbench *j, timed_op *t)
{
    microbench_bound b;
    microbench_graph out = {1, 1};
    if (!j->st) j->st = microbench_bind(j, t, &b);
    if (!j->st) {
        error none = {{0}};
        run(j, &b, 1); /* what was never launched may not be captured */
        j->st = j->d->table->graphs(j->d, 2 * GRAPHS, j->err);
        if (!j->st) out = graph_line(j, &b);
        (void)j->d->table->graphs(j->d, 0, &none); /* they hold the row's state */
        unbind(&b);
    }
    microbench_step(j);
    return out;
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

microbench_load microbench_load_now(const microbench *j)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double own = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    own = microbench_mean(j, own);
    if (j->c && !comm_shares_process(j->c)) own *= (double)j->ranks;
    return (microbench_load){clock_seconds(), computed_by_all(), own};
}

double microbench_flops(microbench *j, timed_op *list, int n)
{
    double flops = 0, seconds = 0;
    for (int i = 0; i < n; i++) {
        seconds += microbench_time(j, &list[i]);
        flops += op_flops(&list[i].o);
    }
    return flops / seconds;
}
