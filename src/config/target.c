/* target.c - the tables of what Megatron has no word for, and of what our runtime does not do yet.
 *
 * I1  Rows of one knob exclude each other: a recipe meets a gap once. */
#include "config/target.h"

#include <string.h>

#include "base/maths.h"
#include "config/megatron_table.h"
#include "config/versions.h"

static bool rings_latents(const recipe *r)
{
    return recipe_on(r, K_LATENT_RING) && recipe_on(r, K_MLA);
}

/* Can all-to-all stand in? Not before Transformer Engine 2.15 (rule mla-needs-a-ring). */
static bool heads_divide(const recipe *r)
{
    if (recipe_version_is(r, "te", "", "2.15")) return false;
    int64_t shards = mul_sat(recipe_int(r, K_TP), recipe_int(r, K_CP));
    return recipe_int(r, K_CP) > 1 && shards > 0 && recipe_int(r, K_KV_HEADS) % shards == 0;
}

static bool latent_where_heads_divide(const recipe *r)
{
    return rings_latents(r) && heads_divide(r);
}

static bool latent_where_they_do_not(const recipe *r)
{
    return rings_latents(r) && !heads_divide(r);
}

static bool biases_of_attention_alone(const recipe *r)
{
    return recipe_on(r, K_ATTN_BIAS) && !recipe_on(r, K_LINEAR_BIAS);
}

static bool biases_of_mlps_alone(const recipe *r)
{
    return recipe_on(r, K_MLP_BIAS_ALONE) && recipe_on(r, K_LINEAR_BIAS);
}

static bool blends_below(const recipe *r)
{
    return recipe_on(r, K_LLAMA3_ROPE) && recipe_real(r, K_LLAMA3_LOW) != 1;
}

static bool blends_above(const recipe *r)
{
    return recipe_on(r, K_LLAMA3_ROPE) && recipe_real(r, K_LLAMA3_HIGH) != 4;
}

static bool was_trained_otherwise(const recipe *r)
{
    return recipe_on(r, K_LLAMA3_ROPE) && recipe_int(r, K_ROPE_TRAINED) != 8192;
}

static bool raises_the_base(const recipe *r)
{
    return recipe_given(r, K_ROPE_DYNAMIC) && recipe_int(r, K_SEQ) > recipe_int(r, K_ROPE_TRAINED);
}

static bool divides_positions_of_latents(const recipe *r)
{
    return recipe_given(r, K_ROPE_LINEAR) && recipe_on(r, K_MLA);
}

static bool scales_latents_as_llama(const recipe *r)
{
    return recipe_on(r, K_LLAMA3_ROPE) && recipe_on(r, K_MLA);
}

static bool rotates_halves(const recipe *r)
{
    return recipe_on(r, K_ROPE_HALVES) && recipe_on(r, K_MLA);
}

/* The best of a group, or its two best, are its best topk / group_topk where that is 1, or 2. */
static bool scores_otherwise(const recipe *r)
{
    bool two = recipe_is(r, K_GROUP_SCORE, "best_two"), one = recipe_is(r, K_GROUP_SCORE, "best");
    int64_t allowed = recipe_int(r, K_GROUP_TOPK),
            scored = allowed ? recipe_int(r, K_TOPK) / allowed : 0;
    return recipe_int(r, K_GROUPS) > allowed && ((two && scored != 2) || (one && scored != 1));
}

static bool softmax(const recipe *r)
{
    return recipe_is(r, K_SCORE, "softmax");
}

static bool renormalises_softmax(const recipe *r)
{
    return recipe_on(r, K_ROUTER_NORM) && softmax(r) && recipe_on(r, K_PRE_SOFTMAX) &&
           recipe_int(r, K_TOPK) > 1;
}

static bool leaves_sigmoid_alone(const recipe *r)
{
    return recipe_given(r, K_EXPERTS) && !recipe_on(r, K_ROUTER_NORM) && !softmax(r) &&
           recipe_int(r, K_TOPK) > 1;
}

static bool has_no_optimizer(const recipe *r)
{
    return recipe_is(r, K_OPTIMIZER, "none");
}

static bool cuts_the_sequence(const recipe *r)
{
    return recipe_int(r, K_SEQUENCE_CHUNKS) > 1;
}

static bool groups_heads(const recipe *r)
{
    return recipe_given(r, K_HEAD_GROUPS) && recipe_int(r, K_HEAD_GROUPS) > 1;
}

static bool packs_steps(const recipe *r)
{
    return recipe_on(r, K_PACK_STEP);
}

/* For Megatron itself rules say it (mxfp8-needs-blackwell, nvfp4-needs-blackwell). */
static bool multiplies_by_reference(const recipe *r)
{
    return target_of(r) == TARGET_MOEFOLD && target_by_reference(r);
}

