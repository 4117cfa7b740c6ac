/* items.c - everything that a rank does in a step, in order.
 *
 * The order of (phase, chunk, microbatch) is cut into units: one entry, or with combined 1F1B a
 * forward and the backward beside it. Around a unit's instances stand its messages.
 *
 * I1  A buffer of the boundary region is written only after the message that last used it is
 *     complete: the wait stands before the unit that writes.
 * I2  With overlapping messages receives are posted one unit ahead, into the next buffer. */
#include "ir/build/messages.h"
#include "ir/assembly/items.h"
#include "ir/schedule/units.h"

/* ---- segments made when they are needed */

const segment *message_segment(assembly *s, segment_kind k, int64_t elements, int turn)
{
    static void (*const build[SEGMENT_KINDS])(builder *, segment *,
                                              message_shape) = {[SEGMENT_RECEIVE] = build_receive,
                                                                [SEGMENT_SEND] = build_send,
                                                                [SEGMENT_POST] = build_post};
    for (int i = 0; i < s->n_messages; i++) {
        struct known_message *m = &s->messages[i];
        if (m->kind != k || m->elements != elements || m->turn != turn) continue;
        if (m->of != s->p->at.rank) assembly_use(s, m->seg);
        m->of = s->p->at.rank;
        return m->seg;
    }
    segment *seg = assembly_segment(s);
    build[k](&s->b, seg, (message_shape){elements, turn, s->p->ring_depth, s->p->posts_early});
    assembly_done(s, seg, 0);
    ARENA_GROW(s->b.a, s->messages, s->n_messages, s->messages_room);
    s->messages[s->n_messages++] = (struct known_message){seg, k, elements, turn, s->p->at.rank};
    return seg;
}

static const segment *wait_segment(assembly *s, int event)
{
    if (s->waits[event]) return s->waits[event];
    segment *seg = assembly_segment(s);
    build_wait(&s->b, seg, event);
    assembly_done(s, seg, 0);
    return s->waits[event] = seg;
}

static const segment *pair_segment(assembly *s, const segment *f, const segment *b)
{
    for (int i = 0; i < s->n_pairs; i++) {
        struct known_pair *known = &s->pairs[i];
        if (known->f != f || known->b != b) continue;
        if (known->of != s->p->at.rank) assembly_use(s, known->seg);
        known->of = s->p->at.rank;
        return known->seg;
    }
    segment *seg = assembly_segment(s);
    const job *j = &s->p->s->j;
    pair_options o = {.delay = j->delay_wgrad, .early = j->early_attn};
    segment_pair(seg, f, b, o, s->b.a);
    ARENA_GROW(s->b.a, s->pairs, s->n_pairs, s->pairs_room);
    s->pairs[s->n_pairs++] = (struct known_pair){f, b, seg, s->p->at.rank};
    return seg;
}

/* ---- items */

item *add_item(item_walk *w, const segment *seg, int phase, item_at at)
{
    item_list *l = w->out;
    ARENA_GROW(w->s->own, l->list, l->n, l->room);
    l->list[l->n] = (item){.seg = seg, .phase = phase, .at = {at, at}};
    return &l->list[l->n++];
}

const item_at nowhere = {.chunk = -1};

void add_wait(item_walk *w, int event)
{
    add_item(w, wait_segment(w->s, event), SEG_FORWARD, nowhere);
}

item_at place_at(const item_walk *w, int64_t entry, int instance_id)
{
    const order_entry *e = &w->p->order.list[entry];
    return (item_at){(int)e->chunk, instance_id, e->micro, w->turn[entry]};
}

static const chunk *chunk_of(const item_walk *w, int64_t entry)
{
    return &w->p->chunks[w->p->order.list[entry].chunk];
}

static bool has_receive(const chunk *c)
{
    return c->list[0].seg->kind == SEGMENT_RECEIVE;
}

static bool has_send(const chunk *c)
{
    return c->list[c->n - 1].seg->kind == SEGMENT_SEND;
}

static int64_t elements_of(const instance *i)
{
    return dtype_elements(i->seg->bufs[0].type, i->seg->bufs[0].bytes);
}

bool is_segment(const instance *i, segment_kind kind)
{
    return i->seg->kind == kind;
}

/* ---- messages between stages */

