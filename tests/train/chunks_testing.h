/* chunks_testing.h - steps with and without sequence chunks and groups of heads, compared. */
#ifndef TESTS_TRAIN_CHUNKS_TESTING_H
#define TESTS_TRAIN_CHUNKS_TESTING_H

#include "train/layout_rig.c"

#include "train/bits_testing.h"

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

/* The difference of two arrays by the norm of the first. */
static inline double difference(const float *x, const float *y, int64_t bytes)
{
    double d = 0, n = 0;
    for (int64_t i = 0; i < bytes / 4; i++) {
        d += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        n += (double)x[i] * x[i];
    }
    return sqrt(d / (n + 1e-300));
}

static inline bool has_sinks(const char *folder)
{
    return strstr(folder, "gpt-oss") != NULL;
}

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

/* `exact`: the first loss is the same to the bit. Which token an expert drops at its capacity is a
 * choice, and may hang on the order in which OpenBLAS sums: where it flips after an update, losses
 * were 1.8e-5 to 1.8e-4 apart (with sums of asan's alignment, at factors 0.7 and 0.75 alone). */
static inline void compare_chunks(const char *folder, const char *words, bool exact, arena *a)
{
    static bits off[RIG_RANKS_MAX], on[RIG_RANKS_MAX];
    int n = run_bits(off, folder, common_words(a, arena_text(a, LOSSES ROOM "%s", words)));
    run_bits(on, folder, common_words(a, arena_text(a, LOSSES ROOM CHUNKS "%s", words)));
    double limit = !exact && strstr(words, DROPS) ? 1e-3 : 1e-5;
    for (int i = 0; i < n; i++) {
        double first = fabs(on[i].g.loss[0] / off[i].g.loss[0] - 1);
        if (exact ? on[i].g.loss[0] != off[i].g.loss[0] : !(first < 2e-7))
            fail_msg("%s %s: rank %d: the first loss is %.17g, not %.17g", folder, words, i,
                     on[i].g.loss[0], off[i].g.loss[0]);
        double far = difference((const float *)off[i].gradients, (const float *)on[i].gradients,
                                on[i].n_gradients);
        if (!(far < 1e-5)) fail_msg("%s %s: rank %d: gradients are %g off", folder, words, i, far);
        for (int k = 1; k < RIG_STEPS; k++)
            if (!(fabs(on[i].g.loss[k] / off[i].g.loss[k] - 1) < limit))
                fail_msg("%s %s: rank %d: loss %d is %.9g, not %.9g", folder, words, i, k,
                         on[i].g.loss[k], off[i].g.loss[k]);
    }
    free_bits(off, n), free_bits(on, n);
}

#endif
