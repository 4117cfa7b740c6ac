/* slots.c - places the activations that forward saves until backward, on the device and on the
 * host.
 *
 * I1  The input of an instance is a separate part, so that a receive that is posted ahead occupies
 *     only that part. Slots on the host are not divided, because nothing is written there ahead. */
#include "ir/memory/packing.h"
#include "ir/memory/plan.h"

static slot_row row_of(const chunk *c, bool host, arena *a)
{
    slot_row r = {.list = ARENA_ARRAY(a, slot_bytes, c->n + 1), .kinds = c->kinds};
    for (int i = 0; i < c->n; i++) {
        const instance *in = &c->list[i];
        slot_bytes *s = &r.list[r.n];
        if (in->seg->kind == SEGMENT_RECEIVE) {
            r.receives = true;
            r.kinds = c->kinds + 1;
        }
        if (in->seg->kind == SEGMENT_RECEIVE || in->seg->kind == SEGMENT_SEND) continue;
        for (int k = 0; k < SAVED_PARTS && !host; k++) s->bytes[k] = in->seg->parts[k];
        if (host) s->bytes[SAVED_OTHER] = in->seg->host_bytes;
        r.n++;
    }
    return r;
}

packed place_slots(program *p, bool host, bool sizes_only, arena *a)
{
    slot_row *rows = ARENA_ARRAY(a, slot_row, p->n_chunks);
    slot_rows s = {rows, p->n_chunks, p->s->j.ep_overlap, p->posts_early};
    p->slots = 1;
    for (int64_t c = 0; c < p->n_chunks; c++) {
        rows[c] = row_of(&p->chunks[c], host, a);
        if (rows[c].n > p->slots) p->slots = rows[c].n;
    }
    if (sizes_only) return packing_of(&s, &p->order, NULL, a);
    packing_places places = {.micros = p->micros, .most = p->slots};
    places.at = ARENA_ARRAY(a, int64_t, p->n_chunks * p->micros * p->slots * SAVED_PARTS);
    *(host ? &p->host_slot : &p->slot) = places.at;
    return packing_of(&s, &p->order, &places, a);
}
