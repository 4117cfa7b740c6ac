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

/* A number is what the layer sees, itself included; [left, right] leaves the token itself out. */
static int64_t window_of(const job *j)
{
    if (!j->window.n) return 0;
    int64_t left = j->window.item[0];
    if (left < 0) return 0;
    if (!j->window.listed) left--;
    return left >= SIZE_MOST ? SIZE_MOST : left + 1;
}

static attention_block attention_of(const model *m, const job *j)
{
    int64_t heads = within(j->heads);
    attention_block b = {.heads = heads,
                         .kv_heads = size_or(j, K_KV_HEADS, j->kv_heads, heads),
                         .head_dim = size_or(j, K_HEAD_DIM, j->head_dim, default_head_dim(j)),
                         .mla = j->mla,
                         .q_lora = within(j->q_lora),
                         .kv_lora = within(j->kv_lora),
                         .qk_dim = within(j->qk_dim),
                         .qk_rope_dim = within(j->qk_rope_dim),
                         .v_dim = within(j->v_dim),
                         .bias = (m->linear_bias && !j->mlp_bias_alone) || j->attn_bias,
                         .qk_norm = j->qk_norm,
                         .qk_norm_whole = j->qk_norm && j->qk_norm_whole,
                         .output_gate = j->output_gate,
                         .sinks = j->softmax == J_SOFTMAX_LEARNABLE};
    b.qkv_bias = b.bias || j->qkv_bias;
    return b;
}

static gdn_block gdn_of(const job *j)
{
    return (gdn_block){.conv = within(j->gdn_conv),
                       .k_dim = within(j->gdn_k_dim),
                       .v_dim = within(j->gdn_v_dim),
                       .k_heads = within(j->gdn_k_heads),
                       .v_heads = within(j->gdn_v_heads)};
}

static mlp_block mlp_of(const job *j)
{
    const char *why;
    return (mlp_block){size_or(j, K_FFN, j->ffn, default_ffn(j, &why))}; /* I2 */
}

