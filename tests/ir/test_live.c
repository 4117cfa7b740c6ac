/* test_live.c - what lives at once over an order of microbatches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/memory/live.h"

/* Chunks of one instance each, of random sizes. */
typedef struct sizes {
    uint64_t seed;
} sizes;

static int64_t below(sizes *s, int64_t n)
{
    s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((s->seed >> 33) % (uint64_t)n);
}

static live_span span(sizes *s)
{
    live_span x = {.kept = {.saved = below(s, 1000), .again = below(s, 100)}};
    x.forward = live_add(x.kept, (live_level){.temp = below(s, 500)});
    x.backward = (live_level){.temp = below(s, 700)};
    return x;
}

static live_level pair_of(void *with, int64_t f_chunk, int f, int64_t b_chunk, int b)
{
    const live_row *rows = with;
    (void)f, (void)b;
    return live_most(rows[f_chunk].spans[0].forward, rows[b_chunk].spans[0].backward);
}

/* Ending early changes nothing, for any pipeline. */
static void an_order_need_not_be_walked_to_its_end(void **state)
{
    (void)state;
    static const segment_kind layer = SEGMENT_LAYER;
    sizes seed = {1};
    for (int64_t pp = 1; pp <= 8; pp *= 2)
        for (int64_t vpp = 1; vpp <= 4; vpp *= 2)
            for (int64_t rank = 0; rank < pp; rank++)
                for (int pairs = 0; pairs < 2; pairs++) {
                    if (pp == 1 && vpp > 1) continue;
                    arena *a = arena_create();
                    step_order order;
                    order_make(&order, &(order_shape){pp, rank, vpp, 16 * pp, pp, pairs}, a);
                    live_span spans[4];
                    live_row rows[4];
                    for (int v = 0; v < vpp; v++) {
                        spans[v] = span(&seed);
                        rows[v] = (live_row){&spans[v], &layer, 1};
                    }
                    live_rank r = {.order = &order, .rows = rows, .n_chunks = vpp, .pairs = pairs};
                    r.pair = pair_of;
                    r.with = rows;
                    live_level soon = live_peak(&r, a);
                    r.whole = true;
                    live_level all = live_peak(&r, a);
                    assert_memory_equal(&soon, &all, sizeof all);
                    arena_destroy(a);
                }
}

/* Two segments in a row: what the first keeps lies under the second, and goes after it. */
static void spans_join(void **state)
{
    (void)state;
    live_span a = {{.saved = 10}, {.saved = 10, .temp = 5}, {.temp = 7}};
    live_span b = {{.saved = 4}, {.saved = 4, .temp = 2}, {.temp = 1}};
    live_span x = live_join(a, b);
    assert_int_equal(live_sum(x.kept), 14);
    assert_int_equal(live_sum(x.forward), 16); /* 10 kept, then 4 + 2 */
    assert_int_equal(live_sum(x.backward), 3); /* 7 over what is left when 4 have gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_need_not_be_walked_to_its_end),
        cmocka_unit_test(spans_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
