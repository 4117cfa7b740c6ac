/* Experts on many ranks: every dispatcher gives what one rank gives, and sends what it should. */
#include "dispatch_testing.h"

static const char *const dispatchers[] = {
    ALLGATHER,
    ALLTOALL,
    FLEX(deepep) NODES(8),
    FLEX(deepep) NODES(2),
    FLEX(deepep) "cluster.gpus_per_node=3 ",
    FLEX(deepep) NODES(1),
    FLEX(hybridep) "cluster.gpus_per_node=2 cluster.nvlink_domain=4 ",
    FLEX(hybridep) NODES(2),
};
enum { N_DISPATCHERS = sizeof dispatchers / sizeof dispatchers[0] };

static const lay layouts[] = {
    {1, 1, 2, 1, 2}, {1, 1, 8, 1, 8}, {1, 1, 1, 2, 2}, {1, 1, 2, 2, 4}, {1, 1, 4, 2, 8},
    {1, 1, 2, 4, 8}, {2, 1, 4, 1, 4}, {2, 2, 4, 1, 4}, {2, 2, 2, 2, 4}, {1, 1, 2, 1, 4},
    {2, 1, 4, 1, 8}, {4, 1, 2, 2, 8}, {1, 4, 8, 1, 8}, {2, 1, 1, 1, 2},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void assert_near(const layer_run *many, const layer_run *one)
{
    const double most = 3e-5;
    const layer_case *c = many->c;
    int64_t n = SAMPLES * SEQ * one->l.H;
    double y = distance(many->l.y, one->l.y, n), dx = distance(many->l.dx, one->l.dx, n);
    if (!(y < most)) fail_msg("%s %s: outputs are %g apart", c->model_name, c->words, y);
    if (!(dx < most)) fail_msg("%s %s: dx are %g apart", c->model_name, c->words, dx);
    for (int i = 0; i < one->l.s.params.n_rows; i++) {
        const param *row = &one->l.s.params.rows[i];
        double d = distance(many->l.gradients[i], one->l.gradients[i], param_elements(row));
        if (!(d < most))
            fail_msg("%s %s: gradients of %s are %g apart", c->model_name, c->words, row->name, d);
    }
    if (!(fabs(many->aux - one->aux) <= 1e-5 * fabs(one->aux) &&
          fabs(many->z - one->z) <= 1e-5 * fabs(one->z)))
        fail_msg("%s: aux %g z %g, not %g %g", c->words, many->aux, many->z, one->aux, one->z);
    for (int64_t e = 0; e < one->l.s.m.moe->experts; e++)
        assert_true(many->load[e] == one->load[e]);
    if (many->most[0] > many->most[1]) fail_msg("%s: overflow", c->words);
}

/* One rank against layouts and dispatchers; `more` and `drop` for the many only. */
typedef struct sweep {
    const char *model_name;
    int64_t layer;
    const char *both, *more;
    unsigned drop;
    int first, step; /* of all pairs */
} sweep;

/* Ranks take their operations together, so groups must lie in nodes alike. */
static bool groups_are_alike(int i)
{
    const lay *l = &layouts[i / N_DISPATCHERS];
    bool odd = strstr(dispatchers[i % N_DISPATCHERS], "gpus_per_node=3") != NULL;
    return !odd || l->ep * l->etp == l->n;
}

static void equal_one_rank(const sweep *s)
{
    arena *a = arena_create();
    layer_case c = {s->model_name, arena_text(a, ONE "%s", s->both), s->layer, 0};
    const layer_run *one = layer_run_of(a, &c);
    for (int i = s->first; i < N_LAYOUTS * N_DISPATCHERS; i += s->step) {
        if (!groups_are_alike(i)) continue;
        arena *b = arena_create();
        const char *words = words_of(b, layouts[i / N_DISPATCHERS], dispatchers[i % N_DISPATCHERS]);
        words = arena_text(b, "%s " AMPLE "%s %s", words, s->both, s->more);
        layer_case many = {s->model_name, words, s->layer, s->drop};
        assert_near(layer_run_of(b, &many), one);
        arena_destroy(b);
    }
    arena_destroy(a);
}

static void every_dispatcher_equals_one_rank(void **state)
{
    (void)state;
    equal_one_rank(&(sweep){GOLDEN "qwen3-moe-tiny", 0, "", "", 0, 0, 1});
}

static void groups_and_shared_experts_equal_one_rank(void **state)
{
    (void)state;
    equal_one_rank(&(sweep){GOLDEN "deepseek-v3-tiny", 1, "", "", 0, 0, 3});
    equal_one_rank(&(sweep){GOLDEN "qwen3-next-tiny", 0, "", "", 0, 1, 3});
}

static void biases_equal_one_rank(void **state)
{
    (void)state;
    equal_one_rank(&(sweep){GOLDEN "gpt-oss-tiny", 0, "", "", 0, 0, 3});
    equal_one_rank(&(sweep){GOLDEN "mixtral-tiny", 0, "", "", 0, 2, 5});
}

#define AUX(kinds, weights)                                                                        \
    "model.moe_router_load_balancing_type=" kinds " model.moe_aux_loss_coeff=" weights             \
    " model.moe_z_loss_coeff=20.0 "

/* Counts over ranks: the part of each adds up. By sequence and over the global batch also where
 * replicas share the samples; over the microbatch that is another loss. */
static void auxiliary_losses_equal_one_rank(void **state)
{
    (void)state;
    equal_one_rank(
        &(sweep){GOLDEN "deepseek-v3-tiny", 1, AUX("seq_aux_loss", "300.0"), "", 0, 1, 8});
    equal_one_rank(
        &(sweep){GOLDEN "qwen3-moe-tiny", 0, AUX("global_aux_loss", "300.0"), "", 0, 1, 8});
    equal_one_rank(&(sweep){GOLDEN "qwen3-moe-tiny", 0,
                            AUX("[seq_aux_loss,global_aux_loss]", "[200.0,400.0]"), "", 0, 0, 9});
    for (int i = 0; i < N_LAYOUTS; i++)
        if (layouts[i].tp * layouts[i].cp == layouts[i].n)
            equal_one_rank(&(sweep){GOLDEN "qwen3-moe-tiny", 0, AUX("aux_loss", "300.0"), "", 0,
                                    i * N_DISPATCHERS + 1, N_LAYOUTS * N_DISPATCHERS});
}

static void global_loss_as_megatron_loses_a_factor(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *both = ALLTOALL AMPLE AUX("global_aux_loss", "300.0");
    const char *compatible = "moefold.global_aux_loss_as_megatron=true";
    const layer_run *runs[3];
    for (int i = 0; i < 3; i++) {
        layer_case *c = ARENA_NEW(a, layer_case);
        const char *more = i == 2 ? "model.moe_aux_loss_coeff=150.0" : i == 1 ? compatible : "";
        *c = (layer_case){GOLDEN "qwen3-moe-tiny",
                          words_of(a, (lay){1, 1, 2, 1, 2}, arena_text(a, "%s%s", both, more)), 0,
                          0};
        runs[i] = layer_run_of(a, c);
    }
    int64_t n = SAMPLES * SEQ * runs[0]->l.H;
    assert_true(fabs(runs[1]->aux - runs[0]->aux) < 1e-3 && runs[0]->aux > 250);
    assert_true(distance(runs[1]->l.dx, runs[0]->l.dx, n) > 1e-3); /* half the gradient: DP is 2 */
    assert_true(distance(runs[1]->l.dx, runs[2]->l.dx, n) < 1e-6);
    arena_destroy(a);
}

static void recompute_and_overlap_change_nothing(void **state)
{
    (void)state;
    static const unsigned drops[] = {DROP_MOE, DROP_MOE_ACT, DROP_SHARED_EXPERTS | DROP_LAYERNORM,
                                     DROP_FULL};
#define SHARED_ASYNC "model.moe_shared_expert_overlap=true"
#define WGRAD_ASYNC  "model.overlap_dispatch_backward_with_experts_wgrad=true"
    static const char *const more[] = {"", SHARED_ASYNC, WGRAD_ASYNC,
                                       (SHARED_ASYNC " " WGRAD_ASYNC)};
    for (int i = 0; i < 4; i++) {
        equal_one_rank(&(sweep){GOLDEN "qwen3-next-tiny", 1, "", more[i], drops[i], i, 7});
        equal_one_rank(&(sweep){GOLDEN "deepseek-v3-tiny", 2, "", more[3 - i], drops[i], i + 3, 7});
    }
}

/* Capacity is a rank's own matter: dispatchers agree with one another. */
static void dispatchers_agree_on_dropped_tokens(void **state)
{
    (void)state;
    static const char *const ways[] = {"model.moe_expert_capacity_factor=0.8",
                                       "model.moe_expert_capacity_factor=1.0 "
                                       "model.moe_pad_expert_input_to_capacity=true"};
    for (int i = 0; i < 2 * N_LAYOUTS; i++) {
        arena *a = arena_create();
        layer_run *runs[N_DISPATCHERS];
        for (int d = 0; d < N_DISPATCHERS; d++) {
            if (!groups_are_alike(i / 2 * N_DISPATCHERS + d)) continue;
            layer_case *c = ARENA_NEW(a, layer_case);
            const char *more = arena_text(a, AMPLE "%s %s", ways[i % 2], dispatchers[d]);
            *c = (layer_case){GOLDEN "qwen3-moe-tiny", words_of(a, layouts[i / 2], more), 0, 0};
            runs[d] = layer_run_of(a, c);
            if (d > 0) assert_near(runs[d], runs[0]);
        }
        double rows = 0;
        for (int64_t e = 0; e < runs[0]->l.s.m.moe->experts; e++) rows += runs[0]->load[e];
        assert_true(rows < SAMPLES * SEQ * 2); /* something was dropped */
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dispatcher_equals_one_rank),
        cmocka_unit_test(groups_and_shared_experts_equal_one_rank),
        cmocka_unit_test(biases_equal_one_rank),
        cmocka_unit_test(auxiliary_losses_equal_one_rank),
        cmocka_unit_test(global_loss_as_megatron_loses_a_factor),
        cmocka_unit_test(recompute_and_overlap_change_nothing),
        cmocka_unit_test(dispatchers_agree_on_dropped_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
