/* hf_config.c - a Hugging Face config.json as knobs and knobs as a config.json: messages, values,
 * and fields that are more than one knob, each read and written by a pair of functions. The plain
 * fields are a table, hf_fields.c, with the rules for all of them. */
#include "config/models/models.h"
#include "config/models/hf_config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "model/model.h"

/* ---- messages */

const char *config_text(const config *c, const json_t *v)
{
    char *text =
        json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT | JSON_REAL_PRECISION(15));
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

/* ---- writing */

bool draft_has(const draft *d, const char *name)
{
    return json_object_get(d->root, name) != NULL;
}

static int put_where(const draft *d, const char *names, json_t *v, bool there)
{
    int n = 0;
    for (const char *p = names; *p;) {
        size_t length = strcspn(p, "|");
        const char *name = arena_copy(d->of.r->a, p, length);
        if (!there || draft_has(d, name)) n += json_object_set(d->root, name, v) == 0;
        if (!there) break;
        p += length + (p[length] == '|');
    }
    return n;
}

void draft_put(const draft *d, const char *names, json_t *v)
{
    if (!put_where(d, names, v, true)) put_where(d, names, v, false);
    json_decref(v);
}

void draft_correct(const draft *d, const char *names, json_t *v)
{
    put_where(d, names, v, true);
    json_decref(v);
}

json_t *draft_number(knob_id k, value v)
{
    bool real = knobs[k].kind == FLOAT;
    if (v.kind == V_INT) return real ? json_real((double)v.whole) : json_integer(v.whole);
    return v.kind == V_FLOAT ? json_real(v.real) : json_null();
}

/* ---- fields that are not one knob */

/* norm_topk_prob divides the chosen weights by their sum: for softmax scores that is a softmax over
 * the chosen; sigmoid scores are divided unless it is false. */
static status read_normalisation(const config *c)
{
    static const char name[] = "norm_topk_prob";
    const json_t *v = config_find(c, name, NULL);
    bool softmax = config_in(c, IN(TWO_SOFTMAXES));
    if (!softmax && !config_in(c, IN(BIASED_SCORES))) return OK;
    if (!v && !softmax) return OK;
    if (!v) return config_missing(c, name, "true or false is needed");
    if (!json_is_boolean(v)) return config_wrong(c, name, v, "true or false is needed");
    if (softmax) return config_set(c, name, K_PRE_SOFTMAX, value_of_bool(json_is_false(v)));
    return json_is_true(v) ? OK : config_set(c, name, K_ROUTER_NORM, value_of_bool(false));
}

static void write_normalisation(const draft *d)
{
    bool softmax = draft_in(d, IN(TWO_SOFTMAXES));
    bool divided =
        softmax ? !recipe_on(d->of.r, K_PRE_SOFTMAX) : facts_value(d->of, K_ROUTER_NORM).flag;
    if (softmax || draft_in(d, IN(BIASED_SCORES)))
        draft_put(d, "norm_topk_prob", json_boolean(divided));
}

/* Latent attention rotates neighbouring pairs unless rope_interleave is false; transformers'
 * DeepSeek-V2 always does. */
static status read_interleaving(const config *c)
{
    const json_t *v = config_find(c, "rope_interleave", NULL);
    if (!v || !config_in(c, IN(DEEPSEEK_V3))) return OK;
    if (!json_is_boolean(v))
        return config_wrong(c, "rope_interleave", v, "true or false is needed");
    return config_set(c, "rope_interleave", K_ROPE_HALVES, value_of_bool(json_is_false(v)));
}

static void write_interleaving(const draft *d)
{
    if (draft_in(d, IN(DEEPSEEK_V3)))
        draft_put(d, "rope_interleave", json_boolean(!recipe_on(d->of.r, K_ROPE_HALVES)));
}

bool config_ignores_groups(const config *c)
{
    const json_t *v = config_find(c, "topk_method", NULL);
    return config_in(c, IN(DEEPSEEK_V2)) &&
           !(v && text_equal(json_string_value(v), "group_limited_greedy"));
}

