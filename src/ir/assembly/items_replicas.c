/* items_replicas.c - buckets of gradients and weights among a step's items.
 *
 * I1  A bucket is reduced after the last backward that adds to it, and gathered before the first
 *     forward that reads it.
 * I2  Weights are quantised before the first forward that reads them, so after the gather. */
#include <string.h>

#include "ir/build/messages.h"
#include "ir/build/update.h"
#include "ir/assembly/items.h"

static const segment *bucket_segment(item_walk *w, int id, bool gather, bool across)
{
    segment *seg = assembly_segment(w->s);
    if (gather)
        build_gather(&w->s->b, seg, w->p, id, across);
    else
        build_reduce(&w->s->b, seg, w->p, id, across);
    assembly_done(w->s, seg, 0);
    return seg;
}

static bool uses(const item_walk *w, const instance *i, const weight *x)
{
    block_kind block = x->row->block->kind;
    int64_t n_layers = w->p->s->m.n_layers;
    if (block == BLOCK_EMBEDDING)
        return is_segment(i, SEGMENT_EMBEDDING) || is_segment(i, SEGMENT_MTP) ||
               (is_segment(i, SEGMENT_HEAD) && w->p->s->m.tied);
    if (block == BLOCK_HEAD && x->row->n_dims == 1 && w->p->s->m.n_mtp)
        return is_segment(i, SEGMENT_FINAL);
    if (block == BLOCK_HEAD) return is_segment(i, SEGMENT_HEAD);
    if (x->layer >= n_layers) return is_segment(i, SEGMENT_MTP);
    return is_segment(i, SEGMENT_LAYER) && x->layer >= i->layer &&
           x->layer < i->layer + i->seg->n_layers;
}

/* The first instance of a chunk that uses a weight, or -1. A layer is of one instance alone, most
 * often of the same as the weight before (`near`) or of the next. */
static int first_user(const item_walk *w, const chunk *c, const weight *x, int near)
{
    bool layer = param_of_layer(x->row) && x->layer < w->p->s->m.n_layers;
    for (int i = near; layer && i < c->n && i < near + 2; i++)
        if (uses(w, &c->list[i], x)) return i;
    for (int i = 0; i < c->n; i++)
        if (uses(w, &c->list[i], x)) return i;
    return -1;
}

void find_users(item_walk *w)
{
    const program *p = w->p;
    int near = 0;
    for (int b = 0; b < p->weights.n_buckets; b++) w->user[b] = -1;
    if (w->s->sizes_only) return;
    for (int k = 0; k < p->weights.n; k++) {
        const weight *x = &p->weights.list[k];
        if (x->bucket < 0) continue;
        int i = first_user(w, &p->chunks[x->chunk], x, near);
        if (i < 0) continue;
        if (w->user[x->bucket] < 0 || i < w->user[x->bucket]) w->user[x->bucket] = i;
        near = i;
    }
}

void before_instance(item_walk *w, int64_t entry, int i)
{
    const order_entry *e = &w->p->order.list[entry];
    if (entry != w->first_f[e->chunk]) return;
    for (int b = 0; w->p->gathers_late && b < w->p->weights.n_buckets; b++) {
        const bucket *k = &w->p->weights.buckets[b];
        if (k->chunk == e->chunk && w->user[b] == i && k->shards > 1) /* I1 */
            add_wait(w, event_of_gather(b, w->p->ring_depth));
    }
    const segment *copies = w->p->chunks[e->chunk].list[i].copies;
    if (copies) add_item(w, copies, SEG_FORWARD, place_at(w, entry, i)); /* I2 */
}

void after_instance(item_walk *w, int64_t entry, int i)
{
    const order_entry *e = &w->p->order.list[entry];
    if (!w->overlaps_reduction || entry != w->last_b[e->chunk]) return;
    for (int b = 0; b < w->p->weights.n_buckets; b++)
        if (w->p->weights.buckets[b].chunk == e->chunk && w->user[b] == i &&
            bucket_has_replicas(w->p, b)) /* I1 */
            add_item(w, bucket_segment(w, b, false, true), SEG_FORWARD, nowhere);
}

/* In the order in which forward uses them: messages of a link follow each other. */
void gather_items(item_walk *w)
{
    const program *p = w->p;
    for (int64_t c = 0; p->gathers_late && c < p->n_chunks; c++)
        for (int i = 0; i < p->chunks[c].n; i++)
            for (int b = 0; b < p->weights.n_buckets; b++) {
                const bucket *k = &p->weights.buckets[b];
                if (k->chunk == c && w->user[b] == i && k->shards > 1)
                    add_item(w, bucket_segment(w, b, true, true), SEG_FORWARD, nowhere);
            }
}

segment *sums_segment(assembly *s)
{
    segment *sums = assembly_segment(s);
    build_sums(&s->b, sums, s->p);
    assembly_done(s, sums, 0);
    return sums;
}

/* A part of one segment, which has nothing to do with chunks. */
static void only_item(item_walk *w, item_part part,
                      void (*build)(builder *b, segment *seg, const program *p))
{
    segment *seg = assembly_segment(w->s);
    build(&w->s->b, seg, w->p);
    assembly_done(w->s, seg, 0);
    w->out = &w->p->items[part];
    if (seg->n_ops[SEG_FORWARD]) add_item(w, seg, SEG_FORWARD, nowhere);
}

static void kept_items(item_walk *w)
{
    for (kept_at at = kept_start(w->p); at.own < w->p->weights.owned;) {
        segment *seg = assembly_segment(w->s);
        build_kept(&w->s->b, seg, w->p, &at);
        assembly_done(w->s, seg, 0);
        add_item(w, seg, SEG_FORWARD, nowhere);
    }
}

void finish_items(item_walk *w)
{
    program *p = w->p;
    w->out = &p->items[PART_FINISH];
    for (int b = 0; b < p->weights.n_buckets; b++) {
        if (!bucket_has_replicas(p, b)) continue;
        if (w->overlaps_reduction)
            add_wait(w, event_of_reduce(b, w->p->ring_depth));
        else
            add_item(w, bucket_segment(w, b, false, false), SEG_FORWARD, nowhere);
    }
    const segment *sums = sums_segment(w->s);
    if (sums->n_ops[SEG_FORWARD]) add_item(w, sums, SEG_FORWARD, nowhere);
    only_item(w, PART_BEGIN, build_begin);
    only_item(w, PART_REPORT, build_report);
    only_item(w, PART_UPDATE, build_update);
    kept_items(w);
    w->out = &p->items[PART_GATHER];
    for (int b = 0; b < p->weights.n_buckets && p->types.moments; b++)
        if (p->weights.buckets[b].shards > 1)
            add_item(w, bucket_segment(w, b, true, false), SEG_FORWARD, nowhere);
}
