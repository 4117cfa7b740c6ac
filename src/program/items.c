/* items.c - everything that a rank does in a step, in order.
 *
 * The order of (phase, chunk, microbatch) is cut into units: one entry, or with combined 1F1B a
 * forward and the backward beside it. Around a unit's instances stand its messages.
 *
 * I1  A buffer of the boundary region is written only after the message that last used it is
 *     complete: the wait stands before the unit that writes.
 * I2  With overlapping messages receives are posted one unit ahead, into the other of two buffers.
 * I3  A bucket is reduced after the last backward that adds to it, and gathered before the first
 *     forward that reads it. */
#include <string.h>

#include "program/assembly.h"
#include "program/build_messages.h"

typedef struct unit {
    int64_t f, b; /* entries of the order; -1: none */
} unit;

typedef struct walk {
    assembly *s;
    program *p;
    item_list *out;
    int *turn;        /* [order.n] of each entry */
    int64_t *first_f; /* [n_chunks] entry of the first forward */
    int64_t *last_b;  /* [n_chunks] entry of the last backward */
    int *user;        /* [n_buckets] first instance of its chunk that uses it */
    bool reduces_beside;
    unit *units;
    int64_t n_units;
} walk;

/* ---- segments made when they are needed */

const segment *message_segment(assembly *s, message_kind k, int64_t elements, int turn)
{
    static void (*const build[MESSAGE_KINDS])(builder *, segment *, message_shape) = {
        build_receive, build_send, build_post};
    for (int i = 0; i < s->n_messages; i++)
        if (s->messages[i].kind == k && s->messages[i].elements == elements &&
            s->messages[i].turn == turn)
            return s->messages[i].seg;
    segment *seg = assembly_segment(s);
    build[k](&s->b, seg, (message_shape){elements, turn, s->p->posts_early});
    assembly_done(s, seg, 0);
    s->messages[s->n_messages].seg = seg;
    s->messages[s->n_messages].kind = k;
    s->messages[s->n_messages].elements = elements;
    s->messages[s->n_messages++].turn = turn;
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
    for (int i = 0; i < s->n_pairs; i++)
        if (s->pairs[i].f == f && s->pairs[i].b == b) return s->pairs[i].seg;
    segment *seg = assembly_segment(s);
    pair_options o = {recipe_on(&s->p->s->r, K_DELAY_WGRAD), recipe_on(&s->p->s->r, K_EARLY_ATTN)};
    segment_pair(seg, f, b, o, s->b.a);
    if (s->n_pairs < s->pairs_room) {
        s->pairs[s->n_pairs].f = f;
        s->pairs[s->n_pairs].b = b;
        s->pairs[s->n_pairs++].seg = seg;
    }
    return seg;
}

static const segment *bucket_segment(walk *w, int id, bool gather, bool across)
{
    segment *seg = assembly_segment(w->s);
    if (gather)
        build_gather(&w->s->b, seg, w->p, id, across);
    else
        build_reduce(&w->s->b, seg, w->p, id, across);
    assembly_done(w->s, seg, 0);
    return seg;
}

/* ---- items */

static item *add(walk *w, const segment *seg, int phase, item_at at)
{
    item_list *l = w->out;
    if (l->n == l->room) {
        int64_t room = l->room ? l->room * 2 : 256;
        item *larger = ARENA_ARRAY(w->s->b.a, item, room);
        if (l->n) memcpy(larger, l->list, sizeof *larger * (size_t)l->n);
        l->list = larger;
        l->room = room;
    }
    l->list[l->n] = (item){.seg = seg, .phase = phase, .at = {at, at}};
    return &l->list[l->n++];
}

static const item_at nowhere = {.chunk = -1};

static void add_wait(walk *w, int event)
{
    add(w, wait_segment(w->s, event), SEG_FORWARD, nowhere);
}

static item_at place_at(const walk *w, int64_t entry, int instance_id)
{
    const order_entry *e = &w->p->order.list[entry];
    return (item_at){(int)e->chunk, instance_id, e->micro, w->turn[entry]};
}

