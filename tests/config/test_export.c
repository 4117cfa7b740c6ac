/* Exports: what they say, and that reading them back gives the recipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/export.h"
#include "config/megatron.h"
#include "config/megatron_table.h"
#include "config/shell.h"

enum { ROUNDS = 300 };

static arena *memory;
static error err;
static uint64_t seed = 11;

static int begin(void **state)
{
    (void)state;
    memory = arena_create();
    err.text[0] = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* ---- random recipes: each knob a value that its row allows */

static value draw_word(const char *allowed)
{
    int n = 1;
    for (const char *p = allowed; *p; p++) n += *p == '|';
    for (int64_t skip = draw(n); skip > 0; skip--) allowed = strchr(allowed, '|') + 1;
    return value_of_text(arena_copy(memory, allowed, strcspn(allowed, "|")));
}

static value draw_text(void)
{
    static const char *const texts[] = {
        "1.10", "007",        "1_000",  "+5",   ".5",        "yes", "nan",    "None",
        "0x10", "1:30",       " a ",    "NULL", "2026.10",   "off", "plain",  "a b",
        "it's", "say \"so\"", "x,y",    "null", "12",        "1e3", "#x",     "a: b",
        "$X",   "[1]",        "true",   "-1",   "a\\b",      "a=b", "Et|(tt", "{a}",
        "a;b",  "tab\there",  "*",      "~",    "a\\",       "",    "!x",     "&a *b",
        "%x",   "@x",         "`date`", "> x",  "d\xc3\xa9", "'",
    };
    return value_of_text(texts[draw(sizeof texts / sizeof texts[0])]);
}

static value draw_number(const knob *k)
{
    const char *dots = k->allowed ? strstr(k->allowed, "..") : NULL;
    double low = dots ? strtod(k->allowed, NULL) : -3;
    double high = dots && dots[2] ? strtod(dots + 2, NULL) : low + 1000000;
    if (k->kind == INT) return value_of_int((int64_t)low + draw((int64_t)(high - low) + 1));
    static const double parts[] = {0, 1, 0.1, 0.5, 1.0 / 3, 1e-5, 0.999};
    double part = parts[draw(sizeof parts / sizeof parts[0])];
    return value_of_float(low + (high - low) * part);
}

static value draw_one(const knob *k)
{
    switch (k->kind) {
    case BOOL:
        return value_of_bool(draw(2));
    case ENUM:
        return draw_word(k->allowed);
    case TEXT:
        return draw_text();
    default:
        return draw_number(k);
    }
}

static value draw_value(const knob *k)
{
    bool list = k->form == LIST || (k->form == EITHER && draw(2));
    if (!list) return draw_one(k);
    int n = (int)draw(4) + (k->form == LIST ? 1 : 2); /* one word is no list in a flag */
    value *items = ARENA_ARRAY(memory, value, n);
    for (int i = 0; i < n; i++) items[i] = draw_one(k);
    return (value){.kind = V_LIST, .list = {items, n}};
}

static void set(recipe *r, const char *assignment)
{
    if (recipe_override(r, assignment, "test", &err)) fail_msg("%s", err.text);
}

static void close_knob(recipe *r, knob_id k)
{
    r->knob[k] = (setting){0};
}

/* Half of the knobs are set. */
static void draw_recipe(recipe *r)
{
    recipe_init(r, memory, "random");
    for (int k = 0; k < K_COUNT; k++)
        if (draw(2)) recipe_set(r, (knob_id)k, draw_value(&knobs[k]), "random");
    if (r->knob[K_WINDOW].from == FROM_USER) set(r, "model.window_size=[127,0]");
    if (!recipe_on(r, K_MLA)) close_knob(r, K_ROPE_TYPE);
    close_knob(r, K_SYSTEM);
}

