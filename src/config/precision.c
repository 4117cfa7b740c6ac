/* precision.c - the table of precision recipes. */
#include "config/precision.h"

typedef struct precision {
    const char *name;
    bool bf16, fp16;
    const char *fp8, *scaling; /* format and recipe of FP8 GEMMs */
    int history;               /* delayed scaling */
    const char *amax;
    bool fp8_params, bf16_ends;
    const char *fp4;
    bool fp4_params, reuse_grad;
} precision;

static const precision table[] = {
    {.name = "fp32"},
    {.name = "bf16_mixed", .bf16 = true},
    {.name = "fp16_mixed", .fp16 = true},
    {.name = "bf16_with_fp8_delayed_scaling_mixed",
     .bf16 = true,
     .fp8 = "hybrid",
     .scaling = "delayed",
     .history = 1024,
     .amax = "max",
     .fp8_params = true},
    {.name = "bf16_with_fp8_current_scaling_mixed",
     .bf16 = true,
     .fp8 = "hybrid",
     .scaling = "tensorwise",
     .fp8_params = true,
     .bf16_ends = true},
    {.name = "bf16_with_fp8_subchannel_scaling_mixed",
     .bf16 = true,
     .fp8 = "hybrid",
     .scaling = "blockwise"},
    {.name = "bf16_with_mxfp8_mixed",
     .bf16 = true,
     .fp8 = "e4m3",
     .scaling = "mxfp8",
     .fp8_params = true,
     .reuse_grad = true},
    {.name = "bf16_with_nvfp4_mixed", .bf16 = true, .fp4 = "e2m1", .fp4_params = true},
};
enum { N_PRECISIONS = sizeof table / sizeof table[0] };

static const knob_id implied[] = {
    K_BF16,      K_FP16,       K_FP8,      K_FP8_RECIPE, K_FP8_HISTORY, K_FP8_AMAX,   K_FP8_PARAMS,
    K_BF16_ENDS, K_BF16_START, K_BF16_END, K_FP4,        K_FP4_PARAMS,  K_REUSE_GRAD, K_GRAD_FP32};
enum { N_IMPLIED = sizeof implied / sizeof implied[0] };

static const precision *find(const char *name)
{
    for (int i = 0; i < N_PRECISIONS; i++)
        if (text_equal(table[i].name, name)) return &table[i];
    return NULL;
}

static value word_or_null(const char *word)
{
    return word ? value_of_text(word) : (value){.kind = V_NULL};
}

bool precision_implies(const char *name, knob_id k, value *out)
{
    const precision *p = find(name);
    if (!p) return false;
    switch ((int)k) {
    case K_BF16:
        *out = value_of_bool(p->bf16);
        return true;
    case K_FP16:
        *out = value_of_bool(p->fp16);
        return true;
    case K_FP8:
        *out = word_or_null(p->fp8);
        return true;
    case K_FP8_RECIPE:
        *out = word_or_null(p->scaling);
        return true;
    case K_FP8_HISTORY:
        *out = value_of_int(p->history ? p->history : 1);
        return true;
    case K_FP8_AMAX:
        *out = value_of_text(p->amax ? p->amax : "most_recent");
        return true;
    case K_FP8_PARAMS:
        *out = value_of_bool(p->fp8_params);
        return true;
    case K_BF16_ENDS:
        *out = value_of_bool(p->bf16_ends);
        return true;
    case K_BF16_START:
    case K_BF16_END:
        *out = value_of_int(p->bf16_ends);
        return true;
    case K_FP4:
        *out = word_or_null(p->fp4);
        return true;
    case K_FP4_PARAMS:
        *out = value_of_bool(p->fp4_params);
        return true;
    case K_REUSE_GRAD:
        *out = value_of_bool(p->reuse_grad);
        return true;
    case K_GRAD_FP32:
        *out = value_of_bool(true);
        return true;
    default:
        return false;
    }
}