static status check_choice(const config *c)
{
    const json_t *v = config_find(c, "topk_method", NULL);
    if (!config_in(c, IN(DEEPSEEK_V2))) return OK;
    if (!v) return config_missing(c, "topk_method", "greedy or group_limited_greedy is needed");
    if (json_is_string(v) && text_in("greedy|group_limited_greedy", '|', json_string_value(v)))
        return OK;
    return config_wrong(c, "topk_method", v, "greedy or group_limited_greedy is needed");
}

static status read_groups(const config *c)
{
    if (!config_in(c, IN(SHARED_EXPERTS))) return OK;
    TRY(check_choice(c));
    if (config_ignores_groups(c)) return OK;
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
    TRY(config_knob(c, "n_group", n, K_GROUPS));
    TRY(config_knob(c, "topk_group", k, K_GROUP_TOPK));
    const char *score = config_in(c, IN(DEEPSEEK_V2)) ? "best" : "best_two";
    return config_set(c, "n_group", K_GROUP_SCORE, value_of_text(score));
}

static void write_groups(const draft *d)
{
    int64_t groups = recipe_int(d->of.r, K_GROUPS);
    bool limited = groups > 1;
    if (!draft_in(d, IN(SHARED_EXPERTS))) return;
    draft_put(d, "n_group", json_integer(limited ? groups : 1));
    draft_put(d, "topk_group", json_integer(limited ? recipe_int(d->of.r, K_GROUP_TOPK) : 1));
    if (draft_in(d, IN(DEEPSEEK_V2)))
        draft_put(d, "topk_method", json_string(limited ? "group_limited_greedy" : "greedy"));
}

static status read_shared_experts(const config *c)
{
    if (!config_in(c, IN(SHARED_EXPERTS))) return OK;
    const json_t *v = config_find(c, "n_shared_experts", NULL);
    if (!v && !json_object_get(c->root, "n_shared_experts"))
        return config_missing(c, "n_shared_experts", "their number is needed (0: none)");
    if (!v) return OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 65536)
        return config_wrong(c, "n_shared_experts", v, "a whole number from 0 is needed");
    int64_t width = json_integer_value(v) * config_int(c, "moe_intermediate_size");
    if (!width) return OK;
    json_t *gemm = json_integer(width);
    status s = config_knob(c, "n_shared_experts x moe_intermediate_size", gemm, K_SHARED_FFN);
    json_decref(gemm);
    return s;
}

/* A width that is not a whole number of experts is none that the file can say (I2). */
static void write_shared_experts(const draft *d)
{
    int64_t n = d->of.m->moe->ffn > 0 ? d->of.m->moe->shared_ffn / d->of.m->moe->ffn : 0;
    if (draft_in(d, IN(SHARED_EXPERTS))) draft_put(d, "n_shared_experts", json_integer(n));
}

static status read_sequence_aux(const config *c)
{
    const json_t *v = config_find(c, "seq_aux", NULL);
    if (!v || !config_in(c, IN(SHARED_EXPERTS))) return OK;
    if (!json_is_boolean(v)) return config_wrong(c, "seq_aux", v, "true or false is needed");
    return config_set(c, "seq_aux", K_BALANCING,
                      value_of_text(json_is_true(v) ? "seq_aux_loss" : "aux_loss"));
}

/* Files have no word for other losses. */
static void write_sequence_aux(const draft *d)
{
    bool sequence = recipe_is(d->of.r, K_BALANCING, "seq_aux_loss");
    if (draft_in(d, IN(SHARED_EXPERTS)) &&
        (sequence || recipe_is(d->of.r, K_BALANCING, "aux_loss")))
        draft_put(d, "seq_aux", json_boolean(sequence));
}

