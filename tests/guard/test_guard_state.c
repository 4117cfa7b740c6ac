/* test_guard_state.c - weights and moments after five FP32 steps, to the bit.
 *
 * tests/guard/state.txt holds, of every layout below, a sum over all weights, first and second
 * moments, the last loss, and a short sum of each weight, so that the first one that differs can be
 * named. A change of types, of regions or of the order in which a step is carried out must leave
 * all of it equal. `make guard-record` writes the file anew: only a change that is meant to change
 * results does that, and says why.
 *
 * The plain kernels are used: they do not depend on OpenBLAS, on the number of threads or on the
 * compiler. What is left is the C library's exp, log, sin and so on, whose last bits are not the
 * same everywhere: see machine_testing.h. */
#include "guard/machine_testing.h"

#include "base/clock.h"

#define STEPS 5

#define M             "model."
#define TP2           M "tensor_model_parallel_size=2 "
#define CP2           M "context_parallel_size=2 "
#define CP4           M "context_parallel_size=4 "
#define PP2           M "pipeline_model_parallel_size=2 "
#define PP4           M "pipeline_model_parallel_size=4 "
#define VPP2          M "virtual_pipeline_model_parallel_size=2 "
#define EP2           M "expert_model_parallel_size=2 "
#define EP4           M "expert_model_parallel_size=4 "
#define ETP1          M "expert_tensor_parallel_size=1 "
#define ETP2          M "expert_tensor_parallel_size=2 "
#define SP            M "sequence_parallel=true "
#define A2A           M "moe_token_dispatcher_type=alltoall "
#define GATHER        M "moe_token_dispatcher_type=allgather "
#define DEEPEP        M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=deepep "
#define HYBRIDEP      M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=hybridep "
#define ULYSSES       M "cp_comm_type=a2a "
#define CP_GATHER     M "cp_comm_type=all_gather "
#define CP_TWO        M "cp_comm_type=a2a+p2p " M "hierarchical_context_parallel_sizes=[2,2] "
#define LATENT        "moefold.mla_latent_ring=true "
#define EP_BESIDE     "comm_overlap.overlap_moe_expert_parallel_comm=true "
#define DELAYED       "comm_overlap.delay_wgrad_compute=true "
#define P2P           "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false "
#define TP_BESIDE     "comm_overlap.tp_comm_overlap=true "
#define DP_BESIDE     REDUCE_BESIDE "ddp.overlap_param_gather=true "
#define REDUCE_BESIDE "ddp.overlap_grad_reduce=true ddp.bucket_size=8000 "
#define WHOLE         "ddp.use_distributed_optimizer=false "
#define SHARED_BESIDE M "moe_shared_expert_overlap=true "
#define STAGES(x)     M "pipeline_model_parallel_layout=" x " "
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
#define COMMON                                                                                     \
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
} layouts[] = {
    {"qwen3-moe: one rank", CASE("qwen3-moe"), RANKS(1)},
    {"qwen3-moe: TP 2, ETP 2, SP, products in chunks", CASE("qwen3-moe"),
     TP2 ETP2 SP TP_BESIDE A2A RANKS(2)},
    {"qwen3-moe: TP 2, CP 2 ring, EP 4, 8 ranks in 4 nodes", CASE("qwen3-moe"),
     TP2 CP2 EP4 ETP1 A2A RANKS(8) NODES},
    {"qwen3-moe: EP 4 deepep beside the backward, weight gradients delayed", CASE("qwen3-moe"),
     EP4 DEEPEP EP_BESIDE DELAYED RANKS(4)},
    {"qwen3-moe: PP 2, VPP 2, DP 2 sharded, reductions and gathers beside", CASE("qwen3-moe"),
     PP2 VPP2 DP_BESIDE P2P RANKS(4)},
    {"qwen3-moe: CP 2 by all-gather, PP 2, stages of unequal length", CASE("qwen3-moe"),
     CP2 CP_GATHER PP2 STAGES("Et|tttL") RANKS(4)},
    {"tiny: tied tables on PP 4 x TP 2, per-token loss", "tiny",
     PP4 TP2 TIED PER_TOKEN SMALL RANKS(8)},
    {"tiny: expert biases, EP 2, ETP 2 alltoall, full recompute", "tiny",
     EP2 ETP2 TP2 A2A BIAS FULL SMALL RANKS(4)},
    {"deepseek-v3: TP 2, EP 2, PP 2, recompute of parts", CASE("deepseek-v3"),
     TP2 EP2 ETP1 PP2 A2A SOME RANKS(8)},
    {"deepseek-v3: CP 2 with the latent ring, EP 2", CASE("deepseek-v3"),
     CP2 LATENT EP2 A2A RANKS(4) REDUCE_BESIDE},
    {"deepseek-v3 with MTP: PP 4, module and head apart", CASE("mtp"),
     PP4 STAGES("Et|tt|m|L") RANKS(4)},
    {"deepseek-v3 with MTP: PP 2, VPP 2, EP 2 beside", CASE("mtp"),
     PP2 EP2 STAGES("Et|t|t|mL") EP_BESIDE A2A RANKS(4)},
    {"gpt-oss: sinks and windows, TP 2, EP 2, PP 2, VPP 2", CASE("gpt-oss"),
     TP2 EP2 ETP1 PP2 VPP2 A2A RANKS(4)},
    {"gpt-oss: TP 2, EP 2, allgather dispatcher, full recompute", CASE("gpt-oss"),
     TP2 EP2 ETP1 GATHER FULL RANKS(4)},
    {"gpt-oss: CP 2 ulysses, offload", CASE("gpt-oss"),
     CP2 ULYSSES EP2 A2A OFFLOAD("core_attn,attn_proj,expert_fc1,moe_act") RANKS(2)},
    {"qwen3-next: CP 2, EP 2 hybridep, DP 2 sharded", CASE("qwen3-next"),
     CP2 EP2 HYBRIDEP DP_BESIDE RANKS(4)},
    {"qwen3-next: TP 2, PP 2, shared expert beside", CASE("qwen3-next"),
     TP2 PP2 EP2 ETP1 A2A SHARED_BESIDE RANKS(4)},
    {"mixtral: CP 4 of both kinds, recompute of MLPs", CASE("mixtral"),
     CP4 CP_TWO EP2 A2A MLPS RANKS(4) NODES},
    {"mixtral: EP 2, ETP 2, whole optimizer, DP 2", CASE("mixtral"),
     TP2 EP2 ETP2 GATHER WHOLE RANKS(4)},
    {"gpt, dense: TP 2, SP, CP 2, block recompute", "tiny", GPT DENSE TP2 SP CP2 BLOCK RANKS(4)},
    {"gpt, dense: PP 2, DP 4 sharded, gathers beside, offload", "tiny",
     GPT DENSE PP2 DP_BESIDE OFFLOAD("core_attn,attn_proj") RANKS(8)},
    {"gpt with experts: PP 2, EP 2 alltoall, DP 2", "tiny", GPT PP2 EP2 A2A RANKS(4)},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* ---- what is recorded */

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void add_weights(textbuf *t, const guard_state *s)
{
    for (int i = 0; i < s->n; i++) {
        uint64_t all = 0;
        for (int k = 0; k < GUARD_KINDS; k++) all = guard_mix(all + s->list[i].sum[k]);
        text_add(t, "  %s %08llx\n", s->list[i].name, (unsigned long long)(all >> 32));
    }
}

static const char *after_five_steps(int i, int threads, arena *a)
{
    const char *folder = guard_folder(a);
    double start = clock_seconds();
    guard_run g = {.model = layouts[i].model, .threads = threads};
    g.words = arena_text(a, COMMON "%s checkpoint.save=%s", layouts[i].words, folder);
    guard_train(&g);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) fail_msg("%s: %s", layouts[i].name, g.err[r].text);
    guard_state *s = guard_read(folder, STEPS);
    textbuf t = text_init(a);
    text_add(&t, "%s\n", layouts[i].name);
    for (int k = 0; k < GUARD_KINDS; k++)
        text_add(&t, "  %s %016llx\n", guard_kinds[k], (unsigned long long)s->total[k]);
    text_add(&t, "  loss %.9g %016llx\n", g.sum.last_loss,
             (unsigned long long)bits_of(g.sum.last_loss));
    add_weights(&t, s);
    assert_int_equal(s->counters.optimizer_steps, STEPS);
    guard_remove(folder);
    free(g.said);
    free(s);
    if (getenv("MOEFOLD_VERBOSE"))
        print_message("%5.2f s  %s\n", clock_seconds() - start, layouts[i].name);
    return t.s;
}

