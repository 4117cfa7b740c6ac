/* flops.c - model FLOPs exactly as Megatron counts them.
 *
 * Six for each weight a token is multiplied with: two for multiply and add, three for forward,
 * input gradient and weight gradient. Not counted, because Megatron does not: the router, norms
 * (but for one term each in the latents and the prediction module), rotary embedding, softmax, the
 * embedding. Causal attention counts half its square, so a token of a sequence s meets s / 2 keys,
 * twice (scores and values). */
#include "model/model.h"

/* GEMMs of a token with dense weights in one layer's attention. */
static double gqa_linear(const model *m)
{
    double q = (double)m->heads * (double)m->head_dim;
    double kv = (double)m->kv_heads * (double)m->head_dim, h = (double)m->hidden;
    return h * (q + 2 * kv + (m->output_gate ? q : 0)) + q * h;
}

static double mla_linear(const model *m)
{
    double h = (double)m->hidden, n = (double)m->heads, rope = (double)m->qk_rope_dim;
    double qk = (double)m->qk_dim + rope, v = (double)m->v_dim;
    double q_lora = (double)m->q_lora, kv_lora = (double)m->kv_lora;
    double q = m->q_lora ? q_lora * (h + n * qk + 1) : h * n * qk;
    return q + kv_lora * (h + n * ((double)m->qk_dim + v) + 1) + h * rope + n * v * h;
}

static double gdn_linear(const model *m)
{
    double h = (double)m->hidden, heads = (double)m->gdn_v_heads, d = (double)m->gdn_v_dim;
    double qk = (double)m->gdn_k_heads * (double)m->gdn_k_dim, v = heads * d;
    double in = h * (2 * qk + 2 * v + 2 * heads), conv = (double)m->gdn_conv * (2 * qk + v);
    return in + conv + 4 * heads * d * d + h * v; /* the state update is counted as four GEMMs */
}

/* GEMMs with one key of a token's attention, scores and values, halved: full attention meets s
 * of these. */
static double core(const model *m)
{
    double n = (double)m->heads;
    if (!m->mla) return n * (double)m->head_dim;
    return n * (double)(m->qk_dim + m->qk_rope_dim) / 2 + n * (double)m->v_dim / 2;
}

/* Twice the mean number of keys a token meets; a window of w tokens fills up over its first w. */
static double keys_met(const model *m, int64_t layer, double s)
{
    double w = (double)m->window;
    if (!model_layer_is(m, layer, LAYER_WINDOW) || w >= s) return s;
    return 2 * (w - w * (w - 1) / (2 * s));
}

static double attention(const model *m, int64_t layer, double s)
{
    if (model_layer_is(m, layer, LAYER_LINEAR)) return gdn_linear(m);
    return (m->mla ? mla_linear(m) : gqa_linear(m)) + core(m) * keys_met(m, layer, s);
}

static double mlp(const model *m, int64_t layer)
{
    double matrices = m->glu ? 3 : 2, h = (double)m->hidden, latent = (double)m->moe_latent;
    if (!model_layer_is(m, layer, LAYER_MOE)) return matrices * h * (double)m->ffn;
    double width = m->moe_latent ? latent : h;
    double routed = matrices * width * (double)m->moe_ffn * (double)m->topk;
    if (m->moe_latent) routed += 2 * latent * h;
    return routed + matrices * h * (double)m->shared_ffn;
}

double model_flops_per_token(const model *m, int64_t seq)
{
    double h = (double)m->hidden, depth = (double)m->n_mtp, s = seq > 0 ? (double)seq : 1;
    double gemms = depth * (3 * h + 2 * h * h) + h * (double)m->padded_vocab * (1 + depth);
    for (int64_t i = 0; i < m->n_layers + m->n_mtp; i++) gemms += attention(m, i, s) + mlp(m, i);
    return 6 * gemms;
}
