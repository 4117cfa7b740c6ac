/* Argument lists of Megatron-LM: whole commands, single flags, and what is wrong with some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/megatron.h"
#include "config/megatron_table.h"

static arena *memory;
static recipe r;
static error err;

static int begin(void **state)
{
    (void)state;
    memory = arena_create();
    recipe_init(&r, memory, "test");
    err.text[0] = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static status parse(const char *text)
{
    return megatron_parse(&r, "args.txt", text, strlen(text), &err);
}

static void read_file(const char *path)
{
    status s = megatron_read(&r, path, &err);
    if (s) fail_msg("%s", err.text);
    megatron_derive(&r);
    recipe_derive(&r);
    recipe_fill_defaults(&r);
}

/* key=value, as overrides have it. */
static void assert_knob(const char *key, const char *expected)
{
    int k = knob_find(key, NULL);
    assert_true(k >= 0);
    value given, v;
    assert_int_equal(value_parse(memory, expected, &given, &err), OK);
    assert_int_equal(knob_accept(memory, (knob_id)k, given, &v, &err), OK);
    if (!value_equal(v, r.knob[k].v))
        fail_msg("%s is %s, expected %s", key, value_text(memory, r.knob[k].v), expected);
}

typedef struct expectation {
    const char *key, *value;
} expectation;

static void assert_knobs(const expectation *list)
{
    for (; list->key; list++) assert_knob(list->key, list->value);
}

static bool noted(const char *part)
{
    for (int i = 0; i < r.n_notes; i++)
        if (strstr(r.notes[i], part)) return true;
    return false;
}

/* The list is refused, and the message holds each of the |-separated parts. */
static void assert_refused(const char *text, const char *parts)
{
    recipe_init(&r, memory, "test");
    err.text[0] = 0;
    assert_int_equal(parse(text), ERR_INPUT);
    char copy[512];
    snprintf(copy, sizeof copy, "%s", parts);
    for (char *p = strtok(copy, "|"); p; p = strtok(NULL, "|"))
        if (!strstr(err.text, p)) fail_msg("'%s' is not in: %s", p, err.text);
}

/* ---- whole commands */

static void deepseek_v3_command_is_understood(void **state)
{
    (void)state;
    read_file("tests/data/megatron/deepseek_v3.txt");
    static const expectation expected[] = {
        {"cluster.n_gpus", "1024"},
        {"cluster.gpus_per_node", "8"},
        {"env_vars.CUDA_DEVICE_MAX_CONNECTIONS", "1"},
        {"model.pipeline_model_parallel_size", "16"},
        {"model.pipeline_model_parallel_layout", "Et*3|(tt|)*29m|L"},
        {"model.expert_model_parallel_size", "64"},
        {"model.expert_tensor_parallel_size", "1"},
        {"model.multi_latent_attention", "true"},
        {"model.q_lora_rank", "1536"},
        {"model.kv_lora_rank", "512"},
        {"model.rope_type", "yarn"}, /* Megatron's with MLA */
        {"model.rotary_scaling_factor", "40"},
        {"model.mtp_num_layers", "1"},
        {"model.mtp_loss_scaling_factor", "0.3"},
        {"model.gated_linear_unit", "true"},
        {"model.activation_func", "silu"},
        {"model.add_bias_linear", "false"},
        {"model.add_qkv_bias", "false"},
        {"model.share_embeddings_and_output_weights", "false"},
        {"model.moe_router_score_function", "sigmoid"},
        {"model.moe_router_load_balancing_type", "seq_aux_loss"},
        {"model.moe_aux_loss_coeff", "0.0001"},
        {"model.moe_token_dispatcher_type", "flex"},
        {"model.moe_flex_dispatcher_backend", "deepep"},
        {"model.recompute_modules", "[mla_up_proj,moe_act,layernorm]"},
        {"train.train_samples", "585937500"},
        {"mixed_precision.fp8", "e4m3"},
        {"mixed_precision.fp8_recipe", "blockwise"},
        {"mixed_precision.grad_reduce_in_fp32", "true"},
        {"optimizer.exp_avg_dtype", "bf16"},
        {"ddp.use_distributed_optimizer", "true"},
        {"moefold.mock_data", "true"},
        {"dataset.split", "'99,1,0'"},
        /* left open: the defaults of Megatron-LM, not ours */
        {"rerun_state_machine.rerun_mode", "validate_results"},
        {"model.cross_entropy_loss_fusion", "false"},
        {"optimizer.optimizer_offload_fraction", "1.0"},
        {NULL, NULL},
    };
    assert_knobs(expected);
    value freq = r.knob[K_MOE_FREQ].v;
    assert_int_equal(freq.kind, V_LIST);
    assert_int_equal(freq.list.n, 61);
    for (int i = 0; i < 61; i++) assert_int_equal(freq.list.items[i].whole, i >= 3);
    assert_true(noted("--wandb-exp-name: logging in Megatron-LM, no effect here"));
    assert_true(noted("'pretrain_gpt.py'"));
    assert_true(noted("'OMP_NUM_THREADS=4'"));
    assert_true(recipe_is_lm(&r));
}

