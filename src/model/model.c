/* model.c - from moefold.model to knobs, and from knobs to a model.
 *
 * I1  Sizes of a model lie in 0..2^40, its layers in 0..MODEL_LAYERS_MAX, whatever the knobs hold.
 * I2  A null knob that has a derivation (key/value heads, head size, widths) counts as derived,
 *     even where the user wrote null: a model has no holes. */
#include "model/model.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/maths.h"
#include "model/family.h"
#include "model/hf_config.h"

#define SIZE_MOST (INT64_C(1) << 40)

/* ---- moefold.model */

/* The nearest preset, by its own name or by what stands behind the slash of a name on the hub. */
static const char *bare_name(arena *a, const char *name)
{
    const char *slash = strrchr(name, '/');
    char *bare = arena_copy(a, slash ? slash + 1 : name, strlen(slash ? slash + 1 : name));
    for (char *p = bare; *p; p++) *p = (char)tolower((unsigned char)*p);
    return bare;
}

static status unknown_model(const recipe *r, const char *name, error *err)
{
    int n;
    const char *const *presets = model_presets(&n);
    const char *near = text_nearest(bare_name(r->a, name), presets, n);
    const char *missing = family_missing_by_name(name);
    if (missing)
        return error_set(err, ERR_INPUT, "%s=%.200s: moefold does not have its %s",
                         knobs[K_MODEL].key, name, missing);
    textbuf list = text_init(r->a);
    for (int i = 0; i < n; i++) text_add(&list, "%s%s", i ? ", " : "", presets[i]);
    return error_set(err, ERR_INPUT,
                     "%s=%.200s: no preset, config.json or folder has this name%s%s%s; presets "
                     "are %s",
                     knobs[K_MODEL].key, name, near ? "; the nearest preset is '" : "",
                     near ? near : "", near ? "'" : "", list.s);
}

static bool is_config_file(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0 && file_exists(path);
}

bool model_is_named(const char *name)
{
    if (model_is_preset(name) || file_is_folder(name) || is_config_file(name)) return true;
    return !file_exists(name) && (model_is_spelled(name) || family_missing_by_name(name));
}

/* The config.json that a path means: the file itself, or the one in that folder. NULL: neither. */
static const char *as_config(arena *a, const char *path)
{
    if (is_config_file(path)) return path;
    if (!file_is_folder(path)) return NULL;
    bool slash = *path && path[strlen(path) - 1] == '/';
    return arena_text(a, "%s%sconfig.json", path, slash ? "" : "/");
}

static const char *find_config(const recipe *r, const char *name)
{
    const char *path = NULL;
    if (name[0] != '/' && *r->folder)
        path = as_config(r->a, arena_text(r->a, "%s%s", r->folder, name));
    return path ? path : as_config(r->a, name);
}

const char *model_config_path(const recipe *r)
{
    const char *name = recipe_word(r, K_MODEL);
    const char *path = name && *name && !model_is_preset(name) ? find_config(r, name) : NULL;
    return path && file_exists(path) ? path : NULL;
}

/* A model cannot be without these: null gives them back to the preset or the config.json. */
static void reopen_sizes(recipe *r)
{
    static const knob_id sizes[] = {K_LAYERS,   K_HIDDEN,   K_HEADS, K_VOCAB,
                                    K_KV_HEADS, K_HEAD_DIM, K_FFN,   K_MOE_FFN};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (r->knob[sizes[i]].v.kind == V_NULL) r->knob[sizes[i]].from = FROM_NOTHING;
}

/* A tokenizer that the recipe names as a folder or a file in it is the one that made the data. */
static void fill_eos(recipe *r)
{
    const char *name = recipe_word(r, K_TOKENIZER_MODEL);
    if (!name || !file_exists(name) || recipe_is(r, K_TOKENIZER, "NullTokenizer")) return;
    bool folder = file_is_folder(name);
    int64_t id =
        config_tokenizer_eos(r, folder ? arena_text(r->a, "%s/", name) : file_folder(r->a, name));
    if (id >= 0)
        recipe_fill(r, K_EOD, value_of_int(id), FROM_MODEL, "%s: eos_token of the tokenizer", name);
}

