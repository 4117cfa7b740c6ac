/* test_order.c - the order of microbatches against Megatron's. */
#include "testing.h"

#include <stdio.h>

static const char *order_text(arena *a, const step_order *s)
{
    textbuf t = text_init(a);
    for (int64_t i = 0; i < s->n; i++)
        text_add(&t, "%s%c%d.%d", i ? " " : "", s->list[i].phase ? 'B' : 'F', (int)s->list[i].micro,
                 (int)s->list[i].chunk);
    return t.s;
}

static void equals_megatrons_orders(void **state)
{
    (void)state;
    static const struct {
        order_shape shape;
        int64_t peak;
        const char *order;
    } cases[] = {
        {{2, 0, 2, 4, 2, false},
         5,
         "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"},
        {{2, 1, 2, 4, 2, false},
         3,
         "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"},
        {{2, 0, 2, 4, 2, true},
         6,
         "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 B0.1 F2.1 B1.1 F3.1 B0.0 B1.0 B2.1 B3.1 B2.0 B3.0"},
        {{2, 1, 2, 4, 2, true},
         4,
         "F0.0 F1.0 F0.1 F1.1 B0.1 F2.0 B1.1 F3.0 B0.0 F2.1 B1.0 F3.1 B2.1 B3.1 B2.0 B3.0"},
        {{1, 0, 1, 3, 1, false}, 1, "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0"},
        {{1, 0, 1, 3, 1, true}, 2, "F0.0 F1.0 B0.0 F2.0 B1.0 B2.0"},
        {{4, 0, 1, 5, 4, false}, 4, "F0.0 F1.0 F2.0 F3.0 B0.0 F4.0 B1.0 B2.0 B3.0 B4.0"},
    };
    arena *a = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        step_order s;
        order_make(&s, &cases[i].shape, a);
        assert_string_equal(order_text(a, &s), cases[i].order);
        assert_int_equal(order_peak(&s), cases[i].peak);
    }
    arena_destroy(a);
}

static void warmups_and_peaks_of_four_stages(void **state)
{
    (void)state;
    static const int64_t warmup[] = {10, 8, 6, 4};
    arena *a = arena_create();
    for (int64_t r = 0; r < 4; r++)
        for (int overlap = 0; overlap < 2; overlap++) {
            step_order s;
            order_make(&s, &(order_shape){4, r, 2, 8, 4, overlap}, a);
            assert_int_equal(s.warmup, warmup[r] + overlap);
            assert_int_equal(order_peak(&s), warmup[r] + overlap + 1);
        }
    step_order uneven; /* a last group that is shorter */
    order_make(&uneven, &(order_shape){2, 0, 2, 5, 3, false}, a);
    assert_int_equal(uneven.warmup, 5);
    assert_true(strncmp(order_text(a, &uneven), "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 F3.0", 39) ==
                0);
    arena_destroy(a);
}

static void every_backward_follows_its_forward(void **state)
{
    (void)state;
    arena *a = arena_create();
    for (int64_t pp = 1; pp <= 4; pp++)
        for (int64_t vpp = 1; vpp <= (pp > 1 ? 3 : 1); vpp++)
            for (int64_t micros = pp; micros <= 3 * pp; micros++)
                for (int64_t r = 0; r < pp; r++) {
                    step_order s;
                    order_make(&s, &(order_shape){pp, r, vpp, micros, pp, false}, a);
                    assert_int_equal(s.n, 2 * vpp * micros);
                    char *seen = arena_take(a, (size_t)(vpp * micros));
                    for (int64_t i = 0; i < s.n; i++) {
                        char *at = &seen[s.list[i].chunk * micros + s.list[i].micro];
                        assert_int_equal(*at, s.list[i].phase);
                        (*at)++;
                    }
                }
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_megatrons_orders),
        cmocka_unit_test(warmups_and_peaks_of_four_stages),
        cmocka_unit_test(every_backward_follows_its_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
