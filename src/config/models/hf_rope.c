/* hf_rope.c - the rotary embedding of a config.json, in its old and its new spelling, read and
 * written.
 *
 *     old   rope_theta: 1e4, rope_scaling: {type: yarn, factor: 40, ...}, partial_rotary_factor:
 *     0.25 new   rope_parameters: {rope_theta: 1e4, rope_type: yarn, factor: 40,
 *     partial_rotary_factor: 0.25}
 *
 * A key may stand in several places (save_pretrained writes both); then all must say the same. A
 * file is written in the spelling that it has; a new one in the old spelling, which all versions
 * read. */
#include <math.h>

#include "config/models/hf_config.h"

typedef enum rope_kind { DEFAULT, YARN, LLAMA3, LINEAR, DYNAMIC, N_ROPE_KINDS } rope_kind;

static const char *const kind_names[N_ROPE_KINDS] = {"default", "yarn", "llama3", "linear",
                                                     "dynamic"};

enum { TOP_LEVEL = 1, YARN_ONLY = 2, LLAMA3_ONLY = 4, LINEAR_ONLY = 8, DYNAMIC_ONLY = 16 };

typedef struct rope_key {
    const char *key;
    knob_id knob;
    unsigned how;
    uint64_t known_in, needed_in; /* families or traits */
} rope_key;

static const rope_key keys[] = {
    {"rope_theta", K_ROPE_BASE, TOP_LEVEL, ANY_FAMILY, ANY_FAMILY},
    {"partial_rotary_factor", K_ROPE_PERCENT, TOP_LEVEL, IN(ROTARY_PART), IN(ROTARY_PART_NEEDED)},
    {"factor", K_ROPE_FACTOR, YARN_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"original_max_position_embeddings", K_ROPE_ORIGINAL, YARN_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"beta_fast", K_ROPE_BETA_FAST, YARN_ONLY, ANY_FAMILY, 0},
    {"beta_slow", K_ROPE_BETA_SLOW, YARN_ONLY, ANY_FAMILY, 0},
    {"mscale_all_dim", K_ROPE_MSCALE_ALL, YARN_ONLY, ANY_FAMILY, 0},
    {"truncate", K_ROPE_TRUNCATE, YARN_ONLY, ANY_FAMILY, 0},
    {"factor", K_LLAMA3_FACTOR, LLAMA3_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"low_freq_factor", K_LLAMA3_LOW, LLAMA3_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"high_freq_factor", K_LLAMA3_HIGH, LLAMA3_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"original_max_position_embeddings", K_ROPE_TRAINED, LLAMA3_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"factor", K_ROPE_LINEAR, LINEAR_ONLY, ANY_FAMILY, ANY_FAMILY},
    {"factor", K_ROPE_DYNAMIC, DYNAMIC_ONLY, ANY_FAMILY, ANY_FAMILY},
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
    TRY(find_key(c, "rope_type", false, &field, &v));
    TRY(find_key(c, "type", false, &old_field, &old));
    if (v && old && !json_equal(v, old))
        return config_wrong(c, old_field, old, "%s is %s: make them equal or remove one", field,
                            config_text(c, v));
    if (!v) {
        v = old;
        field = old_field;
    }
    bool scaled = config_find(c, "rope_scaling", NULL) != NULL;
    if (!v && (scaled || config_in(c, IN(GPT_OSS)))) /* there transformers would take YaRN */
        return config_missing(c, "rope_scaling.type",
                              "default, linear, dynamic, yarn or llama3 is needed");
    const char *type = v ? json_string_value(v) : kind_names[DEFAULT];
    for (int i = 0; type && i < N_ROPE_KINDS; i++)
        if (text_equal(type, kind_names[i])) {
            *kind = (rope_kind)i;
            return OK;
        }
    return config_wrong(c, field, v,
                        "known are \"default\", \"linear\", \"dynamic\", \"yarn\" and \"llama3\"");
}