/* Megatron-LM has no words for these combinations. */
static void make_sayable_as_flags(recipe *r)
{
    static const char *const activations[][2] = {
        {"model.gated_linear_unit=true", "model.activation_func=silu"},
        {"model.gated_linear_unit=true", "model.activation_func=quick_gelu"},
        {"model.gated_linear_unit=false", "model.activation_func=gelu"},
    };
    int64_t i = draw(3);
    set(r, activations[i][0]);
    set(r, activations[i][1]);
    r->knob[K_NAN_LOSS] = r->knob[K_NAN_GRAD];
    if (recipe_given(r, K_PP_LAYOUT)) close_knob(r, K_VPP);
    if (!recipe_is(r, K_WD_STYLE, "linear")) {
        close_knob(r, K_WD_START);
        close_knob(r, K_WD_END);
    }
    if (recipe_on(r, K_MLA)) {
        close_knob(r, K_ROPE_ORIGINAL);
        close_knob(r, K_ROPE_BETA_FAST);
        close_knob(r, K_ROPE_BETA_SLOW);
        close_knob(r, K_ROPE_TRUNCATE);
    }
    if (recipe_given(r, K_LAYER_OFFLOAD_N) && recipe_int(r, K_LAYER_OFFLOAD_N) > 0)
        set(r, "model.cpu_offloading=true");
    else
        close_knob(r, K_LAYER_OFFLOAD);
    set(r, "model.vocab_size=1000");
    set(r, "model.num_attention_heads=96");
    if (recipe_int(r, K_KV_HEADS) == 96) close_knob(r, K_KV_HEADS);
    if (!recipe_given(r, K_LINEAR_BIAS) || recipe_on(r, K_LINEAR_BIAS))
        set(r, "model.add_qkv_bias=true");
    set(r, "model.ffn_hidden_size=64");
    set(r, "optimizer.loss_scale=2.5");
    set(r, draw(2) ? "mixed_precision.grad_reduce_in_fp32=true"
                   : "mixed_precision.grad_reduce_in_fp32=false");
    /* without these a list would not start: exports write them */
    set(r, "optimizer.lr=0.001");
    set(r, "train.train_iters=10");
    set(r, "validation.eval_interval=5");
    set(r, "tokenizer.tokenizer_type=NullTokenizer");
    set(r, "moefold.mock_data=true");
}

static bool has_written_flag(knob_id k)
{
    knob_flag f;
    for (const char *p = knobs[k].flag; knob_flag_next(&p, &f);)
        if (f.mark != '?') return true;
    return combo_writes(k) || k == K_VOCAB_PAD || k == K_LAYER_OFFLOAD;
}

static void assert_same(const recipe *was, const recipe *is, knob_id k, const char *text)
{
    if (value_equal(was->knob[k].v, is->knob[k].v)) return;
    fail_msg("%s was %s and is %s after\n%s", knobs[k].key, value_text(memory, was->knob[k].v),
             value_text(memory, is->knob[k].v), text);
}

/* ---- round trips */

/* Left open by the recipe, and written because Megatron-LM does not start without it. */
static bool is_added(const recipe *was, knob_id k)
{
    static const knob_id added[] = {K_EVAL_INTERVAL, K_TOKENIZER, K_TRAIN_ITERS, K_LR};
    if (k == K_EVAL_ITERS) return !recipe_given(was, K_EVAL_INTERVAL);
    if (k == K_FORCE_BALANCE) return recipe_on(was, K_FORCE_RANDOM);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++)
        if (added[i] == k) return !recipe_given(was, k);
    return false;
}

static void flags_give_the_recipe_back(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        recipe r, again;
        draw_recipe(&r);
        make_sayable_as_flags(&r);
        recipe_set_system(&r, MEGATRON_LM, "test");
        megatron_derive(&r);
        recipe_fill_defaults(&r);
        textbuf t = text_init(memory);
        export_megatron_lm(&r, &t);
        recipe_init(&again, memory, "again");
        if (megatron_parse(&again, "again", t.s, t.n, &err)) fail_msg("%s\n%s", err.text, t.s);
        megatron_derive(&again);
        recipe_fill_defaults(&again);
        for (int k = 0; k < K_COUNT; k++)
            if (has_written_flag((knob_id)k) && !is_added(&r, (knob_id)k))
                assert_same(&r, &again, (knob_id)k, t.s);
    }
}

/* Applies each line as a shell would hand it over. */
static void apply_lines(recipe *r, const char *text, size_t n)
{
    shell_words w;
    shell_source from = {.name = "lines", .data = text, .n = n, .line = 1};
    assert_int_equal(shell_list(memory, &from, 4096, &w, &err), OK);
    for (int i = 0; i < w.n; i++) set(r, w.text[i]);
}

/* A rule allows one way alone; files that name files are no keys of Megatron-Bridge. */
static void name_data_once(recipe *r)
{
    close_knob(r, K_DATA_ARGS);
    close_knob(r, K_SPLIT_ARGS);
    if (!recipe_names_separate(r)) return;
    close_knob(r, K_DATA_PATH);
    close_knob(r, K_SPLIT);
    close_knob(r, K_TEST_DATA);
    set(r, "dataset.train_data_path=[0.3,a,7,b]"); /* weights are numbers there */
    set(r, "dataset.valid_data_path=[a,b,'1.10']");
}

