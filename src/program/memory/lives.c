/* lives.c - walks the order of a step and tells what begins and ends to live. */
#include "program/memory/lives.h"

#include "program/schedule/units.h"

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

void lives_walk(const slot_rows *s, const step_order *o, slot_sees *sees, void *with)
{
    const walk w = {s, sees, with};
    if (o->n) post(&w, &o->list[0]);
    for (int64_t i = 0; i < o->n;) {
        bool pair = s->pairs && order_is_pair(o, i);
        int64_t next = i + 1 + pair;
        if (next < o->n) post(&w, &o->list[next]);
        if (pair)
            run_both(&w, &o->list[i], &o->list[i + 1]);
        else
            run_one(&w, &o->list[i]);
        i = next;
    }
}
