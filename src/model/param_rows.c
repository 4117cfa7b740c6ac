/* param_rows.c - a model's parameter table from the rows of params.def: named sizes and conditions.
 *
 * I1  A row is in a model's table when all conditions it names hold and its block occurs in the
 *     model.
 * I2  Column parallel weights divide their outputs (axis 0), row parallel ones their inputs (axis
 *     1). Replicated: norms, router, the shared expert's gate, the down projections of latent
 *     attention, latent projections of experts, biases of row parallel layers.
 * I3  Neither biases nor anything of one dimension decays. */
#include "model/params.h"

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
    block_kind block;
    const char *name;
    unsigned when; /* I1 */
    size_id dim[PARAM_DIMS_MAX];
    param_cut cut;
    int axis;
    split split;
    param_class kind;
    param_role role;
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
#define NORM_QK(block_, weight_, bias_, when_, size_, module_)                                     \
    NORM_AS(block_, weight_, bias_, when_, size_, module_, .role = WEIGHT_QK_NORM)
#define NORM_QK_CUT(block_, weight_, bias_, when_, size_, module_)                                 \
    NORM_AS(block_, weight_, bias_, when_, size_, module_, .role = WEIGHT_QK_NORM, COLUMN)

static const row rows[] = {
#include "model/params.def"
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Sizes of a model are at most 2^40: sums of a few cannot overflow, products saturate. */
static void attention_sizes(int64_t *size, const attention_block *a)
{
    int64_t q = mul_sat(a->heads, a->head_dim);
    size[S_HEADS] = a->heads;
    size[S_HEAD_DIM] = a->head_dim;
    size[S_ATTENTION] = q;
    size[S_QKV] = mul_sat(mul_sat(a->output_gate ? 2 : 1, a->heads) + 2 * a->kv_heads, a->head_dim);
    size[S_KEYS] = mul_sat(a->kv_heads, a->head_dim);
    size[S_Q_LORA] = a->q_lora;
    size[S_Q_UP] = mul_sat(a->heads, a->qk_dim + a->qk_rope_dim);
    size[S_KV_DOWN] = a->kv_lora + a->qk_rope_dim;
    size[S_KV_LORA] = a->kv_lora;
    size[S_KV_UP] = mul_sat(a->heads, a->qk_dim + a->v_dim);
    size[S_LATENT_OUT] = mul_sat(a->heads, a->v_dim);
}

static void gdn_sizes(int64_t *size, const gdn_block *g)
{
    int64_t qk = mul_sat(g->k_heads, g->k_dim), v = mul_sat(g->v_heads, g->v_dim);
    size[S_GDN_QK] = qk;
    size[S_GDN_V] = v;
    size[S_GDN_QKV] = add_sat(mul_sat(2, qk), v);
    size[S_GDN_IN] = add_sat(add_sat(size[S_GDN_QKV], v), 2 * g->v_heads);
    size[S_GDN_TAPS] = g->conv;
    size[S_GDN_V_HEADS] = g->v_heads;
    size[S_GDN_V_DIM] = g->v_dim;
}

static void moe_sizes(int64_t *size, const moe_block *e, const model *m)
{
    int64_t halves = m->glu ? 2 : 1;
    size[S_EXPERTS] = e->experts;
    size[S_EXPERT_IN] = e->latent ? e->latent : m->hidden;
    size[S_EXPERT_FFN] = e->ffn;
    size[S_EXPERT_FC1] = halves * e->ffn;
    size[S_LATENT] = e->latent;
    size[S_SHARED_FFN] = e->shared_ffn;
    size[S_SHARED_FC1] = halves * e->shared_ffn;
}

static void find_sizes(int64_t *size, const model *m, const model_block *b)
{
    size[S_NONE] = 0;
    size[S_ONE] = 1;
    size[S_HIDDEN] = m->hidden;
    size[S_TWO_HIDDEN] = 2 * m->hidden;
    size[S_VOCAB] = m->padded_vocab;
    size[S_POSITIONS] = m->positions;
    if (b->kind == BLOCK_ATTENTION) attention_sizes(size, &b->attention);
    if (b->kind == BLOCK_GDN) gdn_sizes(size, &b->gdn);
    if (b->kind == BLOCK_MLP) size[S_FFN] = b->mlp.ffn, size[S_FC1] = (m->glu ? 2 : 1) * b->mlp.ffn;
    if (b->kind == BLOCK_MOE) moe_sizes(size, &b->moe, m);
}

static unsigned attention_conditions(const attention_block *a)
{
    bool whole = a->qk_norm_whole && !a->mla;
    return (a->mla ? MLA : GQA) | (a->q_lora ? Q_LORA : Q_FULL) |
           (!a->qk_norm ? 0
            : whole     ? QK_NORM_WHOLE
                        : QK_NORM) |
           (a->output_gate ? GATED : UNGATED) | (a->sinks ? SINKS : 0) |
           (a->qkv_bias ? QKV_BIAS : 0) | (a->bias ? ATTENTION_BIAS : 0);
}

static unsigned moe_conditions(const moe_block *e)
{
    return (e->shared_ffn ? SHARED : 0) | (e->shared_gate ? SHARED_GATE : SHARED_UNGATED) |
           (e->expert_bias ? EXPERT_BIAS : 0) | (e->latent ? LATENT_MOE : 0);
}

/* That hold for all blocks of a model. */
static unsigned model_conditions(const model *m)
{
    static const unsigned names[] = {[NAMES_OTHERS] = AS_OTHERS | AS_NOT_NEXT,
                                     [NAMES_MIXTRAL] = AS_MIXTRAL | AS_NOT_NEXT,
                                     [NAMES_OSS] = AS_OSS | AS_NOT_NEXT,
                                     [NAMES_NEXT] = AS_OTHERS | AS_NEXT};
    return (m->linear_bias ? BIAS : 0) | (m->norm_bias ? NORM_BIAS : 0) |
           (m->positions ? POSITIONS : 0) | (m->tied ? 0 : UNTIED) |
           (m->glu ? GATED_MLP : PLAIN_MLP) | names[m->names];
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

static param make_param(const row *r, const model *m, const model_block *b, const int64_t *size)
{
    param p = {.name = r->name,
               .block = b,
               .cut = r->cut,
               .axis = r->axis,
               .kind = r->kind,
               .role = r->role,
               .init = r->norm && m->zero_centered ? INIT_ZERO : r->init,
               .trained = !r->buffer,
               .hf = r->hf == HF_MINUS_ONE && !m->zero_centered ? HF_ROWS : r->hf,
               .hf_names = r->names ? r->names : "",
               .hf_fused = r->fused};
    for (; p.n_dims < PARAM_DIMS_MAX && r->dim[p.n_dims] != S_NONE; p.n_dims++)
        p.dim[p.n_dims] = size[r->dim[p.n_dims]];
    p.decay = p.trained && p.n_dims > 1 && p.role != WEIGHT_BIAS; /* I3 */
    p.linear = p.role == WEIGHT_PLAIN && p.n_dims > 1 && p.kind != PARAM_EMBEDDING;
    p.gemm = p.trained && (p.linear || p.role == WEIGHT_HEAD);
    set_sections(&p, r, m, size);
    return p;
}

void param_table_init(param_table *t, const model *m, arena *a)
{
    unsigned general = model_conditions(m);
    int room = 0, *start = ARENA_ARRAY(a, int, m->n_blocks + 1), n = 0;
    param *made = NULL;
    for (int i = 0; i < m->n_blocks; i++) {
        const model_block *b = &m->blocks[i];
        start[i] = n;
        if (!b->times) continue; /* that of another holds its rows, or no layer has it */
        int64_t size[SIZE_COUNT] = {0};
        unsigned holds = general;
        find_sizes(size, m, b);
        if (b->kind == BLOCK_ATTENTION) holds |= attention_conditions(&b->attention);
        if (b->kind == BLOCK_MOE) holds |= moe_conditions(&b->moe);
        for (int k = 0; k < N_ROWS; k++) {
            if (rows[k].block != b->kind || (rows[k].when & ~holds) != 0) continue; /* I1 */
            ARENA_GROW(a, made, n, room);
            made[n++] = make_param(&rows[k], m, b, size);
        }
    }
    start[m->n_blocks] = n;
    *t = (param_table){made, n, start};
}
