/* megatron_table.c - the tables of flags, and of keys without effect. */
#include "config/megatron_table.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- flags in the knob table */

bool knob_flag_next(const char **p, knob_flag *f)
{
    if (!*p) return false;
    *p += strspn(*p, " ");
    if (!**p) return false;
    f->mark = strchr("+!?", **p) ? *(*p)++ : (char)0;
    f->name = *p;
    f->n = strcspn(*p, " ");
    *p += f->n;
    return true;
}

bool knob_has_flag(knob_id k, const char *flag, char *mark)
{
    knob_flag f;
    for (const char *p = knobs[k].flag; knob_flag_next(&p, &f);) {
        if (strncmp(f.name, flag, f.n) != 0 || flag[f.n] != 0) continue;
        *mark = f.mark;
        return true;
    }
    return false;
}

/* ---- flags that are not one knob's */

const combo combos[] = {
    {"--swiglu", .written = true, .set = {{K_GLU, "true"}, {K_ACTIVATION, "silu"}}},
    {"--quick-geglu", .written = true, .set = {{K_GLU, "true"}, {K_ACTIVATION, "quick_gelu"}}},
    {"--squared-relu", .written = true, .set = {{K_ACTIVATION, "squared_relu"}}},
    {"--openai-gelu", .written = true, .set = {{K_ACTIVATION, "fast_gelu"}}},
    /* What holds without either depends on the types of weights and gradients: always written. */
    {"--accumulate-allreduce-grads-in-fp32", .written = true, .set = {{K_GRAD_FP32, "true"}}},
    {"--grad-reduce-in-bf16", .written = true, .set = {{K_GRAD_FP32, "false"}}},
    /* It only says that --num-query-groups counts; see group_queries in megatron.c. */
    {.flag = "--group-query-attention"},
    {"--use-rotary-position-embeddings", .last = true, .set = {{K_POSITION, "rope"}},
     .now = "--position-embedding-type rope"},
    {"--recompute-activations", .last = true, .set = {{K_RECOMPUTE, "selective"}},
     .now = "--recompute-granularity selective"},
    {"--moe-layer-recompute", .set = {{K_RECOMPUTE, "?selective"}, {K_RECOMPUTE_MODULES, "?[moe]"}},
     .now = "--recompute-granularity selective --recompute-modules moe"},
    {"--moe-enable-deepep", .set = {{K_DISPATCHER, "?flex"}, {K_FLEX, "deepep"}},
     .now = "--moe-flex-dispatcher-backend deepep"},
    {"--enable-cuda-graph", .last = true, .set = {{K_GRAPHS, "local"}},
     .now = "--cuda-graph-impl local"},
    {"--external-cuda-graph", .last = true, .set = {{K_GRAPHS, "transformer_engine"}},
     .now = "--cuda-graph-impl transformer_engine"},
    {"--cuda-graph-modules", "full", .set = {{K_GRAPH_MODULES, "[]"}},
     .now = "no --cuda-graph-modules (whole layers)"},
    {"--cuda-graph-modules", "full_iteration", .last = true,
     .set = {{K_GRAPHS, "full_iteration"}, {K_GRAPH_MODULES, "[]"}},
     .now = "--cuda-graph-impl full_iteration"},
    {"--optimizer", "dist_muon", .set = {{K_OPTIMIZER, "muon"}, {K_DIST_OPT, "true"}},
     .now = "--optimizer muon --use-distributed-optimizer"},
    {"--num-experts", "0", .set = {{K_EXPERTS, "null"}}},
    {"--experimental-attention-variant", "gated_delta_net", .set = {{K_VARIANT, "gdn"}}},
    {"--no-weight-decay-cond-type", "apply_wd_to_qk_layernorm", .set = {{K_WD_QK_NORM, "true"}},
     .now = "--apply-wd-to-qk-layernorm"},
};
const int n_combos = sizeof combos / sizeof combos[0];

const combo *combo_find(const char *flag, const char *word)
{
    for (int i = 0; i < n_combos; i++) {
        const combo *c = &combos[i];
        if (strcmp(c->flag, flag) == 0 && (!c->word || text_equal(c->word, word))) return c;
    }
    return NULL;
}

