/* What a search of published features looks at: containers, number formats and recompute by module
 * as published runs have them. */
#include "plan/searching.h"

#include "predict/bands.h"
#include "ir/capture.h"
#include "ir/segment.h"

static const char *const words_of_job[] = {"cluster.gpu=GB200",
                                           "cluster.n_gpus=8",
                                           "cluster.nvlink_domain=64",
                                           "model.seq_length=4096",
                                           "train.global_batch_size=512",
                                           "model.moe_router_force_load_balancing=true",
                                           "model.expert_tensor_parallel_size=1",
                                           "model.context_parallel_size=1",
                                           "model.tensor_model_parallel_size=1",
                                           NULL,
                                           NULL};

static bool finds_whole_step_graphs(const char *precision, const char *stack, bool published)
{
    arena *a = arena_create();
    hardware hw;
    error err = {{0}};
    const char *words[sizeof words_of_job / sizeof words_of_job[0]];
    int n = 0;
    for (; words_of_job[n]; n++) words[n] = words_of_job[n];
    words[n] = precision;
    words[n + 1] = NULL;
    searching_machine(&hw, "hardware/gb200.yaml", a);
    search_options o = {.hw = &hw, .published = published, .prices = {.stack = stack}};
    search_result *r = ARENA_NEW(a, search_result);
    assert_int_equal(search_run(r, searching_recipe("qwen3-30b-a3b", words, a), &o, a, &err), OK);
    assert_true(r->n_best > 0);
    bool whole = false;
    for (int i = 0; i < r->n_best; i++) whole = whole || r->best[i].c.graphs == SCOPE_STEP;
    arena_destroy(a);
    return whole;
}

static void a_container_has_what_was_published_with_it(void **state)
{
    (void)state;
    assert_true(finds_whole_step_graphs("mixed_precision=mxfp8", "26.06", true));
    assert_true(finds_whole_step_graphs("mixed_precision=mxfp8", NULL, true));
    assert_false(finds_whole_step_graphs("mixed_precision=mxfp8", "26.04", true));
    assert_true(finds_whole_step_graphs("mixed_precision=mxfp8", "26.04", false));
}

static void whole_step_graphs_are_of_a_number_format(void **state)
{
    (void)state;
    assert_false(finds_whole_step_graphs("mixed_precision=bf16_mixed", NULL, true));
    assert_true(finds_whole_step_graphs("mixed_precision=bf16_mixed", NULL, false));
}

/* Qwen3-Next's linear attention is captured with `attn`; no module names it. */
static void captured_modules_are_those_that_rules_allow(void **state)
{
    (void)state;
    static const char *const models[] = {"qwen3-next-80b-a3b", "qwen3-30b-a3b", "deepseek-v3"};
    static const char *const words[] = {"cluster.gpu=GB200", "cluster.n_gpus=32",
                                        "model.seq_length=8192", "train.global_batch_size=512",
                                        NULL};
    for (int i = 0; i < 3; i++) {
        arena *a = arena_create();
        error err = {{0}};
        const recipe *given = searching_recipe(models[i], words, a);
        choice_maker m;
        choice_open(&m, given, a);
        m.precisions[m.n_precisions++] = J_PRECISION_BF16_WITH_MXFP8_MIXED;
        for (int g = SCOPE_ATTENTION; g <= SCOPE_BOTH; g++) {
            choice c = {.tp = 1, .cp = 1, .mbs = 1, .ep = 16, .etp = 1, .pp = 1, .vpp = 1};
            c.to = TO_FLEX;
            c.graphs = (graph_scope)g;
            recipe *r = ARENA_NEW(a, recipe);
            setup *s = ARENA_NEW(a, setup);
            violations broken;
            *r = *given;
            choice_set(r, &m, &c);
            assert_int_equal(setup_init(s, r, a, &err), OK);
            rules_check(&broken, s, false, a);
            for (int k = 0; k < broken.n_errors; k++)
                fail_msg("%s, graphs of %s: %s", models[i], choice_graphs(c.graphs),
                         broken.list[k].message);
            assert_int_equal(capture_of(&s->j), choice_captured(&m, c.graphs));
            const op linear = {.module = MODULE_LINEAR};
            assert_int_equal((capture_of(&s->j) & capture_part(&linear)) != 0,
                             c.graphs != SCOPE_ROUTER);
        }
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_container_has_what_was_published_with_it),
        cmocka_unit_test(whole_step_graphs_are_of_a_number_format),
        cmocka_unit_test(captured_modules_are_those_that_rules_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