static moe_block moe_of(const job *j)
{
    moe_block b = {.experts = within(j->experts),
                   .topk = within(j->topk),
                   .ffn = size_or(j, K_MOE_FFN, j->moe_ffn, mlp_of(j).ffn),
                   .latent = within(j->latent_moe),
                   .expert_bias = j->expert_bias};
    b.shared_ffn = b.experts ? within(j->shared_ffn) : 0;
    b.shared_gate = b.shared_ffn > 0 && j->shared_gate;
    return b;
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

static const char *dense_family(const attention_block *a)
{
    return a->qk_norm ? "qwen3" : a->qkv_bias && !a->bias ? "qwen2" : "llama";
}

typedef struct whose {
    const char *family;
    weight_names names;
} whose;

/* Whose files hold such weights; "gpt": nobody's that are read. */
static whose family_of(const model *m, const job *j)
{
    const attention_block *a = m->attention;
    bool sigmoid = j->score == J_SCORE_SIGMOID, moe = m->moe->experts > 0;
    bool gdn = model_has(m, BLOCK_GDN), plain = m->norm_bias && !m->glu && !moe && !m->positions;
    if (plain && !a->mla && !gdn && !a->qk_norm) return (whose){"starcoder2", NAMES_OTHERS};
    if (m->norm_bias || m->positions || !m->glu) return (whose){"gpt", NAMES_OTHERS};
    if (a->mla) return (whose){sigmoid || !moe ? "deepseek_v3" : "deepseek_v2", NAMES_OTHERS};
    if (gdn) return (whose){"qwen3_next", NAMES_NEXT};
    if (a->sinks) return (whose){"gpt_oss", NAMES_OSS};
    if (!moe) return (whose){dense_family(a), NAMES_OTHERS};
    if (a->qk_norm_whole && sigmoid) return (whose){"minimax_m2", NAMES_MIXTRAL};
    if (a->qk_norm_whole) return (whose){"olmoe", NAMES_OTHERS};
    if (m->moe->shared_gate) return (whose){"qwen2_moe", NAMES_OTHERS};
    if (sigmoid) return (whose){"glm4_moe", NAMES_OTHERS};
    if (a->qk_norm) return (whose){"qwen3_moe", NAMES_OTHERS};
    return (whose){"mixtral", NAMES_MIXTRAL};
}

/* ---- layers */

/* Which layers have a block: "every n-th", or a list of 0 and 1. */
typedef struct pattern {
    knob_id knob;
    const job_numbers *said;
    bool but_nth; /* all but every n-th, counted from 1; else every n-th, counted from 0 */
    bool if_null;
} pattern;

static status check_pattern(const pattern *p, const model *m, error *err)
{
    if (!p->said->listed || p->said->n == m->n_layers) return OK;
    return error_set(err, ERR_INPUT,
                     "%s has %d entries, %s is %" PRId64 "; a list needs one entry a layer",
                     knobs[p->knob].key, p->said->n, knobs[K_LAYERS].key, m->n_layers);
}

static bool chosen(const pattern *p, int64_t i)
{
    const job_numbers *said = p->said;
    int64_t n = said->n ? said->item[0] : 0;
    if (said->listed) return said->item[i] != 0;
    if (!said->n) return p->if_null;
    return n < 1 || (p->but_nth ? (i + 1) % n != 0 : i % n == 0); /* below 1: a rule's */
}

/* The blocks that the knobs describe; NULL: they do not. */
typedef struct described {
    model_block *full, *windowed, *gdn, *mlp, *moe, *mtp;
} described;

/* The number of the kind with these blocks. */
static int16_t kind_with(model *m, layer_kind *kinds, const layer_kind *l)
{
    int k = 0;
    while (k < m->n_kinds && memcmp(kinds[k].block, l->block, sizeof l->block) != 0) k++;
    if (k == m->n_kinds) kinds[m->n_kinds++] = *l;
    return (int16_t)k;
}

static status init_layers(model *m, const job *j, const described *d, arena *a, error *err)
{
    const pattern moe = {K_MOE_FREQ, &j->moe_freq, false, true};
    const pattern linear = {K_LINEAR_FREQ, &j->linear_freq, true, false};
    const pattern window = {K_WINDOW_SKIP, &j->window_skip, true, true};
    if (d->moe) TRY(check_pattern(&moe, m, err));
    if (d->gdn) TRY(check_pattern(&linear, m, err));
    if (d->windowed) TRY(check_pattern(&window, m, err));
    enum { KINDS_MAX = 2 * 3 * 2 }; /* attention of three kinds, MLPs of two; modules besides */
    layer_kind *kinds = ARENA_ARRAY(a, layer_kind, KINDS_MAX), l = {{d->full, d->mlp}, 2};
    int16_t *layer = ARENA_ARRAY(a, int16_t, m->n_layers + m->n_mtp + 1);
    for (int64_t i = 0; i < m->n_layers; i++) {
        bool seen = d->windowed && chosen(&window, i);
        l.block[0] = d->gdn && chosen(&linear, i) ? d->gdn : seen ? d->windowed : d->full;
        l.block[1] = d->moe && chosen(&moe, i) ? d->moe : d->mlp;
        layer[i] = kind_with(m, kinds, &l);
    }
    if (d->mtp) l = (layer_kind){{d->mtp, l.block[0], l.block[1]}, 3};
    for (int64_t i = 0; i < m->n_mtp; i++) layer[m->n_layers + i] = kind_with(m, kinds, &l);
    m->kinds = kinds;
    m->layer = layer;
    return OK;
}

static model_block *add_block(model *m, model_block *list, block_kind kind)
{
    model_block *b = &list[m->n_blocks++];
    *b = (model_block){.kind = kind, .weights = b};
    m->has |= 1u << kind;
    return b;
}

/* Blocks with their sizes, then the layers that have them. */
static status init_blocks(model *m, const job *j, arena *a, error *err)
{
    enum { BLOCKS_MAX = BLOCK_KINDS + 3 }; /* two of attention; two places for what is none */
    model_block *list = ARENA_ARRAY(a, model_block, BLOCKS_MAX), *none = &list[BLOCK_KINDS + 1];
    described d = {0};
    model_block *embedding = add_block(m, list, BLOCK_EMBEDDING);
    d.full = add_block(m, list, BLOCK_ATTENTION);
    d.full->attention = attention_of(m, j);
    m->attention = &d.full->attention;
    int64_t window = window_of(j);
    if (window) {
        d.windowed = add_block(m, list, BLOCK_ATTENTION);
        d.windowed->attention = d.full->attention;
        d.windowed->attention.window = window;
        d.windowed->weights = d.full;
    }
    if (j->variant == J_VARIANT_GDN || j->variant == J_VARIANT_GDN2)
        d.gdn = add_block(m, list, BLOCK_GDN);
    model_block *gdn = d.gdn ? d.gdn : none++;
    gdn->gdn = gdn_of(j);
    m->gdn = &gdn->gdn;
    d.mlp = add_block(m, list, BLOCK_MLP);
    d.mlp->mlp = mlp_of(j);
    m->mlp = &d.mlp->mlp;
    if (j->experts > 0) d.moe = add_block(m, list, BLOCK_MOE);
    model_block *moe = d.moe ? d.moe : none;
    moe->moe = moe_of(j);
    m->moe = &moe->moe;
    if (m->n_mtp) d.mtp = add_block(m, list, BLOCK_MTP);
    model_block *head = add_block(m, list, BLOCK_HEAD);
    m->blocks = list;

    TRY(init_layers(m, j, &d, a, err));
    int64_t modules = model_modules(m, m->n_mtp);
    embedding->times = head->times = 1;
    for (int64_t i = 0; i < m->n_layers + modules; i++) {
        const layer_kind *l = model_layer(m, i);
        for (int k = 0; k < l->n_blocks; k++) list[l->block[k]->weights - list].times++;
    }
    return OK;
}

bool model_same_layers(const model *m, int64_t a, int64_t b, int64_t n)
{
    return memcmp(m->layer + a, m->layer + b, (size_t)n * sizeof *m->layer) == 0;
}

int64_t model_layers_with(const model *m, block_kind kind)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_layers; i++) n += model_layer_has(m, i, kind);
    return n;
}

