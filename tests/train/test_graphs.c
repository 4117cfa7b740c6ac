/* test_graphs.c - steps that are captured and replayed: the same weights and moments to the bit as
 * without graphs, on devices of the CPU, which keep launches with their addresses. */
#include "guard/guard_testing.h"

#include "guard/layouts_testing.h"
#include "train/executor/executor.h"

#define GPU        "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.device=cpu "
#define GRAPHS(x)  M "cuda_graph_impl=" x " "
#define MODULES(x) M "cuda_graph_modules=[" x "] "
#define PARTS      GRAPHS("transformer_engine") MODULES("attn,moe_router,moe_preprocess")
#define WHOLE_STEP GRAPHS("full_iteration")
#define STEPS      4

static guard_state *state_after(const char *model_name, const char *words, const char *device_name,
                                arena *a)
{
    const char *folder = guard_folder(a);
    guard_run g = {.model = model_name, .threads = 1, .device = device_name};
    g.words = arena_text(a, GUARD_COMMON GPU "%s train.train_iters=%d checkpoint.save=%s", words,
                         STEPS, folder);
    guard_train(&g);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) fail_msg("%s: %s", words, g.err[r].text);
    guard_state *s = guard_read(folder, STEPS);
    guard_remove(folder);
    free(g.said);
    return s;
}

static void graphs_change_no_bit(void **state)
{
    (void)state;
    static const struct {
        const char *model, *words, *device;
    } cases[] = {
        {CASE("qwen3-moe"), PARTS, "cpu"},
        {CASE("qwen3-moe"), WHOLE_STEP, "deferred:3"},
        {CASE("deepseek-v3"), PARTS, "deferred:4"},
        {CASE("gpt-oss"), WHOLE_STEP, "cpu"},
        {CASE("gpt-oss"), WHOLE_STEP FULL, "deferred:5"},
        {CASE("qwen3-moe"), PARTS OFFLOAD("expert_fc1,moe_act") M "cuda_graph_warmup_steps=3 ",
         "deferred:6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arena *a = arena_create();
        const char *off = strstr(cases[i].words, "recompute") ? FULL
                          : strstr(cases[i].words, "offload") ? OFFLOAD("expert_fc1,moe_act")
                                                              : "";
        guard_state *is = state_after(cases[i].model, cases[i].words, cases[i].device, a);
        guard_state *was = state_after(cases[i].model, off, "cpu", a);
        for (int k = 0; k < GUARD_KINDS; k++)
            if (is->total[k] != was->total[k])
                fail_msg("%s %s: %s differ", cases[i].model, cases[i].words, guard_kinds[k]);
        free(is);
        free(was);
        arena_destroy(a);
    }
}

/* Calls of one step, of the first, the second and the third. */
static void count_calls(const char *words, executor_calls out[3])
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program p;
    executor *e = NULL;
    error err = {{0}};
    executor_calls before = {0};
    program_of(&p, s, a, CASE("qwen3-moe"),
               arena_text(a, GUARD_COMMON GPU "train.global_batch_size=2 %s", words));
    if (executor_open(&e, &p, NULL, (executor_options){.device = "cpu"}, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) {
        executor_part(e, PART_STEP);
        executor_calls now = executor_calls_of(e);
        out[i] =
            (executor_calls){now.put - before.put, now.replayed - before.replayed, now.kernels};
        before = now;
    }
    executor_close(e);
    arena_destroy(a);
}

static void replays_are_fewer_calls(void **state)
{
    (void)state;
    executor_calls eager[3], parts[3], whole[3];
    count_calls("", eager);
    assert_int_equal(eager[2].replayed, 0);
    assert_true(eager[2].put > 100);
    count_calls(PARTS, parts);
    assert_int_equal(parts[0].put, eager[0].put);
    assert_true(parts[1].replayed > 4 && parts[2].replayed == parts[1].replayed);
    assert_int_equal(parts[2].put, parts[1].put);
    assert_int_equal(parts[2].put + parts[2].kernels, eager[2].put);
    count_calls(WHOLE_STEP, whole);
    assert_int_equal(whole[2].replayed, 1);
    assert_int_equal(whole[2].put, 0);
    assert_int_equal(whole[2].kernels, eager[2].put);
}

/* With several ranks no message is in a graph: stretches end where one is waited for. */
static void nor_with_several_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *model, *ranks, *graphs, *device;
    } cases[] = {
        {CASE("qwen3-moe"), "cluster.n_gpus=2 " EP2 A2A, PARTS, "peers"},
        {CASE("qwen3-moe"), "cluster.n_gpus=2 " EP2 A2A, WHOLE_STEP, "peers:staged"},
        {CASE("deepseek-v3"), "cluster.n_gpus=4 " TP2 PP2, WHOLE_STEP, "peers"},
        {CASE("qwen3-moe"), "cluster.n_gpus=2 " CP2, WHOLE_STEP, "deferred:7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arena *a = arena_create();
        guard_state *was = state_after(cases[i].model, cases[i].ranks, "cpu", a);
        guard_state *is =
            state_after(cases[i].model, arena_text(a, "%s%s", cases[i].ranks, cases[i].graphs),
                        cases[i].device, a);
        guard_same(was, is, arena_text(a, "%s %s", cases[i].ranks, cases[i].graphs));
        free(is);
        free(was);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_are_fewer_calls),
        cmocka_unit_test(nor_with_several_ranks),
        cmocka_unit_test(graphs_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
