/* hf_config.c - a Hugging Face config.json as knobs.
 *
 * I1  A field is read once, through a row of the table; its type and range are those of its knob.
 * I2  transformers' own defaults for absent fields are not guessed: what decides a shape must be
 *     there.
 * I3  What has no knob (another activation, a bias in one place only) is refused, never dropped. */
#include "model/hf_config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "model/model.h"

enum { NEEDED = 1, NULL_OK = 2, SKIP_ZERO = 4 };

typedef struct known_field {
    unsigned families;
    const char *names; /* alternatives with '|'; where several are there they must agree */
    knob_id knob;
    unsigned how;
} known_field;

enum {
    IN_GQA = IN_ALL & ~IN_DEEPSEEK_V3,
    IN_QWEN = IN_QWEN3_MOE | IN_QWEN3_NEXT,
    IN_ONE_WIDTH = IN_MIXTRAL | IN_GPT_OSS, /* experts are the only MLPs */
};

static const known_field fields[] = {
    {IN_ALL, "num_hidden_layers", K_LAYERS, NEEDED},
    {IN_ALL, "hidden_size", K_HIDDEN, NEEDED},
    {IN_ALL, "num_attention_heads", K_HEADS, NEEDED},
    {IN_ALL, "vocab_size", K_VOCAB, NEEDED},
    {IN_ALL, "max_position_embeddings", K_MAX_POSITIONS, NEEDED},
    {IN_ALL, "intermediate_size", K_FFN, NEEDED},
    {IN_ALL, "rms_norm_eps", K_NORM_EPS, NEEDED},
    {IN_ALL, "initializer_range", K_INIT_STD, 0},
    {IN_ALL, "tie_word_embeddings", K_TIED, 0},
    {IN_ALL, "attention_dropout", K_ATTENTION_DROPOUT, 0},
    {IN_ALL, N_EXPERTS, K_EXPERTS, NEEDED},
    {IN_ALL, TOP_K, K_TOPK, NEEDED},
    {IN_GQA, "num_key_value_heads", K_KV_HEADS, NEEDED},
    {IN_DEEPSEEK_V3, "num_key_value_heads", K_KV_HEADS, 0},
    {IN_QWEN3_MOE | IN_MIXTRAL, "head_dim", K_HEAD_DIM, NULL_OK},
    {IN_QWEN3_NEXT | IN_GPT_OSS, "head_dim", K_HEAD_DIM, NEEDED},
    {IN_QWEN | IN_DEEPSEEK_V3, "moe_intermediate_size", K_MOE_FFN, NEEDED},
    {IN_ONE_WIDTH, "intermediate_size", K_MOE_FFN, NEEDED},
    {IN_QWEN3_NEXT, "shared_expert_intermediate_size", K_SHARED_FFN, NEEDED},
    {IN_QWEN | IN_MIXTRAL, "router_aux_loss_coef", K_AUX_COEFF, 0},
    {IN_DEEPSEEK_V3, "aux_loss_alpha", K_AUX_COEFF, 0},
    {IN_MIXTRAL, "router_jitter_noise", K_JITTER, SKIP_ZERO},
    {IN_DEEPSEEK_V3, "routed_scaling_factor", K_SCALING, NEEDED},
    {IN_DEEPSEEK_V3, "q_lora_rank", K_Q_LORA, NEEDED | NULL_OK},
    {IN_DEEPSEEK_V3, "kv_lora_rank", K_KV_LORA, NEEDED},
    {IN_DEEPSEEK_V3, "qk_nope_head_dim", K_QK_DIM, NEEDED},
    {IN_DEEPSEEK_V3, "qk_rope_head_dim", K_QK_ROPE_DIM, NEEDED},
    {IN_DEEPSEEK_V3, "v_head_dim", K_V_DIM, NEEDED},
    {IN_QWEN3_NEXT, "linear_conv_kernel_dim", K_GDN_CONV, NEEDED},
    {IN_QWEN3_NEXT, "linear_key_head_dim", K_GDN_K_DIM, NEEDED},
    {IN_QWEN3_NEXT, "linear_value_head_dim", K_GDN_V_DIM, NEEDED},
    {IN_QWEN3_NEXT, "linear_num_key_heads", K_GDN_K_HEADS, NEEDED},
    {IN_QWEN3_NEXT, "linear_num_value_heads", K_GDN_V_HEADS, NEEDED},
    {IN_GPT_OSS, "swiglu_limit", K_GLU_CLAMP, 0},
    {IN_QWEN | IN_DEEPSEEK_V3, "attention_bias", K_ATTN_BIAS, 0},
};

/* Fields that admit one value here, with the reason (I3). */
static const struct {
    unsigned families;
    const char *name, *json, *why;
} fixed[] = {
    {IN_ALL, "hidden_act", "\"silu\"", "no other activation is known in this family"},
    {IN_MIXTRAL, "attention_bias", "false", "the family has no biases in attention"},
    {IN_GPT_OSS, "attention_bias", "true", "gpt_oss has biases in every linear layer"},
    {IN_DEEPSEEK_V3, "scoring_func", "\"sigmoid\"", "the family's router has sigmoid scores"},
    {IN_DEEPSEEK_V3, "topk_method", "\"noaux_tc\"", "the family's router has a correction bias"},
    {IN_DEEPSEEK_V3, "moe_layer_freq", "1", "first_k_dense_replace alone says what is dense"},
};

