/* pack.c - operations as they lie in memory, with places of their texts instead of pointers.
 *
 * I1  A text is written once: operations of a kind share theirs, so the place of a pointer is
 *     looked up by the pointer itself. Place 0 is NULL. */
#include "predict/trace/pack.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

/* ---- texts */

typedef struct text_table {
    arena *a;
    const char **keys; /* [room] pointers; NULL: free */
    int64_t *places;
    int64_t n, room;
    textbuf out;
} text_table;

static int64_t find(const text_table *t, const char *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    int64_t i = (int64_t)(h >> 20) & (t->room - 1);
    while (t->keys[i] && t->keys[i] != key) i = (i + 1) & (t->room - 1);
    return i;
}

static void open_table(text_table *t, int64_t room, arena *a)
{
    *t = (text_table){.a = a, .room = room, .out = t->out};
    t->keys = ARENA_ARRAY(a, const char *, room);
    t->places = ARENA_ARRAY(a, int64_t, room);
}

static void grow(text_table *t)
{
    text_table old = *t;
    open_table(t, old.room * 2, old.a);
    for (int64_t i = 0; i < old.room; i++) {
        if (!old.keys[i]) continue;
        int64_t at = find(t, old.keys[i]);
        t->keys[at] = old.keys[i];
        t->places[at] = old.places[i];
        t->n++;
    }
}

static int64_t place_of(text_table *t, const char *text)
{
    if (!text) return 0; /* I1 */
    if (t->n * 2 >= t->room) grow(t);
    int64_t at = find(t, text);
    if (!t->keys[at]) {
        t->keys[at] = text;
        t->places[at] = (int64_t)t->out.n;
        t->n++;
        text_put(&t->out, text, strlen(text) + 1);
    }
    return t->places[at];
}

/* ---- the parts */

/* A pointer's bytes hold a place. */
static const char *as_place(text_table *t, const char *text)
{
    return (const char *)(uintptr_t)place_of(t, text);
}

typedef struct pack_head {
    double from, span, step;
    int64_t steps, first_step;
    int64_t n_ranks, n_streams, n, texts;
    const char *source, *recipe, *machine;
} pack_head;

char *trace_pack(const trace *t, size_t *n, arena *a)
{
    text_table table = {.out = text_init(a)};
    open_table(&table, 256, a);
    text_put(&table.out, "", 1);
    pack_head head = {.from = t->from, .span = t->span, .step = t->step, .n_ranks = t->n_ranks};
    head.steps = t->steps;
    head.first_step = t->first_step;
    head.n_streams = t->n_streams;
    head.n = t->n;
    head.source = as_place(&table, t->source);
    head.recipe = as_place(&table, t->recipe);
    head.machine = as_place(&table, t->machine);
    textbuf body = text_init(a), out = text_init(a);
    for (int64_t i = 0; i < t->n_ranks; i++) {
        trace_rank r = {t->ranks[i].rank, as_place(&table, t->ranks[i].name)};
        text_put(&body, (const char *)&r, sizeof r);
    }
    for (int i = 0; i < t->n_streams; i++) {
        const char *place = as_place(&table, t->streams[i]);
        text_put(&body, (const char *)&place, sizeof place);
    }
    for (int64_t i = 0; i < t->n; i++) {
        trace_op o = t->ops[i];
        o.name = as_place(&table, o.name);
        o.kind = as_place(&table, o.kind);
        o.phase = as_place(&table, o.phase);
        o.group = as_place(&table, o.group);
        text_put(&body, (const char *)&o, sizeof o);
    }
    head.texts = (int64_t)table.out.n;
    text_put(&out, (const char *)&head, sizeof head);
    text_put(&out, body.s, body.n);
    text_put(&out, table.out.s, table.out.n);
    *n = out.n;
    return out.s;
}

/* ---- back */

static const char *text_at(const char *texts, const char *place)
{
    return place ? texts + (uintptr_t)place : NULL;
}

void trace_unpack(trace *t, const char *data, arena *a)
{
    pack_head h;
    memcpy(&h, data, sizeof h);
    data += sizeof h;
    size_t ranks = sizeof(trace_rank) * (size_t)h.n_ranks, ops = sizeof(trace_op) * (size_t)h.n;
    size_t streams = sizeof(char *) * (size_t)h.n_streams;
    const char *texts = arena_copy(a, data + ranks + streams + ops, (size_t)h.texts);
    trace_init(t, text_at(texts, h.source), a);
    t->recipe = text_at(texts, h.recipe);
    t->machine = text_at(texts, h.machine);
    t->from = h.from;
    t->span = h.span;
    t->step = h.step;
    t->steps = h.steps;
    t->first_step = h.first_step;
    t->n_ranks = t->ranks_room = h.n_ranks;
    t->n_streams = (int)h.n_streams;
    t->n = t->room = h.n;
    t->ranks = ARENA_ARRAY(a, trace_rank, h.n_ranks + 1);
    t->streams = ARENA_ARRAY(a, const char *, h.n_streams + 1);
    t->ops = ARENA_ARRAY(a, trace_op, h.n + 1);
    memcpy(t->ranks, data, ranks);
    memcpy(t->streams, data + ranks, streams);
    memcpy(t->ops, data + ranks + streams, ops);
    for (int64_t i = 0; i < t->n_ranks; i++) t->ranks[i].name = text_at(texts, t->ranks[i].name);
    for (int i = 0; i < t->n_streams; i++) t->streams[i] = text_at(texts, t->streams[i]);
    for (int64_t i = 0; i < t->n; i++) {
        trace_op *o = &t->ops[i];
        o->name = text_at(texts, o->name);
        o->kind = text_at(texts, o->kind);
        o->phase = text_at(texts, o->phase);
        o->group = text_at(texts, o->group);
    }
}
