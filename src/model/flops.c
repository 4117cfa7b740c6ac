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

static double attention(const model *m, const model_block *b, double s)
{
    const attention_block *a = &b->attention;
    return (a->mla ? mla_linear(m, a) : gqa_linear(m, a)) + core(a) * keys_met(a, s);
}

static double gdn(const model *m, const model_block *b, double s)
{
    (void)s;
    const gdn_block *g = &b->gdn;
    double h = (double)m->hidden, heads = (double)g->v_heads, d = (double)g->v_dim;
    double qk = (double)g->k_heads * (double)g->k_dim, v = heads * d;
    double in = h * (2 * qk + 2 * v + 2 * heads), conv = (double)g->conv * (2 * qk + v);
    return in + conv + 4 * heads * d * d + h * v; /* the state update is counted as four GEMMs */
}

static double mlp(const model *m, const model_block *b, double s)
{
    (void)s;
    return (m->glu ? 3. : 2.) * (double)m->hidden * (double)b->mlp.ffn;
}

static double moe(const model *m, const model_block *b, double s)
{
    (void)s;
    const moe_block *e = &b->moe;
    double matrices = m->glu ? 3 : 2, h = (double)m->hidden, latent = (double)e->latent;
    double routed = matrices * (e->latent ? latent : h) * (double)e->ffn * (double)e->topk;
    if (e->latent) routed += 2 * latent * h;
    return routed + matrices * h * (double)e->shared_ffn;
}

static double mtp(const model *m, const model_block *b, double s)
{
    (void)b, (void)s;
    double h = (double)m->hidden;
    return 3 * h + 2 * h * h + h * (double)m->padded_vocab;
}

static double head(const model *m, const model_block *b, double s)
{
    (void)b, (void)s;
    return (double)m->hidden * (double)m->padded_vocab;
}

static double (*const flops[BLOCK_KINDS])(const model *m, const model_block *b, double s) = {
    [BLOCK_ATTENTION] = attention,
    [BLOCK_GDN] = gdn,
    [BLOCK_MLP] = mlp,
    [BLOCK_MOE] = moe,
    [BLOCK_MTP] = mtp, /* each has a head, too */
    [BLOCK_HEAD] = head,
};

double model_flops_per_token(const model *m, int64_t seq)
{
    double s = seq > 0 ? (double)seq : 1, gemms = head(m, NULL, s);
    for (int64_t i = 0; i < m->n_layers + m->n_mtp; i++) {
        const layer_kind *l = model_layer(m, i);
        double layer = 0;
        for (int k = 0; k < l->n_blocks; k++) layer += flops[l->block[k]->kind](m, l->block[k], s);
        gemms += layer;
    }
    return 6 * gemms;
}
