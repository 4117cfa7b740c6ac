/* measure.c - products and attention by size, and the order in which all is measured. */
#include "run/measure/measure.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/trainer/agree.h"
#include "run/measure/jig.h"

static const double sides[] = {32, 64, 128, 256, 512, 1024, 2048};
static const double depths[] = {32, 64, 128, 256, 1024, 2048};
static const double expert_rows[] = {1, 4, 16, 32, 64, 128, 256, 512, 1024};
static const double lengths[] = {64, 128, 256, 512, 1024, 2048, 4096};
static const double head_sizes[] = {16, 32, 64, 128, 256};
static const double passes[] = {1 << 12, 1 << 14, 1 << 16, 1 << 18,
                                1 << 20, 1 << 22, 1 << 24, 1 << 26};

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- products */

static timed_op product(op_kind kind, int64_t m, int64_t n, int64_t k)
{
    timed_op t = {.o = {.kind = kind, .dim = {m, n, k}, .name = "product"}, .table = -1};
    int64_t x = m * k, w = n * k, y = m * n;
    if (kind == OP_GEMM)
        t.in[IN_GEMM_x] = x, t.in[IN_GEMM_w] = w, t.out[OUT_GEMM_y] = y;
    else if (kind == OP_GEMM_D)
        t.in[IN_GEMM_D_dy] = y, t.in[IN_GEMM_D_w] = w, t.out[OUT_GEMM_D_dx] = x;
    else
        t.in[IN_GEMM_W_dy] = y, t.in[IN_GEMM_W_x] = x, t.out[OUT_GEMM_W_dw] = w;
    return t;
}

/* Result of side squared, sums of `depth`, as each of the three products of a layer. */
static double products(jig *j, double side, double depth)
{
    int64_t s = (int64_t)side, d = (int64_t)depth;
    timed_op list[] = {product(OP_GEMM, s, s, d), product(OP_GEMM_D, s, d, s),
                       product(OP_GEMM_W, d, s, s)};
    return jig_flops(j, list, COUNT(list));
}

static double by_side(jig *j, double side)
{
    return products(j, side, MEASURED_DEPTH);
}

static double by_depth(jig *j, double depth)
{
    return products(j, MEASURED_DEPTH, depth);
}

/* ---- experts */

enum { EXPERTS = 8, EXPERT_SIDE = 512 };

static timed_op grouped(op_kind kind, int64_t rows)
{
    int64_t room = rows * EXPERTS, x = room * EXPERT_SIDE, w = EXPERTS * EXPERT_SIDE * EXPERT_SIDE;
    timed_op t = {.o = {.kind = kind, .name = "experts"}, .table = 2};
    const int64_t dim[] = {room, EXPERTS, EXPERT_SIDE, EXPERT_SIDE};
    memcpy(t.o.dim, dim, sizeof dim);
    if (kind == OP_GROUPED_W)
        t.in[IN_GROUPED_W_dy] = t.in[IN_GROUPED_W_x] = x, t.out[OUT_GROUPED_W_dw] = w;
    else /* rows in and out have one size, forward and backward */
        t.in[IN_GROUPED_x] = t.out[OUT_GROUPED_y] = x, t.in[IN_GROUPED_w] = w;
    return t;
}

static double experts(jig *j, double rows)
{
    int64_t n = (int64_t)rows;
    timed_op list[] = {grouped(OP_GROUPED, n), grouped(OP_GROUPED_D, n), grouped(OP_GROUPED_W, n)};
    for (int e = 0; e <= EXPERTS; e++) j->table[e] = (int32_t)(e * n);
    return jig_flops(j, list, COUNT(list));
}

/* ---- attention */

enum { HEADS = 8, KEY_HEADS = 4, USUAL_LENGTH = 1024 };

static timed_op attention(int64_t s, int64_t d, bool backward)
{
    int64_t q = s * HEADS * d, k = s * KEY_HEADS * d, lse = s * HEADS;
    timed_op t = {.o = {.kind = backward ? OP_ATTN_D : OP_ATTN, .name = "attention"}, .table = -1};
    const int64_t dim[] = {1, s, HEADS, KEY_HEADS, d, d, 0};
    const int64_t in[2][JIG_TENSORS] = {{q, k, k}, {q, q, k, k, q, lse}};
    const int64_t out[2][JIG_TENSORS] = {{q, lse}, {q, k, k}};
    memcpy(t.o.dim, dim, sizeof dim);
    memcpy(t.in, in[backward], sizeof t.in);
    memcpy(t.out, out[backward], sizeof t.out);
    t.o.real[REAL_ATTN_scale] = 0.125;
    return t;
}

static double attention_forward(jig *j, double length)
{
    timed_op t = attention((int64_t)length, MEASURED_HEAD, false);
    return jig_flops(j, &t, 1);
}

static double attention_backward(jig *j, double length)
{
    timed_op t = attention((int64_t)length, MEASURED_HEAD, true);
    return jig_flops(j, &t, 1);
}

