/* Ranks and groups: Megatron's own lists, brute force, and sizes that nobody should ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/maths.h"
#include "config/job_of.h"
#include "layout/layout.h"

enum { RANKS_MAX = 4096 };

typedef struct sizes {
    int64_t world, tp, cp, pp, ep, etp;
    bool pp_before_dp;
    int64_t node, domain;
} sizes;

static void knobs_of(recipe *r, arena *a, sizes z)
{
    recipe_init(r, a, "test");
    recipe_set(r, K_N_GPUS, value_of_int(z.world), "test");
    recipe_set(r, K_TP, value_of_int(z.tp), "test");
    recipe_set(r, K_CP, value_of_int(z.cp), "test");
    recipe_set(r, K_PP, value_of_int(z.pp), "test");
    recipe_set(r, K_EP, value_of_int(z.ep), "test");
    recipe_set(r, K_ETP, value_of_int(z.etp), "test");
    recipe_set(r, K_TP_PP_DP, value_of_bool(z.pp_before_dp), "test");
    recipe_set(r, K_GPUS_PER_NODE, value_of_int(z.node), "test");
    recipe_set(r, K_NVLINK, value_of_int(z.domain), "test");
}

static bool lay_out(layout *l, sizes z)
{
    arena *a = arena_create();
    recipe r;
    knobs_of(&r, a, z);
    job j;
    job_of(&j, &r);
    bool possible = layout_possible(&j);
    if (possible) layout_init(l, &j);
    arena_destroy(a);
    return possible;
}

/* ---- Megatron's lists */

static int64_t field(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void compare_groups(const layout *l, const group_kind *k, const json_t *golden)
{
    assert_int_equal(group_count(l, k), json_array_size(golden));
    for (int64_t g = 0; g < group_count(l, k); g++) {
        const json_t *ranks = json_array_get(golden, (size_t)g);
        int64_t ours[RANKS_MAX + 1], n = group_size(l, k);
        assert_int_equal(n, json_array_size(ranks));
        ours[n] = -1;
        group_ranks(l, k, g, ours);
        assert_int_equal(ours[n], -1); /* no more than its ranks is written */
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(ours[i], json_integer_value(json_array_get(ranks, (size_t)i)));
    }
}

static void groups_are_those_of_megatron(void **state)
{
    (void)state;
    error err = {""};
    json_t *cases = NULL;
    assert_int_equal(json_read("tests/data/groups.json", &cases, &err), OK);
    assert_int_equal(json_array_size(cases), 10);
    int n_kinds, n_compared = 0;
    const group_kind *kinds = group_kinds(&n_kinds);
    assert_int_equal(n_kinds, 15);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const char *order = json_string_value(json_object_get(c, "order"));
        sizes z = {field(c, "world"),
                   field(c, "tp"),
                   field(c, "cp"),
                   field(c, "pp"),
                   field(c, "ep"),
                   field(c, "etp"),
                   strcmp(order, "tp-cp-ep-pp-dp") == 0,
                   8,
                   8};
        layout l;
        assert_true(lay_out(&l, z));
        assert_int_equal(l.dp, field(c, "dp"));
        assert_int_equal(l.edp, field(c, "edp"));
        for (int k = 0; k < n_kinds; k++) {
            const json_t *lists = json_object_get(c, kinds[k].grid ? "expert" : "dense");
            const json_t *golden = json_object_get(lists, kinds[k].name);
            assert_non_null(golden);
            compare_groups(&l, &kinds[k], golden);
            n_compared++;
        }
    }
    assert_int_equal(n_compared, 150);
    json_decref(cases);
}

/* ---- brute force */

static uint64_t seed = 1;

static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int64_t draw_size(void)
{
    static const int64_t some[] = {1, 1, 2, 2, 3, 4, 4, 5, 6, 8};
    return some[draw(10)];
}

/* Random sizes that fit, world at most RANKS_MAX. */
static layout draw_layout(void)
{
    static const int64_t boxes[] = {1, 2, 3, 4, 7, 8, 16, 72, 5000};
    for (;;) {
        sizes z = {.tp = draw_size(),
                   .cp = draw_size(),
                   .pp = draw_size(),
                   .ep = draw_size(),
                   .etp = draw_size(),
                   .pp_before_dp = draw(2) == 0,
                   .node = boxes[draw(9)],
                   .domain = boxes[draw(9)]};
        z.world = layout_fewest(z.tp, z.cp, z.pp, z.ep, z.etp) * (1 + draw(4));
        if (z.pp_before_dp && draw(2)) z.ep = z.tp * z.cp, z.etp = 1;
        layout l;
        if (z.world <= RANKS_MAX && lay_out(&l, z)) return l;
    }
}

