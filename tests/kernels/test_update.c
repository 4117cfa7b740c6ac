/* test_update.c - the operations of a step's begin and end against plain loops. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "backend/kernels/kernels.h"
#include "op/update.h"

static void launch(const op *o, const op_types *t, void *const *in, void *const *out)
{
    int n;
    const kernel *rows = kernels_cpu(&n);
    const kernel *k = kernel_pick(rows, n, o, t, false);
    assert_non_null(k);
    assert_null(k->workspace);
    k->launch(&(kernel_call){.row = k, .o = o, .types = t, .in = in, .out = out});
}

static void numbers(float *x, int64_t n, double deviation, int seed)
{
    philox g = philox_stream((uint64_t)seed, 7);
    philox_normal(&g, 0, n, deviation, x);
}

/* ---- bytes */

static void copies_and_zeros_are_of_any_format(void **state)
{
    (void)state;
    static const dtype types[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_I32, DTYPE_U8};
    enum { N = 300001 };
    unsigned char *x = malloc(8 * N + 8), *y = malloc(8 * N + 8);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        int64_t bytes = dtype_bytes(types[i], N);
        for (int k = 0; k < 3; k++) {
            op o = {.kind = k == 0 ? OP_COPY_IN : k == 1 ? OP_COPY_OUT : OP_ZERO, .dim = {N}};
            op_types t = {.in = {types[i]}, .out = {types[i]}};
            void *in[OP_IN_MAX] = {x}, *out[OP_OUT_MAX] = {y};
            for (int64_t b = 0; b < bytes; b++) x[b] = (unsigned char)(b * 31 + b / 251 + 1);
            memset(y, 0xa5, 8 * N + 8);
            launch(&o, &t, in, out);
            for (int64_t b = 0; b < bytes; b++) assert_int_equal(y[b], k == 2 ? 0 : x[b]);
            assert_int_equal(y[bytes], 0xa5);
        }
    }
    free(x);
    free(y);
}

/* ---- sums */

enum { MICROS = 3, LAYERS = 4 };

typedef struct tallied {
    float loss[MICROS][2], mtp[MICROS][2], aux[LAYERS], z[LAYERS], rows[LAYERS][2];
    double counts[MICROS][COUNTS_COUNT], given[GIVEN_COUNT], squares, tally[SUM_COUNT];
} tallied;

static tallied tally_example(void)
{
    tallied x = {.loss = {{0.5F, 0.25F}, {3, 1.5F}, {0, 0}},
                 .mtp = {{0.125F, 0.5F}, {1, 2}, {7, 1}},
                 .aux = {0.25F, 0, 0.5F, 0.125F},
                 .z = {1, 2, 3, 4},
                 .rows = {{1, 2}, {0, 0}, {5, 5}, {0, 0}},
                 .counts = {{16, 8, 12, 6}, {10, 5, 8, 4}, {0, 0, 0, 0}},
                 .squares = 42};
    for (int i = 0; i < GIVEN_COUNT; i++) x.given[i] = 100 + i;
    return x;
}

static void run_tally(tallied *x, bool counts, bool experts)
{
    op o = {.kind = OP_TALLY, .dim = {MICROS, LAYERS}};
    op_types t = {.out = {DTYPE_F64}};
    void *in[OP_IN_MAX] = {[IN_TALLY_given] = x->given, [IN_TALLY_squares] = &x->squares};
    void *out[OP_OUT_MAX] = {x->tally};
    if (counts) {
        in[IN_TALLY_loss] = x->loss;
        in[IN_TALLY_mtp] = x->mtp;
        in[IN_TALLY_counts] = x->counts;
    }
    if (experts) {
        in[IN_TALLY_aux] = x->aux;
        in[IN_TALLY_z] = x->z;
        in[IN_TALLY_rows] = x->rows;
    }
    memset(x->tally, 0xa5, sizeof x->tally);
    launch(&o, &t, in, out);
}

