/* lists.c - messages and waits of a list of operations.
 *
 * I1  Two lists with the same messages, waits and names are one list: they are compared by their
 *     addresses.
 * I2  A lane's number means the same in all lists. */
#include "predict/audit/lists.h"

#include <string.h>

#include "predict/audit/hash.h"

/* ---- lanes */

bool lane_equal(const audit_lane *a, const audit_lane *b)
{
    return a->kind == b->kind && a->group == b->group && a->stream == b->stream &&
           a->step == b->step && a->tag == b->tag;
}

static int lane_number(audit_book *book, audit_lane key)
{
    for (int i = 0; i < book->n_lanes; i++) {
        const audit_lane *l = &book->lanes[i];
        if (lane_equal(l, &key)) return i;
    }
    if (book->n_lanes == book->lanes_room) {
        audit_lane *more = ARENA_ARRAY(book->a, audit_lane, 2 * book->lanes_room + 16);
        if (book->n_lanes) memcpy(more, book->lanes, sizeof *more * (size_t)book->n_lanes);
        book->lanes_room = 2 * book->lanes_room + 16;
        book->lanes = more;
    }
    book->lanes[book->n_lanes] = key;
    return book->n_lanes++;
}

static bool one_of_pair(const audit_entry *e)
{
    return op_is(e->kind, GIVES) || op_is(e->kind, TAKES);
}

static int lane_of(audit_book *book, const audit_entry *e)
{
    if (e->kind == OP_WAIT) return -1;
    if (!one_of_pair(e))
        return lane_number(book, (audit_lane){LANE_COLLECTIVE, e->group, e->stream, 0, 0});
    int64_t n = group_width(book->s, e->group);
    lane_kind kind = op_is(e->kind, GIVES) ? LANE_SEND : LANE_RECV;
    int64_t step = (e->step % n + n) % n;
    return lane_number(book, (audit_lane){kind, e->group, e->stream, step, e->tag});
}

/* ---- entries */

/* A send and its receive agree in size alone; a collective in all. */
static uint64_t entry_hash(const audit_entry *e)
{
    uint64_t h = hash_add(hash_add(HASH_START, (uint64_t)e->n), (uint64_t)e->type);
    if (e->kind == OP_WAIT || one_of_pair(e)) return h;
    h = hash_add(h, (uint64_t)e->kind);
    h = hash_add(h, (uint64_t)e->width);
    h = hash_add(h, (uint64_t)e->step);
    return hash_text(h, e->name);
}

/* Between which stages a message goes: the number of the first. */
static int64_t border_of(const audit_label *l, const audit_entry *e)
{
    return e->step > 0 ? l->stage : l->stage - 1;
}

uint64_t entry_hash_at(const audit_item *it, const audit_entry *e)
{
    const audit_label *l = label_of(it, e);
    if (one_of_pair(e))
        return hash_add(hash_add(e->hash, (uint64_t)l->micro), (uint64_t)border_of(l, e));
    if (group_spans_stages(e->group)) return e->hash;
    return hash_add(hash_add(e->hash, (uint64_t)l->micro), (uint64_t)l->layer);
}

bool entries_agree(const audit_item *ia, const audit_entry *a, const audit_item *ib,
                   const audit_entry *b)
{
    const audit_label *la = label_of(ia, a), *lb = label_of(ib, b);
    if (a->n != b->n || a->type != b->type) return false;
    if (one_of_pair(a)) return la->micro == lb->micro && border_of(la, a) == border_of(lb, b);
    if (a->kind != b->kind || a->width != b->width || a->step != b->step ||
        !text_equal(a->name, b->name))
        return false;
    return group_spans_stages(a->group) || (la->micro == lb->micro && la->layer == lb->layer);
}

static audit_entry message_entry(audit_book *book, const segment *seg, const op *o)
{
    bool exchange = op_is(o->kind, BY_TABLE);
    audit_entry e = {.kind = o->kind,
                     .group = o->group,
                     .stream = o->stream,
                     .n = o->dim[DIM_MESSAGE_N],
                     .type = o->type,
                     .width = exchange ? o->dim[DIM_EXCHANGE_W] : 1,
                     .event = o->event,
                     .across = (o->flags & ACROSS) != 0,
                     .name = o->name};
    if (op_is(o->kind, STEPPED)) e.step = o->dim[DIM_MESSAGE_STEP];
    if (one_of_pair(&e)) e.tag = o->dim[DIM_MESSAGE_TAG];
    if (exchange) e.shape = exchange_shape_of(seg, o);
    int id = op_first_buf(o);
    if (id >= 0) e.owner = seg->bufs[id].owner;
    e.lane = lane_of(book, &e);
    e.hash = entry_hash(&e);
    return e;
}

/* ---- lists */

