/* test_graphs.c - steps that are captured and replayed are fewer calls. That they leave the same
 * bits: test_options.c. */
#include "guard/guard_testing.h"

#include "guard/layouts_testing.h"
#include "train/executor/executor.h"

#define GPU        "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.device=cpu "
#define GRAPHS(x)  M "cuda_graph_impl=" x " "
#define MODULES(x) M "cuda_graph_modules=[" x "] "
#define PARTS      GRAPHS("transformer_engine") MODULES("attn,moe_router,moe_preprocess")
#define WHOLE_STEP GRAPHS("full_iteration")

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_are_fewer_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