static void a_tally_is_what_a_rank_adds(void **state)
{
    (void)state;
    tallied x = tally_example();
    run_tally(&x, true, true);
    assert_true(x.tally[SUM_LOSS] == 2.0 * 8 + 2.0 * 5);
    assert_true(x.tally[SUM_TOKENS] == 13);
    assert_true(x.tally[SUM_MTP] == 0.25 * 6 / 12 + 0.5 * 4 / 8);
    assert_true(x.tally[SUM_OBJECTIVE] == 0.5 + 3 + 0.125 + 1 + 7);
    assert_true(x.tally[SUM_AUX] == 0.875 && x.tally[SUM_Z] == 10);
    assert_true(x.tally[SUM_SQUARES] == 42 && x.tally[SUM_OVERFLOWS] == 0);
    for (int i = 0; i < 5; i++) /* flags pass as they are */
        assert_true(x.tally[SUM_FAILED + i] == x.given[GIVEN_FAILED + i]);
    x.rows[2][0] = 6;
    run_tally(&x, false, true);
    assert_true(x.tally[SUM_OVERFLOWS] == 1 && x.tally[SUM_LOSS] == 0 && x.tally[SUM_TOKENS] == 0);
    run_tally(&x, true, false);
    assert_true(x.tally[SUM_OVERFLOWS] == 0 && x.tally[SUM_AUX] == 0 && x.tally[SUM_TOKENS] == 13);
}

/* 1e16 + 1 + 1 - 1e16 is 0 or 2, by the order. */
static void sums_are_in_rank_order(void **state)
{
    (void)state;
    double x[4][2] = {{1e16, 1}, {1, -1e16}, {1, 1e16}, {-1e16, 1}}, y[2];
    op o = {.kind = OP_SUM, .dim = {4, 2}};
    op_types t = {.in = {DTYPE_F64}, .out = {DTYPE_F64}};
    void *in[OP_IN_MAX] = {x}, *out[OP_OUT_MAX] = {y};
    launch(&o, &t, in, out);
    assert_true(y[0] == ((1e16 + 1) + 1) - 1e16);
    assert_true(y[1] == ((1 - 1e16) + 1e16) + 1);
}

/* ---- the verdict */

typedef struct judged {
    double sums[SUM_COUNT], given[GIVEN_COUNT], verdict[VERDICT_COUNT];
} judged;

static step_outcome judge(judged *x)
{
    op o = {.kind = OP_VERDICT, .real = {1.0, 8.0, 0.9, 0.95}};
    op_types t = {.out = {DTYPE_F64}};
    void *in[OP_IN_MAX] = {x->sums, x->given}, *out[OP_OUT_MAX] = {x->verdict};
    launch(&o, &t, in, out);
    return (step_outcome)x->verdict[VERDICT_OUTCOME];
}

