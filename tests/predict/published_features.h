/* published_features.h - a row while it becomes a recipe, and its features: precision, dispatcher,
 * recompute, graphs, overlap, offload, and what its source sets everywhere or in one recipe. */
#ifndef TESTS_PREDICT_PUBLISHED_FEATURES_H
#define TESTS_PREDICT_PUBLISHED_FEATURES_H

#include <inttypes.h>

#include "predict/csv.h"
#include "rules/rules.h"

enum { OVERRIDES_MAX = 96 };

/* A row while it becomes a recipe. */
typedef struct published {
    const csv *t;
    int row;
    arena *a;
    const char *why_not;                      /* NULL: it is one */
    const char *overrides[OVERRIDES_MAX + 1]; /* key=value, NULL-terminated */
    int n;
} published;

static inline const char *published_cell(const published *p, const char *column)
{
    return csv_cell(p->t, p->row, column);
}

static inline void published_set(published *p, const char *assignment)
{
    if (p->n < OVERRIDES_MAX) p->overrides[p->n++] = assignment;
}

static inline void published_sets(published *p, const char *words)
{
    for (const char *w = words + strspn(words, " "); *w;) {
        size_t n = strcspn(w, " ");
        published_set(p, arena_copy(p->a, w, n));
        w += n + strspn(w + n, " ");
    }
}

static inline bool published_notes(const published *p, const char *words)
{
    return text_contains(published_cell(p, "notes"), words);
}

static inline bool published_from(const published *p, const char *source)
{
    return text_starts(published_cell(p, "id"), source);
}

/* Megatron-Bridge's benchmark recipes, from which its tables and verification cards come. */
static inline bool published_bridge(const published *p)
{
    return published_from(p, "MB-") || published_from(p, "VC-") || published_from(p, "SK-Q30-OV-");
}

/* ---- features */

static inline void published_precision(published *p)
{
    static const char *const words[][2] = {
        {"BF16", "bf16"},  {"MXFP8", "mxfp8"},   {"FP8-MX", "mxfp8"},   {"NVFP4", "nvfp4"},
        {"FP8", "fp8_cs"}, {"FP8-CS", "fp8_cs"}, {"FP8-BLK", "fp8_sc"}, {"FP8-DS", "fp8_ds"},
    };
    const char *name = published_cell(p, "precision"), *ours = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i][0], name) == 0) ours = words[i][1];
    if (!ours) {
        p->why_not = *name ? arena_text(p->a, "precision '%s'", name) : "precision not published";
        return;
    }
    published_set(p, arena_text(p->a, "mixed_precision=%s", ours));
    /* Bridge's benchmarks keep no layer in BF16. */
    if (strcmp(ours, "fp8_cs") == 0)
        published_set(p, "mixed_precision.first_last_layers_bf16=false");
}

static inline void published_dispatcher(published *p)
{
    const char *name = published_cell(p, "dispatcher");
    if (strcmp(name, "hybridep") == 0 || strcmp(name, "deepep") == 0) {
        published_set(p, "model.moe_token_dispatcher_type=flex");
        published_set(p, arena_text(p->a, "model.moe_flex_dispatcher_backend=%s", name));
        if (*name == 'h') published_set(p, "model.moe_flex_dispatcher_num_sms=32");
    } else if (*name && strcmp(name, "alltoall") != 0)
        p->why_not = arena_text(p->a, "dispatcher '%s'", name);
}

/* "a+b" -> "[a,b]" */
static inline const char *published_list(const published *p, const char *words)
{
    char *list = arena_text(p->a, "[%s]", words);
    for (char *c = list; *c; c++)
        if (*c == '+') *c = ',';
    return list;
}

static inline void published_recompute(published *p)
{
    const char *name = published_cell(p, "recompute");
    if (!*name || strcmp(name, "none") == 0) return;
    if (strcmp(name, "full") == 0) {
        published_sets(p, "model.recompute_granularity=full model.recompute_method=uniform "
                          "model.recompute_num_layers=1");
        return;
    }
    published_set(p, "model.recompute_granularity=selective");
    published_set(p, arena_text(p->a, "model.recompute_modules=%s", published_list(p, name)));
}

static inline double published_rank_capacity(const published *p)
{
    const char *at = strstr(published_cell(p, "notes"), "rank capacity ");
    return at ? strtod(at + strlen("rank capacity "), NULL) : 1.5;
}

static inline void published_graphs(published *p)
{
    const char *name = published_cell(p, "cuda_graph");
    if (!*name || strcmp(name, "off") == 0) return;
    if (strcmp(name, "full_iteration") == 0) {
        published_sets(p, "model.cuda_graph_impl=full_iteration model.moe_paged_stash=true "
                          "model.use_transformer_engine_op_fuser=true");
        published_set(p, arena_text(p->a, "model.moe_expert_rank_capacity_factor=%g",
                                    published_rank_capacity(p)));
        return;
    }
    const char *modules = text_starts(name, "TE:") ? name + 3 : "attn+moe_router+moe_preprocess";
    published_set(p, "model.cuda_graph_impl=transformer_engine");
    published_set(p, arena_text(p->a, "model.cuda_graph_modules=%s", published_list(p, modules)));
}

static inline void published_overlap(published *p)
{
    if (strcmp(published_cell(p, "overlap_ep"), "on") != 0) return;
    published_set(p, "comm_overlap.overlap_moe_expert_parallel_comm=true");
    if (!published_notes(p, "delay_wgrad off"))
        published_set(p, "comm_overlap.delay_wgrad_compute=true");
}

