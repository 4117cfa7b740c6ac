/* layouts_testing.h - the layouts of the guard: six families and `tiny`, every kind of parallelism,
 * overlap, recompute and offload at least once. The names stand in tests/guard/state.txt. */
#ifndef TESTS_GUARD_LAYOUTS_TESTING_H
#define TESTS_GUARD_LAYOUTS_TESTING_H

#define M            "model."
#define TP2          M "tensor_model_parallel_size=2 "
#define CP2          M "context_parallel_size=2 "
#define CP4          M "context_parallel_size=4 "
#define PP2          M "pipeline_model_parallel_size=2 "
#define PP4          M "pipeline_model_parallel_size=4 "
#define VPP2         M "virtual_pipeline_model_parallel_size=2 "
#define EP2          M "expert_model_parallel_size=2 "
#define EP4          M "expert_model_parallel_size=4 "
#define ETP1         M "expert_tensor_parallel_size=1 "
#define ETP2         M "expert_tensor_parallel_size=2 "
#define SP           M "sequence_parallel=true "
#define A2A          M "moe_token_dispatcher_type=alltoall "
#define GATHER       M "moe_token_dispatcher_type=allgather "
#define DEEPEP       M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=deepep "
#define HYBRIDEP     M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=hybridep "
#define ULYSSES      M "cp_comm_type=a2a "
#define CP_GATHER    M "cp_comm_type=all_gather "
#define CP_TWO       M "cp_comm_type=a2a+p2p " M "hierarchical_context_parallel_sizes=[2,2] "
#define LATENT       "moefold.mla_latent_ring=true "
#define EP_ASYNC     "comm_overlap.overlap_moe_expert_parallel_comm=true "
#define DELAYED      "comm_overlap.delay_wgrad_compute=true "
#define P2P          "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false "
#define TP_ASYNC     "comm_overlap.tp_comm_overlap=true "
#define DP_ASYNC     REDUCE_ASYNC "ddp.overlap_param_gather=true "
#define REDUCE_ASYNC "ddp.overlap_grad_reduce=true ddp.bucket_size=8000 "
#define WHOLE        "ddp.use_distributed_optimizer=false "
#define SHARED_ASYNC M "moe_shared_expert_overlap=true "
#define STAGES(x)    M "pipeline_model_parallel_layout=" x " "
#define SOME                                                                                       \
    M "recompute_granularity=selective " M "recompute_modules=[core_attn,layernorm,moe_act] "
#define MLPS M "recompute_granularity=selective " M "recompute_modules=[moe,mlp] "
#define FULL                                                                                       \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "
#define BLOCK                                                                                      \
    M "recompute_granularity=full " M "recompute_method=block " M "recompute_num_layers=1 "
#define OFFLOAD(list)                                                                              \
    M "fine_grained_activation_offloading=true " M "offload_modules=[" list "] " M                 \
      "min_offloaded_tensor_size=0 "
#define RANKS(n)  "cluster.n_gpus=" #n " "
#define NODES     "cluster.gpus_per_node=2 cluster.nvlink_domain=4 "
#define TIED      M "share_embeddings_and_output_weights=true "
#define PER_TOKEN M "calculate_per_token_loss=true "
#define BIAS                                                                                       \
    M "moe_router_enable_expert_bias=true " M "moe_router_score_function=sigmoid " M               \
      "moe_router_load_balancing_type=none "
#define GPT                                                                                        \
    M "normalization=LayerNorm " M "gated_linear_unit=false " M "activation_func=gelu " M          \
      "add_bias_linear=true " M "position_embedding_type=learned_absolute " M                      \
      "max_position_embeddings=32 " M "qk_layernorm=false " SMALL
#define DENSE M "num_moe_experts=null " M "moe_ffn_hidden_size=null "

#define CASE(name) "tests/data/golden/" name "-tiny"

/* mixed_precision is named: what a CPU takes without it may change. */
#define GUARD_COMMON                                                                               \
    "mixed_precision=fp32 model.seq_length=32 train.micro_batch_size=1 train.global_batch_size=8 " \
    "train.train_iters=5 optimizer.lr=1e-3 optimizer.clip_grad=1.0 optimizer.weight_decay=0.1 "    \
    "moefold.moe_buffer_factor=64 moefold.mock_data=true dataset.data_path=null "                  \
    "model.moe_z_loss_coeff=0.001 "

/* The preset has a width of its own. */
#define SMALL                                                                                      \
    M "vocab_size=128 " M "hidden_size=64 " M "ffn_hidden_size=96 " M "moe_ffn_hidden_size=32 " M  \
      "num_attention_heads=4 " M "num_query_groups=2 " M "kv_channels=16 "

