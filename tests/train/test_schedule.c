/* test_schedule.c - learning rate and weight decay against a table that Megatron computed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/job_of.h"
#include "train/loop/schedule.h"

static arena *scratch;

static int set_up(void **state)
{
    (void)state;
    scratch = arena_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(scratch);
    return 0;
}

static job job_with(const char *overrides)
{
    job j;
    recipe r;
    error err = {""};
    recipe_init(&r, scratch, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (recipe_override(&r, word, "test", &err)) fail_msg("%s", err.text);
    recipe_fill_defaults(&r);
    job_of(&j, &r);
    return j;
}

static schedule schedule_of(const char *overrides, int64_t global_batch)
{
    schedule s;
    error err = {""};
    job j = job_with(overrides);
    if (schedule_init(&s, &j, global_batch, &err)) fail_msg("%s: %s", overrides, err.text);
    return s;
}

static void assert_near(double x, double expected, double digit)
{
    if (fabs(x - expected) > digit / 2) fail_msg("%.9g instead of %.9g", x, expected);
}

#define RATES "optimizer.lr=3e-4 optimizer.min_lr=3e-5 scheduler.lr_warmup_init=1e-5"
#define STYLE " scheduler.lr_decay_style="

/* The run of the table, four times: 40 samples of warm-up, 200 of decay, 80 of anneal. */
#define STEPS   " train.train_iters=50 scheduler.lr_warmup_iters=10 scheduler.lr_wsd_decay_iters=20"
#define LONG    " train.train_iters=90 scheduler.lr_decay_iters=50 scheduler.lr_wsd_decay_iters=20"
#define SAMPLES " train.train_samples=200 scheduler.lr_wsd_decay_samples=80"
static const char *const lengths[] = {
    STEPS,
    LONG " scheduler.lr_warmup_iters=10",
    SAMPLES " scheduler.lr_warmup_samples=40",
    SAMPLES " scheduler.lr_warmup_fraction=0.2",
};

enum { POINTS = 8 };
static const int64_t at[POINTS] = {0, 20, 40, 60, 120, 160, 200, 220};

typedef struct curve {
    const char *style;
    double lr[POINTS]; /* times 1e-4 */
} curve;

static const curve curves[] = {
    {"linear", {.1, 1.55, 3, 2.662500, 1.650000, .9750000, .3, .3}},
    {"cosine", {.1, 1.55, 3, 2.897237, 1.650000, .6954058, .3, .3}},
    {"inverse-square-root", {.1, 1.55, 3, 2.449490, 1.732051, 1.500000, 1.341641, .3}},
    {"WSD", {.1, 1.55, 3, 3, 3, 1.418377, .3, .3}},
    {"WSD scheduler.lr_wsd_decay_style=exponential", {.1, 1.55, 3, 3, 3, 1.418377, .3, .3}},
    {"WSD scheduler.lr_wsd_decay_style=minus_sqrt", {.1, 1.55, 3, 3, 3, 1.090812, .3, .3}},
    {"WSD scheduler.lr_wsd_decay_style=linear", {.1, 1.55, 3, 3, 3, 1.650000, .3, .3}},
    {"WSD scheduler.lr_wsd_decay_style=cosine", {.1, 1.55, 3, 3, 3, 1.650000, .3, .3}},
    {"constant", {.1, 1.55, 3, 3, 3, 3, 3, 3}},
};

static void rates_are_megatrons(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t c = 0; c < sizeof curves / sizeof curves[0]; c++) {
            schedule s = schedule_of(
                arena_text(scratch, RATES "%s" STYLE "%s", lengths[l], curves[c].style), 4);
            for (int i = 0; i < POINTS; i++) {
                assert_near(schedule_lr(&s, at[i]), curves[c].lr[i] * 1e-4, 1e-10);
                assert_true(schedule_embedding_lr(&s, at[i]) == schedule_lr(&s, at[i]));
            }
        }
}

static void decay_is_megatrons(void **state)
{
    (void)state;
#define GROWTH                                                                                     \
    RATES STEPS " scheduler.start_weight_decay=0.01 scheduler.end_weight_decay=0.1 "               \
                "scheduler.weight_decay_incr_style="
    schedule linear = schedule_of(GROWTH "linear", 4), cosine = schedule_of(GROWTH "cosine", 4);
    assert_near(schedule_decay(&linear, 60), .037, 1e-6);
    assert_near(schedule_decay(&linear, 100), .055, 1e-6);
    assert_near(schedule_decay(&cosine, 60), .028550, 1e-6);
    assert_near(schedule_decay(&cosine, 100), .055, 1e-6);
    for (int i = 0; i < 2; i++) {
        const schedule *s = i ? &linear : &cosine;
        assert_near(schedule_decay(s, 0), .01, 1e-12);
        assert_near(schedule_decay(s, 200), .1, 1e-12);
        assert_near(schedule_decay(s, 100000), .1, 1e-12);
    }
}