bool combo_writes(knob_id k)
{
    for (int i = 0; i < n_combos; i++)
        for (int j = 0; j < COMBO_SETS_MAX && combos[i].written && combos[i].set[j].v; j++)
            if (combos[i].set[j].k == k) return true;
    return false;
}

/* ---- flags and keys without effect */

#define ALL  IDLE_ALL
#define NONE IDLE_NONE
static const idle_option idle_flags[] = {
#define F(flag, arity, why, harmless)    {flag, ARITY_##arity, WHY_##why, harmless},
#define O(s, name, arity, why, harmless) F("--" name, arity, why, harmless)
#define N(s, name, why)                  F("--no-" name, 0, why, ALL)
#define D(s, name, why)                  N(s, name, why) F("--disable-" name, 0, why, ALL)
#define K(key, why, harmless)
#include "config/megatron_options.def"
#undef F
#undef O
#undef N
#undef D
#undef K
};
static const idle_option idle_keys[] = {
#define K(key, why, harmless)                  {key, ARITY_1, WHY_##why, harmless},
#define O(section, name, arity, why, harmless) K(section "." name, why, harmless)
#define N(section, name, why)                  K(section "." name, why, ALL)
#define D(section, name, why)                  N(section, name, why)
#define F(flag, arity, why, harmless)
#include "config/megatron_options.def"
#undef F
#undef O
#undef N
#undef D
#undef K
};
#undef ALL
#undef NONE
enum {
    N_IDLE = sizeof idle_flags / sizeof idle_flags[0],
    N_IDLE_KEYS = sizeof idle_keys / sizeof idle_keys[0],
};

/* torchrun takes --nproc_per_node for --nproc-per-node; Megatron-LM does no such thing. */
static bool same_but_for_dashes(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(*a == '-' && *b == '_')) return false;
    return *a == *b;
}

/* How many letters of a key are those of a row, which has - where keys have _. */
static size_t same_letters(const char *row, const char *key)
{
    size_t n = 0;
    while (row[n] && (row[n] == '-' ? '_' : row[n]) == key[n]) n++;
    return n;
}

const idle_option *idle_flag_find(const char *flag)
{
    for (int i = 0; i < N_IDLE; i++) {
        const idle_option *f = &idle_flags[i];
        if (strcmp(f->name, flag) == 0) return f;
        if (f->why == WHY_LAUNCHER && same_but_for_dashes(f->name, flag)) return f;
    }
    return NULL;
}

const idle_option *idle_key_find(const char *key)
{
    static const idle_option variable = {"env_vars", ARITY_1, WHY_ENVIRONMENT, IDLE_ALL};
    if (text_starts(key, "env_vars.") && key[strlen("env_vars.")]) return &variable;
    for (int i = 0; i < N_IDLE_KEYS; i++) {
        size_t n = same_letters(idle_keys[i].name, key);
        if (!idle_keys[i].name[n] && (!key[n] || key[n] == '.')) return &idle_keys[i];
    }
    return NULL;
}

bool bridge_is_section(const char *word)
{
    for (int i = 0; i < N_IDLE_KEYS; i++) {
        size_t n = same_letters(idle_keys[i].name, word);
        if (!word[n] && idle_keys[i].name[n] == '.') return true;
    }
    return false;
}

const char *flag_why_text(flag_why why)
{
    static const char *const texts[] = {
        [WHY_LAUNCHER] = "an option of the launcher, no effect here",
        [WHY_LOGGING] = "logging in Megatron-LM, no effect here",
        [WHY_PROFILING] = "profiling in Megatron-LM, no effect here",
        [WHY_TOKENIZER] = "an option of the tokenizer; training reads token ids, no effect here",
        [WHY_DATA] = "data loading in Megatron-LM, no effect here",
        [WHY_CHECKPOINT] = "checkpointing in Megatron-LM, no effect here",
        [WHY_FAULTS] = "fault handling in Megatron-LM, no effect here",
        [WHY_HOST] = "keeps pauses of the host even: not modelled, no gain is predicted",
        [WHY_LIBRARY] = "tuning of a communication library, no effect here",
        [WHY_KERNEL] = "a choice among kernels of Megatron-LM, no effect here",
        [WHY_OPTIMIZER] = "an option of an optimizer that moefold does not have, no effect here",
        [WHY_INFERENCE] = "inference, no effect here",
        [WHY_TRAINING] = "another kind of training, no effect here",
        [WHY_MODELS] = "another kind of model, no effect here",
        [WHY_CHANGES] = "changes what Megatron-LM computes, no knob here: estimated without it",
        [WHY_ENVIRONMENT] = "an environment variable, no effect here",
    };
    return texts[why];
}

