/* fast_move.c - MOVE on threads, in runs as long as both orders allow.
 *
 * I1  Loops that step over the other side's neighbour become one: what lies together on both sides
 *     is one run, whatever the sizes say.
 * I2  Every number of y has one writer. Where strides of y make numbers meet (a sum), or may, the
 *     plain row is used: it has an order. */
#include <string.h>

#include "backend/cpu/kernels/fast_dense.h"
#include "op/op_operands.h"

/* The loops outside of a run, the outermost first. */
typedef struct plan {
    int64_t n[3], x[3], y[3]; /* sizes and strides */
    int64_t run;              /* numbers that lie together */
    const float *from;
    float *to;
    bool add;
} plan;

static int64_t size_of(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* I2: each loop, the nearest first, steps over all that the nearer ones reach. */
static bool accepts(const op *o, const op_types *t)
{
    (void)t;
    int64_t reach = o->dim[DIM_MOVE_N3];
    bool used[3] = {false};
    for (int step = 0; step < 3; step++) {
        int near = -1;
        for (int i = 0; i < 3; i++)
            if (!used[i] && (near < 0 || size_of(o->dim[DIM_MOVE_Y0 + i]) <
                                             size_of(o->dim[DIM_MOVE_Y0 + near])))
                near = i;
        used[near] = true;
        if (o->dim[DIM_MOVE_N0 + near] <= 1) continue;
        if (size_of(o->dim[DIM_MOVE_Y0 + near]) < reach) return false;
        reach += (o->dim[DIM_MOVE_N0 + near] - 1) * size_of(o->dim[DIM_MOVE_Y0 + near]);
    }
    return true;
}

/* I1: the innermost loops that only go on where the run ends are part of the run. Loops of one
 * step, whatever their stride, do nothing. */
static plan plan_of(const op *o, const float *x, float *y)
{
    plan p = {.n = {1, 1, 1}, .run = o->dim[DIM_MOVE_N3], .add = o->flags & ACCUMULATE};
    int at = 3;
    for (int i = 2; i >= 0; i--) {
        const int64_t n = o->dim[DIM_MOVE_N0 + i], xs = o->dim[DIM_MOVE_X0 + i],
                      ys = o->dim[DIM_MOVE_Y0 + i];
        if (n == 1) continue;
        if (at == 3 && xs == p.run && ys == p.run) {
            p.run *= n;
            continue;
        }
        at--;
        p.n[at] = n, p.x[at] = xs, p.y[at] = ys;
    }
    p.from = x + o->dim[DIM_MOVE_XO];
    p.to = y + o->dim[DIM_MOVE_YO];
    return p;
}

WIDE static void add_run(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

static void one_run(const plan *p, const float *x, float *y)
{
    if (p->add)
        add_run(y, x, p->run);
    else if (p->run == 1)
        *y = *x;
    else
        memcpy(y, x, sizeof(float) * (size_t)p->run);
}

static void runs(const plan *p, int64_t begin, int64_t end)
{
    int64_t k = begin % p->n[2], j = begin / p->n[2] % p->n[1], i = begin / p->n[2] / p->n[1];
    for (int64_t r = begin; r < end; r++) {
        one_run(p, p->from + (i * p->x[0] + j * p->x[1] + k * p->x[2]),
                p->to + (i * p->y[0] + j * p->y[1] + k * p->y[2]));
        if (++k < p->n[2]) continue;
        k = 0;
        if (++j < p->n[1]) continue;
        j = 0;
        i++;
    }
}

/* A run that is cut: where there are few, one thread would do it all. */
static void long_run(const plan *p, int64_t r, int64_t piece)
{
    const int64_t n = (p->run + piece - 1) / piece;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        plan part = *p;
        part.from += i * piece, part.to += i * piece;
        part.run = p->run - i * piece < piece ? p->run - i * piece : piece;
        runs(&part, r, r + 1);
    }
}

static void move(const op *o, void *const *in, void *const *out)
{
    const op_move a = op_move_of(o, in, out);
    enum { PIECE = 1 << 14, FEW = 16 };
    const plan p = plan_of(o, a.x, a.y);
    const int64_t n = p.n[0] * p.n[1] * p.n[2];
    if (n < FEW && p.run > PIECE) {
        for (int64_t r = 0; r < n; r++) long_run(&p, r, PIECE);
        return;
    }
    const int64_t each = p.run > 0 && p.run < PIECE ? PIECE / p.run : 1;
    const int64_t n_tasks = p.run > 0 ? (n + each - 1) / each : 0;
#pragma omp parallel for schedule(static) if (n_tasks > 1)
    for (int64_t i = 0; i < n_tasks; i++)
        runs(&p, i * each, (i + 1) * each < n ? (i + 1) * each : n);
}

kernel_rows fast_move(void)
{
    static const kernel rows[] = {{OP_MOVE, "threads", .accepts = accepts, .run = move}};
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}
