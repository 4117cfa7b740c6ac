/* model.h - the architecture, read off the knobs.
 *
 * Three sources give the knobs of a model: a preset's name, a Hugging Face config.json, or the user
 * (a recipe or a Megatron-LM argument list). From here on only the knobs count. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "recipe/recipe.h"

typedef enum layer_kind_bits {
    LAYER_MOE = 1,    /* routed experts instead of a dense MLP */
    LAYER_LINEAR = 2, /* gated delta net instead of softmax attention */
    LAYER_WINDOW = 4, /* sliding window */
} layer_kind_bits;

typedef struct model {
    const char *name;   /* preset, folder or "custom" */
    const char *family; /* Hugging Face model_type: qwen3_moe, deepseek_v3, qwen3_next, mixtral, gpt_oss */
    int64_t n_layers, n_mtp;
    int64_t hidden, ffn, moe_ffn, shared_ffn;
    int64_t heads, kv_heads, head_dim;
    int64_t vocab, padded_vocab; /* padded: as TP and the knobs ask */
    bool tied, glu, linear_bias, qkv_bias, qk_norm, output_gate, sinks, shared_gate, expert_bias;
    bool mla, gdn;
    int64_t q_lora, kv_lora, qk_dim, qk_rope_dim, v_dim; /* MLA; q_lora 0: full */
    int64_t gdn_conv, gdn_k_dim, gdn_v_dim, gdn_k_heads, gdn_v_heads;
    int64_t experts, topk; /* 0 experts: dense */
    int64_t window;        /* tokens a windowed layer sees, itself included; 0: none */
    const unsigned char *layer; /* [n_layers + n_mtp] layer_kind_bits; MTP layers repeat the last */
} model;

/* Reads `moefold.model` (a preset, or a folder with a config.json; relative to the recipe's folder, then to
 * the working folder) and sets the knobs of the architecture that the user left open. Does nothing when the
 * knob is null. Fails with ERR_INPUT: unknown model (the nearest is named), a field that is missing,
 * contradictory or of the wrong type. */
status model_fill(recipe *r, error *err);

/* What the knobs of an architecture imply for one another: ffn, heads, head size, padding. */
void model_derive(recipe *r);

/* From resolved knobs. Out-of-range sizes are rules' business and do not fail here; what cannot be read
 * (a moe_layer_freq list of the wrong length, no num_layers at all) is ERR_INPUT. */
status model_init(model *m, const recipe *r, error *err);

/* Names of the presets, for messages and `moefold show --presets`. */
const char *const *model_presets(int *n);
bool model_is_preset(const char *name);

static inline bool model_layer_is(const model *m, int64_t i, layer_kind_bits bit)
{
    return (m->layer[i] & bit) != 0;
}

/* Model FLOPs of one trained token (forward and backward; causal attention halved, recompute not
 * counted), exactly as Megatron counts them. */
double model_flops_per_token(const model *m, int64_t seq);

#endif