static void verdicts_follow_from_sums(void **state)
{
    (void)state;
    static const struct {
        step_sum place;
        double value;
        step_outcome outcome;
    } rows[] = {
        {SUM_TOKENS, 5, STEP_TAKEN},
        {SUM_LOSS, NAN, STEP_LOSS_NOT_FINITE},
        {SUM_MTP, INFINITY, STEP_LOSS_NOT_FINITE},
        {SUM_AUX, -INFINITY, STEP_LOSS_NOT_FINITE},
        {SUM_Z, NAN, STEP_LOSS_NOT_FINITE},
        {SUM_SQUARES, NAN, STEP_NOT_FINITE},
        {SUM_SQUARES, INFINITY, STEP_NOT_FINITE},
        {SUM_SQUARES, 65, STEP_TOO_LARGE},
        {SUM_SQUARES, 64, STEP_TAKEN},
        {SUM_OVERFLOWS, 1, STEP_OVERFLOWED},
        {SUM_FAILED, 2, STEP_FAILED},
        {SUM_LEAVE, 3, STEP_TAKEN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        judged x = {.sums = {[SUM_SQUARES] = 16}, .given = {1e-3, 2e-3, 0.1, 1, 4}};
        x.sums[rows[i].place] = rows[i].value;
        assert_int_equal(judge(&x), rows[i].outcome);
    }
    judged x = {.sums = {[SUM_SQUARES] = 16}, .given = {1e-3, 2e-3, 0.1, 0.5, 4}};
    judge(&x);
    double clip = 1 / (0.5 * 4 + 1e-6);
    assert_true(x.verdict[VERDICT_NORM] == 2 && x.verdict[VERDICT_CLIP] == clip);
    assert_true(x.verdict[VERDICT_SCALE] == 0.5 * clip && x.verdict[VERDICT_LR] == 1e-3);
    assert_true(x.verdict[VERDICT_EMBEDDING_LR] == 2e-3 && x.verdict[VERDICT_DECAY] == 0.1);
    assert_true(x.verdict[VERDICT_CORRECT1] == 1 / (1 - pow(0.9, 5)));
    assert_true(x.verdict[VERDICT_CORRECT2] == 1 / (1 - pow(0.95, 5)));
    x.sums[SUM_LOSS] = NAN;
    judge(&x);
    assert_true(isnan(x.verdict[VERDICT_NORM]));
}

/* ---- AdamW and squares */

/* Two weights with gaps, the second owned in part, and one of which this rank owns nothing. */
enum { HELD = 60000, OWNED = 40000, ROWS = 3, FIRST = 20001, SECOND = 17000, SECOND_AT = 33000 };
static const update_row table[ROWS] = {
    {.offset = 64, .n = FIRST, .decays = 1, .answers = 1},
    {.piece = 2, .offset = 31000, .decays = 1, .embedding = 1, .answers = 1},
    {.piece = 2, .offset = SECOND_AT, .n = SECOND, .moments = 20064, .embedding = 1},
};

typedef struct arrays {
    float w[HELD], g[HELD], master[OWNED], m[OWNED], v[OWNED];
    uint16_t w16[HELD], g16[HELD];
    double verdict[VERDICT_COUNT], squares;
} arrays;

static arrays *arrays_made(void)
{
    arrays *x = calloc(1, sizeof *x);
    numbers(x->w, HELD, 0.02, 1);
    numbers(x->g, HELD, 0.001, 2);
    numbers(x->m, OWNED, 0.0001, 3);
    numbers(x->v, OWNED, 0.00001, 4);
    for (int i = 0; i < OWNED; i++) x->v[i] = fabsf(x->v[i]);
    bf16_of_floats(x->w16, x->w, HELD);
    bf16_of_floats(x->g16, x->g, HELD);
    numbers(x->master, OWNED, 0.02, 5);
    double given[VERDICT_COUNT] = {STEP_TAKEN, 1, 1, 0.5, 1e-3, 5e-3, 0.1, 1.5, 2.5};
    memcpy(x->verdict, given, sizeof given);
    return x;
}

static void run_adamw(arrays *x, bool narrow)
{
    op o = {.kind = OP_ADAMW, .dim = {OWNED, ROWS, 0, OWNED}, .real = {0.9, 0.95, 1e-8}};
    dtype type = narrow ? DTYPE_BF16 : DTYPE_F32;
    op_types t = {.in = {type, DTYPE_F64, DTYPE_F64}, .out = {type}};
    void *in[OP_IN_MAX] = {narrow ? (void *)x->g16 : x->g, (void *)(uintptr_t)table, x->verdict};
    void *out[OP_OUT_MAX] = {narrow ? (void *)x->w16 : x->w, narrow ? x->master : NULL, x->m, x->v};
    launch(&o, &t, in, out);
}

/* A row element by element, in double. */
static void compare_row(const arrays *before, const arrays *after, int row, bool narrow)
{
    const update_row *r = &table[row];
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = r->offset + i, own = r->moments + i;
        double w = narrow ? (double)before->master[own] : (double)before->w[at];
        double g = 0.5 * (narrow ? (double)bf16_to_float(before->g16[at]) : (double)before->g[at]);
        double m = 0.9 * (double)before->m[own] + 0.1 * g;
        double v = 0.95 * (double)before->v[own] + 0.05 * g * g;
        double lr = r->embedding ? 5e-3 : 1e-3, decay = r->decays ? 0.1 : 0;
        double next = w - lr * (m * 1.5 / (sqrt(v * 2.5) + 1e-8) + decay * w);
        float now = narrow ? after->master[own] : after->w[at];
        assert_true(fabs((double)after->m[own] - m) < 1e-9);
        assert_true(fabs((double)after->v[own] - v) <= 1e-6 * v + 1e-14);
        assert_true(fabs((double)now - next) < 1e-6 * (fabs(w) + lr));
        if (narrow) assert_int_equal(after->w16[at], bf16_of_float(now));
    }
}

