/* hf_layers.c - which layers of a config.json are dense, windowed or linear, read and written.
 *
 * transformers lists the kind of every layer; Megatron has "every n-th layer" or a list. The short
 * form is taken where it says the same, because it also holds for another number of layers: a user
 * may shrink a model. */
#include <inttypes.h>
#include <string.h>

#include "config/models/hf_config.h"
#include "model/model.h"

typedef enum attention_kind { FULL, SLIDING, LINEAR, N_KINDS } attention_kind;

static const char *const kind_names[N_KINDS] = {"full_attention", "sliding_attention",
                                                "linear_attention"};

/* The kind besides full attention that layers of a family may have. */
static attention_kind other_kind(const config *c)
{
    return config_in(c, IN(QWEN3_NEXT)) ? LINEAR : config_in(c, IN(ALL_FULL)) ? FULL : SLIDING;
}

/* ---- layers without experts */

static status read_dense_first(const config *c)
{
    static const char name[] = "first_k_dense_replace";
    const json_t *v = config_find(c, name, NULL);
    int64_t n = config_int(c, "num_hidden_layers");
    if (!v) return config_missing(c, name, "the number of leading dense layers is needed");
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > n)
        return config_wrong(
            c, name, v, "a whole number from 0 to num_hidden_layers (%" PRId64 ") is needed", n);
    dense_first_fill(c->r, json_integer_value(v), arena_text(c->r->a, "%s: %s", c->name, name));
    return OK;
}

static status read_dense_list(const config *c, unsigned char *moe, int64_t n)
{
    const json_t *v = config_find(c, "mlp_only_layers", NULL);
    int64_t n_layers = config_int(c, "num_hidden_layers");
    if (v && !json_is_array(v))
        return config_wrong(c, "mlp_only_layers", v, "a list of layer numbers is needed");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        int64_t layer = json_is_integer(item) ? json_integer_value(item) : -1;
        if (layer < 0 || layer >= n_layers)
            return config_wrong(c, "mlp_only_layers", v,
                                "numbers from 0 to %" PRId64 " (num_hidden_layers) are needed",
                                n_layers - 1);
        if (layer < n) moe[layer] = 0;
    }
    return OK;
}

static status read_sparse_step(const config *c)
{
    const json_t *v = config_find(c, "decoder_sparse_step", NULL);
    if (v && (!json_is_integer(v) || json_integer_value(v) < 1))
        return config_wrong(c, "decoder_sparse_step", v, "a whole number from 1 is needed");
    int64_t step = v ? json_integer_value(v) : 1, n = layers_in_recipe(c->r);
    unsigned char moe[MODEL_LAYERS_MAX];
    for (int64_t i = 0; i < n; i++) moe[i] = (i + 1) % step == 0;
    TRY(read_dense_list(c, moe, n));
    bool dense = false;
    for (int64_t i = 0; i < n; i++) dense = dense || !moe[i];
    if (dense)
        pattern_fill(c->r, K_MOE_FREQ, moe, n,
                     arena_text(c->r->a, "%s: decoder_sparse_step, mlp_only_layers", c->name));
    return OK;
}

/* ---- kinds of attention */

/* layer_types as flags: 1 where the layer is of the family's other kind. *n is 0 when it is
 * absent. */
static status read_layer_types(const config *c, unsigned char *flags, int64_t *n)
{
    const json_t *v = config_find(c, "layer_types", NULL);
    int64_t n_layers = config_int(c, "num_hidden_layers");
    *n = 0;
    if (!v) return OK;
    if (!json_is_array(v))
        return config_wrong(c, "layer_types", v, "a list of words is needed, one a layer");
    if ((int64_t)json_array_size(v) != n_layers)
        return config_wrong(c, "layer_types", v,
                            "it has %zu entries, num_hidden_layers is %" PRId64, json_array_size(v),
                            n_layers);
    for (int64_t i = 0; i < n_layers; i++) {
        const char *word = json_string_value(json_array_get(v, (size_t)i));
        attention_kind kind = other_kind(c);
        flags[i] = word && strcmp(word, kind_names[kind]) == 0 && kind != FULL;
        if (!flags[i] && !(word && strcmp(word, kind_names[FULL]) == 0))
            return config_wrong(c, "layer_types", v, "layer %" PRId64 " is neither %s nor %s", i,
                                kind_names[FULL], kind_names[kind]);
    }
    *n = n_layers;
    return OK;
}

