/* What TP overlap costs under Megatron: Transformer Engine launches blocks from C++, cuts forward
 * GEMMs and the data gradient behind a gather, and casts what a rank has before it is gathered. */
#include <stdio.h>

#include "predict/costing.h"

static const char DENSE[] =
    "cluster.gpu=H100 cluster.n_gpus=64 model.seq_length=8192 train.micro_batch_size=1 "
    "train.global_batch_size=64 model.tensor_model_parallel_size=4 model.sequence_parallel=true ";
static const char OVERLAP[] = "comm_overlap.tp_comm_overlap=true ";

/* Of a layer's operations of a phase. */
typedef struct counted {
    double host, seconds, quantise;
    int gemms, blocks;
} counted;

static counted count(const char *more, int phase, op_kind kind)
{
    costing c;
    counted n = {0};
    char words[900];
    snprintf(words, sizeof words, "%s%s", DENSE, more);
    costing_open(&c, "h100", "llama-3-70b", words);
    program *p = ARENA_NEW(c.a, program);
    program_build(p, &c.s, 0, c.a);
    const segment *seg = NULL;
    for (int i = 0; i < p->n_segments && !seg; i++)
        if (p->segments[i]->kind == SEGMENT_LAYER) seg = p->segments[i];
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        op_cost cost = cost_of(&c.c, seg, o);
        n.host += cost.host;
        n.quantise += cost.quantise;
        if (o->kind != kind) continue;
        n.gemms++;
        n.blocks += o->blocks > 1;
        n.seconds += cost.seconds;
    }
    costing_close(&c);
    return n;
}

/* The blocks of four GEMMs and their messages are some thirty launches. As operations of Python
 * they would take the host more than three times as long as the layer without overlap. */
static void blocks_are_launched_by_the_library(void **state)
{
    (void)state;
    counted off = count("", SEG_FORWARD, OP_GEMM), on = count(OVERLAP, SEG_FORWARD, OP_GEMM);
    assert_int_equal(off.blocks, 0);
    assert_int_equal(on.blocks, 4 * off.gemms);
    assert_true(on.host < 1.4 * off.host);
    assert_true(on.seconds < 1.2 * off.seconds);
}

static void weight_gradients_are_whole(void **state)
{
    (void)state;
    counted off = count("", SEG_BACKWARD, OP_GEMM_W), on = count(OVERLAP, SEG_BACKWARD, OP_GEMM_W);
    assert_int_equal(on.blocks, 0);
    assert_int_equal(on.gemms, off.gemms);
    counted data = count(OVERLAP, SEG_BACKWARD, OP_GEMM_D);
    assert_int_equal(data.blocks, 2 * 4); /* of the two row-parallel ones */
}

/* Our own programs cut those, too. */
static void ours_are_cut_everywhere(void **state)
{
    (void)state;
    counted w =
        count("comm_overlap.tp_comm_overlap=true moefold.target=moefold ", SEG_BACKWARD, OP_GEMM_W);
    assert_int_equal(w.blocks, w.gemms);
}

/* Without a gather, casts of a layer are of [8192][8192] twice, a quarter of that, and a quarter of
 * [8192][28672]; what is gathered is cast a quarter each, and made by columns afterwards. */
static void ranks_cast_what_is_theirs(void **state)
{
    (void)state;
    const char *fp8 = "mixed_precision=bf16_with_fp8_current_scaling_mixed "
                      "mixed_precision.first_last_layers_bf16=false ";
    const double T = 8192, H = 8192, F = 28672, rate = 0.88 * 3.35e12, bytes = 10; /* h100.yaml */
    double local = T * H / 4 * bytes, own = T * F / 4 * bytes;
    double gathered = 2 * T * H * (bytes / 4 + 2);
    counted n = count(fp8, SEG_FORWARD, OP_GEMM);
    near("casts of a layer, forward", n.quantise, (local + own + gathered) / rate, 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_launched_by_the_library),
        cmocka_unit_test(weight_gradients_are_whole),
        cmocka_unit_test(ours_are_cut_everywhere),
        cmocka_unit_test(ranks_cast_what_is_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
