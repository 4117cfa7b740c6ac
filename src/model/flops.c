/* flops.c - model FLOPs exactly as Megatron counts them.
 *
 * Six for each weight a token is multiplied with: two for multiply and add, three for forward,
 * input gradient and weight gradient. Not counted, because Megatron does not: the router, norms
 * (but for one term each in the latents and the prediction module), rotary embedding, softmax, the
 * embedding. Causal attention counts half its square, so a token of a sequence s meets s / 2 keys,
 * twice (scores and values). */
#include "model/model.h"

/* GEMMs of a token with dense weights in one layer's attention. */
static double gqa_linear(const model *m, const attention_block *a)
{
    double q = (double)a->heads * (double)a->head_dim;
    double kv = (double)a->kv_heads * (double)a->head_dim, h = (double)m->hidden;
    return h * (q + 2 * kv + (a->output_gate ? q : 0)) + q * h;
}

static double mla_linear(const model *m, const attention_block *a)
{
    double h = (double)m->hidden, n = (double)a->heads, rope = (double)a->qk_rope_dim;
    double qk = (double)a->qk_dim + rope, v = (double)a->v_dim;
    double q_lora = (double)a->q_lora, kv_lora = (double)a->kv_lora;
    double q = a->q_lora ? q_lora * (h + n * qk + 1) : h * n * qk;
    return q + kv_lora * (h + n * ((double)a->qk_dim + v) + 1) + h * rope + n * v * h;
}

/* GEMMs with one key of a token's attention, scores and values, halved: full attention meets s
 * of these. */
static double core(const attention_block *a)
{
    double n = (double)a->heads;
    if (!a->mla) return n * (double)a->head_dim;
    return n * (double)(a->qk_dim + a->qk_rope_dim) / 2 + n * (double)a->v_dim / 2;
}

/* Twice the mean number of keys a token meets; a window of w tokens fills up over its first w. */
static double keys_met(const attention_block *a, double s)
{
    double w = (double)a->window;
    return w > 0 && w < s ? 2 * (w - w * (w - 1) / (2 * s)) : s;
}

static double attention(const model *m, const attention_block *a, double s)
{
    return (a->mla ? mla_linear(m, a) : gqa_linear(m, a)) + core(a) * keys_met(a, s);
}

static double gdn(const model *m, const gdn_block *g)
{
    double h = (double)m->hidden, heads = (double)g->v_heads, d = (double)g->v_dim;
    double qk = (double)g->k_heads * (double)g->k_dim, v = heads * d;
    double in = h * (2 * qk + 2 * v + 2 * heads), conv = (double)g->conv * (2 * qk + v);
    return in + conv + 4 * heads * d * d + h * v; /* the state update is counted as four GEMMs */
}

static double moe(const model *m, const moe_block *e)
{
    double matrices = m->glu ? 3 : 2, h = (double)m->hidden, latent = (double)e->latent;
    double routed = matrices * (e->latent ? latent : h) * (double)e->ffn * (double)e->topk;
    if (e->latent) routed += 2 * latent * h;
    return routed + matrices * h * (double)e->shared_ffn;
}

static double gemms_of(const model *m, const model_block *b, double s)
{
    double h = (double)m->hidden, head = h * (double)m->padded_vocab;
    switch (b->kind) {
    case BLOCK_ATTENTION:
        return attention(m, &b->attention, s);
    case BLOCK_GDN:
        return gdn(m, &b->gdn);
    case BLOCK_MLP:
        return (m->glu ? 3 : 2) * h * (double)b->mlp.ffn;
    case BLOCK_MOE:
        return moe(m, &b->moe);
    case BLOCK_MTP: /* each depth has a head, too */
        return 3 * h + 2 * h * h + head;
    case BLOCK_HEAD:
        return head;
    default:
        return 0;
    }
}

double model_flops_per_token(const model *m, int64_t seq)
{
    double s = seq > 0 ? (double)seq : 1, gemms = gemms_of(m, &m->blocks[m->n_blocks - 1], s);
    for (int64_t i = 0; i < m->n_layers + m->n_mtp; i++) {
        const layer_kind *l = model_layer(m, i);
        double layer = 0;
        for (int k = 0; k < l->n_blocks; k++) layer += gemms_of(m, l->block[k], s);
        gemms += layer;
    }
    return 6 * gemms;
}