static double by_head(jig *j, double size)
{
    timed_op list[] = {attention(USUAL_LENGTH, (int64_t)size, false),
                       attention(USUAL_LENGTH, (int64_t)size, true)};
    return jig_flops(j, list, COUNT(list));
}

/* ---- all of it */

typedef struct series {
    double (*rate)(jig *j, double x);
    const double *x;
    int n, ops; /* points; operations of each */
    curve *to;
} series;

static int add_up(const series *list, int n, int most)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += (most && list[i].n > most ? most : list[i].n) * list[i].ops;
    return sum;
}

static void measure_all(jig *j, measured *m)
{
    const series list[] = {
        {by_side, sides, COUNT(sides), 3, &m->gemm},
        {by_depth, depths, COUNT(depths), 3, &m->deep},
        {experts, expert_rows, COUNT(expert_rows), 3, &m->grouped},
        {attention_forward, lengths, COUNT(lengths), 1, &m->attention[0]},
        {attention_backward, lengths, COUNT(lengths), 1, &m->attention[1]},
        {by_head, head_sizes, COUNT(head_sizes), 2, &m->heads},
        {measure_memory, passes, COUNT(passes), measured_passes, &m->memory},
        {measure_copies, passes, COUNT(passes), measured_copies, &m->copy},
    };
    j->total = add_up(list, COUNT(list), j->o->rows) + MEASURED_ONCE + measure_messages_count(j);
    j->total *= MEASURE_ROUNDS;
    j->window = j->o->seconds / j->total;
    for (int round = 0; round < MEASURE_ROUNDS; round++) {
        for (int i = 0; i < COUNT(list); i++)
            for (int k = 0; k < list[i].n && (!j->o->rows || k < j->o->rows); k++)
                jig_point(list[i].to, k, list[i].x[k], list[i].rate(j, list[i].x[k]));
        measure_once(j, m);
        if (j->ranks > 1) measure_messages(j, m);
    }
    measure_messages_end(m);
}

static double others_since(const jig *j, const jig_load *before)
{
    jig_load now = jig_load_now(j);
    double all = now.all - before->all, own = now.own - before->own;
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), time = now.when - before->when;
    return all > own ? (all - own) / (cores * time) : 0;
}

static float *pool(void)
{
    const size_t line = 64;
    float *x = aligned_alloc(line, sizeof(float) * ROOM_FLOATS);
    /* small numbers, none the same as the next */
    for (int64_t i = 0; x && i < ROOM_FLOATS; i++) x[i] = (float)(i * 7919 % 2003) * 1e-3F - 1;
    return x;
}

status measure_machine(measured *out, comm *c, const measure_options *o, error *err)
{
    jig j = {.c = c, .ranks = c ? comm_size(c) : 1, .o = o};
    j.crowded = j.ranks * o->threads > sysconf(_SC_NPROCESSORS_ONLN);
    measured m = {.ranks = (int)j.ranks, .threads = o->threads};
    status s = OK;
    kernels_threads(o->threads);
    j.in = pool();
    j.out = pool();
    j.table = calloc(ROOM_TABLE, sizeof *j.table);
    j.times = calloc(ROOM_TIMES, sizeof *j.times);
    j.room = calloc(1, ROOM_WORKSPACE);
    if (!j.in || !j.out || !j.table || !j.times || !j.room)
        s = error_set(err, ERR_MACHINE, "the measurement takes %d MiB a rank; there are none left",
                      2 * ROOM_FLOATS / (1 << 18) + ROOM_WORKSPACE / (1 << 20));
    s = ranks_agree(c, s, err);
    if (!s) {
        kernels_workspace(j.room, ROOM_WORKSPACE);
        jig_load before = jig_load_now(&j);
        measure_all(&j, &m);
        m.others = others_since(&j, &before);
        kernels_workspace(NULL, 0);
    }
    free(j.in);
    free(j.out);
    free(j.table);
    free(j.times);
    free(j.room);
    if (!s) *out = m;
    return s;
}

double measured_best(const curve *c)
{
    double best = 0;
    for (int i = 0; i < c->n; i++)
        if (c->y[i] > best) best = c->y[i];
    return best;
}

double measured_peak(const measured *m)
{
    const curve *all[] = {&m->gemm, &m->deep, &m->grouped, &m->attention[0], &m->attention[1]};
    double best = 0;
    for (int i = 0; i < COUNT(all); i++) {
        double own = measured_best(all[i]);
        if (own > best) best = own;
    }
    return best;
}

/* 1 / rate is a line over 1 / K: least squares. */
double measured_depth(const measured *m)
{
    const curve *c = &m->deep;
    double n = c->n, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < c->n; i++) {
        double x = 1 / c->x[i], y = 1 / c->y[i];
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx), limit = (sy - slope * sx) / n;
    double depth = slope / limit;
    return n > 1 && depth > 1 && depth < 1e6 ? depth : 1;
}
