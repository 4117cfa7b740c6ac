/* published.h - a row of tests/data/published/published.csv as a recipe of ours.
 *
 * What the row prints is taken as it stands; what it leaves out is what its source runs with
 * (published_features.h). A feature cell left blank means off. Routing is forced to balance; rows
 * that say otherwise are no recipe here. */
#ifndef TESTS_PREDICT_PUBLISHED_H
#define TESTS_PREDICT_PUBLISHED_H

#include "config/models/models.h"
#include "predict/published_features.h"

/* ---- the model */

typedef struct published_name {
    const char *name, *preset;
    bool mtp, dense;
} published_name;

static inline const published_name *published_known(const char *name)
{
    static const published_name names[] = {
        {"DeepSeek-V3-685B (MTP1)", "deepseek-v3", true, false},
        {"DeepSeek-V3-671B (+MTP1)", "deepseek-v3", true, false},
        {"DeepSeek-V3-671B (no MTP)", "deepseek-v3", false, false},
        {"Kimi-K2-1T", "kimi-k2", false, false},
        {"Moonlight-16B-A3B", "moonlight-16b", false, false},
        {"Qwen3-30B-A3B", "qwen3-30b-a3b", false, false},
        {"Qwen3-235B-A22B", "qwen3-235b-a22b", false, false},
        /* its prediction module is in the ModelZoo's configuration and Megatron-Bridge's recipes.
         * The ModelZoo's figures say so, too: by the commit that they name (Megatron-LM bbc762d5)
         * 89 TFLOP/s are 2.25 s with the module, 2.04 s without, and 2.2 s are printed */
        {"Qwen3-Next-80B-A3B", "qwen3-next-80b-a3b", true, false},
        {"GPT-OSS-20B", "gpt-oss-20b", false, false},
        {"GPT-OSS-120B", "gpt-oss-120b", false, false},
        {"Mixtral-8x7B", "mixtral-8x7b", false, false},
        {"Mixtral-8x22B", "mixtral-8x22b", false, false},
        {"Llama3-8B", "llama-3-8b", false, true},
        {"Llama3-70B", "llama-3-70b", false, true},
        {"Llama3.1-405B", "llama-3.1-405b", false, true},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0) return &names[i];
    return NULL;
}

/* Routing as it comes: the skew that it had was published nowhere, so that our default has it. */
static inline bool published_is_natural(const published *p)
{
    return published_notes(p, "natural routing");
}

static inline void published_model(published *p, const published_name *m)
{
    published_set(p, arena_text(p->a, "moefold.model=%s", m->preset));
    if (m->mtp) published_set(p, "model.mtp_num_layers=1");
    int64_t seq = csv_int(p->t, p->row, "seq_len", 4096);
    published_set(p, arena_text(p->a, "model.seq_length=%" PRId64, seq));
    if (seq > 32768)
        published_set(p, arena_text(p->a, "model.max_position_embeddings=%" PRId64, seq));
    if (m->dense) return;
    published_set(p, published_is_natural(p) ? "model.moe_router_force_load_balancing=false"
                                             : "model.moe_router_force_load_balancing=true");
}

/* ---- the layout */

static inline void published_size(published *p, const char *column, const char *key, int64_t unset)
{
    int64_t size = csv_int(p->t, p->row, column, unset);
    if (size != unset) published_set(p, arena_text(p->a, "%s=%" PRId64, key, size));
}

/* How the sequence is split, "TP" or "CP" sizes. The card of DeepSeek-V3's long contexts calls it
 * CP, but the commands that it names set TP: with TP their memory fits, and prices are within 2.2 %
 * of the figures at every length (docs/DIRECTIONS.md). */
static inline bool published_splits_by_tp(const published *p)
{
    return published_from(p, "SK-LC-DSV3-H100-");
}

static inline void published_sequence(published *p)
{
    bool by_tp = published_splits_by_tp(p);
    published_size(p, by_tp ? "CP" : "TP", "model.tensor_model_parallel_size", 1);
    if (!by_tp) published_size(p, "CP", "model.context_parallel_size", 1);
}

/* No row prints the kind of CP. Inside a node it is taken as the default, a ring; across nodes as
 * heads exchanged inside of one and a ring between them: a ring over expanded keys alone is bound
 * by the network there, and before 26.06 Transformer Engine has nothing else for MLA. */
