/* hf_rope.c - the rotary embedding of a config.json, in its old and its new spelling.
 *
 *     old   rope_theta: 1e4, rope_scaling: {type: yarn, factor: 40, ...}, partial_rotary_factor:
 *     0.25 new   rope_parameters: {rope_theta: 1e4, rope_type: yarn, factor: 40,
 *     partial_rotary_factor: 0.25}
 *
 * A key may stand in several places (save_pretrained writes both); then all must say the same. */
#include <math.h>

#include "model/hf_config.h"

typedef enum rope_kind { DEFAULT, YARN, LLAMA3, N_ROPE_KINDS } rope_kind;

static const char *const kind_names[N_ROPE_KINDS] = {"default", "yarn", "llama3"};

enum { TOP_LEVEL = 1, YARN_ONLY = 2, LLAMA3_ONLY = 4 };

typedef struct rope_key {
    const char *key;
    knob_id knob;
    unsigned how;
    unsigned known_in, needed_in; /* families */
} rope_key;

static const rope_key keys[] = {
    {"rope_theta", K_ROPE_BASE, TOP_LEVEL, IN_ALL, IN_ALL},
    {"partial_rotary_factor", K_ROPE_PERCENT, TOP_LEVEL, IN_GQA, IN_QWEN3_NEXT | IN_GLM4_MOE},
    {"factor", K_ROPE_FACTOR, YARN_ONLY, IN_ALL, IN_ALL},
    {"original_max_position_embeddings", K_ROPE_ORIGINAL, YARN_ONLY, IN_ALL, IN_ALL},
    {"beta_fast", K_ROPE_BETA_FAST, YARN_ONLY, IN_ALL, 0},
    {"beta_slow", K_ROPE_BETA_SLOW, YARN_ONLY, IN_ALL, 0},
    {"mscale", K_ROPE_MSCALE, YARN_ONLY, IN_ALL, 0},
    {"mscale_all_dim", K_ROPE_MSCALE_ALL, YARN_ONLY, IN_ALL, 0},
    {"truncate", K_ROPE_TRUNCATE, YARN_ONLY, IN_ALL, 0},
    {"factor", K_LLAMA3_FACTOR, LLAMA3_ONLY, IN_GQA, IN_GQA},
};

/* Llama 3.1 blends between wavelengths of these numbers of turns; Megatron has them fixed. */
static const struct {
    const char *key;
    double value;
} llama3_fixed[] = {
    {"low_freq_factor", 1},
    {"high_freq_factor", 4},
    {"original_max_position_embeddings", 8192},
};

static const json_t *in_section(const config *c, const char *section, const char *key)
{
    const json_t *v = json_object_get(json_object_get(c->root, section), key);
    return v && !json_is_null(v) ? v : NULL;
}

/* The value of a key wherever it stands; *field names the place. */
static status find_key(const config *c, const char *key, bool top_level, const char **field,
                       const json_t **out)
{
    const struct {
        const char *field;
        const json_t *v;
    } places[] = {
        {arena_text(c->r->a, "rope_parameters.%s", key), in_section(c, "rope_parameters", key)},
        {arena_text(c->r->a, "rope_scaling.%s", key), in_section(c, "rope_scaling", key)},
        {key, top_level ? config_find(c, key, NULL) : NULL},
    };
    *out = NULL;
    for (int i = 0; i < 3; i++) {
        const json_t *v = places[i].v;
        if (!v) continue;
        bool same = !*out || json_equal(*out, v) ||
                    (json_is_number(*out) && json_is_number(v) &&
                     json_number_value(*out) == json_number_value(v));
        if (!same)
            return config_wrong(c, places[i].field, v, "%s is %s: make them equal or remove one",
                                *field, config_text(c, *out));
        if (!*out) *field = places[i].field;
        if (!*out) *out = v;
    }
    return OK;
}

static status check_section(const config *c, const char *section)
{
    const json_t *v = config_find(c, section, NULL);
    if (!v || json_is_object(v)) return OK;
    return config_wrong(c, section, v, "a map such as {\"rope_type\": \"default\"} is needed");
}

/* Old files say "type", newer ones "rope_type"; both stand in some. */
static status find_type(const config *c, rope_kind *kind)
{
    const char *field = "rope_parameters.rope_type", *old_field = "rope_scaling.type";
    const json_t *v, *old;
    status s = find_key(c, "rope_type", false, &field, &v);
    if (!s) s = find_key(c, "type", false, &old_field, &old);
    if (s) return s;
    if (v && old && !json_equal(v, old))
        return config_wrong(c, old_field, old, "%s is %s: make them equal or remove one", field,
                            config_text(c, v));
    if (!v) {
        v = old;
        field = old_field;
    }
    bool scaled = config_find(c, "rope_scaling", NULL) != NULL;
    if (!v && scaled)
        return config_missing(c, "rope_scaling.type", "default, yarn or llama3 is needed");
    const char *type = v ? json_string_value(v) : kind_names[DEFAULT];
    for (int i = 0; type && i < N_ROPE_KINDS; i++)
        if (text_equal(type, kind_names[i]) && (i != LLAMA3 || config_in(c, IN_GQA))) {
            *kind = (rope_kind)i;
            return OK;
        }
    return config_wrong(c, field, v, "known are \"default\", \"yarn\" and, for Llama, \"llama3\"");
}

