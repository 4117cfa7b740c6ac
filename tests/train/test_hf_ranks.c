/* test_hf_ranks.c - ranks of a layout: who answers for an element, the values they start with, what
 * they read of Hugging Face files, and tensors compared part by part. */
#include "parts_testing.h"

#include <math.h>

#include "train/executor/init_weights.h"
#include "train/executor/owned.h"
#include "train/executor/part_map.h"

/* Layouts that every reference case can be cut by; the last one has 12 experts in mind. */
enum { N_CUTS = N_LAYOUTS - 1 };

static void each(const char *more, void (*see)(ranks *all))
{
    for (int m = 0; m < N_GOLDEN; m++)
        for (int i = 0; i < N_CUTS; i++) {
            char name[128];
            ranks all;
            snprintf(name, sizeof name, GOLDEN "%s", golden_cases[m]);
            if (strcmp(golden_cases[m], "mtp-tiny") == 0 && strstr(layouts[i], "pipeline"))
                continue; /* three layers */
            ranks_init(&all, name, more, layouts[i]);
            see(&all);
            ranks_release(&all);
        }
}

/* ---- who answers */

static void see_owned(ranks *all)
{
    unsigned char *seen = calloc((size_t)all->x.w.elements, 1);
    for (int i = 0; i < all->n; i++) {
        const one_rank *r = &all->list[i];
        for (int k = 0; k < r->w.n; k++) {
            const weight *w = &r->w.list[k];
            int64_t first, n = owned_range(&r->w, w, &first);
            assert_true(n >= 0 && first >= 0 && first + n <= w->n);
            for (int64_t e = first; e < first + n && rank_answers(all->x.s, &r->at, w); e++)
                seen[r->whole[w->offset + e]]++;
        }
    }
    for (int k = 0; k < all->x.w.n; k++)
        for (int64_t e = 0; e < all->x.w.list[k].n; e++)
            assert_int_equal(seen[all->x.w.list[k].offset + e], 1);
    free(seen);
}

static void one_rank_answers_for_each_element(void **state)
{
    (void)state;
    each("", see_owned);
    each("model.share_embeddings_and_output_weights=true", see_owned);
}

/* ---- places */

/* Every element of the whole is found where it is, or not; runs are what they say. */
static void see_find(const one_rank *r, const weight *w)
{
    part_map map;
    part_map_init(&map, r->all->x.s, &r->at, w);
    const weight *all = weight_find(&r->all->x.w, w->row, w->layer, -1);
    int64_t *place = malloc((size_t)all->n * sizeof *place);
    for (int64_t i = 0; i < all->n; i++) place[i] = -1;
    for (int64_t i = 0; i < w->n; i++) place[r->whole[w->offset + i] - all->offset] = i;
    for (int64_t i = 0, step = 1, run; i < all->n; i += step) {
        int64_t at = part_map_find(&map, i, &run);
        assert_true(run > 0 && i + run <= all->n);
        for (int64_t k = 0; k < run; k++) assert_true(place[i + k] == (at < 0 ? -1 : at + k));
        step = run % 7 == 0 ? run : 1 + run / 2; /* from inside of runs, too */
    }
    free(place);
}

/* Any range of the part is in its boxes, each element once. */
static void see_range(const one_rank *r, const weight *w, int64_t first, int64_t n)
{
    part_map map;
    weight_box boxes[PART_BOXES_MAX];
    part_map_init(&map, r->all->x.s, &r->at, w);
    unsigned char *seen = calloc((size_t)w->n, 1);
    int n_boxes = part_map_boxes(boxes, &map, first, n);
    assert_true(n_boxes <= PART_BOXES_MAX);
    int64_t offset = weight_find(&r->all->x.w, w->row, w->layer, -1)->offset;
    for (int b = 0; b < n_boxes; b++)
        for (int64_t i = 0; i < box_elements(w, &boxes[b]);) {
            box_run run = box_run_at(w, &boxes[b], i);
            for (int64_t k = 0; k < run.n; k++) {
                assert_true(r->whole[w->offset + run.part + k] == offset + run.whole + k);
                seen[run.part + k]++;
            }
            i += run.n;
        }
    for (int64_t i = 0; i < w->n; i++) assert_int_equal(seen[i], i >= first && i < first + n);
    free(seen);
}

static void see_places(ranks *all)
{
    uint64_t seed = 5;
    for (int i = 0; i < all->n; i += 3) {
        const one_rank *r = &all->list[i];
        for (int k = 0; k < r->w.n; k++) {
            const weight *w = &r->w.list[k];
            see_find(r, w);
            int64_t first = draw_below(&seed, (size_t)w->n);
            see_range(r, w, first, 1 + draw_below(&seed, (size_t)(w->n - first)));
            see_range(r, w, 0, w->n);
        }
    }
}

static void places_of_parts_are_places_of_the_whole(void **state)
{
    (void)state;
    each("", see_places);
}

/* ---- values */

static void same_as_whole(const one_rank *r, float padding)
{
    const float *whole = r->all->x.flat;
    for (int64_t i = 0; i < r->w.elements; i++)
        assert_true(r->values[i] == (r->whole[i] < 0 ? padding : whole[r->whole[i]]));
}

