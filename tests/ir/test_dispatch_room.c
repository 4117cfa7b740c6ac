/* Rows of routed buffers: what has no room is left out and told; forced balance has room; bytes go
 * as far as they must. */
#include "dispatch_testing.h"

#include "op/round_robin.h"

static const lay layouts[] = {{1, 1, 8, 1, 8}, {1, 1, 4, 2, 8}, {2, 1, 4, 1, 4},
                              {2, 2, 2, 2, 4}, {1, 1, 2, 1, 4}, {4, 1, 2, 2, 8}};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static const char *const dispatchers[] = {ALLGATHER,
                                          ALLTOALL,
                                          FLEX(deepep) NODES(8),
                                          FLEX(deepep) NODES(2),
                                          FLEX(deepep) NODES(1),
                                          FLEX(hybridep) NODES(2)};
enum { N_DISPATCHERS = sizeof dispatchers / sizeof dispatchers[0] };

static layer_run *run_of(arena *a, const char *name, int64_t layer, lay l, const char *more)
{
    layer_case *c = ARENA_NEW(a, layer_case);
    *c = (layer_case){name, words_of(a, l, more), layer, 0};
    return layer_run_of(a, c);
}

static void assert_finite(const layer_run *x)
{
    for (int64_t i = 0; i < SAMPLES * SEQ * x->l.H; i++)
        assert_true(isfinite(x->l.y[i]) && isfinite(x->l.dx[i]));
    for (int i = 0; i < x->l.s.params.n_rows; i++)
        for (int64_t k = 0; k < param_elements(&x->l.s.params.rows[i]); k++)
            assert_true(isfinite(x->l.gradients[i][k]));
}

/* How many tokens came out as they do with room for all. */
static int64_t tokens_alike(const layer_run *x, const layer_run *ample)
{
    int64_t n = 0, H = x->l.H;
    for (int64_t t = 0; t < SAMPLES * SEQ; t++)
        n += distance(x->l.y + t * H, ample->l.y + t * H, H) < 1e-5;
    return n;
}

/* A router that likes some experts more: the last rows are left out, everything else is as it was,
 * and the demand is what one must know to run again. */
static void overflow_is_left_out_and_told(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS * N_DISPATCHERS; i++) {
        arena *a = arena_create();
        const char *name = GOLDEN "qwen3-moe-tiny", *how = dispatchers[i % N_DISPATCHERS];
        lay l = layouts[i / N_DISPATCHERS];
        layer_run *tight =
            run_of(a, name, 0, l, arena_text(a, "%s moefold.moe_buffer_factor=1", how));
        assert_finite(tight);
        double factor = tight->most[0] / tight->most[1];
        if (!(factor > 1)) fail_msg("%s: %g of %g rows", how, tight->most[0], tight->most[1]);
        layer_run *ample = run_of(
            a, name, 0, l, arena_text(a, "%s moefold.moe_buffer_factor=%.3f", how, factor + 0.01));
        if (ample->most[0] > ample->most[1]) fail_msg("%s: again too small", how);
        int64_t alike = tokens_alike(tight, ample);
        if (alike == SAMPLES * SEQ || alike < SAMPLES * SEQ / 4)
            fail_msg("%s: %d tokens alike", how, (int)alike);
        arena_destroy(a);
    }
}

/* Nothing is ever told to be too small where the room is what can arrive. */
static void room_for_all_that_can_arrive_is_enough(void **state)
{
    (void)state;
    arena *a = arena_create();
    for (int i = 0; i < N_DISPATCHERS; i++) {
        const char *more = arena_text(a, "%s moefold.moe_buffer_factor=1024", dispatchers[i]);
        layer_run *x = run_of(a, GOLDEN "mixtral-tiny", 0, layouts[1], more);
        assert_true(x->most[0] <= x->most[1] && x->most[1] <= SAMPLES * SEQ * 2);
    }
    arena_destroy(a);
}

