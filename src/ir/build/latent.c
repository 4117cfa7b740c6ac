/* latent.c - context parallelism of MLA by a ring over the latent.
 *
 * What goes round is the normed latent [Tc][R] and the rotated key part [Tc][Dr], in one buffer;
 * whoever has it expands it to keys and values of its own heads, which are kept nowhere. Backward
 * expands again; the gradient of the latent follows one hop behind and comes home, and the
 * up-projection's weight gets its gradient where the expansion was. */
#include "ir/build/attention.h"
#include "ir/build/quant.h"

typedef struct latent_sizes {
    int64_t latent, rope, both; /* of one block */
} latent_sizes;

static latent_sizes sizes_of(const builder *b)
{
    int64_t latent = b->Tc * b->block->attention.kv_lora,
            rope = b->Tc * b->block->attention.qk_rope_dim;
    return (latent_sizes){latent, rope, latent + rope};
}

static int own_block(builder *b, int phase, const attention_bufs *t)
{
    latent_sizes z = sizes_of(b);
    int both = seg_temp(b, "latent and rope", z.both);
    gather_into(b, phase, "kv latent norm", t->k_norm.y, seg_view(b, both, 0, z.latent),
                b->block->attention.kv_lora);
    mla_rotated_keys(b, phase, t, seg_view(b, both, z.latent, z.rope));
    return both;
}

/* Keys and values of a block, as temporaries. */
static qkv_set expand(builder *b, int phase, const attention_bufs *t, int both)
{
    const attention_block *a = &b->block->attention;
    const core_bufs *c = &t->core;
    latent_sizes z = sizes_of(b);
    gemm up = mla_kv_up(b);
    int kv = seg_temp(b, "kv", b->Tc * up.n);
    qkv_set e = {.q = c->q,
                 .k = seg_temp(b, "k", b->Tc * c->n * c->d),
                 .v = seg_temp(b, "v", b->Tc * c->n * c->dv)};
    gemm_forward(b, phase, &up, (expert_shape){0},
                 (gemm_ends){b->Tc, seg_view(b, both, 0, z.latent), kv});
    seg_op(b, phase, OP_MLA_KV_JOIN, "kv.join", IN(kv, seg_view(b, both, z.latent, z.rope)),
           OUT(e.k, e.v), DIM(b->Tc, c->n, a->qk_dim, a->qk_rope_dim, a->v_dim));
    return e;
}

void latent_forward(builder *b, const attention_bufs *t)
{
    const core_bufs *c = &t->core;
    int both = own_block(b, SEG_FORWARD, t);
    for (int64_t h = 0; h < c->members; h++) {
        int next = NONE;
        if (h < c->members - 1) next = core_hop(b, SEG_FORWARD, c, both, sizes_of(b).both);
        qkv_set e = expand(b, SEG_FORWARD, t, both);
        op *o =
            core_block(b, SEG_FORWARD, c, core_owner(c, h), IN(e.q, e.k, e.v), OUT(c->o, c->lse));
        if (h) o->flags |= ACCUMULATE;
        both = next;
    }
}

/* From gradients of a block's keys and values to that of its latent and key part, in one buffer. */
static int contract(builder *b, const attention_bufs *t, int both, qkv_set d)
{
    const attention_block *a = &b->block->attention;
    const core_bufs *c = &t->core;
    latent_sizes z = sizes_of(b);
    gemm up = mla_kv_up(b);
    int dkv = seg_temp(b, "dkv", b->Tc * up.n), sum = seg_temp(b, "dlatent and rope", z.both);
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_JOIN_D, "kv.join", IN(d.k, d.v),
           OUT(dkv, seg_view(b, sum, z.latent, z.rope)),
           DIM(b->Tc, c->n, a->qk_dim, a->qk_rope_dim, a->v_dim));
    up.bias = NULL;
    int dlatent = seg_view(b, sum, 0, z.latent), latent = seg_view(b, both, 0, z.latent);
    linear_backward(b, &up, b->Tc, (linear_grads){dkv, latent, dlatent, false});
    return sum;
}

qkv_set latent_backward(builder *b, const attention_bufs *t, int dout)
{
    const core_bufs *c = &t->core;
    latent_sizes z = sizes_of(b);
    int both = own_block(b, SEG_BACKWARD, t), sum = NONE;
    qkv_set d = {.q = core_query_gradient(b, c)};
    for (int64_t h = 0; h < c->members; h++) {
        int next = h < c->members - 1 ? core_hop(b, SEG_BACKWARD, c, both, z.both) : NONE;
        int so_far = h ? core_hop(b, SEG_BACKWARD, c, sum, z.both) : NONE;
        qkv_set e = expand(b, SEG_BACKWARD, t, both);
        d.k = seg_temp(b, "dk", b->Tc * c->n * c->d);
        d.v = seg_temp(b, "dv", b->Tc * c->n * c->dv);
        op *o = core_block(b, SEG_BACKWARD, c, core_owner(c, h),
                           IN(dout, e.q, e.k, e.v, c->o, c->lse), OUT(d.q, d.k, d.v));
        if (h) o->flags |= ACCUMULATE;
        sum = contract(b, t, both, d);
        if (h)
            seg_op(b, SEG_BACKWARD, OP_ADD, "attention.ring", IN(sum, so_far), OUT(sum),
                   DIM(z.both));
        both = next;
    }
    int home = core_hop(b, SEG_BACKWARD, c, sum, z.both);
    return (qkv_set){d.q, seg_view(b, home, 0, z.latent), seg_view(b, home, z.latent, z.rope)};
}