static status read_key(const config *c, const rope_key *k, rope_kind kind)
{
    bool top_level = (k->how & TOP_LEVEL) != 0;
    if (!config_in(c, k->known_in)) return OK;
    const char *field = k->key;
    const json_t *v;
    status s = find_key(c, k->key, top_level, &field, &v);
    if (s) return s;
    if ((k->how & LLAMA3_ONLY) && kind != LLAMA3) return OK;
    if ((k->how & YARN_ONLY) && kind != YARN) {
        if (!v || k->knob != K_ROPE_FACTOR || kind == LLAMA3)
            return OK; /* the rest means nothing without a factor */
        return config_wrong(c, field, v,
                            "rope_type is \"default\" and scales nothing: make it \"yarn\" or "
                            "remove the factor");
    }
    if (v) return config_knob(c, field, v, k->knob);
    if (!config_in(c, k->needed_in)) return OK;
    return config_missing(c, k->key,
                          top_level
                              ? "it belongs at the top level or into rope_parameters"
                              : "its rope_type needs it in rope_parameters (or rope_scaling)");
}

static status read_llama3(const config *c)
{
    for (size_t i = 0; i < sizeof llama3_fixed / sizeof llama3_fixed[0]; i++) {
        const char *field = llama3_fixed[i].key;
        const json_t *v;
        status s = find_key(c, llama3_fixed[i].key, false, &field, &v);
        if (s) return s;
        if (!v) return config_missing(c, field, "rope_type llama3 needs it in rope_scaling");
        if (!json_is_number(v) || json_number_value(v) != llama3_fixed[i].value)
            return config_wrong(c, field, v, "%g is needed: the scaling of Llama 3.1 is built in",
                                llama3_fixed[i].value);
    }
    return config_set(c, "rope_type", K_LLAMA3_ROPE, value_of_bool(true));
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* transformers takes the ratio of two scales where both are given, else the plain one; Megatron
 * always takes the ratio, with 0 for an absent mscale_all_dim. They agree unless only one of them
 * is given. */
static status check_attention_scale(const config *c)
{
    const char *field = "mscale", *all_field = "mscale_all_dim", *given_field = "attention_factor";
    const char *factor_field = "factor";
    const json_t *one, *all, *given, *factor;
    status s = find_key(c, "mscale", false, &field, &one);
    if (!s) s = find_key(c, "mscale_all_dim", false, &all_field, &all);
    if (!s) s = find_key(c, "attention_factor", false, &given_field, &given);
    if (!s) s = find_key(c, "factor", false, &factor_field, &factor);
    if (s) return s;
    if (!one != !all)
        return config_wrong(c, one ? field : all_field, one ? one : all,
                            "%s is missing: give both or neither",
                            one ? "mscale_all_dim" : "mscale");
    if (!given) return OK;
    double f = json_number_value(factor);
    double ours =
        one ? yarn_scale(f, json_number_value(one)) / yarn_scale(f, json_number_value(all))
            : yarn_scale(f, 1.0);
    if (json_is_number(given) && fabs(json_number_value(given) - ours) <= 1e-6 * ours) return OK;
    return config_wrong(c, given_field, given, "factor and mscale give %.9g: remove it", ours);
}

static status check_rotated(const config *c)
{
    double d = (double)config_int(c, "head_dim"), percent = 1.0;
    const char *field = "partial_rotary_factor";
    const json_t *v;
    if (config_in(c, IN_LATENT)) return OK;
    status s = find_key(c, "partial_rotary_factor", true, &field, &v);
    if (s) return s;
    if (v) percent = json_number_value(v);
    int64_t heads = config_int(c, "num_attention_heads");
    if (d == 0) d = (double)(config_int(c, "hidden_size") / heads);
    int64_t rotated = (int64_t)(d * percent);
    if (rotated >= 2 && rotated % 2 == 0) return OK;
    return error_set(c->err, ERR_INPUT,
                     "%s: head_dim x %s is %g; pairs are rotated: an even number from 2 is needed",
                     c->name, field, d * percent);
}

status config_rope(const config *c)
{
    rope_kind kind = DEFAULT;
    status s = check_section(c, "rope_parameters");
    if (!s) s = check_section(c, "rope_scaling");
    if (!s) s = find_type(c, &kind);
    if (s) return s;
    for (size_t i = 0; !s && i < sizeof keys / sizeof keys[0]; i++) s = read_key(c, &keys[i], kind);
    if (!s) s = check_rotated(c);
    if (!s && kind == LLAMA3) s = read_llama3(c);
    if (s || kind != YARN) return s;
    s = check_attention_scale(c);
    if (!s) s = config_set(c, "rope_type", K_ROPE_TYPE, value_of_text("yarn"));
    bool latent = config_in(c, IN_LATENT); /* there Megatron's position type stays "rope" */
    return s || latent ? s : config_set(c, "rope_type", K_POSITION, value_of_text("yarn"));
}