static const chunk *chunk_of(const walk *w, int64_t entry)
{
    return &w->p->chunks[w->p->order.list[entry].chunk];
}

static bool has_receive(const chunk *c)
{
    return strcmp(c->list[0].seg->name, "receive") == 0;
}

static bool has_send(const chunk *c)
{
    return strcmp(c->list[c->n - 1].seg->name, "send") == 0;
}

static int64_t elements_of(const instance *i)
{
    return i->seg->bufs[0].bytes / i->seg->bufs[0].word;
}

/* ---- messages between stages */

static void add_message(walk *w, int64_t entry, message_kind kind, int instance_id, int phase)
{
    const chunk *c = chunk_of(w, entry);
    int64_t n = elements_of(&c->list[instance_id]);
    add(w, message_segment(w->s, kind, n, w->turn[entry]), phase, place_at(w, entry, instance_id));
}

/* A stage without layers hands on what it receives: from the very buffer. */
static bool hands_on(const chunk *c)
{
    return c->n == 2 && has_receive(c) && has_send(c);
}

static void wait_forward(walk *w, int64_t entry) /* I1 */
{
    add_wait(w, event_of_message(EVENT_SEND_FORWARD, w->turn[entry]));
}

static void post(walk *w, const unit *u) /* I2 */
{
    if (u->f >= 0 && has_receive(chunk_of(w, u->f))) {
        if (hands_on(chunk_of(w, u->f))) wait_forward(w, u->f);
        add_message(w, u->f, MESSAGE_POST, 0, SEG_FORWARD);
    }
    if (u->b < 0) return;
    const chunk *c = chunk_of(w, u->b);
    if (!has_send(c)) return;
    add_wait(w, event_of_message(EVENT_SEND_BACKWARD, w->turn[u->b])); /* I1 */
    add_message(w, u->b, MESSAGE_POST, c->n - 1, SEG_BACKWARD);
}

static void begin_forward(walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    if (hands_on(c) && !w->p->posts_early) wait_forward(w, entry);
    if (has_receive(c)) add_message(w, entry, MESSAGE_RECEIVE, 0, SEG_FORWARD);
    if (has_send(c) && !hands_on(c)) wait_forward(w, entry);
}

static void begin_backward(walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    bool posted = w->p->posts_early && has_send(c);
    if (w->p->s->pipe.pp > 1 && !posted)
        add_wait(w, event_of_message(EVENT_SEND_BACKWARD, w->turn[entry])); /* I1 */
    if (has_send(c)) add_message(w, entry, MESSAGE_SEND, c->n - 1, SEG_BACKWARD);
}

static void end_forward(walk *w, int64_t entry)
{
    const chunk *c = chunk_of(w, entry);
    if (has_send(c)) add_message(w, entry, MESSAGE_SEND, c->n - 1, SEG_FORWARD);
}

static void end_backward(walk *w, int64_t entry)
{
    if (has_receive(chunk_of(w, entry))) add_message(w, entry, MESSAGE_RECEIVE, 0, SEG_BACKWARD);
}

/* ---- replicas */

static bool is_segment(const instance *i, const char *name)
{
    return strcmp(i->seg->name, name) == 0;
}

static bool uses(const walk *w, const instance *i, const weight *x)
{
    param_block block = x->row->block;
    int64_t n_layers = w->p->s->m.n_layers;
    if (block == BLOCK_EMBEDDING)
        return is_segment(i, "embedding") || is_segment(i, "mtp") ||
               (is_segment(i, "head") && w->p->s->m.tied);
    if (block == BLOCK_HEAD && x->row->n_dims == 1 && w->p->s->m.n_mtp)
        return is_segment(i, "final");
    if (block == BLOCK_HEAD) return is_segment(i, "head");
    if (x->layer >= n_layers) return is_segment(i, "mtp");
    return is_segment(i, "layer") && x->layer >= i->layer && x->layer < i->layer + i->seg->n_layers;
}

