/* owned.c - each element of the model on one rank.
 *
 * I1  Slices of a bucket are dealt to the first `shards` members of its group; further members (all
 *     but the first without a sharded optimizer, all but the first instance with several) own the
 *     same slices again and do not answer. */
#include "train/executor/owned.h"

#include "layout/stage_parts.h"

bool rank_answers(const setup *s, const rank_at *at, const weight *w)
{
    if (!at) return !w->copy;
    const layout *l = &s->lay;
    bool expert = w->row->kind == PARAM_EXPERT;
    int which = buffer_of(l, w->row->kind);
    int64_t place = expert ? at->edp : at->dp * l->cp + at->cp;
    int64_t shards = w->bucket < 0 ? 1 : optimizer_shards(&s->j, l, which);
    if (w->copy || place >= shards) return false; /* I1 */
    return w->row->cut != CUT_NONE || (expert ? at->etp : at->tp) == 0;
}

int64_t owned_range(const weight_list *wl, const weight *w, int64_t *first)
{
    *first = 0;
    if (w->bucket < 0) return w->n;
    const bucket *b = &wl->buckets[w->bucket];
    int64_t lo = bucket_slice_start(b), hi = lo + bucket_slice(b), end = w->offset + w->n;
    if (lo < w->offset) lo = w->offset;
    if (hi > end) hi = end;
    *first = lo < hi ? lo - w->offset : 0;
    return lo < hi ? hi - lo : 0;
}

int64_t owned_moments(const weight_list *wl, const weight *w, int64_t first)
{
    const bucket *b = &wl->buckets[w->bucket];
    return b->moments + w->offset + first - bucket_slice_start(b);
}
