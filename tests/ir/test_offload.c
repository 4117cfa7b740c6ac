/* Which buffers wait on the host, when they come back, and that every stream that meets a copy has
 * waited for it. */
#include "ir/testing.h"

#include <stdlib.h>

#include "rules/rules.h"

#define M        "model."
#define ANY_SIZE M "min_offloaded_tensor_size=0 "
#define OFF(list)                                                                                  \
    M "fine_grained_activation_offloading=true " M "offload_modules=[" list "] " ANY_SIZE

static const char *const qwen = "tests/data/golden/qwen3-moe-tiny";
static const char *const deepseek = "tests/data/golden/deepseek-v3-tiny";
static const char *const next = "tests/data/golden/qwen3-next-tiny";
static const char *const gpt_oss = "tests/data/golden/gpt-oss-tiny";
static const char *const mtp = "tests/data/golden/mtp-tiny";

/* ---- names */

/* Names of what is copied out in forward of the program's layers, sorted out of a list. */
static bool moves(const program *p, const char *segment_name, const char *name)
{
    for (int i = 0; i < p->n_segments; i++) {
        const segment *seg = p->segments[i];
        if (strcmp(seg->name, segment_name) != 0) continue;
        for (int k = 0; k < seg->n_ops[SEG_FORWARD]; k++) {
            const op *o = &seg->ops[SEG_FORWARD][k];
            if (o->kind == OP_COPY_OUT && strcmp(seg->bufs[o->in[0]].name, name) == 0) return true;
        }
    }
    return false;
}

static int copies_of(const program *p, op_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p->segments[i]->n_ops[phase]; k++) {
                const op *o = &p->segments[i]->ops[phase][k];
                n += o->kind == kind && o->module != MODULE_OPTIMIZER; /* batch and report */
            }
    return n;
}

typedef struct named_case {
    const char *folder, *words, *segment;
    const char *moved[8], *kept[8];
} named_case;

static const named_case cases[] = {
    {qwen, OFF("core_attn"), "layer", {"q", "k", "v", "attention.lse"}, {"attention.o", "x"}},
    {qwen, OFF("core_attn,attn_proj"), "layer", {"attention.o"}, {"q before norm"}},
    {qwen, OFF("qkv_linear"), "layer", {"x", "attention.norm"}, {"h", "q"}},
    {qwen, OFF("mlp_norm"), "layer", {"h"}, {"moe.norm", "x"}},
    {qwen, OFF("expert_fc1"), "layer", {"experts.x"}, {"experts.u", "experts.a"}},
    {qwen, OFF("moe_act"), "layer", {"experts.u"}, {"experts.x", "experts.a"}},
    {qwen, OFF("fused_group_mlp"), "layer", {"experts.x", "experts.u", "experts.a"}, {"h"}},
    {qwen, OFF("attn_norm"), "layer", {NULL}, {"x", "attention.norm"}},
    {deepseek, OFF("attn_norm"), "layer", {"x"}, {"attention.norm"}},
    {deepseek, OFF("qkv_linear"), "layer", {"attention.norm"}, {"x", "q latent"}},
    {deepseek,
     OFF("core_attn,qkv_linear,moe_act") M "recompute_granularity=selective " M
                                           "recompute_modules=[mla_up_proj,layernorm]",
     "layer",
     {"experts.u", "attention.lse"},
     {"q", "k", "v", "attention.norm"}},
    {deepseek,
     OFF("attn_norm,moe_act") M "recompute_granularity=full " M "recompute_method=uniform " M
                                "recompute_num_layers=1",
     "layer",
     {"x"},
     {"experts.u"}},
    {next, OFF("core_attn,attn_proj"), "layer", {"attention.gated", "q"}, {"attention.o"}},
    {gpt_oss, OFF("core_attn,attn_proj,moe_act"), "layer", {"attention.o", "experts.u"}, {"x"}},
    {mtp, OFF("moe_act,qkv_linear,attn_norm"), "mtp", {"mtp.x", "experts.u"}, {"n", "mtp.e"}},
};

static void names_are_megatrons(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program *p = ARENA_NEW(a, program);
        program_of(p, s, a, cases[i].folder, cases[i].words);
        for (int k = 0; k < 8 && cases[i].moved[k]; k++)
            if (!moves(p, cases[i].segment, cases[i].moved[k]))
                fail_msg("%s %s: %s stays", cases[i].folder, cases[i].words, cases[i].moved[k]);
        for (int k = 0; k < 8 && cases[i].kept[k]; k++)
            if (moves(p, cases[i].segment, cases[i].kept[k]))
                fail_msg("%s %s: %s moves", cases[i].folder, cases[i].words, cases[i].kept[k]);
        assert_int_equal(copies_of(p, OP_COPY_OUT), copies_of(p, OP_COPY_IN));
        arena_destroy(a);
    }
}

/* Bytes a token that each name moves in a layer, as Megatron's tensors have them (BF16, TP 1); with
 * core_attn goes the log-sum-exp, four bytes a head. */