/* Null says "no" to a switch. */
static bool agree(value said, value has)
{
    if (has.kind == V_BOOL && said.kind == V_NULL) return !has.flag;
    return value_equal(said, has);
}

static bool is_format(knob_id k)
{
    return k == K_BF16 || k == K_FP16 || k == K_FP8 || k == K_FP8_RECIPE || k == K_FP4;
}

int precision_contradicted(const recipe *r, value *has)
{
    for (int i = 0; i < N_IMPLIED; i++) {
        knob_id k = implied[i];
        if (is_format(k) && recipe_by_user(r, k) &&
            precision_implies(recipe_word(r, K_PRECISION), k, has) && !agree(r->knob[k].v, *has))
            return (int)k;
    }
    return -1;
}

/* Formats must agree with the name; what narrow formats bring along (weights in FP8, ...) must only
 * go where the name has none. */
const char *precision_overrides(const recipe *r, const char *name, arena *a)
{
    textbuf t = text_init(a);
    text_add(&t, "PRECISION=%s", name);
    for (knob_id k = K_BF16; k <= K_GRAD_FP32; k++) {
        value has;
        if (!recipe_by_user(r, k) || !precision_implies(name, k, &has)) continue;
        bool goes = has.kind == V_BOOL && !has.flag && k != K_GRAD_FP32;
        if ((is_format(k) || goes) && !value_equal(r->knob[k].v, has))
            text_add(&t, " %s=%s", knobs[k].id, value_text(a, has));
    }
    return t.s;
}

/* Which recipe has these parts? The first row that agrees in weights and GEMMs. */
static const char *name_of_parts(const recipe *r)
{
    bool narrow = recipe_given(r, K_FP8) || recipe_given(r, K_FP4);
    bool bf16 = recipe_on(r, K_BF16) || (narrow && !recipe_on(r, K_FP16));
    for (int i = 0; i < N_PRECISIONS; i++) {
        const precision *p = &table[i];
        if (p->bf16 != bf16 || p->fp16 != recipe_on(r, K_FP16)) continue;
        if ((p->fp8 != NULL) != recipe_given(r, K_FP8)) continue;
        if ((p->fp4 != NULL) != recipe_given(r, K_FP4)) continue;
        const char *scaling = recipe_word(r, K_FP8_RECIPE);
        if (p->fp8 && !text_equal(p->scaling, scaling ? scaling : "tensorwise")) continue;
        return p->name;
    }
    return "bf16_mixed";
}

static bool parts_given(const recipe *r)
{
    return recipe_given(r, K_BF16) || recipe_given(r, K_FP16) || recipe_given(r, K_FP8) ||
           recipe_given(r, K_FP4);
}

void precision_derive(recipe *r)
{
    recipe_fill_default(r, K_GPU);
    if (recipe_is_lm(r) && !recipe_given(r, K_PRECISION))
        for (int i = 0; i < N_IMPLIED; i++) recipe_fill_default(r, implied[i]);
    if (r->knob[K_PRECISION].v.kind == V_NULL) r->knob[K_PRECISION].from = FROM_NOTHING;
    if (parts_given(r))
        recipe_fill(r, K_PRECISION, value_of_text(name_of_parts(r)), FROM_DERIVED,
                    "derived from the mixed_precision.* knobs that were given");
    bool cpu = recipe_on_cpu(r);
    recipe_fill(r, K_PRECISION, value_of_text(cpu ? "fp32" : "bf16_mixed"), FROM_DERIVED,
                cpu ? "unset: FP32 is the fastest on CPUs" : "unset: BF16 is the default on GPUs");
    const char *name = recipe_word(r, K_PRECISION);
    value v;
    for (int i = 0; i < N_IMPLIED; i++)
        if (precision_implies(name, implied[i], &v))
            recipe_fill(r, implied[i], v, FROM_DERIVED, "mixed_precision=%s", name);
}
