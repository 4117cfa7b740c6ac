/* test_flops.c - FLOPs against Megatron's own function, run on public shapes. */
#include "testing.h"

#include <math.h>

typedef struct golden {
    const char *model, *overrides;
    double sequence;      /* of 4096 tokens, eleven digits */
    const char *token[3]; /* at 4K, 32K, 128K, as printed */
} golden;

static const golden from_megatron[] = {
    {"deepseek-v3",
     "model.mtp_num_layers=1",
     1.0649311264e15,
     {"2.599930e+11", "4.784323e+11", "1.227367e+12"}},
    {"deepseek-v3", NULL, 1.0232301732e15, {"2.498121e+11", "4.647282e+11", "1.201584e+12"}},
    {"qwen3-235b-a22b", NULL, 6.0635059795e14, {"1.480348e+11", "2.805077e+11", "7.347005e+11"}},
    {"qwen3-30b-a3b", NULL, 9.4233729958e13, {"2.300628e+10", "5.682915e+10", "1.727933e+11"}},
    {"mixtral-8x7b", NULL, 3.2647764404e14, {"7.970646e+10", "1.022550e+11", "1.795644e+11"}},
    {"qwen3-next-80b-a3b", NULL, 9.3141734523e13, {"2.273968e+10", "3.119540e+10", "6.018643e+10"}},
};

static void equals_megatron_in_all_eighteen(void **state)
{
    (void)state;
    static const int64_t lengths[] = {4096, 32768, 131072};
    for (size_t i = 0; i < sizeof from_megatron / sizeof from_megatron[0]; i++) {
        const golden *g = &from_megatron[i];
        made x;
        made_good(&x, g->model, g->overrides);
        double sequence = 4096 * model_flops_per_token(&x.m, 4096);
        assert_true(fabs(sequence - g->sequence) < 1e-9 * g->sequence);
        for (int k = 0; k < 3; k++) {
            char text[32];
            snprintf(text, sizeof text, "%.6e", model_flops_per_token(&x.m, lengths[k]));
            assert_string_equal(text, g->token[k]);
        }
        made_release(&x);
    }
}

static void equals_bridge_at_4096(void **state)
{
    (void)state;
    static const struct {
        const char *model, *overrides, *giga;
    } rows[] = {
        {"deepseek-v3", "model.mtp_num_layers=1", "259.99"},
        {"qwen3-235b-a22b", NULL, "148.03"},
        {"qwen3-30b-a3b", NULL, "23.01"},
        {"gpt-oss-120b", NULL, "32.63"},
        {"kimi-k2", NULL, "204.48"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        char text[32];
        made_good(&x, rows[i].model, rows[i].overrides);
        snprintf(text, sizeof text, "%.2f", model_flops_per_token(&x.m, 4096) / 1e9);
        assert_string_equal(text, rows[i].giga);
        made_release(&x);
    }
}

/* megatron-training.md 4.5: the parts of one module at three lengths. */
static void prediction_module_adds_its_share(void **state)
{
    (void)state;
    static const struct {
        int64_t seq;
        const char *added;
    } rows[] = {{4096, "1.018090e+10"}, {32768, "1.370411e+10"}, {131072, "2.578371e+10"}};
    made with, without;
    made_good(&with, "deepseek-v3", "model.mtp_num_layers=1");
    made_good(&without, "deepseek-v3", NULL);
    for (size_t i = 0; i < 3; i++) {
        char text[32];
        double added = model_flops_per_token(&with.m, rows[i].seq) -
                       model_flops_per_token(&without.m, rows[i].seq);
        snprintf(text, sizeof text, "%.6e", added);
        assert_string_equal(text, rows[i].added);
    }
    made_release(&with);
    made_release(&without);
}

static void window_counts_the_mean_of_its_keys(void **state)
{
    (void)state;
    made x;
    made_good(&x, "tiny", "model.window_size=[2,0]");
    assert_int_equal(model_window(&x.m), 3);
    double full = 6.0 * 4 * 4 * 32 * 8;  /* layers x heads x head size x sequence */
    double mean = (1 + 2 + 3 * 6) / 8.0; /* tokens 0, 1, then six that see three */
    double windowed = 6.0 * 4 * 4 * 32 * 2 * mean;
    double with = model_flops_per_token(&x.m, 8);
    made_release(&x);
    made_good(&x, "tiny", NULL);
    assert_true(fabs(model_flops_per_token(&x.m, 8) - with - (full - windowed)) < 1e-6 * full);
    made_release(&x);
    made_good(&x, "tiny", "model.window_size=4096");
    double wide = model_flops_per_token(&x.m, 4096);
    made_release(&x);
    made_good(&x, "tiny", NULL);
    assert_true(wide == model_flops_per_token(&x.m, 4096));
    made_release(&x);
}

static void padded_vocabulary_counts(void **state)
{
    (void)state;
    made x, y;
    made_good(&x, "tiny", "model.vocab_size=1000");
    made_good(&y, "tiny",
              "model.vocab_size=1000 model.should_pad_vocab=true "
              "model.tensor_model_parallel_size=2");
    assert_int_equal(y.m.padded_vocab, 1024);
    double more = model_flops_per_token(&y.m, 64) - model_flops_per_token(&x.m, 64);
    assert_true(fabs(more - 6.0 * 128 * 24) < 1e-3);
    made_release(&x);
    made_release(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_megatron_in_all_eighteen),
        cmocka_unit_test(equals_bridge_at_4096),
        cmocka_unit_test(prediction_module_adds_its_share),
        cmocka_unit_test(window_counts_the_mean_of_its_keys),
        cmocka_unit_test(padded_vocabulary_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
