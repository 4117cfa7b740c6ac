/* test_layouts_families.c - layouts of the further families: planned bytes are used bytes, and
 * layouts agree with one rank. */
#include "train/layout_rig.c"

#define M    "model."
#define TP2  M "tensor_model_parallel_size=2 "
#define CP2  M "context_parallel_size=2 "
#define PP2  M "pipeline_model_parallel_size=2 "
#define EP2  M "expert_model_parallel_size=2 "
#define ETP1 M "expert_tensor_parallel_size=1 "
#define A2A  M "moe_token_dispatcher_type=alltoall "
#define ULY  M "cp_comm_type=a2a "
#define EVEN M "moe_router_force_load_balancing=true "
#define FULL                                                                                       \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "
#define SOME M "recompute_granularity=selective " M "recompute_modules=[layernorm,mlp] "

#define CASE(name) "tests/data/golden/" name "-tiny"

static const char *const cases[] = {CASE("deepseek-v2"), CASE("deepseek-v2-lite"),
                                    CASE("glm4-moe"),    CASE("qwen2-moe"),
                                    CASE("olmoe"),       CASE("minimax-m2"),
                                    CASE("qwen3"),       CASE("llama"),
                                    CASE("starcoder2"),  CASE("qwen2"),
                                    CASE("mistral")};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static const char *const layouts[] = {
    "cluster.n_gpus=1",
    "cluster.n_gpus=2 ddp.overlap_grad_reduce=true ddp.bucket_size=8000",
    TP2 ETP1 "cluster.n_gpus=2",
    TP2 ETP1 "cluster.n_gpus=2 comm_overlap.tp_comm_overlap=true",
    CP2 "cluster.n_gpus=2",
    CP2 ULY "cluster.n_gpus=2",
    PP2 "cluster.n_gpus=2",
    EP2 A2A "cluster.n_gpus=4",
    EP2 A2A FULL "cluster.n_gpus=2",
    TP2 CP2 PP2 ETP1 "cluster.n_gpus=8",
    TP2 CP2 EP2 PP2 ETP1 A2A "cluster.n_gpus=8",
    TP2 ETP1 SOME "cluster.n_gpus=2",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void planned_bytes_are_used_bytes(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0;
    for (int c = 0; c < N_CASES; c++)
        for (int l = 0; l < N_LAYOUTS; l++) {
            const char *words = arena_text(a, "%s %s", EVEN, layouts[l]);
            rig_result r;
            if (!rig_is_legal(cases[c], words, a)) continue;
            rig_touch(&r, cases[c], words);
            if (r.text[0] || r.planned != r.used)
                fail_msg("%s %s: planned %lld, used %lld %s", cases[c], layouts[l],
                         (long long)r.planned, (long long)r.used, r.text);
            ran++;
        }
    assert_true(ran >= 60);
    arena_destroy(a);
}

static void layouts_agree_with_one_rank(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0;
    for (int c = 0; c < N_CASES; c++) {
        rig_reference *ref = rig_reference_of(cases[c], "moefold.moe_buffer_factor=64");
        for (int l = 0; l < N_LAYOUTS; l++) {
            const char *words = arena_text(a, "moefold.moe_buffer_factor=64 %s", layouts[l]);
            rig_result r;
            if (!rig_is_legal(cases[c], words, a)) continue;
            rig_compare(&r, ref, layouts[l]);
            if (r.text[0] || r.gradient > 10 * ref->spread || r.loss > 1e-4 || r.loads_differ)
                fail_msg("%s %s: gradients differ by %g (%s), losses by %g %s", cases[c],
                         layouts[l], r.gradient, r.worst ? r.worst : "-", r.loss, r.text);
            ran++;
        }
        rig_reference_free(ref);
    }
    assert_true(ran >= 60);
    arena_destroy(a);
}

int main(void)
{
    kernels_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_bytes_are_used_bytes),
        cmocka_unit_test(layouts_agree_with_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