/* The coordinates of a rank by division along the order, without strides. */
static void coordinates(const layout *l, grid g, int64_t rank, int64_t at[AXIS_COUNT])
{
    const axis plain[] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP};
    const axis first[] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_PP, AXIS_DP};
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = l->pp_before_dp ? first[i] : plain[i];
        at[x] = rank % l->size[g][x];
        rank /= l->size[g][x];
    }
}

static bool together(const layout *l, const group_kind *k, int64_t a, int64_t b)
{
    int64_t at[AXIS_COUNT], bt[AXIS_COUNT];
    coordinates(l, k->grid, a, at);
    coordinates(l, k->grid, b, bt);
    for (int x = 0; x < AXIS_COUNT; x++)
        if (!(k->axes >> x & 1) && at[x] != bt[x]) return false;
    return true;
}

/* Groups in the order of their lowest rank, members ascending: since strides grow along the order,
 * that is what "first axis fastest" gives. Also a partition: every rank is met once. */
static void groups_equal_brute_force(void **state)
{
    (void)state;
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int round = 0; round < 300; round++) {
        layout l = draw_layout();
        const group_kind *k = &kinds[draw(n_kinds)];
        static bool met[RANKS_MAX];
        memset(met, 0, sizeof met);
        int64_t g = 0, ranks[RANKS_MAX], place;
        for (int64_t first = 0; first < l.world; first++) {
            if (met[first]) continue;
            group_ranks(&l, k, g, ranks);
            int64_t n = 0;
            for (int64_t rank = first; rank < l.world; rank++) {
                if (!together(&l, k, first, rank)) continue;
                assert_false(met[rank]);
                met[rank] = true;
                assert_int_equal(ranks[n], rank);
                assert_int_equal(group_of(&l, k, rank, &place), g);
                assert_int_equal(place, n);
                n++;
            }
            assert_int_equal(n, group_size(&l, k));
            g++;
        }
        assert_int_equal(g, group_count(&l, k));
    }
}

static int64_t boxes_touched(const int64_t *ranks, int64_t n, int64_t box)
{
    static bool met[RANKS_MAX + 1];
    memset(met, 0, sizeof met);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        count += !met[ranks[i] / box];
        met[ranks[i] / box] = true;
    }
    return count;
}

static void reach_equals_brute_force(void **state)
{
    (void)state;
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int round = 0; round < 400; round++) {
        layout l = draw_layout();
        const group_kind *k = &kinds[draw(n_kinds)];
        group_reach most = {0, 0}, ours = group_reach_of(&l, k);
        for (int64_t g = 0; g < group_count(&l, k); g++) {
            int64_t ranks[RANKS_MAX], n = group_size(&l, k);
            group_ranks(&l, k, g, ranks);
            int64_t nodes = boxes_touched(ranks, n, l.gpus_per_node);
            int64_t domains = boxes_touched(ranks, n, l.nvlink_domain);
            if (nodes > most.nodes) most.nodes = nodes;
            if (domains > most.domains) most.domains = domains;
        }
        assert_int_equal(ours.nodes, most.nodes);
        assert_int_equal(ours.domains, most.domains);
    }
}

static void pipeline_groups_are_equal_on_both_grids(void **state)
{
    (void)state;
    group_kind dense = {"pp", GRID_DENSE, 1 << AXIS_PP, ""};
    group_kind expert = {"pp", GRID_EXPERT, 1 << AXIS_PP, ""};
    for (int round = 0; round < 200; round++) {
        layout l = draw_layout();
        for (int64_t g = 0; g < group_count(&l, &dense); g++) {
            int64_t a[RANKS_MAX], b[RANKS_MAX];
            group_ranks(&l, &dense, g, a);
            group_ranks(&l, &expert, g, b);
            assert_memory_equal(a, b, sizeof a[0] * (size_t)l.pp);
        }
        for (int64_t p = 0; p < l.pp; p++) {
            int64_t rank = layout_stage_rank(&l, p);
            assert_int_equal(layout_coordinate(&l, GRID_DENSE, AXIS_PP, rank), p);
            assert_int_equal(layout_coordinate(&l, GRID_EXPERT, AXIS_PP, rank), p);
            assert_int_equal(layout_coordinate(&l, GRID_DENSE, AXIS_DP, rank), 0);
        }
    }
}

