/* Offload of activations: what is planned on either side is used, and the device loses exactly what
 * the host takes. That nothing computed changes by a bit: test_options.c. */
#include "train/layout_rig.c"

#define M        "model."
#define TP2      M "tensor_model_parallel_size=2 "
#define CP2      M "context_parallel_size=2 "
#define PP2      M "pipeline_model_parallel_size=2 "
#define VPP2     M "virtual_pipeline_model_parallel_size=2 "
#define EP2      M "expert_model_parallel_size=2 "
#define ETP1     M "expert_tensor_parallel_size=1 "
#define A2A      M "moe_token_dispatcher_type=alltoall "
#define HYBRID   M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=hybridep "
#define EP_ASYNC "comm_overlap.overlap_moe_expert_parallel_comm=true "
#define DELAYED  "comm_overlap.delay_wgrad_compute=true "
#define P2P      "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false "
#define SOME                                                                                       \
    M "recompute_granularity=selective " M "recompute_modules=[core_attn,layernorm,moe_act] "
#define FULL                                                                                       \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "
#define BLOCK                                                                                      \
    M "recompute_granularity=full " M "recompute_method=block " M "recompute_num_layers=1 "
#define LOSSES                                                                                     \
    M "moe_aux_loss_coeff=0.01 " M "moe_z_loss_coeff=0.001 " M                                     \
      "moe_router_load_balancing_type=aux_loss " M "should_pad_vocab=false "
#define ROOM "moefold.moe_buffer_factor=64 "
#define EVEN M "moe_router_force_load_balancing=true "

#define OFF(list) M "fine_grained_activation_offloading=true " M "offload_modules=[" list "] "
#define ALL_NAMES "core_attn,attn_proj,expert_fc1,moe_act,attn_norm,mlp_norm,qkv_linear"
#define ANY_SIZE  M "min_offloaded_tensor_size=0 "

static const char *const layouts[] = {
    "cluster.n_gpus=1 ",
    EP2 A2A "cluster.n_gpus=2 ",
    EP2 A2A EP_ASYNC "cluster.n_gpus=2 ",
    PP2 VPP2 EP2 A2A "cluster.n_gpus=4 ",
    PP2 VPP2 EP2 A2A P2P "cluster.n_gpus=4 ",
    PP2 VPP2 EP2 A2A EP_ASYNC "cluster.n_gpus=4 ",
    PP2 VPP2 EP2 A2A EP_ASYNC DELAYED SOME "cluster.n_gpus=4 ",
    PP2 EP2 HYBRID P2P SOME "cluster.n_gpus=4 ",
    TP2 CP2 EP2 ETP1 A2A "cluster.n_gpus=4 ",
    TP2 EP2 ETP1 A2A FULL "cluster.n_gpus=2 ",
    PP2 EP2 A2A BLOCK "cluster.n_gpus=4 ",
    CP2 M "cp_comm_type=a2a " EP2 A2A "cluster.n_gpus=2 ",
};

static const char *const names[] = {
    OFF(ALL_NAMES),
    OFF("core_attn,attn_proj,moe_act"),
    OFF("expert_fc1"),
};

/* ---- bytes */

/* Forced balance fills every routed buffer. */
static void planned_bytes_are_used_on_both_sides(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
            const char *words = arena_text(a, "%s%s%s%s" ANY_SIZE, EVEN, LOSSES, layouts[l],
                                           names[((size_t)c + l) % 2]);
            rig_result r;
            if (!rig_is_legal(family_cases[c], words, a)) continue;
            rig_touch(&r, family_cases[c], words);
            if (r.text[0] || r.planned != r.used || r.host_planned != r.host_used)
                fail_msg("%s %s: planned %lld, used %lld; on the host %lld, used %lld %s",
                         family_cases[c], words, (long long)r.planned, (long long)r.used,
                         (long long)r.host_planned, (long long)r.host_used, r.text);
            ran++;
        }
    assert_true(ran >= 40);
    arena_destroy(a);
}

static const program *built(const char *folder, const char *words, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    setup_of_words(s, a, folder, common_words(a, words));
    program_build(p, s, 0, a);
    return p;
}

/* Slots for messages that are received ahead are on the device alone; without them: */
static void the_device_saves_less_by_what_the_host_takes(void **state)
{
    (void)state;
    arena *a = arena_create();
    int moved = 0;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
            const char *words = arena_text(a, "%s%s", LOSSES, layouts[l]);
            const char *with = arena_text(a, "%s%s" ANY_SIZE, words, names[0]);
            if (!rig_is_legal(family_cases[c], with, a)) continue;
            const program *off = built(family_cases[c], words, a);
            const program *on = built(family_cases[c], with, a);
            for (int64_t v = 0; v < on->n_chunks; v++)
                assert_int_equal(off->chunks[v].saved_bytes,
                                 on->chunks[v].saved_bytes + on->chunks[v].host_bytes);
            if (off->posts_early || recipe_on(&off->s->r, K_EP_OVERLAP)) continue;
            assert_int_equal(off->bytes[REGION_SAVED], on->bytes[REGION_SAVED] + on->host_bytes);
            assert_int_equal(off->host_bytes, 0);
            moved += on->host_bytes > 0;
        }
    assert_true(moved >= 20);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_saves_less_by_what_the_host_takes),
        cmocka_unit_test(planned_bytes_are_used_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