static void forced_balance_needs_no_more_than_balance(void **state)
{
    (void)state;
    static const struct {
        const char *name, *more;
    } models[] = {{GOLDEN "qwen3-moe-tiny", ""},
                  {GOLDEN "deepseek-v3-tiny", ""},
                  /* a rank's own rows do not go round: 32 or 64 of them */
                  {GOLDEN "qwen3-moe-tiny", "model.num_moe_experts=64"}};
    for (int i = 0; i < 3 * N_LAYOUTS * N_DISPATCHERS; i++) {
        arena *a = arena_create();
        const char *how = dispatchers[i / 3 % N_DISPATCHERS];
        lay l = layouts[i / 3 / N_DISPATCHERS];
        how = arena_text(a, "%s%s model.moe_router_force_load_balancing=true", how,
                         models[i % 3].more);
        layer_run *x = run_of(a, models[i % 3].name, 1, l, how);
        const model *m = &x->l.s.m;
        int64_t rows = SAMPLES * SEQ * m->moe->topk, groups = l.n / (l.ep * l.etp);
        assert_finite(x);
        if (x->most[0] > x->most[1])
            fail_msg("%s: %g rows, room for %g", how, x->most[0], x->most[1]);
        for (int64_t e = 0; e < m->moe->experts; e++) /* of each group's tokens as many */
            assert_true(x->load[e] == (double)(rows / m->moe->experts));
        for (int64_t r = 0; r < x->l.n; r++)
            for (int id = 0; id < x->l.ranks[r].seg.n_bufs; id++) {
                const buf *p = &x->l.ranks[r].seg.bufs[id];
                if (strcmp(p->name, "experts.p") == 0)
                    assert_int_equal(p->bytes / 4, rows / groups / l.ep);
            }
        arena_destroy(a);
    }
}

/* Any tokens in a row: no expert has more rows than the room is planned for. */
static void round_robin_never_exceeds_its_bound(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{8, 2, 0, 0},  {7, 3, 0, 0},  {6, 4, 0, 0},  {32, 8, 8, 4},
                                        {12, 5, 3, 2}, {12, 4, 3, 2}, {20, 6, 4, 3}, {8, 1, 4, 1}};
    int n_kernels;
    const kernel *table = kernels_cpu(&n_kernels);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int64_t n = 1; n < 40; n += 3) {
            int64_t E = shapes[i][0], K = shapes[i][1], first = 5 * n + 1;
            round_robin r = round_robin_of(E, K, shapes[i][2], shapes[i][3]);
            op o = {.kind = OP_ROUTER, .real = {1}, .flags = FORCED};
            memcpy(o.dim, (int64_t[]){n, E, K, shapes[i][2], shapes[i][3], first}, 6 * 8);
            float logits[40 * 32] = {0}, probs[40 * 8];
            int32_t ids[40 * 8];
            int64_t counts[32] = {0};
            kernel_pick(table, n_kernels, &o, NULL, true)
                ->run(&o, (void *[]){logits, NULL}, (void *[]){probs, ids});
            for (int64_t k = 0; k < n * K; k++) counts[ids[k]]++;
            for (int64_t e = 0; e < E; e++) assert_true(counts[e] <= round_rows(&r, n));
        }
}

/* ---- how far rows go */

/* Rows that must leave their node: of every expert, of every node once. */
static traffic expected_across(const layer_run *x)
{
    const lockstep *l = &x->l;
    int64_t node = l->s.lay.gpus_per_node, K = l->s.m.moe->topk,
            here = l->s.m.moe->experts / l->s.lay.ep;
    traffic t = {0};
    for (int64_t r = 0; r < l->n; r++) {
        const lock_rank *k = &l->ranks[r];
        const int32_t *ids = NULL;
        for (int id = 0; id < k->seg.n_bufs; id++)
            if (strcmp(k->seg.bufs[id].name, "router.ids") == 0) ids = (const int32_t *)k->mem[id];
        for (int64_t i = 0; i < k->b.T * K; i++) {
            int64_t to = ids[i] / here * l->s.lay.etp / node;
            bool again = false;
            for (int64_t j = i / K * K; j < i; j++)
                again |= ids[j] / here * l->s.lay.etp / node == to;
            t.inside += to != r / node;
            t.across += to != r / node && !again;
        }
    }
    return t;
}

