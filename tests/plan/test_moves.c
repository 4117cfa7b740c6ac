/* test_moves.c - the table of moves: each is sound, and how many are priced is counted. */
#include "plan/searching.h"

#include <string.h>

#include "plan/axes.h"
#include "plan/changes.h"
#include "plan/variant.h"
#include "config/job_of.h"

static void a_move_names_each_knob_once(void **state)
{
    (void)state;
    for (move_id m = 0; m < MOVES; m++) {
        const edits e = moves[m].e;
        assert_true(e.n > 0);
        for (size_t i = 0; i < e.n; i++) {
            edits rest = {e.list + i + 1, e.n - i - 1};
            if (edits_name(rest, e.list[i].k)) fail_msg("move %d: %s", m, knobs[e.list[i].k].key);
        }
        /* what `tune` tries is what a search decides */
        if (moves[m].by & TUNED) assert_true(axis_decides(e.list[0].k));
    }
}

static void what_is_priced_is_counted(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.gpu=H100",
                                        "cluster.n_gpus=16",
                                        "model.seq_length=4096",
                                        "train.global_batch_size=512",
                                        "model.expert_model_parallel_size=16",
                                        NULL};
    arena *a = arena_create();
    hardware hw;
    recipe *given = searching_recipe("qwen3-30b-a3b", words, a);
    searching_machine(&hw, "hardware/h100.yaml", a);
    try_result now;
    const try_job own = {.given = given, .hw = &hw, .depth = TRY_PRICE};
    assert_true(try_edits(&now, (edits)NO_EDITS, &own, a));
    price_change all[64], some[64], again[64];
    change_job j = {given, &now.p, &hw, NULL, NULL};
    int n = price_changes(all, 64, &j, a), left = 0;
    for (int twice = 0; twice < 2; twice++) {
        try_budget few = {.left = TRY_SECONDS(0.02)};
        j.budget = &few;
        int k = price_changes(twice ? again : some, 64, &j, a);
        assert_true(k > 0 && k < n);
        assert_int_equal(k + few.left_out, n);
        if (twice) assert_int_equal(few.left_out, left);
        left = few.left_out;
    }
    for (int i = 0; i < n - left; i++) {
        assert_string_equal(some[i].words, again[i].words);
        assert_true(some[i].step_s == again[i].step_s);
    }
    arena_destroy(a);
}

/* What is offered is legal and takes what it says. */
static void a_change_is_what_it_says(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.gpu=H100",
                                        "cluster.n_gpus=64",
                                        "model.seq_length=8192",
                                        "train.global_batch_size=512",
                                        "model.expert_model_parallel_size=8",
                                        "model.pipeline_model_parallel_size=4",
                                        NULL};
    arena *a = arena_create();
    error err = {{0}};
    hardware hw;
    recipe *given = searching_recipe("qwen3-235b-a22b", words, a);
    searching_machine(&hw, "hardware/h100.yaml", a);
    try_result now;
    const try_job own = {.given = given, .hw = &hw, .depth = TRY_PRICE};
    assert_true(try_edits(&now, (edits)NO_EDITS, &own, a));
    price_change list[64];
    int n = price_changes(list, 64, &(change_job){given, &now.p, &hw, NULL, NULL}, a);
    assert_true(n > 20);
    for (int i = 0; i < n; i++) {
        recipe *r = ARENA_NEW(a, recipe);
        *r = *given;
        r->a = a;
        char *copy = arena_copy(a, list[i].words, strlen(list[i].words)), *rest = NULL;
        for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
            assert_int_equal(recipe_override(r, w, "test", &err), OK);
        try_result then;
        if (!try_recipe(&then, r, &own, a)) fail_msg("%s", list[i].words);
        if (then.p.step_s != list[i].step_s || then.peak_bytes != list[i].peak_bytes ||
            then.fits != list[i].fits)
            fail_msg("%s: %.9f s, said %.9f", list[i].words, then.p.step_s, list[i].step_s);
    }
    arena_destroy(a);
}

/* A layout with a move made on it has what the move names, whatever else follows. */
static void a_layout_takes_moves(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.gpu=H100",
                                        "cluster.n_gpus=64",
                                        "model.seq_length=32768",
                                        "train.global_batch_size=512",
                                        "model.pipeline_model_parallel_size=4",
                                        NULL};
    arena *a = arena_create();
    error err = {{0}};
    hardware hw;
    search_result result;
    recipe *given = searching_recipe("deepseek-v2", words, a);
    searching_machine(&hw, "hardware/h100.yaml", a);
    const search_options o = {.hw = &hw};
    assert_int_equal(search_run(&result, given, &o, a, &err), OK);
    assert_true(result.n_best > 0);
    variant_job j = {&result, {.given = given, .hw = &hw, .depth = TRY_FIT}};
    int made = 0, legal = 0;
    for (int i = 0; i < result.n_best; i++)
        for (move_id m = 0; m < MOVES; m++) {
            arena *own = arena_create();
            const variant from = {.c = result.best[i].c};
            variant v;
            try_result t;
            edits e;
            job before, after;
            recipe *was = ARENA_NEW(own, recipe), *is = ARENA_NEW(own, recipe);
            assert_true(variant_recipe(was, &from, &j, own));
            job_of(&before, was);
            job_put_int(&before, K_VPP, from.c.vpp);
            if (move_edits(&e, m, &before, own) && variant_edit(&v, &from, &j, e, own)) {
                assert_true(variant_recipe(is, &v, &j, own));
                job_of(&after, is);
                for (size_t k = 0; k < e.n; k++) {
                    const edit *x = &e.list[k];
                    bool one = x->kind == EDIT_FLAG || x->kind == EDIT_INT ||
                               (x->kind == EDIT_WORD && x->k != K_CP_COMM);
                    /* one chunk a stage is not written; of CP without ranks nothing is */
                    bool silent = (x->k == K_VPP && x->whole == 1) || v.c.cp == 1;
                    bool none = x->kind == EDIT_FLAG ? !x->flag : x->k == K_GRAPHS;
                    bool off = none && !job_has(&after, x->k);
                    if (one && !silent && !off && !edit_holds(x, &after))
                        fail_msg("row %d, move %d: %s", i, m, knobs[x->k].key);
                }
                made++;
                legal += variant_try(&t, &v, &from, &j, e, own);
                /* what a person pinned stays */
                if (t.legal) assert_int_equal(v.c.pp, 4);
            }
            arena_destroy(own);
        }
    assert_true(made > 100 && legal > 50);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_names_each_knob_once),
        cmocka_unit_test(what_is_priced_is_counted),
        cmocka_unit_test(a_change_is_what_it_says),
        cmocka_unit_test(a_layout_takes_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
