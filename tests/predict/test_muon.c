/* Muon: one moment, Newton-Schulz iterations over whole matrices, dealt to replicas. */
#include "ir/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/models/models.h"
#include "layout/state.h"
#include "predict/muon.h"
#include "predict/price.h"

#define QWEN                                                                                       \
    "moefold.model=qwen3-30b-a3b cluster.gpu=H100 model.expert_model_parallel_size=8 "             \
    "mixed_precision=bf16_mixed train.global_batch_size=64 "

typedef struct opened {
    arena *a;
    setup *s;
    hardware *hw;
} opened;

static opened open_words(const char *words)
{
    opened o = {.a = arena_create()};
    o.s = ARENA_NEW(o.a, setup);
    o.hw = ARENA_NEW(o.a, hardware);
    recipe *r = ARENA_NEW(o.a, recipe);
    error err = {{0}};
    status st = OK;
    recipe_init(r, o.a, "test");
    for (const char *w = words; *w && !st;) {
        size_t n = strcspn(w, " ");
        if (n) st = recipe_override(r, arena_copy(o.a, w, n), "test", &err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = model_fill(r, &err);
    if (!st) st = setup_init(o.s, r, o.a, &err);
    if (!st) st = hardware_read(o.hw, recipe_word(&o.s->r, K_GPU), o.a, &err);
    if (st) fail_msg("%s: %s", words, err.text);
    return o;
}

static state_bytes state_with(const char *words)
{
    opened o = open_words(words);
    state_bytes out;
    state_of_stage(&out, o.s, 0);
    arena_destroy(o.a);
    return out;
}

static price price_with(const char *words)
{
    opened o = open_words(words);
    price out;
    price_setup(&out, o.s, o.hw, NULL, o.a);
    out.evidence = NULL;
    arena_destroy(o.a);
    return out;
}

/* A master and one moment in FP32. */
static void keeps_one_moment(void **state)
{
    (void)state;
    state_bytes adam = state_with(QWEN "cluster.n_gpus=8");
    state_bytes muon = state_with(QWEN "cluster.n_gpus=8 optimizer.optimizer=muon");
    assert_int_equal(adam.optimizer[PARAM_EXPERT] * 8, muon.optimizer[PARAM_EXPERT] * 12);
    assert_int_equal(state_weights(&adam), state_weights(&muon));
}

/* Qwen3-30B: 48 layers, 16 of 128 experts on each rank, gate and up [1536][2048], down
 * [2048][768]. */
static void counts_each_expert_by_itself(void **state)
{
    (void)state;
    state_bytes s = state_with(QWEN "cluster.n_gpus=8 optimizer.optimizer=muon");
    double up = 4.0 * 1536 * 1536 * 2048 + 2.0 * 1536 * 1536 * 1536;
    double down = 4.0 * 768 * 768 * 2048 + 2.0 * 768 * 768 * 768;
    double all = 48 * 16 * (up + down);
    assert_true(fabs(s.turns[1].flops / all - 1) < 1e-9);
    assert_true(fabs(s.turns[1].largest / up - 1) < 1e-9);
    assert_true(s.turns[1].side > 768 && s.turns[1].side < 1536);
    assert_true(s.turns[0].flops > 0);
    state_bytes adam = state_with(QWEN "cluster.n_gpus=8");
    assert_true(adam.turns[0].flops == 0 && adam.turns[1].flops == 0);
}

/* Twice as many replicas have half as many matrices each, as long as there is one for each. */
static void replicas_share_matrices(void **state)
{
    (void)state;
    double seconds[2];
    const char *const worlds[] = {QWEN "cluster.n_gpus=8 optimizer.optimizer=muon",
                                  QWEN "cluster.n_gpus=16 optimizer.optimizer=muon"};
    for (int i = 0; i < 2; i++) {
        opened o = open_words(worlds[i]);
        cost_model c;
        state_bytes s;
        cost_init(&c, o.hw, o.s, NULL);
        state_of_stage(&s, o.s, 0);
        s.turns[0].flops = 0; /* experts alone */
        seconds[i] = cost_of_muon(&c, &s);
        arena_destroy(o.a);
    }
    assert_true(seconds[1] > 0);
    assert_true(fabs(seconds[0] / seconds[1] - 2) < 1e-6);
}

/* Of Kimi-K2 some percent of a step; never less than Adam. */
static void steps_take_longer(void **state)
{
    (void)state;
    static const char kimi[] =
        "moefold.model=kimi-k2 cluster.gpu=GB300 cluster.n_gpus=256 cluster.nvlink_domain=64 "
        "model.expert_model_parallel_size=64 model.pipeline_model_parallel_size=4 "
        "train.global_batch_size=4096 mixed_precision=bf16_with_mxfp8_mixed "
        "mixed_precision.fp8_param_gather=false "
        "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false "
        "model.moe_router_force_load_balancing=true ";
    char muon[1024];
    snprintf(muon, sizeof muon, "%soptimizer.optimizer=muon", kimi);
    price a = price_with(kimi), m = price_with(muon);
    assert_true(m.optimizer > a.optimizer);
    assert_true(m.step_s > 1.005 * a.step_s && m.step_s < 1.1 * a.step_s);
    assert_true(m.peak_bytes < a.peak_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_one_moment),
        cmocka_unit_test(counts_each_expert_by_itself),
        cmocka_unit_test(replicas_share_matrices),
        cmocka_unit_test(steps_take_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