status model_fill(recipe *r, error *err)
{
    reopen_sizes(r);
    fill_eos(r);
    const char *name = recipe_word(r, K_MODEL);
    if (!name) return OK;
    if (model_is_preset(name)) return preset_fill(r, name, err);
    const char *path = *name ? find_config(r, name) : NULL;
    if (!path && model_is_spelled(name)) return preset_fill(r, name, err);
    if (!path) return unknown_model(r, name, err);
    if (!file_exists(path))
        return error_set(
            err, ERR_INPUT,
            "%s=%.200s: the folder %.400s has no config.json (and no recipe.yaml or "
            "metrics.jsonl, as a run's folder would); give a folder that has one, or a preset",
            knobs[K_MODEL].key, name, file_folder(r->a, path));
    return config_fill(r, path, err);
}

/* ---- what knobs imply */

/* Megatron-LM narrows a gated MLP whose width is not given, to whole multiples of 64. */
static int64_t default_ffn(const recipe *r, const char **why)
{
    int64_t hidden = recipe_int(r, K_HIDDEN);
    bool narrow = recipe_is_lm(r) && recipe_on(r, K_GLU);
    *why = narrow ? "unset: 8/3 x hidden_size in multiples of 64, as in Megatron-LM with a gate"
                  : "unset: 4 x hidden_size";
    int64_t wide = mul_sat(4, hidden);
    return narrow ? wide / 3 * 2 / 64 * 64 : wide;
}

static int64_t default_head_dim(const recipe *r)
{
    int64_t hidden = recipe_int(r, K_HIDDEN), heads = recipe_int(r, K_HEADS);
    return heads > 0 && hidden > 0 ? hidden / heads : 0;
}

void model_derive(recipe *r)
{
    const char *why;
    int64_t ffn = default_ffn(r, &why), head_dim = default_head_dim(r);
    if (ffn > 0) recipe_fill(r, K_FFN, value_of_int(ffn), FROM_DERIVED, "%s", why);
    if (recipe_given(r, K_HEADS))
        recipe_fill(r, K_KV_HEADS, r->knob[K_HEADS].v, FROM_DERIVED,
                    "unset: one for each query head");
    if (head_dim > 0)
        recipe_fill(r, K_HEAD_DIM, value_of_int(head_dim), FROM_DERIVED,
                    "unset: hidden_size / num_attention_heads");
    if (recipe_given(r, K_EXPERTS) && recipe_given(r, K_FFN))
        recipe_fill(r, K_MOE_FFN, r->knob[K_FFN].v, FROM_DERIVED, "unset: ffn_hidden_size");
    if (recipe_is(r, K_TOKENIZER, "NullTokenizer") && recipe_int(r, K_VOCAB) > 0)
        recipe_fill(r, K_EOD, value_of_int(recipe_int(r, K_VOCAB) - 1), FROM_DERIVED,
                    "unset: the last id, as with Megatron's NullTokenizer");
    if (recipe_given(r, K_SEQ))
        recipe_fill(r, K_MAX_POSITIONS, r->knob[K_SEQ].v, FROM_DERIVED, "unset: seq_length");
}

/* ---- the model */

static int64_t size_of(const recipe *r, knob_id k, int64_t otherwise)
{
    int64_t n = recipe_given(r, k) ? recipe_int(r, k) : otherwise;
    return n < 0 ? 0 : n > SIZE_MOST ? SIZE_MOST : n; /* I1 */
}

static status check_there(const recipe *r, error *err)
{
    static const knob_id needed[] = {K_LAYERS, K_HIDDEN, K_HEADS, K_VOCAB};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!recipe_given(r, needed[i]))
            return error_set(
                err, ERR_INPUT,
                "%s is not set; set it, or let %s=<preset, config.json or folder with one> "
                "supply it",
                knobs[needed[i]].key, knobs[K_MODEL].key);
    return OK;
}