static inline void published_context(published *p)
{
    int64_t cp = csv_int(p->t, p->row, "CP", 1);
    bool rack = text_starts(published_cell(p, "gpu"), "GB");
    if (cp <= (rack ? 64 : 8) || published_splits_by_tp(p)) return;
    published_set(p, "model.cp_comm_type=a2a+p2p");
    published_set(
        p, arena_text(p->a, "model.hierarchical_context_parallel_sizes=[8,%" PRId64 "]", cp / 8));
}

/* A rack of NVL72 gives 16 of its 18 trays, so that groups of powers of two stay inside. */
static inline void published_cluster(published *p)
{
    published_set(p, arena_text(p->a, "cluster.gpu=%s", published_cell(p, "gpu")));
    published_size(p, "n_gpus", "cluster.n_gpus", 0);
    if (text_starts(published_cell(p, "gpu"), "GB")) published_set(p, "cluster.nvlink_domain=64");
    published_sequence(p);
    published_context(p);
    published_size(p, "EP", "model.expert_model_parallel_size", 1);
    published_size(p, "ETP", "model.expert_tensor_parallel_size", 0);
    published_size(p, "PP", "model.pipeline_model_parallel_size", 1);
    published_size(p, "mbs", "train.micro_batch_size", 0);
    published_size(p, "gbs", "train.global_batch_size", 0);
}

/* "...; layout Et|(tt|)*30L; ..." NULL: the notes name none. */
static inline const char *published_layout_noted(const published *p)
{
    const char *at = strstr(published_cell(p, "notes"), "layout E");
    if (!at) return NULL;
    at += strlen("layout ");
    return arena_copy(p->a, at, strcspn(at, "; "));
}

/* As set_deepseek_v3_pipeline_model_parallel_layout and Kimi's have it; 32 stages as the recipes
 * for H100 do, and as the ModelZoo's commands for long context do. */
static inline const char *published_layout_61(const published *p, int64_t stages, bool mtp)
{
    const char *end = mtp ? "mL" : "L";
    if (published_from(p, "SK-LC-")) return "Et*2|(tt|)*22t|(tt|)*7mL";
    switch (stages) {
    case 4:
        return arena_text(p->a, "Et*16|(t*16|)*2t*13%s", end);
    case 8:
        return arena_text(p->a, "Et*8|(t*8|)*6t*5%s", end);
    case 16:
        return arena_text(p->a, "Et*4|(t*4|)*14t%s", end);
    case 32:
        return arena_text(p->a, "Et|(tt|)*30%s", end);
    default:
        return NULL;
    }
}

static inline void published_pipeline(published *p, const published_name *m)
{
    int64_t pp = csv_int(p->t, p->row, "PP", 1), vpp = csv_int(p->t, p->row, "VPP", 1);
    if (vpp > 1)
        published_set(p,
                      arena_text(p->a, "model.virtual_pipeline_model_parallel_size=%" PRId64, vpp));
    if (pp == 1) return;
    bool deep = strcmp(m->preset, "deepseek-v3") == 0 || strcmp(m->preset, "kimi-k2") == 0;
    const char *layout_text = published_layout_noted(p);
    if (!layout_text && deep) layout_text = published_layout_61(p, pp * vpp, m->mtp);
    if (layout_text)
        published_set(p, arena_text(p->a, "model.pipeline_model_parallel_layout=%s", layout_text));
    if (strcmp(m->preset, "qwen3-235b-a22b") == 0)
        published_sets(p, "model.account_for_embedding_in_pipeline_split=true "
                          "model.account_for_loss_in_pipeline_split=true");
}

/* The generation of containers; other sources by the month in which they were measured. */
static inline const char *published_stack(const published *p)
{
    static const char *const of_source[][2] = {
        {"VC-", "26.08"},      {"MLR2-", "26.06"},      {"MLR-", "26.04"},
        {"SK-MOON-", "26.08"}, {"SK-Q30-OV-", "26.06"}, {"SK-", "26.02"},
        {"MCP-", "26.02"},     {"GBO-", "25.11"},       {"ZOO-", "25.11"},
    };
    const char *id = published_cell(p, "id");
    if (text_starts(id, "MB-")) return arena_copy(p->a, id + 3, 5);
    for (size_t i = 0; i < sizeof of_source / sizeof of_source[0]; i++)
        if (text_starts(id, of_source[i][0])) return of_source[i][1];
    return NULL;
}

/* ---- the whole row */

