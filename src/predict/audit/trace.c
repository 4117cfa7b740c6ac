/* trace.c - from programs to traces.
 *
 * I1  Two parts with the same lists and labels are one part: addresses are compared. */
#include "predict/audit/trace.h"

#include <string.h>

#include "predict/audit/hash.h"
#include "predict/audit/lists.h"

/* ---- parts */

static audit_label label_at(const program *p, const item_at *at)
{
    if (at->chunk < 0 || at->chunk >= p->n_chunks) return (audit_label){-1, -1, -1};
    const chunk *c = &p->chunks[at->chunk];
    bool known = at->instance >= 0 && at->instance < c->n;
    return (audit_label){(int32_t)(at->chunk * p->s->pipe.pp + p->at.pp),
                         known ? (int32_t)c->list[at->instance].layer : -1, (int32_t)at->micro};
}

static void part_hash(audit_part *p)
{
    uint64_t h = HASH_START;
    for (int64_t i = 0; i < p->n; i++) {
        const audit_item *it = &p->items[i];
        h = hash_add(h, it->list->hash);
        h = hash_add(h, (uint64_t)it->at[0].micro << 32 ^ (uint32_t)it->at[0].layer);
    }
    p->hash = h;
}

static bool label_equal(const audit_label *a, const audit_label *b)
{
    return a->stage == b->stage && a->layer == b->layer && a->micro == b->micro;
}

static bool part_equal(const audit_part *a, const audit_part *b)
{
    if (a->hash != b->hash || a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++) {
        const audit_item *x = &a->items[i], *y = &b->items[i];
        if (x->list != y->list || !label_equal(&x->at[0], &y->at[0]) ||
            !label_equal(&x->at[1], &y->at[1]))
            return false;
    }
    return true;
}

static bool part_same_shape(const audit_part *a, const audit_part *b)
{
    if (a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (a->items[i].list->shape != b->items[i].list->shape) return false;
    return true;
}

/* The one part of the book that equals this one (I1). */
static const audit_part *part_keep(audit_book *book, audit_part *p)
{
    int shape = -1;
    part_hash(p);
    for (int i = 0; i < book->n_parts; i++) {
        if (part_equal(book->parts[i], p)) return book->parts[i];
        if (shape < 0 && part_same_shape(book->parts[i], p)) shape = book->parts[i]->shape;
    }
    book->parts = list_grown(book->a, book->parts, book->n_parts, &book->parts_room);
    audit_part *kept = ARENA_NEW(book->a, audit_part);
    *kept = *p;
    kept->shape = shape < 0 ? book->n_part_shapes++ : shape;
    kept->id = book->n_parts;
    kept->items = ARENA_ARRAY(book->a, audit_item, p->n + 1);
    if (p->n) memcpy(kept->items, p->items, sizeof *p->items * (size_t)p->n);
    return book->parts[book->n_parts++] = kept;
}

/* Lists of this program's segments: [segment][phase], found by the segment's address. */
typedef struct known_lists {
    const segment **segs;
    const audit_list *(*lists)[2];
    int n, room;
} known_lists;

static const audit_list *find_list(known_lists *k, audit_book *book, const item *it, arena *scratch)
{
    for (int i = 0; i < k->n; i++)
        if (k->segs[i] == it->seg) return k->lists[i][it->phase];
    if (k->n == k->room) {
        int room = 2 * k->room + 64;
        const segment **segs = (const segment **)ARENA_ARRAY(scratch, segment *, room);
        const audit_list *(*lists)[2] = arena_take(scratch, sizeof *lists * (size_t)room);
        if (k->n) memcpy(segs, k->segs, sizeof *segs * (size_t)k->n);
        if (k->n) memcpy(lists, k->lists, sizeof *lists * (size_t)k->n);
        *k = (known_lists){segs, lists, k->n, room};
    }
    k->segs[k->n] = it->seg;
    for (int phase = 0; phase < 2; phase++)
        k->lists[k->n][phase] = list_of(book, it->seg, phase, scratch);
    return k->lists[k->n++][it->phase];
}

/* ---- traces */

audit_trace trace_of(audit_book *book, const program *p)
{
    audit_trace s = {.n_events = p->n_events};
    arena *scratch = arena_create();
    known_lists known = {0};
    for (int i = 0; i < PART_COUNT; i++) {
        audit_part part = {.items = ARENA_ARRAY(scratch, audit_item, p->items[i].n + 1)};
        for (int64_t k = 0; k < p->items[i].n; k++) {
            const item *it = &p->items[i].list[k];
            const audit_list *l = find_list(&known, book, it, scratch);
            if (l)
                part.items[part.n++] =
                    (audit_item){l, {label_at(p, &it->at[0]), label_at(p, &it->at[1])}};
        }
        s.part[i] = part_keep(book, &part);
    }
    arena_destroy(scratch);
    return s;
}

bool trace_equal(const audit_trace *a, const audit_trace *b)
{
    return memcmp(a->part, b->part, sizeof a->part) == 0 && a->n_events == b->n_events;
}

audit_part *trace_own_part(audit_book *book, audit_trace *s, item_part part)
{
    audit_part *own = ARENA_NEW(book->a, audit_part);
    *own = *s->part[part];
    own->items = ARENA_ARRAY(book->a, audit_item, own->n + 1);
    memcpy(own->items, s->part[part]->items, sizeof *own->items * (size_t)own->n);
    s->part[part] = own;
    return own;
}

audit_list *part_own_list(audit_book *book, audit_part *p, int64_t item_id)
{
    audit_list *own = list_copy(p->items[item_id].list, book->a);
    p->items[item_id].list = own;
    return own;
}

static bool list_is_kept(const audit_book *book, const audit_list *l)
{
    for (int k = 0; k < book->n_lists; k++)
        if (book->lists[k] == l) return true;
    return false;
}

static void part_seal(audit_book *book, audit_part *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        audit_list l = *p->items[i].list;
        if (!list_is_kept(book, p->items[i].list)) p->items[i].list = list_sealed(book, &l);
    }
}

void trace_seal(audit_book *book, audit_trace *s)
{
    for (int i = 0; i < PART_COUNT; i++) {
        bool kept = false;
        for (int k = 0; k < book->n_parts && !kept; k++) kept = book->parts[k] == s->part[i];
        if (kept) continue;
        audit_part p = *s->part[i];
        part_seal(book, &p);
        s->part[i] = part_keep(book, &p);
    }
}