static const struct {
    const char *name, *model, *words;
} guard_layouts[] = {
    {"qwen3-moe: one rank", CASE("qwen3-moe"), RANKS(1)},
    {"qwen3-moe: TP 2, ETP 2, SP, products in chunks", CASE("qwen3-moe"),
     TP2 ETP2 SP TP_ASYNC A2A RANKS(2)},
    {"qwen3-moe: TP 2, CP 2 ring, EP 4, 8 ranks in 4 nodes", CASE("qwen3-moe"),
     TP2 CP2 EP4 ETP1 A2A RANKS(8) NODES},
    {"qwen3-moe: EP 4 deepep beside the backward, weight gradients delayed", CASE("qwen3-moe"),
     EP4 DEEPEP EP_ASYNC DELAYED RANKS(4)},
    {"qwen3-moe: PP 2, VPP 2, DP 2 sharded, reductions and gathers beside", CASE("qwen3-moe"),
     PP2 VPP2 DP_ASYNC P2P RANKS(4)},
    {"qwen3-moe: CP 2 by all-gather, PP 2, stages of unequal length", CASE("qwen3-moe"),
     CP2 CP_GATHER PP2 STAGES("Et|tttL") RANKS(4)},
    {"tiny: tied tables on PP 4 x TP 2, per-token loss", "tiny",
     PP4 TP2 TIED PER_TOKEN SMALL RANKS(8)},
    {"tiny: expert biases, EP 2, ETP 2 alltoall, full recompute", "tiny",
     EP2 ETP2 TP2 A2A BIAS FULL SMALL RANKS(4)},
    {"deepseek-v3: TP 2, EP 2, PP 2, recompute of parts", CASE("deepseek-v3"),
     TP2 EP2 ETP1 PP2 A2A SOME RANKS(8)},
    {"deepseek-v3: CP 2 with the latent ring, EP 2", CASE("deepseek-v3"),
     CP2 LATENT EP2 A2A RANKS(4) REDUCE_ASYNC},
    {"deepseek-v3 with MTP: PP 4, module and head apart", CASE("mtp"),
     PP4 STAGES("Et|tt|m|L") RANKS(4)},
    {"deepseek-v3 with MTP: PP 2, VPP 2, EP 2 beside", CASE("mtp"),
     PP2 EP2 STAGES("Et|t|t|mL") EP_ASYNC A2A RANKS(4)},
    {"gpt-oss: sinks and windows, TP 2, EP 2, PP 2, VPP 2", CASE("gpt-oss"),
     TP2 EP2 ETP1 PP2 VPP2 A2A RANKS(4)},
    {"gpt-oss: TP 2, EP 2, allgather dispatcher, full recompute", CASE("gpt-oss"),
     TP2 EP2 ETP1 GATHER FULL RANKS(4)},
    {"gpt-oss: CP 2 ulysses, offload", CASE("gpt-oss"),
     CP2 ULYSSES EP2 A2A OFFLOAD("core_attn,attn_proj,expert_fc1,moe_act") RANKS(2)},
    {"qwen3-next: CP 2, EP 2 hybridep, DP 2 sharded", CASE("qwen3-next"),
     CP2 EP2 HYBRIDEP DP_ASYNC RANKS(4)},
    {"qwen3-next: TP 2, PP 2, shared expert beside", CASE("qwen3-next"),
     TP2 PP2 EP2 ETP1 A2A SHARED_ASYNC RANKS(4)},
    {"mixtral: CP 4 of both kinds, recompute of MLPs", CASE("mixtral"),
     CP4 CP_TWO EP2 A2A MLPS RANKS(4) NODES},
    {"mixtral: EP 2, ETP 2, whole optimizer, DP 2", CASE("mixtral"),
     TP2 EP2 ETP2 GATHER WHOLE RANKS(4)},
    {"gpt, dense: TP 2, SP, CP 2, block recompute", "tiny", GPT DENSE TP2 SP CP2 BLOCK RANKS(4)},
    {"gpt, dense: PP 2, DP 4 sharded, gathers beside, offload", "tiny",
     GPT DENSE PP2 DP_ASYNC OFFLOAD("core_attn,attn_proj") RANKS(8)},
    {"gpt with experts: PP 2, EP 2 alltoall, DP 2", "tiny", GPT PP2 EP2 A2A RANKS(4)},
};
enum { N_GUARD_LAYOUTS = sizeof guard_layouts / sizeof guard_layouts[0] };

#endif