/* MiniMax-M2's public file has a number of dimensions, transformers a fraction of the head. */
static status read_minimax(const config *c)
{
    const json_t *v = config_find(c, "rotary_dim", NULL),
                 *types = config_find(c, "attn_type_list", NULL);
    if (!config_in(c, IN(MINIMAX_M2))) return OK;
    for (size_t i = 0; i < json_array_size(types); i++)
        if (json_integer_value(json_array_get(types, i)) != 1)
            return config_wrong(c, "attn_type_list", types,
                                "1 is needed everywhere: moefold does not have the lightning "
                                "(linear) attention of other layers");
    if (!v) return OK;
    int64_t d = config_int(c, "head_dim");
    if (!json_is_integer(v) || json_integer_value(v) < 2 || json_integer_value(v) > d)
        return config_wrong(c, "rotary_dim", v, "a whole number from 2 to head_dim is needed");
    double part = (double)json_integer_value(v) / (double)d;
    return config_set(c, "rotary_dim", K_ROPE_PERCENT, value_of_float(part));
}

/* Files of every layer's kind, and of the number of dimensions that are rotated. */
static void write_minimax(const draft *d)
{
    double rotated = (double)d->of.m->attention->head_dim * recipe_real(d->of.r, K_ROPE_PERCENT);
    if (!draft_in(d, IN(MINIMAX_M2))) return;
    draft_put(d, "rotary_dim", json_integer((int64_t)rotated));
    json_t *types = json_array();
    for (int64_t i = 0; i < d->of.m->n_layers; i++) json_array_append_new(types, json_integer(1));
    draft_correct(d, "attn_type_list", types);
}

/* transformers' words for activations that we have. */
static const struct {
    const char *theirs, *ours;
} activations[] = {
    {"silu|swish", "silu"},
    {"gelu|gelu_python", "gelu"},
    {"gelu_pytorch_tanh|gelu_new|gelu_fast|gelu_python_tanh", "fast_gelu"},
    {"quick_gelu", "quick_gelu"},
    {"relu2", "squared_relu"},
};
enum { N_ACTIVATIONS = sizeof activations / sizeof activations[0] };

static status read_activation(const config *c)
{
    const json_t *v = config_find(c, "hidden_act", NULL);
    const char *word = json_string_value(v);
    if (!v || config_in(c, IN(GPT_OSS))) return OK;
    for (int i = 0; word && i < N_ACTIVATIONS; i++)
        if (text_in(activations[i].theirs, '|', word))
            return config_set(c, "hidden_act", K_ACTIVATION, value_of_text(activations[i].ours));
    return config_wrong(c, "hidden_act", v,
                        "silu, gelu, gelu_pytorch_tanh, quick_gelu or relu2 is needed");
}

static void write_activation(const draft *d)
{
    for (int i = 0; i < N_ACTIVATIONS && !draft_in(d, IN(GPT_OSS)); i++)
        if (recipe_is(d->of.r, K_ACTIVATION, activations[i].ours))
            draft_put(d, "hidden_act",
                      json_stringn(activations[i].theirs, strcspn(activations[i].theirs, "|")));
}

static status read_switch(const config *c, const char *field, bool absent, bool *on)
{
    const json_t *v = config_find(c, field, NULL);
    *on = v ? json_is_true(v) : absent;
    if (!v || json_is_boolean(v)) return OK;
    return config_wrong(c, field, v, "true or false is needed");
}

/* gpt-oss always has biases in its experts, Llama may have them in its MLPs; attention_bias is
 * about attention alone. */
static status read_mlp_bias(const config *c)
{
    bool oss = config_in(c, IN(GPT_OSS)), in_mlps = true, in_attention;
    if (!oss && !config_in(c, IN(LLAMA))) return OK;
    if (!oss) TRY(read_switch(c, "mlp_bias", false, &in_mlps));
    TRY(read_switch(c, "attention_bias", oss, &in_attention));
    if (!in_mlps) return OK;
    if (!oss) TRY(config_set(c, "mlp_bias", K_LINEAR_BIAS, value_of_bool(true)));
    if (in_attention) return OK;
    return config_set(c, "attention_bias", K_MLP_BIAS_ALONE, value_of_bool(true));
}

