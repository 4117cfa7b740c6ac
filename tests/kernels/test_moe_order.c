/* test_moe_order.c - tokens in the order of their experts, and back. */
#include "moe_sorted.h"

#include "backend/cpu/kernels/blas.h"

/* Expert-major, then by token; kept pairs alone, each once; nothing past the room. */
static void rows_are_sorted_by_expert_then_token(void **state)
{
    (void)state;
    for (int i = 0; i < N_WAYS; i++) {
        pool p = {.random = 71};
        sorted s = sort_in_way(&p, &ways[i], 53);
        int64_t *pair_of = TAKE(&p, int64_t, s.room), n_rows = 0; /* + 1; 0: nobody's */
        for (int64_t j = 0; j < s.T * s.K; j++) {
            int64_t row = s.rows[j], e = s.ids[j];
            if (row < 0) continue;
            n_rows++;
            assert_true(row < s.room && pair_of[row] == 0);
            assert_true(row >= s.offsets[e] && row < s.offsets[e + 1]);
            assert_true(!s.keep || s.keep[j] > 0);
            pair_of[row] = j + 1;
        }
        assert_int_equal(s.offsets[0], 0);
        for (int64_t e = 0; e < s.E; e++) {
            int64_t last = 0;
            bool ended = false; /* filled rows come first, then padding */
            for (int64_t row = s.offsets[e]; row < s.offsets[e + 1]; row++) {
                assert_true(pair_of[row] ? !ended && pair_of[row] > last : ways[i].pad > 0);
                ended = !pair_of[row];
                last = pair_of[row];
            }
            if (ways[i].pad) assert_int_equal(s.offsets[e], e * ways[i].pad);
        }
        bool all_fit = !ways[i].drops && ways[i].more_room >= 0 && !ways[i].pad;
        if (all_fit) assert_int_equal(n_rows, s.T * s.K);
        if (ways[i].more_room < 0) assert_int_equal(s.offsets[s.E], s.room);
        pool_release(&p);
    }
}

/* Back and forth: K times each token, or as often as it was kept. Weights come back unchanged. */
static void unpermute_undoes_permute(void **state)
{
    (void)state;
    for (int i = 0; i < N_WAYS; i++) {
        pool p = {.random = 81};
        sorted s = sort_in_way(&p, &ways[i], 53);
        int64_t H = 5;
        float *x = TAKE(&p, float, s.T *H), *y = random_floats(&p, s.T * H, 1);
        float *probs = random_floats(&p, s.T * s.K, 1), *back = TAKE(&p, float, s.T *s.K);
        float *xp = random_floats(&p, s.room * H, 1), *pp = random_floats(&p, s.room, 1);
        for (int64_t j = 0; j < s.T * H; j++) x[j] = (float)j;
        op there = {.kind = OP_PERMUTE, .dim = {s.T, s.K, H, s.room}}, here = there;
        here.kind = OP_PERMUTE_D;
        run(fast_moe(), &there, LIST(x, probs, s.rows), LIST(xp, pp));
        run(fast_moe(), &here, LIST(xp, pp, s.rows), LIST(y, back));
        for (int64_t t = 0; t < s.T; t++) {
            int kept = 0;
            for (int64_t k = 0; k < s.K; k++) {
                bool has_row = s.rows[t * s.K + k] >= 0;
                kept += has_row;
                assert_true(back[t * s.K + k] == (has_row ? probs[t * s.K + k] : 0));
            }
            for (int64_t h = 0; h < H; h++) assert_true(y[t * H + h] == (float)kept * x[t * H + h]);
        }
        pool_release(&p);
    }
}

/* A whole layer's routing: what is dropped adds nothing; padding changes nothing. */
static void padding_changes_no_result(void **state)
{
    (void)state;
    if (!blas_ready()) skip();
    pool p = {.random = 91};
    int64_t T = 40, E = 7, K = 3, H = 24, capacity = 12;
    float *keep = TAKE(&p, float, T *K), *probs = random_floats(&p, T * K, 1);
    float *x = random_floats(&p, T * H, 1), *w = random_floats(&p, E * H * H, 1);
    float *results[2];
    for (int64_t i = 0; i < T * K; i++) probs[i] = (float)magnitude(probs[i]);
    for (int padded = 0; padded < 2; padded++) {
        pool same = {.random = 92};
        sorted s = {.T = T, .E = E, .K = K, .room = E * capacity, .keep = keep};
        op drop = {.kind = OP_DROP, .dim = {T, E, K, capacity, 0}};
        op permute = {.kind = OP_PERMUTE, .dim = {T, K, H, s.room}}, unpermute = permute;
        op gemm = {.kind = OP_GROUPED, .dim = {s.room, E, H, H}};
        sorted ids = sort_tokens(&same, (sorted){.T = T, .E = E, .K = K}, SPREAD, 0);
        run(fast_moe(), &drop, LIST(probs, ids.ids), LIST(keep));
        same.random = 92;
        s = sort_tokens(&same, s, SPREAD, padded ? capacity : 0);
        float *xp = TAKE(&same, float, s.room *H), *yp = TAKE(&same, float, s.room *H);
        results[padded] = TAKE(&p, float, T *H);
        unpermute.kind = OP_UNPERMUTE;
        run(fast_moe(), &permute, LIST(x, NULL, s.rows), LIST(xp));
        run(fast_moe(), &gemm, LIST(xp, w, s.offsets), LIST(yp));
        run(fast_moe(), &unpermute, LIST(yp, s.rows), LIST(results[padded]));
        pool_release(&same);
    }
    for (int64_t i = 0; i < T * H; i++)
        assert_true(magnitude(results[0][i] - results[1][i]) < 1e-5);
    pool_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sorted_by_expert_then_token),
        cmocka_unit_test(unpermute_undoes_permute),
        cmocka_unit_test(padding_changes_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