static void init_sizes(model *m, const recipe *r)
{
    const char *why;
    m->hidden = size_of(r, K_HIDDEN, 0);
    m->ffn = size_of(r, K_FFN, default_ffn(r, &why)); /* I2 */
    m->heads = size_of(r, K_HEADS, 0);
    m->kv_heads = size_of(r, K_KV_HEADS, m->heads);
    m->head_dim = size_of(r, K_HEAD_DIM, default_head_dim(r));
    m->experts = size_of(r, K_EXPERTS, 0);
    m->topk = size_of(r, K_TOPK, 0);
    m->moe_ffn = size_of(r, K_MOE_FFN, m->ffn);
    m->moe_latent = size_of(r, K_LATENT_MOE, 0);
    m->shared_ffn = m->experts ? size_of(r, K_SHARED_FFN, 0) : 0;
    m->q_lora = size_of(r, K_Q_LORA, 0);
    m->kv_lora = size_of(r, K_KV_LORA, 0);
    m->qk_dim = size_of(r, K_QK_DIM, 0);
    m->qk_rope_dim = size_of(r, K_QK_ROPE_DIM, 0);
    m->v_dim = size_of(r, K_V_DIM, 0);
    m->gdn_conv = size_of(r, K_GDN_CONV, 0);
    m->gdn_k_dim = size_of(r, K_GDN_K_DIM, 0);
    m->gdn_v_dim = size_of(r, K_GDN_V_DIM, 0);
    m->gdn_k_heads = size_of(r, K_GDN_K_HEADS, 0);
    m->gdn_v_heads = size_of(r, K_GDN_V_HEADS, 0);
}

static void init_switches(model *m, const recipe *r)
{
    m->tied = recipe_on(r, K_TIED);
    m->glu = recipe_on(r, K_GLU);
    m->linear_bias = recipe_on(r, K_LINEAR_BIAS);
    m->attention_bias =
        (m->linear_bias && !recipe_on(r, K_MLP_BIAS_ALONE)) || recipe_on(r, K_ATTN_BIAS);
    m->qkv_bias = m->attention_bias || recipe_on(r, K_QKV_BIAS);
    m->qk_norm = recipe_on(r, K_QK_NORM);
    m->qk_norm_whole = m->qk_norm && recipe_on(r, K_QK_NORM_WHOLE);
    m->output_gate = recipe_on(r, K_OUTPUT_GATE);
    m->sinks = recipe_is(r, K_SOFTMAX, "learnable");
    m->shared_gate = m->shared_ffn > 0 && recipe_on(r, K_SHARED_GATE);
    m->expert_bias = recipe_on(r, K_EXPERT_BIAS);
    m->norm_bias = recipe_is(r, K_NORM, "LayerNorm");
    m->zero_centered = recipe_on(r, K_NORM_ZERO_CENTERED);
    m->mla = recipe_on(r, K_MLA);
    m->gdn = recipe_is(r, K_VARIANT, "gdn") || recipe_is(r, K_VARIANT, "gdn2");
}

static void init_vocabulary(model *m, const recipe *r)
{
    int64_t tp = size_of(r, K_TP, 1), divisor = size_of(r, K_VOCAB_DIVISOR, 1);
    int64_t unit = mul_sat(tp > 0 ? tp : 1, divisor > 0 ? divisor : 1);
    m->vocab = size_of(r, K_VOCAB, 0);
    m->padded_vocab = recipe_on(r, K_VOCAB_PAD) ? round_up(m->vocab, unit) : m->vocab;
    if (m->padded_vocab > SIZE_MOST) m->padded_vocab = SIZE_MOST; /* I1 */
    bool learned = recipe_is(r, K_POSITION, "learned_absolute");
    m->positions = learned ? size_of(r, K_MAX_POSITIONS, 0) : 0;
}

/* A number is what the layer sees, itself included; [left, right] leaves the token itself out. */
static int64_t window_of(const recipe *r)
{
    if (!recipe_given(r, K_WINDOW) || !recipe_count(r, K_WINDOW)) return 0;
    value v = recipe_item(r, K_WINDOW, 0);
    int64_t left = v.kind == V_INT ? v.whole : -1;
    if (left < 0) return 0;
    if (r->knob[K_WINDOW].v.kind != V_LIST) left--;
    return left >= SIZE_MOST ? SIZE_MOST : left + 1;
}

static const char *dense_family(const model *m)
{
    return m->qk_norm ? "qwen3" : m->qkv_bias && !m->attention_bias ? "qwen2" : "llama";
}

/* Whose files hold such weights; "gpt": nobody's that are read. */
static const char *family_of(const model *m, const recipe *r)
{
    bool sigmoid = recipe_is(r, K_SCORE, "sigmoid");
    bool plain = m->norm_bias && !m->glu && !m->experts && !m->positions;
    if (plain && !m->mla && !m->gdn && !m->qk_norm) return "starcoder2";
    if (m->norm_bias || m->positions || !m->glu) return "gpt";
    if (m->mla) return sigmoid || !m->experts ? "deepseek_v3" : "deepseek_v2";
    if (m->gdn) return "qwen3_next";
    if (m->sinks) return "gpt_oss";
    if (!m->experts) return dense_family(m);
    if (m->qk_norm_whole) return sigmoid ? "minimax_m2" : "olmoe";
    if (m->shared_gate) return "qwen2_moe";
    if (sigmoid) return "glm4_moe";
    return m->qk_norm ? "qwen3_moe" : "mixtral";
}