static void add_message(item_walk *w, int64_t entry, segment_kind kind, int instance_id, int phase)
{
    const chunk *c = chunk_of(w, entry);
    int64_t n = elements_of(&c->list[instance_id]);
    add_item(w, message_segment(w->s, kind, n, w->turn[entry]), phase,
             place_at(w, entry, instance_id));
}

/* A stage without layers hands on what it receives: from the very buffer. */
static bool hands_on(const chunk *c)
{
    return c->n == 2 && has_receive(c) && has_send(c);
}

static void wait_forward(item_walk *w, int64_t entry) /* I1 */
{
    add_wait(w, event_of_message(EVENT_SEND_FORWARD, w->turn[entry], w->p->ring_depth));
}

static void post(item_walk *w, const unit *u) /* I2 */
{
    if (u->f >= 0 && has_receive(chunk_of(w, u->f))) {
        if (hands_on(chunk_of(w, u->f))) wait_forward(w, u->f);
        add_message(w, u->f, SEGMENT_POST, 0, SEG_FORWARD);
    }
    if (u->b < 0) return;
    const chunk *c = chunk_of(w, u->b);
    if (!has_send(c)) return;
    add_wait(w, event_of_message(EVENT_SEND_BACKWARD, w->turn[u->b], w->p->ring_depth)); /* I1 */
    add_message(w, u->b, SEGMENT_POST, c->n - 1, SEG_BACKWARD);
}

static void begin_forward(item_walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    if (hands_on(c) && !w->p->posts_early) wait_forward(w, entry);
    if (has_receive(c)) add_message(w, entry, SEGMENT_RECEIVE, 0, SEG_FORWARD);
    if (has_send(c) && !hands_on(c)) wait_forward(w, entry);
}

static void begin_backward(item_walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    bool posted = w->p->posts_early && has_send(c);
    if (w->p->s->pipe.pp > 1 && !posted)
        add_wait(w,
                 event_of_message(EVENT_SEND_BACKWARD, w->turn[entry], w->p->ring_depth)); /* I1 */
    if (has_send(c)) add_message(w, entry, SEGMENT_SEND, c->n - 1, SEG_BACKWARD);
}

static void end_forward(item_walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    if (has_send(c)) add_message(w, entry, SEGMENT_SEND, c->n - 1, SEG_FORWARD);
}

static void end_backward(item_walk *w, int64_t entry)
{
    if (has_receive(chunk_of(w, entry))) add_message(w, entry, SEGMENT_RECEIVE, 0, SEG_BACKWARD);
}

/* ---- units */

static void run_one(item_walk *w, int64_t entry, int i)
{
    int phase = w->p->order.list[entry].phase;
    if (phase == SEG_FORWARD) before_instance(w, entry, i);
    add_item(w, chunk_of(w, entry)->list[i].seg, phase, place_at(w, entry, i));
    if (phase == SEG_BACKWARD) after_instance(w, entry, i);
}

static int first_of(const chunk *c)
{
    return has_receive(c) ? 1 : 0;
}

static int end_of(const chunk *c)
{
    return has_send(c) ? c->n - 1 : c->n;
}

static void run_single(item_walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    bool forward = w->p->order.list[entry].phase == SEG_FORWARD;
    int first = first_of(c), end = end_of(c);
    if (forward)
        begin_forward(w, entry);
    else
        begin_backward(w, entry);
    for (int k = first; k < end; k++) run_one(w, entry, forward ? k : first + end - 1 - k);
    if (forward)
        end_forward(w, entry);
    else
        end_backward(w, entry);
}

static void run_pair(item_walk *w, const unit *u, int f, int b)
{
    before_instance(w, u->f, f);
    const segment *sf = chunk_of(w, u->f)->list[f].seg, *sb = chunk_of(w, u->b)->list[b].seg;
    item *it = add_item(w, pair_segment(w->s, sf, sb), SEG_FORWARD, place_at(w, u->f, f));
    it->at[1] = place_at(w, u->b, b);
    after_instance(w, u->b, b);
}

static void run_step(item_walk *w, const unit *u, const unit_step *s)
{
    if (s->f >= 0 && s->b >= 0)
        run_pair(w, u, s->f, s->b);
    else if (s->f >= 0)
        run_one(w, u->f, s->f);
    else
        run_one(w, u->b, s->b);
}

