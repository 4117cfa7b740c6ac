/* test_axes.c - a search learns from a broken rule which other layouts break it: the axes that a
 * rule reads are all that it depends on, and what no layout can satisfy is found before. */
#include "plan/searching.h"

#include "base/clock.h"
#include "base/text.h"
#include "ir/segment.h"
#include "plan/search_axes.h"

typedef struct fixture {
    arena *a;
    choice_maker m;
    unsigned of[K_COUNT];
} fixture;

/* One GPU of each kind: another family of chips, another NVLink domain. */
static const char *const chips[] = {"H100", "B200", "GB200", "A100"};
enum { CHIPS = sizeof chips / sizeof chips[0] };

static void open_maker(fixture *f, const char *name, const char *chip)
{
    f->a = arena_create();
    const char *const words[] = {
        arena_text(f->a, "cluster.gpu=%s", chip), "cluster.n_gpus=256",     "model.seq_length=8192",
        "train.global_batch_size=1024",           "model.mtp_num_layers=1", NULL};
    const recipe *given = searching_recipe(name, words, f->a);
    choice_open(&f->m, given, f->a);
    f->m.precisions[f->m.n_precisions++] = J_PRECISION_BF16_MIXED;
    f->m.precisions[f->m.n_precisions++] = J_PRECISION_BF16_WITH_FP8_SUBCHANNEL_SCALING_MIXED;
    axes_of_knobs(f->of, &f->m);
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Another value on one axis. */
static void turn(choice *c, int which, uint64_t *seed)
{
    uint64_t n = next(seed);
    static const unsigned drops[] = {0, DROP_LAYERNORM, DROP_MOE_ACT | DROP_LAYERNORM, DROP_FULL};
    if (which >= AT_PICKS) {
        int p = which - AT_PICKS;
        c->pick[p] = (signed char)(n % pick_values[p].n);
        return;
    }
    switch (1 << which) {
    case ON_PRECISION:
        c->precision = (int)(n % 2);
        break;
    case ON_TP:
        c->tp = 1 << n % 4;
        break;
    case ON_CP:
        c->cp = 1 << n % 4;
        break;
    case ON_KIND:
        c->kind = (cp_kind)(n % CP_KINDS);
        break;
    case ON_MBS:
        c->mbs = 1 << n % 3;
        break;
    case ON_EP:
        c->ep = 1 << n % 7;
        break;
    case ON_ETP:
        c->etp = 1 << n % 2;
        break;
    case ON_TO:
        c->to = (dispatch_choice)(n % TO_KINDS);
        break;
    case ON_PP:
        c->pp = 1 << n % 4;
        break;
    case ON_VPP:
        c->vpp = c->pp > 1 ? 1 << n % 3 : 1;
        break;
    case ON_SPLIT:
        c->split = (int)(n % 2);
        break;
    case ON_OVERLAP:
        c->overlap = (overlap_kind)(n % OVERLAP_KINDS);
        break;
    case ON_DROP:
        c->drop = drops[n % 4];
        break;
    case ON_OFFLOAD:
        c->offload = (int)(n % OFFLOADS);
        break;
    default:
        c->graphs = (graph_scope)(n % SCOPES);
        break;
    }
}

static bool made(setup *s, fixture *f, const choice *c)
{
    return choice_patch(s, &f->m, c, choice_split(&f->m, c));
}

static void axes_are_all_that_matters(void **state)
{
    (void)state;
    static const char *const models[] = {"deepseek-v3", "qwen3-next-80b-a3b"};
    for (int k = 0; k < 2 * CHIPS; k++) {
        fixture f;
        int n, pairs = 0, differ = 0;
        uint64_t seed = 1;
        const rule *list = rules_table(&n);
        open_maker(&f, models[k / CHIPS], chips[k % CHIPS]);
        setup *x = ARENA_NEW(f.a, setup), *y = ARENA_NEW(f.a, setup);
        for (int i = 0; i < 4000; i++) {
            choice c = {.tp = 1, .cp = 1, .mbs = 1, .ep = 1, .etp = 1, .pp = 1, .vpp = 1}, d;
            for (int all = 0; all < AXES; all++) turn(&c, all, &seed);
            int which = (int)(next(&seed) % AXES);
            d = c;
            turn(&d, which, &seed);
            if (c.pp == 1 || d.pp == 1) c.vpp = d.vpp = 1;
            if (!made(x, &f, &c) || !made(y, &f, &d)) continue;
            pairs++;
            for (int q = 0; q < K_COUNT; q++) {
                if (value_equal(x->r.knob[q].v, y->r.knob[q].v)) continue;
                differ++;
                if (!(f.of[q] >> which & 1))
                    fail_msg("%s: %s on axis %d", chips[k % CHIPS], knobs[q].key, which);
            }
            for (int q = 0; q < n; q++) {
                if (!list[q].broken || list[q].broken(x) == list[q].broken(y)) continue;
                if (!(axes_of_rule(&list[q], f.of, NULL) >> which & 1))
                    fail_msg("%s: %s on axis %d", chips[k % CHIPS], list[q].id, which);
            }
        }
        print_message("%s on %s: %d pairs, %d knobs differ\n", models[k / CHIPS], chips[k % CHIPS],
                      pairs, differ);
        assert_true(pairs > 500 && differ > 500);
        arena_destroy(f.a);
    }
}

static void every_word_of_a_rule_is_known(void **state)
{
    (void)state;
    unsigned of[K_COUNT] = {0};
    int n;
    const rule *list = rules_table(&n);
    for (int i = 0; i < n; i++) {
        const char *strange = NULL;
        axes_of_rule(&list[i], of, &strange);
        if (strange) fail_msg("%s: search_axes.c does not know '%.24s'", list[i].id, strange);
    }
}

/* Nothing is looked at where no layout can be legal, and all such rules are named. */
static void what_no_layout_satisfies_is_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "cluster.gpu=H100",           "cluster.n_gpus=8",           "model.seq_length=4096",
        "train.global_batch_size=64", "mixed_precision=bf16_mixed", "rng.seed=0",
        "moefold.mock_data=true",     "dataset.data_path=x",        NULL};
    arena *a = arena_create();
    error err = {{0}};
    hardware hw;
    searching_machine(&hw, "hardware/h100.yaml", a);
    search_options o = {.hw = &hw};
    search_result *r = ARENA_NEW(a, search_result);
    assert_int_equal(search_run(r, searching_recipe("mixtral-8x7b", bad, a), &o, a, &err),
                     ERR_RULE);
    assert_int_equal(r->never.n, 2);
    assert_string_equal(r->never.list[0].rule->id, "seed-is-positive");
    assert_string_equal(r->never.list[1].rule->id, "mock-or-real-data");
    for (int i = 0; i < 2; i++) assert_true(r->never.list[i].n_repairs > 0);
    arena_destroy(a);
}

