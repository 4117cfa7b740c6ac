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
#include "model/model.h"
#include "tune/tune.h"

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
    const char *x =
        tune_change(t, "", "train.micro_batch_size=4 model.recompute_granularity=full", a);
    const char *y =
        tune_change(t, "model.recompute_granularity=full", "train.micro_batch_size=4", a);
    assert_string_equal(x, y);
    assert_string_equal(tune_change(t, "train.micro_batch_size=4", "train.micro_batch_size=2", a),
                        "");
    assert_null(tune_change(t, "", "model.num_layers=2", a)); /* the job is fixed */
    assert_null(tune_change(t, "", "mixed_precision=bf16_mixed", a));
    t->pinned[K_MBS] = true;
    assert_null(tune_change(t, "", "train.micro_batch_size=4", a));
    arena_destroy(a);
}

/* A machine that is three times slower in one kind is learned from one trial. */
static void rates_are_learned(void **state)
{
    (void)state;
    arena *a = arena_create();
    tune *t = make(a);
    tune_price p, after;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_is_read_back),
        cmocka_unit_test(two_ways_to_a_recipe_are_one_change),
        cmocka_unit_test(rates_are_learned),
        cmocka_unit_test(lines_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