static inline void published_offload(published *p)
{
    const char *name = published_cell(p, "offload");
    if (!*name || strcmp(name, "none") == 0) return;
    if (text_starts(name, "optimizer CPU")) {
        double percent = strtod(name + strcspn(name, "0123456789"), NULL);
        published_sets(p, "optimizer.use_precision_aware_optimizer=true "
                          "optimizer.optimizer_cpu_offload=true");
        if (percent > 0)
            published_set(
                p, arena_text(p->a, "optimizer.optimizer_offload_fraction=%g", percent / 100));
    } else if (text_starts(name, "expert_fc1")) {
        const char *modules = arena_copy(p->a, name, strcspn(name, " "));
        published_set(p, "model.fine_grained_activation_offloading=true");
        published_set(p, arena_text(p->a, "model.offload_modules=%s", published_list(p, modules)));
    } else
        p->why_not = arena_text(p->a, "offload '%s'", name);
}

/* ---- what sources do not print in their tables */

/* Settings of single recipes, read in the recipe that the row names. */
static inline void published_own(published *p)
{
    static const char *const own[][2] = {
        /* Megatron-LM examples/moe_recipes: neither gradients nor weights travel beside compute */
        {"MLR-Q30-GB200-", "ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false"},
        {"MLR2-Q30-GB200-", "ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false"},
        {"MLR-Q235-H100", "ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false"},
        {"MLR2-Q235-H100", "ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false"},
        {"MLR-Q30-GB200-MX", "mixed_precision.fp8_param_gather=false "
                             "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false"},
        {"MLR-Q30-H100-FP8", "mixed_precision.fp8_param_gather=true"},
        {"MLR2-Q30-H100-FP8", "mixed_precision.fp8_param_gather=true"},
        /* Megatron-Bridge v0.6.0 perf_recipes/qwen/common.py: every MXFP8 recipe with graphs of the
         * full iteration overlaps EP and delays weight gradients; its tables print neither */
        {"MB-26.08-Qwen3_", "comm_overlap.overlap_moe_expert_parallel_comm=true "
                            "comm_overlap.delay_wgrad_compute=true"},
        {"VC-Q30-GB", "comm_overlap.overlap_moe_expert_parallel_comm=true "
                      "comm_overlap.delay_wgrad_compute=true"},
        /* Megatron-Bridge recipes/moonlight */
        {"SK-MOON-", "model.moe_router_fusion=false mixed_precision.grad_reduce_in_fp32=false "
                     "optimizer.use_precision_aware_optimizer=true optimizer.main_grads_dtype=bf16 "
                     "optimizer.exp_avg_dtype=bf16 optimizer.exp_avg_sq_dtype=bf16"},
        /* ModelZoo run_deepseek_v3_h100.sh and sbatch_benchmarking.sh */
        {"SK-HW-DSV3-H100-", "mixed_precision.fp8_param_gather=true"},
        {"SK-LC-DSV3-H100-", "optimizer.overlap_cpu_optimizer_d2h_h2d=true"},
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (published_from(p, own[i][0])) published_sets(p, own[i][1]);
}

/* Moments in 16 bits: all recipes of DeepSeek-V3, rows whose notes say so, and the ModelZoo's with
 * MXFP8. */
static inline bool published_narrow_moments(const published *p, const char *preset)
{
    return strcmp(preset, "deepseek-v3") == 0 || published_notes(p, "BF16 moments") ||
           published_from(p, "MCP-Q235-GB200-MX");
}

/* Megatron-Bridge's benchmarks of Llama, v0.1.0rc4 to v0.5.0 (scripts/performance and, of the split
 * of layers, recipes/llama): userbuffers beside TP, not in NVFP4; the largest model counts the
 * embedding and the head as layers. */
static inline void published_dense(published *p)
{
    bool fp4 = strcmp(published_cell(p, "precision"), "NVFP4") == 0;
    if (csv_int(p->t, p->row, "TP", 1) > 1 && !fp4)
        published_set(p, "comm_overlap.tp_comm_overlap=true");
    if (strcmp(published_cell(p, "model"), "Llama3.1-405B") == 0)
        published_sets(p, "model.account_for_embedding_in_pipeline_split=true "
                          "model.account_for_loss_in_pipeline_split=true");
}

/* Megatron-Bridge's benchmarks sum gradients in 16 bits; nobody looks for NaN. */
static inline void published_habits(published *p, const char *preset)
{
    if (*published_cell(p, "EP")) published_set(p, "model.moe_router_fusion=true");
    published_sets(p, "ddp.check_for_nan_in_grad=false "
                      "rerun_state_machine.check_for_nan_in_loss=false");
    if (published_bridge(p)) published_set(p, "mixed_precision.grad_reduce_in_fp32=false");
    if (published_notes(p, "Muon")) /* Megatron-Bridge v0.5.0 configs/kimi */
        published_sets(p, "optimizer.optimizer=muon mixed_precision.fp8_param_gather=false "
                          "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false "
                          "ddp.overlap_param_gather=false");
    if (published_bridge(p) && strcmp(preset, "deepseek-v3") == 0)
        published_set(p, "optimizer.main_grads_dtype=bf16");
    if (published_narrow_moments(p, preset))
        published_sets(p, "optimizer.use_precision_aware_optimizer=true "
                          "optimizer.exp_avg_dtype=bf16 optimizer.exp_avg_sq_dtype=bf16");
    published_set(p, "env_vars.PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    published_own(p);
}

#endif
