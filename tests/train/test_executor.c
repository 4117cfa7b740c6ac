/* test_executor.c - a run touches what the plan says, and recompute changes no bit. */
#include "../ir/testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/data/batch.h"
#include "train/hf/weights.h"
#include "train/executor/init_weights.h"
#include "train/executor/arrays.h"
#include "train/executor/step.h"

typedef struct rig {
    arena *a;
    setup *s;
    program p;
    executor *e;
    int32_t *tokens, *labels;
    float *mask;
} rig;

static void rig_open(rig *g, const char *model_name, const char *words)
{
    error err = {{0}};
    g->a = arena_create();
    g->s = ARENA_NEW(g->a, setup);
    program_of(&g->p, g->s, g->a, model_name, words);
    if (executor_open(&g->e, &g->p, NULL, (executor_options){0}, &err)) fail_msg("%s", err.text);
    int64_t T = g->p.T;
    g->tokens = ARENA_ARRAY(g->a, int32_t, T);
    g->labels = ARENA_ARRAY(g->a, int32_t, T);
    g->mask = ARENA_ARRAY(g->a, float, T);
}

static void rig_close(rig *g)
{
    executor_close(g->e);
    arena_destroy(g->a);
}

static void rig_start(rig *g)
{
    executor_fill(g->e, g->p.offset[REGION_OPTIMIZER], g->p.bytes[REGION_OPTIMIZER], 0);
    array_loan w;
    error err;
    assert_int_equal(array_borrow(&w, g->e, &g->p, ARRAY_WEIGHTS, &err), OK);
    init_weights(g->s, &g->p.at, &g->p.weights, 7, w.values);
    array_return(&w, ARRAY_ROUNDED);
    batch_tables(g->e, &g->p);
}

static void rig_step(rig *g)
{
    optimizer o;
    double given[GIVEN_COUNT];
    optimizer_init(&o, &g->p, DECAY_MEGATRON, g->a);
    step_table(g->e, &g->p, &o);
    for (int64_t m = 0; m < g->p.micros; m++) {
        for (int64_t t = 0; t < g->p.T; t++) {
            g->tokens[t] = (int32_t)((t * 31 + m * 17) % g->s->m.vocab);
            g->labels[t] = (int32_t)((t * 7 + m * 5 + 3) % g->s->m.vocab);
            g->mask[t] = 1;
        }
        batch b = {g->tokens, g->labels, g->mask};
        batch_load(g->e, &g->p, m, &b, 0);
    }
    optimizer_give(&o, (step_rates){1e-3, 1e-3, 0.1, 1}, given);
    step_run_begin(g->e);
    step_give(g->e, given);
    step_run_end(g->e, &g->p, STEP_UPDATES);
}

/* ---- memory: two runs over different patterns; a byte that either changed was touched */

static void mark(rig *g, unsigned char pattern, unsigned char *touched)
{
    executor_fill(g->e, 0, g->p.arena_bytes, pattern);
    rig_start(g);
    rig_step(g);
    unsigned char *bytes = malloc((size_t)g->p.arena_bytes);
    executor_read(g->e, bytes, 0, g->p.arena_bytes);
    for (int64_t i = 0; i < g->p.arena_bytes; i++) touched[i] |= bytes[i] != pattern;
    free(bytes);
}

static const char *const recomputes[] = {
    "",
    "model.recompute_granularity=selective model.recompute_modules=[core_attn,layernorm,moe_act]",
    "model.recompute_granularity=selective model.recompute_modules=[moe,mlp]",
    "model.recompute_granularity=selective model.recompute_modules=[shared_experts,gdn_norm_out]",
    "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1",
    "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=2",
    "model.recompute_granularity=full model.recompute_method=block model.recompute_num_layers=1",
};
enum { N_RECOMPUTES = sizeof recomputes / sizeof recomputes[0] };

static void planned_bytes_are_used_bytes(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int r = 0; r < N_RECOMPUTES; r++)
            for (int micros = 1; micros <= 3; micros += 2) {
                rig g;
                char words[512];
                snprintf(
                    words, sizeof words,
                    "%s model.seq_length=40 train.micro_batch_size=2 train.global_batch_size=%d "
                    "model.moe_aux_loss_coeff=0.01 model.moe_z_loss_coeff=0.001 "
                    "model.moe_router_load_balancing_type=%s",
                    recomputes[r], 2 * micros, micros > 1 ? "global_aux_loss" : "seq_aux_loss");
                rig_open(&g, family_cases[c], words);
                unsigned char *touched = calloc(1, (size_t)g.p.arena_bytes);
                mark(&g, 0xA5, touched);
                mark(&g, 0x5A, touched);
                int64_t used = 0;
                for (int64_t i = 0; i < g.p.arena_bytes; i++) used += touched[i];
                if (used != program_buffer_bytes(&g.p)) {
                    for (int i = 0; i < REGION_COUNT; i++) {
                        int64_t n = 0;
                        for (int64_t k = 0; k < g.p.bytes[i]; k++) n += touched[g.p.offset[i] + k];
                        print_error("%s: %lld of %lld bytes\n", region_name((region)i),
                                    (long long)n, (long long)g.p.bytes[i]);
                    }
                    fail_msg("%s %s: planned %lld, used %lld", family_cases[c], words,
                             (long long)program_buffer_bytes(&g.p), (long long)used);
                }
                free(touched);
                rig_close(&g);
            }
}

