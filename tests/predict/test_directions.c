/* test_directions.c - prices move the way published runs did: signs, and sizes within a wide band;
 * and a recipe beside its plan. docs/DIRECTIONS.md has the numbers themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "predict/deltas.h"
#include "plan/against.h"

static delta_end end_of(const char *base, const char *words)
{
    arena *a = arena_create();
    error err = {{0}};
    delta_end e;
    if (delta_end_of(&e, NULL, base, words, a, &err)) fail_msg("%s %s: %s", base, words, err.text);
    arena_destroy(a);
    return e;
}

static void published_differences(void **state)
{
    (void)state;
    arena *a = arena_create();
    csv t, rows;
    error err = {{0}};
    delta_memo m = {0};
    int bad = 0;
    assert_int_equal(csv_read(&t, DELTAS_CSV, a, &err), OK);
    assert_int_equal(csv_read(&rows, DELTAS_SOURCE, a, &err), OK);
    assert_true(t.n_rows > 40);
    for (int i = 0; i < t.n_rows; i++) {
        double ours = 0;
        if (delta_predict(&ours, &m, &t, i, &rows, a, &err)) fail_msg("row %d: %s", i, err.text);
        if (ours >= csv_real(&t, i, "low") && ours <= csv_real(&t, i, "high")) continue;
        print_error("%s, %s: %g %s, published %s, expected %s to %s\n", csv_cell(&t, i, "group"),
                    csv_cell(&t, i, "what"), ours, csv_cell(&t, i, "metric"),
                    csv_cell(&t, i, "published"), csv_cell(&t, i, "low"), csv_cell(&t, i, "high"));
        bad++;
    }
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

/* ---- long context */

static const char *const lengths[] = {"recipes/dsv3-16k-h100.yaml", "recipes/dsv3-32k-h100.yaml",
                                      "recipes/dsv3-64k-h100.yaml", "recipes/dsv3-128k-h100.yaml",
                                      "recipes/dsv3-256k-h100.yaml"};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
#define RING   "model.cp_comm_type=p2p model.hierarchical_context_parallel_sizes=null"
#define LATENT RING " moefold.mla_latent_ring=true"

/* Published: 315 to 297 TFLOP/s, 295 at 4K. */
static void two_spellings_stay_flat(void **state)
{
    (void)state;
    double short_one = end_of("recipes/dsv3-4k-h100.yaml", "").p.tflops_per_gpu;
    for (int i = 0, parts = 4; i < LENGTHS; i++, parts *= 2) {
        char words[192];
        snprintf(words, sizeof words,
                 RING " model.context_parallel_size=1 model.tensor_model_parallel_size=%d", parts);
        delta_end latent = end_of(lengths[i], LATENT);
        delta_end tp = end_of(lengths[i], words);
        assert_true(latent.p.fits && tp.p.fits);
        assert_true(fabs(latent.p.tflops_per_gpu / short_one - 1) < 0.25);
        assert_true(fabs(tp.p.tflops_per_gpu / short_one - 1) < 0.25);
    }
}

/* A ring over expanded keys is bound by the network as soon as it leaves the node. */
static void a_ring_falls_from_64k_on(void **state)
{
    (void)state;
    for (int i = 0; i < LENGTHS; i++) {
        double ring = end_of(lengths[i], RING).p.tflops_per_gpu;
        double latent = end_of(lengths[i], LATENT).p.tflops_per_gpu;
        if (i < 2)
            assert_true(ring > 0.9 * latent);
        else
            assert_true(ring < 0.6 * latent);
    }
}

/* The figure of a recipe's header ("# Published: 303 TFLOP/s ..."). */
static double header_figure(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[256];
    double figure = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "# Published: %lf TFLOP/s", &figure) == 1) break;
    fclose(f);
    return figure;
}

static void long_recipes_are_near_their_headers(void **state)
{
    (void)state;
    static const char *const all[] = {
        "recipes/dsv3-4k-h100.yaml",      "recipes/dsv3-16k-h100.yaml",
        "recipes/dsv3-32k-h100.yaml",     "recipes/dsv3-64k-h100.yaml",
        "recipes/dsv3-64k-h100-tp.yaml",  "recipes/dsv3-128k-h100.yaml",
        "recipes/dsv3-128k-h100-tp.yaml", "recipes/dsv3-256k-h100.yaml",
        "recipes/dsv3-256k-h100-tp.yaml"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        double ours = end_of(all[i], "").p.tflops_per_gpu, theirs = header_figure(all[i]);
        double band = strstr(all[i], "-tp") ? 0.05 : 0.1;
        if (!(fabs(ours / theirs - 1) < band))
            fail_msg("%s: %.1f TFLOP/s, its header says %.1f", all[i], ours, theirs);
    }
}

/* Everything that ships was run, so it fits. */
static void known_configurations_fit(void **state)
{
    (void)state;
    static const char *const all[] = {"recipes/dsv3-4k-h100.yaml",
                                      "recipes/dsv3-128k-h100.yaml",
                                      "recipes/dsv3-128k-h100-tp.yaml",
                                      "recipes/dsv3-256k-h100.yaml",
                                      "recipes/dsv3-256k-h100-tp.yaml",
                                      "recipes/qwen3-235b-128k-gb200.yaml",
                                      "recipes/qwen3-next-8k-gb200.yaml",
                                      "recipes/qwen3-next-32k-gb200.yaml",
                                      "recipes/qwen3-next-64k-gb200.yaml",
                                      "recipes/qwen3-30b-4k-h100.yaml",
                                      "recipes/qwen3-30b-4k-overlap-h100.yaml"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!end_of(all[i], "").p.fits) fail_msg("%s does not fit", all[i]);
}

