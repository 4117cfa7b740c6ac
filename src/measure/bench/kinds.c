/* kinds.c - measures every memory-bound kind of operation separately (TIMED in ops.def; fused casts
 * that move rows are not there: they read two tables), the host time to launch it (alone and in a
 * CUDA graph), and copies to and from the host. Only for GPUs, where kinds differ much.
 *
 * Sizes are those of a layer that is `width` wide, with as many tokens as attention has. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "op/quant.h"
#include "op/update.h"
#include "measure/bench/microbench.h"

enum { T = 32768, W = 4096, HEADS = 32, KEYS = 4, D = 128, E = 128, K = 8, H = 2048, F = 768 };
enum { V = 131072, R = 512, DR = 64, PAIRS = T * K, N = 1 << 27 };

typedef struct kind_row {
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    const char *without; /* tensors that are missing */
    microbench_table table;
    int64_t table_n, table_each;
    unsigned wide_in, wide_out;
} kind_row;

#include "op/op_timed.h"

static timed_op op_of(const kind_row *k)
{
    timed_op t = {.o = {.kind = k->kind, .name = "kind", .real = {0.9, 0.95}},
                  .wide_in = k->wide_in,
                  .wide_out = k->wide_out,
                  .table = k->table,
                  .table_n = k->table_n,
                  .table_each = k->table_each};
    memcpy(t.o.dim, k->dim, sizeof k->dim);
    t.o.real[REAL_ADAMW_eps] = 1e-8;
    timed_op_sizes(&t, k->without);
    return t;
}

/* An update's bytes are those of its elements, whatever the price makes of the recipe: gradient,
 * master and moments there and back, weight. */
static double bytes_of(const timed_op *t)
{
    if (t->o.kind == OP_SQUARES) return 4.0 * N;
    return t->o.kind == OP_ADAMW ? 30.0 * N : microbench_bytes(t);
}

/* ---- the host */

enum { SMALL = 128 };

static timed_op small_of(const microbench *j, launch_kind k)
{
    enum { WORDS = 1024 };
    static const kind_row rows[] = {
        [LAUNCH_ELEMENTWISE] = {.kind = OP_ADD, .dim = {SMALL}},
        [LAUNCH_HEAD] = {.kind = OP_HEAD_LOSS,
                         .dim = {SMALL, SMALL, WORDS, SMALL},
                         .table = JIG_IDS,
                         .table_n = V},
        [LAUNCH_ROUTER] = {.kind = OP_ROUTER, .dim = {SMALL, E, K}, .without = "bias"},
        [LAUNCH_ROUTING] = {.kind = OP_PERMUTE,
                            .dim = {SMALL, K, SMALL, SMALL * K},
                            .table = JIG_ROWS,
                            .table_n = SMALL * K,
                            .table_each = SMALL},
    };
    switch (k) {
    case LAUNCH_PRODUCT:
        return gemm_op(OP_GEMM, SMALL, SMALL, SMALL);
    case LAUNCH_GROUPED:
        return grouped_op(j, OP_GROUPED, 1, SMALL, SMALL);
    case LAUNCH_ATTENTION: /* the dearer of both */
        return attention_op(j, SMALL, D, D, true);
    default:
        return op_of(&rows[k]);
    }
}

static const launch_kind launches[] = {LAUNCH_ELEMENTWISE, LAUNCH_PRODUCT, LAUNCH_GROUPED,
                                       LAUNCH_ATTENTION,   LAUNCH_HEAD,    LAUNCH_ROUTER,
                                       LAUNCH_ROUTING};

/* ---- copies */

/* The best of some windows: one way has been seen to take a fifth longer for a moment. */
static double copied(microbench *j, device_address to, device_address from, int64_t bytes)
{
    enum { WINDOWS = 5, TIMES = 10 };
    const device_table *t = j->d->table;
    double best = 0;
    for (int w = 0; w < WINDOWS; w++) {
        double start = clock_seconds();
        for (int i = 0; i < TIMES; i++) {
            t->copy(j->d, STREAM_COPY, to, from, bytes);
            t->record(j->d, STREAM_COPY, 0);
            t->wait_here(j->d, 0);
        }
        best = fmax(best, (double)bytes * TIMES / (clock_seconds() - start));
    }
    microbench_step(j);
    return best;
}

/* Both ways at once, on streams of their own, between two halves of the host's memory. */
static double copied_both(microbench *j, int64_t bytes)
{
    enum { TIMES = 10 };
    const device_table *t = j->d->table;
    const int64_t half = bytes / 2;
    double start = 0;
    for (int i = -2; i < TIMES; i++) {
        if (i == 0) t->sync(j->d);
        if (i == 0) start = clock_seconds();
        t->copy(j->d, STREAM_COPY_BACK, microbench_in(j), (device_address){SPACE_HOST, 0}, half);
        t->copy(j->d, STREAM_COPY, (device_address){SPACE_HOST, half}, microbench_out(j), half);
    }
    microbench_copies_end(j);
    microbench_step(j);
    return (double)(2 * half) * TIMES / (clock_seconds() - start);
}

/* The host's time to know that a stream is through. */
static double wait_for_it(microbench *j)
{
    enum { TIMES = 50 };
    const device_table *t = j->d->table;
    double start = clock_seconds();
    for (int i = 0; i < TIMES; i++) {
        t->copy(j->d, STREAM_COPY, (device_address){SPACE_HOST, 0}, microbench_in(j), 64);
        t->record(j->d, STREAM_COPY, 0);
        t->wait_here(j->d, 0);
    }
    microbench_step(j);
    return (clock_seconds() - start) / TIMES;
}

/* Of the operation whose time alone is the unit of all launches. */
void measure_graphs(microbench *j, measured *m)
{
    timed_op t = small_of(j, LAUNCH_ELEMENTWISE);
    if (!j->d->table->graphs) {
        microbench_step(j);
        return;
    }
    microbench_graph g = microbench_host_graph(j, &t);
    m->graph_launch = g.each;
    m->replay = g.replay;
}

enum { COPIES = 4, HELD = 1 };

int measure_kinds_count(void)
{
    return COUNT(kinds) + COUNT(launches) + HELD + COPIES;
}

void measure_kinds(microbench *j, measured *m)
{
    const int64_t piece = 1 << 25;
    const device_address host = {SPACE_HOST, 0};
    for (int i = 0; i < COUNT(kinds); i++) {
        timed_op t = op_of(&kinds[i]);
        double seconds = microbench_time(j, &t);
        m->kind_bytes[t.o.kind] = bytes_of(&t);
        m->kind[t.o.kind] = m->kind_bytes[t.o.kind] / seconds;
    }
    for (int i = 0; i < COUNT(launches); i++) {
        timed_op t = small_of(j, launches[i]);
        m->host[launches[i]] = microbench_host(j, &t);
    }
    measure_graphs(j, m);
    m->to_device = copied(j, microbench_in(j), host, piece);
    m->to_host = copied(j, host, microbench_out(j), piece);
    m->both_ways = copied_both(j, piece);
    m->wait = wait_for_it(j);
}
