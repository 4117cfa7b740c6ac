/* layers.c - what a layer does beside GEMMs, and what is measured once. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend/cpu/kernels/update.h"
#include "measure/bench/microbench.h"
#include "train/executor/optimizer.h"

/* ---- what memory binds: operations as a layer has them, on rows of the scale's width */

typedef struct pass {
    op_kind kind;
    int64_t dim[OP_DIM_MAX]; /* -n: n times the rows */
    const char *without;     /* as timed_op_sizes */
} pass;

static void mix_of(pass out[MEASURED_PASSES], const measure_scale *z)
{
    const int64_t h = z->width, d = z->head, heads = h / d, keys = heads / 2;
    const pass list[MEASURED_PASSES] = {
        {OP_ADD, {-h}, NULL},
        {OP_NORM, {-1, h}, NULL},
        {OP_NORM_D, {-1, h}, NULL},
        {OP_ACT, {-1, h}, "p"},
        {OP_ACT_D, {-1, h}, "p dp"},
        {OP_QKV_SPLIT, {-1, heads, keys, d}, "gate"},
        {OP_QKV_JOIN, {-1, heads, keys, d}, "dgate"},
        {OP_ROPE, {-1, -1, heads, d, 0, d}, NULL},
    };
    memcpy(out, list, sizeof list);
}

static timed_op pass_on(const pass *p, int64_t rows)
{
    timed_op t = {.o = {.kind = p->kind, .name = "pass", .real = {1e-5}}};
    for (int i = 0; i < OP_DIM_MAX; i++) t.o.dim[i] = p->dim[i] < 0 ? -p->dim[i] * rows : p->dim[i];
    timed_op_sizes(&t, p->without);
    return t;
}

static int64_t elements_of(const pass *p, int64_t rows)
{
    const timed_op t = pass_on(p, rows);
    int64_t sum = 0;
    for (int i = 0; i < JIG_TENSORS; i++) sum += t.in[i] + t.out[i];
    return sum;
}

/* As many rows as take so many bytes. */
static timed_op pass_of(const microbench *j, const pass *p, double bytes)
{
    const int64_t each = elements_of(p, 1) - elements_of(p, 0);
    const int64_t rows = (int64_t)bytes / dtype_bytes(j->scale->type, 1) / each;
    return pass_on(p, rows < 1 ? 1 : rows);
}

static double pass_rate(microbench *j, const pass *list, int n, double bytes)
{
    double moved = 0, seconds = 0;
    for (int i = 0; i < n; i++) {
        timed_op t = pass_of(j, &list[i], bytes);
        seconds += microbench_time(j, &t);
        moved += microbench_bytes(&t);
    }
    return moved / seconds;
}

double measure_memory(microbench *j, double bytes)
{
    pass mix[MEASURED_PASSES];
    mix_of(mix, j->scale);
    return pass_rate(j, mix, MEASURED_PASSES, bytes);
}

double measure_copies(microbench *j, double bytes)
{
    const int64_t h = j->scale->width;
    const pass copy = {OP_COPY, {-h}, NULL};
    return pass_rate(j, &copy, 1, bytes);
}

/* ---- small things */

static double least(microbench *j)
{
    timed_op t = {.o = {.kind = OP_ADD, .dim = {1}, .name = "least"}};
    timed_op_sizes(&t, NULL);
    return microbench_time(j, &t);
}

/* What the run does between two operations. */
static double launch(microbench *j)
{
    enum { TIMES = 20000 };
    double start = clock_seconds();
    for (int i = 0; i < TIMES && j->c; i++) {
        comm_where(j->c, "bench", "launch");
        comm_progress(j->c);
    }
    double each = (clock_seconds() - start) / TIMES;
    microbench_step(j);
    return microbench_mean(j, each);
}

/* ---- head, delta rule, optimizer */

static double vocabulary(microbench *j)
{
    const measure_scale *z = j->scale;
    const int64_t n = z->head_tokens, h = z->head_width, v = z->vocabulary;
    timed_op t = {.o = {.kind = OP_HEAD_LOSS, .dim = {n, h, v, z->head_rows}, .name = "head"},
                  .table = JIG_IDS,
                  .table_n = v};
    timed_op_sizes(&t, NULL);
    t.o.real[REAL_HEAD_LOSS_scale] = 1;
    return microbench_flops(j, &t, 1);
}