static status read_key(const config *c, const rope_key *k, rope_kind kind)
{
    bool top_level = (k->how & TOP_LEVEL) != 0;
    if (!config_in(c, k->known_in)) return OK;
    const char *field = k->key;
    const json_t *v;
    TRY(find_key(c, k->key, top_level, &field, &v));
    if ((k->how & LLAMA3_ONLY) && kind != LLAMA3) return OK;
    if ((k->how & LINEAR_ONLY) && kind != LINEAR) return OK;
    if ((k->how & DYNAMIC_ONLY) && kind != DYNAMIC) return OK;
    if ((k->how & YARN_ONLY) && kind != YARN) {
        if (!v || k->knob != K_ROPE_FACTOR || kind != DEFAULT)
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

static status number_of(const config *c, const char *key, double *out)
{
    const char *field = key;
    const json_t *v;
    TRY(find_key(c, key, false, &field, &v));
    if (v && !json_is_number(v)) return config_wrong(c, field, v, "a number is needed");
    *out = v ? json_number_value(v) : 0;
    return OK;
}

static status read_llama3(const config *c)
{
    double low, high;
    TRY(number_of(c, "low_freq_factor", &low));
    TRY(number_of(c, "high_freq_factor", &high));
    if (high <= low)
        return error_set(c->err, ERR_INPUT,
                         "%s: high_freq_factor is %g and low_freq_factor %g; the first must be "
                         "larger",
                         c->name, high, low);
    return config_set(c, "rope_type", K_LLAMA3_ROPE, value_of_bool(true));
}

/* ---- YaRN: the scale on the table */

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* transformers: attention_factor where it is given, else the ratio of the scales of mscale and
 * mscale_all_dim where neither is 0 or absent, else that of 1. Megatron: always the ratio. The
 * mscale for which both are the same is set. */
static status read_table_scale(const config *c)
{
    double factor, one, all, given;
    TRY(number_of(c, "factor", &factor));
    TRY(number_of(c, "mscale", &one));
    TRY(number_of(c, "mscale_all_dim", &all));
    TRY(number_of(c, "attention_factor", &given));
    if (given == 0 && one != 0 && all != 0)
        return config_set(c, "mscale", K_ROPE_MSCALE, value_of_float(one));
    if (given == 0 && all == 0) return OK; /* that of 1, as the knob's default is */
    if (given == 0) given = yarn_scale(factor, 1);
    if (factor > 1) {
        double mscale = (given * yarn_scale(factor, all) - 1) / (0.1 * log(factor));
        return config_set(c, "attention_factor, mscale, mscale_all_dim", K_ROPE_MSCALE,
                          value_of_float(mscale));
    }
    if (given == 1) return OK;
    return error_set(c->err, ERR_INPUT,
                     "%s: attention_factor is %g; with factor %g it cannot be had: remove it",
                     c->name, given, factor);
}

/* ---- the part of a head that is rotated */

static status check_rotated(const config *c)
{
    double d = (double)config_int(c, "head_dim"), percent = 1.0;
    const char *field = "partial_rotary_factor";
    const json_t *v;
    if (config_in(c, IN(LATENT))) return OK;
    TRY(find_key(c, "partial_rotary_factor", true, &field, &v));
    if (v && config_in(c, IN(ROTARY_PART))) percent = json_number_value(v);
    if (v && !config_in(c, IN(ROTARY_PART)) && !(json_is_number(v) && json_number_value(v) == 1))
        recipe_note(c->r,
                    "%s: %s %s is not used: transformers rotates whole heads in this family; "
                    "%s turns it on",
                    c->name, field, config_text(c, v), knobs[K_ROPE_PERCENT].key);
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
    TRY(check_section(c, "rope_parameters"));
    TRY(check_section(c, "rope_scaling"));
    TRY(find_type(c, &kind));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) TRY(read_key(c, &keys[i], kind));
    TRY(check_rotated(c));
    if (kind == LLAMA3) TRY(read_llama3(c));
    if (kind == DYNAMIC) /* trained for as many positions as the file has, not the recipe */
        TRY(config_set(c, "max_position_embeddings", K_ROPE_TRAINED,
                       value_of_int(config_int(c, "max_position_embeddings"))));
    if (kind != YARN) return OK;
    TRY(read_table_scale(c));
    TRY(config_set(c, "rope_type", K_ROPE_TYPE, value_of_text("yarn")));
    if (config_in(c, IN(LATENT))) return OK; /* there Megatron's position type stays "rope" */
    return config_set(c, "rope_type", K_POSITION, value_of_text("yarn"));
}

/* ---- writing */

/* Two kinds at once are in no file: one is written, and reading it again tells. */
static rope_kind kind_of(const recipe *r)
{
    if (recipe_is(r, K_ROPE_TYPE, "yarn") || recipe_is(r, K_POSITION, "yarn")) return YARN;
    if (recipe_on(r, K_LLAMA3_ROPE)) return LLAMA3;
    if (recipe_given(r, K_ROPE_LINEAR)) return LINEAR;
    return recipe_given(r, K_ROPE_DYNAMIC) ? DYNAMIC : DEFAULT;
}

static bool is_of_kind(const rope_key *k, rope_kind kind)
{
    static const unsigned only[N_ROPE_KINDS] = {0, YARN_ONLY, LLAMA3_ONLY, LINEAR_ONLY,
                                                DYNAMIC_ONLY};
    return (k->how & TOP_LEVEL) || (k->how & only[kind]);
}

static void write_keys(const draft *d, rope_kind kind, bool top_level, json_t *into)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const rope_key *k = &keys[i];
        value v = d->of.r->knob[k->knob].v;
        bool here = draft_in(d, k->known_in) && is_of_kind(k, kind);
        bool idle = k->knob == K_ROPE_MSCALE_ALL && recipe_real(d->of.r, k->knob) == 0;
        if (!here || idle || ((k->how & TOP_LEVEL) != 0) != top_level) continue;
        json_object_set_new(into, k->key,
                            v.kind == V_BOOL ? json_boolean(v.flag) : draft_number(k->knob, v));
    }
}

