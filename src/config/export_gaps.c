/* export_gaps.c - what Megatron-LM or Megatron-Bridge cannot be told, and the nearest they can.
 *
 * Three kinds: what no release of Megatron runs (target.c); knobs without a flag or a key that
 * differ from what the system then takes; pairs of knobs that one flag sets together. */
#include <math.h>
#include <string.h>

#include "config/export.h"
#include "config/export_parts.h"
#include "config/job_of.h"
#include "config/target.h"

typedef struct gap_list {
    export_gap *out;
    int n;
    arena *a;
} gap_list;

static void add_gap(gap_list *g, knob_id k, const char *why, const char *instead)
{
    for (int i = 0; i < g->n; i++)
        if (g->out[i].knob == k) return;
    if (g->n < EXPORT_GAPS_MAX) g->out[g->n++] = (export_gap){k, why, instead};
}

static void gaps_of_target(gap_list *g, const recipe *r)
{
    const target_gap *t;
    job j;
    job_of(&j, r);
    for (int i = 0; (t = target_gap_of(&j, i)); i++) add_gap(g, t->knob, t->why, t->instead);
}

/* ---- Megatron-LM */

static bool loss_is_refused(const recipe *r)
{
    return recipe_on(r, K_CE_FUSION) && recipe_is(r, K_CE_IMPL, "te");
}

knob_id export_follow(recipe *given, const recipe *resolved, knob_system system)
{
    bool open = resolved->knob[K_CE_IMPL].from == FROM_DEFAULT;
    bool changes = system == MEGATRON_LM && open && loss_is_refused(resolved) &&
                   recipe_fill(given, K_CE_IMPL, value_of_text("native"), FROM_DERIVED,
                               "Megatron-LM refuses te since June 2026");
    return changes ? K_CE_IMPL : K_COUNT;
}

/* Knobs without a flag, and why; where the nearest is not the default of Megatron-LM, that too. */
static const struct {
    knob_id k;
    const char *why, *instead;
} no_flag[] = {
    {K_ACTIVATION, "flags exist for SwiGLU, quick GEGLU and plain GELU", NULL},
    {K_GLU, "flags exist for SwiGLU, quick GEGLU and plain GELU", NULL},
    {K_BATCH_P2P, "Megatron-LM batches sends between stages where it does not overlap them",
     "comm_overlap.batch_p2p_comm=null"},
    {K_NAN_LOSS, "one flag turns off the checks of loss and gradient together", NULL},
    {K_NAN_GRAD, "one flag turns off the checks of loss and gradient together", NULL},
    {K_DATA_SEED, "Megatron-LM has one seed for weights and data", "dataset.random_seed=null"},
    {K_ROPE_ORIGINAL, "with MLA the YaRN flags have no effect", NULL},
    {K_ROPE_BETA_FAST, "with MLA the YaRN flags have no effect", NULL},
    {K_ROPE_BETA_SLOW, "with MLA the YaRN flags have no effect", NULL},
    {K_ROPE_TRUNCATE, "with MLA the YaRN flags have no effect", NULL},
    {K_LAYER_OFFLOAD, "--cpu-offloading-num-layers alone turns it on",
     "model.cpu_offloading=false model.cpu_offloading_num_layers=0"},
};

/* Where files are kept and what is printed: named in a comment, no reason to refuse. */
static bool is_housekeeping(knob_id k)
{
    static const char *const sections[] = {"checkpoint.", "logger.", "rerun_state_machine.rerun",
                                           "dataset.mmap", "dataset.num_workers"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (text_starts(knobs[k].key, sections[i])) return true;
    return false;
}

static const char *default_of_lm(knob_id k, arena *a)
{
    return arena_text(a, "%s=%s", knobs[k].key, value_text(a, knob_default(a, k, MEGATRON_LM)));
}

/* SwiGLU is nearest to a gated MLP, plain GELU to one without a gate. */
static const char *nearest_activation(const recipe *r)
{
    return recipe_on(r, K_GLU) ? "model.activation_func=silu" : "model.activation_func=gelu";
}

static void gap_of_flag(gap_list *g, const recipe *r, knob_id k)
{
    const char *why = "Megatron-LM has no flag for it", *instead = NULL;
    for (size_t i = 0; i < sizeof no_flag / sizeof no_flag[0]; i++) {
        if (no_flag[i].k != k) continue;
        why = no_flag[i].why;
        instead = no_flag[i].instead;
    }
    if (k == K_ACTIVATION || k == K_GLU) instead = nearest_activation(r);
    if (k == K_NAN_LOSS || k == K_NAN_GRAD) /* a graph of the step forbids the check of the loss */
        instead = arena_text(g->a, "%s=%s", knobs[K_NAN_GRAD].key,
                             recipe_on(r, K_NAN_LOSS) ? "true" : "false");
    add_gap(g, k, why, instead ? instead : default_of_lm(k, g->a));
}

/* The one flag for it is a whole number. */
static void gap_of_interpolation(gap_list *g, const recipe *r)
{
    double factor = recipe_real(r, K_ROPE_LINEAR);
    if (factor != floor(factor))
        add_gap(g, K_ROPE_LINEAR, "Megatron-LM's flag takes a whole number",
                arena_text(g->a, "%s=%.1f", knobs[K_ROPE_LINEAR].key, ceil(factor)));
}

static void gaps_of_flags(gap_list *g, const recipe *r)
{
    bool unsaid[K_COUNT];
    gap_of_interpolation(g, r);
    if (recipe_on(r, K_QK_NORM) && recipe_on(r, K_QK_NORM_WHOLE) && !recipe_on(r, K_MLA))
        add_gap(g, K_QK_NORM_WHOLE,
                "Megatron-LM norms queries and keys head by head; Megatron-Bridge has such models",
                "moefold.qk_norm_whole=false");
    if (recipe_on(r, K_OPT_OFFLOAD) && !recipe_on(r, K_PRECISION_AWARE))
        add_gap(g, K_OPT_OFFLOAD,
                "Megatron-LM starts it with the precision-aware optimizer alone; Megatron-Bridge "
                "does without",
                "optimizer.use_precision_aware_optimizer=true");
    bool by_rule = recipe_is_lm(r) && target_of(r) == TARGET_MEGATRON; /* te-loss-is-refused */
    if (loss_is_refused(r) && !by_rule)
        add_gap(g, K_CE_IMPL,
                "since June 2026 it refuses Transformer Engine's fused cross entropy as unstable",
                "model.cross_entropy_fusion_impl=native");
    if (export_lm_says(r, unsaid, g->a)) return;
    for (int k = 0; k < K_COUNT; k++)
        if (unsaid[k] && !is_housekeeping((knob_id)k)) gap_of_flag(g, r, (knob_id)k);
}

int export_gaps(const recipe *resolved, knob_system system, export_gap *out, arena *a)
{
    gap_list g = {.out = out, .a = a};
    gaps_of_target(&g, resolved);
    if (system == MEGATRON_LM) gaps_of_flags(&g, resolved);
    return g.n;
}
