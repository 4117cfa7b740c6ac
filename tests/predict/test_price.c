/* Prices add up, and move the way they must. */
#include "ir/testing.h"

#include <math.h>
#include <stdlib.h>

#include "predict/price.h"
#include "config/models/models.h"
#include "rules/rules.h"

static price price_of_words(const char *name, const char *words, double skew)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    hardware *hw = ARENA_NEW(a, hardware);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    recipe_init(r, a, name);
    status st = strstr(name, ".yaml") ? recipe_read_yaml(r, name, &err) : OK;
    if (!strstr(name, ".yaml")) recipe_set(r, K_MODEL, value_of_text(name), "test");
    for (const char *w = words; *w && !st;) {
        size_t n = strcspn(w, " ");
        if (n) st = recipe_override(r, arena_copy(a, w, n), "test", &err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = model_fill(r, &err);
    if (!st) st = setup_init(s, r, a, &err);
    if (!st) st = hardware_read(hw, recipe_word(&s->r, K_GPU), a, &err);
    if (st) fail_msg("%s %s: %s", name, words, err.text);
    price p;
    price_options o = {.skew = skew};
    price_setup(&p, s, hw, &o, a);
    p.evidence = NULL;
    arena_destroy(a);
    return p;
}

static double sum(const double *list, int first, int end)
{
    double x = 0;
    for (int i = first; i < end; i++) x += list[i];
    return x;
}

static const char *const recipes[] = {
    "recipes/dsv3-4k-h100.yaml",          "recipes/dsv3-64k-h100.yaml",
    "recipes/qwen3-30b-4k-h100.yaml",     "recipes/qwen3-30b-4k-overlap-h100.yaml",
    "recipes/qwen3-235b-128k-gb200.yaml", "recipes/qwen3-next-32k-gb200.yaml"};
enum { N_RECIPES = sizeof recipes / sizeof recipes[0] };

/* What the compute stream of the busiest stage did, and what it waited for, is the whole step: but
 * for what messages beside GEMMs cost, which is in no kind. */
static void times_add_up(void **state)
{
    (void)state;
    for (int i = 0; i < N_RECIPES; i++) {
        price p = price_of_words(recipes[i], "", 0);
        double parts = sum(p.time, 0, COST_TP) + p.time[COST_OTHER] +
                       sum(p.exposed, COST_TP, COST_COPY + 1) + p.host + p.bubble + p.optimizer;
        if (fabs(parts - p.step_s) > 0.08 * p.step_s)
            fail_msg("%s: parts %.4f s, step %.4f s", recipes[i], parts, p.step_s);
        assert_true(p.tokens_per_s_per_gpu > 0 && p.mfu_bf16 > 0 && p.mfu_bf16 < 1);
        assert_true(sum(p.exposed, COST_TP, COST_DP + 1) <=
                    1.001 * sum(p.time, COST_TP, COST_DP + 1));
    }
}

/* Regions of the fullest rank are the arena. */
static void memory_adds_up(void **state)
{
    (void)state;
    for (int i = 0; i < N_RECIPES; i++) {
        price p = price_of_words(recipes[i], "", 0);
        int64_t bytes = 0;
        for (int r = 0; r < REGION_COUNT; r++) bytes += p.bytes[r];
        assert_true(llabs(bytes - p.arena_bytes) < 64 * REGION_COUNT);
        int64_t inside = p.megatron ? p.memory.reserved : p.arena_bytes;
        assert_int_equal(p.peak_bytes, inside + p.memory.outside);
    }
}

static void more_work_takes_longer(void **state)
{
    (void)state;
    const char *r = recipes[2];
    price base = price_of_words(r, "", 0), skewed = price_of_words(r, "", 1.5);
    price again = price_of_words(
        r,
        "model.recompute_granularity=full model.recompute_method=uniform "
        "model.recompute_num_layers=1 model.recompute_modules=null model.cuda_graph_impl=none "
        "model.cuda_graph_modules=[]",
        0);
    price twice = price_of_words(r, "train.global_batch_size=1024", 0);
    price half = price_of_words(r, "train.global_batch_size=512", 0);
    assert_true(skewed.step_s > base.step_s);
    assert_true(again.step_s > base.step_s);
    assert_true(again.peak_bytes < base.peak_bytes);
    assert_true(twice.step_s > 1.8 * half.step_s && twice.step_s < 2.01 * half.step_s);
}

/* Stages alike and M microbatches: (P - 1) / M of the step are bubble, less with virtual stages. */
static void bubbles_are_those_of_the_books(void **state)
{
    (void)state;
    const char *words = "cluster.gpu=H100 cluster.n_gpus=8 model.num_layers=32 "
                        "model.pipeline_model_parallel_size=4 train.global_batch_size=32 "
                        "model.vocab_size=1024 mixed_precision=bf16_mixed "
                        "model.num_layers_in_first_pipeline_stage=null model.mtp_num_layers=null ";
    arena *a = arena_create();
    price plain = price_of_words("qwen3-30b-a3b", words, 0);
    price virtual = price_of_words(
        "qwen3-30b-a3b", arena_text(a, "%s model.virtual_pipeline_model_parallel_size=4", words),
        0);
    double step = plain.step_s - plain.optimizer, share = plain.bubble / step;
    print_message("bubble %.1f %% of the step, with virtual stages %.1f %%\n", 100 * share,
                  100 * virtual.bubble / virtual.step_s);
    double books = 3.0 / (16 + 3);
    assert_true(share > 0.7 * books && share < 1.4 * books);
    assert_true(virtual.bubble < 0.6 * plain.bubble);
    arena_destroy(a);
}

/* A receive that stands where it is needed begins there: all that a rank receives is exposed, and
 * it receives as much as it sends. One that was posted a unit ahead is hidden but where the
 * pipeline fills and drains. The plan's steps are those of the price (test_search.c). */
static void receives_hide_where_they_are_posted_ahead(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *words = "cluster.gpu=H100 cluster.n_gpus=4 model.num_layers=32 pp=4 vpp=2 gbs=32 "
                        "model.num_layers_in_first_pipeline_stage=null model.mtp_num_layers=null "
                        "comm_overlap.overlap_p2p_comm=%s comm_overlap.batch_p2p_comm=%s";
    price off = price_of_words("qwen3-30b-a3b", arena_text(a, words, "false", "true"), 0);
    price on = price_of_words("qwen3-30b-a3b", arena_text(a, words, "true", "false"), 0);
    print_message("stage to stage: %.4f s, exposed %.4f s; posted ahead %.4f s\n",
                  off.time[COST_PP], off.exposed[COST_PP], on.exposed[COST_PP]);
    assert_true(off.time[COST_PP] > 0 && off.exposed[COST_PP] > 0.999 * off.time[COST_PP]);
    assert_true(on.exposed[COST_PP] < 0.5 * on.time[COST_PP]);
    assert_true(off.step_s > on.step_s);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_hide_where_they_are_posted_ahead),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(memory_adds_up),
        cmocka_unit_test(more_work_takes_longer),
        cmocka_unit_test(bubbles_are_those_of_the_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