/* A rule that reads what is searched, and is broken everywhere: each break excludes all layouts
 * that agree with it, so that the search ends by itself. */
static void one_break_excludes_its_like(void **state)
{
    (void)state;
    static const char *const bad[] = {"cluster.gpu=H100",
                                      "cluster.n_gpus=64",
                                      "model.seq_length=4096",
                                      "train.global_batch_size=512",
                                      "model.tensor_model_parallel_size=2",
                                      "env_vars.CUDA_DEVICE_MAX_CONNECTIONS=8",
                                      "model.moe_token_dispatcher_type=allgather",
                                      NULL};
    arena *a = arena_create();
    error err = {{0}};
    hardware hw;
    searching_machine(&hw, "hardware/h100.yaml", a);
    search_options o = {.hw = &hw, .until = clock_seconds() + 600}; /* seconds without sanitizers */
    search_result *r = ARENA_NEW(a, search_result);
    recipe *given = searching_recipe("qwen3-30b-a3b", bad, a);
    assert_int_equal(search_run(r, given, &o, a, &err), OK);
    print_message("%lld of %lld layouts excluded by rules, %d rules\n", (long long)r->counts.rules,
                  (long long)r->counts.legal, r->n_breaks);
    assert_true(r->complete);
    assert_int_equal(r->n_best, 0);
    assert_true(r->n_breaks > 0);
    assert_true(r->breaks[0].n < 1000 && r->counts.rules > 1000 * r->breaks[0].n);
    arena_destroy(a);
}

static void a_search_ends_when_time_is_up(void **state)
{
    (void)state;
    static const char *const some[] = {"cluster.gpu=H100", "cluster.n_gpus=256",
                                       "model.seq_length=4096", "train.global_batch_size=2048",
                                       NULL};
    arena *a = arena_create();
    error err = {{0}};
    hardware hw;
    searching_machine(&hw, "hardware/h100.yaml", a);
    search_options o = {.hw = &hw, .until = clock_seconds() - 1};
    search_result *r = ARENA_NEW(a, search_result);
    recipe *given = searching_recipe("deepseek-v3", some, a);
    assert_int_equal(search_run(r, given, &o, a, &err), OK);
    assert_false(r->complete);
    assert_int_equal(r->n_best, 0);
    o.until = 0;
    assert_int_equal(search_run(r, given, &o, a, &err), OK);
    assert_true(r->complete);
    assert_int_equal(r->n_best, BEST_MAX);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_of_a_rule_is_known),
        cmocka_unit_test(axes_are_all_that_matters),
        cmocka_unit_test(what_no_layout_satisfies_is_named),
        cmocka_unit_test(one_break_excludes_its_like),
        cmocka_unit_test(a_search_ends_when_time_is_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