/* n such that exactly every n-th flag is 0; 0: there is none. */
static int64_t every_nth(const unsigned char *flags, int64_t n)
{
    for (int64_t step = 1; step <= n; step++) {
        bool fits = true;
        for (int64_t i = 0; fits && i < n; i++) fits = flags[i] == ((i + 1) % step != 0);
        if (fits) return step;
    }
    return 0;
}

static status fill_kinds(const config *c, knob_id k, const unsigned char *flags, int64_t n)
{
    int64_t step = every_nth(flags, n), n_wanted = layers_in_recipe(c->r);
    if (step) return config_set(c, "layer_types", k, value_of_int(step));
    if (n_wanted > n && c->r->knob[k].from == FROM_NOTHING)
        return config_wrong(c, "layer_types", json_object_get(c->root, "layer_types"),
                            "it has no regular step for the %" PRId64 " layers of %s: set %s",
                            n_wanted, knobs[K_LAYERS].key, knobs[k].key);
    pattern_fill(c->r, k, flags, n_wanted < n ? n_wanted : n,
                 arena_text(c->r->a, "%s: layer_types", c->name));
    return OK;
}

static status read_linear(const config *c)
{
    static const char name[] = "full_attention_interval";
    unsigned char flags[MODEL_LAYERS_MAX];
    int64_t n;
    TRY(read_layer_types(c, flags, &n));
    const json_t *v = config_find(c, name, NULL);
    if (v && (!json_is_integer(v) || json_integer_value(v) < 1))
        return config_wrong(c, name, v, "a whole number from 1 is needed");
    if (!v && !n)
        return config_missing(c, "layer_types", "it (or full_attention_interval) is needed");
    for (int64_t i = 0; v && i < n; i++)
        if (flags[i] != ((i + 1) % json_integer_value(v) != 0))
            return config_wrong(c, name, v, "layer_types disagrees for layer %" PRId64, i);
    return v ? config_set(c, name, K_LINEAR_FREQ, value_of_int(json_integer_value(v)))
             : fill_kinds(c, K_LINEAR_FREQ, flags, n);
}

static status fill_window(const config *c, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > 1 << 30)
        return config_wrong(c, "sliding_window", v, "a whole number of tokens from 1 is needed");
    value *sides = ARENA_ARRAY(c->r->a, value, 2);
    sides[0] = value_of_int(json_integer_value(v) - 1); /* the token itself is one of them */
    sides[1] = value_of_int(0);
    return config_set(c, "sliding_window", K_WINDOW, (value){.kind = V_LIST, .list = {sides, 2}});
}

static status window_in_use(const config *c, bool *used)
{
    const json_t *v = config_find(c, "use_sliding_window", NULL);
    if (v && !json_is_boolean(v))
        return config_wrong(c, "use_sliding_window", v, "true or false is needed");
    *used =
        v ? json_is_true(v) : !config_in(c, IN(WINDOW_SWITCH)); /* others have no size if unused */
    return OK;
}

/* Files from before layer_types: max_window_layers layers at the bottom have no window. */
static status read_upper_window(const config *c, unsigned char *flags, int64_t *n)
{
    static const char name[] = "max_window_layers";
    const json_t *v = config_find(c, name, NULL);
    int64_t n_layers = config_int(c, "num_hidden_layers");
    if (!v)
        return config_missing(c, "layer_types",
                              "use_sliding_window is true: which layers have the window is needed "
                              "(or max_window_layers)");
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return config_wrong(c, name, v, "a whole number of layers from 0 is needed");
    for (int64_t i = 0; i < n_layers; i++) flags[i] = i >= json_integer_value(v);
    *n = n_layers;
    return OK;
}

static status read_window(const config *c)
{
    unsigned char flags[MODEL_LAYERS_MAX];
    int64_t n;
    bool used = false, any = false, all = true; /* of the layers */
    const json_t *v = config_find(c, "sliding_window", NULL);
    TRY(read_layer_types(c, flags, &n));
    TRY(window_in_use(c, &used));
    if (!n && config_in(c, IN(GPT_OSS)))
        return config_missing(c, "layer_types", "which layers have the window is needed");
    if (!n && used && v && config_in(c, IN(QWEN2_MOE))) /* versions of transformers differ */
        return config_missing(c, "layer_types",
                              "use_sliding_window is true: which layers have the window is needed");
    if (!n && used && v && config_in(c, IN(UPPER_WINDOW))) TRY(read_upper_window(c, flags, &n));
    for (int64_t i = 0; i < n; i++) {
        any = any || flags[i];
        all = all && flags[i];
    }
    if (any && !v)
        return config_missing(c, "sliding_window",
                              "layer_types has sliding_attention: its size is needed");
    used = used && v;
    if (n && !config_in(c, IN(CHOSEN_WINDOW)) && (any != used || any != all))
        return config_wrong(c, "layer_types", json_object_get(c->root, "layer_types"),
                            "transformers asks sliding_window alone in this family, and gives the "
                            "window to all layers or to none");
    if (n ? !any : !used) return OK;
    TRY(fill_window(c, v));
    return n ? fill_kinds(c, K_WINDOW_SKIP, flags, n) : OK;
}