static void bytes_are_megatrons(void **state)
{
    (void)state;
    static const struct {
        const char *model, *module;
        int64_t bytes, layers;
    } table[] = {
        {"deepseek-v3", "attn_norm", 14336, 61},
        {"deepseek-v3", "qkv_linear", 14336, 61},
        {"deepseek-v3", "core_attn", 131072 + 512, 61},
        {"deepseek-v3", "core_attn,attn_proj", 131072 + 33280, 61},
        {"deepseek-v3", "mlp_norm", 14336, 58},
        {"deepseek-v3", "expert_fc1", 114688, 58},
        {"deepseek-v3", "moe_act", 65536, 58},
        {"qwen3-235b-a22b", "qkv_linear", 2 * 8192, 94},
        {"qwen3-235b-a22b", "core_attn", 18432 + 256, 94},
        {"qwen3-235b-a22b", "core_attn,attn_proj", 18432 + 16640, 94},
        {"qwen3-235b-a22b", "mlp_norm", 8192, 94},
        {"qwen3-235b-a22b", "expert_fc1", 65536, 94},
        {"qwen3-235b-a22b", "moe_act", 49152, 94},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program *p = ARENA_NEW(a, program);
        const char *words =
            "cluster.gpu=GB200 cluster.n_gpus=64 cluster.nvlink_domain=64 model.seq_length=4096 "
            "mixed_precision=bf16_mixed model.expert_model_parallel_size=64 "
            "train.global_batch_size=64 model.moe_router_force_load_balancing=true "
            "model.mtp_num_layers=null model.moe_token_dispatcher_type=alltoall "
            "moefold.moe_buffer_factor=1 model.fine_grained_activation_offloading=true";
        program_of(
            p, s, a, table[i].model,
            arena_text(a, "%s %smodel.offload_modules=[%s]", words, ANY_SIZE, table[i].module));
        if (p->host_bytes != table[i].bytes * table[i].layers * p->T)
            fail_msg("%s %s: %lld bytes a token and layer", table[i].model, table[i].module,
                     (long long)(p->host_bytes / p->T / table[i].layers));
        arena_destroy(a);
    }
}

/* In elements, not bytes; equal is enough. */
static void small_buffers_stay(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    program_of(p, s, a, qwen, OFF("mlp_norm"));
    int64_t n = p->T * s->m.hidden;
    int all = copies_of(p, OP_COPY_OUT);
    assert_true(all > 0);
    for (int more = 0; more < 2; more++) {
        program_of(
            p, s, a, qwen,
            arena_text(a, OFF("mlp_norm") M "min_offloaded_tensor_size=%lld", (long long)n + more));
        assert_int_equal(copies_of(p, OP_COPY_OUT), more ? 0 : all);
    }
    program_of(p, s, a, qwen, OFF("mlp_norm") M "activation_offload_fraction=0");
    assert_int_equal(copies_of(p, OP_COPY_OUT), 0);
    assert_int_equal(p->host_bytes, 0);
    arena_destroy(a);
}

/* FP8 stores what GEMMs read in a byte; under offload the first GEMM of the experts keeps
 * what it was given, unless blocks are scaled. */
static void offloaded_inputs_of_experts_stay_wide(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        dtype type;
    } table[] = {
        {"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed", DTYPE_E4M3},
        {"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed " OFF("expert_fc1"), DTYPE_BF16},
        {"mixed_precision=bf16_with_mxfp8_mixed " OFF("expert_fc1"), DTYPE_E4M3},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program *p = ARENA_NEW(a, program);
        program_of(p, s, a, qwen, arena_text(a, "cluster.gpu=B200 %s", table[i].words));
        int seen = 0;
        for (int k = 0; k < p->n_segments; k++)
            for (int id = 0; id < p->segments[k]->n_bufs; id++)
                if (strcmp(p->segments[k]->bufs[id].name, "experts.x") == 0) {
                    assert_int_equal(p->segments[k]->bufs[id].type, table[i].type);
                    seen++;
                }
        assert_true(seen > 0);
        arena_destroy(a);
    }
}

/* ---- order */

/* A group comes back when the one before it is first used, so that something runs beside it. */
static void groups_come_back_one_ahead(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    program_of(p, s, a, deepseek, OFF("core_attn,attn_proj,expert_fc1,moe_act,mlp_norm"));
    int seen = 0;
    for (int i = 0; i < p->n_segments; i++) {
        const segment *seg = p->segments[i];
        const char *last = "";
        int there = 0, between = 0;
        for (int k = 0; k < seg->n_ops[SEG_BACKWARD]; k++) {
            const op *o = &seg->ops[SEG_BACKWARD][k];
            if (o->kind == OP_COPY_IN && strcmp(o->name, last) != 0) {
                if (there) assert_true(between > 0); /* not all at once */
                last = o->name;
                between = 0;
                there++;
            } else if (o->kind != OP_WAIT) {
                between++;
            }
            if (o->kind == OP_WAIT && o->stream == STREAM_COMPUTE && strcmp(o->name, last) == 0)
                assert_true(between > 0); /* nobody waits where it is issued */
        }
        seen += there;
    }
    assert_true(seen >= 5);
    arena_destroy(a);
}

