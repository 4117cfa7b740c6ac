/* model.c - what knobs of an architecture imply for one another, and from a job to a model.
 *
 * I1  Sizes of a model lie in 0..2^40, its layers in 0..MODEL_LAYERS_MAX, whatever the knobs hold.
 * I2  A null knob that has a derivation (key/value heads, head size, widths) counts as derived,
 *     even where the user wrote null: a model has no holes. */
#include "model/model.h"

#include <inttypes.h>
#include <string.h>

#include "base/maths.h"

#define SIZE_MOST (INT64_C(1) << 40)

/* ---- what knobs imply */

/* Megatron-LM narrows a gated MLP whose width is not given, to whole multiples of 64. */
static int64_t default_ffn(const job *j, const char **why)
{
    int64_t hidden = j->hidden;
    bool narrow = job_is_lm(j) && j->glu;
    *why = narrow ? "unset: 8/3 x hidden_size in multiples of 64, as in Megatron-LM with a gate"
                  : "unset: 4 x hidden_size";
    int64_t wide = mul_sat(4, hidden);
    return narrow ? wide / 3 * 2 / 64 * 64 : wide;
}

static int64_t default_head_dim(const job *j)
{
    int64_t hidden = j->hidden, heads = j->heads;
    return heads > 0 && hidden > 0 ? hidden / heads : 0;
}

void model_derive(resolving *d)
{
    const job *j = d->j;
    const char *why;
    int64_t ffn = default_ffn(j, &why), head_dim = default_head_dim(j);
    if (ffn > 0) resolve_fill(d, K_FFN, value_of_int(ffn), FROM_DERIVED, "%s", why);
    if (job_has(j, K_HEADS))
        resolve_fill(d, K_KV_HEADS, value_of_int(j->heads), FROM_DERIVED,
                     "unset: one for each query head");
    if (head_dim > 0)
        resolve_fill(d, K_HEAD_DIM, value_of_int(head_dim), FROM_DERIVED,
                     "unset: hidden_size / num_attention_heads");
    if (job_has(j, K_EXPERTS) && job_has(j, K_FFN))
        resolve_fill(d, K_MOE_FFN, value_of_int(j->ffn), FROM_DERIVED, "unset: ffn_hidden_size");
    if (text_equal(j->tokenizer, "NullTokenizer") && j->vocab > 0)
        resolve_fill(d, K_EOD, value_of_int(j->vocab - 1), FROM_DERIVED,
                     "unset: the last id, as with Megatron's NullTokenizer");
    if (job_has(j, K_SEQ))
        resolve_fill(d, K_MAX_POSITIONS, value_of_int(j->seq), FROM_DERIVED, "unset: seq_length");
}

void model_resolve(recipe *r, job *j)
{
    resolving d = {r, j};
    job_of(j, r);
    model_derive(&d);
    resolve_defaults(&d);
}

/* ---- the model */

static int64_t within(int64_t n)
{
    return n < 0 ? 0 : n > SIZE_MOST ? SIZE_MOST : n; /* I1 */
}

static int64_t size_or(const job *j, knob_id k, int64_t size, int64_t otherwise)
{
    return within(job_has(j, k) ? size : otherwise);
}

static status check_there(const job *j, error *err)
{
    static const knob_id needed[] = {K_LAYERS, K_HIDDEN, K_HEADS, K_VOCAB};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!job_has(j, needed[i]))
            return error_set(
                err, ERR_INPUT,
                "%s is not set; set it, or let %s=<preset, config.json or folder with one> "
                "supply it",
                knobs[needed[i]].key, knobs[K_MODEL].key);
    return OK;
}

static void init_sizes(model *m, const job *j)
{
    const char *why;
    m->hidden = within(j->hidden);
    m->ffn = size_or(j, K_FFN, j->ffn, default_ffn(j, &why)); /* I2 */
    m->heads = within(j->heads);
    m->kv_heads = size_or(j, K_KV_HEADS, j->kv_heads, m->heads);
    m->head_dim = size_or(j, K_HEAD_DIM, j->head_dim, default_head_dim(j));
    m->experts = within(j->experts);
    m->topk = within(j->topk);
    m->moe_ffn = size_or(j, K_MOE_FFN, j->moe_ffn, m->ffn);
    m->moe_latent = within(j->latent_moe);
    m->shared_ffn = m->experts ? within(j->shared_ffn) : 0;
    m->q_lora = within(j->q_lora);
    m->kv_lora = within(j->kv_lora);
    m->qk_dim = within(j->qk_dim);
    m->qk_rope_dim = within(j->qk_rope_dim);
    m->v_dim = within(j->v_dim);
    m->gdn_conv = within(j->gdn_conv);
    m->gdn_k_dim = within(j->gdn_k_dim);
    m->gdn_v_dim = within(j->gdn_v_dim);
    m->gdn_k_heads = within(j->gdn_k_heads);
    m->gdn_v_heads = within(j->gdn_v_heads);
}

