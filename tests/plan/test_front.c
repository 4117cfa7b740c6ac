/* test_front.c - the front of speed against memory: with search_options.front, it has what is
 * fastest in parts of the memory, and nothing else changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/models/models.h"
#include "rules/rules.h"
#include "plan/search.h"

static const char *const words[] = {"cluster.n_gpus=16",
                                    "cluster.gpu=H100",
                                    "model.seq_length=4096",
                                    "train.global_batch_size=64",
                                    "model.expert_tensor_parallel_size=1",
                                    "model.context_parallel_size=1",
                                    "model.moe_token_dispatcher_type=alltoall"};

typedef struct fixture {
    arena *a;
    hardware hw;
    recipe *given;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    error err = {{0}};
    f.a = arena_create();
    if (hardware_read(&f.hw, "hardware/h100.yaml", f.a, &err)) return -1;
    f.given = ARENA_NEW(f.a, recipe);
    recipe_init(f.given, f.a, "qwen3-30b-a3b");
    recipe_set(f.given, K_MODEL, value_of_text("qwen3-30b-a3b"), "test");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (recipe_override(f.given, words[i], "test", &err)) return -1;
    *state = &f;
    return model_fill(f.given, &err) == OK ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    arena_destroy(f->a);
    return 0;
}

static search_result *run(fixture *f, const hardware *hw, bool front)
{
    search_options o = {.hw = hw, .front = front, .best = 1};
    search_result *r = ARENA_NEW(f->a, search_result);
    error err = {{0}};
    assert_int_equal(search_run(r, f->given, &o, f->a, &err), OK);
    assert_true(r->n_best > 0);
    return r;
}

static double fastest_step(const found *list, int n, int64_t usable)
{
    double least = 1e9;
    for (int i = 0; i < n; i++)
        if (list[i].peak_bytes <= usable && list[i].step_s < least) least = list[i].step_s;
    return least;
}

/* A search of its own on a chip with less memory finds nothing faster. */
static void front_has_the_fastest_of_each_part(void **state)
{
    fixture *f = *state;
    const search_result *r = run(f, &f->hw, true), *plain = run(f, &f->hw, false);
    static const double parts[] = {0.8, 0.6, 0.4};
    bool more = false;
    for (int i = 0; i < 3; i++) {
        hardware less = f->hw;
        less.usable = (int64_t)(parts[i] * (double)f->hw.usable);
        const search_result *there = run(f, &less, false);
        double step = fastest_step(there->best, there->n_best, less.usable);
        assert_true(fastest_step(r->front, r->n_front, less.usable) == step);
        more = more || fastest_step(plain->front, plain->n_front, less.usable) > step;
    }
    assert_true(more);
}

static void the_rest_stays(void **state)
{
    fixture *f = *state;
    const search_result *r = run(f, &f->hw, true), *plain = run(f, &f->hw, false);
    assert_int_equal(r->n_best, plain->n_best);
    for (int i = 0; i < r->n_best; i++) {
        assert_true(r->best[i].step_s == plain->best[i].step_s);
        assert_int_equal(r->best[i].peak_bytes, plain->best[i].peak_bytes);
    }
    assert_int_equal(r->counts.legal, plain->counts.legal);
    assert_int_equal(r->counts.slow, plain->counts.slow);
    assert_int_equal(r->counts.summed, plain->counts.summed);
}

static void front_is_a_front_and_breaks_no_rule(void **state)
{
    fixture *f = *state;
    search_result *r = run(f, &f->hw, true);
    assert_true(r->n_front > 3);
    for (int i = 0; i < r->n_front; i++) {
        recipe *one = ARENA_NEW(f->a, recipe);
        setup *s = ARENA_NEW(f->a, setup);
        error err = {{0}};
        violations v;
        search_recipe(one, r, f->given, &r->front[i].c);
        assert_int_equal(setup_init(s, one, f->a, &err), OK);
        rules_check(&v, s, false, f->a);
        assert_int_equal(v.n_errors, 0);
        if (i == 0) continue;
        assert_true(r->front[i].step_s > r->front[i - 1].step_s);
        assert_true(r->front[i].peak_bytes < r->front[i - 1].peak_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(front_has_the_fastest_of_each_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_rest_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(front_is_a_front_and_breaks_no_rule, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
