/* compare.c - compares two traces, operation by operation.
 *
 * I1  Rows are means per rank and step, because traces may have different ranks or numbers of
 *     ranks, and a run's trace has several steps.
 * I2  In whole steps, sums are compared: an operation that occurs twice as often costs twice as
 *     much. Windows contain more or fewer repetitions depending on where they were cut, so only
 *     durations are compared there. An operation that only one of the two has counts in full.
 * I3  Only waits of the compute stream count; other streams are expected to wait. */
#include "predict/trace/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows */

static int by_text(const char *x, const char *y)
{
    return strcmp(x ? x : "", y ? y : "");
}

static int same_row(const trace_op *a, const trace_op *b)
{
    if (a->what != b->what) return a->what < b->what ? -1 : 1;
    int order = by_text(a->kind, b->kind);
    if (!order) order = by_text(a->name, b->name);
    return order ? order : by_text(a->phase, b->phase);
}

static int by_row(const void *x, const void *y)
{
    return same_row(*(const trace_op *const *)x, *(const trace_op *const *)y);
}

static bool counts(const trace *t, const trace_op *o)
{
    return o->what == TRACE_OPERATION || strcmp(t->streams[o->stream], "compute") == 0; /* I3 */
}

/* Operations and waits that count, like beside like; returns how many. */
static int64_t sorted(const trace_op ***out, const trace *t, arena *a)
{
    const trace_op **list = ARENA_ARRAY(a, const trace_op *, t->n + 1);
    int64_t n = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (counts(t, &t->ops[i])) list[n++] = &t->ops[i];
    if (n) qsort(list, (size_t)n, sizeof *list, by_row);
    *out = list;
    return n;
}

/* Steps of ranks. */
static double ranks_of(const trace *t)
{
    return (t->n_ranks > 0 ? (double)t->n_ranks : 1) * trace_steps_of(t);
}

/* Adds all operations like the first of the list; returns how many they were. */
static int64_t add_ops(trace_row *row, int side, const trace_op **list, int64_t n, double ranks)
{
    int64_t i = 0;
    for (; i < n && same_row(list[i], list[0]) == 0; i++) {
        row->n[side] += 1 / ranks; /* I1 */
        row->seconds[side] += (list[i]->end - list[i]->start) / ranks;
    }
    return i;
}

static void set_difference(trace_row *r, bool whole)
{
    r->difference = r->seconds[1] - r->seconds[0];
    if (whole || r->n[0] == 0 || r->n[1] == 0) return; /* I2 */
    r->difference = r->n[0] * (r->seconds[1] / r->n[1] - r->seconds[0] / r->n[0]);
}

static int by_difference(const void *x, const void *y)
{
    double a = fabs(((const trace_row *)x)->difference);
    double b = fabs(((const trace_row *)y)->difference);
    return (a < b) - (a > b);
}

static bool is_whole(const trace *t)
{
    return t->from == 0 && t->span >= t->step * (1 - 1e-6);
}

void trace_compare(trace_comparison *out, const trace *x, const trace *y, arena *a)
{
    const trace_op **p, **q;
    int64_t n = sorted(&p, x, a), m = sorted(&q, y, a), i = 0, k = 0;
    *out = (trace_comparison){.whole = is_whole(x) && is_whole(y)};
    out->rows = ARENA_ARRAY(a, trace_row, n + m + 1);
    while (i < n || k < m) {
        int order = i == n ? 1 : k == m ? -1 : same_row(p[i], q[k]);
        const trace_op *o = order <= 0 ? p[i] : q[k];
        trace_row *r = &out->rows[out->n++];
        *r = (trace_row){.what = o->what, .name = o->name, .kind = o->kind, .phase = o->phase};
        if (order <= 0) i += add_ops(r, 0, p + i, n - i, ranks_of(x));
        if (order >= 0) k += add_ops(r, 1, q + k, m - k, ranks_of(y));
        out->common += order == 0 && o->what == TRACE_OPERATION;
        set_difference(r, out->whole);
    }
    if (out->n) qsort(out->rows, (size_t)out->n, sizeof *out->rows, by_difference);
}

/* ---- one time axis */

/* The place of a stream's name among those of the merged trace. */
static int stream_of(trace *t, const char *name)
{
    for (int i = 0; i < t->n_streams; i++)
        if (strcmp(t->streams[i], name) == 0) return i;
    t->streams[t->n_streams] = name;
    return t->n_streams++;
}

static void add_side(trace *out, const trace *t, int64_t shift, const char *prefix)
{
    trace own = *t;
    own.ops = ARENA_ARRAY(out->a, trace_op, t->n + 1);
    for (int64_t i = 0; i < t->n; i++) {
        own.ops[i] = t->ops[i];
        own.ops[i].stream = stream_of(out, t->streams[t->ops[i].stream]);
    }
    trace_join(out, &own, shift, prefix);
}

void trace_merge(trace *out, const trace *x, const trace *y, arena *a)
{
    int64_t shift = 1, most = 0;
    for (int64_t i = 0; i < x->n; i++) most = x->ops[i].rank > most ? x->ops[i].rank : most;
    for (int64_t i = 0; i < x->n_ranks; i++)
        most = x->ranks[i].rank > most ? x->ranks[i].rank : most;
    while (shift <= most) shift *= 10;
    trace_init(out, "two traces", a);
    out->recipe = arena_text(a, "A: %s; B: %s", x->recipe, y->recipe);
    out->machine = arena_text(a, "A: %s; B: %s", x->machine, y->machine);
    out->step = x->step > y->step ? x->step : y->step;
    out->streams = ARENA_ARRAY(a, const char *, x->n_streams + y->n_streams + 1);
    add_side(out, x, 0, "A: ");
    add_side(out, y, shift, "B: ");
    trace_sort(out);
}