static void qwen3_list_is_understood(void **state)
{
    (void)state;
    read_file("tests/data/megatron/qwen3_30b_a3b.txt");
    static const expectation expected[] = {
        {"model.num_layers", "48"},
        {"model.num_query_groups", "4"},
        {"model.rotary_base", "1000000"},
        {"model.rope_type", "rope"},
        {"model.moe_router_load_balancing_type", "[aux_loss,global_aux_loss]"},
        {"model.moe_aux_loss_coeff", "[0.001,0.01]"},
        {"model.sequence_parallel", "true"},
        {"moefold.num_layers_per_virtual_pipeline_stage", "12"},
        {"model.recompute_granularity", "selective"},
        {"model.recompute_modules", "[core_attn]"},
        {"model.cuda_graph_impl", "local"},
        {"model.cuda_graph_modules", "[attn,moe_router]"},
        {"dataset.data_path", "['0.7',data/web_text_document,'0.3','data/more text_document']"},
        {"model.expert_tensor_parallel_size", "null"}, /* open: the layout takes TP */
        {"model.moe_token_dispatcher_type", "allgather"},
        {"model.moe_router_dtype", "null"},
        {"model.moe_permute_fusion", "false"},
        {"ddp.use_distributed_optimizer", "false"},
        {"optimizer.adam_beta2", "0.999"},
        {"scheduler.lr_decay_style", "linear"},
        {NULL, NULL},
    };
    assert_knobs(expected);
    assert_int_equal(r.knob[K_MOE_FREQ].v.list.n, 48);
    assert_true(recipe_is(&r, K_TOKENIZER_MODEL, "Qwen/Qwen3-30B-A3B"));
}

static void mixtral_arrays_are_understood(void **state)
{
    (void)state;
    read_file("tests/data/megatron/mixtral_8x7b.txt");
    static const expectation expected[] = {
        {"cluster.n_gpus", "32"},
        {"env_vars.CUDA_DEVICE_MAX_CONNECTIONS", "1"},
        {"model.num_query_groups", "8"},
        {"model.num_moe_experts", "8"},
        {"model.moe_layer_freq", "1"},
        {"model.position_embedding_type", "rope"},
        {"model.moe_aux_loss_coeff", "0.02"},
        {"model.tensor_model_parallel_size", "4"},
        {"model.seq_length", "8192"},
        {"ddp.overlap_grad_reduce", "true"},
        {"ddp.overlap_param_gather", "false"},
        {"checkpoint.save", "checkpoints/mixtral"},
        {"dataset.data_path", "[corpus/all_text_document]"},
        {NULL, NULL},
    };
    assert_knobs(expected);
}

/* ---- habits of Megatron-LM */

