/* receives.c - receives cut where their sends begin.
 *
 * I1  What is cut keeps its whole time: the two parts follow each other. */
#include "predict/trace/receives.h"

#include <stdlib.h>

#include "predict/trace/ends.h"

static int by_ends(const void *x, const void *y)
{
    const message_end *a = x, *b = y;
    const int64_t p[] = {a->from, a->to, a->tag, a->number};
    const int64_t q[] = {b->from, b->to, b->tag, b->number};
    for (int i = 0; i < 4; i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}

/* Its send among those of the trace; NULL: not there. */
static const trace_op *send_of(const trace *t, const trace_op *o, const message_end *sends,
                               int64_t n)
{
    message_end key = {o->peer, o->rank, o->tag, o->number, false, 0};
    const message_end *m = n ? bsearch(&key, sends, (size_t)n, sizeof key, by_ends) : NULL;
    return m ? &t->ops[m->op] : NULL;
}

void trace_split_receives(trace *t)
{
    arena *scratch = arena_create();
    message_end *sends;
    int64_t all = message_ends(t, &sends, scratch), n = 0, ops = t->n;
    for (int64_t i = 0; i < all; i++)
        if (!sends[i].receives) sends[n++] = sends[i];
    for (int64_t i = 0; i < ops; i++) {
        trace_op o = t->ops[i];
        bool receives = o.message == TRACE_RECEIVES;
        const trace_op *send = receives || o.awaits ? send_of(t, &o, sends, n) : NULL;
        if (!send || send->start <= o.start) continue;
        double cut = send->start < o.end ? send->start : o.end;
        if (receives && cut >= o.end) continue; /* clocks that disagree */
        t->ops[i].start = cut;                  /* I1 */
        t->ops[i].seconds = o.end - cut;
        trace_op wait = o;
        wait.what = TRACE_WAIT;
        wait.kind = "pipeline bubble";
        wait.phase = wait.group = NULL;
        wait.bytes = -1;
        wait.message = TRACE_NO_MESSAGE;
        wait.awaits = false;
        wait.end = cut;
        wait.seconds = cut - o.start;
        trace_add(t, wait);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (t->ops[i].end > t->ops[i].start) t->ops[kept++] = t->ops[i];
    t->n = kept;
    arena_destroy(scratch);
}
