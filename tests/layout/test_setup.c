/* A resolved recipe: what is derived and why, in both systems; the fullest rank; broken sizes. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/models/models.h"
#include "layout/setup.h"

static arena *scratch;

static int set_up(void **state)
{
    (void)state;
    scratch = arena_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(scratch);
    return 0;
}

static recipe recipe_of(knob_system system, const char *overrides)
{
    recipe r;
    error err = {""};
    recipe_init(&r, scratch, "test");
    recipe_set_system(&r, system, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        assert_int_equal(recipe_override(&r, word, "test", &err), OK);
    assert_int_equal(model_fill(&r, &err), OK);
    return r;
}

static setup setup_as(knob_system system, const char *overrides)
{
    recipe r = recipe_of(system, overrides);
    setup s = {0};
    error err = {""};
    status st = setup_init(&s, &r, scratch, &err);
    if (st) print_message("%s\n", err.text);
    assert_int_equal(st, OK);
    return s;
}

static setup setup_of(const char *overrides)
{
    return setup_as(MOEFOLD, overrides);
}

#define DSV3 "moefold.model=deepseek-v3"
#define TINY                                                                                       \
    "model.num_layers=8 model.hidden_size=64 model.num_attention_heads=4 model.vocab_size=512"
#define MOE  TINY " model.num_moe_experts=8"
#define TP   " model.tensor_model_parallel_size="
#define CP   " model.context_parallel_size="
#define PP   " model.pipeline_model_parallel_size="
#define VPP  " model.virtual_pipeline_model_parallel_size="
#define EP   " model.expert_model_parallel_size="
#define GPUS " cluster.n_gpus="
#define GPU  " cluster.gpu="

static void expect(const setup *s, knob_id k, int64_t whole)
{
    if (recipe_int(&s->r, k) != whole)
        print_message("%s=%" PRId64 ", not %" PRId64 "\n", knobs[k].key, recipe_int(&s->r, k),
                      whole);
    assert_int_equal(recipe_int(&s->r, k), whole);
    assert_int_equal(s->r.knob[k].from, FROM_DERIVED);
    assert_true(strlen(s->r.knob[k].why) > 3);
}

static void expect_switch(const setup *s, knob_id k, bool on)
{
    if (recipe_on(&s->r, k) != on) print_message("%s is not %d\n", knobs[k].key, on);
    assert_int_equal(recipe_on(&s->r, k), on);
    assert_true(strlen(s->r.knob[k].why) > 3);
}

/* ---- what is derived */

static void a_bare_model_is_completed(void **state)
{
    (void)state;
    setup s = setup_of(DSV3);
    assert_true(s.possible);
    assert_string_equal(s.gpu->name, "H100");
    expect(&s, K_N_GPUS, 1);
    expect(&s, K_SEQ, 4096);
    expect(&s, K_MBS, 1);
    expect(&s, K_GBS, 4);
    expect(&s, K_ETP, 1);
    expect(&s, K_GPUS_PER_NODE, 8);
    expect(&s, K_NVLINK, 8);
    assert_int_equal(s.pipe.pp * s.pipe.vpp, 1);
    for (int k = 0; k < K_COUNT; k++) {
        assert_int_not_equal(s.r.knob[k].from, FROM_NOTHING);
        assert_non_null(s.r.knob[k].why);
    }
}

static void the_recipe_that_was_given_stays(void **state)
{
    (void)state;
    recipe given = recipe_of(MOEFOLD, DSV3 PP "8"), before = given;
    setup s;
    error err = {""};
    assert_int_equal(setup_init(&s, &given, scratch, &err), OK);
    assert_memory_equal(&given, &before, sizeof given);
    for (int k = 0; k < K_COUNT; k++)
        if (given.knob[k].from == FROM_USER) assert_int_equal(s.r.knob[k].from, FROM_USER);
}