/* ---- the launches before the first step */

static int64_t gradients_written(rig *g)
{
    int64_t n = 0, bytes = g->p.bytes[REGION_GRADIENTS];
    unsigned char *at = malloc((size_t)bytes);
    executor_read(g->e, at, g->p.offset[REGION_GRADIENTS], bytes);
    for (int64_t i = 0; i < bytes; i++) n += at[i] != 0xA5;
    free(at);
    return n;
}

static void of_what_is_alike_the_first_is_launched(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) {
        rig g;
        rig_open(&g, family_cases[c], "model.seq_length=40 train.global_batch_size=2");
        executor_fill(g.e, 0, g.p.arena_bytes, 0xA5);
        rig_start(&g);
        executor_first(g.e, true);
        rig_step(&g);
        executor_first(g.e, false);
        int64_t some = gradients_written(&g);
        executor_fill(g.e, 0, g.p.arena_bytes, 0xA5);
        rig_start(&g);
        rig_step(&g);
        int64_t all = gradients_written(&g);
        if (!(some > 0 && some < all))
            fail_msg("%s: %lld bytes of %lld were written by the first launches", family_cases[c],
                     (long long)some, (long long)all);
        rig_close(&g);
    }
}

/* ---- recompute */

static void recompute_changes_no_gradient(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) {
        rig plain;
        rig_open(&plain, family_cases[c], "model.seq_length=48 train.global_batch_size=2");
        rig_start(&plain);
        rig_step(&plain);
        for (int r = 1; r < N_RECOMPUTES; r++) {
            rig g;
            char words[512];
            snprintf(words, sizeof words, "model.seq_length=48 train.global_batch_size=2 %s",
                     recomputes[r]);
            rig_open(&g, family_cases[c], words);
            rig_start(&g);
            rig_step(&g);
            size_t bytes = (size_t)g.p.bytes[REGION_GRADIENTS];
            if (memcmp(executor_map(plain.e, plain.p.offset[REGION_GRADIENTS]),
                       executor_map(g.e, g.p.offset[REGION_GRADIENTS]), bytes) != 0)
                fail_msg("%s: gradients differ with %s", family_cases[c], recomputes[r]);
            assert_true(g.p.bytes[REGION_SAVED] <= plain.p.bytes[REGION_SAVED]);
            rig_close(&g);
        }
        rig_close(&plain);
    }
}

/* An overflow rerun: routed buffers grow, what was trained stays where it is. */
static void rework_keeps_the_state_in_place(void **state)
{
    (void)state;
    static const region kept[] = {REGION_WEIGHTS, REGION_GRADIENTS, REGION_OPTIMIZER};
    static const char common[] = "model.seq_length=48 train.global_batch_size=2 "
                                 "model.expert_model_parallel_size=1 moefold.moe_buffer_factor=";
    char words[2][256];
    snprintf(words[0], sizeof words[0], "%s1.5", common);
    snprintf(words[1], sizeof words[1], "%s4", common);
    rig small, large;
    error err = {{0}};
    rig_open(&small, family_cases[0], words[0]);
    rig_open(&large, family_cases[0], words[1]);
    rig_start(&small);
    int64_t n = small.p.offset[REGION_SAVED];
    unsigned char *before = malloc((size_t)n), *after = malloc((size_t)n);
    executor_read(small.e, before, 0, n);
    void *at[3];
    for (int i = 0; i < 3; i++) at[i] = executor_map(small.e, small.p.offset[kept[i]]);
    assert_int_equal(executor_rework(small.e, &large.p, &err), OK);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(executor_map(small.e, large.p.offset[kept[i]]), at[i]);
    executor_read(small.e, after, 0, n);
    assert_memory_equal(before, after, (size_t)n);
    unsigned char byte = 1;
    executor_read(small.e, &byte, large.p.arena_bytes - 1, 1);
    assert_int_equal(byte, 0);
    program broken = large.p;
    broken.offset[REGION_SAVED] += 64;
    assert_int_equal(executor_rework(small.e, &broken, &err), ERR_MACHINE);
    free(before);
    free(after);
    rig_close(&small);
    rig_close(&large);
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_bytes_are_used_bytes),
        cmocka_unit_test(of_what_is_alike_the_first_is_launched),
        cmocka_unit_test(recompute_changes_no_gradient),
        cmocka_unit_test(rework_keeps_the_state_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
