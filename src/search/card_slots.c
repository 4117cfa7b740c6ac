/* card_slots.c - the pool of saved buffers, packed on sizes alone exactly as slots.c packs it.
 *
 * I1  Without combined 1F1B a chunk has one slot from its forward (or the receive that is posted
 *     ahead) to its backward; with it each instance has one of its own.
 * I2  Equal sizes are packed without gaps: there the pool is a count.
 * I3  No packing is smaller than what lives at once. */
#include <string.h>

#include "program/memory/pool.h"
#include "program/schedule/units.h"
#include "search/card_ranks.h"

/* ---- by chunk */

static bool all_equal(const int64_t *chunks, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (chunks[i] != chunks[0]) return false;
    return true;
}

/* ---- by instance */

/* Instances of a chunk without messages: embedding, layers, final norm, prediction, head. */
typedef struct row {
    int64_t *bytes;
    segment_kind *kind;
    int n;
} row;

typedef struct packing {
    pool l;
    const row *rows; /* [vpp] */
    bool *taken;     /* [vpp][micros][most]: has its slot */
    int64_t micros, most;
} packing;

static void add_part(row *r, int64_t bytes, segment_kind kind)
{
    r->bytes[r->n] = bytes;
    r->kind[r->n++] = kind;
}

static row row_of(const part_sums *p, cards *k, const chunk_mix *m, const stage *st, arena *a)
{
    static const segment_kind rest[] = {SEGMENT_FINAL, SEGMENT_MTP, SEGMENT_HEAD};
    row r = {.bytes = ARENA_ARRAY(a, int64_t, st->n_layers + 5),
             .kind = ARENA_ARRAY(a, segment_kind, st->n_layers + 5)};
    if (m->n[MIX_EMBEDDING]) add_part(&r, p->saved[MIX_EMBEDDING], SEGMENT_EMBEDDING);
    for (int64_t i = 0; i < st->n_layers; i++)
        add_part(&r, p->saved[cards_kind_of(k, st->first_layer + i)], SEGMENT_LAYER);
    for (int i = MIX_FINAL; i < MIX_PARTS; i++)
        if (m->n[i]) add_part(&r, p->saved[i], rest[i - MIX_FINAL]);
    return r;
}

static unit_walk walk_of(const row *f, const row *b)
{
    return (unit_walk){.f = f->kind, .b = b->kind, .f_end = f->n, .b_at = b->n - 1, .b_end = -1};
}

static void take_instance(packing *w, const order_entry *e, int i)
{
    const row *r = &w->rows[e->chunk];
    if (i >= r->n || !r->bytes[i]) return;
    bool *known = &w->taken[(e->chunk * w->micros + e->micro) * w->most + i];
    if (*known) return;
    *known = true;
    pool_take(&w->l,
              (living){.bytes = r->bytes[i], .chunk = e->chunk, .micro = e->micro, .instance = i});
}

static void forward(packing *w, const order_entry *e, int i)
{
    take_instance(w, e, i);
    take_instance(w, e, i + 1);
}

static void run_both(packing *w, const order_entry *f, const order_entry *b)
{
    unit_walk walk = walk_of(&w->rows[f->chunk], &w->rows[b->chunk]);
    unit_step s;
    take_instance(w, f, 0);
    while (unit_layers(&walk, &s) || unit_rest(&walk, &s)) {
        if (s.f >= 0) forward(w, f, s.f);
        if (s.b >= 0) pool_leave(&w->l, b->chunk, b->micro, s.b);
    }
}

static void run_one(packing *w, const order_entry *e)
{
    const row *r = &w->rows[e->chunk];
    if (e->phase == SEG_FORWARD) {
        take_instance(w, e, 0);
        for (int i = 0; i < r->n; i++) forward(w, e, i);
    } else {
        for (int i = r->n - 1; i >= 0; i--) pool_leave(&w->l, e->chunk, e->micro, i);
    }
}

/* A receive that is posted for the next unit takes the place of its first instance. */
static void by_instance(packing *w, const step_order *o, const bool *receives, bool posts)
{
    for (int64_t i = 0; i < o->n;) {
        int64_t step = order_is_pair(o, i) ? 2 : 1;
        for (int64_t k = i ? i + step : i; posts && k < o->n && k <= i + step; k += step) {
            const order_entry *e = &o->list[k];
            if (e->phase == SEG_FORWARD && receives[e->chunk]) take_instance(w, e, 0);
        }
        if (step == 2)
            run_both(w, &o->list[i], &o->list[i + 1]);
        else
            run_one(w, &o->list[i]);
        i += step;
    }
}

