/* target.c - the tables of what Megatron has no word for, and of what our runtime does not do yet.
 *
 * I1  Rows of one knob exclude each other: a recipe meets a gap once. */
#include "config/target.h"

#include <string.h>

#include "base/maths.h"
#include "config/megatron_table.h"
#include "config/versions.h"
#include "job/job.h"

static bool rings_latents(const job *j)
{
    return j->latent_ring && j->mla;
}

/* Can all-to-all stand in? Not before Transformer Engine 2.15 (rule mla-needs-a-ring). */
static bool heads_divide(const job *j)
{
    if (version_is(j, "te", "", "2.15")) return false;
    int64_t shards = mul_sat(j->tp, j->cp);
    return j->cp > 1 && shards > 0 && j->kv_heads % shards == 0;
}

static bool latent_where_heads_divide(const job *j)
{
    return rings_latents(j) && heads_divide(j);
}

static bool latent_where_they_do_not(const job *j)
{
    return rings_latents(j) && !heads_divide(j);
}

static bool biases_of_attention_alone(const job *j)
{
    return j->attn_bias && !j->linear_bias;
}

static bool biases_of_mlps_alone(const job *j)
{
    return j->mlp_bias_alone && j->linear_bias;
}

static bool blends_below(const job *j)
{
    return j->llama3_rope && j->llama3_low != 1;
}

static bool blends_above(const job *j)
{
    return j->llama3_rope && j->llama3_high != 4;
}

static bool was_trained_otherwise(const job *j)
{
    return j->llama3_rope && j->rope_trained != 8192;
}

static bool raises_the_base(const job *j)
{
    return job_has(j, K_ROPE_DYNAMIC) && j->seq > j->rope_trained;
}

static bool divides_positions_of_latents(const job *j)
{
    return job_has(j, K_ROPE_LINEAR) && j->mla;
}

static bool scales_latents_as_llama(const job *j)
{
    return j->llama3_rope && j->mla;
}

static bool rotates_halves(const job *j)
{
    return j->rope_halves && j->mla;
}

/* The best of a group, or its two best, are its best topk / group_topk where that is 1, or 2. */
static bool scores_otherwise(const job *j)
{
    bool two = j->group_score == J_GROUP_SCORE_BEST_TWO, one = j->group_score == J_GROUP_SCORE_BEST;
    int64_t allowed = j->group_topk, scored = allowed ? j->topk / allowed : 0;
    return j->groups > allowed && ((two && scored != 2) || (one && scored != 1));
}

static bool softmax(const job *j)
{
    return j->score == J_SCORE_SOFTMAX;
}

static bool renormalises_softmax(const job *j)
{
    return j->router_norm && softmax(j) && j->pre_softmax && j->topk > 1;
}

static bool leaves_sigmoid_alone(const job *j)
{
    return job_has(j, K_EXPERTS) && !j->router_norm && !softmax(j) && j->topk > 1;
}

static bool has_no_optimizer(const job *j)
{
    return j->optimizer == J_OPTIMIZER_NONE;
}

static bool cuts_the_sequence(const job *j)
{
    return j->sequence_chunks > 1;
}

static bool groups_heads(const job *j)
{
    return job_has(j, K_HEAD_GROUPS) && j->head_groups > 1;
}

static bool packs_steps(const job *j)
{
    return j->pack_step;
}

/* For Megatron itself rules say it (mxfp8-needs-blackwell, nvfp4-needs-blackwell). */
static bool multiplies_by_reference(const job *j)
{
    return job_is_ours(j) && target_by_reference(j);
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

bool target_by_reference(const job *j)
{
    const bool mx = job_has(j, K_FP8) && j->fp8_recipe == J_FP8_RECIPE_MXFP8;
    return j->machine && j->machine->arch == ARCH_HOPPER && (mx || job_has(j, K_FP4));
}

void target_derive(recipe *r)
{
    bool ours = target_of(r) == TARGET_MOEFOLD;
    recipe_fill(r, K_TARGET, value_of_text(ours ? "moefold" : "megatron"), FROM_DERIVED,
                ours ? "unset: Megatron does not run on CPUs"
                     : "unset: the target on GPUs is Megatron");
}

const target_gap *target_gap_of(const job *j, int i)
{
    for (int g = 0; g < N_GAPS; g++)
        if (gaps[g].asked(j) && i-- == 0) return &gaps[g];
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

bool target_overlaps_tp(const job *j)
{
    return job_is_ours(j) || !j->mla;
}

bool target_has(const job *j, knob_id k)
{
    if (job_is_ours(j)) return true;
    for (int g = 0; g < N_GAPS; g++)
        if (gaps[g].knob == k) return false;
    return true;
}

bool target_has_cp(const job *j, const cp_traits *k)
{
    return !k->latent || (j->mla && target_has(j, K_LATENT_RING));
}
