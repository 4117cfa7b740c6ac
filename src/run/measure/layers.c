/* layers.c - what a layer does beside products, and what is measured once. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "run/measure/jig.h"
#include "run/optimizer.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- what memory binds: operations as a layer has them, on rows of H */

enum { H = 512, HEADS = 8, KEY_HEADS = 4, HEAD = 64 };

typedef struct pass {
    op_kind kind;
    int by_row[JIG_TENSORS], by_row_out[JIG_TENSORS]; /* elements for each row */
    int once[JIG_TENSORS];                            /* and beside the rows */
    int64_t dim[OP_DIM_MAX];                          /* -1: rows */
} pass;

static const pass mix[] = {
    {OP_ADD, {H, H}, {H}, {0}, {-H}},
    {OP_NORM, {H}, {H, 1}, {0, H}, {-1, H}},
    {OP_NORM_D, {H, H, 0, 1}, {H}, {0, 0, H}, {-1, H}},
    {OP_ACT, {2 * H}, {H}, {0}, {-1, H}},
    {OP_ACT_D, {H, 2 * H}, {2 * H}, {0}, {-1, H}},
    {OP_QKV_SPLIT, {2 * H}, {H, H / 2, H / 2}, {0}, {-1, HEADS, KEY_HEADS, HEAD}},
    {OP_QKV_JOIN, {H, H / 2, H / 2}, {2 * H}, {0}, {-1, HEADS, KEY_HEADS, HEAD}},
    {OP_ROPE, {HEAD}, {H}, {0}, {-1, -1, HEADS, HEAD, 0, HEAD}},
};
static const pass copies[] = {{OP_COPY, {H}, {H}, {0}, {-H}}};

/* Floats that a row of it takes. */
static int64_t row_floats(const pass *p)
{
    int64_t sum = 0;
    for (int i = 0; i < JIG_TENSORS; i++) sum += p->by_row[i] + p->by_row_out[i];
    return sum;
}

static timed_op pass_of(const pass *p, double bytes)
{
    int64_t rows = (int64_t)bytes / 4 / row_floats(p);
    timed_op t = {.o = {.kind = p->kind, .name = "pass", .real = {1e-5}}, .table = -1};
    if (rows < 1) rows = 1;
    for (int i = 0; i < OP_DIM_MAX; i++) t.o.dim[i] = p->dim[i] < 0 ? -p->dim[i] * rows : p->dim[i];
    for (int i = 0; i < JIG_TENSORS; i++) {
        t.in[i] = p->by_row[i] * rows + p->once[i];
        t.out[i] = p->by_row_out[i] * rows;
        t.bytes += 4.0 * (double)(t.in[i] + t.out[i]);
    }
    return t;
}

static double pass_rate(jig *j, const pass *list, int n, double bytes)
{
    double moved = 0, seconds = 0;
    for (int i = 0; i < n; i++) {
        timed_op t = pass_of(&list[i], bytes);
        seconds += jig_time(j, &t);
        moved += t.bytes;
    }
    return moved / seconds;
}

const int measured_passes = COUNT(mix);

double measure_memory(jig *j, double bytes)
{
    return pass_rate(j, mix, COUNT(mix), bytes);
}

const int measured_copies = COUNT(copies);

double measure_copies(jig *j, double bytes)
{
    return pass_rate(j, copies, COUNT(copies), bytes);
}

/* ---- small things */

static double least(jig *j)
{
    timed_op t = {.o = {.kind = OP_ADD, .dim = {1}, .name = "least"}, .table = -1};
    t.in[IN_ADD_a] = t.in[IN_ADD_b] = t.out[OUT_ADD_y] = 1;
    return jig_time(j, &t);
}

/* What the run does between two operations. */
static double launch(jig *j)
{
    enum { TIMES = 20000 };
    double start = clock_seconds();
    for (int i = 0; i < TIMES && j->c; i++) {
        comm_where(j->c, "bench", "launch");
        comm_progress(j->c);
    }
    double each = (clock_seconds() - start) / TIMES;
    jig_step(j);
    return jig_mean(j, each);
}

/* ---- head, delta rule, optimizer */

static double vocabulary(jig *j)
{
    enum { T = 512, V = 8192, ROWS = 256 };
    timed_op t = {.o = {.kind = OP_HEAD_LOSS, .dim = {T, H, V, ROWS}, .name = "head"}, .table = 2};
    const int64_t in[JIG_TENSORS] = {T * H, V * H, 0, T}, out[JIG_TENSORS] = {2, T * H, V * H};
    memcpy(t.in, in, sizeof in);
    memcpy(t.out, out, sizeof out);
    t.o.real[REAL_HEAD_LOSS_scale] = 1;
    memset(j->table, 0, sizeof *j->table * T); /* labels */
    return jig_flops(j, &t, 1);
}

static double delta_rule(jig *j)
{
    enum {
        S = 1024,
        NK = 4,
        NV = 8,
        D = 64,
        CHUNK = 64,
        QKV = S * (2 * NK + NV) * D,
        O = S * NV * D
    };
    enum { STATES = S / CHUNK * NV * D * D, GATES = S * NV };
    const int64_t dim[] = {1, S, NK, NV, D, D, CHUNK};
    timed_op list[] = {{.o = {.kind = OP_GDN_RULE, .name = "delta rule"},
                        .in = {QKV, GATES, GATES},
                        .out = {O, STATES},
                        .table = -1},
                       {.o = {.kind = OP_GDN_RULE_D, .name = "delta rule"},
                        .in = {O, QKV, GATES, GATES, STATES},
                        .out = {QKV, GATES, GATES},
                        .table = -1}};
    for (int i = 0; i < COUNT(list); i++) memcpy(list[i].o.dim, dim, sizeof dim);
    return jig_flops(j, list, COUNT(list));
}

/* Elements a second; weights, gradients and moments lie in the pools. */
static double adam(jig *j)
{
    enum { ALL = 1 << 22 };
    const double row[TABLE_COLUMNS] = {[TABLE_N] = ALL};
    optimizer o = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .table = {row, 1}};
    o.skip_norm = (double)INFINITY;
    update_arrays x = {.weights = {DTYPE_F32, j->out},
                       .gradients = {DTYPE_F32, j->in},
                       .first = {DTYPE_F32, j->out + ALL},
                       .second = {DTYPE_F32, j->out + 2 * ALL}};
    memset(x.first.at, 0, sizeof(float) * 2 * ALL);
    int n = 0;
    jig_barrier(j);
    for (double begin = clock_seconds();
         n < 3 || (n < ROOM_TIMES && clock_seconds() - begin < j->window);) {
        double start = clock_seconds();
        optimizer_update(&o, &x, (step_rates){1e-6, 1e-6, 0, 1});
        j->times[n++] = clock_seconds() - start;
    }
    jig_step(j);
    return ALL / jig_mean(j, jig_typical(j, n));
}

void measure_once(jig *j, measured *m)
{
    m->head = fmax(m->head, vocabulary(j));
    m->linear = fmax(m->linear, delta_rule(j));
    m->adam = fmax(m->adam, adam(j));
    double smallest = least(j), between = launch(j);
    if (!(m->least > 0 && m->least < smallest)) m->least = smallest;
    if (!(m->launch > 0 && m->launch < between)) m->launch = between;
}
