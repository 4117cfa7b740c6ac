/* core.c - core attention: which tokens and heads this rank computes.
 *
 * One rank: all of them. A ring or an all-gather (blocks.c): own queries, everybody's keys.
 * All-to-all (a2a): the whole sequence of some heads. Hierarchical (a2a+p2p): all-to-all in the
 * inner group, which leaves a zigzag with halves as many times longer, and a ring around the inner
 * groups.
 *
 * After an all-to-all it is the exchanged q, k, v, o that are saved, as Transformer Engine does:
 * the ones before are not read in backward, so nothing travels twice. */
#include <string.h>

#include "ir/build/attention.h"
#include "ir/rope.h"
#include "job/cp_kind.h"
#include "ir/target.h"

head_sizes attention_heads(const builder *b)
{
    const attention_block *a = &b->block->attention;
    int64_t tp = b->s->lay.tp, n = a->heads / tp;
    if (a->mla) return (head_sizes){n, n, a->qk_dim + a->qk_rope_dim, a->v_dim};
    int64_t g = a->kv_heads > tp ? a->kv_heads / tp : 1;
    return (head_sizes){n, g, a->head_dim, a->head_dim};
}

int core_cp_comm(const setup *s, int64_t layer)
{
    int n = s->j.cp_comm.n;
    return s->j.cp_comm.item[layer < n ? layer : n - 1];
}

void core_plan(const builder *b, core_bufs *c)
{
    head_sizes z = attention_heads(b);
    *c = (core_bufs){.S = b->S,
                     .n = z.n,
                     .g = z.g,
                     .d = z.d,
                     .dv = z.dv,
                     .window = b->block->attention.window,
                     .parts = 1,
                     .members = 1};
    if (b->s->lay.cp == 1) return;
    const cp_traits *k = cp_kind_of(&b->s->j, core_cp_comm(b->s, b->layer));
    if (k->heads) c->heads = k->levels ? GROUP_CP_INNER : GROUP_CP;
    if (!k->whole) c->ring = k->levels ? GROUP_CP_OUTER : GROUP_CP;
    if (c->heads) c->parts = seg_width(b, c->heads);
    if (c->ring) c->members = seg_width(b, c->ring);
    if (c->ring) c->place = seg_group_rank(b, c->ring);
    c->gather = k->gather;
    c->latent = k->latent;
    c->S *= c->parts;
    c->n /= c->parts;
    c->g /= c->parts;
}

/* ---- all keys are here */

static weight_part sinks_part(const core_bufs *c)
{
    return (weight_part){SA "core_attention.softmax_offset", c->heads, {c->n}};
}

int core_sinks(builder *b, int phase, const core_bufs *c)
{
    weight_part sinks = sinks_part(c);
    return b->block->attention.sinks ? part_take(b, phase, &sinks) : NONE;
}

op *core_whole(builder *b, int phase, const core_bufs *c, const int *in, const int *out)
{
    op *o = seg_op(b, phase, phase == SEG_FORWARD ? OP_ATTN : OP_ATTN_D, "core attention", in, out,
                   DIM(b->B, c->S, c->n, c->g, c->d, c->dv, c->window));
    o->real[REAL_ATTN_scale] = rope_softmax_scale(b->s);
    if (b->s->j.deterministic) o->flags |= FIXED_ORDER;
    return o;
}

int core_sinks_gradient(builder *b, const core_bufs *c)
{
    weight_part part = sinks_part(c);
    return part_gradient(b, &part);
}

void core_sinks_give(builder *b, const core_bufs *c, int dsinks)
{
    weight_part part = sinks_part(c);
    part_give(b, &part, dsinks);
}

static qkv_set whole_backward(builder *b, const core_bufs *c, int dout)
{
    int64_t T = b->B * c->S;
    qkv_set d = {seg_temp(b, "dq", T * c->n * c->d), seg_temp(b, "dk", T * c->g * c->d),
                 seg_temp(b, "dv", T * c->g * c->dv)};
    int sinks = core_sinks(b, SEG_BACKWARD, c);
    int dsinks = sinks != NONE ? core_sinks_gradient(b, c) : NONE;
    core_whole(b, SEG_BACKWARD, c, IN(dout, c->q, c->k, c->v, c->o, c->lse, sinks),
               OUT(d.q, d.k, d.v, dsinks));
    if (sinks != NONE) core_sinks_give(b, c, dsinks);
    return d;
}

/* ---- tokens to heads and back */

static head_part part_of(int tokens, int heads, int64_t parts, int64_t width)
{
    return (head_part){.tokens = tokens,
                       .heads = heads,
                       .token_row = parts * width,
                       .head_row = width,
                       .width = width};
}

static void take_heads(builder *b, core_bufs *c, const attention_bufs *t)
{
    int64_t T = b->B * c->S, n = c->n * c->d, k = c->g * c->d, v = c->g * c->dv;
    unsigned drop = (b->block->attention.mla ? DROP_MLA_UP_PROJ : 0) | OFF_CORE_ATTN;
    c->q = seg_saved(b, "q of heads", T * n, drop);
    c->k = seg_saved(b, "k of heads", T * k, drop);
    c->v = seg_saved(b, "v of heads", T * v, drop);
    const head_part list[] = {part_of(t->q, c->q, c->parts, n), part_of(t->k, c->k, c->parts, k),
                              part_of(t->v, c->v, c->parts, v)};
    tokens_to_heads(b, SEG_FORWARD, &(head_swap){"attention.heads", c->heads, list, 3});
}