static void overrides_give_the_recipe_back(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        recipe r, again;
        draw_recipe(&r);
        set(&r, "moefold.mock_data=false");
        name_data_once(&r);
        recipe_derive(&r);
        recipe_fill_defaults(&r);
        textbuf t = text_init(memory);
        export_bridge(&r, &t);
        recipe_init(&again, memory, "again");
        apply_lines(&again, t.s, t.n);
        recipe_derive(&again);
        recipe_fill_defaults(&again);
        for (int k = 0; k < K_COUNT; k++) {
            bool no_key = k == K_MAX_POSITIONS || k == K_SKIP_MASK || is_added(&r, (knob_id)k);
            /* part by part, the name is that of the parts, whatever it was */
            bool part = text_starts(knobs[k].key, "mixed_precision");
            if (part && strstr(t.s, "++mixed_precision") &&
                (k == K_PRECISION || r.knob[k].v.kind == V_NULL))
                continue;
            if (!knob_is_ours((knob_id)k) && !no_key) assert_same(&r, &again, (knob_id)k, t.s);
        }
    }
}

static void yaml_gives_the_recipe_back(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        recipe r, again;
        draw_recipe(&r);
        bool all = draw(2);
        recipe_set_system(&r, draw(2) ? MEGATRON_LM : MOEFOLD, "test");
        bool filled = draw(2);
        if (filled) recipe_fill_defaults(&r);
        textbuf t = text_init(memory);
        export_yaml(&r, all, &t);
        recipe_init(&again, memory, "again");
        if (recipe_parse_yaml(&again, "again", t.s, t.n, &err)) fail_msg("%s\n%s", err.text, t.s);
        recipe_fill_defaults(&r);
        recipe_fill_defaults(&again);
        for (int k = 0; k < K_COUNT; k++) {
            /* a null there reopens a knob whose default is a value: so recipes have it */
            bool reopens = r.knob[k].v.kind == V_NULL && strcmp(knobs[k].dflt, "null") != 0;
            if (!reopens) assert_same(&r, &again, (knob_id)k, t.s);
        }
    }
}

/* ---- what they say */

static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, line, n) == 0 &&
            (p[n] == '\n' || p[n] == 0 || strncmp(p + n, " \\\n", 3) == 0))
            return true;
    return false;
}

static void assert_line(const char *text, const char *line)
{
    if (!has_line(text, line)) fail_msg("the line\n%s\nis not in\n%s", line, text);
}

/* A small recipe of ours, with nothing said twice. */
static void resolve(recipe *r, const char *const *assignments)
{
    recipe_init(r, memory, "test");
    for (; *assignments; assignments++) set(r, *assignments);
    recipe_derive(r);
    recipe_fill_defaults(r);
}

static const char *const qwen[] = {"model.num_layers=48",
                                   "model.hidden_size=2048",
                                   "model.num_attention_heads=32",
                                   "model.num_query_groups=4",
                                   "model.num_moe_experts=128",
                                   "model.moe_router_topk=8",
                                   "model.seq_length=4096",
                                   "model.max_position_embeddings=40960",
                                   "model.rotary_base=1e6",
                                   "model.moe_layer_freq=[0,0,1,1,1,1]",
                                   "model.pipeline_model_parallel_layout=Et|(tt|)*3L",
                                   "model.virtual_pipeline_model_parallel_size=2",
                                   "model.window_size=128",
                                   "mixed_precision=bf16_with_mxfp8_mixed",
                                   "mixed_precision.fp8_param_gather=false",
                                   "env_vars.CUDA_DEVICE_MAX_CONNECTIONS=1",
                                   "cluster.n_gpus=16",
                                   "cluster.gpus_per_node=8",
                                   "optimizer.store_param_remainders=false",
                                   "moefold.on_nan=stop",
                                   NULL};