static void query_groups_need_their_switch(void **state)
{
    (void)state;
    assert_int_equal(parse("--num-attention-heads 32 --num-query-groups 8"), OK);
    assert_int_equal(r.knob[K_KV_HEADS].from, FROM_NOTHING);
    assert_true(noted("--group-query-attention is missing"));
    recipe_init(&r, memory, "test");
    assert_int_equal(parse("--group-query-attention"), OK);
    assert_knob("model.num_query_groups", "1");
    recipe_init(&r, memory, "test");
    assert_int_equal(parse("--num-query-groups 8 --group-query-attention"), OK);
    assert_knob("model.num_query_groups", "8");
}

static void retired_flags_win_as_megatron_applies_them_last(void **state)
{
    (void)state;
    assert_int_equal(parse("--cuda-graph-scope full_iteration --cuda-graph-impl local"), OK);
    assert_knob("model.cuda_graph_impl", "full_iteration");
    assert_knob("model.cuda_graph_modules", "[]");
    recipe_init(&r, memory, "test");
    assert_int_equal(parse("--moe-token-dispatcher-type alltoall --moe-enable-deepep"), OK);
    assert_knob("model.moe_token_dispatcher_type", "alltoall"); /* a rule names the contradiction */
    recipe_init(&r, memory, "test");
    assert_int_equal(parse("--moe-enable-deepep --num-experts 0 --cuda-graph-modules full"), OK);
    assert_knob("model.moe_token_dispatcher_type", "flex");
    assert_knob("model.num_moe_experts", "null");
    assert_knob("model.cuda_graph_modules", "[]");
}

static void what_depends_on_other_flags_is_derived(void **state)
{
    (void)state;
    assert_int_equal(parse("--hidden-size 4096 --swiglu --fp16"), OK);
    megatron_derive(&r);
    assert_knob("model.ffn_hidden_size", "10880");
    assert_knob("model.add_qkv_bias", "true");
    assert_knob("mixed_precision.grad_reduce_in_fp32", "false");
    assert_knob("ddp.check_for_nan_in_grad", "false");
    recipe_init(&r, memory, "test");
    assert_int_equal(parse("--disable-bias-linear --bf16 --main-grads-dtype bf16"), OK);
    megatron_derive(&r);
    recipe_fill_defaults(&r);
    assert_knob("model.add_qkv_bias", "false");
    assert_knob("mixed_precision.grad_reduce_in_fp32", "false");
    assert_knob("ddp.check_for_nan_in_grad", "true");
}

static void our_own_recipes_keep_their_habits(void **state)
{
    (void)state;
    recipe_set(&r, K_GLU, value_of_bool(true), "test");
    recipe_set(&r, K_ACTIVATION, value_of_text("silu"), "test");
    recipe_set(&r, K_HIDDEN, value_of_int(4096), "test");
    megatron_derive(&r);
    assert_int_equal(r.knob[K_FFN].from, FROM_NOTHING);
}

static void padded_vocabulary_is_the_size_in_the_end(void **state)
{
    (void)state;
    assert_int_equal(parse("--padded-vocab-size 152064 --vocab-size 151936"), OK);
    assert_knob("model.vocab_size", "152064");
    assert_knob("model.should_pad_vocab", "false");
    recipe_init(&r, memory, "test");
    assert_int_equal(parse("--vocab-size 151936"), OK);
    recipe_fill_defaults(&r);
    assert_knob("model.vocab_size", "151936");
    assert_knob("model.should_pad_vocab", "true");
}

static void later_flags_win(void **state)
{
    (void)state;
    assert_int_equal(parse("--bf16 --lr 1 --lr 2e-4"), OK);
    assert_knob("optimizer.lr", "0.0002");
}

static void one_flag_may_set_two_knobs(void **state)
{
    (void)state;
    assert_int_equal(parse("--no-check-for-nan-in-loss-and-grad"), OK);
    assert_knob("ddp.check_for_nan_in_grad", "false");
    assert_knob("rerun_state_machine.check_for_nan_in_loss", "false");
}

/* ---- words */

