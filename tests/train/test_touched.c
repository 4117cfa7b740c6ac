/* test_touched.c - planned bytes beside those that a step touches, on every device by the same
 * code; and that the comparison sees a byte too many and a byte too few. */
#include "../ir/testing.h"

#include <stdlib.h>

#include "train/data/batch.h"
#include "train/executor/step.h"
#include "train/executor/touched.h"

typedef struct rig {
    arena *a;
    setup *s;
    program p;
    executor *e;
    touched m;
} rig;

static void rig_open(rig *g, const char *model_name, const char *name, const char *words)
{
    error err = {{0}};
    executor_options o = {.guard = TOUCHED_GUARD, .device = name};
    g->a = arena_create();
    g->s = ARENA_NEW(g->a, setup);
    program_of(&g->p, g->s, g->a, model_name, words);
    if (executor_open(&g->e, &g->p, NULL, o, &err)) fail_msg("%s", err.text);
    assert_int_equal(touched_open(&g->m, g->e, &g->p, &err), OK);
}

static void rig_step(rig *g)
{
    static const region zeros[] = {REGION_WEIGHTS, REGION_OPTIMIZER};
    optimizer o;
    double given[GIVEN_COUNT];
    int64_t T = g->p.T;
    int32_t *tokens = calloc((size_t)T, sizeof *tokens);
    float *mask = calloc((size_t)T, sizeof *mask);
    for (int i = 0; i < 2; i++) executor_fill(g->e, g->p.offset[zeros[i]], g->p.bytes[zeros[i]], 0);
    batch_tables(g->e, &g->p);
    optimizer_init(&o, &g->p, DECAY_MEGATRON, g->a);
    step_table(g->e, &g->p, &o);
    for (int64_t t = 0; t < T; t++) mask[t] = 1;
    batch b = {tokens, tokens, mask};
    for (int64_t m = 0; m < g->p.micros; m++) batch_load(g->e, &g->p, m, &b, 0);
    optimizer_give(&o, (step_rates){1e-3, 1e-3, 0.1, 1}, given);
    step_run_begin(g->e);
    step_give(g->e, given);
    step_run_end(g->e, &g->p, STEP_UPDATES);
    free(tokens);
    free(mask);
}

static void rig_close(rig *g)
{
    executor_close(g->e);
    arena_destroy(g->a);
}

#define EVEN                                                                                       \
    "model.moe_router_force_load_balancing=true model.seq_length=40 train.micro_batch_size=1 "     \
    "train.global_batch_size=2 "

static void touched_is_planned_on_every_device(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "deferred:1", "deferred:2"};
    static const char *const words[] = {
        EVEN "mixed_precision=fp32",
        EVEN "mixed_precision=bf16_mixed",
        EVEN "cluster.gpu=H100 cluster.n_gpus=1 moefold.target=moefold " /* a GPU's program */
             "moefold.fusion=[qkv,add_norm,norm_back]",
        EVEN "model.fine_grained_activation_offloading=true "
             "model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act] "
             "model.min_offloaded_tensor_size=1",
    };
    for (int i = 0; i < 3 * 4; i++) {
        rig g;
        rig_open(&g, family_cases[i % N_FAMILY_CASES], devices[i / 4], words[i % 4]);
        for (int k = 0; k < TOUCHED_PATTERNS; k++) {
            touched_fill(&g.m, k);
            rig_step(&g);
            touched_mark(&g.m, k);
        }
        touched_report r = touched_close(&g.m, g.a);
        if (!touched_is_right(&r, true)) fail_msg("%s: %s", words[i % 4], r.first);
        assert_null(r.first);
        assert_true(r.planned > 0 && r.host_planned > 0);
        assert_int_equal(r.used + (i % 4 == 2 ? 0 : r.workspace_used),
                         i % 4 == 2 ? r.planned : program_buffer_bytes(&g.p));
        assert_true(r.workspace_used <= r.workspace);
        rig_close(&g);
    }
}

/* A hole in the last range of the arena, a byte in the first gap, one behind the arena. */
typedef enum fault { FAULT_HOLE, FAULT_GAP, FAULT_BEHIND, N_FAULTS } fault;

static int64_t first_gap(const program *p, arena *a)
{
    program_range *list;
    int64_t n = program_ranges(p, &list, a);
    for (int64_t i = 1; i < n; i++)
        if (list[i].start > list[i - 1].end) return list[i - 1].end;
    return -1;
}

static void break_memory(rig *g, fault f, int k)
{
    const unsigned char pattern[] = {0xa5, 0x5a};
    int64_t place = f == FAULT_HOLE ? g->p.offset[REGION_SAVED] + 8 : first_gap(&g->p, g->a);
    assert_true(place >= 0);
    if (f == FAULT_BEHIND)
        executor_guard_fill(g->e, 1);
    else
        executor_fill(g->e, place, 1, f == FAULT_HOLE ? pattern[k] : 1);
}

static void a_byte_too_many_or_too_few_is_seen(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "deferred:1"};
    static const char *const text[] = {"planned but not touched", "touched but not planned",
                                       "after the arena"};
    for (int i = 0; i < 2 * N_FAULTS; i++) {
        rig g;
        fault f = (fault)(i % N_FAULTS);
        rig_open(&g, family_cases[0], devices[i / N_FAULTS], EVEN);
        for (int k = 0; k < TOUCHED_PATTERNS; k++) {
            touched_fill(&g.m, k);
            rig_step(&g);
            break_memory(&g, f, k);
            touched_mark(&g.m, k);
        }
        touched_report r = touched_close(&g.m, g.a);
        assert_false(touched_is_right(&r, true));
        assert_int_equal(touched_is_right(&r, false), f == FAULT_HOLE);
        if (!strstr(r.first, text[f])) fail_msg("%s", r.first);
        if (f == FAULT_HOLE) assert_int_equal(r.planned - r.used, 1);
        if (f == FAULT_GAP) assert_int_equal(r.outside, 1);
        if (f == FAULT_BEHIND) assert_int_equal(r.outside, 2 * TOUCHED_GUARD);
        rig_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touched_is_planned_on_every_device),
        cmocka_unit_test(a_byte_too_many_or_too_few_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