static void flags_are_those_that_differ(void **state)
{
    (void)state;
    recipe r;
    resolve(&r, qwen);
    textbuf t = text_init(memory);
    export_megatron_lm(&r, &t);
    assert_line(
        t.s,
        "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py");
    assert_line(t.s, "--swiglu");
    assert_line(t.s, "--group-query-attention");
    assert_line(t.s, "--num-query-groups 4");
    assert_line(t.s, "--rotary-base 1000000"); /* Megatron-LM wants a whole number */
    assert_line(t.s, "--moe-layer-freq '[0]*2+[1]*4'");
    assert_line(t.s, "--pipeline-model-parallel-layout 'Et|(tt|)*3L'");
    assert_line(t.s, "--window-size 127,0");
    assert_line(t.s, "--bf16");
    assert_line(t.s, "--fp8-format e4m3");
    assert_line(t.s, "--fp8-recipe mxfp8");
    assert_line(t.s, "--moe-token-dispatcher-type alltoall");
    assert_line(t.s, "--use-distributed-optimizer");
    assert_line(t.s, "--mock-data");
    assert_line(t.s, "--tokenizer-type NullTokenizer");
    assert_line(t.s, "--train-iters 100");
    assert_line(t.s, "--eval-interval 1000");
    assert_line(t.s, "--eval-iters 0");
    static const char *const absent[] = {
        "--num-virtual-stages-per-pipeline-rank", /* Megatron-LM refuses it beside a layout */
        "--start-weight-decay",                   /* and this with a constant decay */
        "--fp8-param-gather",
        "--kv-lora-rank",
        "--rope-type",
        "on_nan",
        "--seed",
        "mixed_precision",
    };
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (strstr(t.s, absent[i])) fail_msg("%s is in\n%s", absent[i], t.s);
}

