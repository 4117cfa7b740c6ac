/* param_rows.c - a model's parameter table from the rows of params.def: named sizes and conditions.
 *
 * I1  A row is in a model's table when all conditions it names hold and its block occurs in the
 *     model.
 * I2  Column parallel weights divide their outputs (axis 0), row parallel ones their inputs (axis
 *     1). Replicated: norms, router, the shared expert's gate, the down projections of latent
 *     attention, latent projections of experts, biases of row parallel layers.
 * I3  Biases have a name that ends in "bias"; neither they nor anything of one dimension decays. */
#include "model/params.h"

#include <string.h>

#include "base/maths.h"

typedef enum size_id {
    S_NONE,
    S_ONE,
    S_HIDDEN,
    S_TWO_HIDDEN,
    S_VOCAB,
    S_POSITIONS,
    S_HEADS,
    S_HEAD_DIM,
    S_QKV,
    S_KEYS,
    S_ATTENTION,
    S_Q_LORA,
    S_Q_UP,
    S_KV_DOWN,
    S_KV_LORA,
    S_KV_UP,
    S_LATENT_OUT,
    S_GDN_IN,
    S_GDN_QKV,
    S_GDN_QK,
    S_GDN_V,
    S_GDN_TAPS,
    S_GDN_V_HEADS,
    S_GDN_V_DIM,
    S_FC1,
    S_FFN,
    S_EXPERTS,
    S_EXPERT_IN,
    S_EXPERT_FC1,
    S_EXPERT_FFN,
    S_LATENT,
    S_SHARED_FC1,
    S_SHARED_FFN,
    SIZE_COUNT
} size_id;

typedef enum condition {
    ALWAYS = 0,
    GQA = 1 << 0,
    MLA = 1 << 1,
    Q_LORA = 1 << 2,
    Q_FULL = 1 << 3,
    QK_NORM = 1 << 4, /* of heads; MLA: of latents */
    GATED = 1 << 5,
    UNGATED = 1 << 6,
    SINKS = 1 << 7,
    QKV_BIAS = 1 << 8,
    BIAS = 1 << 9,
    NORM_BIAS = 1 << 10,
    POSITIONS = 1 << 11,
    UNTIED = 1 << 12,
    SHARED = 1 << 13,
    SHARED_GATE = 1 << 14,
    EXPERT_BIAS = 1 << 15,
    LATENT_MOE = 1 << 16,
    /* whose names: */
    AS_MIXTRAL = 1 << 17,
    AS_OSS = 1 << 18,
    AS_NEXT = 1 << 19,
    AS_OTHERS = 1 << 20, /* neither Mixtral nor gpt-oss */
    AS_NOT_NEXT = 1 << 21,
    ATTENTION_BIAS = 1 << 22,
    QK_NORM_WHOLE = 1 << 23, /* of all heads at once */
    SHARED_UNGATED = 1 << 24,
    GATED_MLP = 1 << 25,
    PLAIN_MLP = 1 << 26,
} condition;

typedef enum split { WHOLE, GLU_HALVES, GDN_SECTIONS, CONV_SECTIONS } split;

typedef struct row {
    param_block block;
    const char *name;
    unsigned when; /* I1 */
    size_id dim[PARAM_DIMS_MAX];
    param_cut cut;
    int axis;
    split split;
    param_class kind;
    param_init init;
    bool norm;   /* a norm's weight: 1, or 0 where norms are zero-centred */
    bool buffer; /* not trained */
    param_hf hf;
    const char *names, *fused;
} row;

#define COLUMN       .cut = CUT_TP, .axis = 0
#define ROW          .cut = CUT_TP, .axis = 1
#define EXPERT(dim_) .kind = PARAM_EXPERT, .cut = CUT_ETP, .axis = (dim_)
#define EXPERT_FC1   {S_EXPERTS, S_EXPERT_FC1, S_EXPERT_IN}, EXPERT(1), .split = GLU_HALVES
#define EXPERT_FC2   {S_EXPERTS, S_EXPERT_IN, S_EXPERT_FFN}, EXPERT(2), .init = INIT_OUTPUT

#define Q_K_V(what)     "self_attn.q_proj." what " self_attn.k_proj." what " self_attn.v_proj." what
#define GATE_UP(module) module ".gate_proj.weight " module ".up_proj.weight"