/* ---- sizes */

static void pp_before_dp_needs_equal_replicas(void **state)
{
    (void)state;
    layout l;
    assert_true(lay_out(&l, (sizes){16, 2, 1, 2, 4, 1, false, 8, 8}));
    assert_false(lay_out(&l, (sizes){16, 2, 1, 2, 4, 1, true, 8, 8}));
    assert_true(lay_out(&l, (sizes){16, 2, 2, 2, 4, 1, true, 8, 8}));
    assert_true(lay_out(&l, (sizes){16, 2, 1, 1, 4, 1, true, 8, 8}));
}

static void impossible_sizes_have_no_layout(void **state)
{
    (void)state;
    static const int64_t bad[] = {0, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 40, 7};
    for (int i = 0; i < 6; i++) {
        for (int which = 0; which < 6; which++) {
            int64_t v[6] = {64, 2, 2, 2, 4, 2};
            v[which] = bad[i];
            layout l;
            assert_false(lay_out(&l, (sizes){v[0], v[1], v[2], v[3], v[4], v[5], false, 8, 8}));
        }
    }
}

static void fewest_ranks_saturate(void **state)
{
    (void)state;
    assert_int_equal(layout_fewest(1, 32, 8, 32, 1), 256);
    assert_int_equal(layout_fewest(4, 4, 4, 32, 1), 128);
    assert_int_equal(layout_fewest(2, 3, 1, 4, 1), 12);
    assert_int_equal(layout_fewest(1, 1, 1, 0, 1), 0);
    assert_int_equal(layout_fewest(-4, 1, 1, 1, 1), 0);
    assert_int_equal(layout_fewest(INT64_MAX, INT64_MAX, INT64_MAX, 3, 5), SIZE_HUGE);
    for (int round = 0; round < 200; round++) {
        int64_t tp = draw_size(), cp = draw_size(), pp = draw_size(), ep = draw_size(),
                etp = draw_size(), w = 1;
        while (w % (tp * cp * pp) || w % (etp * ep * pp)) w++;
        assert_int_equal(layout_fewest(tp, cp, pp, ep, etp), w);
    }
}

static void strange_nodes_do_no_harm(void **state)
{
    (void)state;
    static const int64_t boxes[] = {0, -8, INT64_MIN, INT64_MAX};
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int i = 0; i < 4; i++) {
        layout l;
        assert_true(lay_out(&l, (sizes){64, 2, 2, 2, 4, 2, false, boxes[i], boxes[i]}));
        for (int k = 0; k < n_kinds; k++) assert_int_equal(group_reach_of(&l, &kinds[k]).nodes, 1);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void reach_of_a_large_world_is_quick(void **state)
{
    (void)state;
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    static const int64_t domains[] = {8, 72};
    for (int d = 0; d < 2; d++) {
        layout l;
        assert_true(lay_out(
            &l, (sizes){16384, 2, 32, 16, 64, 1, false, domains[d] == 8 ? 8 : 4, domains[d]}));
        double start = seconds();
        int64_t sum = 0;
        for (int k = 0; k < n_kinds; k++) sum += group_reach_of(&l, &kinds[k]).domains;
        double took = seconds() - start;
        print_message("reach of 16,384 ranks, domains of %d: %.3f ms\n", (int)domains[d],
                      1e3 * took);
        assert_true(sum > n_kinds);
        assert_true(took < 0.1); /* a tenth of a second: sanitizers and busy machines included */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_those_of_megatron),
        cmocka_unit_test(groups_equal_brute_force),
        cmocka_unit_test(reach_equals_brute_force),
        cmocka_unit_test(pipeline_groups_are_equal_on_both_grids),
        cmocka_unit_test(pp_before_dp_needs_equal_replicas),
        cmocka_unit_test(impossible_sizes_have_no_layout),
        cmocka_unit_test(fewest_ranks_saturate),
        cmocka_unit_test(strange_nodes_do_no_harm),
        cmocka_unit_test(reach_of_a_large_world_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
