/* hf_fields.c - fields of a config.json that are one knob, or that admit one value.
 *
 * I1  A field is read and written through one row of the table; its type and range are those of its
 *     knob, and the first of its names is the one that new files get.
 * I2  transformers' own defaults for absent fields are not guessed: what decides a shape must be
 *     there.
 * I3  What has no knob (another activation, a bias in one place only) is refused, never dropped. */
#include <string.h>

#include "base/json.h"
#include "config/models/hf_config.h"

enum { NEEDED = 1, NULL_OK = 2, SKIP_ZERO = 4 };

typedef struct known_field {
    uint64_t families; /* or traits */
    const char *names; /* alternatives with '|'; where several are there they must agree */
    knob_id knob;
    unsigned how;
} known_field;

static const known_field fields[] = {
    {ANY_FAMILY, "num_hidden_layers", K_LAYERS, NEEDED},
    {ANY_FAMILY, "hidden_size", K_HIDDEN, NEEDED},
    {ANY_FAMILY, "num_attention_heads", K_HEADS, NEEDED},
    {ANY_FAMILY, "vocab_size", K_VOCAB, NEEDED},
    {ANY_FAMILY, "max_position_embeddings", K_MAX_POSITIONS, NEEDED},
    {ANY_FAMILY, "intermediate_size", K_FFN, NEEDED},
    {IN(RMS_NORMS), "rms_norm_eps", K_NORM_EPS, NEEDED},
    {IN(STARCODER2), "norm_epsilon", K_NORM_EPS, NEEDED},
    {IN(STARCODER2), "use_bias", K_LINEAR_BIAS, NEEDED},
    {IN(STARCODER2), "residual_dropout", K_HIDDEN_DROPOUT, 0},
    {ANY_FAMILY, "initializer_range", K_INIT_STD, 0},
    {ANY_FAMILY, "tie_word_embeddings", K_TIED, 0},
    {ANY_FAMILY, "attention_dropout", K_ATTENTION_DROPOUT, 0},
    {IN(NUM_EXPERTS), "num_experts|n_routed_experts|num_local_experts", K_EXPERTS, NEEDED},
    {IN(SHARED_EXPERTS), "n_routed_experts|num_experts|num_local_experts", K_EXPERTS, NEEDED},
    {IN(LOCAL_EXPERTS), "num_local_experts|num_experts|n_routed_experts", K_EXPERTS, NEEDED},
    {IN(ROUTED_EXPERTS), TOP_K, K_TOPK, NEEDED},
    {IN(GROUPS_NEEDED), "num_key_value_heads", K_KV_HEADS, NEEDED},
    {IN(GROUPS_OPEN), "num_key_value_heads", K_KV_HEADS, NULL_OK}, /* as many as heads */
    {IN(HEAD_OPEN), "head_dim", K_HEAD_DIM, NULL_OK},
    {IN(HEAD_NEEDED), "head_dim", K_HEAD_DIM, NEEDED},
    {IN(TWO_WIDTHS), "moe_intermediate_size", K_MOE_FFN, NEEDED},
    {IN(ONE_WIDTH), "intermediate_size", K_MOE_FFN, NEEDED},
    {IN(SHARED_WIDTH), "shared_expert_intermediate_size", K_SHARED_FFN, NEEDED},
    {IN(AUX_COEF), "router_aux_loss_coef", K_AUX_COEFF, 0},
    {IN(LATENT), "aux_loss_alpha", K_AUX_COEFF, 0},
    {IN(JITTER), "router_jitter_noise", K_JITTER, SKIP_ZERO},
    {IN(SHARED_EXPERTS), "routed_scaling_factor", K_SCALING, NEEDED},
    {IN(LATENT), "q_lora_rank", K_Q_LORA, NEEDED | NULL_OK},
    {IN(LATENT), "kv_lora_rank", K_KV_LORA, NEEDED},
    {IN(LATENT), "qk_nope_head_dim", K_QK_DIM, NEEDED},
    {IN(LATENT), "qk_rope_head_dim", K_QK_ROPE_DIM, NEEDED},
    {IN(LATENT), "v_head_dim", K_V_DIM, NEEDED},
    {IN(QWEN3_NEXT), "linear_conv_kernel_dim", K_GDN_CONV, NEEDED},
    {IN(QWEN3_NEXT), "linear_key_head_dim", K_GDN_K_DIM, NEEDED},
    {IN(QWEN3_NEXT), "linear_value_head_dim", K_GDN_V_DIM, NEEDED},
    {IN(QWEN3_NEXT), "linear_num_key_heads", K_GDN_K_HEADS, NEEDED},
    {IN(QWEN3_NEXT), "linear_num_value_heads", K_GDN_V_HEADS, NEEDED},
    {IN(GPT_OSS), "swiglu_limit", K_GLU_CLAMP, 0},
    {IN(WHOLE_BIAS), "attention_bias", K_ATTN_BIAS, 0},
    {IN(GLM4_MOE), "attention_bias", K_QKV_BIAS, 0}, /* its output projection has none */
    {IN(QWEN2_MOE), "qkv_bias", K_QKV_BIAS, 0},
    {IN(GLM4_MOE), "use_qk_norm", K_QK_NORM, 0},
};

