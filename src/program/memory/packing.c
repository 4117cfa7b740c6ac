/* packing.c - shelves, or first fit.
 *
 * I1  A part leaves before another takes its place; what lives at once lies apart.
 * I2  Which of both is chosen depends on sizes and order alone: whoever asks for places gets the
 *     length that was given to those who did not. */
#include "program/memory/packing.h"

#include "program/memory/pool.h"

/* ---- what lives at once */

typedef struct counting {
    int64_t now, most;
} counting;

static void count(void *with, const slot_event *e)
{
    counting *c = with;
    c->now += e->leaves ? -e->bytes : e->bytes;
    if (c->now > c->most) c->most = c->now;
}

int64_t packing_live(const slot_rows *s, const step_order *o)
{
    counting c = {0, 0};
    lives_walk(s, o, count, &c);
    return c.most;
}

/* ---- shelves */

typedef struct shelf {
    int64_t bytes, start; /* of a part; where it begins */
    int64_t now, most;    /* parts */
    int64_t *left;        /* [n_left] places that are free again, while parts are placed */
    int64_t n_left, room;
} shelf;

typedef struct shelves {
    shelf *list;
    int n, room;
    counting all;
    const packing_places *p;
    arena *a;
} shelves;

static shelf *shelf_of(shelves *s, int64_t bytes)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].bytes == bytes) return &s->list[i];
    ARENA_GROW(s->a, s->list, s->n, s->room);
    s->list[s->n] = (shelf){.bytes = bytes};
    return &s->list[s->n++];
}

static void count_parts(void *with, const slot_event *e)
{
    shelves *s = with;
    shelf *h = shelf_of(s, e->bytes);
    h->now += e->leaves ? -1 : 1;
    if (h->now > h->most) h->most = h->now;
    count(&s->all, e);
}

static void put_on_shelf(void *with, const slot_event *e)
{
    shelves *s = with;
    shelf *h = shelf_of(s, e->bytes);
    int64_t *at = packing_place(s->p, e->chunk, e->micro, e->instance, e->half);
    if (e->leaves) {
        ARENA_GROW(s->a, h->left, h->n_left, h->room);
        h->left[h->n_left++] = *at;
    } else {
        *at = h->n_left ? h->left[--h->n_left] : h->start + h->bytes * h->now++;
    }
}

static int64_t stand(shelves *s)
{
    int64_t end = 0;
    for (int i = 0; i < s->n; i++) {
        s->list[i].start = end;
        s->list[i].now = 0;
        end += s->list[i].bytes * s->list[i].most;
    }
    return end;
}

/* ---- first fit */

typedef struct fitting {
    pool l;
    const packing_places *p;
} fitting;

static void fit(void *with, const slot_event *e)
{
    fitting *f = with;
    int part = e->instance * SLOT_HALVES + (int)e->half;
    if (e->leaves) {
        pool_leave(&f->l, e->chunk, e->micro, part);
        return;
    }
    int64_t at = pool_take(
        &f->l, (living){.bytes = e->bytes, .chunk = e->chunk, .micro = e->micro, .instance = part});
    if (f->p) *packing_place(f->p, e->chunk, e->micro, e->instance, e->half) = at;
}

static int64_t first_fit(const slot_rows *s, const step_order *o, const packing_places *p, arena *a)
{
    fitting f = {.l = {.a = a}, .p = p};
    lives_walk(s, o, fit, &f);
    return f.l.end;
}

/* ---- both */

packed packing_of(const slot_rows *s, const step_order *o, const packing_places *p, arena *a)
{
    shelves h = {.p = p, .a = a};
    lives_walk(s, o, count_parts, &h);
    packed out = {.bytes = stand(&h), .live = h.all.most};
    if (out.bytes > out.live) {
        int64_t fitted = first_fit(s, o, p, a);
        if (fitted < out.bytes) {
            out.bytes = fitted;
            return out;
        }
    }
    if (p) lives_walk(s, o, put_on_shelf, &h);
    return out;
}
