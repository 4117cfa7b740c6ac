/* test_layer.c - LayerNorm, activations besides SwiGLU, learned positions: gradients equal
 * differences, threads change nothing, figures by hand. */
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

/* Row 0 once more, for double: real.h. */
kernel_rows plain_layer_float(void);
kernel_rows plain_layer_float(void)
{
    return plain_layer();
}
#define REAL_DOUBLE
#define plain_layer plain_layer_double
kernel_rows plain_layer_double(void);
#include "backend/cpu/kernels/plain_layer.c"

static kernel_run forward_of(op_kind kind)
{
    return row_of(plain_layer_double(), kind)->run;
}

/* Gradient by one input of the forward, as the backward's output `out` gives it. */
static void same_as_differences(test_case *f, test_case *b, tensor *by, int out, bool adds)
{
    case_run(b, forward_of(b->o.kind));
    double *found = b->out[out].data, *was = b->out[out].start;
    for (int64_t i = 0; adds && i < b->out[out].n; i++) found[i] -= was[i];
    double e = case_gradient_error(f, forward_of(f->o.kind), by, found);
    if (!(e < 1e-7)) fail_msg("kind %d, output %d: relative error %g", (int)b->o.kind, out, e);
}

/* ---- LayerNorm */

static void layer_norm_gradients_equal_differences(void **state)
{
    (void)state;
    enum { M = 3, H = 7 };
    static const unsigned all_flags[] = {0, ZERO_CENTRED, ACCUMULATE};
    for (int i = 0; i < 3; i++) {
        test_case f, d, w;
        const int64_t dim[] = {M, H};
        case_init(&f, OP_LAYER_NORM, F64, dim, 2);
        f.o.flags = all_flags[i];
        f.o.real[0] = 1e-5;
        case_reals(&f, &f.in[0], M * H);
        case_reals(&f, &f.in[1], H);
        case_reals(&f, &f.in[2], H);
        case_reals(&f, &f.out[0], M * H);
        case_reals(&f, &f.out[1], M * 2);
        case_weights(&f, &f.out[0]);
        case_run(&f, forward_of(OP_LAYER_NORM));
        case_init(&d, OP_LAYER_NORM_D, F64, dim, 2);
        d.o.flags = all_flags[i];
        case_given(&d, &d.in[0], M * H, f.out[0].weight);
        case_given(&d, &d.in[1], M * H, f.in[0].start);
        case_given(&d, &d.in[2], H, f.in[1].start);
        case_given(&d, &d.in[3], M * 2, f.out[1].data);
        case_reals(&d, &d.out[0], M * H);
        same_as_differences(&f, &d, &f.in[0], 0, all_flags[i] == ACCUMULATE);
        case_init(&w, OP_LAYER_NORM_W, F64, dim, 2);
        case_given(&w, &w.in[0], M * H, f.out[0].weight);
        case_given(&w, &w.in[1], M * H, f.in[0].start);
        case_run(&f, forward_of(OP_LAYER_NORM));
        case_given(&w, &w.in[2], M * 2, f.out[1].data);
        case_reals(&w, &w.out[0], H);
        case_reals(&w, &w.out[1], H);
        same_as_differences(&f, &w, &f.in[1], 0, true);
        same_as_differences(&f, &w, &f.in[2], 1, true);
        case_release(&f);
        case_release(&d);
        case_release(&w);
    }
}

/* ---- a norm whose rows are cut */

/* Two parts, one after another, give what NORM gives of the whole; and so do their gradients. */
static void a_norm_in_parts_is_the_norm(void **state)
{
    (void)state;
    enum { M = 4, H = 5, P = 2 };
    float x[M][P][H], dy[M][P][H], w[P][H], y[M][P * H], dx[M][P * H], rstd[M];
    float px[P][M][H], pdy[P][M][H], squares[P][M], dots[P][M], py[M][H], pdx[M][H], prstd[M];
    unsigned seed = 5;
    for (int p = 0; p < P; p++)
        for (int j = 0; j < H; j++) {
            w[p][j] = (float)((seed = seed * 1103515245u + 12345u) >> 16 & 255) / 128 - 1;
            for (int i = 0; i < M; i++) {
                px[p][i][j] = x[i][p][j] =
                    (float)((seed = seed * 1103515245u + 12345u) >> 16 & 255) / 128 - 1;
                pdy[p][i][j] = dy[i][p][j] =
                    (float)((seed = seed * 1103515245u + 12345u) >> 16 & 255) / 128 - 1;
            }
        }
    kernel_rows dense = plain_dense(), here = plain_layer_float();
    op o = {.kind = OP_NORM, .dim = {M, P * H}, .real = {1e-5}, .flags = ZERO_CENTRED};
    row_of(dense, OP_NORM)->run(&o, (void *[]){x, w}, (void *[]){y, rstd});
    row_of(dense, OP_NORM_D)->run(&o, (void *[]){dy, x, w, rstd}, (void *[]){dx});
    op part = {.dim = {M, H, P}, .real = {1e-5}, .flags = ZERO_CENTRED};
    for (int p = 0; p < P; p++) {
        row_of(here, OP_ROW_DOTS)
            ->run(&part, (void *[]){px[p], px[p], NULL}, (void *[]){squares[p]});
        row_of(here, OP_ROW_DOTS)->run(&part, (void *[]){pdy[p], px[p], w[p]}, (void *[]){dots[p]});
    }
    for (int p = 0; p < P; p++) {
        row_of(here, OP_NORM_PART)
            ->run(&part, (void *[]){px[p], w[p], squares}, (void *[]){py, prstd});
        row_of(here, OP_NORM_PART_D)
            ->run(&part, (void *[]){pdy[p], px[p], w[p], prstd, dots}, (void *[]){pdx});
        for (int i = 0; i < M; i++)
            for (int j = 0; j < H; j++) {
                assert_true(fabs((double)(py[i][j] - y[i][p * H + j])) < 1e-6);
                assert_true(fabs((double)(pdx[i][j] - dx[i][p * H + j])) < 2e-6);
            }
    }
}