static bool same_word(const char *a, const char *b, size_t n)
{
    char *end_a, *end_b, word[64];
    if (strlen(a) == n && strncasecmp(a, b, n) == 0) return true;
    if (n >= sizeof word) return false;
    memcpy(word, b, n);
    word[n] = 0;
    double x = strtod(a, &end_a), y = strtod(word, &end_b);
    return end_a != a && !*end_a && end_b != word && !*end_b && x == y; /* 1 is 1.0 */
}

static bool is_one_of(const char *text, const char *words)
{
    for (const char *p = words; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        if (same_word(text, p, n)) return true;
        p += n;
    }
    return false;
}

bool idle_is_harmless(const idle_option *o, const char *text)
{
    if (!o->harmless) return true;
    if (!text) return false;
    bool on = is_one_of("true", o->harmless); /* then it is false that changes something */
    return !*text || is_one_of(text, "null|none|~|[]|{}") || (!on && is_one_of(text, "false")) ||
           is_one_of(text, o->harmless);
}

/* ---- all of them */

static const struct {
    const char *name, *canonical;
} second_names[] = {
    {"--cuda-graph-scope", "--cuda-graph-modules"},
    {"--disable-fp8-wgrad", "--no-fp8-wgrad"},
    {"--encoder-num-layers", "--num-layers"},
    {"--encoder-seq-length", "--seq-length"},
    {"--override-opt_param-scheduler", "--override-opt-param-scheduler"},
    {"--persistent-save-interval", "--save-interval"},
    {"--use-checkpoint-opt_param-scheduler", "--use-checkpoint-opt-param-scheduler"},
};
enum { N_SECOND = sizeof second_names / sizeof second_names[0] };

const char *flag_canonical(const char *flag)
{
    for (int i = 0; i < N_SECOND; i++)
        if (strcmp(second_names[i].name, flag) == 0) return second_names[i].canonical;
    return flag;
}

/* Megatron-LM still knows these, to say what came after them. */
static const char *const retired[][2] = {
    {"--batch-size", "--micro-batch-size"},
    {"--checkpoint-activations", "--recompute-activations"},
    {"--model-parallel-size", "--tensor-model-parallel-size"},
    {"--warmup", "--lr-warmup-fraction"},
};
enum { N_RETIRED = sizeof retired / sizeof retired[0] };

enum { KNOB_FLAGS_MAX = 4 };

/* The shortest that goes on behind this word, of those that set a knob: --fp8-format for --fp8. */
static const char *flag_beginning(const char *word, const char *const *names, int n_names)
{
    enum { SHORTEST = 4 }; /* two letters: one says nothing */
    const char *best = NULL;
    size_t n = strlen(word);
    for (int i = 0; i < n_names && n >= SHORTEST; i++)
        if (strncmp(names[i], word, n) == 0 && names[i][n] == '-' &&
            (!best || strlen(names[i]) < strlen(best)))
            best = names[i];
    return best;
}

const char *flag_nearest(arena *a, const char *flag)
{
    for (int i = 0; i < N_RETIRED; i++)
        if (strcmp(retired[i][0], flag) == 0) return retired[i][1];
    const char **names =
        ARENA_ARRAY(a, const char *, K_COUNT *KNOB_FLAGS_MAX + n_combos + N_IDLE + N_SECOND);
    int n = 0;
    for (int k = 0; k < K_COUNT; k++) {
        knob_flag f;
        const char *p = knobs[k].flag;
        for (int i = 0; i < KNOB_FLAGS_MAX && knob_flag_next(&p, &f); i++)
            names[n++] = arena_copy(a, f.name, f.n);
    }
    for (int i = 0; i < n_combos; i++) names[n++] = combos[i].flag;
    int n_heard = n;
    for (int i = 0; i < N_IDLE; i++) names[n++] = idle_flags[i].name;
    for (int i = 0; i < N_SECOND; i++) names[n++] = second_names[i].name;
    const char *near = text_nearest(flag, names, n);
    return near ? near : flag_beginning(flag, names, n_heard);
}
