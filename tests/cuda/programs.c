/* programs.c - every operation of FP8 and FP4 programs for an H200 has a row on the GPU, whose
 * workspace is planned; and the fast rows take what takes the time, where there are some: MXFP8 and
 * NVFP4 have reference rows alone. Needs no GPU. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cases.h"
#include "config/models/models.h"
#include "model/model.h"
#include "ir/program.h"
#include "ir/target.h"

#define BLOCKWISE                                                                                  \
    "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "                                      \
    "mixed_precision.fp8_param_gather=false "
#define TENSORWISE                                                                                 \
    "mixed_precision=bf16_with_fp8_current_scaling_mixed "                                         \
    "mixed_precision.fp8_param_gather=false "
#define MXFP8                                                                                      \
    "mixed_precision=bf16_with_mxfp8_mixed mixed_precision.fp8_param_gather=false "                \
    "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false "
#define NVFP4 "mixed_precision=bf16_with_nvfp4_mixed mixed_precision.fp4_param_gather=false "
#define BATCH(n, s)                                                                                \
    "train.micro_batch_size=" #n " train.global_batch_size=" #n " model.seq_length=" #s " "

static const struct {
    const char *model_name, *words;
    bool large; /* sizes that all fast rows take */
} programs[] = {
    {"qwen3-30b-a3b", BLOCKWISE BATCH(8, 4096) "model.num_layers=4", true},
    {"qwen3-30b-a3b", TENSORWISE BATCH(8, 4096) "model.num_layers=4", true},
    {"qwen3-30b-a3b",
     BLOCKWISE BATCH(8, 4096) "model.num_layers=4 "
                              "moefold.fusion=[act_quant,permute_quant,norm_quant]",
     true},
    {"deepseek-v3",
     BLOCKWISE BATCH(4, 4096) "model.num_layers=3 model.moe_layer_freq=[0,1,1] "
                              "model.num_moe_experts=32 model.mtp_num_layers=0 "
                              "model.moe_router_num_groups=null model.moe_router_group_topk=null "
                              "moefold.fusion=[act_quant,permute_quant,norm_quant]",
     true},
    {"deepseek-v3",
     BLOCKWISE BATCH(4, 4096) "model.num_layers=3 model.moe_layer_freq=[0,1,1] "
                              "model.num_moe_experts=32 model.mtp_num_layers=0 "
                              "model.moe_router_num_groups=null model.moe_router_group_topk=null",
     true},
    {"qwen3-30b-a3b",
     MXFP8 BATCH(8, 4096) "model.num_layers=4 moefold.fusion=[act_quant,permute_quant,norm_quant]",
     false},
    {"qwen3-30b-a3b", NVFP4 BATCH(8, 4096) "model.num_layers=4", false},
    {"tests/data/golden/deepseek-v3-tiny", MXFP8, false},
    {"tests/data/golden/qwen3-next-tiny", NVFP4, false},
    {"tests/data/golden/qwen3-moe-tiny", BLOCKWISE, false},
    {"tests/data/golden/deepseek-v3-tiny", TENSORWISE, false},
    {"tests/data/golden/qwen3-next-tiny", BLOCKWISE, false},
    {"tests/data/golden/mixtral-tiny", TENSORWISE, false},
    {"tests/data/golden/gpt-oss-tiny", BLOCKWISE, false},
    {"tests/data/golden/mtp-tiny", BLOCKWISE, false},
};
enum { N_PROGRAMS = sizeof programs / sizeof programs[0] };

static status build(program *p, arena *a, const char *model_name, const char *words, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    recipe_init(r, a, model_name);
    recipe_set(r, K_MODEL, value_of_text(model_name), "test");
    static const char *const here[] = {"cluster.gpu=H200", "cluster.n_gpus=1",
                                       "moefold.target=moefold"};
    status st = OK;
    for (int i = 0; i < 3 && !st; i++) st = recipe_override(r, here[i], "test", err);
    for (const char *w = words; *w && !st;) {
        const size_t n = strcspn(w, " ");
        if (n) st = recipe_override(r, arena_copy(a, w, n), "test", err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = model_fill(r, err);
    if (!st) st = setup_init(s, r, a, err);
    if (!st) program_build(p, s, 0, a);
    return st;
}

/* Is the row one that a large program should get? */
static bool is_fast(op_kind k, const char *row)
{
    if (op_makes_codes(k) && k != OP_QUANTISE) return strcmp(row, "plain") != 0;
    if (k == OP_QUANTISE) return strcmp(row, "wide") == 0;
    if (k >= OP_QGROUPED) return strcmp(row, "wgmma") == 0;
    return strcmp(row, "cublaslt") == 0;
}

static int wrong_op(const segment *seg, const op *o, bool large)
{
    int n;
    const kernel *rows = kernels_cuda(&n);
    if (op_is_comm(o->kind) || o->kind == OP_WAIT) return 0;
    const op_types t = seg_op_types(seg, o);
    const kernel *k = kernel_pick(rows, n, o, &t, false);
    const char *kind = op_infos[o->kind].name;
    if (!k) return printf("%s (%s): no row of the GPU takes it\n", o->name, kind), 1;
    if (kernel_workspace_of(k, o, &t) > workspace_bytes(target_row_cuda(), seg, o))
        return printf("%s (%s), %s: its workspace is not planned\n", o->name, kind, k->name), 1;
    const bool fp8 = op_is_quantised(o->kind) || op_makes_codes(o->kind);
    if (large && fp8 && !is_fast(o->kind, k->name))
        return printf("%s (%s) of %lld %lld %lld %lld: row %s is not the fast one\n", o->name, kind,
                      (long long)o->dim[0], (long long)o->dim[1], (long long)o->dim[2],
                      (long long)o->dim[3], k->name),
               1;
    return 0;
}

static int wrong_program(int which)
{
    program p;
    error err = {""};
    int bad = 0, quantised = 0;
    if (strchr(programs[which].model_name, '/') && access(programs[which].model_name, R_OK) != 0)
        return 0; /* the test stands alone on the machine with the GPU */
    arena *a = arena_create();
    if (build(&p, a, programs[which].model_name, programs[which].words, &err))
        bad = 1, printf("%s\n", err.text);
    const int n = bad ? 0 : p.n_segments;
    for (int i = 0; i < n; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p.segments[i]->n_ops[phase]; k++) {
                const op *o = &p.segments[i]->ops[phase][k];
                bad += wrong_op(p.segments[i], o, programs[which].large);
                quantised += op_is_quantised(o->kind);
            }
    if (!quantised) bad++, printf("nothing is quantised\n");
    if (bad) printf("in %s %s\n", programs[which].model_name, programs[which].words);
    arena_destroy(a);
    return bad;
}

int wrong_programs(void)
{
    int bad = 0;
    for (int i = 0; i < N_PROGRAMS; i++) bad += wrong_program(i);
    return bad;
}