/* Unset, both ends are the optimizer's own weight decay. */
static void constant_decay_is_the_optimizers(void **state)
{
    (void)state;
    schedule s = schedule_of(RATES STEPS " optimizer.weight_decay=0.07", 4);
    for (int64_t n = 0; n < 300; n += 50) assert_true(schedule_decay(&s, n) == 0.07);
}

static void without_warmup_the_first_step_has_the_largest_rate(void **state)
{
    (void)state;
    schedule s = schedule_of(RATES " train.train_iters=50" STYLE "linear", 4);
    assert_true(schedule_lr(&s, 0) == 3e-4);
    assert_near(schedule_lr(&s, 100), 1.65e-4, 1e-10);
    s = schedule_of(RATES " train.train_iters=50" STYLE "inverse-square-root", 4);
    assert_true(schedule_lr(&s, 0) == 3e-4);
    assert_near(schedule_lr(&s, 4), 1.5e-4, 1e-10);
}

/* WSD without a length of its anneal falls over the whole decay. */
static void anneal_is_the_decay_unless_given(void **state)
{
    (void)state;
    schedule s = schedule_of(
        RATES " train.train_iters=50" STYLE "WSD scheduler.lr_wsd_decay_style=linear", 4);
    assert_true(s.anneal == 200);
    assert_near(schedule_lr(&s, 100), 1.65e-4, 1e-10);
}

static void embedding_may_have_its_own_rate(void **state)
{
    (void)state;
    schedule s = schedule_of(RATES STEPS STYLE "linear optimizer.decoupled_lr=1e-3 "
                                               "optimizer.decoupled_min_lr=1e-4",
                             4);
    assert_near(schedule_lr(&s, 120), 1.65e-4, 1e-10);
    assert_near(schedule_embedding_lr(&s, 20), (1e-5 + 1e-3) / 2, 1e-10);
    assert_near(schedule_embedding_lr(&s, 120), 5.5e-4, 1e-10);
    assert_near(schedule_embedding_lr(&s, 220), 1e-4, 1e-10);
    s = schedule_of(RATES STEPS STYLE "linear optimizer.decoupled_lr=1e-3", 4);
    assert_near(schedule_embedding_lr(&s, 220), 3e-5, 1e-10);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *overrides, *says;
    } bad[] = {
        {RATES, "train.train_iters"},
        {RATES " train.train_iters=10 scheduler.lr_warmup_iters=10", "warm-up"},
        {RATES " train.train_iters=10 scheduler.lr_warmup_fraction=1.0", "warm-up"},
        {RATES " train.train_iters=50 scheduler.lr_decay_iters=5 scheduler.lr_warmup_iters=7",
         "warm-up"},
        {"optimizer.lr=1e-5 optimizer.min_lr=1e-4 train.train_iters=10", "optimizer.min_lr"},
        {RATES " train.train_iters=10 scheduler.lr_warmup_init=1.0", "lr_warmup_init"},
        {RATES " train.train_iters=10 optimizer.decoupled_lr=1e-6", "decoupled_min_lr"},
        {RATES " train.train_iters=10 scheduler.start_weight_decay=0.2", "start_weight_decay"},
        {RATES " train.train_iters=10 scheduler.end_weight_decay=0.2", "constant"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        schedule s = {.lr = 42};
        error err = {""};
        job j = job_with(bad[i].overrides);
        status st = schedule_init(&s, &j, 4, &err);
        if (st != ERR_RULE || !strstr(err.text, bad[i].says))
            fail_msg("%s: %s", bad[i].overrides, err.text);
        assert_true(s.lr == 42);
    }
}

/* A Megatron-LM argument list may come without --lr. */
static void a_rate_is_needed(void **state)
{
    (void)state;
    schedule s;
    error err = {""};
    const job j = {.train_iters = 10};
    assert_int_equal(schedule_init(&s, &j, 4, &err), ERR_RULE);
    assert_non_null(strstr(err.text, "optimizer.lr"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_megatrons),
        cmocka_unit_test(decay_is_megatrons),
        cmocka_unit_test(constant_decay_is_the_optimizers),
        cmocka_unit_test(without_warmup_the_first_step_has_the_largest_rate),
        cmocka_unit_test(anneal_is_the_decay_unless_given),
        cmocka_unit_test(embedding_may_have_its_own_rate),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_rate_is_needed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
