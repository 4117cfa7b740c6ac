/* Rows that deepep and hybridep move beside their messages, and weight gradients that the host
 * calls when their turn comes. */
#include "predict/costing.h"

#include <stdio.h>

#include "predict/price.h"

#define JOB                                                                                        \
    "cluster.gpu=GB300 cluster.n_gpus=8 model.seq_length=4096 train.micro_batch_size=4 "           \
    "train.global_batch_size=512 "                                                                 \
    "model.moe_router_force_load_balancing=true model.moe_token_dispatcher_type=flex "

/* Seconds of a layer's permutations, forward: on the side of tokens, and of experts. */
static void permutes_of(double out[2], const char *words)
{
    costing c;
    costing_open(&c, "gb300", "qwen3-30b-a3b", words);
    program *p = ARENA_NEW(c.a, program);
    program_build(p, &c.s, 0, c.a);
    out[0] = out[1] = 0;
    for (int i = 0; i < p->n_segments; i++) {
        const segment *seg = p->segments[i];
        if (seg->kind != SEGMENT_LAYER) continue;
        for (int k = 0; k < seg->n_ops[SEG_FORWARD]; k++) {
            const op *o = &seg->ops[SEG_FORWARD][k];
            bool rows = o->kind == OP_UNPERMUTE || o->kind == OP_UNPERMUTE_D;
            bool place = o->kind == OP_FLEX_PLACE || o->kind == OP_PERMUTE;
            if (!rows && !place) continue;
            bool experts = place || strstr(o->name, "combine.sum");
            out[experts] += cost_of(&c.c, seg, o).seconds;
        }
        break;
    }
    costing_close(&c);
}

/* Eight rows of a token are written and read however few ranks share them: nothing is packed. */
static void permutations_do_not_go_with_the_links(void **state)
{
    (void)state;
    static const char *const backends[] = {"deepep", "hybridep"};
    for (int i = 0; i < 2; i++) {
        double few[2], many[2];
        char words[2][600];
        for (int k = 0; k < 2; k++)
            snprintf(words[k], sizeof words[k], "%s%s%s %s%d", JOB,
                     "model.moe_flex_dispatcher_backend=", backends[i],
                     "model.expert_model_parallel_size=", k ? 8 : 2);
        permutes_of(few, words[0]);
        permutes_of(many, words[1]);
        /* 16,384 tokens, 8 rows of 2,048 numbers written and read on each way, at 8 TB/s */
        double rows = 16384.0 * 8 * 2048 * 2;
        assert_true(few[1] > 2 * rows / 8e12 && few[1] < 2 * 3 * rows / 8e12);
        assert_true(many[1] < 2 * few[1]);
        assert_true(few[0] < 0.1 * few[1] && many[0] < 0.1 * many[1]);
    }
}

/* The host's time for a step's weight gradients of plain GEMMs. */
static double weight_gradients(const char *precision, const char *delay)
{
    char words[800];
    double host = 0;
    snprintf(words, sizeof words, "%s%s mixed_precision=%s %s", JOB,
             "model.expert_model_parallel_size=8 "
             "comm_overlap.overlap_moe_expert_parallel_comm=true",
             precision, delay);
    costing c;
    costing_open(&c, "gb300", "qwen3-30b-a3b", words);
    program *p = ARENA_NEW(c.a, program);
    program_build(p, &c.s, 0, c.a);
    for (int s = 0; s < p->n_segments; s++)
        for (int k = 0; k < p->segments[s]->n_ops[SEG_BACKWARD]; k++) {
            const op *o = &p->segments[s]->ops[SEG_BACKWARD][k];
            bool gemm = o->kind == OP_GEMM_W || o->kind == OP_QGEMM_W;
            if (gemm && o->phase == PHASE_WGRAD) host += cost_of(&c.c, p->segments[s], o).eager;
        }
    costing_close(&c);
    return host;
}

/* With narrow operands each is a GEMM called from Python instead of one of autograd's. */
static void delayed_narrow_weight_gradients_take_the_host_longer(void **state)
{
    (void)state;
    const char *delay = "comm_overlap.delay_wgrad_compute=true";
    double plain = weight_gradients("bf16_mixed", ""), narrow = weight_gradients("mxfp8", "");
    assert_true(plain > 0 && narrow > plain);
    near("BF16", weight_gradients("bf16_mixed", delay), plain, 1e-9);
    assert_true(weight_gradients("mxfp8", delay) > 2 * narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations_do_not_go_with_the_links),
        cmocka_unit_test(delayed_narrow_weight_gradients_take_the_host_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
