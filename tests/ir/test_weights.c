/* Weights of every rank: each element of the model where its cut says, bytes as the state counts
 * them, slices of the optimizer each owned once. */
#include "ir/testing.h"

#include <stdlib.h>

#define TPV  "model.tensor_model_parallel_size="
#define CPV  " model.context_parallel_size="
#define PPV  " model.pipeline_model_parallel_size="
#define EPV  " model.expert_model_parallel_size="
#define ETPV " model.expert_tensor_parallel_size="
#define GPUS " cluster.n_gpus="

static const char *const layouts[] = {
    TPV "1 cluster.n_gpus=1",
    TPV "2" CPV "2" EPV "4" PPV "2" GPUS "16 train.global_batch_size=8",
    TPV "2" EPV "2" ETPV "2" PPV "2" GPUS "8 train.global_batch_size=4",
    TPV "1" EPV "4" ETPV "1" PPV "1" GPUS "8 train.global_batch_size=8",
    TPV "2" ETPV "1" EPV "1" GPUS "4 train.global_batch_size=4",
    TPV "1" CPV "2" PPV "2" GPUS "8 ddp.overlap_grad_reduce=true ddp.bucket_size=3000 "
        "train.global_batch_size=4",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* ---- boxes */

typedef struct tally {
    unsigned char *count; /* elements of one weight of the whole model */
    const param *row;
} tally;

static void mark_box(tally *t, const weight_box *b)
{
    const int64_t *dim = t->row->dim;
    int64_t d1 = t->row->n_dims > 1 ? dim[1] : 1, d2 = t->row->n_dims > 2 ? dim[2] : 1;
    int64_t n1 = t->row->n_dims > 1 ? b->dim[1] : 1, n2 = t->row->n_dims > 2 ? b->dim[2] : 1;
    for (int64_t i = 0; i < b->dim[0]; i++)
        for (int64_t j = 0; j < n1; j++)
            for (int64_t k = 0; k < n2; k++)
                t->count[((b->at[0] + i) * d1 + b->at[1] + j) * d2 + b->at[2] + k]++;
}

/* Every element of a row is on as many ranks as the layout has copies of it. */
static void tile_row(const setup *s, const weight_list *lists, const param *row, int64_t layer,
                     arena *a)
{
    arena_place mark = arena_mark(a);
    int64_t n = param_elements(row), holders = 0, local = 0;
    tally t = {ARENA_ARRAY(a, unsigned char, n), row};
    memset(t.count, 0, (size_t)n);
    for (int64_t rank = 0; rank < s->lay.world; rank++) {
        const weight *w = weight_find(&lists[rank], row, layer, -1);
        if (!w || w->copy) continue;
        rank_at at = rank_coordinates(&s->lay, rank);
        weight_box boxes[PARAM_SECTIONS_MAX];
        int n_boxes = weight_boxes(boxes, s, &at, w);
        int64_t sum = 0;
        for (int i = 0; i < n_boxes; i++) {
            mark_box(&t, &boxes[i]);
            int64_t size = 1;
            for (int d = 0; d < row->n_dims; d++) size *= boxes[i].dim[d];
            sum += size;
        }
        assert_int_equal(sum, w->n);
        holders++;
        local = w->n;
    }
    if (!holders) fail_msg("nobody holds %s of layer %lld", row->name, (long long)layer);
    for (int64_t i = 0; i < n; i++)
        if (t.count[i] != holders * local / n)
            fail_msg("%s: element %lld is on %d ranks, not %lld", row->name, (long long)i,
                     t.count[i], (long long)(holders * local / n));
    arena_release(a, mark);
}

static void every_element_has_its_ranks(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int l = 0; l < N_LAYOUTS; l++) {
            arena *a = arena_create();
            setup *s = ARENA_NEW(a, setup);
            setup_of_words(s, a, family_cases[c], layouts[l]);
            weight_list *lists = ARENA_ARRAY(a, weight_list, s->lay.world), whole;
            for (int64_t r = 0; r < s->lay.world; r++) {
                rank_at at = rank_coordinates(&s->lay, r);
                weight_list_rank(&lists[r], s, &at, a);
            }
            weight_list_init(&whole, s, a);
            for (int i = 0; i < whole.n; i++)
                tile_row(s, lists, whole.list[i].row, whole.list[i].layer, a);
            arena_destroy(a);
        }
}

