/* Tuning: the folder's lines, changes with one text, machines that are written and read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "config/models/models.h"
#include "model/model.h"
#include "measure/tune/expect.h"

static void every_machine_is_read_back(void **state)
{
    (void)state;
    arena *a = arena_create();
    int n;
    const char *const *names = hardware_names(&n, a);
    assert_true(n > 5);
    for (int i = 0; i < n; i++) {
        hardware x, y;
        error err = {{0}};
        assert_int_equal(hardware_read(&x, names[i], a, &err), OK);
        const char *t = hardware_text(&x, "", NULL, NULL, a);
        status s = hardware_parse(&y, "again", t, strlen(t), a, &err);
        if (s) print_error("%s\n%s\n", err.text, t);
        assert_int_equal(s, OK);
        assert_string_equal(t, hardware_text(&y, "", NULL, NULL, a));
        assert_true(x.arch == y.arch && x.usable == y.usable && x.n_stacks == y.n_stacks);
        for (int k = 0; k < x.n_stacks; k++)
            assert_true(x.stacks[k].unfused_sinks == y.stacks[k].unfused_sinks &&
                        x.stacks[k].fused_experts == y.stacks[k].fused_experts &&
                        x.stacks[k].fused_biases == y.stacks[k].fused_biases);
        assert_true(
            fabs(curve_at(&x.gemm[NUMBER_BF16], 777) - curve_at(&y.gemm[NUMBER_BF16], 777)) < 1e-6);
    }
    arena_destroy(a);
}

static tune *make(arena *a)
{
    tune *t = ARENA_NEW(a, tune);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    static const char *const words[] = {"moefold.model=tiny",       "cluster.gpu=cpu",
                                        "model.seq_length=64",      "train.global_batch_size=16",
                                        "train.micro_batch_size=2", "cluster.n_gpus=1"};
    recipe_init(r, a, "test");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_int_equal(recipe_override(r, words[i], "test", &err), OK);
    assert_int_equal(model_fill(r, &err), OK);
    t->start = r;
    t->a = a;
    assert_int_equal(hardware_read(&t->base, "cpu", a, &err), OK);
    t->hw = t->base;
    return t;
}

static void two_ways_to_a_recipe_are_one_change(void **state)
{
    (void)state;
    arena *a = arena_create();
    tune *t = make(a);
    const edits two = EDITS(SET_INT(MBS, 2)), four = EDITS(SET_INT(MBS, 4));
    const edits both = EDITS(SET_INT(MBS, 4), SET_WORD(RECOMPUTE, FULL));
    const edits layers = EDITS(SET_INT(LAYERS, 2)), wide = EDITS(SET_WORD(PRECISION, BF16_MIXED));
    const char *x = tune_change(t, "", both, a);
    const char *y = tune_change(t, "model.recompute_granularity=full", four, a);
    assert_string_equal(x, y);
    assert_string_equal(tune_change(t, "train.micro_batch_size=4", two, a), "");
    assert_null(tune_change(t, "", layers, a)); /* the job is fixed */
    assert_null(tune_change(t, "", wide, a));
    t->pinned[K_MBS] = true;
    assert_null(tune_change(t, "", four, a));
    arena_destroy(a);
}

/* A machine that is three times slower in one kind is learned from one trial. */
static void rates_are_learned(void **state)
{
    (void)state;
    arena *a = arena_create();
    tune *t = make(a);
    try_result p, after;
    step_part parts[STEP_PARTS];
    assert_true(tune_price_of(t, "", &p, a));
    price_parts(parts, &p.p);
    trial x = {.from = -1, .change = "", .reason = "", .end = TRIAL_MEASURED, .has_parts = true};
    for (int k = 0; k < STEP_PARTS; k++) {
        x.parts[k] = parts[k].seconds * (k == COST_GROUPED ? 3 : k == COST_MEMORY ? 2 : 1);
        x.step_s += x.parts[k];
    }
    t->trials[t->n++] = x;
    tune_learn(t);
    assert_true(tune_price_of(t, "", &after, a));
    assert_true(fabs(after.p.step_s / x.step_s - 1) < 0.03);
    assert_true(fabs(after.p.time[COST_GROUPED] / p.p.time[COST_GROUPED] - 3) < 0.1);
    assert_true(fabs(after.p.time[COST_GEMM] / p.p.time[COST_GEMM] - 1) < 0.02);
    arena_destroy(a);
}

/* A line is read back as it was written, whatever its end. */
static void lines_are_read_back(void **state)
{
    (void)state;
    arena *a = arena_create();
    char folder[] = "/tmp/moefold-tune-XXXXXX";
    error err = {{0}};
    assert_non_null(mkdtemp(folder));
    tune *t = make(a);
    t->dir = folder;
    assert_int_equal(tune_open(t, &err), OK);
    for (int e = TRIAL_MEASURED; e < TRIAL_ENDS; e++) {
        trial x = {.number = t->n, .from = t->n - 1, .end = (trial_end)e, .reason = "a \"reason\""};
        x.change = e == TRIAL_MEASURED ? "" : "train.micro_batch_size=4";
        x.said = e == TRIAL_MEASURED ? NULL : "said";
        x.step_s = e == TRIAL_MEASURED ? 0.125 : 0;
        x.peak_bytes = 77;
        assert_int_equal(tune_record(t, &x, &err), OK);
    }
    tune *again = make(a);
    again->dir = folder;
    assert_int_equal(tune_open(again, &err), OK);
    assert_int_equal(again->n, t->n);
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i], *y = &again->trials[i];
        assert_true(x->end == y->end && x->from == y->from && x->step_s == y->step_s);
        assert_string_equal(x->change, y->change);
        assert_string_equal(x->reason, y->reason);
    }
    assert_int_equal(tune_best(again)->number, 0);
    static const char *const files[] = {"start.yaml", "trials.jsonl", "hardware.yaml", "best.yaml"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(arena_text(a, "%s/%s", folder, files[i]));
    rmdir(folder);
    arena_destroy(a);
}