static int64_t pack_instances(const slots_of *s, arena *a)
{
    const choice *c = s->c;
    packing w = {.l = {.a = a}, .micros = s->z->micros};
    row *rows = ARENA_ARRAY(a, row, c->vpp);
    bool *receives = ARENA_ARRAY(a, bool, c->vpp);
    for (int64_t v = 0; v < c->vpp; v++) {
        int64_t id = v * c->pp + s->rank;
        rows[v] = row_of(s->sums, s->k, &s->f->mix[id], &s->f->split->pipe.stages[id], a);
        receives[v] = s->f->mix[id].receives;
        if (rows[v].n > w.most) w.most = rows[v].n;
    }
    w.rows = rows;
    w.taken = ARENA_ARRAY(a, bool, c->vpp *w.micros *w.most + 1);
    order_shape h = choice_order(c, s->z, s->rank);
    by_instance(&w, cards_order(s->k, &h), receives, s->z->posts_early);
    return w.l.end;
}

/* ---- what lives at once (I3) */

typedef struct counting {
    const row *rows;
    int64_t vpp, *chunks; /* [vpp] bytes of all instances */
    int64_t *excess;      /* [vpp][vpp] of a pair over what lived before; < 0: not known yet */
    int64_t live, most;
} counting;

static void see(counting *w, int64_t bytes)
{
    if (bytes > w->most) w->most = bytes;
}

/* As run_both takes and leaves, behind the first instance of the forward: the next one is taken
 * while one runs. */
static int64_t pair_excess(const row *f, const row *b)
{
    unit_walk walk = walk_of(f, b);
    unit_step s;
    int64_t now = 0, most = 0;
    while (unit_layers(&walk, &s) || unit_rest(&walk, &s)) {
        if (s.f >= 0 && s.f + 1 < f->n) now += f->bytes[s.f + 1];
        if (now > most) most = now;
        if (s.b >= 0) now -= b->bytes[s.b];
    }
    return most;
}

static void count_unit(counting *w, const order_entry *e, const order_entry *b, int64_t first)
{
    if (e->phase == SEG_BACKWARD) {
        w->live -= w->chunks[e->chunk];
    } else if (!b) {
        w->live += w->chunks[e->chunk] - first;
        see(w, w->live);
    } else {
        int64_t *known = &w->excess[e->chunk * w->vpp + b->chunk];
        int64_t start = w->rows[e->chunk].n ? w->rows[e->chunk].bytes[0] : 0;
        if (*known < 0) *known = pair_excess(&w->rows[e->chunk], &w->rows[b->chunk]);
        w->live += start - first;
        see(w, w->live + *known);
        w->live += w->chunks[e->chunk] - start - w->chunks[b->chunk];
    }
}

static void open_counting(counting *w, const slots_of *s, arena *a)
{
    const choice *c = s->c;
    row *rows = ARENA_ARRAY(a, row, c->vpp);
    *w = (counting){.rows = rows, .vpp = c->vpp};
    w->chunks = ARENA_ARRAY(a, int64_t, c->vpp);
    w->excess = ARENA_RAW(a, int64_t, c->vpp * c->vpp);
    for (int64_t i = 0; i < c->vpp * c->vpp; i++) w->excess[i] = -1;
    for (int64_t v = 0; v < c->vpp; v++) {
        int64_t id = v * c->pp + s->rank;
        rows[v] = row_of(s->sums, s->k, &s->f->mix[id], &s->f->split->pipe.stages[id], a);
        for (int i = 0; i < rows[v].n; i++) w->chunks[v] += rows[v].bytes[i];
    }
}

int64_t saved_alive(const slots_of *s, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    const choice *c = s->c;
    counting w;
    open_counting(&w, s, scratch);
    order_shape h = choice_order(c, s->z, s->rank);
    const step_order *o = cards_order(s->k, &h);
    int64_t ahead = 0; /* of the unit that comes: its input, if it is received already */
    for (int64_t i = 0; i < o->n;) {
        int64_t step = order_is_pair(o, i) ? 2 : 1, first = ahead;
        const order_entry *next = i + step < o->n ? &o->list[i + step] : NULL;
        bool posted = next && s->z->posts_early && next->phase == SEG_FORWARD &&
                      s->f->mix[next->chunk * c->pp + s->rank].receives && w.rows[next->chunk].n;
        ahead = posted ? w.rows[next->chunk].bytes[0] : 0;
        w.live += ahead;
        count_unit(&w, &o->list[i], step == 2 ? &o->list[i + 1] : NULL, first);
        i += step;
    }
    arena_release(scratch, mark);
    return w.most;
}

/* ---- both */

int64_t saved_packed(const slots_of *s, const int64_t *chunks, arena *scratch)
{
    const choice *c = s->c;
    bool pairs = c->beside >= BESIDE_EP;
    if (!pairs && all_equal(chunks, c->vpp)) return saved_least(s, chunks); /* I2 */
    arena_place mark = arena_mark(scratch);
    pool l = {.a = scratch};
    int64_t bytes;
    if (pairs) {
        bytes = pack_instances(s, scratch);
    } else {
        order_shape h = choice_order(c, s->z, s->rank);
        pool_by_chunk(&l, cards_order(s->k, &h),
                      &(chunk_slots){.bytes = chunks, .ahead = s->z->posts_early});
        bytes = l.end;
    }
    arena_release(scratch, mark);
    return bytes;
}