/* ---- streams */

/* What each stream knows to be complete of each, by number of operations. */
typedef struct clocks {
    int of[STREAM_COUNT][STREAM_COUNT];
    int issued[STREAM_COUNT];
} clocks;

typedef struct ran {
    const op *o;
    int number;                  /* on its stream */
    int knows[STREAM_COUNT + 1]; /* when it is complete */
} ran;

static bool writes_of(const program *p, const item *it, const op *a, const op *b)
{
    for (int i = 0; i < OP_OUT_MAX; i++) {
        if (a->out[i] < 0) continue;
        int64_t at = program_place(p, it, a->out[i]), end = at + it->seg->bufs[a->out[i]].bytes;
        for (int k = 0; k < OP_IN_MAX + OP_OUT_MAX; k++) {
            int id = k < OP_IN_MAX ? b->in[k] : b->out[k - OP_IN_MAX];
            if (id < 0) continue;
            int64_t other = program_place(p, it, id);
            if (at < other + it->seg->bufs[id].bytes && other < end) return true;
        }
    }
    return false;
}

static void check_list(const program *p, const item *it, const char *words)
{
    const segment *seg = it->seg;
    int n = seg->n_ops[it->phase], n_ran = 0;
    clocks c = {{{0}}, {0}};
    ran *list = calloc((size_t)n + 1, sizeof *list);
    for (int i = 0; i < n; i++) {
        const op *o = &seg->ops[it->phase][i];
        if (o->flags & ACROSS) continue;
        for (int k = 0; k < n_ran && o->kind == OP_WAIT; k++)
            for (int t = 0; t < STREAM_COUNT && list[k].o->event == o->dim[0]; t++)
                if (list[k].knows[t] > c.of[o->stream][t]) c.of[o->stream][t] = list[k].knows[t];
        if (o->kind == OP_WAIT) continue;
        for (int k = 0; k < n_ran; k++) {
            const op *b = list[k].o;
            if (b->stream == o->stream || (!op_is_copy(o->kind) && !op_is_copy(b->kind))) continue;
            if (!writes_of(p, it, o, b) && !writes_of(p, it, b, o)) continue;
            if (c.of[o->stream][b->stream] < list[k].number)
                fail_msg("%s: %s %s does not wait for %s %s", words, op_infos[o->kind].name,
                         o->name, op_infos[b->kind].name, b->name);
        }
        ran *r = &list[n_ran++];
        *r = (ran){.o = o, .number = ++c.issued[o->stream]};
        c.of[o->stream][o->stream] = r->number;
        memcpy(r->knows, c.of[o->stream], sizeof c.of[o->stream]);
    }
    for (int t = STREAM_COPY; t <= STREAM_COPY_BACK; t++)
        assert_int_equal(c.of[STREAM_COMPUTE][t], c.issued[t]); /* the list leaves none behind */
    free(list);
}

#define EP2    M "expert_model_parallel_size=2 " M "moe_token_dispatcher_type=alltoall "
#define ALL    OFF("core_attn,attn_proj,expert_fc1,moe_act,attn_norm,mlp_norm,qkv_linear")
#define BESIDE "comm_overlap.overlap_moe_expert_parallel_comm=true "

static const char *const layouts[] = {
    ALL,
    ALL EP2 "cluster.n_gpus=2",
    ALL EP2 BESIDE "train.global_batch_size=4 cluster.n_gpus=2",
    ALL EP2 BESIDE "comm_overlap.delay_wgrad_compute=true train.global_batch_size=4 "
                   "cluster.n_gpus=2",
    ALL M "tensor_model_parallel_size=2 " M "context_parallel_size=2 cluster.n_gpus=4 "
          "train.global_batch_size=2",
    ALL EP2 M "recompute_granularity=selective " M
              "recompute_modules=[core_attn,layernorm,moe_act] cluster.n_gpus=2",
};

static void streams_wait_for_copies(void **state)
{
    (void)state;
    int seen = 0;
    for (int f = 0; f < N_FAMILY_CASES; f++)
        for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
            arena *a = arena_create();
            setup *s = ARENA_NEW(a, setup);
            program *p = ARENA_NEW(a, program);
            violations found;
            setup_of_words(s, a, family_cases[f], layouts[l]);
            rules_check(&found, s, false, a);
            if (found.n_errors == 0) {
                program_build(p, s, 0, a);
                assert_true(p->host_bytes > 0);
                for (int64_t i = 0; i < p->items[PART_STEP].n; i++)
                    check_list(p, &p->items[PART_STEP].list[i], layouts[l]);
                seen++;
            }
            arena_destroy(a);
        }
    assert_true(seen >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_megatrons),
        cmocka_unit_test(bytes_are_megatrons),
        cmocka_unit_test(small_buffers_stay),
        cmocka_unit_test(offloaded_inputs_of_experts_stay_wide),
        cmocka_unit_test(groups_come_back_one_ahead),
        cmocka_unit_test(streams_wait_for_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