static void overrides_are_those_that_differ(void **state)
{
    (void)state;
    recipe r;
    resolve(&r, qwen);
    textbuf t = text_init(memory);
    export_bridge(&r, &t);
    assert_line(t.s, "model.seq_length=4096");
    assert_line(t.s, "dataset.seq_length=4096");
    assert_line(t.s, "ddp.use_distributed_optimizer=true");
    assert_line(t.s, "optimizer.use_distributed_optimizer=true");
    assert_line(t.s, "'model.pipeline_model_parallel_layout=\"Et|(tt|)*3L\"'");
    assert_line(t.s, "model.virtual_pipeline_model_parallel_size=2");
    assert_line(t.s, "'model.moe_layer_freq=[0,0,1,1,1,1]'");
    assert_line(t.s, "'model.window_size=[127,0]'");
    assert_non_null(strstr(t.s, "++mixed_precision={_target_:megatron.bridge.training."
                                "mixed_precision.MixedPrecisionConfig,bf16:true,fp16:false,"
                                "fp8:e4m3,fp8_recipe:mxfp8,"));
    assert_non_null(strstr(t.s, "fp8_param_gather:false"));
    assert_null(strstr(t.s, "mixed_precision=bf16_with_mxfp8_mixed"));
    assert_non_null(strstr(t.s, "CommOverlapConfig,tp_comm_overlap:false"));
    assert_line(t.s, "tokenizer.tokenizer_type=NullTokenizer");
    assert_line(t.s, "train.train_iters=100");
    assert_line(t.s, "model.rotary_base=1000000");
    assert_line(t.s, "dataset.blend=null");
    assert_line(t.s, "# no key: model.max_position_embeddings=40960");
    static const char *const absent[] = {"moefold.", "cluster.", "rng.seed", "kv_lora_rank"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (strstr(t.s, absent[i])) fail_msg("%s is in\n%s", absent[i], t.s);
}

static void yaml_says_why(void **state)
{
    (void)state;
    recipe r;
    recipe_init(&r, memory, "test");
    set(&r, "model.num_layers=4");
    set(&r, "train.train_iters=10");
    set(&r, "model.hidden_size=64");
    set(&r, "mixed_precision=bf16_mixed");
    set(&r, "mixed_precision.fp8_margin=1");
    recipe_fill(&r, K_SP, value_of_bool(true), FROM_DERIVED, "unset:\nTP > 1");
    recipe_fill_defaults(&r);
    textbuf t = text_init(memory);
    export_yaml(&r, false, &t);
    assert_string_equal(t.s, "model:\n"
                             "  num_layers: 4\n"
                             "  hidden_size: 64\n"
                             "cluster:\n"
                             "  gpu: H100  # default\n"
                             "mixed_precision: bf16_mixed\n"
                             "mixed_precision.fp8_margin: 1\n"
                             "train:\n"
                             "  train_iters: 10\n"
                             "\n"
                             "# Derived when this file is read:\n"
                             "#   model.sequence_parallel: true  # unset: TP > 1\n");
    textbuf every = text_init(memory);
    export_yaml(&r, true, &every);
    assert_line(every.s, "  tensor_model_parallel_size: 1  # default");
}

static void flags_that_disagree_are_named(void **state)
{
    (void)state;
    recipe r;
    recipe_init(&r, memory, "test");
    recipe_set_system(&r, MEGATRON_LM, "test");
    set(&r, "ddp.check_for_nan_in_grad=false");
    set(&r, "model.activation_func=silu");
    recipe_fill_defaults(&r);
    textbuf t = text_init(memory);
    export_megatron_lm(&r, &t);
    assert_null(strstr(t.s, "--no-check-for-nan"));
    assert_line(t.s, "# no flag: ddp.check_for_nan_in_grad=false");
    assert_line(t.s, "# no flag: model.activation_func=silu");
}

static void a_list_that_was_read_is_written_again(void **state)
{
    (void)state;
    static const char *const files[] = {"tests/data/megatron/deepseek_v3.txt",
                                        "tests/data/megatron/qwen3_30b_a3b.txt",
                                        "tests/data/megatron/mixtral_8x7b.txt"};
    for (int i = 0; i < 3; i++) {
        recipe r, again;
        recipe_init(&r, memory, files[i]);
        if (megatron_read(&r, files[i], &err)) fail_msg("%s", err.text);
        megatron_derive(&r);
        recipe_fill_defaults(&r);
        textbuf t = text_init(memory);
        export_megatron_lm(&r, &t);
        recipe_init(&again, memory, "again");
        if (megatron_parse(&again, "again", t.s, t.n, &err)) fail_msg("%s\n%s", err.text, t.s);
        assert_int_equal(again.n_notes, 2); /* torchrun, pretrain_gpt.py */
        megatron_derive(&again);
        recipe_fill_defaults(&again);
        for (int k = 0; k < K_COUNT; k++)
            if (has_written_flag((knob_id)k) && !is_added(&r, (knob_id)k))
                assert_same(&r, &again, (knob_id)k, t.s);
    }
}

/* ---- gaps */

static void assert_gap(const char *override, knob_system system, const char *instead)
{
    recipe r;
    export_gap gaps[EXPORT_GAPS_MAX];
    resolve(&r, qwen);
    set(&r, "model.vocab_size=1000");
    set(&r, "model.cross_entropy_fusion_impl=native");
    set(&r, override);
    int n = export_gaps(&r, system, gaps, memory);
    for (int i = 0; i < n; i++)
        if (instead && strcmp(gaps[i].instead, instead) == 0) return;
    if (instead) fail_msg("%s: of %d gaps none says %s", override, n, instead);
    if (n) fail_msg("%s is no gap, but %s: %s", override, knobs[gaps[0].knob].key, gaps[0].why);
}

static void what_has_no_flag_is_a_gap(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"model.activation_func=gelu", "model.activation_func=silu"},
        {"model.gated_linear_unit=false", "model.activation_func=gelu"},
        {"ddp.check_for_nan_in_grad=false", "ddp.check_for_nan_in_grad=true"},
        {"optimizer.decoupled_weight_decay=false", "optimizer.decoupled_weight_decay=true"},
        {"optimizer.grad_norm_skip_threshold=5.0", "optimizer.grad_norm_skip_threshold=null"},
        {"model.variable_seq_lengths=true", "model.variable_seq_lengths=false"},
        {"model.activation_func_fp8_input_store=true",
         "model.activation_func_fp8_input_store=false"},
        {"dataset.random_seed=7", "dataset.random_seed=null"},
        {"model.cross_entropy_fusion_impl=te", "model.cross_entropy_fusion_impl=native"},
        {"moefold.attention_bias=true", "moefold.attention_bias=false model.add_qkv_bias=true"},
        {"model.seq_len_interpolation_factor=3.5", "model.seq_len_interpolation_factor=4.0"},
        {"model.seq_len_interpolation_factor=4.0", NULL},
        {"checkpoint.most_recent_k=3", NULL}, /* a comment is enough */
        {"moefold.moe_buffer_factor=2.0", NULL},
        {"optimizer.store_param_remainders=false", NULL}, /* counts if precision-aware only */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_gap(cases[i][0], MEGATRON_LM, cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
        T(flags_give_the_recipe_back),      T(overrides_give_the_recipe_back),
        T(yaml_gives_the_recipe_back),      T(flags_are_those_that_differ),
        T(overrides_are_those_that_differ), T(yaml_says_why),
        T(flags_that_disagree_are_named),   T(a_list_that_was_read_is_written_again),
        T(what_has_no_flag_is_a_gap),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
