/* test_fp8_bytes.c - of our own target in every scaling: the bytes that a search sums up from cards
 * are those of whole programs, region by region: copies of weights, room of aligned experts, saved
 * codes, temporaries; with fusions that end with QUANTISE, too, and with layers at the ends that
 * stay BF16. */
#include "plan/cards_testing.h"

#include <string.h>

#include "config/job_of.h"
#include "rules/rules.h"

#define P "mixed_precision."

static const struct {
    int precision;
    const char *more;
} scalings[] = {
    {J_PRECISION_BF16_WITH_FP8_SUBCHANNEL_SCALING_MIXED, NULL},
    {J_PRECISION_BF16_WITH_FP8_CURRENT_SCALING_MIXED, P "first_last_layers_bf16=false"},
    {J_PRECISION_BF16_WITH_FP8_CURRENT_SCALING_MIXED, P "first_last_layers_bf16=true"},
    {J_PRECISION_BF16_WITH_MXFP8_MIXED, P "reuse_grad_buf_for_mxfp8_param_ag=false"},
    {J_PRECISION_BF16_WITH_NVFP4_MIXED, P "fp4_param_gather=false"},
};
enum { N_SCALINGS = sizeof scalings / sizeof scalings[0], WORLD = 16 };

static void open_cards(fixture *f, const char *name, int scaling, const char *fusion)
{
    const char *words[] = {"cluster.gpu=H200",
                           "cluster.n_gpus=16",
                           "moefold.target=moefold",
                           "model.seq_length=4096",
                           "train.global_batch_size=32",
                           "model.num_layers=8",
                           fusion,
                           P "fp8_param_gather=false",
                           scalings[scaling].more,
                           NULL};
    f->a = arena_create();
    searching_machine(&f->hw, "hardware/h200.yaml", f->a);
    choice_open(&f->m, searching_recipe(name, words, f->a), f->a);
    f->m.precisions[f->m.n_precisions++] = scalings[scaling].precision;
    make_cards(f);
}

static void same_bytes(fixture *f, const choice *c)
{
    error err = {{0}};
    setup *s = ARENA_NEW(f->a, setup), *whole = ARENA_NEW(f->a, setup);
    recipe *r = ARENA_NEW(f->a, recipe);
    *r = *f->m.given;
    choice_set(r, &f->m, c);
    assert_true(choice_patch(s, &f->m, c, choice_split(&f->m, c)));
    if (setup_init(whole, r, f->a, &err)) fail_msg("%s: %s", choice_text(f->a, c), err.text);
    step_shape z = step_shape_of(s);
    const layout_facts *facts = ranks_facts(f->r, c);
    assert_true(facts->ok);
    part_sums sums = {0};
    sums_saved(&sums, f->k, c);
    for (int64_t q = 0; q < c->pp; q++) {
        int64_t bytes[REGION_COUNT];
        rank_regions(bytes, s, &z, facts, q);
        slots_of slots = {c, &z, facts, f->k, &sums, q};
        bytes[REGION_SAVED] = saved_packed(&slots, f->scratch);
        bytes[REGION_TEMP] = temp_bytes(&slots, f->scratch);
        program *p = ARENA_NEW(f->a, program);
        program_build(p, whole, layout_stage_rank(&whole->lay, q), f->a);
        assert_true(p->bytes[REGION_QUANTIZED_WEIGHTS] > 0);
        for (int i = 0; i < REGION_COUNT; i++)
            if (bytes[i] != p->bytes[i])
                fail_msg("%s: %s, recompute %s, rank %lld: %s is %lld as sums, %lld as a program",
                         job_word(K_PRECISION, f->m.precisions[0]), choice_text(f->a, c),
                         choice_modules(f->a, c->drop), (long long)q, region_name((region)i),
                         (long long)bytes[i], (long long)p->bytes[i]);
    }
}

static const choice layouts[] = {
    {.tp = 1, .cp = 1, .mbs = 1, .ep = 1, .etp = 1, .pp = 1, .vpp = 1, .to = TO_ALLTOALL},
    {.tp = 1, .cp = 1, .mbs = 2, .ep = 8, .etp = 1, .pp = 2, .vpp = 1, .to = TO_ALLTOALL},
    {.tp = 1, .cp = 1, .mbs = 1, .ep = 16, .etp = 1, .pp = 1, .vpp = 1, .to = TO_FLEX},
    {.tp = 1, .cp = 1, .mbs = 1, .ep = 4, .etp = 1, .pp = 4, .vpp = 2, .to = TO_FLEX},
    {.tp = 1, .cp = 2, .mbs = 1, .ep = 8, .etp = 1, .pp = 2, .vpp = 2, .to = TO_ALLTOALL},
    {.tp = 2, .cp = 1, .mbs = 1, .ep = 8, .etp = 1, .pp = 2, .vpp = 1, .to = TO_ALLTOALL},
    {.tp = 2, .cp = 2, .mbs = 1, .ep = 4, .etp = 2, .pp = 2, .vpp = 1, .to = TO_ALLTOALL},
    {.tp = 4, .cp = 1, .mbs = 1, .ep = 4, .etp = 1, .pp = 1, .vpp = 1, .to = TO_ALLTOALL},
    {.tp = 1,
     .cp = 1,
     .mbs = 1,
     .ep = 8,
     .etp = 1,
     .pp = 2,
     .vpp = 1,
     .to = TO_ALLTOALL,
     .drop = DROP_LAYERNORM | DROP_MOE_ACT},
    {.tp = 1,
     .cp = 1,
     .mbs = 1,
     .ep = 8,
     .etp = 1,
     .pp = 1,
     .vpp = 1,
     .to = TO_ALLTOALL,
     .drop = DROP_LAYERNORM | DROP_MOE},
    {.tp = 2,
     .cp = 1,
     .mbs = 1,
     .ep = 8,
     .etp = 1,
     .pp = 1,
     .vpp = 1,
     .to = TO_FLEX,
     .drop = DROP_FULL},
    {.tp = 1,
     .cp = 1,
     .mbs = 1,
     .ep = 8,
     .etp = 1,
     .pp = 2,
     .vpp = 2,
     .to = TO_ALLTOALL,
     .overlap = OVERLAP_EP},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void sums_are_whole_programs(void **state)
{
    (void)state;
    static const char *const models[] = {"qwen3-30b-a3b", "deepseek-v3"};
    for (int i = 0; i < N_SCALINGS; i++)
        for (int k = 0; k < 2; k++) {
            fixture f;
            open_cards(&f, models[(i + k) % 2], i,
                       k ? "moefold.fusion=[act_quant,permute_quant,norm_quant,qkv,add_norm]"
                         : "moefold.fusion=[]");
            for (int l = 0; l < N_LAYOUTS; l++) same_bytes(&f, &layouts[l]);
            close_cards(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_whole_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