/* ---- comparing */

/* The lines of a layout: from its name, which stands at the start of a line, to the next name. */
static const char *lines_of(const char *record, const char *name, arena *a)
{
    const char *first = strstr(record, arena_text(a, "\n%s\n", name)), *end;
    if (!first) return NULL;
    for (end = strchr(++first, '\n') + 1; *end == ' '; end = strchr(end, '\n') + 1) continue;
    return arena_copy(a, first, (size_t)(end - first));
}

/* Names the lines that differ, the first few of them. */
static int differences(const char *was, const char *is)
{
    int n = 0;
    while (*was && *is) {
        size_t a = strcspn(was, "\n"), b = strcspn(is, "\n");
        if ((a != b || strncmp(was, is, a) != 0) && n++ < 6)
            print_message("    was %.*s\n    is  %.*s\n", (int)a, was, (int)b, is);
        was += a + (was[a] == '\n');
        is += b + (is[b] == '\n');
    }
    if (*was || *is) n++;
    return n;
}

static void five_steps_end_where_they_did(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *record = guard_record(a);
    int bad = 0;
    if (!guard_comparable(record, a)) skip();
    for (int i = 0; i < N_LAYOUTS; i++) {
        const char *was = lines_of(record, layouts[i].name, a);
        const char *is = after_five_steps(i, 1, a);
        if (!was) fail_msg("%s is not in " GUARD_RECORD, layouts[i].name);
        if (strcmp(was, is) == 0) continue;
        bad++;
        print_message("%s: not the same\n", layouts[i].name);
        print_message("    %d lines differ\n", differences(was, is));
    }
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

/* Of one rank, and of ranks that share what they compute. */
static void threads_change_nothing(void **state)
{
    (void)state;
    arena *a = arena_create();
    static const int chosen[] = {0, 7};
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
        assert_string_equal(after_five_steps(chosen[i], 1, a), after_five_steps(chosen[i], 2, a));
    arena_destroy(a);
}

/* A guard that sees nothing is none: another rate must be seen in every kind of sum. */
static void a_change_is_seen(void **state)
{
    (void)state;
    arena *a = arena_create();
    guard_state *s[2];
    for (int k = 0; k < 2; k++) {
        const char *folder = guard_folder(a);
        guard_run g = {.model = CASE("qwen3-moe")};
        g.words = arena_text(a, COMMON "train.train_iters=2 optimizer.lr=%s checkpoint.save=%s",
                             k ? "1.001e-3" : "1e-3", folder);
        guard_train(&g);
        s[k] = guard_read(folder, 2);
        guard_remove(folder);
        free(g.said);
    }
    for (int k = 0; k < GUARD_KINDS; k++) assert_true(s[0]->total[k] != s[1]->total[k]);
    free(s[0]);
    free(s[1]);
    arena_destroy(a);
}

static int record_all(void)
{
    arena *a = arena_create();
    FILE *f = fopen(GUARD_RECORD, "w");
    if (!f) return 3;
    fprintf(f,
            "# State after five FP32 steps: written by `make guard-record`, compared by "
            "tests/guard/test_guard_state.c.\n# glibc %s, %d bits\n%s\n",
            gnu_get_libc_version(), (int)sizeof(void *) * 8, guard_machine(a));
    for (int i = 0; i < N_LAYOUTS; i++) fprintf(f, "%s", after_five_steps(i, 1, a));
    arena_destroy(a);
    return fclose(f) == 0 ? 0 : 3;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--record") == 0) return record_all();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_steps_end_where_they_did),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(a_change_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
