/* hf_facts.c - do two recipes compute the same with the same weights?
 *
 * Knobs spell one thing in several ways (null or 1, every second layer or a list of flags, a window
 * of 8 or [7, 0]), and many mean nothing beside others (YaRN's beta without YaRN). Here each counts
 * as what it does.
 *
 * I1  A row counts where its conditions hold. What they hang on has a row of its own that always
 *     counts, so both sides can be judged by the conditions of one.
 * I2  Rows of OTHER are fields of a config.json that no weight computes with. */
#include <math.h>
#include <string.h>

#include "config/models/hf_config.h"

typedef facts_side side;

typedef enum condition {
    GQA = 1,
    MLA = 1 << 1,
    DENSE_MLP = 1 << 2, /* a layer without experts */
    MOE = 1 << 3,
    SHARED = 1 << 4,
    LIMITED = 1 << 5, /* groups of experts */
    SOFTMAX = 1 << 6,
    GDN = 1 << 7,
    ROTARY = 1 << 8,
    YARN = 1 << 9,
    LLAMA3 = 1 << 10,
    TRAINED = 1 << 11, /* the trained length counts */
    GATED = 1 << 12,
    NORMED = 1 << 13, /* queries and keys */
    OTHER = 1 << 14,  /* I2 */
} condition;

typedef struct fact {
    knob_id knob;
    unsigned when;
    value (*of)(side s); /* NULL: the knob */
} fact;

/* ---- what knobs mean */

/* Which layers have a block of this kind (of attention: with a window). */
static value flags_of(side s, block_kind kind)
{
    value *items = ARENA_ARRAY(s.r->a, value, s.m->n_layers);
    for (int64_t i = 0; i < s.m->n_layers; i++)
        items[i] = value_of_int(kind == BLOCK_ATTENTION ? model_layer_window(s.m, i) > 0
                                                        : model_layer_has(s.m, i, kind));
    return (value){.kind = V_LIST, .list = {items, (int)s.m->n_layers}};
}

static value moe_layers(side s)
{
    return flags_of(s, BLOCK_MOE);
}

static value linear_layers(side s)
{
    return flags_of(s, BLOCK_GDN);
}

static value windowed_layers(side s)
{
    return flags_of(s, BLOCK_ATTENTION);
}

#define SIZE(name, field)                                                                          \
    static value name(side s)                                                                      \
    {                                                                                              \
        return value_of_int(s.m->field);                                                           \
    }
#define FLAG(name, field)                                                                          \
    static value name(side s)                                                                      \
    {                                                                                              \
        return value_of_bool(s.m->field);                                                          \
    }
SIZE(kv_heads, attention->kv_heads)
SIZE(head_dim, attention->head_dim)
SIZE(ffn, mlp->ffn)
SIZE(moe_ffn, moe->ffn)
SIZE(experts, moe->experts)
SIZE(moe_latent, moe->latent)
FLAG(linear_bias, linear_bias)
FLAG(attention_bias, attention->bias)
FLAG(qkv_bias, attention->qkv_bias)

static value or_null(int64_t size)
{
    return size > 0 ? value_of_int(size) : (value){.kind = V_NULL};
}

static value window(side s)
{
    return or_null(model_is_windowed(s.m) ? model_window(s.m) : 0);
}

static value shared_ffn(side s)
{
    return or_null(s.m->moe->shared_ffn);
}

static value q_lora(side s)
{
    return or_null(s.m->attention->q_lora);
}

static value or_one(side s, knob_id k)
{
    return recipe_given(s.r, k) ? s.r->knob[k].v : value_of_int(1);
}

static value scaling(side s)
{
    return or_one(s, K_SCALING);
}

static value groups(side s)
{
    return or_one(s, K_GROUPS);
}

static value linear_scale(side s)
{
    return or_one(s, K_ROPE_LINEAR);
}

static value dynamic_scale(side s)
{
    return or_one(s, K_ROPE_DYNAMIC);
}

static value latent_epsilon(side s)
{
    return s.r->knob[recipe_given(s.r, K_LATENT_EPS) ? K_LATENT_EPS : K_NORM_EPS].v;
}

/* How many experts a group is scored by. */
static value group_score(side s)
{
    int64_t chosen = recipe_int(s.r, K_GROUP_TOPK), k = recipe_int(s.r, K_TOPK);
    bool one = recipe_is(s.r, K_GROUP_SCORE, "best");
    bool two = recipe_is(s.r, K_GROUP_SCORE, "best_two");
    return value_of_int(one ? 1 : two ? 2 : chosen > 0 ? k / chosen : 0);
}

/* Unset, weights are divided where their scores are no softmax. A single one never is, as in
 * Megatron. */
