/* Bytes of layouts: what is planned is used, and what dispatchers and rings send. */
#include "train/layout_rig.c"

#define M             "model."
#define TP2           M "tensor_model_parallel_size=2 "
#define CP2           M "context_parallel_size=2 "
#define CP4           M "context_parallel_size=4 "
#define PP2           M "pipeline_model_parallel_size=2 "
#define VPP2          M "virtual_pipeline_model_parallel_size=2 "
#define EP2           M "expert_model_parallel_size=2 "
#define EP4           M "expert_model_parallel_size=4 "
#define ETP1          M "expert_tensor_parallel_size=1 "
#define ETP2          M "expert_tensor_parallel_size=2 "
#define A2A           M "moe_token_dispatcher_type=alltoall "
#define GATHER        M "moe_token_dispatcher_type=allgather "
#define DEEPEP        M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=deepep "
#define HYBRID        M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=hybridep "
#define LOSSES        M "moe_aux_loss_coeff=0.01 " M "moe_z_loss_coeff=0.001 "
#define EVEN          M "moe_router_force_load_balancing=true " LOSSES
#define BESIDE        "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true " SMALL_BUCKETS
#define SMALL_BUCKETS "ddp.bucket_size=8000 "
#define EP_ASYNC      "comm_overlap.overlap_moe_expert_parallel_comm=true "
#define TWO_A_NODE    "cluster.gpus_per_node=2 cluster.nvlink_domain=4 "

/* ---- planned and used */

static const char *const exact[] = {
    "cluster.n_gpus=1",
    TP2 EP2 ETP1 A2A "cluster.n_gpus=2",
    TP2 EP2 ETP2 A2A "cluster.n_gpus=4",
    CP2 EP2 GATHER "cluster.n_gpus=4",
    PP2 EP2 A2A "cluster.n_gpus=4 " BESIDE,
    PP2 VPP2 EP2 A2A EP_ASYNC "cluster.n_gpus=4",
    PP2 VPP2 "cluster.n_gpus=2 " M "microbatch_group_size_per_vp_stage=4",
    TP2 CP2 EP4 ETP1 PP2 A2A "cluster.n_gpus=8",
    TP2 CP2 ETP1 "cluster.n_gpus=8 " M "recompute_granularity=full " M "recompute_method=uniform " M
                 "recompute_num_layers=1",
    EP2 A2A "cluster.n_gpus=2 " M "recompute_granularity=selective " M
            "recompute_modules=[layernorm,moe_act]",
    EP2 A2A "cluster.n_gpus=2 " M "recompute_granularity=selective " M
            "recompute_modules=[core_attn,mla_up_proj,mlp,moe,shared_experts]",
    "cluster.n_gpus=1 " M "fine_grained_activation_offloading=true " M "offload_modules=[core_attn,"
    "attn_proj,expert_fc1,moe_act] " M "min_offloaded_tensor_size=1",
};

/* Formats of activations and weights, and of gradients. */
static const char *const precisions[] = {
    "mixed_precision=fp32",
    "mixed_precision=bf16_mixed",
    "mixed_precision=bf16_mixed mixed_precision.grad_reduce_in_fp32=false",
};
enum { N_PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* Forced balance fills every routed buffer: all that is planned is touched, on every rank. */
static void planned_bytes_are_used_bytes(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0;
    for (int i = 0; i < N_FAMILY_CASES * N_PRECISIONS; i++)
        for (size_t l = 0; l < sizeof exact / sizeof exact[0]; l++) {
            const char *folder = family_cases[i % N_FAMILY_CASES];
            const char *words =
                arena_text(a, "%s %s %s", EVEN, exact[l], precisions[i / N_FAMILY_CASES]);
            rig_result r;
            if (!rig_is_legal(folder, words, a)) continue;
            rig_touch(&r, folder, words);
            if (r.text[0] || r.planned != r.used || r.host_planned != r.host_used)
                fail_msg("%s %s: planned %lld, used %lld %s", folder, words, (long long)r.planned,
                         (long long)r.used, r.text);
            ran++;
        }
    assert_true(ran >= 140);
    arena_destroy(a);
}

/* Real routing stays within what is planned. */
static void real_routing_stays_inside(void **state)
{
    (void)state;
    rig_result r;
    rig_touch(&r, family_cases[0],
              LOSSES TP2 CP2 EP4 ETP1 PP2 A2A "moefold.moe_buffer_factor=64 cluster.n_gpus=8");
    assert_string_equal(r.text, "");
    assert_true(r.used <= r.planned);
    assert_true(r.used > r.planned / 2);
}

/* ---- what is sent */

static rig_result sent(const char *folder, const char *words)
{
    rig_reference *ref = rig_reference_of(folder, "moefold.moe_buffer_factor=64 " LOSSES);
    rig_result r;
    rig_compare(&r, ref, words);
    if (r.text[0] || r.gradient > 10 * ref->spread)
        fail_msg("%s %s: gradients differ by %g %s", folder, words, r.gradient, r.text);
    rig_reference_free(ref);
    return r;
}

static void flex_dispatchers_cross_nodes_less(void **state)
{
    (void)state;
    const char *folder = family_cases[1]; /* top-4 of 16 */
    rig_result a2a = sent(folder, EP4 A2A TWO_A_NODE "cluster.n_gpus=4");
    rig_result deepep = sent(folder, EP4 DEEPEP TWO_A_NODE "cluster.n_gpus=4");
    rig_result hybrid = sent(folder, EP4 HYBRID TWO_A_NODE "cluster.n_gpus=4");
    double across[3];
    const rig_result *all[3] = {&a2a, &deepep, &hybrid};
    for (int i = 0; i < 3; i++)
        across[i] = all[i]->bytes[LEVEL_DOMAIN] + all[i]->bytes[LEVEL_ACROSS];
    print_message("bytes that leave a node: alltoall %.0f, deepep %.0f, hybridep %.0f\n", across[0],
                  across[1], across[2]);
    assert_true(across[1] < across[0]);
    /* hybridep's domain has both nodes: nothing leaves it, rows go once to each rank */
    assert_true(hybrid.bytes[LEVEL_ACROSS] == 0);
}

static void latent_ring_sends_less(void **state)
{
    (void)state;
    const char *folder = family_cases[1];
    rig_result ring = sent(folder, CP4 "cluster.n_gpus=4");
    rig_result latent = sent(folder, CP4 "moefold.mla_latent_ring=true cluster.n_gpus=4");
    double bytes[2] = {0};
    for (int l = 0; l < LEVEL_COUNT; l++) {
        bytes[0] += ring.bytes[l];
        bytes[1] += latent.bytes[l];
    }
    print_message("bytes of a step: ring %.0f, latent ring %.0f\n", bytes[0], bytes[1]);
    assert_true(bytes[1] < bytes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_bytes_are_used_bytes),
        cmocka_unit_test(real_routing_stays_inside),
        cmocka_unit_test(flex_dispatchers_cross_nodes_less),
        cmocka_unit_test(latent_ring_sends_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