#define W(block_, name_, when_, ...) {BLOCK_##block_, name_, when_, __VA_ARGS__},

/* A norm's weight and, for LayerNorm, its bias; whole on every rank, or cut with its rows. */
#define NORM_AS(block_, weight_, bias_, when_, size_, module_, ...)                                \
    W(block_, weight_, when_, {size_}, .init = INIT_ONE, .norm = true, .names = module_ ".weight", \
      __VA_ARGS__)                                                                                 \
    W(block_, bias_, (when_) | NORM_BIAS, {size_}, .init = INIT_ZERO, .names = module_ ".bias",    \
      __VA_ARGS__)
#define NORM(block_, weight_, bias_, when_, size_, module_)                                        \
    NORM_AS(block_, weight_, bias_, when_, size_, module_, .axis = 0)
#define NORM_CUT(block_, weight_, bias_, when_, size_, module_)                                    \
    NORM_AS(block_, weight_, bias_, when_, size_, module_, COLUMN)

static const row rows[] = {
#include "model/params.def"
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Sizes of a model are at most 2^40: sums of a few cannot overflow, products saturate. */
static void attention_sizes(int64_t *size, const model *m)
{
    int64_t q = mul_sat(m->heads, m->head_dim);
    size[S_HEADS] = m->heads;
    size[S_HEAD_DIM] = m->head_dim;
    size[S_ATTENTION] = q;
    size[S_QKV] = mul_sat(mul_sat(m->output_gate ? 2 : 1, m->heads) + 2 * m->kv_heads, m->head_dim);
    size[S_KEYS] = mul_sat(m->kv_heads, m->head_dim);
    size[S_Q_LORA] = m->q_lora;
    size[S_Q_UP] = mul_sat(m->heads, m->qk_dim + m->qk_rope_dim);
    size[S_KV_DOWN] = m->kv_lora + m->qk_rope_dim;
    size[S_KV_LORA] = m->kv_lora;
    size[S_KV_UP] = mul_sat(m->heads, m->qk_dim + m->v_dim);
    size[S_LATENT_OUT] = mul_sat(m->heads, m->v_dim);
}

static void gdn_sizes(int64_t *size, const model *m)
{
    int64_t qk = mul_sat(m->gdn_k_heads, m->gdn_k_dim), v = mul_sat(m->gdn_v_heads, m->gdn_v_dim);
    size[S_GDN_QK] = qk;
    size[S_GDN_V] = v;
    size[S_GDN_QKV] = add_sat(mul_sat(2, qk), v);
    size[S_GDN_IN] = add_sat(add_sat(size[S_GDN_QKV], v), 2 * m->gdn_v_heads);
    size[S_GDN_TAPS] = m->gdn_conv;
    size[S_GDN_V_HEADS] = m->gdn_v_heads;
    size[S_GDN_V_DIM] = m->gdn_v_dim;
}

static void mlp_sizes(int64_t *size, const model *m)
{
    int64_t halves = m->glu ? 2 : 1;
    size[S_FFN] = m->ffn;
    size[S_FC1] = halves * m->ffn;
    size[S_EXPERTS] = m->experts;
    size[S_EXPERT_IN] = m->moe_latent ? m->moe_latent : m->hidden;
    size[S_EXPERT_FFN] = m->moe_ffn;
    size[S_EXPERT_FC1] = halves * m->moe_ffn;
    size[S_LATENT] = m->moe_latent;
    size[S_SHARED_FFN] = m->shared_ffn;
    size[S_SHARED_FC1] = halves * m->shared_ffn;
}

static void find_sizes(int64_t *size, const model *m)
{
    size[S_NONE] = 0;
    size[S_ONE] = 1;
    size[S_HIDDEN] = m->hidden;
    size[S_TWO_HIDDEN] = 2 * m->hidden;
    size[S_VOCAB] = m->padded_vocab;
    size[S_POSITIONS] = m->positions;
    attention_sizes(size, m);
    gdn_sizes(size, m);
    mlp_sizes(size, m);
}

static unsigned find_conditions(const model *m)
{
    bool mixtral = text_equal(m->family, "mixtral") || text_equal(m->family, "minimax_m2");
    bool oss = text_equal(m->family, "gpt_oss");
    bool next = text_equal(m->family, "qwen3_next");
    const struct {
        bool holds;
        condition bit;
    } all[] = {
        {!m->mla, GQA},
        {m->mla, MLA},
        {m->q_lora > 0, Q_LORA},
        {m->q_lora == 0, Q_FULL},
        {m->qk_norm && !(m->qk_norm_whole && !m->mla), QK_NORM},
        {m->qk_norm_whole && !m->mla, QK_NORM_WHOLE},
        {m->output_gate, GATED},
        {!m->output_gate, UNGATED},
        {m->sinks, SINKS},
        {m->qkv_bias, QKV_BIAS},
        {m->linear_bias, BIAS},
        {m->attention_bias, ATTENTION_BIAS},
        {m->norm_bias, NORM_BIAS},
        {m->positions > 0, POSITIONS},
        {!m->tied, UNTIED},
        {m->shared_ffn > 0, SHARED},
        {m->shared_gate, SHARED_GATE},
        {!m->shared_gate, SHARED_UNGATED},
        {m->glu, GATED_MLP},
        {!m->glu, PLAIN_MLP},
        {m->expert_bias, EXPERT_BIAS},
        {m->moe_latent > 0, LATENT_MOE},
        {mixtral, AS_MIXTRAL},
        {oss, AS_OSS},
        {next, AS_NEXT},
        {!mixtral && !oss, AS_OTHERS},
        {!next, AS_NOT_NEXT},
    };
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].holds) bits |= (unsigned)all[i].bit;
    return bits;
}

