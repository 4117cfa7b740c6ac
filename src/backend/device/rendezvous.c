/* rendezvous.c - see rendezvous.h. */
#include "backend/device/rendezvous.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Everything that the functions below need of one message. */
typedef struct hall {
    device *d;
    const issue_hooks *h;
    const device_calls *calls;
    rendezvous *m;
    op_stream s;
    const op *o;
    const members *who;
    int64_t n; /* members */
    bool staged;
} hall;

static bool is_pair(const op *o)
{
    return op_is(o->kind, GIVES) || op_is(o->kind, TAKES);
}

static void fail(const hall *x, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "operation %s (%s, group %s): %s", x->o->name ? x->o->name : "",
             op_infos[x->o->kind].name, x->calls->group_name(x->o->group), why);
    x->calls->fail(x->d->c, text);
}

/* ---- notes */

static size_t note_bytes(const op *o, int64_t n)
{
    size_t table = op_is(o->kind, BY_TABLE) ? 4 * (size_t)n * sizeof(int32_t) : 0;
    return offsetof(note, table) + table;
}

static const note *note_at(const hall *x, int64_t place)
{
    return (const note *)(const void *)(x->m->all + (size_t)place * note_bytes(x->o, x->n));
}

static device_address located(const hall *x, const void *at)
{
    return at ? x->h->locate(x->d, at) : (device_address){(device_space)SPACE_NONE, 0};
}

static int64_t elements(const op *o)
{
    return o->dim[op_is(o->kind, BY_TABLE) ? DIM_EXCHANGE_W : DIM_MESSAGE_N];
}

/* NULL: nothing is sent. */
static const void *sent_from(const rendezvous_op *at)
{
    if (op_goes_twice(at->o->kind)) return at->out[OUT_MESSAGE_y];
    return op_is(at->o->kind, TAKES) ? NULL : at->in[IN_MESSAGE_x];
}

int64_t rendezvous_sent(const op *o, const op_types *t, int64_t n)
{
    if (op_is(o->kind, TAKES)) return 0;
    if (op_is(o->kind, BY_TABLE)) return dtype_bytes(o->type, t->in_elements[IN_MESSAGE_x]);
    return dtype_bytes(o->type, o->dim[DIM_MESSAGE_N] * (op_is(o->kind, SCATTERS) ? n : 1));
}

static int64_t sent_now(const hall *x)
{
    int64_t rows = 0;
    if (!op_is(x->o->kind, BY_TABLE)) return rendezvous_sent(x->o, NULL, x->n);
    for (int64_t q = 0; q < x->n; q++) {
        int64_t end = (int64_t)x->m->table[q] + x->m->table[x->n + q];
        if (end > rows) rows = end;
    }
    return dtype_bytes(x->o->type, rows * x->o->dim[DIM_EXCHANGE_W]);
}

static void write_note(const hall *x, const rendezvous_op *at)
{
    const op *o = x->o;
    note *mine = &x->m->mine;
    memset(mine, 0, offsetof(note, table));
    mine->kind = is_pair(o) ? OP_SEND : (int32_t)o->kind; /* both halves say the same */
    mine->type = (int32_t)o->type;
    mine->n = elements(o);
    mine->step = op_is(o->kind, STEPPED) && !is_pair(o) ? o->dim[DIM_MESSAGE_STEP] : 0;
    mine->x = x->staged ? (device_address){(device_space)SPACE_WINDOW, (int64_t)x->s}
                        : located(x, sent_from(at));
    mine->y = located(x, op_is(o->kind, GIVES) ? NULL : at->out[OUT_MESSAGE_y]);
    if (op_is(o->kind, BY_TABLE))
        memcpy(mine->table, x->m->table, 4 * (size_t)x->n * sizeof *mine->table);
}

static void check(const hall *x, const note *other, int64_t place)
{
    char text[240];
    const note *mine = &x->m->mine;
    if (other->kind == mine->kind && other->type == mine->type && other->n == mine->n &&
        other->step == mine->step)
        return;
    snprintf(text, sizeof text,
             "%lld %s (step %lld) here, but rank %lld of the group runs %s of %lld %s (step %lld)",
             (long long)mine->n, dtype_name((dtype)mine->type), (long long)mine->step,
             (long long)place, op_infos[other->kind].name, (long long)other->n,
             dtype_name((dtype)other->type), (long long)other->step);
    fail(x, text);
}

/* ---- shares */

static char *address(const hall *x, int64_t place, device_address at)
{
    if (at.space == (device_space)SPACE_NONE) return NULL;
    return x->h->peer(x->d, x->who->ranks[place], at);
}

static size_t block_bytes(const op *o)
{
    return (size_t)dtype_bytes(o->type, elements(o));
}

static void copy_if(issue_copy *list, int *n, char *to, const char *from, size_t bytes)
{
    if (bytes && to != from) list[(*n)++] = (issue_copy){to, from, (int64_t)bytes};
}

