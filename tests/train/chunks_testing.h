/* chunks_testing.h - layouts of steps in sequence chunks and groups of heads. */
#ifndef TESTS_TRAIN_CHUNKS_TESTING_H
#define TESTS_TRAIN_CHUNKS_TESTING_H

#include "train/layout_rig.c"

#define M    "model."
#define TP2  M "tensor_model_parallel_size=2 "
#define CP2  M "context_parallel_size=2 "
#define ULY  M "cp_comm_type=a2a "
#define PP2  M "pipeline_model_parallel_size=2 "
#define VPP2 M "virtual_pipeline_model_parallel_size=2 "
#define EP2  M "expert_model_parallel_size=2 "
#define EP4  M "expert_model_parallel_size=4 "
#define ETP1 M "expert_tensor_parallel_size=1 "
#define A2A  M "moe_token_dispatcher_type=alltoall "
#define AG   M "moe_token_dispatcher_type=allgather "
#define DEEP M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=deepep "
#define MOE  M "recompute_granularity=selective " M "recompute_modules=[moe,layernorm] "
#define FULL                                                                                       \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "
#define DROPS M "moe_expert_capacity_factor=0.75 "
#define LOSSES                                                                                     \
    M "moe_aux_loss_coeff=0.01 " M "moe_z_loss_coeff=0.001 " M                                     \
      "moe_router_load_balancing_type=aux_loss " M "should_pad_vocab=false "
#define ROOM "moefold.moe_buffer_factor=64 "
#define EVEN M "moe_router_force_load_balancing=true "

#define CHUNKS "moefold.sequence_chunks=3 "
#define GROUPS "moefold.attention_head_groups=2 "

static const char *const layouts[] = {
    "cluster.n_gpus=1 ",
    FULL "cluster.n_gpus=1 ",
    MOE "train.micro_batch_size=4 cluster.n_gpus=1 ",
    DROPS "train.micro_batch_size=2 cluster.n_gpus=1 ",
    EP2 A2A DROPS MOE "cluster.n_gpus=2 ",
    EP2 AG FULL "cluster.n_gpus=2 ",
    EP4 DEEP "cluster.n_gpus=4 ",
    TP2 ETP1 EP2 A2A "cluster.n_gpus=2 ",
    TP2 "cluster.n_gpus=2 ",
    CP2 ULY EP2 A2A "cluster.n_gpus=2 ",
    PP2 VPP2 EP2 A2A FULL "cluster.n_gpus=4 ",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* Every planned byte, and none beside. */
static inline void assert_all_used(const char *folder, const char *words)
{
    rig_result r;
    rig_touch(&r, folder, words);
    if (r.text[0] || r.planned != r.used)
        fail_msg("%s %s: planned %lld, used %lld %s", folder, words, (long long)r.planned,
                 (long long)r.used, r.text);
}

/* Rank 0's program of a recipe. */
static inline program *built(const char *name, const char *words, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    setup_of_words(s, a, name, words);
    program_build(p, s, 0, a);
    return p;
}

#endif