/* The other way round of read_table_scale. */
static void write_table_scale(const draft *d, json_t *into)
{
    const recipe *r = d->of.r;
    double factor = recipe_real(r, K_ROPE_FACTOR), one = recipe_real(r, K_ROPE_MSCALE);
    double all = recipe_real(r, K_ROPE_MSCALE_ALL);
    if (one != 0 && all != 0) json_object_set_new(into, "mscale", json_real(one));
    if ((one != 0 && all != 0) || (one == 1 && all == 0)) return;
    double scale = yarn_scale(factor, one) / yarn_scale(factor, all);
    json_object_set_new(into, "attention_factor", json_real(scale));
}

/* What older files have at the top is corrected there, too. */
static void write_top(const draft *d, json_t *section)
{
    const char *key;
    json_t *v, *top = json_object();
    write_keys(d, DEFAULT, true, top);
    json_object_foreach(top, key, v)
    {
        if (section) json_object_set(section, key, v);
        if (!section || draft_has(d, key)) json_object_set(d->root, key, v);
    }
    json_decref(top);
}

/* The oldest versions know "type" alone. */
static json_t *scaling_of(const draft *d, rope_kind kind, const char *place)
{
    const json_t *had = json_object_get(d->root, place);
    bool old = text_equal(place, "rope_scaling") && !json_object_get(had, "rope_type");
    json_t *section = json_object();
    json_object_set_new(section, "rope_type", json_string(kind_names[kind]));
    if (old || json_object_get(had, "type"))
        json_object_set_new(section, "type", json_string(kind_names[kind]));
    write_keys(d, kind, false, section);
    if (kind == YARN) write_table_scale(d, section);
    return section;
}

/* Without scaling the old spelling has null, but gpt-oss would then be scaled. */
void draft_rope(const draft *d)
{
    rope_kind kind = kind_of(d->of.r);
    bool newer = json_is_object(json_object_get(d->root, "rope_parameters"));
    json_t *section = newer ? scaling_of(d, kind, "rope_parameters") : NULL;
    write_top(d, section);
    if (section) json_object_set_new(d->root, "rope_parameters", section);
    if (newer && !draft_has(d, "rope_scaling")) return;
    bool none = kind == DEFAULT && !draft_in(d, IN(GPT_OSS));
    json_t *old = none ? json_null() : scaling_of(d, kind, "rope_scaling");
    json_object_set_new(d->root, "rope_scaling", old);
}