/* ---- activations */

typedef struct act_try {
    int gated, kind;
    double offset, clamp;
    bool probs;
} act_try;

static const act_try act_tries[] = {
    {0, ACT_GELU, 0, 0, false},      {0, ACT_GELU, 0, 0, true},
    {0, ACT_FAST_GELU, 0, 0, true},  {0, ACT_QUICK_GELU, 0, 0, false},
    {0, ACT_SILU, 0, 0, true},       {0, ACT_SQUARED_RELU, 0, 0, true},
    {1, ACT_GELU, 0, 0, true},       {1, ACT_QUICK_GELU, 1, 0, false},
    {1, ACT_QUICK_GELU, 1, 5, true}, {1, ACT_SILU, 0, 2, false},
    {1, ACT_FAST_GELU, 0, 0, false}, {1, ACT_SQUARED_RELU, 0, 0, true},
};
enum { N_ACT_TRIES = sizeof act_tries / sizeof act_tries[0] };

static void act_init(test_case *c, op_kind kind, number type, const act_try *t, int64_t m,
                     int64_t f)
{
    const int64_t dim[] = {m, f, t->gated, t->kind};
    case_init(c, kind, type, dim, 4);
    c->o.real[0] = t->offset;
    c->o.real[1] = t->clamp;
}

static void activation_gradients_equal_differences(void **state)
{
    (void)state;
    enum { M = 3, F = 11 };
    for (int i = 0; i < N_ACT_TRIES; i++) {
        const act_try *t = &act_tries[i];
        test_case f, d;
        int64_t n = M * F * (t->gated ? 2 : 1);
        act_init(&f, OP_ACT_AS, F64, t, M, F);
        case_reals(&f, &f.in[0], n);
        for (int64_t j = 0; j < n; j++) ((double *)f.in[0].start)[j] *= 6; /* past the clamps */
        if (t->probs) case_reals(&f, &f.in[1], M);
        case_reals(&f, &f.out[0], M * F);
        case_weights(&f, &f.out[0]);
        case_run(&f, forward_of(OP_ACT_AS));
        act_init(&d, OP_ACT_AS_D, F64, t, M, F);
        case_given(&d, &d.in[0], M * F, f.out[0].weight);
        case_given(&d, &d.in[1], n, f.in[0].start);
        if (t->probs) case_given(&d, &d.in[2], M, f.in[1].start);
        case_reals(&d, &d.out[0], n);
        case_reals(&d, &d.out[1], M);
        same_as_differences(&f, &d, &f.in[0], 0, false);
        if (t->probs) same_as_differences(&f, &d, &f.in[1], 1, false);
        case_release(&f);
        case_release(&d);
    }
}