bool model_uses(const model *m, block_kind kind)
{
    for (int i = 0; i < m->n_kinds; i++)
        if (layer_block(&m->kinds[i], kind)) return true;
    return false;
}

bool model_is_windowed(const model *m)
{
    for (int i = 0; i < m->n_kinds; i++) {
        const model_block *b = layer_block(&m->kinds[i], BLOCK_ATTENTION);
        if (b && b->attention.window) return true;
    }
    return false;
}

int64_t model_window(const model *m)
{
    int64_t window = 0;
    for (int i = 0; i < m->n_blocks && !window; i++)
        if (m->blocks[i].kind == BLOCK_ATTENTION) window = m->blocks[i].attention.window;
    return window;
}

status model_init(model *m, const job *j, arena *a, error *err)
{
    TRY(check_there(j, err));
    model made = {.name = j->model ? j->model : "custom",
                  .n_layers = j->layers < 0                  ? 0
                              : j->layers > MODEL_LAYERS_MAX ? MODEL_LAYERS_MAX
                                                             : j->layers,
                  .n_mtp = j->mtp > MODEL_MTP_MAX ? MODEL_MTP_MAX : within(j->mtp),
                  .mtp_repeated = j->mtp_repeated,
                  .hidden = within(j->hidden),
                  .tied = j->tied,
                  .glu = j->glu,
                  .linear_bias = j->linear_bias,
                  .norm_bias = j->norm == J_NORM_LAYERNORM,
                  .zero_centered = j->norm_zero_centered};
    init_vocabulary(&made, j);
    TRY(init_blocks(&made, j, a, err));
    whose w = family_of(&made, j);
    made.family = w.family, made.names = w.names;
    *m = made;
    return OK;
}

/* ---- one architecture, however it is spelled */

/* A width that no layer uses does not count: files give it as they like. */
model_shape model_shape_of(const model *m)
{
    const attention_block *a = m->attention;
    const moe_block *e = m->moe;
    bool mla = a->mla, moe = e->experts > 0, gdn = model_has(m, BLOCK_GDN);
    return (model_shape){
        .family = m->family,
        .size = {m->hidden, a->heads, mla ? 0 : a->kv_heads, mla ? 0 : a->head_dim,
                 mla ? a->q_lora : 0, mla ? a->kv_lora : 0, mla ? a->qk_dim : 0,
                 mla ? a->qk_rope_dim : 0, mla ? a->v_dim : 0, gdn ? m->gdn->v_heads : 0,
                 e->experts, moe ? e->topk : 0, moe ? e->ffn : m->mlp->ffn, e->shared_ffn},
    };
}

bool model_same_shape(const model_shape *a, const model_shape *b)
{
    return text_equal(a->family, b->family) && memcmp(a->size, b->size, sizeof a->size) == 0;
}