static void write_mlp_bias(const draft *d)
{
    if (draft_in(d, IN(LLAMA))) draft_put(d, "mlp_bias", json_boolean(d->of.m->linear_bias));
    if (draft_in(d, IN(GPT_OSS)))
        draft_put(d, "attention_bias", json_boolean(d->of.m->attention->bias));
}

/* In transformers the norms of MLA's latents have their class's epsilon, whatever rms_norm_eps
 * is. */
static status read_latent_epsilon(const config *c)
{
    const double theirs = 1e-6;
    const json_t *v = config_find(c, "rms_norm_eps", NULL);
    if (!config_in(c, IN(LATENT)) || json_number_value(v) == theirs) return OK;
    return config_set(c, "model_type", K_LATENT_EPS, value_of_float(theirs));
}

/* Sizes that transformers derives, but takes from the file where it has them. */
static void write_latent_heads(const draft *d)
{
    const model *m = d->of.m;
    if (!draft_in(d, IN(LATENT))) return;
    draft_correct(d, "qk_head_dim", json_integer(m->attention->qk_dim + m->attention->qk_rope_dim));
    draft_correct(d, "head_dim", json_integer(m->attention->qk_rope_dim));
}

/* gpt-oss files carry a coefficient, but Megatron-Bridge trains the family without that loss. */
static status note_unused(const config *c)
{
    const json_t *v = config_find(c, "router_aux_loss_coef", NULL);
    if (config_in(c, IN(GPT_OSS)) && json_is_number(v) && json_number_value(v) != 0)
        recipe_note(
            c->r,
            "%s: router_aux_loss_coef %s is not used: transformers adds no such loss unless "
            "asked; %s and %s turn one on",
            c->name, config_text(c, v), knobs[K_BALANCING].key, knobs[K_AUX_COEFF].key);
    return OK;
}

/* ---- the whole */

const config_part config_parts[] = {
    {config_fields, draft_fields},
    {read_normalisation, write_normalisation},
    {read_interleaving, write_interleaving},
    {read_groups, write_groups},
    {read_shared_experts, write_shared_experts},
    {read_sequence_aux, write_sequence_aux},
    {read_minimax, write_minimax},
    {read_activation, write_activation},
    {read_mlp_bias, write_mlp_bias},
    {read_latent_epsilon, write_latent_heads},
    {config_check, NULL},
    {config_rope, draft_rope},
    {config_layers, draft_layers},
    {config_mtp, draft_mtp},
    {config_eos, draft_eos},
    {note_unused, draft_fixed},
};
const int n_config_parts = sizeof config_parts / sizeof config_parts[0];

static status read_config(config *c)
{
    if (!json_is_object(c->root))
        return error_set(c->err, ERR_INPUT,
                         "%s: is not a JSON object; a model's config.json is one", c->name);
    status s = config_family(c);
    for (int i = 0; i < n_config_parts && !s; i++)
        if (config_parts[i].read) s = config_parts[i].read(c);
    const char *why = arena_text(c->r->a, "%s: model_type", c->name);
    return s ? s : family_fill(c->r, c->family, why, c->err);
}

status config_fill_json(recipe *r, const char *name, const char *folder, const json_t *root,
                        error *err)
{
    recipe trial = *r;
    config c = {.r = &trial, .name = name, .folder = folder, .root = root, .err = err};
    TRY(read_config(&c));
    *r = trial;
    return OK;
}

status model_parse_config(recipe *r, const char *name, const char *data, size_t n, error *err)
{
    json_t *root;
    status s = json_parse(name, data, n, &root, err);
    if (s) return s;
    s = config_fill_json(r, name, NULL, root, err);
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
    s = config_fill_json(r, path, folder, root, err);
    json_decref(root);
    return s;
}