static void find_users(walk *w)
{
    const program *p = w->p;
    for (int b = 0; b < p->weights.n_buckets; b++) w->user[b] = -1;
    for (int k = 0; k < p->weights.n; k++) {
        const weight *x = &p->weights.list[k];
        if (x->bucket < 0) continue;
        const chunk *c = &p->chunks[x->chunk];
        for (int i = 0; i < c->n; i++) {
            if (!uses(w, &c->list[i], x)) continue;
            if (w->user[x->bucket] < 0 || i < w->user[x->bucket]) w->user[x->bucket] = i;
            break;
        }
    }
}

static void before_instance(walk *w, int64_t entry, int i)
{
    const order_entry *e = &w->p->order.list[entry];
    if (!w->p->gathers_late || entry != w->first_f[e->chunk]) return;
    for (int b = 0; b < w->p->weights.n_buckets; b++) {
        const bucket *k = &w->p->weights.buckets[b];
        if (k->chunk == e->chunk && w->user[b] == i && k->shards > 1) /* I3 */
            add_wait(w, event_of_gather(b));
    }
}

static void after_instance(walk *w, int64_t entry, int i)
{
    const order_entry *e = &w->p->order.list[entry];
    if (!w->reduces_beside || entry != w->last_b[e->chunk]) return;
    for (int b = 0; b < w->p->weights.n_buckets; b++)
        if (w->p->weights.buckets[b].chunk == e->chunk && w->user[b] == i &&
            bucket_has_replicas(w->p, b)) /* I3 */
            add(w, bucket_segment(w, b, false, true), SEG_FORWARD, nowhere);
}

/* ---- units */

