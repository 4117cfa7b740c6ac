/* layers.c - what a layer does beside GEMMs, and what is measured once. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend/cpu/kernels/update.h"
#include "measure/bench/microbench.h"
#include "train/executor/optimizer.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- what memory binds: operations as a layer has them, on rows of the scale's width */

typedef struct pass {
    op_kind kind;
    int64_t by_row[JIG_TENSORS], by_row_out[JIG_TENSORS]; /* elements for each row */
    int64_t once[JIG_TENSORS];                            /* and beside the rows */
    int64_t dim[OP_DIM_MAX];                              /* -n: n times the rows */
} pass;

static void mix_of(pass out[MEASURED_PASSES], const measure_scale *z)
{
    const int64_t h = z->width, d = z->head, heads = h / d, keys = heads / 2;
    const pass list[MEASURED_PASSES] = {
        {OP_ADD, {h, h}, {h}, {0}, {-h}},
        {OP_NORM, {h}, {h, 1}, {0, h}, {-1, h}},
        {OP_NORM_D, {h, h, 0, 1}, {h}, {0, 0, h}, {-1, h}},
        {OP_ACT, {2 * h}, {h}, {0}, {-1, h}},
        {OP_ACT_D, {h, 2 * h}, {2 * h}, {0}, {-1, h}},
        {OP_QKV_SPLIT, {2 * h}, {h, h / 2, h / 2}, {0}, {-1, heads, keys, d}},
        {OP_QKV_JOIN, {h, h / 2, h / 2}, {2 * h}, {0}, {-1, heads, keys, d}},
        {OP_ROPE, {d}, {h}, {0}, {-1, -1, heads, d, 0, d}},
    };
    memcpy(out, list, sizeof list);
}

/* Elements that a row of it takes. */
static int64_t row_elements(const pass *p)
{
    int64_t sum = 0;
    for (int i = 0; i < JIG_TENSORS; i++) sum += p->by_row[i] + p->by_row_out[i];
    return sum;
}

static timed_op pass_of(const microbench *j, const pass *p, double bytes)
{
    int64_t rows = (int64_t)bytes / dtype_bytes(j->scale->type, 1) / row_elements(p);
    timed_op t = {.o = {.kind = p->kind, .name = "pass", .real = {1e-5}}};
    if (rows < 1) rows = 1;
    for (int i = 0; i < OP_DIM_MAX; i++) t.o.dim[i] = p->dim[i] < 0 ? -p->dim[i] * rows : p->dim[i];
    for (int i = 0; i < JIG_TENSORS; i++) {
        t.in[i] = p->by_row[i] * rows + p->once[i];
        t.out[i] = p->by_row_out[i] * rows;
    }
    return t;
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
    const pass copy = {OP_COPY, {h}, {h}, {0}, {-h}};
    return pass_rate(j, &copy, 1, bytes);
}

/* ---- small things */

static double least(microbench *j)
{
    timed_op t = {.o = {.kind = OP_ADD, .dim = {1}, .name = "least"}};
    t.in[IN_ADD_a] = t.in[IN_ADD_b] = t.out[OUT_ADD_y] = 1;
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
    const int64_t in[JIG_TENSORS] = {n * h, v * h, n, n}, out[JIG_TENSORS] = {2, n * h, v * h};
    memcpy(t.in, in, sizeof in);
    memcpy(t.out, out, sizeof out);
    t.o.real[REAL_HEAD_LOSS_scale] = 1;
    return microbench_flops(j, &t, 1);
}

static double delta_rule(microbench *j)
{
    enum { CHUNK = 64 };
    const measure_scale *z = j->scale;
    const int64_t s = z->delta_length, nk = z->delta_keys, nv = z->delta_values, d = z->delta_head;
    const int64_t qkv = s * (2 * nk + nv) * d, o = s * nv * d, gates = s * nv;
    const int64_t states = s / CHUNK * nv * d * d, dim[] = {1, s, nk, nv, d, d, CHUNK};
    timed_op list[] = {{.o = {.kind = OP_GDN_RULE, .name = "delta rule"},
                        .in = {qkv, gates, gates},
                        .out = {o, states}},
                       {.o = {.kind = OP_GDN_RULE_D, .name = "delta rule"},
                        .in = {o, qkv, gates, gates, states},
                        .out = {qkv, gates, gates}}};
    for (int i = 0; i < COUNT(list); i++) memcpy(list[i].o.dim, dim, sizeof dim);
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
    const double row[TABLE_COLUMNS] = {[TABLE_N] = (double)n};
    optimizer o = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .table = {row, 1}};
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
