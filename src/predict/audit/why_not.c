/* why_not.c - may a program be built of a setup that breaks rules?
 *
 * Most rules speak of kernels, of other systems, of the run: their violation changes nothing in a
 * program. These here are what builders take for granted, sizes that divide above all. */
#include <inttypes.h>

#include "predict/audit/audit.h"
#include "base/maths.h"

static const char *const needed[] = {
    "value-in-range",
    "pipeline-split",
    "world-divides-dense-grid",
    "world-divides-expert-grid",
    "pipeline-groups-agree",
    "optimizer-instances-divide-dp",
    "optimizer-instances-divide-edp",
    "optimizer-instances-need-sharding",
    "moe-tp-needs-sequence-parallel",
    "heads-divide-by-tp",
    "kv-heads-fit-tp",
    "kv-heads-divide-heads",
    "ffn-divides-by-tp",
    "shared-ffn-divides-by-tp",
    "vocabulary-divides-by-tp",
    "experts-divide-by-ep",
    "ep-needs-experts",
    "etp-needs-experts",
    "expert-ffn-divides-by-etp",
    "expert-bias-needs-whole-experts",
    "batch-divides",
    "sequence-divides-by-cp",
    "sequence-divides-by-sp",
    "cp-comm-one-a-layer",
    "cp-levels-multiply-to-cp",
    "cp-has-two-levels",
    "hierarchical-cp-needs-levels",
    "a2a-cp-fits-heads",
    "hierarchical-cp-fits-heads",
    "sinks-need-a2a",
    "hybrid-cp-is-not-here",
    "latent-ring-needs-mla",
    "latent-ring-is-a-ring",
    "gdn-value-heads-divide",
    "gdn-heads-fit-tp-cp",
    "gdn-needs-frequency",
    "norm-is-here",
    "position-is-here",
    "rotary-size-is-even",
    "rotary-latent-is-even",
    "mla-has-no-query-groups",
    "mla-has-no-output-gate",
    "attention-variant-is-here",
    "mla-or-gdn",
    "linear-pattern-is-one",
    "softmax-is-here",
    "window-pattern-is-one",
    "moe-pattern-is-one",
    "topk-within-experts",
    "groups-divide-experts",
    "group-topk-within-groups",
    "groups-hold-topk",
    "balancing-is-here",
    "latent-moe-is-not-here",
    "padding-needs-capacity",
    "dropping-needs-allgather-or-alltoall",
    "flex-needs-a-backend",
    "ncclep-is-not-here",
    "ep-overlap-needs-ep",
    "ep-overlap-needs-experts",
    "ep-overlap-needs-vpp",
    "ep-overlap-excludes-full-recompute",
    "ep-overlap-excludes-moe-recompute",
    "ep-overlap-excludes-shared-overlap",
    "delayed-wgrad-needs-ep-overlap",
    "vpp-needs-pp",
    "two-stages-need-p2p-overlap",
    "one-prediction-module",
    "prediction-position",
    "full-recompute-is-complete",
    "prediction-under-uniform",
};

enum { VISITS_MAX = 1 << 22 }; /* of layers by microbatches, in a step of a rank */

static bool is_needed(const char *id)
{
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (text_equal(needed[i], id)) return true;
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
                      knobs[K_OPTIMIZER].key, recipe_word(&s->r, K_OPTIMIZER),
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
        if (v->rule->severity == ERROR && is_needed(v->rule->id))
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