static qkv_set give_heads(builder *b, const core_bufs *c, qkv_set whole_d)
{
    int64_t n = c->n * c->d, k = c->g * c->d, v = c->g * c->dv, T = b->Tc * c->parts;
    qkv_set d = {seg_temp(b, "dq", T * n), seg_temp(b, "dk", T * k), seg_temp(b, "dv", T * v)};
    const head_part list[] = {part_of(d.q, whole_d.q, c->parts, n),
                              part_of(d.k, whole_d.k, c->parts, k),
                              part_of(d.v, whole_d.v, c->parts, v)};
    heads_to_tokens(b, SEG_BACKWARD, &(head_swap){"attention.heads", c->heads, list, 3});
    return d;
}

/* ---- any kind */

/* Blocks that are merged in a narrow format would be rounded once a block. */
static bool merges_wide(const builder *b, const core_bufs *c)
{
    return c->members > 1 && b->types.activation != DTYPE_F32 && target_row_of(b->s)->wide_blocks;
}

int core_query_gradient(builder *b, const core_bufs *c)
{
    int64_t n = b->B * c->S * c->n * c->d;
    return seg_temp_as(b, "dq", n, merges_wide(b, c) ? DTYPE_F32 : b->types.activation);
}

static void cast(builder *b, int phase, int from, int to)
{
    const buf *x = &b->seg->bufs[from];
    seg_op(b, phase, OP_CAST, "attention.round", IN(from), OUT(to),
           DIM(dtype_elements(x->type, x->bytes)));
}

static void compute_blocks(builder *b, const attention_bufs *t)
{
    attention_bufs in = *t;
    bool wide = merges_wide(b, &t->core);
    if (wide)
        in.core.o =
            seg_temp_as(b, "merged o", b->B * t->core.S * t->core.n * t->core.dv, DTYPE_F32);
    if (in.core.latent)
        latent_forward(b, &in);
    else
        blocks_forward(b, &in.core);
    if (wide) cast(b, SEG_FORWARD, in.core.o, t->core.o);
}

static void compute(builder *b, const attention_bufs *t)
{
    const core_bufs *c = &t->core;
    int64_t groups = core_group_count(b, c);
    if (groups > 1)
        groups_forward(b, c, groups);
    else if (c->members == 1)
        core_whole(b, SEG_FORWARD, c, IN(c->q, c->k, c->v, core_sinks(b, SEG_FORWARD, c)),
                   OUT(c->o, c->lse));
    else
        compute_blocks(b, t);
}

void core_forward(builder *b, attention_bufs *t)
{
    core_bufs *c = &t->core;
    int64_t width = c->n * c->dv;
    bool away = c->parts > 1;
    c->q = t->q;
    c->k = t->k;
    c->v = t->v;
    if (away) take_heads(b, c, t);
    unsigned proj = b->block->attention.output_gate ? 0 : OFF_ATTN_PROJ; /* a gate reads it, too */
    t->o = seg_saved(b, "attention.o", b->Tc * c->parts * width, proj);
    c->o = away ? seg_saved(b, "o of heads", b->B * c->S * width, DROP_CORE_ATTN | OFF_CORE_ATTN)
                : t->o;
    c->lse = seg_saved_as(b, "attention.lse", b->B * c->S * c->n, DROP_CORE_ATTN | OFF_CORE_ATTN,
                          DTYPE_F32);
    compute(b, t);
    if (!away) return;
    const head_part o = part_of(t->o, c->o, c->parts, width);
    heads_to_tokens(b, SEG_FORWARD, &(head_swap){"attention.tokens", c->heads, &o, 1});
}

qkv_set core_backward(builder *b, const attention_bufs *t, int dout)
{
    const core_bufs *c = &t->core;
    if (c->parts > 1) {
        int here = seg_temp(b, "do of heads", b->B * c->S * c->n * c->dv);
        const head_part o = part_of(dout, here, c->parts, c->n * c->dv);
        tokens_to_heads(b, SEG_BACKWARD, &(head_swap){"attention.tokens", c->heads, &o, 1});
        dout = here;
    }
    qkv_set d;
    int64_t groups = core_group_count(b, c);
    if (groups > 1)
        d = groups_backward(b, c, groups, dout);
    else if (c->members == 1)
        d = whole_backward(b, c, dout);
    else
        d = c->latent ? latent_backward(b, t, dout) : blocks_backward(b, c, dout);
    if (merges_wide(b, c)) {
        int wide = d.q;
        d.q = seg_temp(b, "dq", b->B * c->S * c->n * c->d);
        cast(b, SEG_BACKWARD, wide, d.q);
    }
    return c->parts > 1 ? give_heads(b, c, d) : d;
}