static const target_gap gaps[] = {
    {K_OPTIMIZER, "Megatron does not train without an optimizer", "optimizer.optimizer=adam",
     has_no_optimizer},
    {K_LATENT_RING,
     "Megatron's CP ring carries expanded keys and values; here all-to-all is nearest",
     "moefold.mla_latent_ring=false model.cp_comm_type=a2a", latent_where_heads_divide},
    {K_LATENT_RING, "Megatron's CP ring carries expanded keys and values",
     "moefold.mla_latent_ring=false", latent_where_they_do_not},
    {K_SEQUENCE_CHUNKS, "Megatron's MLPs and experts take all tokens at once",
     "moefold.sequence_chunks=1", cuts_the_sequence},
    {K_HEAD_GROUPS, "Megatron's attention takes all heads at once",
     "moefold.attention_head_groups=null", groups_heads},
    {K_PACK_STEP, "torch's allocator places tensors at run time", "moefold.pack_step=false",
     packs_steps},
    {K_ATTN_BIAS, "Megatron has a bias in all linear layers, or in the QKV projection alone",
     "moefold.attention_bias=false model.add_qkv_bias=true", biases_of_attention_alone},
    {K_MLP_BIAS_ALONE, "Megatron has a bias in all linear layers, or in the QKV projection alone",
     "moefold.mlp_bias_alone=false", biases_of_mlps_alone},
    {K_LLAMA3_LOW, "Megatron has Llama 3.1's value built in", "moefold.rope_low_freq_factor=1.0",
     blends_below},
    {K_LLAMA3_HIGH, "Megatron has Llama 3.1's value built in", "moefold.rope_high_freq_factor=4.0",
     blends_above},
    {K_ROPE_TRAINED, "Megatron has Llama 3.1's value built in", "moefold.rope_trained_length=8192",
     was_trained_otherwise},
    {K_ROPE_DYNAMIC, "Megatron has one base for sequences of any length",
     "moefold.rope_dynamic_factor=null", raises_the_base},
    {K_ROPE_LINEAR, "Megatron's MLA does not divide positions",
     "model.seq_len_interpolation_factor=null", divides_positions_of_latents},
    {K_LLAMA3_ROPE, "Megatron's MLA does not have Llama 3.1's scaling", "model.rope_scaling=false",
     scales_latents_as_llama},
    {K_ROPE_HALVES,
     "Megatron's MLA rotates pairs; weights trained with halves need their rotary rows permuted",
     "moefold.mla_rotate_halves=false", rotates_halves},
    {K_GROUP_SCORE, "Megatron scores a group by its best topk / group_topk experts",
     "moefold.moe_router_group_score=megatron", scores_otherwise},
    {K_ROUTER_NORM, "Megatron normalises softmax weights by softmax after top-k, which is the same",
     "moefold.moe_router_renormalize=null model.moe_router_pre_softmax=false",
     renormalises_softmax},
    {K_ROUTER_NORM, "Megatron always normalises the chosen sigmoid weights",
     "moefold.moe_router_renormalize=true", leaves_sigmoid_alone},
    {K_PRECISION, "Transformer Engine has MXFP8 and NVFP4 GEMMs on Blackwell alone",
     "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed", multiplies_by_reference},
};
enum { N_GAPS = sizeof gaps / sizeof gaps[0] };

target target_of(const recipe *r)
{
    if (recipe_given(r, K_TARGET))
        return recipe_is(r, K_TARGET, "moefold") ? TARGET_MOEFOLD : TARGET_MEGATRON;
    bool host = recipe_on_cpu(r);
    return host ? TARGET_MOEFOLD : TARGET_MEGATRON;
}

bool target_by_reference(const recipe *r)
{
    const gpu *g = recipe_gpu(r);
    const bool mx = recipe_given(r, K_FP8) && recipe_is(r, K_FP8_RECIPE, "mxfp8");
    return g && g->arch == ARCH_HOPPER && (mx || recipe_given(r, K_FP4));
}

void target_derive(recipe *r)
{
    bool ours = target_of(r) == TARGET_MOEFOLD;
    recipe_fill(r, K_TARGET, value_of_text(ours ? "moefold" : "megatron"), FROM_DERIVED,
                ours ? "unset: Megatron does not run on CPUs"
                     : "unset: the target on GPUs is Megatron");
}

const target_gap *target_gap_of(const recipe *resolved, int i)
{
    for (int g = 0; g < N_GAPS; g++)
        if (gaps[g].asked(resolved) && i-- == 0) return &gaps[g];
    return NULL;
}

/* The i-th knob with a value that is not run; K_COUNT: no more. */
static knob_id knob_not_run(const recipe *r, int *i)
{
    for (int k = 0; k < K_COUNT; k++)
        if (!knob_is_run((knob_id)k, r->knob[k].v) && (*i)-- == 0) return (knob_id)k;
    return K_COUNT;
}

static const char *first_of(const char *words, arena *a)
{
    return *words ? arena_copy(a, words, strcspn(words, "|")) : "null";
}

bool target_lack_of(const recipe *resolved, int i, target_lack *out, arena *a)
{
    knob_id k = knob_not_run(resolved, &i);
    if (k < K_COUNT) {
        const setting *s = &resolved->knob[k];
        bool asked = s->from == FROM_USER || s->from == FROM_MODEL;
        *out = (target_lack){knobs[k].key, value_text(a, s->v), s->why, knobs[k].only, asked};
        return true;
    }
    if (i >= resolved->n_ignored) return false;
    const ignored_option *o = &resolved->ignored[i];
    *out = (target_lack){o->name, o->text, o->where, first_of(o->option->harmless, a), true};
    return true;
}

bool target_overlaps_tp(const recipe *r)
{
    return target_of(r) == TARGET_MOEFOLD || !recipe_on(r, K_MLA);
}

bool target_has(const recipe *r, knob_id k)
{
    if (target_of(r) == TARGET_MOEFOLD) return true;
    for (int g = 0; g < N_GAPS; g++)
        if (gaps[g].knob == k) return false;
    return true;
}