static double delta_rule(microbench *j)
{
    enum { CHUNK = 64 };
    const measure_scale *z = j->scale;
    const int64_t d = z->delta_head;
    timed_op list[] = {{.o = {.kind = OP_GDN_RULE, .name = "delta rule"}},
                       {.o = {.kind = OP_GDN_RULE_D, .name = "delta rule"}}};
    const int64_t dim[] = {1, z->delta_length, z->delta_keys, z->delta_values, d, d, CHUNK};
    for (int i = 0; i < COUNT(list); i++) {
        memcpy(list[i].o.dim, dim, sizeof dim);
        timed_op_sizes(&list[i], NULL);
    }
    return microbench_flops(j, list, COUNT(list));
}

/* Beside a GPU the update has company: while a piece is updated, gradients of another come down and
 * weights go up. The host's memory serves all, and on an H200's host it is what bounds the update:
 * 4.4e9 elements a second alone, 3.4e9 to 3.8e9 beside copies. */
enum { ADAM_ARRAYS = 5, ADAM_COPIED = 2 }; /* of FP32; what copies take and bring lies behind */

static void begin_copies(microbench *j, int64_t n)
{
    const int64_t behind = ADAM_ARRAYS * n * 4;
    const device_table *t = j->d->table;
    t->copy(j->d, STREAM_COPY, (device_address){SPACE_KEPT, behind}, microbench_out(j), n * 4);
    t->copy(j->d, STREAM_COPY_BACK, microbench_in(j), (device_address){SPACE_KEPT, behind + n * 4},
            n * 2);
}

/* Seconds of updates of n elements, one after another; how many there were. */
static int time_updates(microbench *j, const update_arrays *x, int64_t n, bool beside)
{
    const update_row row = {.n = n};
    optimizer o = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .table = {&row, 1}};
    o.skip_norm = (double)INFINITY;
    int times = 0;
    for (double begin = clock_seconds();
         times < 3 || (times < ROOM_TIMES && clock_seconds() - begin < j->window);) {
        if (beside) begin_copies(j, n);
        double start = clock_seconds();
        optimizer_update(&o, x, (step_rates){1e-6, 1e-6, 0, 1});
        j->times[times++] = clock_seconds() - start;
        if (beside) microbench_copies_end(j);
    }
    return times;
}

/* Elements a second that the host updates, in memory as the state that it keeps has it: FP32
 * weights on a CPU; beside a GPU masters, BF16 weights and moments, so many that no cache holds
 * them. */
static double adam(microbench *j)
{
    const bool beside = j->scale->type != DTYPE_F32;
    const int64_t n = j->scale->host_updates;
    const int64_t bytes = (ADAM_ARRAYS + (beside ? ADAM_COPIED : 0)) * n * 4;
    const int threads = omp_get_max_threads();
    double seconds = 1;
    if (!j->st) j->st = j->d->table->take(j->d, SPACE_KEPT, bytes, j->err);
    float *memory = j->st ? NULL : j->d->table->map(j->d, (device_address){SPACE_KEPT, 0});
    microbench_barrier(j);
    if (memory) {
        const update_arrays x = {.weights = {beside ? DTYPE_BF16 : DTYPE_F32, memory},
                                 .gradients = {DTYPE_F32, memory + n},
                                 .first = {DTYPE_F32, memory + 2 * n},
                                 .second = {DTYPE_F32, memory + 3 * n},
                                 .masters = {DTYPE_F32, beside ? memory + 4 * n : NULL}};
        for (int64_t i = 0; i < n; i++) memory[n + i] = (float)(i % 2003) * 1e-3F - 1;
        if (beside) omp_set_num_threads(update_threads_beside_gpu());
        seconds = microbench_typical(j, time_updates(j, &x, n, beside));
        omp_set_num_threads(threads);
        j->st = j->d->table->take(j->d, SPACE_KEPT, 0, j->err);
    }
    microbench_step(j);
    return (double)n / microbench_mean(j, seconds);
}

void measure_once(microbench *j, measured *m)
{
    m->head = fmax(m->head, vocabulary(j));
    m->linear = fmax(m->linear, delta_rule(j));
    m->adam = fmax(m->adam, adam(j));
    double smallest = least(j), between = launch(j);
    if (!(m->least > 0 && m->least < smallest)) m->least = smallest;
    if (!(m->launch > 0 && m->launch < between)) m->launch = between;
}
