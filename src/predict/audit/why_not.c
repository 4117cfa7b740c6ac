/* why_not.c - may a program be built of a setup that breaks rules?
 *
 * Most rules speak of kernels, of other systems, of the run: their violation changes nothing in a
 * program. These here are what builders take for granted, sizes that divide above all. */
#include <inttypes.h>

#include "predict/audit/audit.h"
#include "base/maths.h"

static const rule_number needed[] = {
    RULE_value_in_range,
    RULE_pipeline_split,
    RULE_world_divides_dense_grid,
    RULE_world_divides_expert_grid,
    RULE_pipeline_groups_agree,
    RULE_optimizer_instances_divide_dp,
    RULE_optimizer_instances_divide_edp,
    RULE_optimizer_instances_need_sharding,
    RULE_moe_tp_needs_sequence_parallel,
    RULE_heads_divide_by_tp,
    RULE_kv_heads_fit_tp,
    RULE_kv_heads_divide_heads,
    RULE_ffn_divides_by_tp,
    RULE_shared_ffn_divides_by_tp,
    RULE_vocabulary_divides_by_tp,
    RULE_experts_divide_by_ep,
    RULE_ep_needs_experts,
    RULE_etp_needs_experts,
    RULE_expert_ffn_divides_by_etp,
    RULE_expert_bias_needs_whole_experts,
    RULE_batch_divides,
    RULE_sequence_divides_by_cp,
    RULE_sequence_divides_by_sp,
    RULE_cp_comm_one_a_layer,
    RULE_cp_levels_multiply_to_cp,
    RULE_cp_has_two_levels,
    RULE_hierarchical_cp_needs_levels,
    RULE_a2a_cp_fits_heads,
    RULE_hierarchical_cp_fits_heads,
    RULE_sinks_need_a2a,
    RULE_hybrid_cp_is_not_here,
    RULE_latent_ring_needs_mla,
    RULE_latent_ring_is_a_ring,
    RULE_gdn_value_heads_divide,
    RULE_gdn_heads_fit_tp_cp,
    RULE_gdn_needs_frequency,
    RULE_norm_is_here,
    RULE_position_is_here,
    RULE_rotary_size_is_even,
    RULE_rotary_latent_is_even,
    RULE_mla_has_no_query_groups,
    RULE_mla_has_no_output_gate,
    RULE_attention_variant_is_here,
    RULE_mla_or_gdn,
    RULE_linear_pattern_is_one,
    RULE_softmax_is_here,
    RULE_window_pattern_is_one,
    RULE_moe_pattern_is_one,
    RULE_topk_within_experts,
    RULE_groups_divide_experts,
    RULE_group_topk_within_groups,
    RULE_groups_hold_topk,
    RULE_balancing_is_here,
    RULE_latent_moe_is_not_here,
    RULE_padding_needs_capacity,
    RULE_dropping_needs_allgather_or_alltoall,
    RULE_flex_needs_a_backend,
    RULE_ncclep_is_not_here,
    RULE_ep_overlap_needs_ep,
    RULE_ep_overlap_needs_experts,
    RULE_ep_overlap_needs_vpp,
    RULE_ep_overlap_excludes_full_recompute,
    RULE_ep_overlap_excludes_moe_recompute,
    RULE_ep_overlap_excludes_shared_overlap,
    RULE_delayed_wgrad_needs_ep_overlap,
    RULE_vpp_needs_pp,
    RULE_two_stages_need_p2p_overlap,
    RULE_one_prediction_module,
    RULE_prediction_position,
    RULE_full_recompute_is_complete,
    RULE_prediction_under_uniform,
};

enum { VISITS_MAX = 1 << 22 }; /* of layers by microbatches, in a step of a rank */

static bool is_needed(rule_number n)
{
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i] == n) return true;
    return false;
}

/* Rules know them; what they hold and do in a step nothing here describes. */
const char *audit_not_known(const setup *s, arena *a)
{
    if (s->j.fsdp || s->j.torch_fsdp) {
        const char *key = knobs[s->j.fsdp ? K_FSDP : K_TORCH_FSDP].key;
        return arena_text(a, "%s=true: memory and time under FSDP are not known; repair: %s=false",
                          key, key);
    }
    if (s->j.optimizer == J_OPTIMIZER_ADAM || s->j.optimizer == J_OPTIMIZER_MUON ||
        s->j.optimizer == J_OPTIMIZER_NONE)
        return NULL;
    return arena_text(a, "%s=%s: memory and time are known for adam and muon only; repair: %s=adam",
                      knobs[K_OPTIMIZER].key, recipe_shown(&s->r, K_OPTIMIZER, a),
                      knobs[K_OPTIMIZER].key);
}

const char *audit_why_not(const setup *s, arena *a)
{
    violations found;
    rules_check(&found, s, false, a);
    return audit_why_not_of(s, &found, a);
}

const char *audit_why_not_of(const setup *s, const violations *found, arena *a)
{
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        if (v->rule->severity == ERROR && is_needed(v->rule->number))
            return arena_text(a, "%s: %s", v->rule->id, v->message);
    }
    const char *not_known = audit_not_known(s, a);
    if (not_known) return not_known;
    if (!s->possible) return "the sizes allow no layout";
    if (s->pipe.why_not) return s->pipe.why_not;
    int64_t micros = s->j.gbs / (s->j.mbs * s->lay.dp);
    int64_t layers = ceil_div(s->m.n_layers, s->pipe.pp) + 4 * s->pipe.vpp;
    if (mul_sat(micros, layers) > VISITS_MAX)
        return arena_text(a,
                          "train.global_batch_size=%" PRId64 ": %" PRId64
                          " microbatches per rank and step are more than can be built",
                          s->j.gbs, micros);
    return NULL;
}
