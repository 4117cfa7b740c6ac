/* What ranks send each other of their traces, and receives that were posted before their sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "predict/trace/pack.h"
#include "predict/trace/receives.h"

enum { OPS = 5000 };

static void fill(trace *t, arena *a)
{
    trace_init(t, "measured", a);
    t->recipe = "tiny";
    t->span = 1;
    t->step = 0.5;
    t->steps = 2;
    t->first_step = 7;
    t->streams = ARENA_ARRAY(a, const char *, 2);
    t->streams[0] = "compute";
    t->streams[1] = "layers";
    t->n_streams = 2;
    trace_add_rank(t, 3, "rank 3");
    for (int i = 0; i < OPS; i++) /* texts of its own each: the table has to grow */
        trace_add(t, (trace_op){.name = arena_text(a, "op %d", i % 700),
                                .kind = "GEMM",
                                .phase = i % 2 ? "forward" : NULL,
                                .rank = 3,
                                .stream = i % 2,
                                .bytes = i,
                                .start = i,
                                .end = i + 0.5});
}

static void unpacked_is_what_was_packed(void **state)
{
    (void)state;
    arena *a = arena_create(), *b = arena_create();
    trace t, again;
    size_t n;
    fill(&t, a);
    char *data = trace_pack(&t, &n, a);
    trace_unpack(&again, data, b);
    memset(data, 0x55, n); /* nothing of it is needed any more */
    assert_true(again.steps == 2 && again.first_step == 7 && again.span == 1 && again.n == OPS);
    assert_true(again.n_ranks == 1 && again.n_streams == 2);
    assert_string_equal(again.ranks[0].name, "rank 3");
    assert_string_equal(again.streams[1], "layers");
    assert_string_equal(again.recipe, "tiny");
    for (int i = 0; i < OPS; i++) {
        const trace_op *x = &t.ops[i], *y = &again.ops[i];
        assert_string_equal(x->name, y->name);
        assert_true(text_equal(x->phase, y->phase) && text_equal(x->group, y->group));
        assert_true(x->bytes == y->bytes && x->start == y->start && x->end == y->end);
    }
    arena_destroy(a);
    arena_destroy(b);
}

/* Rank 0 sends at 5..6; rank 1 has posted the receive at 1 and compute waits for it from 2 on. */
static void add_message(trace *t, double sent)
{
    trace_add(t, (trace_op){.name = "h",
                            .kind = "PP communication",
                            .stream = 1,
                            .start = sent,
                            .end = 6,
                            .message = TRACE_SENDS,
                            .peer = 1,
                            .tag = 4,
                            .number = 9});
    trace_add(t, (trace_op){.name = "h",
                            .kind = "PP communication",
                            .stream = 1,
                            .rank = 1,
                            .start = 1,
                            .end = 7,
                            .message = TRACE_RECEIVES,
                            .tag = 4,
                            .number = 9});
    trace_add(t, (trace_op){.what = TRACE_WAIT,
                            .name = "h",
                            .kind = "PP communication, exposed",
                            .rank = 1,
                            .start = 2,
                            .end = 7,
                            .tag = 4,
                            .number = 9,
                            .awaits = true});
}

static double length_of(const trace *t, const char *kind, int stream)
{
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (t->ops[i].rank == 1 && t->ops[i].stream == stream && text_equal(t->ops[i].kind, kind))
            sum += t->ops[i].end - t->ops[i].start;
    return sum;
}

static void waiting_for_the_sender_is_a_bubble(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace t;
    trace_init(&t, "measured", a);
    t.span = 10;
    add_message(&t, 5);
    trace_split_receives(&t);
    trace_sort(&t);
    assert_true(fabs(length_of(&t, "pipeline bubble", 1) - 4) < 1e-12);
    assert_true(fabs(length_of(&t, "PP communication", 1) - 2) < 1e-12);
    assert_true(fabs(length_of(&t, "pipeline bubble", 0) - 3) < 1e-12);
    assert_true(fabs(length_of(&t, "PP communication, exposed", 0) - 2) < 1e-12);
    trace_matches m = trace_match(&t, a);
    assert_true(m.matched == 1 && m.lost == 0);
    arena_destroy(a);
}

static void a_send_that_came_first_leaves_all_as_it_is(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace t;
    trace_init(&t, "measured", a);
    t.span = 10;
    add_message(&t, 0.5);
    trace_split_receives(&t);
    assert_int_equal(t.n, 3);
    assert_true(length_of(&t, "pipeline bubble", 1) == 0);
    assert_true(fabs(length_of(&t, "PP communication", 1) - 6) < 1e-12);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacked_is_what_was_packed),
        cmocka_unit_test(waiting_for_the_sender_is_a_bubble),
        cmocka_unit_test(a_send_that_came_first_leaves_all_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
