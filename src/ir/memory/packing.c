/* packing.c - shelves, and first fit.
 *
 * I1  A part is freed before another one takes its memory; parts that are live at once do not
 *     overlap.
 * I2  The choice between the two depends only on sizes and their order. So a caller that asks for
 *     places gets the same length as one that asks for the length only. */
#include "ir/memory/packing.h"

#include "ir/memory/pool.h"

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
    int64_t *at = packing_place(s->p, e->chunk, e->micro, e->instance, e->part);
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

/* The longest shelves first: each is as long as its parts at most. */
static void sort_shelves(shelves *s)
{
    for (int i = 1; i < s->n; i++)
        for (int k = i; k > 0; k--) {
            shelf *a = &s->list[k - 1], *b = &s->list[k], swap = *a;
            if (a->bytes * a->most >= b->bytes * b->most) break;
            *a = *b;
            *b = swap;
        }
}

/* ---- first fit of what is not on the first shelves */

typedef struct fitting {
    pool l;
    const shelves *s;
    int kept;      /* shelves */
    int64_t start; /* where they end */
    const packing_places *p;
} fitting;

static bool is_kept(const fitting *f, int64_t bytes)
{
    for (int i = 0; i < f->kept; i++)
        if (f->s->list[i].bytes == bytes) return true;
    return false;
}

static void fit(void *with, const slot_event *e)
{
    fitting *f = with;
    int part = e->instance * SAVED_PARTS + (int)e->part;
    if (is_kept(f, e->bytes)) return;
    if (e->leaves) {
        pool_leave(&f->l, e->chunk, e->micro, part);
        return;
    }
    living x = {.bytes = e->bytes, .chunk = e->chunk, .micro = e->micro, .instance = part};
    int64_t at = f->start + pool_take(&f->l, x);
    if (f->p) *packing_place(f->p, e->chunk, e->micro, e->instance, e->part) = at;
}

static int64_t fit_behind(const shelves *s, int kept, const slot_rows *rows, const step_order *o,
                          const packing_places *p)
{
    fitting f = {.l = {.a = s->a}, .s = s, .kept = kept, .p = p};
    for (int i = 0; i < kept; i++) f.start += s->list[i].bytes * s->list[i].most;
    lives_walk(rows, o, fit, &f);
    return f.start + f.l.end;
}

/* ---- both */

/* How many shelves are kept; KEPT_ALL is tried first, and nothing else where it is close. */
enum { KEPT_ALL = -1 };

static bool is_close(const packed *x)
{
    return 100 * (x->bytes - x->live) <= x->live;
}

packed packing_of(const slot_rows *s, const step_order *o, const packing_places *p, arena *a)
{
    static const int tried[] = {2, 0};
    shelves h = {.p = p, .a = a};
    int kept = KEPT_ALL;
    lives_walk(s, o, count_parts, &h);
    sort_shelves(&h);
    packed out = {.bytes = stand(&h), .live = h.all.most};
    for (size_t i = 0; i < sizeof tried / sizeof tried[0] && !is_close(&out); i++) {
        if (tried[i] >= h.n) continue;
        int64_t bytes = fit_behind(&h, tried[i], s, o, NULL);
        if (bytes >= out.bytes) continue;
        out.bytes = bytes;
        kept = tried[i];
    }
    if (!p) return out;
    lives_walk(s, o, put_on_shelf, &h);
    if (kept != KEPT_ALL) fit_behind(&h, kept, s, o, p);
    return out;
}