static void set_sections(param *p, const row *r, const model *m, const int64_t *size)
{
    static const size_id in[] = {S_GDN_QK, S_GDN_QK,      S_GDN_V,
                                 S_GDN_V,  S_GDN_V_HEADS, S_GDN_V_HEADS};
    switch (r->split) {
    case WHOLE:
        break;
    case GLU_HALVES:
        p->n_sections = m->glu ? 2 : 0;
        for (int i = 0; i < p->n_sections; i++) p->section[i] = p->dim[r->axis] / 2;
        break;
    case GDN_SECTIONS:
    case CONV_SECTIONS:
        p->n_sections = r->split == GDN_SECTIONS ? 6 : 3;
        for (int i = 0; i < p->n_sections; i++) p->section[i] = size[in[i]];
        break;
    }
}

static bool ends_in(const char *s, const char *tail)
{
    size_t n = strlen(s), n_tail = strlen(tail);
    return n >= n_tail && strcmp(s + n - n_tail, tail) == 0;
}

static param make_param(const row *r, const model *m, const int64_t *size)
{
    param p = {.name = r->name,
               .block = r->block,
               .cut = r->cut,
               .axis = r->axis,
               .kind = r->kind,
               .init = r->norm && m->zero_centered ? INIT_ZERO : r->init,
               .trained = !r->buffer,
               .hf = r->hf == HF_MINUS_ONE && !m->zero_centered ? HF_ROWS : r->hf,
               .hf_names = r->names ? r->names : "",
               .hf_fused = r->fused};
    for (; p.n_dims < PARAM_DIMS_MAX && r->dim[p.n_dims] != S_NONE; p.n_dims++)
        p.dim[p.n_dims] = size[r->dim[p.n_dims]];
    p.decay = p.trained && p.n_dims > 1 && !ends_in(r->name, "bias"); /* I3 */
    p.linear = p.n_dims > 1 && p.kind != PARAM_EMBEDDING && !strstr(r->name, "router") &&
               !strstr(r->name, "gate_weight") && !strstr(r->name, "conv1d");
    p.gemm = p.trained && (p.linear || strstr(r->name, "output_layer.weight"));
    set_sections(&p, r, m, size);
    return p;
}

void param_table_init(param_table *t, const model *m, arena *a)
{
    int64_t size[SIZE_COUNT];
    bool occurs[BLOCK_COUNT];
    find_sizes(size, m);
    unsigned conditions = find_conditions(m);
    for (int b = 0; b < BLOCK_COUNT; b++) occurs[b] = param_block_count(m, (param_block)b) > 0;
    param *made = ARENA_ARRAY(a, param, N_ROWS);
    int n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        bool wanted = (rows[i].when & ~conditions) == 0 && occurs[rows[i].block]; /* I1 */
        if (wanted) made[n++] = make_param(&rows[i], m, size);
    }
    *t = (param_table){made, n};
}