/* Values of torch.nn.functional: gelu, gelu(approximate="tanh"), silu, relu squared. */
static void activations_have_their_known_values(void **state)
{
    (void)state;
    static const struct {
        int kind;
        double x, y;
    } rows[] = {
        {ACT_GELU, 1.0, 0.8413447460685429},
        {ACT_GELU, -0.5, -0.1542687693630},
        {ACT_FAST_GELU, 1.0, 0.8411919906082768},
        {ACT_FAST_GELU, -0.5, -0.15428599017},
        {ACT_SILU, 1.0, 0.7310585786300049},
        {ACT_QUICK_GELU, 1.0, 0.8457957659328212},
        {ACT_SQUARED_RELU, 1.5, 2.25},
        {ACT_SQUARED_RELU, -1.5, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double x = rows[i].x, y;
        op o = {.kind = OP_ACT_AS, .dim = {1, 1, 0, rows[i].kind}};
        forward_of(OP_ACT_AS)(&o, (void *[]){&x, NULL}, (void *[]){&y});
        if (!(fabs(y - rows[i].y) < 1e-8)) fail_msg("kind %d of %g: %.12g", rows[i].kind, x, y);
    }
}

/* SwiGLU and gpt-oss's form, which have kernels of their own, are two points of this one. */
static void the_usual_forms_are_special_cases(void **state)
{
    (void)state;
    enum { M = 5, F = 9 };
    static const act_try as[] = {{1, ACT_SILU, 0, 0, true}, {1, ACT_QUICK_GELU, 1, 7, true}};
    static const unsigned flags[] = {0, CLAMPED};
    for (int i = 0; i < 2; i++) {
        test_case c;
        float a[M * F];
        act_init(&c, OP_ACT_AS, F32, &as[i], M, F);
        case_reals(&c, &c.in[0], 2 * M * F);
        for (int j = 0; j < 2 * M * F; j++) ((float *)c.in[0].start)[j] *= 9;
        case_reals(&c, &c.in[1], M);
        case_reals(&c, &c.out[0], M * F);
        case_run(&c, row_of(plain_layer_float(), OP_ACT_AS)->run);
        op usual = {.kind = OP_ACT, .dim = {M, F}, .flags = flags[i]};
        row_of(plain_dense(), OP_ACT)
            ->run(&usual, (void *[]){c.in[0].start, c.in[1].start}, (void *[]){a});
        assert_memory_equal(a, c.out[0].data, sizeof a);
        case_release(&c);
    }
}

/* ---- positions */

/* Two samples of six tokens on the second of two CP ranks: chunks 1 and 2 of four; TP's second half
 * of the tokens. */
static void positions_go_by_the_sequence(void **state)
{
    (void)state;
    enum { T = 6, H = 1, S = 6, P = 12 };
    double w[P], x[T], dw[P] = {0};
    for (int i = 0; i < P; i++) w[i] = i;
    for (int i = 0; i < T; i++) x[i] = 100;
    op o = {.kind = OP_POSITIONS, .dim = {T, H, S, 6, 3, 6}};
    forward_of(OP_POSITIONS)(&o, (void *[]){w}, (void *[]){x});
    static const double want[T] = {103, 104, 105, 106, 107, 108};
    assert_memory_equal(x, want, sizeof want);
    o.kind = OP_POSITIONS_W;
    forward_of(OP_POSITIONS_W)(&o, (void *[]){x}, (void *[]){dw});
    static const double want_dw[P] = {0, 0, 0, 103, 104, 105, 106, 107, 108, 0, 0, 0};
    assert_memory_equal(dw, want_dw, sizeof want_dw);
}

/* Every token of every rank, by brute force: what a rank adds is the position of its token. */
static void positions_of_all_ranks_cover_the_sequence(void **state)
{
    (void)state;
    enum { B = 2, SEQ = 16, CP = 2, TP = 2, S = SEQ / CP, T = B * S / TP };
    int seen[SEQ] = {0};
    double w[SEQ];
    for (int i = 0; i < SEQ; i++) w[i] = i;
    for (int cp = 0; cp < CP; cp++)
        for (int tp = 0; tp < TP; tp++) {
            double x[T] = {0};
            op o = {.kind = OP_POSITIONS,
                    .dim = {T, 1, S, tp * T, cp * S / 2, (2 * CP - 1 - cp) * S / 2}};
            forward_of(OP_POSITIONS)(&o, (void *[]){w}, (void *[]){x});
            for (int t = 0; t < T; t++) seen[(int)x[t]]++;
        }
    for (int i = 0; i < SEQ; i++) assert_int_equal(seen[i], B);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    enum { M = 67, H = 33 };
    const int64_t dim[] = {M, H, 0, ACT_GELU};
    static const op_kind kinds[] = {OP_LAYER_NORM, OP_LAYER_NORM_D, OP_LAYER_NORM_W, OP_ACT_AS,
                                    OP_ACT_AS_D};
    static const int64_t in[][4] = {{M * H, H, H, 0},
                                    {M * H, M * H, H, 2 * M},
                                    {M * H, M * H, 2 * M, 0},
                                    {M * H, M, 0, 0},
                                    {M * H, M * H, M, 0}};
    static const int64_t out[][2] = {{M * H, 2 * M}, {M * H, 0}, {H, H}, {M * H, 0}, {M * H, M}};
    for (int k = 0; k < 5; k++) {
        test_case c;
        case_init(&c, kinds[k], F32, dim, 4);
        for (int i = 0; i < 4; i++)
            if (in[k][i]) case_reals(&c, &c.in[i], in[k][i]);
        for (int i = 0; i < 2; i++)
            if (out[k][i]) case_reals(&c, &c.out[i], out[k][i]);
        assert_true(case_threads_agree(&c, row_of(plain_layer_float(), kinds[k])->run));
        case_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm_gradients_equal_differences),
        cmocka_unit_test(a_norm_in_parts_is_the_norm),
        cmocka_unit_test(activation_gradients_equal_differences),
        cmocka_unit_test(activations_have_their_known_values),
        cmocka_unit_test(the_usual_forms_are_special_cases),
        cmocka_unit_test(positions_go_by_the_sequence),
        cmocka_unit_test(positions_of_all_ranks_cover_the_sequence),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