static void init_switches(model *m, const job *j)
{
    m->tied = j->tied;
    m->glu = j->glu;
    m->linear_bias = j->linear_bias;
    m->attention_bias = (m->linear_bias && !j->mlp_bias_alone) || j->attn_bias;
    m->qkv_bias = m->attention_bias || j->qkv_bias;
    m->qk_norm = j->qk_norm;
    m->qk_norm_whole = m->qk_norm && j->qk_norm_whole;
    m->output_gate = j->output_gate;
    m->sinks = j->softmax == J_SOFTMAX_LEARNABLE;
    m->shared_gate = m->shared_ffn > 0 && j->shared_gate;
    m->expert_bias = j->expert_bias;
    m->norm_bias = j->norm == J_NORM_LAYERNORM;
    m->zero_centered = j->norm_zero_centered;
    m->mla = j->mla;
    m->gdn = j->variant == J_VARIANT_GDN || j->variant == J_VARIANT_GDN2;
}

static void init_vocabulary(model *m, const job *j)
{
    int64_t tp = size_or(j, K_TP, j->tp, 1),
            divisor = size_or(j, K_VOCAB_DIVISOR, j->vocab_divisor, 1);
    int64_t unit = mul_sat(tp > 0 ? tp : 1, divisor > 0 ? divisor : 1);
    m->vocab = within(j->vocab);
    m->padded_vocab = j->vocab_pad ? round_up(m->vocab, unit) : m->vocab;
    if (m->padded_vocab > SIZE_MOST) m->padded_vocab = SIZE_MOST; /* I1 */
    bool learned = j->position == J_POSITION_LEARNED_ABSOLUTE;
    m->positions = learned ? within(j->max_positions) : 0;
}

/* A number is what the layer sees, itself included; [left, right] leaves the token itself out. */
static int64_t window_of(const job *j)
{
    if (!j->window.n) return 0;
    int64_t left = j->window.item[0];
    if (left < 0) return 0;
    if (!j->window.listed) left--;
    return left >= SIZE_MOST ? SIZE_MOST : left + 1;
}

static const char *dense_family(const model *m)
{
    return m->qk_norm ? "qwen3" : m->qkv_bias && !m->attention_bias ? "qwen2" : "llama";
}

/* Whose files hold such weights; "gpt": nobody's that are read. */
static const char *family_of(const model *m, const job *j)
{
    bool sigmoid = j->score == J_SCORE_SIGMOID;
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

/* Which layers have a property: "every n-th", or a list of 0 and 1. */
typedef struct pattern {
    knob_id knob;
    job_numbers said;
    layer_kind_bits bit;
    bool but_nth; /* all but every n-th, counted from 1; else every n-th, counted from 0 */
    bool if_null;
} pattern;

static status mark_layers(const pattern *p, const model *m, unsigned char *layer, error *err)
{
    const job_numbers *said = &p->said;
    if (said->listed && said->n != m->n_layers)
        return error_set(err, ERR_INPUT,
                         "%s has %d entries, %s is %" PRId64 "; a list needs one entry a layer",
                         knobs[p->knob].key, said->n, knobs[K_LAYERS].key, m->n_layers);
    int64_t n = said->n ? said->item[0] : 0;
    for (int64_t i = 0; i < m->n_layers; i++) {
        bool nth = n < 1 || (p->but_nth ? (i + 1) % n != 0 : i % n == 0); /* below 1: a rule's */
        bool on = said->listed ? said->item[i] != 0 : said->n ? nth : p->if_null;
        if (on) layer[i] |= (unsigned char)p->bit;
    }
    return OK;
}

static status init_layers(model *m, const job *j, arena *a, error *err)
{
    m->n_layers = j->layers < 0 ? 0 : j->layers > MODEL_LAYERS_MAX ? MODEL_LAYERS_MAX : j->layers;
    m->n_mtp = within(j->mtp);
    if (m->n_mtp > MODEL_MTP_MAX) m->n_mtp = MODEL_MTP_MAX;
    m->mtp_repeated = j->mtp_repeated;
    const pattern moe = {K_MOE_FREQ, j->moe_freq, LAYER_MOE, false, true};
    const pattern linear = {K_LINEAR_FREQ, j->linear_freq, LAYER_LINEAR, true, false};
    const pattern window = {K_WINDOW_SKIP, j->window_skip, LAYER_WINDOW, true, true};
    unsigned char *layer = ARENA_ARRAY(a, unsigned char, m->n_layers + m->n_mtp);
    status s = OK;
    if (m->experts) s = mark_layers(&moe, m, layer, err);
    if (!s && m->gdn) s = mark_layers(&linear, m, layer, err);
    if (!s && m->window) s = mark_layers(&window, m, layer, err);
    for (int64_t i = 0; i < m->n_mtp; i++)
        layer[m->n_layers + i] = m->n_layers ? layer[m->n_layers - 1] : 0;
    m->layer = layer;
    return s;
}

status model_init(model *m, const job *j, arena *a, error *err)
{
    status s = check_there(j, err);
    if (s) return s;
    model made = {.name = j->model};
    if (!made.name) made.name = "custom";
    init_sizes(&made, j);
    init_switches(&made, j);
    init_vocabulary(&made, j);
    made.window = window_of(j);
    made.family = family_of(&made, j);
    s = init_layers(&made, j, a, err);
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