/* Three knobs say which layers have a property: "every n-th", or a list of 0 and 1. */
typedef struct pattern {
    knob_id knob;
    layer_kind_bits bit;
    bool (*has)(int64_t layer, int64_t n); /* n >= 1 */
} pattern;

static bool each_nth(int64_t i, int64_t n)
{
    return i % n == 0;
}

static bool all_but_nth(int64_t i, int64_t n)
{
    return (i + 1) % n != 0;
}

static const pattern moe_pattern = {K_MOE_FREQ, LAYER_MOE, each_nth};
static const pattern linear_pattern = {K_LINEAR_FREQ, LAYER_LINEAR, all_but_nth};
static const pattern window_pattern = {K_WINDOW_SKIP, LAYER_WINDOW, all_but_nth};

static status mark_layers(const pattern *p, const model *m, const recipe *r, bool if_null,
                          unsigned char *layer, error *err)
{
    value v = r->knob[p->knob].v;
    bool list = v.kind == V_LIST;
    if (list && v.list.n != m->n_layers)
        return error_set(err, ERR_INPUT,
                         "%s has %d entries, %s is %" PRId64 "; a list needs one entry a layer",
                         knobs[p->knob].key, v.list.n, knobs[K_LAYERS].key, m->n_layers);
    for (int64_t i = 0; i < m->n_layers; i++) {
        bool on = if_null;
        if (list)
            on = v.list.items[i].kind == V_INT && v.list.items[i].whole != 0;
        else if (v.kind == V_INT)
            on = v.whole < 1 || p->has(i, v.whole); /* below 1 is a rule's business */
        if (on) layer[i] |= (unsigned char)p->bit;
    }
    return OK;
}

static status init_layers(model *m, const recipe *r, error *err)
{
    m->n_layers = layers_in_recipe(r);
    m->n_mtp = size_of(r, K_MTP, 0);
    if (m->n_mtp > MODEL_MTP_MAX) m->n_mtp = MODEL_MTP_MAX;
    m->mtp_repeated = recipe_on(r, K_MTP_REPEATED);
    unsigned char *layer = ARENA_ARRAY(r->a, unsigned char, m->n_layers + m->n_mtp);
    status s = OK;
    if (m->experts) s = mark_layers(&moe_pattern, m, r, true, layer, err);
    if (!s && m->gdn) s = mark_layers(&linear_pattern, m, r, false, layer, err);
    if (!s && m->window) s = mark_layers(&window_pattern, m, r, true, layer, err);
    for (int64_t i = 0; i < m->n_mtp; i++)
        layer[m->n_layers + i] = m->n_layers ? layer[m->n_layers - 1] : 0;
    m->layer = layer;
    return s;
}

status model_init(model *m, const recipe *r, error *err)
{
    status s = check_there(r, err);
    if (s) return s;
    model made = {.name = recipe_word(r, K_MODEL)};
    if (!made.name) made.name = "custom";
    init_sizes(&made, r);
    init_switches(&made, r);
    init_vocabulary(&made, r);
    made.window = window_of(r);
    made.family = family_of(&made, r);
    s = init_layers(&made, r, err);
    if (!s) *m = made;
    return s;
}

/* ---- one architecture, however it is spelled */

/* A width that no layer uses does not count: files give it as they like. */
model_shape model_shape_of(const model *m)
{
    bool mla = m->mla, moe = m->experts > 0;
    return (model_shape){
        .family = m->family,
        .size = {m->hidden, m->heads, mla ? 0 : m->kv_heads, mla ? 0 : m->head_dim,
                 mla ? m->q_lora : 0, mla ? m->kv_lora : 0, mla ? m->qk_dim : 0,
                 mla ? m->qk_rope_dim : 0, mla ? m->v_dim : 0, m->gdn ? m->gdn_v_heads : 0,
                 m->experts, moe ? m->topk : 0, moe ? m->moe_ffn : m->ffn, m->shared_ffn},
    };
}

bool model_same_shape(const model_shape *a, const model_shape *b)
{
    return text_equal(a->family, b->family) && memcmp(a->size, b->size, sizeof a->size) == 0;
}