static value renormalised(side s)
{
    if (s.m->moe->topk == 1) return value_of_bool(false);
    bool set = recipe_given(s.r, K_ROUTER_NORM);
    bool on = set ? recipe_on(s.r, K_ROUTER_NORM) : !recipe_is(s.r, K_SCORE, "softmax");
    return value_of_bool(on);
}

static bool is_rotary(const recipe *r)
{
    return recipe_is(r, K_POSITION, "rope") || recipe_is(r, K_POSITION, "yarn");
}

static bool is_yarn(const recipe *r)
{
    return recipe_is(r, K_ROPE_TYPE, "yarn") || recipe_is(r, K_POSITION, "yarn");
}

static value position(side s)
{
    return is_rotary(s.r) ? value_of_text("rope") : s.r->knob[K_POSITION].v;
}

static value rope_type(side s)
{
    return value_of_text(is_yarn(s.r) ? "yarn" : "rope");
}

/* Dimensions of a head that are rotated: pairs of them. */
static value rotated(side s)
{
    double n = (double)s.m->attention->head_dim * recipe_real(s.r, K_ROPE_PERCENT);
    return value_of_int((int64_t)n / 2 * 2);
}

static double yarn_scale(const recipe *r, knob_id k)
{
    double factor = recipe_real(r, K_ROPE_FACTOR);
    return factor <= 1 ? 1 : 0.1 * recipe_real(r, k) * log(factor) + 1;
}

/* The factor on the table. */
static value table_scale(side s)
{
    return value_of_float(yarn_scale(s.r, K_ROPE_MSCALE) / yarn_scale(s.r, K_ROPE_MSCALE_ALL));
}

/* ---- the table */

static const fact facts[] = {
    {K_LAYERS, 0, NULL},
    {K_HIDDEN, 0, NULL},
    {K_HEADS, 0, NULL},
    {K_VOCAB, 0, NULL},
    {K_TIED, 0, NULL},
    {K_NORM, 0, NULL},
    {K_NORM_EPS, 0, NULL},
    {K_NORM_ZERO_CENTERED, 0, NULL},
    {K_GLU, 0, NULL},
    {K_ACTIVATION, 0, NULL},
    {K_GLU_OFFSET, GATED, NULL},
    {K_GLU_CLAMP, GATED, NULL},
    {K_FFN, DENSE_MLP, ffn},
    {K_LINEAR_BIAS, 0, linear_bias},
    {K_ATTN_BIAS, 0, attention_bias},
    {K_MLP_BIAS_ALONE, OTHER, NULL}, /* in the biases above and below */
    {K_QKV_BIAS, 0, qkv_bias},
    {K_SOFTMAX, 0, NULL},
    {K_QK_NORM, 0, NULL},
    {K_QK_NORM_WHOLE, GQA | NORMED, NULL},
    {K_OUTPUT_GATE, GQA, NULL},
    {K_KV_HEADS, GQA, kv_heads},
    {K_HEAD_DIM, GQA, head_dim},
    {K_WINDOW, 0, window},
    {K_WINDOW_SKIP, 0, windowed_layers},
    {K_MLA, 0, NULL},
    {K_Q_LORA, MLA, q_lora},
    {K_KV_LORA, MLA, NULL},
    {K_QK_DIM, MLA, NULL},
    {K_QK_ROPE_DIM, MLA, NULL},
    {K_V_DIM, MLA, NULL},
    {K_LATENT_EPS, MLA | NORMED, latent_epsilon},
    {K_ROPE_HALVES, MLA | ROTARY, NULL},
    {K_VARIANT, 0, NULL},
    {K_LINEAR_FREQ, GDN, linear_layers},
    {K_GDN_CONV, GDN, NULL},
    {K_GDN_K_DIM, GDN, NULL},
    {K_GDN_V_DIM, GDN, NULL},
    {K_GDN_K_HEADS, GDN, NULL},
    {K_GDN_V_HEADS, GDN, NULL},
    {K_POSITION, 0, position},
    {K_ROPE_BASE, ROTARY, NULL},
    {K_ROPE_PERCENT, GQA | ROTARY, rotated},
    {K_ROPE_INTERLEAVED, GQA | ROTARY, NULL},
    {K_ROPE_TYPE, ROTARY, rope_type},
    {K_ROPE_FACTOR, YARN, NULL},
    {K_ROPE_ORIGINAL, YARN, NULL},
    {K_ROPE_BETA_FAST, YARN, NULL},
    {K_ROPE_BETA_SLOW, YARN, NULL},
    {K_ROPE_TRUNCATE, YARN, NULL},
    {K_ROPE_MSCALE, YARN, table_scale},
    {K_ROPE_MSCALE_ALL, YARN | MLA, NULL},
    {K_LLAMA3_ROPE, ROTARY, NULL},
    {K_LLAMA3_FACTOR, LLAMA3, NULL},
    {K_LLAMA3_LOW, LLAMA3, NULL},
    {K_LLAMA3_HIGH, LLAMA3, NULL},
    {K_ROPE_LINEAR, ROTARY, linear_scale},
    {K_ROPE_DYNAMIC, ROTARY, dynamic_scale},
    {K_ROPE_TRAINED, TRAINED, NULL},
    {K_EXPERTS, 0, experts},
    {K_MOE_FREQ, MOE, moe_layers},
    {K_TOPK, MOE, NULL},
    {K_MOE_FFN, MOE, moe_ffn},
    {K_SHARED_FFN, MOE, shared_ffn},
    {K_SHARED_GATE, SHARED, NULL},
    {K_SCORE, MOE, NULL},
    {K_PRE_SOFTMAX, MOE | SOFTMAX, NULL},
    {K_ROUTER_NORM, MOE, renormalised},
    {K_SCALING, MOE, scaling},
    {K_GROUPS, MOE, groups},
    {K_GROUP_TOPK, LIMITED, NULL},
    {K_GROUP_SCORE, LIMITED, group_score},
    {K_EXPERT_BIAS, MOE, NULL},
    {K_PROBS_ON_INPUT, MOE, NULL},
    {K_LATENT_MOE, MOE, moe_latent},
    {K_MAX_POSITIONS, OTHER, NULL},
    {K_INIT_STD, OTHER, NULL},
    {K_ATTENTION_DROPOUT, OTHER, NULL},
    {K_HIDDEN_DROPOUT, OTHER, NULL},
    {K_AUX_COEFF, OTHER, NULL},
    {K_BALANCING, OTHER, NULL},
    {K_JITTER, OTHER, NULL},
    {K_MTP, OTHER, NULL},
};
enum { N_FACTS = sizeof facts / sizeof facts[0] };