static issue_copy exchanged(const hall *x, int64_t from)
{
    int64_t n = x->n, place = x->who->place;
    const int32_t *theirs = note_at(x, from)->table, *mine = note_at(x, place)->table;
    int32_t sent = theirs[n + place], wanted = mine[3 * n + from];
    size_t row = block_bytes(x->o);
    if (sent != wanted || sent < 0) {
        char text[160];
        snprintf(text, sizeof text, "rank %d of the group sends %d row%s; rank %d expects %d",
                 (int)from, sent, sent == 1 ? "" : "s", (int)place, wanted);
        fail(x, text);
    }
    return (issue_copy){address(x, place, note_at(x, place)->y) + (size_t)mine[2 * n + from] * row,
                        address(x, from, note_at(x, from)->x) + (size_t)theirs[place] * row,
                        (int64_t)((size_t)sent * row)};
}

static void move_all(const hall *x)
{
    issue_copy list[PEERS_MAX];
    int n = 0;
    const int64_t place = x->who->place;
    const size_t bytes = block_bytes(x->o);
    char *y = address(x, place, note_at(x, place)->y);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t q = (place + i) % x->n; /* members begin at different ones */
        const char *from = address(x, q, note_at(x, q)->x);
        const size_t block = op_is(x->o->kind, SCATTERS) ? (size_t)place * bytes : 0;
        issue_copy c = op_is(x->o->kind, BY_TABLE)
                           ? exchanged(x, q)
                           : (issue_copy){y + (size_t)q * bytes, from + block, (int64_t)bytes};
        copy_if(list, &n, c.to, c.from, (size_t)c.bytes);
    }
    if (n) x->h->move(x->d, x->s, list, n);
}

static void move_one(const hall *x, int64_t from, const note *theirs)
{
    issue_copy list[1];
    int n = 0;
    copy_if(list, &n, address(x, x->who->place, x->m->mine.y), address(x, from, theirs->x),
            block_bytes(x->o));
    if (n) x->h->move(x->d, x->s, list, n);
}

/* This member's part of n elements: whole pieces of 16 bytes in FP32. */
static void part_of(const hall *x, int64_t n, int64_t *first, int64_t *count)
{
    const int64_t piece = 8, pieces = (n + piece - 1) / piece;
    int64_t a = pieces * x->who->place / x->n * piece;
    int64_t b = pieces * (x->who->place + 1) / x->n * piece;
    *first = a < n ? a : n;
    *count = (b < n ? b : n) - *first;
}

/* A sum that takes the place of this member's own part of x overwrites what nobody else reads. */
static void add_up(const hall *x)
{
    issue_sum sum = {.type = x->o->type, .n_from = (int)x->n, .n_to = 1};
    const int64_t place = x->who->place, n = elements(x->o);
    bool all = op_is(x->o->kind, GATHERS), parts = all && !x->staged;
    int64_t first = all ? 0 : place * n;
    sum.n = n;
    if (parts) part_of(x, n, &first, &sum.n);
    const size_t skip = (size_t)dtype_bytes(x->o->type, first);
    for (int64_t q = 0; q < x->n; q++) {
        const note *theirs = note_at(x, q);
        sum.from[q] = address(x, q, theirs->x) + skip;
        if (parts) sum.to[q] = address(x, q, theirs->y) + skip;
    }
    if (parts)
        sum.n_to = (int)x->n;
    else
        sum.to[0] = address(x, place, note_at(x, place)->y);
    if (sum.n) x->h->sum(x->d, x->s, &sum);
}

static int64_t place_on(const hall *x, int64_t step)
{
    return ((x->who->place + step) % x->n + x->n) % x->n;
}

static void share(const hall *x)
{
    const op_kind k = x->o->kind;
    const int64_t step = x->o->dim[DIM_MESSAGE_STEP];
    if (op_is(k, SUMS)) {
        add_up(x);
    } else if (op_is(k, TAKES)) {
        move_one(x, place_on(x, step), note_at(x, 0));
    } else if (op_is(k, GIVES)) {
        return; /* the other side fetches it */
    } else if (op_is(k, STEPPED)) {
        const int64_t from = place_on(x, -step);
        move_one(x, from, note_at(x, from));
    } else {
        move_all(x);
    }
}

/* ---- meeting */

static int meet(const hall *x, bool last)
{
    comm_note n = {.last = last,
                   .bytes = last ? sizeof x->m->mine.kind : note_bytes(x->o, x->n),
                   .mine = &x->m->mine,
                   .all = x->m->all,
                   .table = x->m->table};
    return x->calls->meet(x->d->c, x->o, &n);
}

static bool met(const hall *x)
{
    if (!x->calls->test(x->d->c, x->m->request)) return false;
    x->calls->wait(x->d->c, x->m->request);
    return true;
}

static void point(const hall *x, issue_point_kind k)
{
    x->h->point(x->d, (issue_point){x->s, x->o->group, k});
}

static void await_one(const hall *x, int64_t place, op_stream theirs, issue_point_kind k)
{
    const issue_point p = {theirs, x->o->group, k};
    x->h->await(x->d, x->s, x->who->ranks[place], p);
}