/* ---- messages */

const char *config_text(const config *c, const json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT);
    const char *copy = arena_text(c->r->a, "%.80s", text ? text : "?");
    free(text);
    return copy;
}

status config_missing(const config *c, const char *field, const char *what)
{
    return error_set(c->err, ERR_INPUT, "%s: %s is missing; %s", c->name, field, what);
}

status config_wrong(const config *c, const char *field, const json_t *v, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(c->err, ERR_INPUT, "%s: %s is %s; %s", c->name, field, config_text(c, v),
                     what);
}

/* ---- fields */

const json_t *config_find(const config *c, const char *names, const char **field)
{
    const char *first = NULL;
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        const char *name = arena_copy(c->r->a, p, n);
        const json_t *v = json_object_get(c->root, name);
        if (!first) first = name;
        if (field) *field = v ? name : first;
        if (v && !json_is_null(v)) return v;
        p += n + (p[n] == '|');
    }
    if (field) *field = first;
    return NULL;
}

int64_t config_int(const config *c, const char *names)
{
    const json_t *v = config_find(c, names, NULL);
    return json_is_integer(v) ? json_integer_value(v) : 0;
}

static bool has_kind(const json_t *v, knob_kind kind)
{
    switch (kind) {
    case BOOL:
        return json_is_boolean(v);
    case INT:
        return json_is_integer(v);
    case FLOAT:
        return json_is_number(v);
    default:
        return json_is_string(v);
    }
}

static value value_of_json(const config *c, const json_t *v)
{
    if (json_is_boolean(v)) return value_of_bool(json_is_true(v));
    if (json_is_integer(v)) return value_of_int(json_integer_value(v));
    if (json_is_real(v)) return value_of_float(json_real_value(v));
    const char *text = json_string_value(v);
    return value_of_text(arena_copy(c->r->a, text, strlen(text)));
}

status config_set(const config *c, const char *field, knob_id k, value v)
{
    return knob_fill(c->r, k, v, arena_text(c->r->a, "%s: %s", c->name, field), c->err);
}

status config_knob(const config *c, const char *field, const json_t *v, knob_id k)
{
    static const char *const kinds[] = {"true or false", "a whole number", "a number", "a word",
                                        "a word"};
    if (!has_kind(v, knobs[k].kind))
        return config_wrong(c, field, v, "%s is needed", kinds[knobs[k].kind]);
    value given = value_of_json(c, v), accepted, nearest;
    status s = knob_accept(c->r->a, k, given, &accepted, c->err);
    if (s) return error_prefix(c->err, s, "%s: %s", c->name, field);
    if (!knob_in_range(c->r->a, k, accepted, &nearest))
        return config_wrong(c, field, v, "%s allows %s", knobs[k].key, knobs[k].allowed);
    return config_set(c, field, k, accepted);
}

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
    status s = check_agreement(c, f->names, name, v);
    if (s) return s;
    if ((f->how & SKIP_ZERO) && json_is_number(v) && json_number_value(v) == 0) return OK;
    return config_knob(c, name, v, f->knob);
}

static status read_fields(const config *c)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        status s = config_in(c, fields[i].families) ? read_field(c, &fields[i]) : OK;
        if (s) return s;
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

/* ---- fields that are not one knob */

/* norm_topk_prob divides the chosen weights by their sum: for softmax scores that is a softmax over
 * the chosen; sigmoid scores are divided unless it is false. */
static status read_normalisation(const config *c)
{
    const json_t *v = config_find(c, "norm_topk_prob", NULL);
    bool qwen = config_in(c, IN_QWEN);
    if (!qwen && !config_in(c, IN_DEEPSEEK_V3)) return OK;
    if (!v && !qwen) return OK;
    if (!v) return config_missing(c, "norm_topk_prob", "true or false is needed");
    if (!json_is_boolean(v)) return config_wrong(c, "norm_topk_prob", v, "true or false is needed");
    if (qwen)
        return config_set(c, "norm_topk_prob", K_PRE_SOFTMAX, value_of_bool(json_is_false(v)));
    return json_is_true(v) ? OK
                           : config_set(c, "norm_topk_prob", K_ROUTER_NORM, value_of_bool(false));
}

/* Latent attention rotates neighbouring pairs unless rope_interleave is false. */
static status read_interleaving(const config *c)
{
    const json_t *v = config_find(c, "rope_interleave", NULL);
    if (!v || !config_in(c, IN_DEEPSEEK_V3)) return OK;
    if (!json_is_boolean(v))
        return config_wrong(c, "rope_interleave", v, "true or false is needed");
    return config_set(c, "rope_interleave", K_ROPE_HALVES, value_of_bool(json_is_false(v)));
}