/* Eight ranks, four nodes. Of K experts a token sends K (1 - 1/nodes) rows to others by alltoall,
 * and by deepep one to each other node that has one of them. */
static void flex_crosses_nodes_once_for_each_node(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *name = GOLDEN "deepseek-v3-tiny", *ample = AMPLE NODES(2);
    lay l = {1, 1, 8, 1, 8};
    layer_run *all = run_of(a, name, 1, l, arena_text(a, ALLTOALL "%s", ample));
    layer_run *deep = run_of(a, name, 1, l, arena_text(a, FLEX(deepep) "%s", ample));
    layer_run *hybrid = run_of(a, name, 1, l, arena_text(a, FLEX(hybridep) "%s", ample));
    double H = (double)all->l.H, n = SAMPLES * SEQ, K = (double)all->l.s.m.moe->topk;
    traffic must = expected_across(all);
    assert_true(all->rows.across == must.inside * H);
    assert_true(deep->rows.across == must.across * H);
    assert_true(hybrid->rows.across == must.across * H);
    assert_true(deep->rows.across < all->rows.across);
    assert_true(deep->rows.inside > all->rows.inside); /* fanned out there instead */
    assert_true(fabs(all->rows.across / (n * H) - K * 0.75) < 0.1 * K);
    /* Its experts lie in 2 of 4 groups, each a node: about 2 (1 - 1/4) others. */
    assert_true(fabs(deep->rows.across / (n * H) - 1.5) < 0.2);
    arena_destroy(a);
}

/* Without groups: a node has 2 of 8 experts; K = 2 of them miss it with (6 5) / (8 7). */
static void rows_across_nodes_are_those_of_uniform_routing(void **state)
{
    (void)state;
    arena *a = arena_create();
    lay l = {1, 1, 8, 1, 8};
    const char *more = arena_text(a, FLEX(deepep) AMPLE NODES(2));
    layer_run *x = run_of(a, GOLDEN "qwen3-moe-tiny", 0, l, more);
    double rows = x->rows.across / ((double)x->l.H * SAMPLES * SEQ);
    double uniform = 3 * (1 - 6.0 * 5 / (8 * 7));
    if (!(fabs(rows - uniform) < 0.1 * uniform)) fail_msg("%g rows, not %g", rows, uniform);
    arena_destroy(a);
}

/* With one domain everything stays inside it, and a member is sent a token once. */
static void one_domain_sends_once_to_each_member(void **state)
{
    (void)state;
    arena *a = arena_create();
    lay l = {1, 1, 4, 1, 4};
    const char *name = GOLDEN "deepseek-v3-tiny";
    layer_run *deep = run_of(a, name, 1, l, FLEX(deepep) AMPLE NODES(8));
    layer_run *all = run_of(a, name, 1, l, ALLTOALL AMPLE NODES(8));
    assert_true(deep->rows.across == 0 && all->rows.across == 0);
    assert_true(deep->rows.inside < all->rows.inside);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflow_is_left_out_and_told),
        cmocka_unit_test(room_for_all_that_can_arrive_is_enough),
        cmocka_unit_test(forced_balance_needs_no_more_than_balance),
        cmocka_unit_test(round_robin_never_exceeds_its_bound),
        cmocka_unit_test(flex_crosses_nodes_once_for_each_node),
        cmocka_unit_test(rows_across_nodes_are_those_of_uniform_routing),
        cmocka_unit_test(one_domain_sends_once_to_each_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
