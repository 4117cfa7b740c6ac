/* test_move.c - MOVE: rows agree to the bit, what is not named stays, threads change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/rows.h"
#include "kernels/harness.c"

typedef struct
try {
    int64_t nx, ny;  /* numbers in x and y */
    int64_t dim[12]; /* N0 N1 N2 N3, X0 X1 X2 XO, Y0 Y1 Y2 YO */
}
try;

static const try tries[] = {
    {1, 1, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}},
    {60, 60, {3, 4, 5, 1, 20, 5, 1, 0, 1, 3, 12, 0}},       /* turned round */
    {120, 200, {2, 3, 4, 5, 60, 20, 5, 0, 75, 25, 6, 7}},   /* gaps, not from the start */
    {120, 120, {2, 3, 4, 5, 60, 20, 5, 0, 60, 20, 5, 0}},   /* all of it is one run */
    {120, 120, {2, 3, 4, 5, -60, 20, 5, 60, 60, 20, 5, 0}}, /* halves change places */
    {120, 120, {2, 3, 4, 5, 60, 20, 5, 0, 60, -20, -5, 55}},
    {80, 80, {1, 1, 4, 20, 999, 999, 20, 0, 999, 999, 20, 0}}, /* strides of one step are nothing */
    {20, 80, {4, 1, 1, 20, 0, 0, 0, 0, 20, 0, 0, 0}},          /* the same numbers four times */
    {80, 80, {0, 4, 4, 5, 0, 20, 5, 0, 0, 20, 5, 0}},          /* nothing to do */
    {80, 20, {2, 2, 2, 0, 4, 2, 1, 0, 4, 2, 1, 0}},
    {150000, 150000, {1, 1, 3, 50000, 0, 0, 50000, 0, 0, 0, -50000, 100000}}, /* few long runs */
    {150000, 150000, {1, 1, 1, 150000, 0, 0, 0, 0, 0, 0, 0, 0}},
    {98304, 98304, {2, 128, 8, 48, 49152, 384, 48, 0, 6144, 48, 12288, 0}}, /* heads to the front */
};

enum { N_TRIES = sizeof tries / sizeof tries[0] };

static void try_init(test_case *c, const try *t, unsigned flags)
{
    case_init(c, OP_MOVE, F32, t->dim, 12);
    c->o.flags = flags;
    case_reals(c, &c->in[0], t->nx);
    case_reals(c, &c->out[0], t->ny);
}

static void fast_equals_plain_to_the_bit(void **state)
{
    (void)state;
    const kernel *plain = row_of(plain_move(), OP_MOVE), *fast = row_of(fast_move(), OP_MOVE);
    for (int i = 0; i < 2 * N_TRIES; i++) {
        test_case c;
        try_init(&c, &tries[i / 2], i % 2 ? ACCUMULATE : 0);
        assert_true(fast->accepts(&c.o, &(op_types){.in = {0}}));
        double e = case_error(&c, plain->run, fast->run);
        if (e != 0) fail_msg("try %d, %s: %g apart", i / 2, i % 2 ? "added" : "written", e);
        assert_true(case_threads_agree(&c, fast->run));
        case_release(&c);
    }
}

static void by_hand(void **state)
{
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[9];
    const kernel *rows[] = {row_of(plain_move(), OP_MOVE), row_of(fast_move(), OP_MOVE)};
    /* pairs of x, the last first, to every third place from 1 on */
    op o = {.kind = OP_MOVE, .dim = {1, 1, 3, 2, 0, 0, -2, 4, 0, 0, 3, 1}};
    for (int i = 0; i < 2; i++) {
        static const float want[] = {9, 5, 6, 9, 3, 4, 9, 1, 2},
                           twice[] = {9, 10, 12, 9, 6, 8, 9, 2, 4};
        for (int k = 0; k < 9; k++) y[k] = 9;
        o.flags = 0;
        rows[i]->run(&o, (void *[]){x}, (void *[]){y});
        assert_memory_equal(y, want, sizeof y);
        o.flags = ACCUMULATE;
        rows[i]->run(&o, (void *[]){x}, (void *[]){y});
        assert_memory_equal(y, twice, sizeof y);
    }
}

/* Sums over a loop have an order, which only row 0 keeps. */
static void sums_are_left_to_row_0(void **state)
{
    (void)state;
    int n;
    const kernel *table = kernels_cpu(&n);
    op o = {.kind = OP_MOVE, .dim = {1, 1, 3, 2, 0, 0, 2, 0, 0, 0, 0, 0}, .flags = ACCUMULATE};
    const kernel *k = kernel_pick(table, n, &o, NULL, false);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[2] = {1, 1};
    assert_string_equal(k->name, "plain");
    k->run(&o, (void *[]){x}, (void *[]){y});
    assert_true(y[0] == 10 && y[1] == 13);
    o.dim[10] = 1; /* they overlap */
    assert_string_equal(kernel_pick(table, n, &o, NULL, false)->name, "plain");
    o.dim[10] = 2;
    assert_string_equal(kernel_pick(table, n, &o, NULL, false)->name, "threads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_equals_plain_to_the_bit),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(sums_are_left_to_row_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
