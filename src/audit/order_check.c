/* order_check.c - replays lists, with what every operation knows to be complete when it begins.
 *
 * This is a vector clock with one component for each operation instead of one for each stream:
 * under ORDER_HOST messages of one stream end in any order, so that a count would say too much.
 *
 * I1  An operation knows what its stream knew when it was reached. A stream learns by a WAIT: the
 *     operation that is named, and all that this one knew. A stream that runs in order learns of
 *     its own operations by itself.
 * I2  Of two conflicting operations the later one in the lists knows the earlier one, or they are
 *     not ordered: the earlier one cannot wait for what comes after it. */
#include "audit/order_check.h"

#include <string.h>

typedef struct span {
    int64_t start, end;
    bool written;
} span;

typedef struct step {
    const op *o;
    int list, n_spans;
    span *spans;
    uint64_t *known; /* [words] what was complete when it began (I1) */
} step;

typedef struct replay {
    order_report *out;
    order_options o;
    arena *a;
    step *steps;
    int n, words;
    uint64_t *streams[STREAM_COUNT]; /* [words] what each stream knows */
    uint64_t *at_start;              /* [words] what the compute stream knew at the list's start */
} replay;

/* ---- sets of steps */

static bool has(const uint64_t *set, int i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void put(uint64_t *set, int i)
{
    set[i / 64] |= (uint64_t)1 << (i % 64);
}

static void put_all(uint64_t *set, const uint64_t *more, int words)
{
    for (int i = 0; i < words; i++) set[i] |= more[i];
}

/* ---- memory */

static void add_spans(step *s, const order_list *l, const int *ids, int n, bool written)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || l->start[ids[i]] < 0) continue;
        int64_t start = l->start[ids[i]];
        s->spans[s->n_spans++] = (span){start, start + l->seg->bufs[ids[i]].bytes, written};
    }
}

static bool conflict(const step *a, const step *b)
{
    for (int i = 0; i < a->n_spans; i++)
        for (int k = 0; k < b->n_spans; k++) {
            const span *x = &a->spans[i], *y = &b->spans[k];
            if ((x->written || y->written) && x->start < y->end && y->start < x->end) return true;
        }
    return false;
}

/* ---- the replay */

static bool runs_in_order(const replay *r, const op *o)
{
    return !op_is_comm(o->kind) || r->o.model == ORDER_QUEUES;
}

/* The operation that a WAIT of the list names; NULL: it is in none of the lists. */
static const step *target_of(const replay *r, const op *wait, int list)
{
    bool across = (wait->flags & ACROSS) != 0;
    if (wait->dim[DIM_WAIT_EVENT] == 0) return NULL;
    for (int i = r->n - 1; i >= 0; i--) {
        const step *s = &r->steps[i];
        if (((s->o->flags & ACROSS) != 0) != across || s->o->event != wait->dim[DIM_WAIT_EVENT])
            continue;
        if (across || s->list == list) return s;
    }
    return NULL;
}

static void learn(replay *r, const op *wait, int list) /* I1 */
{
    if (wait == r->o.left_out) return;
    if (!(wait->flags & ACROSS) && wait->dim[DIM_WAIT_EVENT] == 0)
        put_all(r->streams[wait->stream], r->at_start, r->words);
    const step *s = target_of(r, wait, list);
    if (!s) return;
    put_all(r->streams[wait->stream], s->known, r->words);
    put(r->streams[wait->stream], (int)(s - r->steps));
}

static void compare(replay *r, const step *s) /* I2 */
{
    order_report *out = r->out;
    for (int i = 0; i < r->n; i++) {
        const step *before = &r->steps[i];
        bool messages = op_is_comm(before->o->kind) && op_is_comm(s->o->kind);
        if (before->o->stream == s->o->stream && !messages) continue;
        if (!conflict(before, s)) continue;
        out->pairs++;
        if (has(s->known, i)) continue;
        if (!out->unordered++ && !out->first[0]) {
            out->first[0] = before->o;
            out->first[1] = s->o;
        }
    }
}

static void run(replay *r, const order_list *l, int list, const op *o)
{
    step *s = &r->steps[r->n];
    *s = (step){.o = o, .list = list, .spans = ARENA_RAW(r->a, span, OP_IN_MAX + OP_OUT_MAX)};
    add_spans(s, l, o->in, OP_IN_MAX, false);
    add_spans(s, l, o->out, OP_OUT_MAX, true);
    s->known = ARENA_RAW(r->a, uint64_t, r->words);
    memcpy(s->known, r->streams[o->stream], sizeof *s->known * (size_t)r->words);
    if (r->o.model == ORDER_HOST) put_all(s->known, r->streams[STREAM_COMPUTE], r->words);
    compare(r, s);
    if (runs_in_order(r, o)) put(r->streams[o->stream], r->n);
    r->n++;
}

/* What a list leaves under way. */
static void end_list(replay *r, int list)
{
    for (int i = 0; i < r->n; i++) {
        const step *s = &r->steps[i];
        if (s->list != list || (s->o->flags & ACROSS)) continue;
        if (!op_is_beside(s->o->kind) || has(r->streams[STREAM_COMPUTE], i)) continue;
        r->out->unfinished++;
        if (!r->out->first[0]) r->out->first[0] = s->o;
    }
}

void order_check(order_report *out, const order_list *lists, int n, order_options o, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    *out = (order_report){0};
    replay r = {.out = out, .o = o, .a = scratch};
    int steps = 0;
    for (int i = 0; i < n; i++) steps += lists[i].seg->n_ops[lists[i].phase];
    r.words = steps / 64 + 1;
    r.steps = ARENA_RAW(scratch, step, steps + 1);
    for (int i = 0; i < STREAM_COUNT; i++) r.streams[i] = ARENA_ARRAY(scratch, uint64_t, r.words);
    r.at_start = ARENA_RAW(scratch, uint64_t, r.words);
    for (int i = 0; i < n; i++) {
        const segment *seg = lists[i].seg;
        memcpy(r.at_start, r.streams[STREAM_COMPUTE], sizeof *r.at_start * (size_t)r.words);
        for (int k = 0; k < seg->n_ops[lists[i].phase]; k++) {
            const op *x = &seg->ops[lists[i].phase][k];
            if (x->kind == OP_WAIT)
                learn(&r, x, i);
            else
                run(&r, &lists[i], i, x);
        }
        end_list(&r, i);
    }
    arena_release(scratch, mark);
}

order_list order_list_of(const program *p, const item *it, arena *a)
{
    int64_t *start = ARENA_RAW(a, int64_t, it->seg->n_bufs + 1);
    for (int i = 0; i < it->seg->n_bufs; i++) start[i] = program_place(p, it, i);
    return (order_list){it->seg, it->phase, start};
}