static void sizes_follow_from_parallel_sizes(void **state)
{
    (void)state;
    setup s = setup_of(DSV3 CP "32" EP "32" PP "8" VPP "4");
    expect(&s, K_N_GPUS, 256);
    expect(&s, K_GBS, 32);
    expect_switch(&s, K_SP, false);
    assert_int_equal(s.lay.dp, 1);
    assert_int_equal(s.lay.edp, 1);
    setup t = setup_of("moefold.model=qwen3-235b-a22b" GPU "GB200" TP "4" CP "4" EP "32" PP "4" GPUS
                       "512 train.micro_batch_size=2");
    expect_switch(&t, K_SP, true);
    expect(&t, K_ETP, 1);
    expect(&t, K_GPUS_PER_NODE, 4);
    expect(&t, K_NVLINK, 64);
    expect(&t, K_GBS, 2 * 8 * 4 * 4);
    assert_int_equal(t.lay.dp, 8);
    setup u = setup_of(MOE TP "2");
    expect(&u, K_ETP, 2); /* EP 1: as TP */
    expect(&u, K_MAX_POSITIONS, 4096);
    setup c = setup_of(MOE GPU "cpu" EP "4" PP "2");
    expect(&c, K_GPUS_PER_NODE, 8);
    expect(&c, K_NVLINK, 8);
    assert_int_equal(c.gpu->arch, ARCH_CPU);
}

static void megatron_lm_keeps_its_habits(void **state)
{
    (void)state;
    setup s = setup_as(MEGATRON_LM, MOE TP "2" EP "4" GPUS "16 train.micro_batch_size=3");
    expect(&s, K_ETP, 2);
    expect(&s, K_GBS, 24);
    expect_switch(&s, K_SP, false);
    expect_switch(&s, K_GRAD_OVERLAP, false);
    expect_switch(&s, K_PARAM_OVERLAP, false);
    expect_switch(&s, K_OVERLAP_P2P, false);
    expect_switch(&s, K_BATCH_P2P, true);
    expect_switch(&s, K_ALIGN_GATHER, false);
    setup v = setup_as(MEGATRON_LM, MOE PP "4" VPP "2");
    expect_switch(&v, K_OVERLAP_P2P, true);
    expect_switch(&v, K_BATCH_P2P, false);
    expect_switch(&v, K_ALIGN_GATHER, true);
}

typedef struct overlap_case {
    const char *overrides;
    bool p2p, batch, grad, param, align;
} overlap_case;