/* ---- places */

static void check_places(const setup *s, const weight_list *w, arena *a)
{
    unsigned char *taken = ARENA_ARRAY(a, unsigned char, w->elements);
    memset(taken, 0, (size_t)w->elements);
    for (int i = 0; i < w->n; i++) {
        const weight *x = &w->list[i];
        assert_int_equal(x->n, param_local(x->row, s->lay.tp, s->lay.etp, s->lay.ep));
        assert_true(x->offset >= 0 && x->offset + x->n <= w->elements);
        if (x->bucket >= 0) {
            const bucket *b = &w->buckets[x->bucket];
            assert_true(x->offset >= b->start && x->offset + x->n <= b->start + b->n);
            assert_int_equal(b->chunk, x->chunk);
        } else {
            assert_true(x->offset >= w->trained);
        }
        for (int64_t k = 0; k < x->n; k++) assert_int_equal(taken[x->offset + k]++, 0);
    }
    int64_t end = 0, owned = 0;
    for (int i = 0; i < w->n_buckets; i++) {
        const bucket *b = &w->buckets[i];
        assert_int_equal(b->n % b->shards, 0);
        assert_true(b->place < b->shards);
        assert_int_equal(b->moments, owned);
        owned += bucket_slice(b);
        end += b->n;
    }
    assert_int_equal(end, w->trained);
    assert_int_equal(owned, w->owned);
}

/* The state counts 4 bytes a weight and a gradient and 8 of moments in FP32. */
static void places_agree_with_the_state(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int l = 0; l < N_LAYOUTS; l++) {
            arena *a = arena_create();
            setup *s = ARENA_NEW(a, setup);
            setup_of_words(s, a, family_cases[c], layouts[l]);
            for (int64_t r = 0; r < s->lay.world; r++) {
                rank_at at = rank_coordinates(&s->lay, r);
                weight_list w;
                state_bytes bytes;
                weight_list_rank(&w, s, &at, a);
                check_places(s, &w, a);
                state_of_stage(&bytes, s, at.pp);
                assert_int_equal(state_gradients(&bytes), w.trained * 4);
                assert_int_equal(state_optimizer(&bytes), w.owned * 8);
            }
            arena_destroy(a);
        }
}

/* Slices of the members of a replica group cover each bucket once. */
static void slices_cover_buckets(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    setup_of_words(s, a, family_cases[0], layouts[1]);
    for (int64_t r = 0; r < s->lay.world; r++) {
        rank_at at = rank_coordinates(&s->lay, r);
        weight_list w;
        weight_list_rank(&w, s, &at, a);
        for (int i = 0; i < w.n_buckets; i++) {
            comm_group g = w.buckets[i].expert ? GROUP_EDP : GROUP_DP_CP;
            assert_int_equal(w.buckets[i].shards, group_width(s, g));
            assert_int_equal(w.buckets[i].place, group_rank(s, g, &at));
        }
    }
    arena_destroy(a);
}

static void whole_model_is_one_rank(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    setup_of_words(s, a, family_cases[2], layouts[0]);
    weight_list whole, one;
    rank_at at = {0};
    weight_list_init(&whole, s, a);
    weight_list_rank(&one, s, &at, a);
    assert_int_equal(whole.n, one.n);
    assert_int_equal(whole.elements, one.elements);
    for (int i = 0; i < whole.n; i++) {
        assert_ptr_equal(whole.list[i].row, one.list[i].row);
        assert_int_equal(whole.list[i].offset, one.list[i].offset);
    }
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_its_ranks),
        cmocka_unit_test(places_agree_with_the_state),
        cmocka_unit_test(slices_cover_buckets),
        cmocka_unit_test(whole_model_is_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
