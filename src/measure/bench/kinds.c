/* kinds.c - measures every memory-bound kind of operation separately, the host time to launch it
 * (alone and in a CUDA graph), and copies to and from the host. Only for GPUs, where kinds differ
 * much.
 *
 * Sizes are those of a layer that is `width` wide, with as many tokens as attention has. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "op/update.h"
#include "measure/bench/microbench.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

enum { T = 32768, W = 4096, HEADS = 32, KEYS = 4, D = 128, E = 128, K = 8, H = 2048, F = 768 };
enum { V = 131072, R = 512, DR = 64, PAIRS = T * K, N = 1 << 27 };

/* Tensors are products of sizes: "01" is dim 0 times dim 1, "0(1+1)" dim 0 times twice dim 1; "-"
 * is missing, "=2" two numbers. */
typedef struct kind_row {
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    unsigned flags;
    const char *in, *out;
    microbench_table table;
    int64_t table_n, table_each;
    unsigned wide_in, wide_out;
} kind_row;

static const kind_row kinds[] = {
    {OP_ADD, {(int64_t)T * W}, 0, "0 0", "0", 0, 0, 0, 0, 0},
    {OP_COPY, {(int64_t)T * W}, 0, "0", "0", 0, 0, 0, 0, 0},
    {OP_ZERO, {(int64_t)T * W}, 0, "", "0", 0, 0, 0, 0, 1},
    {OP_BIAS, {T, W}, 0, "1", "01", 0, 0, 0, 0, 0},
    {OP_BIAS_W, {T, W}, 0, "01", "1", 0, 0, 0, 0, 0},
    {OP_EMBED, {T, W, V, 0}, 0, "21 0", "01", JIG_IDS, V, 0, 0, 0},
    {OP_EMBED_W, {T, W, V, 0}, 0, "01 0", "21", JIG_IDS, V, 0, 0, 0},
    {OP_NORM, {T, W}, 0, "01 1", "01 0", 0, 0, 0, 0, 0},
    {OP_NORM_D, {T, W}, 0, "01 01 1 0", "01", 0, 0, 0, 0, 0},
    {OP_NORM_W, {T, W}, 0, "01 01 0", "1", 0, 0, 0, 0, 0},
    {OP_ACT, {PAIRS, F}, 0, "0(1+1) 0", "01", 0, 0, 0, 0, 0},
    {OP_ACT_D, {PAIRS, F}, 0, "01 0(1+1) 0", "0(1+1) 0", 0, 0, 0, 0, 0},
    {OP_GATE, {T, W, W}, 0, "01 02", "01", 0, 0, 0, 0, 0},
    {OP_QKV_SPLIT, {T, HEADS, KEYS, D}, 0, "0(1+2+2)3", "013 023 023", 0, 0, 0, 0, 0},
    {OP_QKV_JOIN, {T, HEADS, KEYS, D}, 0, "013 023 023", "0(1+2+2)3", 0, 0, 0, 0, 0},
    {OP_ROPE, {T, W, HEADS, D, 0, D}, 0, "15", "023", 0, 0, 0, 0, 0},
    {OP_ROPE_D, {T, W, HEADS, D, 0, D}, 0, "15", "023", 0, 0, 0, 0, 0},
    {OP_MLA_KV_SPLIT, {T, R, DR}, 0, "0(1+2)", "01 02", 0, 0, 0, 0, 0},
    {OP_MLA_KV_MERGE, {T, R, DR}, 0, "01 02", "0(1+2)", 0, 0, 0, 0, 0},
    {OP_MLA_KV_JOIN, {T, HEADS, D, DR, D}, 0, "01(2+4) 03", "01(2+3) 014", 0, 0, 0, 0, 0},
    {OP_MLA_KV_JOIN_D, {T, HEADS, D, DR, D}, 0, "01(2+3) 014", "01(2+4) 03", 0, 0, 0, 0, 0},
    {OP_ROUTER, {T, E, K}, 0, "01", "02 02", 0, 0, 0, 0, 0},
    {OP_ROUTER_D, {T, E, K}, 0, "02 01 02", "01", JIG_IDS, E, 0, 0, 0},
    {OP_AUX_LOSS, {T, W, E, K, 0, 0, T, W}, 0, "02 -", "=2 02", 0, 0, 0, 0, 0},
    {OP_LOAD, {T, E, K}, 0, "02 -", "1", JIG_IDS, E, 0, 0, 0},
    {OP_SORT, {T, E, K, PAIRS}, 0, "02 -", "02 (1+1)", JIG_IDS, E, 0, 0, 0},
    {OP_PERMUTE, {T, K, H, PAIRS}, 0, "02 01 01", "32 3", JIG_ROWS, PAIRS, E, 0, 0},
    {OP_PERMUTE_D, {T, K, H, PAIRS}, 0, "32 3 01", "02 01", JIG_ROWS, PAIRS, E, 0, 0},
    {OP_UNPERMUTE, {T, K, H, PAIRS}, 0, "32 01", "02", JIG_ROWS, PAIRS, E, 0, 0},
    {OP_UNPERMUTE_D, {T, K, H, PAIRS}, 0, "02 01", "32", JIG_ROWS, PAIRS, E, 0, 0},
    {OP_SQUARES, {N, 1}, 0, "0 =8", "=1", JIG_BLOCKS, N, 0, 1, 0},
    {OP_ADAMW, {N, 1, 0, N}, 0, "0 =8 =9", "0 0 0 0", JIG_BLOCKS, N, 0, 1, 14},
};

