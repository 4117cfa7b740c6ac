/* control.c - the control plane: blocking calls on host memory, for barriers, sums and files. */
#include "backend/comm/state.h"

void comm_settles(comm *c, void (*settle)(void *with), void *with)
{
    c->settle = settle;
    c->settle_with = with;
}

static message *take(comm *c, message_kind kind, comm_group g, const char *what)
{
    if (c->settle) c->settle(c->settle_with);
    return comm_take(c, kind, g, what);
}

static void blocking(comm *c, message *m)
{
    m->stream = STREAM_HOST;
    stream_put(c, m);
    comm_finish(c, m);
}

static void collect(comm *c, comm_group g, const void *mine, size_t n, void *all, const char *what)
{
    message *m = take(c, MESSAGE_GATHER, g, what);
    m->x = mine;
    m->y = all;
    m->n = (int64_t)n;
    m->type = DTYPE_U8;
    blocking(c, m);
}

void comm_collect(comm *c, comm_group g, const void *mine, size_t n, void *all)
{
    collect(c, g, mine, n, all, "collect");
}

void comm_barrier(comm *c, comm_group g)
{
    char here = 0;
    collect(c, g, &here, 1, c->collected, "barrier");
}

void comm_broadcast(comm *c, comm_group g, int64_t root_place, void *bytes, size_t n)
{
    message *m = take(c, MESSAGE_BROADCAST, g, "broadcast");
    m->y = bytes;
    m->n = (int64_t)n;
    m->type = DTYPE_U8;
    m->step = root_place;
    blocking(c, m);
}

static double added(double a, double b)
{
    return a + b;
}

/* A value that is no number stays one, whoever has it. */
static double larger(double a, double b)
{
    return b > a || b != b ? b : a;
}

/* Everybody gets everybody's values and joins them in the order of places: same bits on all. */
static void join(comm *c, comm_group g, double *values, int n, double (*two)(double, double),
                 const char *what)
{
    int64_t width = c->groups[g].n, most = c->collected_room / (width > 0 ? width : 1);
    for (int64_t from = 0; from < n; from += most) {
        int64_t count = n - from < most ? n - from : most;
        collect(c, g, values + from, (size_t)count * sizeof *values, c->collected, what);
        for (int64_t i = 0; i < count; i++) {
            double sum = c->collected[i];
            for (int64_t p = 1; p < width; p++) sum = two(sum, c->collected[p * count + i]);
            values[from + i] = sum;
        }
    }
}

void comm_sum(comm *c, comm_group g, double *values, int n)
{
    join(c, g, values, n, added, "sum");
}

void comm_max(comm *c, comm_group g, double *values, int n)
{
    join(c, g, values, n, larger, "max");
}