static status read_groups(const config *c)
{
    const json_t *n = config_find(c, "n_group", NULL), *k = config_find(c, "topk_group", NULL);
    bool both = json_object_get(c->root, "n_group") && json_object_get(c->root, "topk_group");
    if (both && !n && !k) return OK; /* null: no groups */
    if (!n || !k)
        return config_missing(c, n ? "topk_group" : "n_group",
                              "n_group and topk_group are needed (1 and 1: no groups)");
    if (!json_is_integer(n) || json_integer_value(n) < 1)
        return config_wrong(c, "n_group", n, "a whole number from 1 is needed");
    if (!json_is_integer(k) || json_integer_value(k) < 1)
        return config_wrong(c, "topk_group", k, "a whole number from 1 is needed");
    if (json_integer_value(n) == 1) return OK; /* one group limits nothing */
    status s = config_knob(c, "n_group", n, K_GROUPS);
    if (!s) s = config_knob(c, "topk_group", k, K_GROUP_TOPK);
    if (!s) s = config_set(c, "n_group", K_GROUP_SCORE, value_of_text("best_two"));
    return s;
}

static status read_shared_experts(const config *c)
{
    const json_t *v = config_find(c, "n_shared_experts", NULL);
    if (!v && !json_object_get(c->root, "n_shared_experts"))
        return config_missing(c, "n_shared_experts", "their number is needed (0: none)");
    if (!v) return OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 65536)
        return config_wrong(c, "n_shared_experts", v, "a whole number from 0 is needed");
    int64_t width = json_integer_value(v) * config_int(c, "moe_intermediate_size");
    if (!width) return OK;
    json_t *product = json_integer(width);
    status s = config_knob(c, "n_shared_experts x moe_intermediate_size", product, K_SHARED_FFN);
    json_decref(product);
    return s;
}

static status read_sequence_aux(const config *c)
{
    const json_t *v = config_find(c, "seq_aux", NULL);
    if (!v) return OK;
    if (!json_is_boolean(v)) return config_wrong(c, "seq_aux", v, "true or false is needed");
    return config_set(c, "seq_aux", K_BALANCING,
                      value_of_text(json_is_true(v) ? "seq_aux_loss" : "aux_loss"));
}

static status read_deepseek(const config *c)
{
    if (!config_in(c, IN_DEEPSEEK_V3)) return OK;
    status s = read_groups(c);
    if (!s) s = read_shared_experts(c);
    return s ? s : read_sequence_aux(c);
}

/* gpt-oss files carry a coefficient, but Megatron-Bridge trains the family without that loss. */
static void note_unused(const config *c)
{
    const json_t *v = config_find(c, "router_aux_loss_coef", NULL);
    if (config_in(c, IN_GPT_OSS) && json_is_number(v) && json_number_value(v) != 0)
        recipe_note(
            c->r,
            "%s: router_aux_loss_coef %s is not used: transformers adds no such loss unless "
            "asked; %s and %s turn one on",
            c->name, config_text(c, v), knobs[K_BALANCING].key, knobs[K_AUX_COEFF].key);
}

/* ---- the whole */

static status read_config(config *c)
{
    if (!json_is_object(c->root))
        return error_set(c->err, ERR_INPUT, "%s: is no JSON object; a model's config.json is one",
                         c->name);
    status s = config_family(c);
    if (!s) s = check_fixed(c);
    if (!s) s = read_fields(c);
    if (!s) s = read_normalisation(c);
    if (!s) s = read_interleaving(c);
    if (!s) s = read_deepseek(c);
    if (!s) s = config_check(c);
    if (!s) s = config_rope(c);
    if (!s) s = config_layers(c);
    if (!s) s = config_mtp(c);
    if (!s) note_unused(c);
    const char *why = arena_text(c->r->a, "%s: model_type", c->name);
    return s ? s : family_fill(c->r, c->family, why, c->err);
}

/* On failure the recipe stays as it was. */
static status fill_from(recipe *r, const char *name, const char *folder, const json_t *root,
                        error *err)
{
    recipe trial = *r;
    config c = {.r = &trial, .name = name, .folder = folder, .root = root, .err = err};
    status s = read_config(&c);
    if (!s) *r = trial;
    return s;
}

status model_parse_config(recipe *r, const char *name, const char *data, size_t n, error *err)
{
    json_t *root;
    status s = json_parse(name, data, n, &root, err);
    if (s) return s;
    s = fill_from(r, name, NULL, root, err);
    json_decref(root);
    return s;
}

status config_fill(recipe *r, const char *path, error *err)
{
    const char *slash = strrchr(path, '/');
    bool own = text_equal(slash ? slash + 1 : path, "config.json");
    const char *folder = own ? file_folder(r->a, path) : NULL; /* else whose weights would it be? */
    json_t *root;
    status s = json_read(path, &root, err);
    if (s) return s;
    s = fill_from(r, path, folder, root, err);
    json_decref(root);
    return s;
}
