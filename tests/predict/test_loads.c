/* Natural and forced routing: which of them a recipe is priced with, in time and in memory. */
#include "ir/testing.h"

#include <math.h>
#include <stdio.h>

#include "predict/price.h"
#include "config/loads.h"

#define JOB                                                                                        \
    "cluster.n_gpus=64 model.seq_length=4096 train.global_batch_size=256 "                         \
    "train.micro_batch_size=1 mixed_precision=bf16_mixed "
#define H100   JOB "cluster.gpu=H100 "
#define FORCED "model.moe_router_force_load_balancing=true "

typedef struct loads {
    double skew, room; /* knobs */
    price p;
} loads;

static loads of(const char *words, const char *more)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    hardware *hw = ARENA_NEW(a, hardware);
    error err = {{0}};
    setup_of_words(s, a, "qwen3-30b-a3b", arena_text(a, "%s%s", words, more));
    if (!s->possible || s->pipe.why_not) fail_msg("%s%s: not possible", words, more);
    if (hardware_read(hw, recipe_on_cpu(&s->r) ? "cpu" : "h100", a, &err)) fail_msg("%s", err.text);
    loads x = {.skew = recipe_real(&s->r, K_ROUTING_SKEW),
               .room = recipe_real(&s->r, K_BUFFER_FACTOR)};
    price_setup(&x.p, s, hw, NULL, a);
    x.p.evidence = NULL;
    arena_destroy(a);
    return x;
}

static void natural_routing_grows_with_ep(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "model.expert_model_parallel_size=1", "model.expert_model_parallel_size=2",
        "model.expert_model_parallel_size=8", "model.expert_model_parallel_size=32",
        "model.expert_model_parallel_size=64"};
    static const double skews[] = {1, 1.04, 1.17, 1.46, 1.72};
    for (int i = 0; i < 5; i++) {
        loads natural = of(H100, sizes[i]), forced = of(H100 FORCED, sizes[i]);
        if (fabs(natural.skew - skews[i]) > 1e-9) fail_msg("%s: %g", sizes[i], natural.skew);
        assert_true(natural.room == natural.skew);
        assert_true(forced.skew == 1 && forced.room == 1);
        if (!i) continue;
        assert_true(natural.p.skew == skews[i] && forced.p.skew == 1);
        assert_true(natural.p.time[COST_GROUPED] > forced.p.time[COST_GROUPED]);
        assert_true(natural.p.time[COST_EP] > forced.p.time[COST_EP]);
        assert_true(i < 2 || natural.p.step_s > forced.p.step_s); /* the host hides EP 2's */
        assert_true(natural.p.peak_bytes > forced.p.peak_bytes);
    }
}

/* A skew that somebody set is that of natural routing: it does not unbalance a benchmark. */
static void forced_balance_has_no_skew(void **state)
{
    (void)state;
    static const char ep[] = "model.expert_model_parallel_size=8 ";
    static const char set[] = "model.expert_model_parallel_size=8 moefold.routing_skew=3";
    static const char random[] =
        "model.expert_model_parallel_size=8 moefold.moe_router_force_random=true";
    loads plain = of(H100 FORCED, ep), with = of(H100 FORCED, set);
    assert_true(with.p.step_s == plain.p.step_s && with.p.peak_bytes == plain.p.peak_bytes);
    assert_true(of(H100, set).p.skew == 3 && of(H100, set).room == 3);
    assert_true(of(H100, random).p.skew == 1);
}

static void no_rank_gets_more_than_there_is(void **state)
{
    (void)state;
    loads x = of(H100, "model.expert_model_parallel_size=2 moefold.routing_skew=3");
    assert_true(x.p.skew == 2 && x.room == 2);
    static const char capacity[] =
        "model.expert_model_parallel_size=32 model.moe_router_load_balancing_type=aux_loss "
        "model.moe_expert_capacity_factor=1.2";
    assert_true(of(H100, capacity).skew == 1.2);
}

/* Our own buffers are planned, and our own runs measured: neither moves with published pairs. */
static void own_runs_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const own[] = {H100 "moefold.target=moefold ", JOB "cluster.gpu=cpu "};
    for (int i = 0; i < 2; i++) {
        static const char ep[] = "model.expert_model_parallel_size=8 ";
        static const char set[] = "model.expert_model_parallel_size=8 moefold.routing_skew=1.3";
        loads plain = of(own[i], ep), skewed = of(own[i], set);
        assert_true(plain.skew == 1 && plain.room == 1.5 && plain.p.skew == 1);
        assert_true(skewed.p.skew == 1.3 && skewed.room == 1.5);
        assert_true(skewed.p.peak_bytes == plain.p.peak_bytes);
        assert_true(skewed.p.step_s > plain.p.step_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(natural_routing_grows_with_ep),
        cmocka_unit_test(forced_balance_has_no_skew),
        cmocka_unit_test(no_rank_gets_more_than_there_is),
        cmocka_unit_test(own_runs_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