static void run_one(walk *w, int64_t entry, int i)
{
    int phase = w->p->order.list[entry].phase;
    if (phase == SEG_FORWARD) before_instance(w, entry, i);
    add(w, chunk_of(w, entry)->list[i].seg, phase, place_at(w, entry, i));
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

static void run_single(walk *w, int64_t entry)
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

static void run_pair(walk *w, const unit *u, int f, int b)
{
    before_instance(w, u->f, f);
    const segment *sf = chunk_of(w, u->f)->list[f].seg, *sb = chunk_of(w, u->b)->list[b].seg;
    item *it = add(w, pair_segment(w->s, sf, sb), SEG_FORWARD, place_at(w, u->f, f));
    it->at[1] = place_at(w, u->b, b);
    after_instance(w, u->b, b);
}

/* Embedding of the one, head of the other, layers in pairs, what is left of either, then the rest:
 * each half in its own order. */
static void run_both(walk *w, const unit *u)
{
    const chunk *cf = chunk_of(w, u->f), *cb = chunk_of(w, u->b);
    int f = first_of(cf), f_end = end_of(cf), b = end_of(cb) - 1, b_end = first_of(cb) - 1;
    begin_forward(w, u->f);
    begin_backward(w, u->b);
    while (f < f_end && is_segment(&cf->list[f], "embedding")) run_one(w, u->f, f++);
    while (b > b_end && !is_segment(&cb->list[b], "layer")) run_one(w, u->b, b--);
    while (f < f_end && b > b_end && is_segment(&cf->list[f], "layer") &&
           is_segment(&cb->list[b], "layer"))
        run_pair(w, u, f++, b--);
    while (b > b_end && is_segment(&cb->list[b], "layer")) run_one(w, u->b, b--);
    while (f < f_end && is_segment(&cf->list[f], "layer")) run_one(w, u->f, f++);
    if (f == f_end) end_forward(w, u->f);
    bool sent = f == f_end;
    while (f < f_end) run_one(w, u->f, f++);
    while (b > b_end) run_one(w, u->b, b--);
    if (!sent) end_forward(w, u->f);
    end_backward(w, u->b);
}

static void cut_units(walk *w)
{
    const step_order *o = &w->p->order;
    bool pairs = recipe_on(&w->p->s->r, K_EP_OVERLAP);
    int64_t steady_end = o->n - o->warmup;
    w->units = ARENA_ARRAY(w->s->b.a, unit, o->n);
    for (int64_t i = 0; i < o->n; i++) {
        bool forward = o->list[i].phase == SEG_FORWARD;
        unit u = {forward ? i : -1, forward ? -1 : i};
        if (pairs && forward && i >= o->warmup && i + 1 < steady_end) u.b = ++i;
        w->units[w->n_units++] = u;
    }
}

static void run_units(walk *w)
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

static void find_entries(walk *w)
{
    const step_order *o = &w->p->order;
    int count[2] = {0, 0};
    for (int64_t c = 0; c < w->p->n_chunks; c++) w->first_f[c] = w->last_b[c] = -1;
    for (int64_t i = 0; i < o->n; i++) {
        const order_entry *e = &o->list[i];
        w->turn[i] = count[e->phase]++ % w->p->turns;
        if (e->phase == SEG_FORWARD && w->first_f[e->chunk] < 0) w->first_f[e->chunk] = i;
        if (e->phase == SEG_BACKWARD) w->last_b[e->chunk] = i;
    }
}

static void step_items(walk *w)
{
    program *p = w->p;
    w->out = &p->items[PART_STEP];
    for (int b = p->weights.n_buckets - 1; p->gathers_late && b >= 0; b--)
        if (p->weights.buckets[b].shards > 1)
            add(w, bucket_segment(w, b, true, true), SEG_FORWARD, nowhere);
    run_units(w);
    for (int turn = 0; turn < p->turns && p->s->pipe.pp > 1; turn++) {
        add_wait(w, event_of_message(EVENT_SEND_FORWARD, turn));
        add_wait(w, event_of_message(EVENT_SEND_BACKWARD, turn));
    }
}

static void finish_items(walk *w)
{
    program *p = w->p;
    w->out = &p->items[PART_FINISH];
    for (int b = 0; b < p->weights.n_buckets; b++) {
        if (!bucket_has_replicas(p, b)) continue;
        if (w->reduces_beside)
            add_wait(w, event_of_reduce(b));
        else
            add(w, bucket_segment(w, b, false, false), SEG_FORWARD, nowhere);
    }
    segment *sums = assembly_segment(w->s);
    build_sums(&w->s->b, sums, p);
    assembly_done(w->s, sums, 0);
    if (sums->n_ops[SEG_FORWARD]) add(w, sums, SEG_FORWARD, nowhere);
    w->out = &p->items[PART_GATHER];
    for (int b = 0; b < p->weights.n_buckets; b++)
        if (p->weights.buckets[b].shards > 1)
            add(w, bucket_segment(w, b, true, false), SEG_FORWARD, nowhere);
}

void build_items(assembly *s)
{
    program *p = s->p;
    arena *a = s->b.a;
    walk w = {.s = s, .p = p};
    p->n_events = events_of_program(p->weights.n_buckets);
    s->waits = (const segment **)ARENA_ARRAY(a, segment *, p->n_events + 1);
    s->pairs_room = p->n_segments * p->n_segments;
    s->pairs = arena_take(a, sizeof *s->pairs * (size_t)s->pairs_room);
    w.turn = ARENA_ARRAY(a, int, p->order.n);
    w.first_f = ARENA_ARRAY(a, int64_t, p->n_chunks);
    w.last_b = ARENA_ARRAY(a, int64_t, p->n_chunks);
    w.user = ARENA_ARRAY(a, int, p->weights.n_buckets + 1);
    w.reduces_beside = recipe_on(&p->s->r, K_GRAD_OVERLAP);
    p->gathers_late = recipe_on(&p->s->r, K_PARAM_OVERLAP) && recipe_on(&p->s->r, K_DIST_OPT);
    find_entries(&w);
    find_users(&w);
    cut_units(&w);
    step_items(&w);
    finish_items(&w);
}
