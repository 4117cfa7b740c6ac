/* blocks.c - core attention over the keys of other ranks, block by block.
 *
 * A ring: keys and values go round, the next block is on its way while one is computed. In backward
 * they go round again, and the gradient of a block follows one hop behind and comes home after the
 * last. Or all-gather: all blocks come at once, and their gradients are scattered.
 *
 * I1  At place p the block after h hops is that of place p - h; its own is computed first.
 * I2  Every hop has buffers of its own; the memory plan lets them share places. */
#include "ir/build/attention.h"
#include "ir/rope.h"

int64_t core_owner(const core_bufs *c, int64_t h)
{
    return ((c->place - h) % c->members + c->members) % c->members; /* I1 */
}

op *core_block(builder *b, int phase, const core_bufs *c, int64_t member, const int *in,
               const int *out)
{
    int64_t half = c->S / 2, ends = 2 * c->members - 1;
    op *o = seg_op(b, phase, phase == SEG_FORWARD ? OP_ATTN_BLOCK : OP_ATTN_BLOCK_D,
                   "core attention", in, out,
                   DIM(b->B, c->S, c->S, c->n, c->g, c->d, c->dv, c->window, c->place * half,
                       (ends - c->place) * half, member * half, (ends - member) * half));
    o->real[REAL_ATTN_BLOCK_scale] = rope_softmax_scale(b->s);
    if (b->s->j.deterministic) o->flags |= FIXED_ORDER;
    return o;
}

int core_hop(builder *b, int phase, const core_bufs *c, int x, int64_t n)
{
    int y = seg_temp(b, "attention.ring", n);
    seg_comm(b, phase, OP_SHIFT, "attention.ring", c->ring, IN(x), OUT(y), DIM(n, 1)); /* I2 */
    return y;
}

/* ---- keys and values in one buffer: k [B*S][g][d], then v [B*S][g][dv] */

typedef struct pair_sizes {
    int64_t k, v, both;
} pair_sizes;

static pair_sizes sizes_of(const builder *b, const core_bufs *c)
{
    int64_t k = b->B * c->S * c->g * c->d, v = b->B * c->S * c->g * c->dv;
    return (pair_sizes){k, v, k + v};
}

static int pack(builder *b, int phase, const core_bufs *c)
{
    pair_sizes z = sizes_of(b, c);
    int both = seg_temp(b, "k and v", z.both);
    seg_op(b, phase, OP_COPY, "attention.pack", IN(c->k), OUT(seg_view(b, both, 0, z.k)), DIM(z.k));
    seg_op(b, phase, OP_COPY, "attention.pack", IN(c->v), OUT(seg_view(b, both, z.k, z.v)),
           DIM(z.v));
    return both;
}

typedef struct pair {
    int k, v;
} pair;

static pair parts_of(builder *b, const core_bufs *c, int both, int64_t at)
{
    pair_sizes z = sizes_of(b, c);
    return (pair){seg_view(b, both, at, z.k), seg_view(b, both, at + z.k, z.v)};
}

static void add_block(builder *b, const core_bufs *c, int64_t h, pair kv)
{
    op *o =
        core_block(b, SEG_FORWARD, c, core_owner(c, h), IN(c->q, kv.k, kv.v), OUT(c->o, c->lse));
    if (h) o->flags |= ACCUMULATE;
}

/* Gradients of a block: by the queries, added up in dq, and by its keys and values. */
static void add_block_gradient(builder *b, const core_bufs *c, int64_t h, pair kv, int dout,
                               qkv_set d)
{
    op *o = core_block(b, SEG_BACKWARD, c, core_owner(c, h),
                       IN(dout, c->q, kv.k, kv.v, c->o, c->lse), OUT(d.q, d.k, d.v));
    if (h) o->flags |= ACCUMULATE;
}

/* ---- the ring */

static void ring_forward(builder *b, const core_bufs *c)
{
    int64_t n = sizes_of(b, c).both;
    int both = pack(b, SEG_FORWARD, c);
    for (int64_t h = 0; h < c->members; h++) {
        int next = h < c->members - 1 ? core_hop(b, SEG_FORWARD, c, both, n) : NONE;
        add_block(b, c, h, h ? parts_of(b, c, both, 0) : (pair){c->k, c->v});
        both = next;
    }
}

static qkv_set ring_backward(builder *b, const core_bufs *c, int dout)
{
    int64_t n = sizes_of(b, c).both;
    int both = pack(b, SEG_BACKWARD, c), sum = NONE, dq = core_query_gradient(b, c);
    for (int64_t h = 0; h < c->members; h++) {
        int next = h < c->members - 1 ? core_hop(b, SEG_BACKWARD, c, both, n) : NONE;
        int so_far = h ? core_hop(b, SEG_BACKWARD, c, sum, n) : NONE;
        sum = seg_temp(b, "dk and dv", n);
        pair d = parts_of(b, c, sum, 0);
        add_block_gradient(b, c, h, h ? parts_of(b, c, both, 0) : (pair){c->k, c->v}, dout,
                           (qkv_set){dq, d.k, d.v});
        if (h) seg_op(b, SEG_BACKWARD, OP_ADD, "attention.ring", IN(sum, so_far), OUT(sum), DIM(n));
        both = next;
    }
    pair home = parts_of(b, c, core_hop(b, SEG_BACKWARD, c, sum, n), 0);
    return (qkv_set){dq, home.k, home.v};
}

/* ---- all-gather */

static int gather_blocks(builder *b, int phase, const core_bufs *c)
{
    int64_t n = sizes_of(b, c).both;
    int own = pack(b, phase, c), all = seg_temp(b, "all k and v", c->members * n);
    seg_comm(b, phase, OP_ALL_GATHER, "attention.gather", c->ring, IN(own), OUT(all), DIM(n));
    return all;
}

static void gather_forward(builder *b, const core_bufs *c)
{
    int64_t n = sizes_of(b, c).both;
    int all = gather_blocks(b, SEG_FORWARD, c);
    for (int64_t h = 0; h < c->members; h++)
        add_block(b, c, h, h ? parts_of(b, c, all, core_owner(c, h) * n) : (pair){c->k, c->v});
}

static qkv_set gather_backward(builder *b, const core_bufs *c, int dout)
{
    int64_t n = sizes_of(b, c).both;
    int all = gather_blocks(b, SEG_BACKWARD, c), dq = core_query_gradient(b, c);
    int sums = seg_temp(b, "all dk and dv", c->members * n), own = seg_temp(b, "dk and dv", n);
    for (int64_t h = 0; h < c->members; h++) {
        int64_t at = core_owner(c, h) * n;
        pair d = parts_of(b, c, sums, at);
        add_block_gradient(b, c, h, h ? parts_of(b, c, all, at) : (pair){c->k, c->v}, dout,
                           (qkv_set){dq, d.k, d.v});
    }
    seg_comm(b, SEG_BACKWARD, OP_REDUCE_SCATTER, "attention.scatter", c->ring, IN(sums), OUT(own),
             DIM(n));
    pair home = parts_of(b, c, own, 0);
    return (qkv_set){dq, home.k, home.v};
}

void blocks_forward(builder *b, const core_bufs *c)
{
    if (c->gather)
        gather_forward(b, c);
    else
        ring_forward(b, c);
}

qkv_set blocks_backward(builder *b, const core_bufs *c, int dout)
{
    return c->gather ? gather_backward(b, c, dout) : ring_backward(b, c, dout);
}