static unsigned conditions(side s)
{
    const model *m = s.m;
    bool moe = m->moe->experts > 0, rotary = is_rotary(s.r), yarn = rotary && is_yarn(s.r);
    bool llama3 = rotary && !yarn && recipe_on(s.r, K_LLAMA3_ROPE);
    bool dense = !moe || model_uses(m, BLOCK_MLP);
    const struct {
        bool holds;
        condition bit;
    } all[] = {
        {!m->attention->mla, GQA},
        {m->attention->mla, MLA},
        {dense, DENSE_MLP},
        {moe, MOE},
        {moe && m->moe->shared_ffn > 0, SHARED},
        {moe && recipe_int(s.r, K_GROUPS) > 1, LIMITED},
        {recipe_is(s.r, K_SCORE, "softmax"), SOFTMAX},
        {model_has(m, BLOCK_GDN), GDN},
        {rotary, ROTARY},
        {yarn, YARN},
        {llama3, LLAMA3},
        {llama3 || (rotary && recipe_given(s.r, K_ROPE_DYNAMIC)), TRAINED},
        {m->glu, GATED},
        {m->attention->qk_norm, NORMED},
    };
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].holds) bits |= (unsigned)all[i].bit;
    return bits;
}

static value value_of(const fact *f, side s)
{
    return f->of ? f->of(s) : s.r->knob[f->knob].v;
}

/* Numbers that went through a logarithm and back differ in their last bits. */
static bool same(value a, value b)
{
    if (a.kind == V_FLOAT && b.kind == V_FLOAT)
        return fabs(a.real - b.real) <= 1e-12 * fabs(a.real);
    return value_equal(a, b);
}

/* ---- for others */

value facts_value(facts_side a, knob_id k)
{
    for (int i = 0; i < N_FACTS; i++)
        if (facts[i].knob == k) return value_of(&facts[i], a);
    return a.r->knob[k].v;
}

void facts_reopen(recipe *r)
{
    for (int i = 0; i < N_FACTS; i++) r->knob[facts[i].knob].from = FROM_NOTHING;
}

int facts_differ(facts_side a, facts_side b, knob_id *out, int most)
{
    unsigned holds = conditions(a); /* I1 */
    int n = 0;
    for (int i = 0; i < N_FACTS; i++) {
        const fact *f = &facts[i];
        if ((f->when & ~holds) != 0 || same(value_of(f, a), value_of(f, b))) continue;
        if (n < most) out[n] = f->knob;
        n++;
    }
    return n;
}

const char *facts_text(facts_side a, facts_side b, knob_id k)
{
    value plain = a.r->knob[k].v, counts = facts_value(a, k);
    bool other = value_equal(plain, b.r->knob[k].v);
    if (plain.kind == V_NULL && counts.kind != V_LIST) other = true;
    return value_text(a.r->a, other ? counts : plain);
}