static status read_full(const config *c)
{
    unsigned char flags[MODEL_LAYERS_MAX];
    int64_t n;
    return read_layer_types(c, flags, &n);
}

status config_layers(const config *c)
{
    status s = OK;
    if (config_in(c, IN(SPARSE_STEP))) s = read_sparse_step(c);
    if (config_in(c, IN(SHARED_EXPERTS))) s = read_dense_first(c);
    if (s) return s;
    switch (other_kind(c)) {
    case LINEAR:
        return read_linear(c);
    case SLIDING:
        return read_window(c);
    default:
        return read_full(c);
    }
}

/* ---- writing */

/* Has a layer what its family's files mark? Linear attention, a window. */
static bool layer_is(const model *m, int64_t i, attention_kind kind)
{
    if (kind == LINEAR) return model_layer_has(m, i, BLOCK_GDN);
    return kind == SLIDING && model_layer_window(m, i) > 0;
}

static void write_sparse_step(const draft *d)
{
    json_t *dense = json_array();
    for (int64_t i = 0; i < d->of.m->n_layers; i++)
        if (!model_layer_has(d->of.m, i, BLOCK_MOE)) json_array_append_new(dense, json_integer(i));
    draft_put(d, "decoder_sparse_step", json_integer(1));
    draft_put(d, "mlp_only_layers", dense);
}

static json_t *kinds_of(const model *m, attention_kind kind)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < m->n_layers; i++)
        json_array_append_new(list, json_string(kind_names[layer_is(m, i, kind) ? kind : FULL]));
    return list;
}

static void write_linear(const draft *d)
{
    unsigned char flags[MODEL_LAYERS_MAX];
    for (int64_t i = 0; i < d->of.m->n_layers; i++) flags[i] = layer_is(d->of.m, i, LINEAR);
    int64_t step = every_nth(flags, d->of.m->n_layers);
    draft_put(d, "layer_types", kinds_of(d->of.m, LINEAR));
    json_object_del(d->root, "full_attention_interval");
    if (step) draft_put(d, "full_attention_interval", json_integer(step));
}

/* A size that no layer uses is null; but transformers' gpt-oss always wants one. */
static void write_window(const draft *d)
{
    int64_t first = 0;
    while (first < d->of.m->n_layers && !layer_is(d->of.m, first, SLIDING)) first++;
    bool used = first < d->of.m->n_layers, needed = draft_in(d, IN(GPT_OSS));
    if (used || !needed)
        draft_put(d, "sliding_window", used ? json_integer(model_window(d->of.m)) : json_null());
    else if (!json_is_integer(json_object_get(d->root, "sliding_window")))
        draft_put(d, "sliding_window", json_integer(128));
    if (draft_in(d, IN(WINDOW_SWITCH))) draft_put(d, "use_sliding_window", json_boolean(used));
    if (draft_in(d, IN(UPPER_WINDOW)))
        draft_put(d, "max_window_layers", json_integer(first));
    else
        draft_correct(d, "max_window_layers", json_integer(first));
    json_t *kinds = kinds_of(d->of.m, SLIDING);
    if (draft_in(d, IN(CHOSEN_WINDOW)))
        draft_put(d, "layer_types", kinds);
    else
        draft_correct(d, "layer_types", kinds);
}

/* Layers in front of the first with experts. */
static int64_t dense_first(const model *m)
{
    int64_t n = 0;
    while (n < m->n_layers && !model_layer_has(m, n, BLOCK_MOE)) n++;
    return n;
}

void draft_layers(const draft *d)
{
    config as = {.family = d->family};
    if (draft_in(d, IN(SPARSE_STEP))) write_sparse_step(d);
    if (draft_in(d, IN(SHARED_EXPERTS)))
        draft_put(d, "first_k_dense_replace", json_integer(dense_first(d->of.m)));
    if (other_kind(&as) == LINEAR) write_linear(d);
    if (other_kind(&as) == SLIDING) write_window(d);
    if (other_kind(&as) == FULL) draft_correct(d, "layer_types", kinds_of(d->of.m, FULL));
}
