/* lives.c - walks the order of a step and tells what begins and ends to live. */
#include "ir/memory/lives.h"

#include "ir/schedule/units.h"

typedef struct walk {
    const slot_rows *s;
    slot_sees *sees;
    void *with;
} walk;

static void tell(const walk *w, const order_entry *e, int i, saved_part part, bool leaves)
{
    const slot_row *r = &w->s->rows[e->chunk];
    if (i >= r->n || !r->list[i].bytes[part]) return;
    w->sees(w->with, &(slot_event){e->chunk, e->micro, r->list[i].bytes[part], i, part, leaves});
}

static bool is_posted(const walk *w, const order_entry *e)
{
    return w->s->posts && w->s->rows[e->chunk].receives;
}

static void post(const walk *w, const order_entry *e)
{
    if (e->phase == SEG_FORWARD && is_posted(w, e)) tell(w, e, 0, SAVED_INPUT, false);
}

static void begin(const walk *w, const order_entry *e)
{
    if (!is_posted(w, e)) tell(w, e, 0, SAVED_INPUT, false);
}

static void forward(const walk *w, const order_entry *e, int i) /* I1 */
{
    for (int part = SAVED_INPUT + 1; part < SAVED_PARTS; part++)
        tell(w, e, i, (saved_part)part, false);
    tell(w, e, i + 1, SAVED_INPUT, false);
}

static void backward(const walk *w, const order_entry *e, int i)
{
    for (int part = SAVED_PARTS - 1; part >= 0; part--) tell(w, e, i, (saved_part)part, true);
}

static void run_one(const walk *w, const order_entry *e)
{
    int n = w->s->rows[e->chunk].n;
    if (e->phase == SEG_FORWARD) begin(w, e);
    for (int i = 0; i < n; i++) {
        if (e->phase == SEG_FORWARD)
            forward(w, e, i);
        else
            backward(w, e, n - 1 - i);
    }
}

static void run_both(const walk *w, const order_entry *f, const order_entry *b) /* I2 */
{
    const slot_row *rf = &w->s->rows[f->chunk], *rb = &w->s->rows[b->chunk];
    unit_walk u = {.f = rf->kinds, .b = rb->kinds, .f_end = rf->n, .b_at = rb->n - 1, .b_end = -1};
    unit_step s;
    begin(w, f);
    while (unit_layers(&u, &s) || unit_rest(&u, &s)) {
        if (s.f >= 0) forward(w, f, s.f);
        if (s.b >= 0) backward(w, b, s.b);
    }
}

/* What entry i of the order is a unit with: the entry behind it where both run side by side. */
static bool has_pair(const slot_rows *s, const step_order *o, int64_t i)
{
    return s->pairs && order_is_pair(o, i);
}

static void run_unit(const walk *w, const step_order *o, int64_t i)
{
    if (has_pair(w->s, o, i))
        run_both(w, &o->list[i], &o->list[i + 1]);
    else
        run_one(w, &o->list[i]);
}

void lives_walk(const slot_rows *s, const step_order *o, slot_sees *sees, void *with)
{
    const walk w = {s, sees, with};
    if (o->n) post(&w, &o->list[0]);
    for (int64_t i = 0, next; i < o->n; i = next) {
        next = i + 1 + has_pair(s, o, i);
        if (next < o->n) post(&w, &o->list[next]);
        run_unit(&w, o, i);
    }
}

/* ---- bytes alone */

/* A unit of the order: the chunk whose forward it runs and the one whose backward, -1 for none. It
 * adds the same bytes in every microbatch (I3). */
typedef struct unit_bytes {
    int64_t f, b;
    int64_t change, most; /* at its end and at its fullest, against its start */
    bool known;
} unit_bytes;

enum { UNITS_KEPT = 256 }; /* a search asks for few chunks; others are counted again */

static void count(void *with, const slot_event *e)
{
    unit_bytes *u = with;
    u->change += e->leaves ? -e->bytes : e->bytes;
    if (u->change > u->most) u->most = u->change;
}

static const unit_bytes *unit_at(unit_bytes *kept, const slot_rows *s, const step_order *o,
                                 int64_t i)
{
    const order_entry *e = &o->list[i];
    bool forward_first = e->phase == SEG_FORWARD;
    int64_t f = forward_first ? e->chunk : -1, b = forward_first ? -1 : e->chunk;
    if (has_pair(s, o, i)) b = o->list[i + 1].chunk;
    unit_bytes *u = &kept[(uint64_t)(f * 17 + b) % UNITS_KEPT];
    if (!u->known || u->f != f || u->b != b) {
        *u = (unit_bytes){.f = f, .b = b, .known = true};
        run_unit(&(walk){s, count, u}, o, i);
    }
    return u;
}

int64_t lives_most(const slot_rows *s, const step_order *o)
{
    unit_bytes kept[UNITS_KEPT] = {{0}}, posted = {0};
    const walk posts = {s, count, &posted};
    if (o->n) post(&posts, &o->list[0]);
    for (int64_t i = 0, next; i < o->n; i = next) {
        next = i + 1 + has_pair(s, o, i);
        if (next < o->n) post(&posts, &o->list[next]);
        const unit_bytes *u = unit_at(kept, s, o, i);
        if (posted.change + u->most > posted.most) posted.most = posted.change + u->most;
        posted.change += u->change;
    }
    return posted.most;
}
