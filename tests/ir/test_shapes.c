/* Shapes in ops.def are those that programs have: buffers have as many elements as sizes tell. */
#include "ir/testing.h"

#include "op/op.h"

static void check(const segment *seg, const op *o, int operand, int id, bool *seen)
{
    const buf *b = &seg->bufs[id];
    const int64_t n = op_elements(o, operand), there = dtype_elements(b->type, b->bytes);
    if (n < 0) return;
    seen[o->kind] = true;
    if (n != there)
        fail_msg("%s %s of %s: operand %d has %lld elements, by ops.def %lld",
                 op_infos[o->kind].name, o->name, seg->name, operand, (long long)there,
                 (long long)n);
}

static void buffers_have_the_shapes_of_ops_def(void **state)
{
    static const char *const words[] = {
        "",
        "model.tensor_model_parallel_size=2 cluster.n_gpus=2",
        "model.context_parallel_size=2 cluster.n_gpus=2",
        ("model.expert_model_parallel_size=2 cluster.n_gpus=2 "
         "model.moe_token_dispatcher_type=alltoall"),
        "model.expert_model_parallel_size=2 cluster.n_gpus=2 model.moe_token_dispatcher_type=flex",
        "model.pipeline_model_parallel_size=2 cluster.n_gpus=2 mixed_precision=bf16_mixed",
        "moefold.fusion=[qkv,add_norm,norm_back]",
        "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed moefold.fusion=[]",
        ("mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "
         "moefold.fusion=[act_quant,permute_quant,norm_quant]"),
        "mixed_precision=bf16_with_mxfp8_mixed",
    };
    bool seen[OP_COUNT] = {false};
    (void)state;
    for (int f = 0; f < N_FAMILY_CASES; f++)
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            arena *a = arena_create();
            setup *s = ARENA_NEW(a, setup);
            program p;
            program_of(&p, s, a, family_cases[f], words[w]);
            for (int i = 0; i < p.n_segments; i++)
                for (int phase = 0; phase < 2; phase++)
                    for (int k = 0; k < p.segments[i]->n_ops[phase]; k++) {
                        const op *o = &p.segments[i]->ops[phase][k];
                        for (int n = 0; n < OP_IN_MAX; n++)
                            if (o->in[n] >= 0) check(p.segments[i], o, n, o->in[n], seen);
                        for (int n = 0; n < OP_OUT_MAX; n++)
                            if (o->out[n] >= 0)
                                check(p.segments[i], o, OP_IN_MAX + n, o->out[n], seen);
                    }
            arena_destroy(a);
        }
    int n = 0;
    for (int k = 0; k < OP_COUNT; k++) {
        n += seen[k];
        assert_true(seen[k] || !(op_is_quantised((op_kind)k) || op_makes_codes((op_kind)k)));
    }
    assert_true(n >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(buffers_have_the_shapes_of_ops_def)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