static void run_both(item_walk *w, const unit *u)
{
    const chunk *f = chunk_of(w, u->f), *b = chunk_of(w, u->b);
    unit_walk walk = {.f = f->kinds,
                      .b = b->kinds,
                      .f_at = first_of(f),
                      .f_end = end_of(f),
                      .b_at = end_of(b) - 1,
                      .b_end = first_of(b) - 1};
    unit_step s;
    begin_forward(w, u->f);
    begin_backward(w, u->b);
    while (unit_layers(&walk, &s)) run_step(w, u, &s);
    bool sent = walk.f_at == walk.f_end;
    if (sent) end_forward(w, u->f);
    while (unit_rest(&walk, &s)) run_step(w, u, &s);
    if (!sent) end_forward(w, u->f);
    end_backward(w, u->b);
}

static void cut_units(item_walk *w)
{
    const step_order *o = &w->p->order;
    bool pairs = w->p->s->j.ep_overlap;
    w->units = ARENA_ARRAY(w->s->own, unit, o->n);
    for (int64_t i = 0; i < o->n; i++) {
        bool forward = o->list[i].phase == SEG_FORWARD;
        unit u = {forward ? i : -1, forward ? -1 : i};
        if (pairs && order_is_pair(o, i)) u.b = ++i;
        w->units[w->n_units++] = u;
    }
}

static void run_units(item_walk *w)
{
    bool posts = w->p->posts_early;
    for (int64_t i = 0; i < w->n_units; i++) {
        const unit *u = &w->units[i];
        if (posts && i == 0) post(w, u);
        if (posts && i + 1 < w->n_units) post(w, u + 1);
        if (u->f >= 0 && u->b >= 0)
            run_both(w, u);
        else
            run_single(w, u->f >= 0 ? u->f : u->b);
    }
}

/* ---- the lists */

static void find_entries(item_walk *w)
{
    const step_order *o = &w->p->order;
    int count[2] = {0, 0};
    for (int64_t c = 0; c < w->p->n_chunks; c++) w->first_f[c] = w->last_b[c] = -1;
    for (int64_t i = 0; i < o->n; i++) {
        const order_entry *e = &o->list[i];
        w->turn[i] = count[e->phase]++ % w->p->ring_depth;
        if (e->phase == SEG_FORWARD && w->first_f[e->chunk] < 0) w->first_f[e->chunk] = i;
        if (e->phase == SEG_BACKWARD) w->last_b[e->chunk] = i;
    }
}

/* Room for the whole list at once: it has an item for each layer of each microbatch, and growing
 * would take as much again. A unit has few messages and waits; what buckets add grows the list. */
static void take_room(item_walk *w)
{
    enum { AROUND_A_UNIT = 8 };
    const step_order *o = &w->p->order;
    int64_t room = AROUND_A_UNIT;
    for (int64_t i = 0; i < o->n; i++) room += w->p->chunks[o->list[i].chunk].n + AROUND_A_UNIT;
    w->out->list = ARENA_RAW(w->s->own, item, room);
    w->out->room = room;
}

static void step_items(item_walk *w)
{
    program *p = w->p;
    w->out = &p->items[PART_STEP];
    take_room(w);
    gather_items(w);
    run_units(w);
    for (int turn = 0; turn < p->ring_depth && p->s->pipe.pp > 1; turn++) {
        add_wait(w, event_of_message(EVENT_SEND_FORWARD, turn, p->ring_depth));
        add_wait(w, event_of_message(EVENT_SEND_BACKWARD, turn, p->ring_depth));
    }
}

void build_items(assembly *s)
{
    program *p = s->p;
    arena *a = s->own;
    item_walk w = {.s = s, .p = p};
    p->n_events = events_of_program(p->weights.n_buckets, p->ring_depth);
    s->waits = (const segment **)ARENA_ARRAY(a, segment *, p->n_events + 1);
    w.turn = ARENA_ARRAY(a, int, p->order.n);
    w.first_f = ARENA_ARRAY(a, int64_t, p->n_chunks);
    w.last_b = ARENA_ARRAY(a, int64_t, p->n_chunks);
    w.user = ARENA_ARRAY(a, int, p->weights.n_buckets + 1);
    w.overlaps_reduction = p->s->j.grad_overlap;
    find_entries(&w);
    find_users(&w);
    cut_units(&w);
    step_items(&w);
    if (s->sizes_only) {
        sums_segment(s);
    } else {
        first_writers(&w);
        finish_items(&w);
    }
}