static void words_are_read_as_a_shell_reads_them(void **state)
{
    (void)state;
    assert_int_equal(parse("--save 'a b'\"c\"\\ d # --load x\n\t--load \\\r\n e#f --split ''"), OK);
    assert_knob("checkpoint.save", "'a bc d'");
    assert_knob("checkpoint.load", "'e#f'");
    assert_knob("dataset.split", "''");
    assert_int_equal(parse("--save '$HOME' --load \"\\$HOME\\x\""), OK);
    assert_string_equal(r.knob[K_SAVE].v.text, "$HOME");
    assert_string_equal(r.knob[K_LOAD].v.text, "$HOME\\x");
}

static void lines_are_counted_through_continuations(void **state)
{
    (void)state;
    assert_refused("--bf16 \\\n\n --wandb-exp-name 'a\nb' \\\n --num-layers x",
                   "args.txt:5:|num_layers|word");
}

static void layouts_need_no_quotes(void **state)
{
    (void)state;
    assert_int_equal(parse("--pipeline-model-parallel-layout Et|(tt|)*30mL --bf16"), OK);
    assert_string_equal(r.knob[K_PP_LAYOUT].v.text, "Et|(tt|)*30mL");
}

/* ---- our own command line */

static void command_line_flags_take_their_words(void **state)
{
    (void)state;
    char *words[] = {"--recompute-modules", "moe_act", "norm", "model.num_layers=4", "--bf16"};
    int used = 0;
    assert_int_equal(megatron_flag(&r, 5, words, "command line", &used, &err), OK);
    assert_int_equal(used, 3);
    assert_knob("model.recompute_modules", "[moe_act,layernorm]");
    assert_int_equal(megatron_flag(&r, 1, words + 4, "command line", &used, &err), OK);
    assert_int_equal(used, 1);
    assert_string_equal(r.knob[K_BF16].why, "command line");
    char *inline_word[] = {"--context-parallel-size=8", "8"};
    assert_int_equal(megatron_flag(&r, 2, inline_word, "command line", &used, &err), OK);
    assert_int_equal(used, 1);
    assert_knob("model.context_parallel_size", "8");
    assert_false(recipe_is_lm(&r)); /* only a whole list brings Megatron-LM's defaults */
}

static void command_line_takes_query_groups_alone(void **state)
{
    (void)state;
    char *words[] = {"--num-query-groups", "8"};
    int used;
    assert_int_equal(megatron_flag(&r, 2, words, "command line", &used, &err), OK);
    assert_knob("model.num_query_groups", "8");
}

/* ---- bad input */

static void what_cannot_be_read_is_refused_with_a_reason(void **state)
{
    (void)state;
    assert_refused("--bf16\n--num-layer 3", "args.txt:2:|'--num-layer'|'--num-layers'");
    assert_refused("--wandb-expname x", "'--wandb-exp-name'");
    assert_refused("--batch-size 4", "'--micro-batch-size'");
    assert_refused("--xyzzy", "unknown flag '--xyzzy'");
    assert_refused("--num-layers", "--num-layers needs a value");
    assert_refused("--num-layers --bf16", "--num-layers needs a value");
    assert_refused("--recompute-modules --bf16", "--recompute-modules needs a value");
    assert_refused("--num-layers abc", "model.num_layers=abc|whole number");
    assert_refused("--num-layers null", "whole number");
    assert_refused("--num-layers 1.5", "whole number");
    assert_refused("--num-layers 99999999999999999999", "64 bits");
    assert_refused("--lr fast", "a number is needed");
    assert_refused("--bf16 true", "'true' belongs to no flag");
    assert_refused("--bf16=true", "--bf16 takes no value");
    assert_refused("--swiglu=1", "--swiglu takes no value");
    assert_refused("--num-layers 4 5", "'5' belongs to no flag");
    assert_refused("--moe-layer-freq [0]*3+", "args.txt:1: --moe-layer-freq: column 7");
    assert_refused("--moe-layer-freq [0]*99999999", "4096");
    assert_refused("\n\n--save 'a", "args.txt:3: the quote ' has no end");
    assert_refused("--save \"a", "the quote \" has no end");
    assert_refused("--num-layers $LAYERS", "args.txt:1: LAYERS for --num-layers|--set NAME=value");
    assert_refused("--num-layers `nproc`", "$(nproc) for --num-layers|write the value itself");
    assert_refused("--bf16 --num-layer 3 --xyzzy --hidden-sizes=4\n--lr 1 --wandb-expname x",
                   "args.txt: 4 unknown flags|args.txt:1: unknown flag '--num-layer'; the nearest "
                   "known one is '--num-layers'|'--xyzzy'|'--hidden-size'|args.txt:2: unknown flag "
                   "'--wandb-expname'");
    assert_refused("torchrun --nproc-per-node gpu", "--nproc-per-node gpu");
    assert_refused("torchrun --nnodes 1:4", "--nnodes 1:4");
}