/* ---- a recipe beside its plan */

typedef struct compared {
    arena *a;
    recipe *own, *job;
    hardware hw;
    search_result *r;
    against *g;
} compared;

static void compare(compared *c, const char *words)
{
    error err = {{0}};
    c->a = arena_create();
    c->own = ARENA_NEW(c->a, recipe);
    c->job = ARENA_NEW(c->a, recipe);
    c->r = ARENA_NEW(c->a, search_result);
    c->g = ARENA_NEW(c->a, against);
    assert_int_equal(words_recipe(c->own, words, c->a, &err), OK);
    assert_int_equal(hardware_read(&c->hw, recipe_word(c->own, K_GPU), c->a, &err), OK);
    against_open(c->job, c->own);
    search_options o = {.hw = &c->hw};
    assert_int_equal(search_run(c->r, c->job, &o, c->a, &err), OK);
    assert_int_equal(against_price(c->g, c->own, &(searched){c->job, c->r, &o}, c->a, &err), OK);
}

static void a_path_ends_at_the_first(void **state)
{
    (void)state;
    compared c;
    compare(&c, "recipes/qwen3-30b-4k-h100.yaml");
    const against *g = c.g;
    double at = g->p.step_s, first = c.r->best[0].exact.step_s;
    assert_true(g->n_path > 0 && g->n_path <= PATH_MOVES);
    for (int i = 0; i < g->n_path; i++) {
        const path_step *s = &g->path[i];
        assert_true(fabs(s->gain - (at / s->p.step_s - 1)) < 1e-9);
        assert_true(s->p.fits && s->words[0] && s->names[0]);
        at = s->p.step_s;
    }
    assert_true(fabs(at / first - 1) < 1e-6);
    assert_int_equal(g->path[g->n_path - 1].p.peak_bytes, c.r->best[0].exact.peak_bytes);
    assert_true(g->place >= 1 && g->place <= c.r->n_best + 1);
    for (int i = 0; i < c.r->n_best; i++)
        assert_int_equal(c.r->best[i].exact.step_s < g->p.step_s, i < g->place - 1);
    arena_destroy(c.a);
}

/* The winner stands first in its own plan, and nothing leads away from it. */
static void the_winner_has_no_path(void **state)
{
    (void)state;
    compared c;
    compare(&c, "recipes/qwen3-30b-4k-h100.yaml");
    recipe *winner = ARENA_NEW(c.a, recipe);
    error err = {{0}};
    search_recipe(winner, c.r, c.job, &c.r->best[0].c);
    search_options o = {.hw = &c.hw};
    against *g = ARENA_NEW(c.a, against);
    assert_int_equal(against_price(g, winner, &(searched){c.job, c.r, &o}, c.a, &err), OK);
    assert_int_equal(g->place, 1);
    assert_int_equal(g->same, 1);
    assert_int_equal(g->n_path, 0);
    assert_int_equal(g->faster, 0);
    arena_destroy(c.a);
}

static void an_opened_recipe_keeps_its_job(void **state)
{
    (void)state;
    arena *a = arena_create();
    error err = {{0}};
    recipe *own = ARENA_NEW(a, recipe), *asked = ARENA_NEW(a, recipe), *plan = ARENA_NEW(a, recipe);
    assert_int_equal(words_recipe(own, "recipes/dsv3-128k-h100.yaml", a, &err), OK);
    against_open(asked, own);
    assert_int_not_equal(asked->knob[K_CP].from, FROM_USER);
    assert_int_not_equal(asked->knob[K_PP_LAYOUT].from, FROM_USER);
    assert_int_equal(recipe_int(asked, K_MTP), 1);
    assert_string_equal(recipe_word(asked, K_PRECISION), recipe_word(own, K_PRECISION));

    assert_int_equal(words_recipe(plan, "deepseek-v3 cluster.n_gpus=512", a, &err), OK);
    assert_int_equal(against_join(plan, own, &err), OK);
    assert_int_equal(recipe_int(plan, K_MTP), 1);
    assert_int_equal(recipe_int(own, K_N_GPUS), 512);
    assert_int_not_equal(plan->knob[K_CP].from, FROM_USER);

    assert_int_equal(words_recipe(plan, "qwen3-30b-a3b", a, &err), OK);
    assert_int_equal(against_join(plan, own, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "qwen3-30b-a3b"));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_differences),
        cmocka_unit_test(two_spellings_stay_flat),
        cmocka_unit_test(a_ring_falls_from_64k_on),
        cmocka_unit_test(long_recipes_are_near_their_headers),
        cmocka_unit_test(known_configurations_fit),
        cmocka_unit_test(a_path_ends_at_the_first),
        cmocka_unit_test(the_winner_has_no_path),
        cmocka_unit_test(an_opened_recipe_keeps_its_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
