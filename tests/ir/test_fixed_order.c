/* In deterministic mode every attention, whole or a block of a ring, is asked for sums of a fixed
 * order; else none is. */
#include "ir/testing.h"

#include <stdio.h>

static bool is_attention(op_kind k)
{
    return k == OP_ATTN || k == OP_ATTN_D || k == OP_ATTN_BLOCK || k == OP_ATTN_BLOCK_D;
}

/* Attention of a program, and how many have the flag. */
static void count(const char *model_name, const char *words, int *n, int *fixed)
{
    arena *a = arena_create();
    setup s;
    program p;
    program_of(&p, &s, a, model_name, words);
    *n = *fixed = 0;
    for (int i = 0; i < p.n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p.segments[i]->n_ops[phase]; k++) {
                const op *o = &p.segments[i]->ops[phase][k];
                *n += is_attention(o->kind);
                *fixed += is_attention(o->kind) && o->flags & FIXED_ORDER;
            }
    arena_destroy(a);
}

#define RING "model.context_parallel_size=4 cluster.n_gpus=4 model.cp_comm_type="

static void deterministic_attention_has_a_fixed_order(void **state)
{
    (void)state;
    static const struct {
        const char *model_name, *words;
    } cases[] = {
        {"tests/data/golden/qwen3-moe-tiny", ""},
        {"tests/data/golden/qwen3-moe-tiny", RING "p2p"},
        {"tests/data/golden/qwen3-moe-tiny", RING "all_gather"},
        {"tests/data/golden/deepseek-v3-tiny", RING "p2p"},
        {"tests/data/golden/deepseek-v3-tiny", RING "p2p moefold.mla_latent_ring=true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[200];
        int n, fixed;
        count(cases[i].model_name, cases[i].words, &n, &fixed);
        assert_true(n > 0);
        assert_int_equal(fixed, 0);
        snprintf(words, sizeof words, "%s model.deterministic_mode=true", cases[i].words);
        count(cases[i].model_name, words, &n, &fixed);
        assert_true(n > 0);
        assert_int_equal(fixed, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deterministic_attention_has_a_fixed_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
