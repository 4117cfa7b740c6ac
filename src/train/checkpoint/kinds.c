/* kinds.c - what of a weight a rank writes and reads.
 *
 * I1  Over all ranks, what is written of a weight is each of its elements once (owned.h). */
#include "train/checkpoint/kinds.h"

#include "train/executor/owned.h"

static void cut(checkpoint_pieces *p, const checkpoint *c, const weight *w, int64_t first,
                int64_t n)
{
    part_map map;
    part_map_init(&map, c->s, c->at, w);
    p->n = part_map_boxes(p->box, &map, first, n);
}

static int64_t base_of(const checkpoint *c, const checkpoint_kind *k, const weight *w,
                       int64_t first)
{
    return k->moments ? owned_moments(c->w, w, first) - first : w->offset;
}

void checkpoint_pieces_written(checkpoint_pieces *p, const checkpoint *c, const checkpoint_kind *k,
                               const weight *w)
{
    int64_t first, n = owned_range(c->w, w, &first);
    p->n = 0;
    if (n == 0 || !checkpoint_kind_has(k, w) || !rank_answers(c->s, c->at, w)) return; /* I1 */
    p->base = base_of(c, k, w, first);
    cut(p, c, w, first, n);
}

void checkpoint_pieces_read(checkpoint_pieces *p, const checkpoint *c, const checkpoint_kind *k,
                            const weight *w)
{
    int64_t first = 0, n = k->moments && w->row->trained ? owned_range(c->w, w, &first) : w->n;
    p->n = 0;
    if (n == 0 || !checkpoint_kind_has(k, w)) return;
    p->base = base_of(c, k, w, first);
    cut(p, c, w, first, n);
}