/* Megatron-Bridge's benchmarks of Llama on one pipeline stage shard weights, but for the small one.
 * One row does not print that (26.02.01, NVFP4 on GB300), nor the sizes of its recipe. */
static inline bool published_sharded(const published *p)
{
    bool small = strcmp(published_cell(p, "model"), "Llama3-8B") == 0;
    return published_notes(p, "FSDP") || (!small && csv_int(p->t, p->row, "PP", 1) == 1);
}

static inline const char *published_refusal(const published *p)
{
    static const char *const needed[] = {"gpu", "n_gpus", "seq_len", "mbs", "gbs", "PP", "EP"};
    const published_name *m = published_known(published_cell(p, "model"));
    if (!m) return "a model that is no preset here";
    size_t n = sizeof needed / sizeof needed[0] - (m->dense ? 1 : 0);
    for (size_t i = 0; i < n; i++)
        if (!*published_cell(p, needed[i])) return arena_text(p->a, "%s not published", needed[i]);
    if (m->dense) return published_sharded(p) ? "sharded by FSDP" : NULL;
    if (published_notes(p, "token drop") || published_notes(p, "token-drop"))
        return "tokens are dropped";
    if (published_from(p, "MB-") && !published_notes(p, "feature cells"))
        return "features not published";
    if (published_notes(p, "needs 512")) return "its sizes need more GPUs than it prints";
    return NULL;
}

static inline void published_recipe(published *p, const csv *t, int row, arena *a)
{
    *p = (published){.t = t, .row = row, .a = a};
    p->why_not = published_refusal(p);
    if (p->why_not) return;
    const published_name *m = published_known(published_cell(p, "model"));
    published_model(p, m);
    published_cluster(p);
    published_pipeline(p, m);
    if (m->dense) published_dense(p);
    published_precision(p);
    published_dispatcher(p);
    published_recompute(p);
    published_graphs(p);
    published_overlap(p);
    published_offload(p);
    published_habits(p, m->preset);
}

/* Makes the setup and checks the rules. `p` is a recipe. */
static inline status published_setup(const published *p, setup *s, violations *broken, error *err)
{
    recipe *r = ARENA_NEW(p->a, recipe);
    recipe_init(r, p->a, published_cell(p, "id"));
    status st = OK;
    for (int i = 0; i < p->n && !st; i++)
        st = recipe_override(r, p->overrides[i], published_cell(p, "id"), err);
    if (!st) st = model_fill(r, err);
    if (!st) st = setup_init(s, r, p->a, err);
    if (!st) rules_check(broken, s, false, p->a);
    return st;
}

/* The row of the same run that prints tokens a second: sources have counted the FLOPs of gpt-oss in
 * two ways, and tokens in one. The row itself where there is none. */
static inline int published_tokens_row(const published *p)
{
    const char *id = published_cell(p, "id");
    size_t n = strlen(id);
    if (n < 3 || strcmp(id + n - 3, "-tf") != 0) return p->row;
    int row = csv_find(p->t, arena_text(p->a, "%.*s-tok", (int)n - 3, id));
    return row < 0 ? p->row : row;
}

/* FLOPs of a token as the source counts them. Before January 2026 Megatron-LM leaves the output
 * gate out of the projection that makes it. */
static inline double published_flops(const published *p, const setup *s)
{
    attention_block *a = (attention_block *)s->m.attention, whole = *a;
    if (published_from(p, "ZOO-QN80-")) a->output_gate = false;
    double flops = model_flops_per_token(&s->m, recipe_int(&s->r, K_SEQ));
    *a = whole;
    return flops;
}

/* Tokens a second and GPU that were published; 0: the row reports something else. */
static inline double published_tokens(const published *p, const setup *s)
{
    int row = published_tokens_row(p);
    const char *metric = csv_cell(p->t, row, "metric");
    double number = csv_real(p->t, row, "value");
    int64_t seq = recipe_int(&s->r, K_SEQ), gpus = recipe_int(&s->r, K_N_GPUS);
    if (strcmp(metric, "tokens_per_sec_per_gpu") == 0) return number;
    if (strcmp(metric, "tflops_per_gpu") == 0) return number * 1e12 / published_flops(p, s);
    if (strcmp(metric, "step_time_s") == 0 && number > 0)
        return (double)recipe_int(&s->r, K_GBS) * (double)seq / number / (double)gpus;
    return 0;
}

#endif
