/* family.c - what all members of a family have in common, as text of overrides.
 *
 * Everything that decides the shape or the mathematics of a family stands here even where it is our
 * default: a Megatron-LM argument list has other defaults, and a model must not change with
 * them. */
#include "config/models/family.h"

#include <string.h>

#include "model/model.h"

const family families[FAMILY_COUNT] = {
#define FAMILY(id, types, class, traits, settings)                                                 \
    [id] = {types, class, IN(id) | (traits), settings},
#include "config/models/families.def"
#undef FAMILY
};

static const char every_family[] =
    "normalization=RMSNorm layernorm_zero_centered_gamma=false gated_linear_unit=true "
    "activation_func=silu glu_linear_offset=0.0 add_bias_linear=false add_qkv_bias=false "
    "qk_layernorm=false moefold.qk_norm_whole=false moefold.attention_bias=false "
    "share_embeddings_and_output_weights=false softmax_type=vanilla "
    "attention_output_gate=false multi_latent_attention=false position_embedding_type=rope "
    "rope_type=rope rope_scaling=false rotary_percent=1.0 attention_dropout=0.0 hidden_dropout=0.0 "
    "moe_layer_freq=1 "
    "moe_router_score_function=softmax moe_router_pre_softmax=false "
    "moe_router_enable_expert_bias=false moe_shared_expert_gate=false "
    "moe_router_load_balancing_type=aux_loss moe_aux_loss_coeff=0.0";

status knob_fill(recipe *r, knob_id k, value v, const char *why, error *err)
{
    value accepted;
    TRY(knob_accept(r->a, k, v, &accepted, err));
    recipe_fill(r, k, accepted, FROM_MODEL, "%s", why);
    return OK;
}

static status setting_fill(recipe *r, const char *key, const char *text, const char *why,
                           error *err)
{
    const char *full = strchr(key, '.') ? key : arena_text(r->a, "model.%s", key);
    int k = knob_find(full, NULL);
    value v;
    if (k < 0) return error_set(err, ERR_INPUT, "%s: unknown knob '%s'", why, full);
    TRY(knob_parse(r->a, (knob_id)k, text, &v, err));
    return knob_fill(r, (knob_id)k, v, why, err);
}

status settings_fill(recipe *r, const char *settings, const char *why, error *err)
{
    for (const char *p = settings; *p;) {
        size_t n = strcspn(p, " "), n_key = strcspn(p, "=");
        const char *key = arena_copy(r->a, p, n_key < n ? n_key : n);
        const char *text = n_key < n ? arena_copy(r->a, p + n_key + 1, n - n_key - 1) : "";
        TRY(setting_fill(r, key, text, why, err));
        p += n + strspn(p + n, " ");
    }
    return OK;
}

status family_fill(recipe *r, family_id f, const char *why, error *err)
{
    TRY(settings_fill(r, families[f].settings, why, err));
    return settings_fill(r, every_family, why, err);
}

int64_t layers_in_recipe(const recipe *r)
{
    int64_t n = recipe_int(r, K_LAYERS);
    return n < 0 ? 0 : n > MODEL_LAYERS_MAX ? MODEL_LAYERS_MAX : n;
}

void pattern_fill(recipe *r, knob_id k, const unsigned char *flags, int64_t n, const char *why)
{
    value *items = ARENA_ARRAY(r->a, value, n);
    for (int64_t i = 0; i < n; i++) items[i] = value_of_int(flags[i]);
    recipe_fill(r, k, (value){.kind = V_LIST, .list = {items, (int)n}}, FROM_MODEL, "%s", why);
}

void dense_first_fill(recipe *r, int64_t n_dense, const char *why)
{
    unsigned char moe[MODEL_LAYERS_MAX];
    int64_t n = layers_in_recipe(r);
    for (int64_t i = 0; i < n; i++) moe[i] = i >= n_dense;
    if (n_dense > 0) pattern_fill(r, K_MOE_FREQ, moe, n, why);
}
