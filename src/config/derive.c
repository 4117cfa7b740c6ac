/* derive.c - derives knobs that depend only on other knobs, not on model or layout. */
#include "base/maths.h"
#include "config/bridge_derive.h"
#include "config/judgement.h"
#include "config/megatron.h"
#include "config/precision.h"
#include "config/recipe.h"
#include "config/target.h"

/* Where null asks for the derived value instead of "none". */
static const knob_id derived[] = {
    K_ETP,
    K_SP,
    K_N_GPUS,
    K_GPUS_PER_NODE,
    K_NVLINK,
    K_MBS,
    K_GBS,
    K_SEQ,
    K_MAX_POSITIONS,
    K_VPP,
    K_PP_LAYOUT,
    K_GROUP_SIZE,
    K_OVERLAP_P2P,
    K_BATCH_P2P,
    K_GRAD_OVERLAP,
    K_PARAM_OVERLAP,
    K_ALIGN_GATHER,
    K_TE_RNG,
    K_WD_START,
    K_WD_END,
    K_DATA_SEED,
    K_MOCK_DATA,
    K_BUFFER_FACTOR,
    K_ROUTING_SKEW,
    K_GROUP_SCORE,
    K_TARGET,
    K_ROUTER_NORM,
    K_OPT_OFFLOAD_FRACTION,
    K_RECOMPUTE_MODULES,
    K_KV_HEADS,
    K_HEAD_DIM,
    K_MOE_FFN,
    K_FFN,
    K_BF16,
    K_FP16,
    K_FP8,
    K_FP8_RECIPE,
    K_FP8_HISTORY,
    K_FP8_AMAX,
    K_FP8_PARAMS,
    K_BF16_ENDS,
    K_BF16_START,
    K_BF16_END,
    K_FP4,
    K_FP4_PARAMS,
    K_REUSE_GRAD,
    K_GRAD_FP32,
    K_CONNECTIONS,
    K_PACK_STEP,
};

static void reopen_nulls(recipe *r)
{
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++)
        if (r->knob[derived[i]].v.kind == V_NULL) r->knob[derived[i]].from = FROM_NOTHING;
}

static void derive_recompute(recipe *r)
{
    if (!recipe_is(r, K_RECOMPUTE, "selective")) return;
    value *core = ARENA_NEW(r->a, value);
    *core = value_of_text("core_attn");
    recipe_fill(r, K_RECOMPUTE_MODULES, (value){.kind = V_LIST, .list = {core, 1}}, FROM_DERIVED,
                "Megatron's default for selective recompute");
}

static void derive_dispatcher(recipe *r)
{
    recipe_fill_default(r, K_DISPATCHER);
    if (!recipe_is(r, K_DISPATCHER, "flex") || recipe_is_lm(r)) return;
    int64_t etp = recipe_int(r, K_ETP), ranks = mul_sat(recipe_int(r, K_EP), etp > 0 ? etp : 1);
    const char *why;
    const dispatcher *backend = judge_flex_over(recipe_gpu(r), ranks, &why);
    recipe_fill(r, K_FLEX, value_of_text(backend->name), FROM_DERIVED, "%s", why);
}

/* Megatron trains DeepSeek-V2 with a score of its own, too. What a person asked for stays. */
void recipe_follow_target(recipe *r)
{
    setting *score = &r->knob[K_GROUP_SCORE];
    bool own = score->from == FROM_MODEL && recipe_is(r, K_GROUP_SCORE, "best");
    if (!own || target_of(r) != TARGET_MEGATRON) return;
    score->from = FROM_NOTHING;
    recipe_fill(r, K_GROUP_SCORE, value_of_text("megatron"), FROM_DERIVED,
                "Megatron scores a group by its best topk / group_topk experts; the model's own "
                "score, best, needs moefold.target=moefold");
}

static void derive_router(recipe *r)
{
    recipe_follow_target(r);
    if (recipe_given(r, K_GROUPS))
        recipe_fill(r, K_GROUP_SCORE, value_of_text("megatron"), FROM_DERIVED,
                    "a recipe's own groups follow Megatron: best topk / group_topk experts");
    bool sigmoid = recipe_is(r, K_SCORE, "sigmoid") || recipe_is(r, K_SCORE, "sqrtsoftplus");
    recipe_fill(r, K_ROUTER_NORM, value_of_bool(sigmoid), FROM_DERIVED,
                sigmoid ? "Megatron normalises sigmoid weights"
                        : "softmax scores are not normalised again");
}

static void derive_decay(recipe *r)
{
    recipe_fill_default(r, K_WEIGHT_DECAY);
    recipe_fill(r, K_WD_START, r->knob[K_WEIGHT_DECAY].v, FROM_DERIVED, "optimizer.weight_decay");
    recipe_fill(r, K_WD_END, r->knob[K_WEIGHT_DECAY].v, FROM_DERIVED, "optimizer.weight_decay");
}

static void derive_data(recipe *r)
{
    if (!recipe_is_lm(r)) {
        bool named = recipe_names_data(r);
        recipe_fill(r, K_MOCK_DATA, value_of_bool(!named), FROM_DERIVED,
                    named ? "data files are named" : "unset: dataset.data_path is not set");
    }
    recipe_fill_default(r, K_SEED);
    recipe_fill(r, K_DATA_SEED, r->knob[K_SEED].v, FROM_DERIVED, "rng.seed");
}

void recipe_derive(recipe *r)
{
    reopen_nulls(r);
    megatron_derive(r);
    if (!recipe_is_lm(r)) bridge_derive(r);
    precision_derive(r);
    target_derive(r);
    derive_recompute(r);
    derive_dispatcher(r);
    derive_router(r);
    derive_decay(r);
    derive_data(r);
}

bool recipe_open_layout(recipe *r)
{
    bool given = recipe_given(r, K_PP_LAYOUT);
    recipe_open(r, K_PP_LAYOUT);
    return given;
}

void recipe_keep_stages(recipe *r, int64_t stages)
{
    recipe_fill_default(r, K_PP);
    int64_t pp = recipe_int(r, K_PP);
    if (recipe_given(r, K_PP_LAYOUT) || pp < 1 || stages % pp) return;
    if (!recipe_given(r, K_VPP)) recipe_open(r, K_VPP);
    recipe_fill(r, K_VPP, value_of_int(stages / pp), FROM_DERIVED, "as many stages as before");
}
