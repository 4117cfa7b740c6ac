/* trace.c - a list of operations with their times, and what must be true of it. */
#include "predict/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "predict/trace/ends.h"

void trace_init(trace *t, const char *source, arena *a)
{
    *t = (trace){.a = a, .source = source, .recipe = "", .machine = ""};
}

void trace_add_rank(trace *t, int64_t rank, const char *name)
{
    ARENA_GROW(t->a, t->ranks, t->n_ranks, t->ranks_room);
    t->ranks[t->n_ranks++] = (trace_rank){rank, name};
}

void trace_add(trace *t, trace_op o)
{
    if (!(o.end > o.start)) return;
    ARENA_GROW(t->a, t->ops, t->n, t->room);
    t->ops[t->n++] = o;
}

static int by_place(const void *x, const void *y)
{
    const trace_op *a = x, *b = y;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static int by_rank(const void *x, const void *y)
{
    const trace_rank *a = x, *b = y;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

void trace_sort(trace *t)
{
    if (t->n) qsort(t->ops, (size_t)t->n, sizeof *t->ops, by_place);
    if (t->n_ranks) qsort(t->ranks, (size_t)t->n_ranks, sizeof *t->ranks, by_rank);
}

void trace_join(trace *to, const trace *from, int64_t shift, const char *prefix)
{
    for (int64_t i = 0; i < from->n_ranks; i++)
        trace_add_rank(to, from->ranks[i].rank + shift,
                       arena_text(to->a, "%s%s", prefix, from->ranks[i].name));
    for (int64_t i = 0; i < from->n; i++) {
        trace_op o = from->ops[i];
        o.rank += shift;
        o.peer += shift;
        trace_add(to, o);
    }
    if (from->span > to->span) to->span = from->span;
}

/* ---- sums */

static void add_to_sum(trace_sum *s, const trace_op *o)
{
    double seconds = o->end - o->start;
    if (s->n++ && o->start < s->last) s->overlap += s->last - o->start;
    if (o->what == TRACE_WAIT)
        s->waits += seconds;
    else
        s->operations += seconds;
    if (o->end > s->last) s->last = o->end;
}

int64_t trace_sums(const trace *t, trace_sum **out, arena *a)
{
    trace_sum *list = NULL;
    int64_t n = 0, room = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const trace_op *o = &t->ops[i];
        if (!i || o->rank != o[-1].rank || o->stream != o[-1].stream) {
            ARENA_GROW(a, list, n, room);
            list[n++] = (trace_sum){.rank = o->rank, .stream = o->stream, .first = o->start};
        }
        add_to_sum(&list[n - 1], o);
    }
    for (int64_t i = 0; i < n; i++) /* I2 */
        list[i].idle = t->span - list[i].operations - list[i].waits + list[i].overlap;
    *out = list;
    return n;
}

/* ---- messages */

static int by_message(const void *x, const void *y)
{
    const message_end *a = x, *b = y;
    const int64_t p[] = {a->from, a->to, a->tag, a->number, a->receives};
    const int64_t q[] = {b->from, b->to, b->tag, b->number, b->receives};
    for (int i = 0; i < 5; i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}

bool message_pair(const message_end *a, const message_end *b)
{
    return !a->receives && b->receives && a->from == b->from && a->to == b->to &&
           a->tag == b->tag && a->number == b->number;
}

int64_t message_ends(const trace *t, message_end **out, arena *a)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->n; i++) n += t->ops[i].message != TRACE_NO_MESSAGE;
    message_end *list = ARENA_ARRAY(a, message_end, n + 1);
    n = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const trace_op *o = &t->ops[i];
        bool sends = o->message == TRACE_SENDS;
        if (o->message == TRACE_NO_MESSAGE) continue;
        list[n++] = (message_end){
            sends ? o->rank : o->peer, sends ? o->peer : o->rank, o->tag, o->number, !sends, i};
    }
    if (n) qsort(list, (size_t)n, sizeof *list, by_message);
    *out = list;
    return n;
}

static bool is_traced(const trace *t, int64_t rank)
{
    for (int64_t i = 0; i < t->n_ranks; i++)
        if (t->ranks[i].rank == rank) return true;
    return false;
}

/* One that crosses the edge of the window may have its other end outside. */
static bool is_inside(const trace *t, const trace_op *o)
{
    return o->start > 0 && o->end < t->span;
}

trace_matches trace_match(const trace *t, arena *a)
{
    message_end *list;
    int64_t n = message_ends(t, &list, a);
    trace_matches m = {0};
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && message_pair(&list[i], &list[i + 1])) {
            m.matched++;
            i++;
            continue;
        }
        const trace_op *o = &t->ops[list[i].op];
        m.lost += is_traced(t, o->peer) && is_inside(t, o);
    }
    return m;
}
