/* Groups as communication names them: lists, places and widths agree with one another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/models/models.h"
#include "layout/members.h"

static void make(setup *s, arena *a, const char *const *words)
{
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    recipe_init(r, a, "test");
    recipe_set(r, K_MODEL, value_of_text("tiny"), "test");
    status st = recipe_override(r, "cluster.gpu=cpu", "test", &err);
    for (int i = 0; words[i] && !st; i++) st = recipe_override(r, words[i], "test", &err);
    if (!st) st = model_fill(r, &err);
    if (!st) st = setup_init(s, r, a, &err);
    if (st) fail_msg("%s", err.text);
}

static const char *const folded[] = {"model.tensor_model_parallel_size=2",
                                     "model.context_parallel_size=4",
                                     "model.pipeline_model_parallel_size=2",
                                     "model.expert_model_parallel_size=4",
                                     "model.expert_tensor_parallel_size=1",
                                     "model.cp_comm_type=a2a+p2p",
                                     "model.hierarchical_context_parallel_sizes=[2,2]",
                                     "model.mtp_num_layers=1",
                                     "cluster.n_gpus=32",
                                     NULL};

static void check_group(const setup *s, comm_group g, arena *a)
{
    for (int64_t rank = 0; rank < s->lay.world; rank++) {
        rank_at at = rank_coordinates(&s->lay, rank);
        members m = members_of(s, g, rank, a);
        if (g == GROUP_EMBEDDING && m.n == 0) continue;
        assert_int_equal(m.n, group_width(s, g));
        assert_int_equal(m.place, group_rank(s, g, &at));
        assert_int_equal(m.ranks[m.place], rank);
        for (int64_t i = 0; i < m.n; i++) { /* every member has the same list */
            members other = members_of(s, g, m.ranks[i], a);
            assert_int_equal(other.n, m.n);
            assert_memory_equal(other.ranks, m.ranks, sizeof *m.ranks * (size_t)m.n);
            if (i) assert_true(m.ranks[i] > m.ranks[i - 1]);
        }
    }
}

static void members_agree(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    make(s, a, folded);
    for (int g = GROUP_WORLD; g < GROUP_COUNT; g++) check_group(s, (comm_group)g, a);
    arena_destroy(a);
}

static void levels_of_context(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    make(s, a, folded);
    /* CP of rank 0: 0 2 4 6; inner pairs (0 2) (4 6), outer (0 4) (2 6) */
    members inner = members_of(s, GROUP_CP_INNER, 4, a),
            outer = members_of(s, GROUP_CP_OUTER, 4, a);
    assert_int_equal(inner.ranks[0], 4);
    assert_int_equal(inner.ranks[1], 6);
    assert_int_equal(outer.ranks[0], 0);
    assert_int_equal(outer.ranks[1], 4);
    assert_int_equal(outer.place, 1);
    arena_destroy(a);
}

/* The prediction module reads the word table on the last stage. */
static void copies_of_words(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    make(s, a, folded);
    members m = members_of(s, GROUP_EMBEDDING, 3, a);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.ranks[0], 3);
    assert_int_equal(m.ranks[1], 19);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members_agree),
                                       cmocka_unit_test(levels_of_context),
                                       cmocka_unit_test(copies_of_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