/* Fields that admit one value here, with the reason (I3). */
static const struct {
    uint64_t families;
    const char *name, *json, *why;
} fixed[] = {
    {IN(QWEN3_NEXT), "hidden_act", "\"silu\"",
     "the convolution of its linear attention has no other activation here"},
    {IN(GPT_OSS), "hidden_act", "\"silu\"", "the family has an activation of its own"},
    {IN(MIXTRAL), "attention_bias", "false", "the family has no biases in attention"},
    {IN(DEEPSEEK_V2), "mlp_bias", "false", "biases in shared experts are not built"},
    {IN(DEEPSEEK_V3), "scoring_func", "\"sigmoid\"", "the family's router has sigmoid scores"},
    {IN(DEEPSEEK_V3), "topk_method", "\"noaux_tc\"", "the family's router has a correction bias"},
    {IN(DEEPSEEK_V2), "scoring_func", "\"softmax\"", "the family's router has softmax scores"},
    {IN(DEEPSEEK_V2), "norm_topk_prob", "false", "transformers divides by no sum in this family"},
    {IN(LATENT), "moe_layer_freq", "1", "first_k_dense_replace alone says what is dense"},
    {IN(MINIMAX_M2), "scoring_func", "\"sigmoid\"", "the family's router has sigmoid scores"},
    {IN(MINIMAX_M2), "use_routing_bias", "true", "the family's router has a correction bias"},
    {IN(MINIMAX_M2), "use_qk_norm", "true", "transformers always has the norms"},
    {IN(MINIMAX_M2), "qk_norm_type", "\"per_layer\"", "norms go over all heads at once"},
    {IN(MINIMAX_M2), "shared_intermediate_size", "0", "the family has no shared expert"},
    {IN(STARCODER2), "mlp_type", "\"default\"", "gated MLPs are of other families"},
    {IN(STARCODER2), "norm_type", "\"layer_norm\"", "other norms are of other families"},
    {IN(GPT_OSS), "swiglu_alpha", "1.702", "the slope of its sigmoid is built in"},
    {IN(DEEPSEEK_V2), "rope_interleave", "true", "transformers rotates pairs in this family"},
    {IN(OLMOE), "clip_qkv", "null", "clipping of queries, keys and values is not built"},
};

/* Two of the alternative names with two values: which is meant? */
static status check_agreement(const config *c, const char *names, const char *field,
                              const json_t *v)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        const char *name = arena_copy(c->r->a, p, n);
        const json_t *other = json_object_get(c->root, name);
        if (other && !json_is_null(other) && !json_equal(v, other))
            return config_wrong(c, field, v, "%s is %s: make them equal or remove one", name,
                                config_text(c, other));
        p += n + (p[n] == '|');
    }
    return OK;
}

static status read_field(const config *c, const known_field *f)
{
    const char *name;
    const json_t *v = config_find(c, f->names, &name);
    if (!v) {
        bool there = json_object_get(c->root, name) != NULL;
        if (there && (f->how & NULL_OK)) return OK;
        if (there && (f->how & NEEDED))
            return config_wrong(c, name, json_object_get(c->root, name), "a value is needed");
        if (!(f->how & NEEDED)) return OK;
        return config_missing(c, name,
                              arena_text(c->r->a,
                                         "%s is set from it: copy it from the original file",
                                         knobs[f->knob].key));
    }
    TRY(check_agreement(c, f->names, name, v));
    if ((f->how & SKIP_ZERO) && json_is_number(v) && json_number_value(v) == 0) return OK;
    return config_knob(c, name, v, f->knob);
}

static status read_fields(const config *c)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (config_in(c, fields[i].families)) TRY(read_field(c, &fields[i]));
    }
    return OK;
}

static status check_fixed(const config *c)
{
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        const json_t *v = config_find(c, fixed[i].name, NULL);
        if (!v || !config_in(c, fixed[i].families)) continue;
        if (!text_equal(config_text(c, v), fixed[i].json))
            return config_wrong(c, fixed[i].name, v, "%s is needed: %s", fixed[i].json,
                                fixed[i].why);
    }
    return OK;
}

status config_fields(const config *c)
{
    TRY(check_fixed(c));
    return read_fields(c);
}

/* ---- writing */

/* The longest sequence is also what dynamic scaling counts from. */
static value written_value(const draft *d, knob_id k)
{
    const recipe *r = d->of.r;
    if (k == K_MAX_POSITIONS && recipe_given(r, K_ROPE_DYNAMIC)) k = K_ROPE_TRAINED;
    if (k == K_JITTER && !recipe_given(r, k)) return value_of_float(0);
    return facts_value(d->of, k);
}

/* What has no value, or a list, is not written: reading the file again tells whether that
 * matters. */
static void write_field(const draft *d, const known_field *f)
{
    value v = written_value(d, f->knob);
    if (v.kind == V_BOOL)
        draft_put(d, f->names, json_boolean(v.flag));
    else if (v.kind == V_INT || v.kind == V_FLOAT)
        draft_put(d, f->names, draft_number(f->knob, v));
    else if (f->how & NULL_OK)
        draft_put(d, f->names, json_null());
}

void draft_fields(const draft *d)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (draft_in(d, fields[i].families)) write_field(d, &fields[i]);
}

void draft_fixed(const draft *d)
{
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (draft_in(d, fixed[i].families))
            draft_put(d, fixed[i].name, json_loads(fixed[i].json, JSON_DECODE_ANY, NULL));
}