static recipe *recipe_of(tune *t, const char *change, double *priced)
{
    try_result p;
    assert_true(tune_price_of(t, change, &p, t->a));
    *priced = p.p.step_s;
    return &p.s->r;
}

static void add_measured(tune *t, const char *change, double over_priced, double spread)
{
    double priced;
    recipe_of(t, change, &priced);
    t->trials[t->n] = (trial){.number = t->n,
                              .from = t->n - 1,
                              .change = change,
                              .reason = "",
                              .end = TRIAL_MEASURED,
                              .step_s = over_priced * priced,
                              .spread = spread};
    t->n++;
}

static void near_recipes_are_few_steps_apart(void **state)
{
    (void)state;
    arena *a = arena_create();
    tune *t = make(a);
    double none;
    const recipe *two = recipe_of(t, "", &none),
                 *four = recipe_of(t, "train.micro_batch_size=4", &none),
                 *sixteen = recipe_of(t, "train.micro_batch_size=16", &none);
    assert_true(fabs(steps_apart(two, four) - 1) < 1e-9);
    assert_true(fabs(steps_apart(two, sixteen) - 3) < 1e-9);
    assert_true(steps_apart(two, two) < 1e-9);
    const recipe *act = recipe_of(
        t, "model.recompute_granularity=selective model.recompute_modules=[moe_act]", &none);
    const recipe *both = recipe_of(
        t, "model.recompute_granularity=selective model.recompute_modules=[layernorm,moe_act]",
        &none);
    assert_true(fabs(steps_apart(act, both) - 1) < 1e-9);
    assert_true(steps_apart(two, both) > steps_apart(two, act));
    arena_destroy(a);
}

/* A machine on which every doubling of the microbatch costs 10 % more than the price says: what
 * lies between two trials is expected between them, and known better than what lies outside. */
static void errors_of_prices_are_interpolated(void **state)
{
    (void)state;
    arena *a = arena_create();
    tune *t = make(a);
    double priced;
    const recipe *far = recipe_of(t, "train.micro_batch_size=16", &priced);
    expectation blind = expect(expectations_of(t, a), far, priced);
    assert_true(blind.seconds == priced);
    add_measured(t, "train.micro_batch_size=1", 2.0, 0);
    expectation one = expect(expectations_of(t, a), far, priced);
    assert_true(fabs(one.seconds / priced - 2) < 1e-6); /* I3 of expect.c */
    add_measured(t, "train.micro_batch_size=4", 2.42, 0);
    const expectations *e = expectations_of(t, a);
    expectation outside = expect(e, far, priced);
    const recipe *mid = recipe_of(t, "", &priced), *own;
    expectation between = expect(e, mid, priced);
    assert_true(between.seconds > 2.1 * priced && between.seconds < 2.3 * priced);
    assert_true(between.band < outside.band);
    own = recipe_of(t, "train.micro_batch_size=4", &priced);
    expectation at = expect(e, own, priced);
    assert_true(fabs(at.seconds / priced / 2.42 - 1) < 0.02 && at.band < between.band);
    arena_destroy(a);
}

/* Times that scatter teach less than times that stand still. */
static void a_disturbed_trial_is_believed_less(void **state)
{
    (void)state;
    arena *a = arena_create();
    double off[2];
    for (int i = 0; i < 2; i++) {
        tune *t = make(a);
        double priced;
        add_measured(t, "train.micro_batch_size=1", 1.0, 0);
        add_measured(t, "train.micro_batch_size=4", 1.3, i ? 0.4 : 0);
        const recipe *own = recipe_of(t, "train.micro_batch_size=4", &priced);
        off[i] = 1.3 - expect(expectations_of(t, a), own, priced).seconds / priced;
    }
    assert_true(off[0] < 0.02 && off[1] > 0.05);
    arena_destroy(a);
}

static void gains_are_of_the_mean_and_of_the_band(void **state)
{
    (void)state;
    expectation sure = {0.9, 0}, slow = {1.1, 0}, open = {1.0, 0.05}, narrow = {1.0, 0.01};
    assert_true(fabs(expected_gain(sure, 1) - log(1 / 0.9)) < 1e-12);
    assert_true(expected_gain(slow, 1) == 0);
    assert_true(fabs(expected_gain(open, 1) - 0.05 * 0.398942280401) < 1e-9);
    assert_true(expected_gain(narrow, 1) < expected_gain(open, 1));
    assert_true(expected_gain((expectation){1.3, 0.05}, 1) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_is_read_back),
        cmocka_unit_test(two_ways_to_a_recipe_are_one_change),
        cmocka_unit_test(rates_are_learned),
        cmocka_unit_test(lines_are_read_back),
        cmocka_unit_test(near_recipes_are_few_steps_apart),
        cmocka_unit_test(errors_of_prices_are_interpolated),
        cmocka_unit_test(a_disturbed_trial_is_believed_less),
        cmocka_unit_test(gains_are_of_the_mean_and_of_the_band),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