static void a_byte_0_is_refused(void **state)
{
    (void)state;
    static const char data[] = "--save a\0b";
    assert_int_equal(megatron_parse(&r, "args.txt", data, sizeof data - 1, &err), ERR_INPUT);
    static const char escaped[] = "--save a\\\0b";
    assert_int_equal(megatron_parse(&r, "args.txt", escaped, sizeof escaped - 1, &err), ERR_INPUT);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    size_t n = MEGATRON_BYTES_MAX + 1;
    char *data = arena_take(memory, n);
    memset(data, ' ', n);
    assert_int_equal(megatron_parse(&r, "args.txt", data, n, &err), ERR_INPUT);
    assert_int_equal(megatron_parse(&r, "args.txt", data, n - 1, &err), OK);
    for (size_t i = 0; i < n; i += 2) data[i] = 'x';
    assert_int_equal(megatron_parse(&r, "args.txt", data, n - 1, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "words"));
}

static void a_missing_file_is_an_input_error(void **state)
{
    (void)state;
    assert_int_equal(megatron_read(&r, "tests/data/megatron/none.txt", &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "none.txt"));
}

/* ---- the tables */

static void no_flag_stands_in_two_tables(void **state)
{
    (void)state;
    for (int k = 0; k < K_COUNT; k++) {
        knob_flag f;
        for (const char *p = knobs[k].flag; knob_flag_next(&p, &f);) {
            const char *flag = arena_copy(memory, f.name, f.n);
            assert_true(text_starts(flag, "--"));
            if (idle_flag_find(flag)) fail_msg("%s has a knob and no effect", flag);
            assert_string_equal(flag_canonical(flag), flag);
        }
    }
    for (int i = 0; i < n_combos; i++) assert_null(idle_flag_find(combos[i].flag));
}

static void flags_without_effect_take_their_words(void **state)
{
    (void)state;
    assert_int_equal(parse("--profile --profile-step-start 4 --profile-ranks 0 1 2 --spec local "
                           "--rl-inference-parsers --disable-gloo-process-groups --seed 7"),
                     OK);
    assert_knob("rng.seed", "7");
    assert_int_equal(r.n_notes, 6);
    assert_true(noted("args.txt:1: --profile-ranks: profiling"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
        T(deepseek_v3_command_is_understood),
        T(qwen3_list_is_understood),
        T(mixtral_arrays_are_understood),
        T(query_groups_need_their_switch),
        T(retired_flags_win_as_megatron_applies_them_last),
        T(what_depends_on_other_flags_is_derived),
        T(our_own_recipes_keep_their_habits),
        T(padded_vocabulary_is_the_size_in_the_end),
        T(later_flags_win),
        T(one_flag_may_set_two_knobs),
        T(words_are_read_as_a_shell_reads_them),
        T(lines_are_counted_through_continuations),
        T(layouts_need_no_quotes),
        T(command_line_flags_take_their_words),
        T(command_line_takes_query_groups_alone),
        T(what_cannot_be_read_is_refused_with_a_reason),
        T(a_byte_0_is_refused),
        T(sizes_are_bounded),
        T(a_missing_file_is_an_input_error),
        T(no_flag_stands_in_two_tables),
        T(flags_without_effect_take_their_words),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