static void await_all(const hall *x, issue_point_kind p)
{
    const op *o = x->o;
    if (x->staged) return;
    if (!is_pair(o)) {
        for (int64_t q = 0; q < x->n; q++)
            if (q != x->who->place) await_one(x, q, x->s, p);
    } else if (op_is(o->kind, TAKES) == (p == POINT_READY)) {
        await_one(x, place_on(x, o->dim[DIM_MESSAGE_STEP]), op_stream_opposite(x->s), p);
    }
}

static void begin(const hall *x, const rendezvous_op *at)
{
    bool counts = op_is(x->o->kind, BY_TABLE);
    if (x->n > PEERS_MAX) {
        char text[120];
        snprintf(text, sizeof text, "%lld members; %d is the most on one node's GPUs",
                 (long long)x->n, PEERS_MAX);
        fail(x, text);
    }
    x->m->table = counts ? x->h->fetch(x->d, x->s, at->in[IN_EXCHANGE_table], 4 * x->n) : NULL;
    if (counts) x->h->mark(x->d, x->s);
    x->m->state = MEETING_COUNTS;
}

static bool is_marked(const hall *x)
{
    return x->staged || (x->n > 1 && x->calls->is_delayed(x->d->c));
}

static bool has_counts(const hall *x, const rendezvous_op *at)
{
    if (op_is(x->o->kind, BY_TABLE) && !x->h->passed(x->d, x->s)) return false;
    if (x->staged && sent_from(at)) x->h->stage(x->d, x->s, sent_from(at), sent_now(x));
    if (is_marked(x)) x->h->mark(x->d, x->s);
    x->m->state = MEETING_REACHES;
    return true;
}

static bool reached(const hall *x, const rendezvous_op *at)
{
    if (is_marked(x) && !x->h->passed(x->d, x->s)) return false;
    write_note(x, at);
    x->m->state = MEETING_MEETS;
    if (x->n == 1) return true;
    point(x, POINT_READY);
    x->m->request = meet(x, false);
    return true;
}

static void move_share(const hall *x)
{
    if (op_is(x->o->kind, TAKES)) check(x, note_at(x, 0), place_on(x, x->o->dim[DIM_MESSAGE_STEP]));
    for (int64_t q = 0; !is_pair(x->o) && q < x->n; q++) check(x, note_at(x, q), q);
    await_all(x, POINT_READY);
    share(x);
    point(x, POINT_DONE);
    if (x->staged) x->h->mark(x->d, x->s);
    x->m->state = MEETING_MOVES;
}

static bool is_moved(const hall *x)
{
    if (x->staged && !x->h->passed(x->d, x->s)) return false;
    x->m->state = MEETING_LEAVES;
    x->m->request = meet(x, true);
    return true;
}

static void leave(const hall *x, const rendezvous_op *at)
{
    await_all(x, POINT_DONE);
    x->m->state = MEETING_BEGINS;
    x->h->end(x->d, x->s, x->o, at->number);
}

/* A group of one: what the member has for itself. */
static void alone(const hall *x, const rendezvous_op *at)
{
    if (is_pair(x->o)) fail(x, "this rank is alone in the group");
    memcpy(x->m->all, &x->m->mine, note_bytes(x->o, 1));
    if (!op_is(x->o->kind, SUMS))
        share(x);
    else if (op_is(x->o->kind, SCATTERS))
        move_one(x, 0, &x->m->mine);
    x->m->state = MEETING_BEGINS;
    x->h->end(x->d, x->s, x->o, at->number);
}

/* Behind has_counts. */
static void by_library(const hall *x, const rendezvous_op *at)
{
    x->calls->count(x->d->c, x->o, x->m->table);
    x->h->move_by(x->d, x->s, x->o, x->m->table, at->in, at->out);
    x->m->state = MEETING_BEGINS;
    x->h->end(x->d, x->s, x->o, at->number);
}

bool rendezvous_step(device *d, const issue_hooks *h, const device_calls *calls, rendezvous *m,
                     op_stream s, const rendezvous_op *at)
{
    const members *who = calls->group(d->c, at->o->group);
    const hall x = {d, h, calls, m, s, at->o, who, who->n, who->n > 1 && h->staged(d)};
    if (m->state == MEETING_BEGINS) begin(&x, at);
    if (m->state == MEETING_COUNTS && !has_counts(&x, at)) return false;
    if (m->state == MEETING_REACHES && h->by_library(d)) {
        by_library(&x, at);
        return true;
    }
    if (m->state == MEETING_REACHES && !reached(&x, at)) return false;
    if (x.n == 1) {
        alone(&x, at);
        return true;
    }
    if (m->state == MEETING_MEETS) {
        if (!met(&x)) return false;
        move_share(&x);
    }
    if (m->state == MEETING_MOVES && !is_moved(&x)) return false;
    if (!met(&x)) return false;
    leave(&x, at);
    return true;
}
