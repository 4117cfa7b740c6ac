/* YAML with MODEL_ARGS, which kind a file is, and the tokenizers' sizes. */
#include "config/megatron_testing.h"

#include "config/megatron_reader.h"
#include "config/tokenizers.h"

static status parse(const char *text)
{
    recipe_init(&r, memory, "test");
    err.text[0] = 0;
    return megatron_parse_with(&r, "a.yaml", text, strlen(text), &how, &err);
}

static void assert_refused(const char *text, const char *part)
{
    assert_int_equal(parse(text), ERR_INPUT);
    if (!strstr(err.text, part)) fail_msg("'%s' is not in: %s", part, err.text);
}

static void a_functional_test_is_read(void **state)
{
    (void)state;
    if (megatron_read_with(&r, "tests/data/megatron/functional.yaml", &how, &err))
        fail_msg("%s", err.text);
    assert_knob("env_vars.CUDA_DEVICE_MAX_CONNECTIONS", "1");
    assert_knob("model.num_layers", "16");
    assert_knob("model.layernorm_epsilon", "1e-6");
    assert_knob("model.gated_linear_unit", "true");
    assert_knob("model.add_bias_linear", "false");
    assert_knob("model.recompute_modules", "[layernorm,mla_up_proj,moe_act]");
    assert_int_equal(r.knob[K_PRE_SOFTMAX].from, FROM_NOTHING);
    assert_knob("model.moe_grouped_gemm", "true");
    assert_string_equal(r.knob[K_PP_LAYOUT].v.text, "Et*8|t*8L");
    assert_string_equal(r.knob[K_SAVE].v.text, "${CHECKPOINT_SAVE_PATH}");
    assert_int_equal(r.knob[K_MOE_FREQ].v.list.n, 16);
    assert_true(recipe_is_lm(&r));
    /* no tokenizer is named, but GPT-2's files are */
    assert_knob("model.vocab_size", "50257");
    assert_string_equal(r.knob[K_VOCAB].why, "size of GPT2BPETokenizer");
}

static void the_second_run_is_picked(void **state)
{
    (void)state;
    how.command = "2";
    assert_int_equal(megatron_read_with(&r, "tests/data/megatron/functional.yaml", &how, &err), OK);
    assert_knob("model.num_layers", "8");
    how.command = "3";
    assert_int_equal(megatron_read_with(&r, "tests/data/megatron/functional.yaml", &how, &err),
                     ERR_INPUT);
    assert_non_null(strstr(err.text, "has no MODEL_ARGS_3"));
}

static void values_are_words(void **state)
{
    (void)state;
    how.sets[how.n_sets++] = "TP=4";
    assert_int_equal(parse("MODEL_ARGS:\n  --tensor-model-parallel-size: ${TP}\n"
                           "  --recompute-modules: [moe_act, layernorm]\n  --bf16:\n"
                           "  --swiglu: false\n  --sequence-parallel: 'true'\n"
                           "  --moe-layer-freq: \"'([0]*1+[1]*2)'\"\n"
                           "  --wandb-exp-name: run ${TP} $NAME\n"),
                     OK);
    assert_knob("model.tensor_model_parallel_size", "4");
    assert_knob("model.recompute_modules", "[moe_act,layernorm]");
    assert_knob("mixed_precision.bf16", "true");
    assert_knob("model.sequence_parallel", "true");
    assert_knob("model.moe_layer_freq", "[0,1,1]");
    assert_int_equal(r.knob[K_GLU].from, FROM_NOTHING);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    assert_refused("MODEL_ARGS:\n  --num-layers: ${L}\n  --hidden-size: $H\n",
                   "a.yaml:3: H for --hidden-size");
    assert_refused("MODEL_ARGS:\n  --num-layer: 1\n  --hidden: 2\n", "2 unknown flags");
    assert_refused("MODE: inference\nMODEL_ARGS:\n  --num-layers: 1\n",
                   "a.yaml:1: MODE: inference: only training is read");
    assert_refused("MODEL_ARGS:\n  num_layers: 1\n", "flags begin with --");
    assert_refused("MODEL_ARGS: 3\n", "flags with values are needed");
    assert_refused("MODEL_ARGS:\n  --num-layers: {a: 1}\n", "a value or a list is needed");
}

static void kinds_of_files_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char kind;
    } files[] = {
        {"# a\nENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --lr: 1\n", 'y'},
        {"#!/bin/bash\npython pretrain_gpt.py\n", 's'},
        {"# a list\n--num-layers 4\n--pipeline-model-parallel-layout Et|(tt|)*30mL\n", 'l'},
        {"A=1 B=2 torchrun pretrain_gpt.py --lr 1\n", 'l'},
        {"torchrun --nproc-per-node 8 pretrain_gpt.py \\\n  --lr ${LR:-1}\n", 'l'},
        {"TP=8\ntorchrun pretrain_gpt.py --tensor-model-parallel-size $TP\n", 's'},
        {"ARGS=(\n  --lr 1\n)\n", 's'},
        {"  export X=1\npython train.py\n", 's'},
        {"--wandb-exp-name \\\nX=1\n", 'l'},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t n = strlen(files[i].text);
        char kind = megatron_is_yaml(files[i].text, n)     ? 'y'
                    : megatron_is_script(files[i].text, n) ? 's'
                                                           : 'l';
        if (kind != files[i].kind) fail_msg("%c: %s", kind, files[i].text);
    }
}

static void tokenizers_have_their_sizes(void **state)
{
    (void)state;
    const char *hub = "HuggingFaceTokenizer";
    assert_int_equal(tokenizer_size("GPT2BPETokenizer", NULL), 50257);
    assert_int_equal(tokenizer_size("Llama2Tokenizer", "/x/tokenizer.model"), 32000);
    assert_int_equal(tokenizer_size(hub, "meta-llama/Meta-Llama-3-8B"), 128256);
    assert_int_equal(tokenizer_size(hub, "Qwen/Qwen3-30B-A3B"), 151669);
    assert_int_equal(tokenizer_size(hub, "unsloth/DeepSeek-V3"), 128815);
    assert_int_equal(tokenizer_size(hub, "/data/qwen3-next-80b"), 151669);
    assert_int_equal(tokenizer_size(hub, "someone/own"), 0);
    assert_int_equal(tokenizer_size("NullTokenizer", NULL), 0);
    assert_int_equal(tokenizer_size(NULL, NULL), 0);
    assert_int_equal(parse("--tokenizer-type HuggingFaceTokenizer --tokenizer-model Qwen/Qwen3-8B"),
                     OK);
    assert_knob("model.vocab_size", "151669");
    assert_int_equal(parse("--tokenizer-type Llama2Tokenizer --vocab-size 100"), OK);
    assert_knob("model.vocab_size", "100");
    assert_int_equal(parse("--num-layers 3"), OK);
    assert_int_equal(r.knob[K_VOCAB].from, FROM_NOTHING);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_functional_test_is_read),
        TEST(the_second_run_is_picked),
        TEST(values_are_words),
        TEST(what_is_wrong_is_said),
        TEST(kinds_of_files_are_told_apart),
        TEST(tokenizers_have_their_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
