/* model.h - the architecture, read off the knobs.
 *
 * Three sources give the knobs of a model: a preset's name, a Hugging Face config.json, or the user
 * (a recipe or a Megatron-LM argument list). From here on only the knobs count. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "config/job_of.h"

typedef enum layer_kind_bits {
    LAYER_MOE = 1,    /* routed experts instead of a dense MLP */
    LAYER_LINEAR = 2, /* gated delta net instead of softmax attention */
    LAYER_WINDOW = 4, /* sliding window */
} layer_kind_bits;

enum { MODEL_LAYERS_MAX = 4096, MODEL_MTP_MAX = 64 };

/* Sizes are never negative and never above 2^40, and layers never above the maxima: loops and
 * GEMMs over a model are safe whatever the knobs say. Rules compare the knobs themselves. */
typedef struct model {
    const char *name;   /* preset, folder or "custom" */
    const char *family; /* as Hugging Face's model_type: qwen3_moe, deepseek_v3, ... */
    int64_t n_layers, n_mtp;
    bool mtp_repeated; /* one physical module serves all n_mtp depths */
    int64_t hidden, ffn, moe_ffn, shared_ffn;
    int64_t heads, kv_heads, head_dim;
    int64_t vocab, padded_vocab; /* padded: as TP and the knobs ask */
    int64_t positions;           /* rows of a learned position table; 0: none */
    bool attention_bias;         /* of all projections of attention; MLA: those down and out */
    bool tied, glu, linear_bias, qkv_bias, qk_norm, qk_norm_whole, output_gate, sinks, shared_gate,
        expert_bias;
    bool norm_bias;     /* LayerNorm: norms have a bias */
    bool zero_centered; /* norm weights are stored as w - 1 */
    bool mla, gdn;
    int64_t q_lora, kv_lora, qk_dim, qk_rope_dim, v_dim; /* MLA; q_lora 0: full */
    int64_t gdn_conv, gdn_k_dim, gdn_v_dim, gdn_k_heads, gdn_v_heads;
    int64_t experts, topk;      /* 0 experts: dense */
    int64_t moe_latent;         /* width that is dispatched; 0: hidden */
    int64_t window;             /* tokens a windowed layer sees, itself included; 0: none */
    const unsigned char *layer; /* [n_layers + n_mtp] layer_kind_bits; MTP layers repeat the last */
} model;

/* What the knobs of an architecture imply for one another: MLP widths, key/value heads, head size,
 * longest sequence. Whatever would need a division by zero stays open. */
void model_derive(resolving *d);

/* That and defaults alone, of a recipe whose model alone is asked for; its job. */
void model_resolve(recipe *r, job *j);

/* From a resolved job; memory comes from `a`. Out-of-range sizes are rules' business
 * and do not fail here; what cannot be read (a moe_layer_freq list of the wrong length, no
 * num_layers at all) is ERR_INPUT. */
status model_init(model *m, const job *j, arena *a, error *err);

/* What two spellings of one architecture have in common, and no two published models: widths, heads
 * and experts of a layer. Layers and prediction modules are left out, so that a proxy with four
 * layers of a model counts as that model. */
enum { MODEL_SHAPE = 14 };

typedef struct model_shape {
    const char *family; /* of the model: it stands for the switches */
    int64_t size[MODEL_SHAPE];
} model_shape;

model_shape model_shape_of(const model *m);
bool model_same_shape(const model_shape *a, const model_shape *b);

static inline bool model_layer_is(const model *m, int64_t i, layer_kind_bits bit)
{
    return (m->layer[i] & bit) != 0;
}

/* Model FLOPs of one trained token (forward and backward; causal attention halved, recompute not
 * counted), exactly as Megatron counts them. A windowed layer counts the mean number of keys it
 * sees. */
double model_flops_per_token(const model *m, int64_t seq);

#endif
