/* sync.c - gradients become sums over replicas, weights are gathered: bucket by bucket.
 *
 * I1  With sharded optimizer a rank's slice of a bucket is whole after the reduction, the rest is
 *     not: the reduction is in place, and others' parts hold anything. Everything after it works
 *     on slices alone.
 * I2  The copies of the word table lie in buckets of their own, cut alike on all stages: slices of
 *     the same place hold the same elements. */
#include "ir/build/messages.h"

/* Elements of the flat array of weights or of gradients. */
static int fixed(builder *b, const char *name, region r, int64_t first, int64_t elements)
{
    dtype type = r == REGION_WEIGHTS ? b->types.weight : b->types.gradient;
    return seg_fixed(b, name, (int)r, dtype_bytes(type, first), elements, type);
}

static void begin(builder *b, segment *seg, segment_kind kind)
{
    segment_init(seg, b, kind, b->s, b->a);
    b->module = MODULE_REPLICAS;
    b->node = NODE_ATTN;
}

static comm_group replicas_of(const bucket *k)
{
    return k->expert ? GROUP_EDP : GROUP_DP_CP;
}

bool bucket_has_replicas(const program *p, int bucket_id)
{
    return group_width(p->s, replicas_of(&p->weights.buckets[bucket_id])) > 1;
}

static void finish(op *o, bool across, int event)
{
    o->stream = STREAM_DP;
    if (!across) return;
    o->flags |= ACROSS;
    o->event = event;
}

void build_reduce(builder *b, segment *seg, const program *p, int bucket_id, bool across)
{
    const bucket *k = &p->weights.buckets[bucket_id];
    begin(b, seg, SEGMENT_REDUCE);
    op *o;
    if (k->shards > 1) {
        int64_t n = bucket_slice(k);
        int all = fixed(b, "gradients", REGION_GRADIENTS, k->start, k->n);
        int own = fixed(b, "own gradients", REGION_GRADIENTS, bucket_slice_start(k), n);
        o = seg_comm(b, SEG_FORWARD, OP_REDUCE_SCATTER, "gradients", replicas_of(k), IN(all),
                     OUT(own, all), DIM(n)); /* I1 */
    } else {
        int all = fixed(b, "gradients", REGION_GRADIENTS, k->start, k->n);
        o = seg_comm(b, SEG_FORWARD, OP_ALL_REDUCE, "gradients", replicas_of(k), NULL, OUT(all),
                     DIM(k->n));
    }
    finish(o, across, event_of_reduce(bucket_id, p->ring_depth));
}

void build_gather(builder *b, segment *seg, const program *p, int bucket_id, bool across)
{
    const bucket *k = &p->weights.buckets[bucket_id];
    begin(b, seg, SEGMENT_GATHER);
    int64_t n = bucket_slice(k);
    int own = fixed(b, "own weights", REGION_WEIGHTS, bucket_slice_start(k), n);
    int all = fixed(b, "weights", REGION_WEIGHTS, k->start, k->n);
    op *o = seg_comm(b, SEG_FORWARD, OP_ALL_GATHER, "weights", replicas_of(k), IN(own), OUT(all),
                     DIM(n));
    finish(o, across, event_of_gather(bucket_id, p->ring_depth));
}

/* ---- sums of slices */

/* The part of a weight in this rank's slice of its bucket. */
static int64_t part_in_slice(const program *p, const weight *w, int64_t *first)
{
    const bucket *k = &p->weights.buckets[w->bucket];
    int64_t lo = bucket_slice_start(k), hi = lo + bucket_slice(k);
    if (w->offset > lo) lo = w->offset;
    if (w->offset + w->n < hi) hi = w->offset + w->n;
    *first = lo;
    return hi > lo ? hi - lo : 0;
}

static bool is_partial(const weight *w)
{
    return w->bucket >= 0 && w->row->cut == CUT_NONE && w->row->kind != PARAM_EXPERT;
}

static void move(builder *b, const char *name, int from, int to, const int64_t at[3])
{
    seg_op(b, SEG_FORWARD, OP_MOVE, name, IN(from), OUT(to),
           DIM(1, 1, 1, at[0], 0, 0, 0, at[1], 0, 0, 0, at[2]));
}

/* Weights without cut: packed together, summed over TP, put back. */
static void sum_over_tp(builder *b, const program *p)
{
    int64_t total = 0, at = 0, first;
    for (int i = 0; i < p->weights.n; i++)
        if (is_partial(&p->weights.list[i])) total += part_in_slice(p, &p->weights.list[i], &first);
    if (!total) return;
    int pack = seg_temp_as(b, "packed", total, b->types.gradient);
    int all = fixed(b, "gradients", REGION_GRADIENTS, 0, p->weights.trained);
    for (int back = 0; back < 2; back++) {
        at = 0;
        for (int i = 0; i < p->weights.n; i++) {
            if (!is_partial(&p->weights.list[i])) continue;
            int64_t n = part_in_slice(p, &p->weights.list[i], &first);
            if (!n) continue;
            if (back)
                move(b, "unpack", pack, all, (const int64_t[]){n, at, first});
            else
                move(b, "pack", all, pack, (const int64_t[]){n, first, at});
            at += n;
        }
        if (back) break;
        op *o = seg_comm(b, SEG_FORWARD, OP_ALL_REDUCE, "uncut gradients", GROUP_TP, NULL,
                         OUT(pack), DIM(total));
        o->stream = STREAM_DP;
    }
}

static void sum_words(builder *b, const program *p)
{
    for (int i = 0; i < p->weights.n; i++) {
        const weight *w = &p->weights.list[i];
        int64_t first, n = 0;
        if (w->row->block->kind == BLOCK_EMBEDDING && w->bucket >= 0 && w->row->cut == CUT_TP)
            n = part_in_slice(p, w, &first); /* I2 */
        if (!n) continue;
        int own = fixed(b, "word table", REGION_GRADIENTS, first, n);
        op *o = seg_comm(b, SEG_FORWARD, OP_ALL_REDUCE, "word table", GROUP_EMBEDDING, NULL,
                         OUT(own), DIM(n));
        o->stream = STREAM_DP;
    }
}

static bool has_words(const program *p)
{
    for (int i = 0; i < p->weights.n; i++)
        if (p->weights.list[i].row->block->kind == BLOCK_EMBEDDING) return true;
    return false;
}

void build_sums(builder *b, segment *seg, const program *p)
{
    begin(b, seg, SEGMENT_SUMS);
    if (p->s->lay.tp > 1) sum_over_tp(b, p);
    if (group_width(p->s, GROUP_EMBEDDING) > 1 && has_words(p)) sum_words(b, p);
}