static void list_seal(audit_list *l)
{
    uint64_t h = hash_add(hash_add(HASH_START, (uint64_t)l->kind), (uint64_t)l->phase);
    for (int i = 0; i < l->n; i++) {
        const audit_entry *e = &l->entries[i];
        h = hash_add(h, e->hash);
        h = hash_add(h, (uint64_t)(e->lane + 1));
        h = hash_add(h, (uint64_t)(2 * e->event + e->across));
        h = hash_text(hash_add(h, (uint64_t)e->owner), e->name);
    }
    l->hash = h;
}

static bool entry_equal(const audit_entry *a, const audit_entry *b)
{
    return a->kind == b->kind && a->group == b->group && a->stream == b->stream && a->n == b->n &&
           a->type == b->type && a->width == b->width && a->step == b->step && a->tag == b->tag &&
           a->event == b->event && a->across == b->across && a->owner == b->owner &&
           a->shape.hop == b->shape.hop && a->shape.back == b->shape.back &&
           text_equal(a->name, b->name);
}

static bool list_equal(const audit_list *a, const audit_list *b)
{
    if (a->hash != b->hash || a->n != b->n || a->phase != b->phase || a->kind != b->kind)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!entry_equal(&a->entries[i], &b->entries[i])) return false;
    return true;
}

static bool same_shape(const audit_list *a, const audit_list *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const audit_entry *x = &a->entries[i], *y = &b->entries[i];
        if (x->kind != y->kind || x->lane != y->lane || x->event != y->event ||
            x->across != y->across)
            return false;
    }
    return true;
}

static const char *keep_text(arena *a, const char *s)
{
    return s ? arena_copy(a, s, strlen(s)) : "";
}

audit_list *list_copy(const audit_list *l, arena *a)
{
    audit_list *copy = ARENA_NEW(a, audit_list);
    *copy = *l;
    copy->name = keep_text(a, l->name);
    copy->entries = ARENA_ARRAY(a, audit_entry, l->n);
    for (int i = 0; i < l->n; i++) {
        copy->entries[i] = l->entries[i];
        copy->entries[i].name = keep_text(a, l->entries[i].name);
    }
    return copy;
}

void *list_grown(arena *a, void *list, int n, int *room)
{
    if (n < *room) return list;
    *room = 2 * *room + 64;
    void **more = ARENA_ARRAY(a, void *, *room);
    if (n) memcpy(more, list, sizeof *more * (size_t)n);
    return more;
}

/* The one list of the book that equals this one (I1). */
static const audit_list *list_keep(audit_book *book, const audit_list *l)
{
    int shape = -1;
    for (int i = 0; i < book->n_lists; i++) {
        if (list_equal(book->lists[i], l)) return book->lists[i];
        if (shape < 0 && same_shape(book->lists[i], l)) shape = book->lists[i]->shape;
    }
    book->lists = list_grown(book->a, book->lists, book->n_lists, &book->lists_room);
    audit_list *kept = list_copy(l, book->a);
    kept->shape = shape < 0 ? book->n_shapes++ : shape;
    kept->id = book->n_lists;
    return book->lists[book->n_lists++] = kept;
}

const audit_list *list_of(audit_book *book, const segment *seg, int phase, arena *scratch)
{
    int n = seg->n_ops[phase];
    audit_list l = {.kind = seg->kind, .name = seg->name, .phase = phase};
    l.entries = ARENA_ARRAY(scratch, audit_entry, n + 1);
    bool *message = ARENA_ARRAY(scratch, bool, n + 2); /* by event */
    for (int i = 0; i < n; i++) {
        const op *o = &seg->ops[phase][i];
        bool across = (o->flags & ACROSS) != 0;
        int64_t awaited = o->kind == OP_WAIT ? o->dim[DIM_WAIT_EVENT] : 0;
        if (op_is_comm(o->kind) && group_width(book->s, o->group) > 1) {
            l.entries[l.n++] = message_entry(book, seg, o);
            if (across) continue;
            if (o->event <= n) message[o->event] = true;
            if (o->event > l.n_events) l.n_events = o->event;
        } else if (o->kind == OP_WAIT && (across || (awaited <= n && message[awaited]))) {
            l.entries[l.n++] = (audit_entry){.kind = OP_WAIT,
                                             .event = (int)awaited,
                                             .across = across,
                                             .lane = -1,
                                             .name = o->name};
        }
    }
    list_seal(&l);
    return l.n ? list_keep(book, &l) : NULL;
}

const audit_list *list_sealed(audit_book *book, audit_list *l)
{
    for (int k = 0; k < l->n; k++) {
        l->entries[k].lane = lane_of(book, &l->entries[k]);
        l->entries[k].hash = entry_hash(&l->entries[k]);
    }
    list_seal(l);
    return list_keep(book, l);
}