static void see_init(ranks *all)
{
    init_weights(all->x.s, NULL, &all->x.w, 11, all->x.flat);
    for (int i = 0; i < all->n; i++) {
        one_rank *r = &all->list[i];
        init_weights(all->x.s, &r->at, &r->w, 11, r->values);
        same_as_whole(r, 0);
    }
}

static void every_layout_starts_alike(void **state)
{
    (void)state;
    each("", see_init);
}

static void see_load(ranks *all)
{
    const char *folder = recipe_word(&all->x.s->r, K_MODEL);
    int64_t written = 0;
    hf_report report;
    loaded_from(&all->x, folder, NULL);
    for (int i = 0; i < all->n; i++) {
        one_rank *r = &all->list[i];
        status s =
            hf_load(&(hf_rank){all->x.s, &r->at, &r->w, r->values}, folder, &report, &r->err);
        if (s) fail_msg("%s", r->err.text);
        same_as_whole(r, UNTOUCHED);
        assert_int_equal(report.used.elements, report.found.elements);
        written += report.written;
    }
    assert_true(written >= loaded_elements(&all->x));
}

static void ranks_read_their_part_of_the_files(void **state)
{
    (void)state;
    each("", see_load);
}

/* ---- comparing */

/* A rank's gradients: right in its slices, no numbers elsewhere. */
static void gradients(one_rank *r, const float *whole)
{
    for (int64_t i = 0; i < r->w.elements; i++) r->values[i] = NAN;
    for (int b = 0; b < r->w.n_buckets; b++) {
        const bucket *k = &r->w.buckets[b];
        int64_t first = bucket_slice_start(k);
        for (int64_t i = first; i < first + bucket_slice(k); i++)
            if (r->whole[i] >= 0) r->values[i] = whole[r->whole[i]];
    }
}

static void see_tensor(ranks *all, const hf_golden *t, double added, bool trained)
{
    hf_compared sum = {0};
    double golden = 0;
    for (int i = 0; i < all->n; i++) {
        one_rank *r = &all->list[i];
        hf_flat flat = {all->x.s, &r->w, r->values, true};
        if (hf_compare(&flat, &r->at, t, &sum, &r->err)) fail_msg("%s", r->err.text);
    }
    for (int64_t i = 0; i < t->n; i++) golden += (double)t->values[i] * (double)t->values[i];
    assert_int_equal(sum.elements, t->n);
    assert_true(fabs(sum.golden - golden) <= 1e-12 * golden);
    if (trained) assert_true(fabs(sum.difference - added * (double)t->n) <= 1e-6 * (double)t->n);
    if (!trained) assert_true(fabs(sum.difference - golden) <= 1e-12 * golden);
}

static void see_compare(ranks *all)
{
    loaded *x = &all->x;
    for (int64_t i = 0; i < x->w.elements; i++) x->flat[i] = value_of((uint64_t)i, 5);
    for (int i = 0; i < all->n; i++) gradients(&all->list[i], x->flat);
    hf_walk walk = {.s = x->s, .w = &x->w};
    int n = 0;
    for (hf_part p; hf_walk_next(&walk, &p, x->a); n++) {
        if (n % 23 && p.w->row->trained) continue; /* a sample: names are looked up one by one */
        float *golden = malloc((size_t)p.elements * sizeof *golden);
        hf_gather(&(hf_flat){x->s, &x->w, x->flat, true}, &p, 0, p.elements, golden);
        see_tensor(all, &(hf_golden){p.name, golden, p.elements}, 0, p.w->row->trained);
        for (int64_t i = 0; i < p.elements; i++) golden[i] += 2;
        see_tensor(all, &(hf_golden){p.name, golden, p.elements}, 4, p.w->row->trained);
        free(golden);
    }
}

static void comparisons_see_each_element_once(void **state)
{
    (void)state;
    each("", see_compare);
}

static void unknown_tensors_are_refused_on_every_rank(void **state)
{
    (void)state;
    ranks all;
    ranks_init(&all, GOLDEN "qwen3-moe-tiny", "", layouts[4]);
    for (int i = 0; i < all.n; i++) {
        one_rank *r = &all.list[i];
        float golden[64] = {0};
        hf_compared out = {0};
        hf_flat flat = {all.x.s, &r->w, r->values, true};
        hf_golden unknown = {"model.layers.9.x", golden, 64},
                  other = {"model.norm.weight", golden, 63},
                  norm = {"model.norm.weight", golden, 64};
        assert_int_equal(hf_compare(&flat, &r->at, &unknown, &out, &r->err), ERR_INPUT);
        assert_has(r->err.text, "model.layers.9.x");
        assert_int_equal(hf_compare(&flat, &r->at, &other, &out, &r->err), ERR_INPUT);
        assert_has(r->err.text, "63");
        assert_int_equal(out.elements, 0);
        assert_int_equal(hf_compare(&flat, &r->at, &norm, &out, &r->err), OK);
        if (out.elements) assert_true(out.largest == 7.0);
    }
    ranks_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_answers_for_each_element),
        cmocka_unit_test(places_of_parts_are_places_of_the_whole),
        cmocka_unit_test(every_layout_starts_alike),
        cmocka_unit_test(ranks_read_their_part_of_the_files),
        cmocka_unit_test(comparisons_see_each_element_once),
        cmocka_unit_test(unknown_tensors_are_refused_on_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