static void overlap_is_on_where_there_is_something_to_hide(void **state)
{
    (void)state;
    static const overlap_case cases[] = {
        {MOE, false, false, false, false, false},
        {MOE GPUS "2", false, false, true, true, false},
        {MOE CP "2", false, false, true, true, false},
        {MOE PP "2", false, true, false, false, false},
        {MOE PP "2" VPP "2", true, false, false, false, true},
        {MOE PP "2" VPP "1", false, true, false, false, false},
        {MOE PP "2" VPP "2 comm_overlap.overlap_p2p_comm=false", false, true, false, false, true},
        {MOE GPUS "2 ddp.use_distributed_optimizer=false", false, false, false, false, false},
        {MOE GPUS "2 ddp.overlap_grad_reduce=false", false, false, false, false, false},
        {MOE TP "2" EP "1 model.expert_tensor_parallel_size=1", false, false, true, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = setup_of(cases[i].overrides);
        expect_switch(&s, K_OVERLAP_P2P, cases[i].p2p);
        expect_switch(&s, K_BATCH_P2P, cases[i].batch);
        expect_switch(&s, K_GRAD_OVERLAP, cases[i].grad);
        expect_switch(&s, K_PARAM_OVERLAP, cases[i].param);
        expect_switch(&s, K_ALIGN_GATHER, cases[i].align);
    }
}

static void null_asks_for_the_derived_value(void **state)
{
    (void)state;
    setup s = setup_of(MOE TP "2" EP "2 model.expert_tensor_parallel_size=null cluster.n_gpus=null"
                              " model.sequence_parallel=null model.seq_length=null");
    expect(&s, K_ETP, 1);
    expect(&s, K_N_GPUS, 2);
    expect(&s, K_SEQ, 4096);
    expect_switch(&s, K_SP, true);
    assert_true(s.possible);
}

static void gpus_are_known_by_name(void **state)
{
    (void)state;
    static const char *const words[] = {"A100", "H100",  "H200",  "H800", "B200",
                                        "B300", "GB200", "GB300", "cpu"};
    for (int i = 0; i < 9; i++) {
        const gpu *g = gpu_find(words[i]);
        assert_non_null(g);
        assert_true(text_in(knobs[K_GPU].allowed, '|', g->name));
        assert_int_equal(g->memory_bytes == 0, g->arch == ARCH_CPU);
    }
    assert_null(gpu_find("V100"));
    assert_null(gpu_find(NULL));
}

/* ---- the fullest rank */

static void the_fullest_rank_is_found(void **state)
{
    (void)state;
    static const char *const cases[] = {
        DSV3 EP "64" PP "16" GPUS "1024 model.mtp_num_layers=1",
        DSV3 EP "8" PP "61",
        DSV3 CP "32" EP "32" PP "8" VPP "4",
        "moefold.model=qwen3-next-80b-a3b" PP "6" EP "8",
        "moefold.model=gpt-oss-120b" PP "4" EP "8",
        MOE PP "8 model.moe_layer_freq=[0,0,0,1,0,0,1,0]",
        DSV3 EP "8" PP "32 model.mtp_num_layers=1"
                " model.pipeline_model_parallel_layout='Et*3|(tt|)*29,m|L'",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = setup_of(cases[i]);
        state_bytes fullest, here;
        int64_t rank = setup_fullest(&s, &fullest), most = 0, at = -1;
        for (int64_t q = 0; q < s.pipe.pp; q++) {
            state_of_stage(&here, &s, q);
            if (state_total(&here) <= most) continue;
            most = state_total(&here);
            at = q;
        }
        assert_int_equal(rank, at);
        assert_int_equal(state_total(&fullest), most);
        setup kept = s;
        setup_states(&kept, scratch);
        for (int64_t q = 0; q < s.pipe.pp; q++) {
            state_of_stage(&here, &s, q);
            assert_memory_equal(&kept.states[q], &here, sizeof here);
        }
    }
}

/* ---- bad sizes and bad strings */

static const knob_id size_knobs[] = {K_TP,
                                     K_CP,
                                     K_PP,
                                     K_EP,
                                     K_ETP,
                                     K_VPP,
                                     K_N_GPUS,
                                     K_MBS,
                                     K_LAYERS,
                                     K_MTP,
                                     K_GPUS_PER_NODE,
                                     K_NVLINK,
                                     K_SEQ,
                                     K_GBS,
                                     K_HIDDEN,
                                     K_VOCAB,
                                     K_EXPERTS,
                                     K_FIRST_LAYERS,
                                     K_LAST_LAYERS,
                                     K_LAYERS_PER_VSTAGE,
                                     K_BUCKET,
                                     K_OPT_INSTANCES};
enum { N_SIZES = sizeof size_knobs / sizeof size_knobs[0] };

static void no_size_does_harm(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0,         -1,        1,         2,    3,
                                    65536,     65537,     1 << 20,   4096, INT64_C(1) << 40,
                                    INT64_MAX, INT64_MIN, 1000000007};
    uint64_t seed = 11;
    for (int round = 0; round < 400; round++) {
        arena_place mark = arena_mark(scratch);
        recipe r = recipe_of(round % 2 ? MEGATRON_LM : MOEFOLD, MOE);
        for (int i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            knob_id k = size_knobs[(seed >> 33) % N_SIZES];
            recipe_set(&r, k, value_of_int(sizes[(seed >> 40) % 13]), "test");
        }
        setup s;
        error err = {""};
        status st = setup_init(&s, &r, scratch, &err);
        assert_true(st == OK || (st == ERR_INPUT && err.text[0]));
        if (st == OK && s.possible && !s.pipe.why_not) {
            state_bytes b;
            int64_t rank = setup_fullest(&s, &b);
            assert_true(rank >= 0 && rank < s.pipe.pp && state_total(&b) >= 0);
        }
        arena_release(scratch, mark);
    }
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    setup s;
    error err = {""};
    recipe r = recipe_of(MOEFOLD, MOE PP "2 model.pipeline_model_parallel_layout=Etttt|(tttt");
    assert_int_equal(setup_init(&s, &r, scratch, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "column 7"));
    recipe none = recipe_of(MOEFOLD, "model.hidden_size=64");
    assert_int_equal(setup_init(&s, &none, scratch, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "model.num_layers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_model_is_completed),
        cmocka_unit_test(the_recipe_that_was_given_stays),
        cmocka_unit_test(sizes_follow_from_parallel_sizes),
        cmocka_unit_test(megatron_lm_keeps_its_habits),
        cmocka_unit_test(overlap_is_on_where_there_is_something_to_hide),
        cmocka_unit_test(null_asks_for_the_derived_value),
        cmocka_unit_test(gpus_are_known_by_name),
        cmocka_unit_test(the_fullest_rank_is_found),
        cmocka_unit_test(no_size_does_harm),
        cmocka_unit_test(what_cannot_be_read_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
