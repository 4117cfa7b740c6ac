/* test_program.c - properties of programs that need no run. */
#include "testing.h"

#include "layout/state.h"

static const char *const recomputes[] = {
    "",
    "model.recompute_granularity=selective model.recompute_modules=[core_attn]",
    "model.recompute_granularity=selective model.recompute_modules=[layernorm,moe_act]",
    "model.recompute_granularity=selective model.recompute_modules=[moe,mlp,layernorm]",
    "model.recompute_granularity=selective model.recompute_modules=[shared_experts,mla_up_proj]",
    "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1",
    "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=2",
    "model.recompute_granularity=full model.recompute_method=block model.recompute_num_layers=2",
};

/* A temporary is written in its phase before it is read there; forward writes what is saved. */
static void check_segment(const segment *seg)
{
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < seg->n_ops[phase]; i++)
            for (int k = 0; k < OP_IN_MAX; k++) {
                int id = seg->ops[phase][i].in[k];
                if (id < 0) continue;
                life l = seg->bufs[id].life;
                bool written = l != LIFE_TEMP && !(l == LIFE_SAVED && id != 0);
                for (int list = 0; list <= phase && !written; list++) {
                    if (l == LIFE_TEMP && list != phase) continue;
                    int end = list == phase ? i : seg->n_ops[list];
                    for (int n = 0; n < end && !written; n++)
                        for (int o = 0; o < OP_OUT_MAX; o++)
                            written = written || seg->ops[list][n].out[o] == id;
                }
                if (!written) fail_msg("%s is read before it is written", seg->bufs[id].name);
            }
}

static void nothing_is_read_before_it_is_written(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (size_t r = 0; r < sizeof recomputes / sizeof recomputes[0]; r++) {
            arena *a = arena_create();
            setup *s = ARENA_NEW(a, setup);
            program p;
            program_of(&p, s, a, family_cases[c], recomputes[r]);
            for (int i = 0; i < p.n_segments; i++) check_segment(p.segments[i]);
            arena_destroy(a);
        }
}

static bool overlap(int64_t a, int64_t an, int64_t b, int64_t bn)
{
    return a < b + bn && b < a + an;
}

/* At each operation, the buffers that it touches lie apart, unless they are the same place by
 * design. */
static void buffers_of_an_operation_lie_apart(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program p;
        program_of(&p, s, a, family_cases[c], recomputes[6]);
        for (int i = 0; i < p.chunks[0].n; i++) {
            const segment *seg = p.chunks[0].list[i].seg;
            for (int phase = 0; phase < 2; phase++) {
                item it = {.seg = seg, .phase = phase, .at = {{0, i, 0, 0}, {0, i, 0, 0}}};
                for (int n = 0; n < seg->n_ops[phase]; n++) {
                    const op *o = &seg->ops[phase][n];
                    for (int x = 0; x < OP_IN_MAX + OP_OUT_MAX; x++)
                        for (int y = 0; y < OP_OUT_MAX; y++) {
                            int u = x < OP_IN_MAX ? o->in[x] : o->out[x - OP_IN_MAX], v = o->out[y];
                            if (u < 0 || v < 0 || u == v) continue;
                            assert_false(overlap(program_place(&p, &it, u), seg->bufs[u].bytes,
                                                 program_place(&p, &it, v), seg->bufs[v].bytes));
                        }
                }
            }
        }
        arena_destroy(a);
    }
}

static void state_regions_are_those_that_check_counts(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program p;
        program_of(&p, s, a, family_cases[c], "");
        state_bytes b;
        setup_fullest(s, &b);
        assert_int_equal(p.bytes[REGION_GRADIENTS], state_gradients(&b));
        assert_int_equal(p.bytes[REGION_OPTIMIZER], state_optimizer(&b));
        arena_destroy(a);
    }
}

static void recompute_saves_what_it_names(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program p;
    program_of(&p, s, a, "deepseek-v3", "");
    /* a DeepSeek-V3 MoE layer, bytes a token in FP32: twice Megatron's BF16 where tensors are the
     * same */
    const segment *all = p.chunks[0].list[p.chunks[0].n - 2].seg;
    int64_t plain = all->saved_bytes / p.T;
    static const struct {
        const char *modules;
        int64_t less;
    } cases[] = {
        {"mla_up_proj", 2 * 135168}, /* queries, keys, values and the norms of the latents */
        {"layernorm", 2 * 28672},
        {"moe_act", 2 * 32768},
        {"shared_experts", 2 * 12288},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup *t = ARENA_NEW(a, setup);
        program q;
        program_of(&q, t, a, "deepseek-v3",
                   arena_text(a,
                              "model.recompute_granularity=selective model.recompute_modules=[%s]",
                              cases[i].modules));
        const segment *less = q.chunks[0].list[q.chunks[0].n - 2].seg;
        assert_int_equal(plain - less->saved_bytes / q.T, cases[i].less);
    }
    setup *t = ARENA_NEW(a, setup);
    program q;
    program_of(&q, t, a, "deepseek-v3", recomputes[5]);
    assert_int_equal(q.chunks[0].list[q.chunks[0].n - 2].seg->saved_bytes / q.T, 2 * 14336);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_before_it_is_written),
        cmocka_unit_test(buffers_of_an_operation_lie_apart),
        cmocka_unit_test(state_regions_are_those_that_check_counts),
        cmocka_unit_test(recompute_saves_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
