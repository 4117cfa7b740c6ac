/* card_slots.c - the region of saved buffers on sizes alone, packed exactly as slots.c packs it. */
#include <string.h>

#include "ir/memory/packing.h"
#include "plan/card_ranks.h"

static void add_part(slot_row *r, const part_sums *p, int part, segment_kind kind)
{
    memcpy(r->list[r->n].bytes, p->part[part], sizeof p->part[part]);
    r->kinds[r->n++] = kind;
}

/* Embedding, layers, final norm, prediction, head. */
static slot_row row_of(const part_sums *p, cards *k, const chunk_mix *m, const stage *st, arena *a)
{
    static const segment_kind rest[] = {SEGMENT_FINAL, SEGMENT_MTP, SEGMENT_HEAD};
    slot_row r = {.list = ARENA_ARRAY(a, slot_bytes, st->n_layers + 5),
                  .kinds = ARENA_ARRAY(a, segment_kind, st->n_layers + 5),
                  .receives = m->receives};
    if (m->n[MIX_EMBEDDING]) add_part(&r, p, MIX_EMBEDDING, SEGMENT_EMBEDDING);
    for (int64_t i = 0; i < st->n_layers; i++)
        add_part(&r, p, cards_kind_of(k, st->first_layer + i), SEGMENT_LAYER);
    for (int i = MIX_FINAL; i < MIX_PARTS; i++)
        if (m->n[i]) add_part(&r, p, i, rest[i - MIX_FINAL]);
    return r;
}

static slot_rows rows_of(const slots_of *s, arena *a)
{
    const choice *c = s->c;
    slot_row *rows = ARENA_ARRAY(a, slot_row, c->vpp);
    for (int64_t v = 0; v < c->vpp; v++) {
        int64_t id = v * c->pp + s->rank;
        rows[v] = row_of(s->sums, s->k, &s->f->mix[id], &s->f->split->pipe.stages[id], a);
    }
    return (slot_rows){rows, c->vpp, c->overlap >= OVERLAP_EP, s->z->posts_early};
}

static const step_order *order_of(const slots_of *s)
{
    order_shape h = choice_order(s->c, s->z, s->rank);
    return cards_order(s->k, &h);
}

int64_t saved_alive(const slots_of *s, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    slot_rows rows = rows_of(s, scratch);
    int64_t bytes = lives_most(&rows, order_of(s));
    arena_release(scratch, mark);
    return bytes;
}

int64_t saved_packed(const slots_of *s, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    slot_rows rows = rows_of(s, scratch);
    int64_t bytes = packing_of(&rows, order_of(s), NULL, scratch).bytes;
    arena_release(scratch, mark);
    return bytes;
}
