/* export_parts.c - what the exports share. */
#include "config/export_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/maths.h"
#include "config/export.h"

/* A knob matters where another one is on, is given, or is a certain word. */
static const struct {
    knob_id k, needs;
    const char *word;
} needs[] = {
    {K_Q_LORA, K_MLA, NULL},
    {K_KV_LORA, K_MLA, NULL},
    {K_QK_DIM, K_MLA, NULL},
    {K_QK_ROPE_DIM, K_MLA, NULL},
    {K_V_DIM, K_MLA, NULL},
    {K_ROPE_TYPE, K_MLA, NULL},
    {K_ROPE_FACTOR, K_ROPE_TYPE, "yarn"},
    {K_GDN_CONV, K_VARIANT, NULL},
    {K_GDN_K_DIM, K_VARIANT, NULL},
    {K_GDN_V_DIM, K_VARIANT, NULL},
    {K_GDN_K_HEADS, K_VARIANT, NULL},
    {K_GDN_V_HEADS, K_VARIANT, NULL},
    {K_TOPK, K_EXPERTS, NULL},
    {K_MOE_FFN, K_EXPERTS, NULL},
    {K_MOE_FREQ, K_EXPERTS, NULL},
    {K_BALANCING, K_EXPERTS, NULL},
    {K_ROUTER_DTYPE, K_EXPERTS, NULL},
    {K_GROUPED_GEMM, K_EXPERTS, NULL},
    {K_PERMUTE_FUSION, K_EXPERTS, NULL},
    {K_DISPATCHER, K_EXPERTS, NULL},
    {K_ETP, K_EXPERTS, NULL},
    {K_FLEX, K_DISPATCHER, "flex"},
    {K_FLEX_SMS, K_DISPATCHER, "flex"},
    {K_GROUP_SIZE, K_VPP, NULL},
    {K_OVERLAP_P2P, K_VPP, NULL},
    {K_BATCH_P2P, K_VPP, NULL},
    {K_ALIGN_GATHER, K_VPP, NULL},
    {K_FP8_RECIPE, K_FP8, NULL},
    {K_FP8_HISTORY, K_FP8, NULL},
    {K_FP8_AMAX, K_FP8, NULL},
    {K_FP4_RECIPE, K_FP4, NULL},
    {K_BF16_START, K_BF16_ENDS, NULL},
    {K_BF16_END, K_BF16_ENDS, NULL},
    {K_OPT_OFFLOAD_FRACTION, K_OPT_OFFLOAD, NULL},
    {K_DEFER_LIMIT, K_DEFER_EMBEDDING, NULL},
    {K_SPLIT, K_DATA_PATH, NULL},
};

bool export_matters(const recipe *r, knob_id k)
{
    if (r->knob[k].from == FROM_USER) return true;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (needs[i].k != k) continue;
        value v = r->knob[needs[i].needs].v;
        bool off = v.kind == V_NULL || (v.kind == V_BOOL && !v.flag);
        if (off || (needs[i].word && !recipe_is(r, needs[i].needs, needs[i].word))) return false;
    }
    return true;
}

value export_value(const recipe *r, knob_id k, arena *a)
{
    value v = r->knob[k].v;
    bool yarn = !recipe_on(r, K_MLA) && recipe_is(r, K_ROPE_TYPE, "yarn");
    if (k == K_POSITION && yarn && recipe_is(r, k, "rope")) return value_of_text("yarn");
    if (k != K_WINDOW || v.kind != V_INT) return v;
    value *both = ARENA_ARRAY(a, value, 2);
    both[0] = value_of_int(v.whole - 1);
    both[1] = value_of_int(0);
    return (value){.kind = V_LIST, .list = {both, 2}};
}

bool export_wants_register(const recipe *r)
{
    const char *conf = recipe_word(r, K_ALLOC_CONF);
    return recipe_is(r, K_GRAPHS, "transformer_engine") && conf &&
           text_contains(conf, "expandable_segments:true");
}

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    return *word && word[strspn(word, plain)] == 0;
}

void export_shell_word(textbuf *t, const char *word)
{
    if (is_plain(word)) {
        text_put(t, word, strlen(word));
        return;
    }
    text_put(t, "'", 1);
    for (; *word; word++) {
        if (*word == '\'')
            text_put(t, "'\\''", 4);
        else
            text_put(t, word, 1);
    }
    text_put(t, "'", 1);
}

/* What older YAML and Hydra read as something else beyond what we do: quotes cost nothing. */
bool export_is_word(arena *a, const char *s)
{
    static const char *const others[] = {"y",    "n",    "yes",   "no",  "on", "off",
                                         "null", "true", "false", "nan", "inf"};
    value v;
    error err;
    const char *word = s + (*s == '+' || *s == '-');
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(word, others[i]) == 0) return false;
    return !value_scalar(a, s, &v, &err) && v.kind == V_TEXT;
}

void export_number(textbuf *t, value v)
{
    bool whole = v.kind == V_FLOAT && fabs(v.real) < 1e15 && v.real == floor(v.real);
    value_print(t, whole ? value_of_int((int64_t)v.real) : v);
}

void export_remarks(const recipe *r, textbuf *out)
{
    if (recipe_on(r, K_FORCE_BALANCE))
        text_add(out,
                 "# forced balance is random there, not exact: buffers vary by a few tokens\n");
    if (recipe_has(r, K_BALANCING, "global_aux_loss") && !recipe_on(r, K_GLOBAL_AUX_COMPAT))
        text_add(out,
                 "# Megatron divides the gradient of the global auxiliary loss by DP once more\n");
}

export_nodes export_nodes_of(const recipe *resolved)
{
    int64_t gpus = recipe_int(resolved, K_N_GPUS), per = recipe_int(resolved, K_GPUS_PER_NODE);
    if (gpus < 1) return (export_nodes){0};
    if (per < 1 || per > gpus) per = gpus;
    if (gpus % per) per = gcd64(gpus, per);
    return (export_nodes){gpus / per, per};
}