static void the_rest_is_left_alone(const arrays *before, const arrays *after)
{
    char *held = calloc(1, HELD), *owned = calloc(1, OWNED);
    for (int r = 0; r < ROWS; r++) {
        memset(held + table[r].offset, 1, (size_t)table[r].n);
        memset(owned + table[r].moments, 1, (size_t)table[r].n);
    }
    for (int i = 0; i < HELD; i++)
        if (!held[i]) assert_true(before->w[i] == after->w[i] && before->w16[i] == after->w16[i]);
    for (int i = 0; i < OWNED; i++)
        if (!owned[i]) assert_true(before->m[i] == after->m[i] && before->v[i] == after->v[i]);
    free(held);
    free(owned);
}

static void adamw_follows_its_table(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        arrays *before = arrays_made(), *after = arrays_made(), *threads = arrays_made();
        omp_set_num_threads(1);
        run_adamw(after, narrow);
        for (int r = 0; r < ROWS; r++) compare_row(before, after, r, narrow);
        the_rest_is_left_alone(before, after);
        omp_set_num_threads(3);
        run_adamw(threads, narrow);
        assert_memory_equal(after, threads, sizeof *after);
        omp_set_num_threads(1);
        free(before);
        free(after);
        free(threads);
    }
}

static void skipped_steps_write_nothing(void **state)
{
    (void)state;
    for (int outcome = STEP_TAKEN; outcome <= STEP_FAILED; outcome++)
        for (int narrow = 0; narrow < 2; narrow++) {
            arrays *before = arrays_made(), *after = arrays_made();
            before->verdict[VERDICT_OUTCOME] = after->verdict[VERDICT_OUTCOME] = outcome;
            run_adamw(after, narrow);
            assert_int_equal(memcmp(before, after, sizeof *before) == 0, outcome != STEP_TAKEN);
            float load[4] = {1, 2, 3, 4}, bias[4] = {0};
            op o = {.kind = OP_BIAS_UPDATE, .dim = {4}, .real = {0.5}};
            op_types t = {.in = {0, DTYPE_F64}};
            void *in[OP_IN_MAX] = {load, after->verdict}, *out[OP_OUT_MAX] = {bias};
            launch(&o, &t, in, out);
            float moved = outcome == STEP_TAKEN ? 0.5F : 0;
            assert_true(bias[0] == moved && bias[1] == moved && bias[2] == -moved &&
                        bias[3] == -moved);
            free(before);
            free(after);
        }
}

static void squares_are_of_what_a_rank_answers_for(void **state)
{
    (void)state;
    arrays *x = arrays_made();
    double plain = 0, got[2], threads[2];
    for (int64_t i = 0; i < FIRST; i++) plain += (double)x->g[64 + i] * (double)x->g[64 + i];
    x->g[30000] = (float)NAN;     /* nobody's */
    x->g[SECOND_AT] = (float)NAN; /* another rank answers */
    for (int n = 1; n <= 3; n += 2)
        for (int narrow = 0; narrow < 2; narrow++) {
            op o = {.kind = OP_SQUARES, .dim = {OWNED, ROWS}};
            op_types t = {.in = {narrow ? DTYPE_BF16 : DTYPE_F32, DTYPE_F64}, .out = {DTYPE_F64}};
            void *in[OP_IN_MAX] = {narrow ? (void *)x->g16 : x->g, (void *)(uintptr_t)table};
            void *out[OP_OUT_MAX] = {n == 1 ? &got[narrow] : &threads[narrow]};
            omp_set_num_threads(n);
            launch(&o, &t, in, out);
        }
    omp_set_num_threads(1);
    assert_true(fabs(got[0] - plain) < 1e-12 * plain && fabs(got[1] - plain) < 1e-2 * plain);
    assert_memory_equal(got, threads, sizeof got);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_zeros_are_of_any_format),
        cmocka_unit_test(a_tally_is_what_a_rank_adds),
        cmocka_unit_test(sums_are_in_rank_order),
        cmocka_unit_test(verdicts_follow_from_sums),
        cmocka_unit_test(adamw_follows_its_table),
        cmocka_unit_test(skipped_steps_write_nothing),
        cmocka_unit_test(squares_are_of_what_a_rank_answers_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