/* ---- sizes */

static int64_t factor(const op *o, const char **s)
{
    if (**s != '(') return o->dim[*(*s)++ - '0'];
    int64_t sum = 0;
    while (*(*s)++ != ')') sum += o->dim[*(*s)++ - '0'];
    return sum;
}

static int64_t elements(const op *o, const char **s)
{
    int64_t n = 1;
    if (**s == '-') n = 0, ++*s;
    if (**s == '=') n = *++*s - '0', ++*s;
    while (**s && **s != ' ') n *= factor(o, s);
    *s += **s == ' ';
    return n;
}

static timed_op op_of(const kind_row *k)
{
    timed_op t = {.o = {.kind = k->kind, .flags = k->flags, .name = "kind", .real = {0.9, 0.95}},
                  .wide_in = k->wide_in,
                  .wide_out = k->wide_out,
                  .table = k->table,
                  .table_n = k->table_n,
                  .table_each = k->table_each};
    const char *in = k->in, *out = k->out;
    memcpy(t.o.dim, k->dim, sizeof k->dim);
    t.o.real[REAL_ADAMW_eps] = 1e-8;
    for (int i = 0; *in; i++) t.in[i] = elements(&t.o, &in);
    for (int i = 0; *out; i++) t.out[i] = elements(&t.o, &out);
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
    timed_op t = {.o = {.kind = OP_ADD, .dim = {SMALL}, .name = "launch"}};
    t.in[IN_ADD_a] = t.in[IN_ADD_b] = t.out[OUT_ADD_y] = SMALL;
    const kind_row router = {OP_ROUTER, {SMALL, E, K}, 0, "01", "02 02", 0, 0, 0, 0, 0};
    const kind_row routing = {OP_PERMUTE, {SMALL, K, SMALL, SMALL * K},
                              0,          "02 01 01",
                              "32 3",     JIG_ROWS,
                              SMALL * K,  SMALL,
                              0,          0};
    const int64_t v = 1024, in[JIG_TENSORS] = {SMALL * SMALL, v * SMALL, SMALL, SMALL};
    const int64_t out[JIG_TENSORS] = {2, SMALL * SMALL, v * SMALL};
    switch (k) {
    case LAUNCH_PRODUCT:
        return gemm_op(OP_GEMM, SMALL, SMALL, SMALL);
    case LAUNCH_GROUPED:
        return grouped_op(j, OP_GROUPED, 1, SMALL, SMALL);
    case LAUNCH_ATTENTION: /* the dearer of both */
        t = attention_op(j, SMALL, D, D, true);
        break;
    case LAUNCH_HEAD:
        t.o = (op){.kind = OP_HEAD_LOSS, .dim = {SMALL, SMALL, v, SMALL}, .name = "launch"};
        memcpy(t.in, in, sizeof in);
        memcpy(t.out, out, sizeof out);
        t.table = JIG_IDS;
        t.table_n = v;
        break;
    case LAUNCH_ROUTER:
        return op_of(&router);
    case LAUNCH_ROUTING:
        return op_of(&routing);
    default:
        break;
    }
    return t;
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
