/* test_attention.c - attention: rows agree, threads change nothing, gradients are right; and the
 * small GEMMs and exponentials below the fast rows, for each instruction set of this machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/fast_attention_lanes.h"
#include "backend/cpu/kernels/rows.h"
#include "kernels/harness.c"

/* Row 0 once more, for double: real.h. */
kernel_rows plain_attention_double(void);
#define REAL_DOUBLE
#define plain_attention plain_attention_double
#include "backend/cpu/kernels/plain_attention.c"
#undef plain_attention

/* Not-a-number is near nothing. */
#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

typedef struct shape {
    int64_t b, s, n, g, d, dv, window;
    bool sinks;
} shape;

/* Blocks are 64 by 64, spans of the gradient 256 and more. */
static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 0, false},       /* the smallest */
    {3, 1, 2, 1, 5, 3, 0, true},        /* a token sees itself and the sink */
    {1, 2, 2, 2, 16, 16, 0, false},     /* one head a key head */
    {2, 63, 4, 4, 24, 16, 0, false},    /* MLA of the tiny model; one short of a block */
    {2, 64, 4, 2, 64, 64, 0, false},    /* a block */
    {1, 65, 4, 2, 64, 64, 0, true},     /* one more */
    {2, 70, 7, 1, 8, 8, 0, true},       /* seven heads share a key head */
    {1, 130, 14, 2, 33, 17, 0, false},  /* nothing is a multiple of anything */
    {1, 200, 2, 1, 192, 128, 0, false}, /* MLA of DeepSeek-V3 */
    {1, 90, 2, 2, 256, 256, 0, false},  /* the largest head */
    {1, 100, 2, 1, 16, 16, 1, false},   /* a token sees itself alone */
    {1, 100, 2, 1, 16, 16, 1, true},
    {2, 150, 4, 2, 20, 12, 2, false},
    {1, 300, 2, 2, 16, 24, 64, true}, /* a window of one block */
    {1, 300, 2, 1, 16, 16, 65, false},
    {1, 140, 2, 1, 16, 16, 140, false}, /* as long as the sequence */
    {1, 140, 2, 1, 16, 16, 900, true},  /* longer */
    {1, 257, 2, 1, 8, 8, 0, false},     /* a span and one */
    {1, 700, 2, 1, 8, 8, 0, true},      /* three spans, the last cut */
    {1, 700, 2, 1, 8, 4, 300, false},   /* the window ends within a span */
    {2, 513, 2, 2, 4, 4, 128, true},
    {1, 2200, 1, 1, 2, 2, 0, false}, /* longer spans */
    {1, 2300, 1, 1, 2, 2, 700, true},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* Small shapes with all that matters: differences take S runs a tensor. */
static const shape small_shapes[] = {
    {1, 1, 1, 1, 3, 2, 0, false}, {2, 5, 2, 1, 3, 4, 0, false}, {1, 9, 4, 2, 4, 3, 0, true},
    {1, 8, 2, 2, 3, 3, 3, true},  {1, 6, 3, 1, 2, 2, 1, true},  {1, 6, 7, 1, 2, 2, 20, false},
};

static void put_forward(test_case *c, const shape *p, number type)
{
    int64_t t = p->b * p->s, dims[] = {p->b, p->s, p->n, p->g, p->d, p->dv, p->window};
    case_init(c, OP_ATTN, type, dims, 7);
    c->o.real[0] = 4 / sqrt((double)p->d); /* weights that differ */
    case_reals(c, &c->in[0], t * p->n * p->d);
    case_reals(c, &c->in[1], t * p->g * p->d);
    case_reals(c, &c->in[2], t * p->g * p->dv);
    if (p->sinks) case_reals(c, &c->in[3], p->n);
    case_reals(c, &c->out[0], t * p->n * p->dv);
    case_reals(c, &c->out[1], t * p->n);
}

static void copy_start(tensor *to, const void *from)
{
    memcpy(to->start, from, tensor_bytes(to));
}

/* The gradient of a forward case that has run: its inputs and outputs, and a random do. */
static void put_gradient(test_case *c, const test_case *f, const shape *p)
{
    case_init(c, OP_ATTN_D, f->real, f->o.dim, 7);
    c->o.real[0] = f->o.real[0];
    case_reals(c, &c->in[0], f->out[0].n);
    for (int i = 0; i < 3; i++) {
        case_reals(c, &c->in[1 + i], f->in[i].n);
        copy_start(&c->in[1 + i], f->in[i].start);
        case_reals(c, &c->out[i], f->in[i].n);
    }
    for (int i = 0; i < 2; i++) {
        case_reals(c, &c->in[4 + i], f->out[i].n);
        copy_start(&c->in[4 + i], f->out[i].data);
    }
    if (!p->sinks) return;
    case_reals(c, &c->in[6], p->n);
    copy_start(&c->in[6], f->in[3].start);
    case_reals(c, &c->out[3], p->n);
}

static const char *name_of(const shape *p)
{
    static char text[160];
    snprintf(text, sizeof text, "B%d S%d N%d G%d D%d DV%d window %d%s", (int)p->b, (int)p->s,
             (int)p->n, (int)p->g, (int)p->d, (int)p->dv, (int)p->window, p->sinks ? " sinks" : "");
    return text;
}

static void fast_equals_plain(void **state)
{
    (void)state;
    kernel_rows plain = plain_attention(), fast = fast_attention();
    for (int i = 0; i < N_SHAPES; i++) {
        test_case f, g;
        put_forward(&f, &shapes[i], F32);
        double e = case_error(&f, row_of(plain, OP_ATTN)->run, row_of(fast, OP_ATTN)->run);
        if (!(e <= 1e-5)) fail_msg("%s: forward %g apart", name_of(&shapes[i]), e);
        put_gradient(&g, &f, &shapes[i]);
        e = case_error(&g, row_of(plain, OP_ATTN_D)->run, row_of(fast, OP_ATTN_D)->run);
        if (!(e <= 1e-5)) fail_msg("%s: gradient %g apart", name_of(&shapes[i]), e);
        case_release(&g);
        case_release(&f);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    kernel_rows fast = fast_attention();
    for (int i = 0; i < N_SHAPES; i++) {
        test_case f, g;
        put_forward(&f, &shapes[i], F32);
        assert_true(case_threads_agree(&f, row_of(fast, OP_ATTN)->run));
        put_gradient(&g, &f, &shapes[i]);
        assert_true(case_threads_agree(&g, row_of(fast, OP_ATTN_D)->run));
        case_release(&g);
        case_release(&f);
    }
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    kernel_run forward = row_of(plain_attention_double(), OP_ATTN)->run;
    for (size_t i = 0; i < sizeof small_shapes / sizeof small_shapes[0]; i++) {
        const shape *p = &small_shapes[i];
        test_case f, g;
        put_forward(&f, p, F64);
        case_weights(&f, &f.out[0]);
        case_run(&f, forward);
        put_gradient(&g, &f, p);
        copy_start(&g.in[0], f.out[0].weight);
        if (p->sinks) memset(g.out[3].start, 0, tensor_bytes(&g.out[3])); /* += */
        case_run(&g, row_of(plain_attention_double(), OP_ATTN_D)->run);
        for (int k = 0; k < (p->sinks ? 4 : 3); k++) {
            double e = case_gradient_error(&f, forward, &f.in[k], g.out[k].data);
            if (!(e <= 1e-6)) fail_msg("%s: gradient %d is %g off", name_of(p), k, e);
        }
        case_release(&g);
        case_release(&f);
    }
}

/* ---- against numbers worked out by hand */

static void two_tokens_by_hand(void **state)
{
    (void)state;
    float q[] = {1, 2}, k[] = {0.5f, -1}, v[] = {3, 5}, sinks[] = {0.25f}, o[2], lse[2];
    void *in[] = {q, k, v, sinks}, *out[] = {o, lse};
    op what = {.kind = OP_ATTN, .dim = {1, 2, 1, 1, 1, 1, 0}, .real = {0.5}};
    kernel_rows rows[] = {plain_attention(), fast_attention()};
    for (int i = 0; i < 2; i++) {
        row_of(rows[i], OP_ATTN)->run(&what, in, out);
        double z = exp(0.25) + exp(0.25); /* token 0: sink and score 1 * 0.5 / 2 */
        assert_near(o[0], 3 * exp(0.25) / z, 1e-6);
        assert_near(lse[0], log(z), 1e-6);
        z = exp(0.25) + exp(0.5) + exp(-1); /* token 1: scores 2 * 0.5 / 2 and -2 / 2 */
        assert_near(o[1], (3 * exp(0.5) + 5 * exp(-1)) / z, 1e-6);
        assert_near(lse[1], log(z), 1e-6);
    }
}

/* Scores of thousands must not overflow, and what is not a number must be seen, not hidden. */
static void extreme_scores(void **state)
{
    (void)state;
    enum { S = 80 };
    float q[S], k[S], v[S], o[S], lse[S];
    void *in[] = {q, k, v, NULL}, *out[] = {o, lse};
    op what = {.kind = OP_ATTN, .dim = {1, S, 1, 1, 1, 1, 0}, .real = {1}};
    for (int i = 0; i < S; i++) q[i] = 100, k[i] = (float)(i % 2 ? i : -i), v[i] = (float)i;
    row_of(fast_attention(), OP_ATTN)->run(&what, in, out);
    for (int i = 1; i < S; i++) assert_near(o[i], i % 2 ? i : i - 1, 1e-4);
    k[70] = NAN;
    row_of(fast_attention(), OP_ATTN)->run(&what, in, out);
    assert_near(o[69], 69, 1e-4);
    assert_true(isnan(o[70]) && isnan(o[79]) && isnan(lse[70]));
}

/* ---- what lies below, for each instruction set */

enum { N_MAX = 100 };

static float noise(int i)
{
    return (float)((i * 7919 + 13) % 1009) / 500 - 1;
}

static void check_gemm(const lanes *use, int m, int n, int k, bool turned, bool add)
{
    static float a[N_MAX * N_MAX], b[N_MAX * 112], c[N_MAX * N_MAX];
    const int b_row = (int)lanes_round(n), c_row = n + 1;
    for (int i = 0; i < m * k; i++) a[i] = noise(i);
    for (int i = 0; i < k * b_row; i++) b[i] = noise(i + 5);
    for (int i = 0; i < m * c_row; i++) c[i] = noise(i + 9);
    use->gemm(&(gemm){m, n, k, a, turned ? 1 : k, turned ? m : 1, b, b_row, c, c_row, add});
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            double sum = add ? (double)noise(i * c_row + j + 9) : 0;
            for (int l = 0; l < k; l++)
                sum += (double)a[turned ? l * m + i : i * k + l] * (double)b[l * b_row + j];
            assert_near(c[i * c_row + j], sum, 1e-5);
        }
        assert_near(c[i * c_row + n], noise(i * c_row + n + 9), 0); /* not ours */
    }
}

static void gemms_of_any_size(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 33, 64, 65, 96};
    enum { N = sizeof sizes / sizeof sizes[0] };
    for (int s = 0; lanes_nth(s); s++)
        for (int i = 0; i < N * N; i++)
            check_gemm(lanes_nth(s), sizes[i % N], sizes[i / N], sizes[(3 * i + 5) % N], i % 2 > 0,
                       i % 3 > 0);
}

static void exponentials_are_exact(void **state)
{
    (void)state;
    static float x[20001], y[20001], dy[20001];
    for (int i = 0; i <= 20000; i++) x[i] = (float)(i - 10000) / 120, dy[i] = 1;
    for (int s = 0; lanes_nth(s); s++) {
        lanes_nth(s)->exp(y, x, 20001);
        for (int i = 0; i <= 20000; i++) assert_near((double)y[i] / exp((double)x[i]), 1, 1e-5);
        lanes_nth(s)->silu(y, x, 20001);
        for (int i = 0; i <= 20000; i++)
            assert_near(y[i], (double)x[i] / (1 + exp(-(double)x[i])), 2e-5);
        lanes_nth(s)->silu_d(y, dy, x, 20001);
        for (int i = 0; i <= 20000; i++) {
            double at = (double)x[i], g = 1 / (1 + exp(-at));
            assert_near(y[i], g * (1 + at * (1 - g)), 1e-6);
        }
        float odd[] = {NAN, -INFINITY, INFINITY, -1000, 1000, 0, -200}, out[7];
        lanes_nth(s)->exp(out, odd, 7);
        assert_true(isnan(out[0]) && out[1] == 0 && isinf(out[2]) && out[3] == 0 && isinf(out[4]));
        assert_true(out[5] == 1 && out[6] == 0);
    }
}

enum { KEYS = 9, N_SCORES = KEYS * LANES_BLOCK };

/* Scores below the largest so far, above it, and hidden ones. */
static void blocks_of_scores(void **state)
{
    (void)state;
    for (int set = 0; lanes_nth(set); set++) {
        float s[N_SCORES], top[LANES_BLOCK], sum[LANES_BLOCK], shrink[LANES_BLOCK];
        for (int i = 0; i < N_SCORES; i++) s[i] = i % 11 ? 20 * noise(i) : -INFINITY;
        for (int i = 0; i < LANES_BLOCK; i++) top[i] = i % 3 ? 5 * noise(i) : -1e30f, sum[i] = 2;
        lanes_nth(set)->weigh(&(score_block){KEYS, s, top, sum, shrink, NULL, NULL, NULL});
        for (int i = 0; i < LANES_BLOCK; i++) {
            double old = i % 3 ? 5 * (double)noise(i) : -1e30, most = old;
            for (int at = i; at < N_SCORES; at += LANES_BLOCK)
                if (at % 11) most = fmax(most, 20 * (double)noise(at));
            double total = 2 * exp2(old - most);
            for (int at = i; at < N_SCORES; at += LANES_BLOCK) {
                double w = at % 11 ? exp2(20 * (double)noise(at) - most) : 0;
                assert_near(s[at], w, 1e-5);
                total += w;
            }
            assert_near(top[i], most, 1e-5);
            assert_near(shrink[i], exp2(old - most), 1e-5);
            assert_near(sum[i], total, 1e-4);
        }
    }
}

static void gradients_of_scores(void **state)
{
    (void)state;
    for (int set = 0; lanes_nth(set); set++) {
        float s[N_SCORES], ds[N_SCORES], lse[LANES_BLOCK], delta[LANES_BLOCK];
        for (int i = 0; i < N_SCORES; i++)
            s[i] = i % 11 ? 3 * noise(i) : -INFINITY, ds[i] = noise(i + 3);
        for (int i = 0; i < LANES_BLOCK; i++) lse[i] = 2 + noise(i), delta[i] = noise(i + 77);
        lanes_nth(set)->weigh_d(&(score_block){KEYS, s, NULL, NULL, NULL, ds, lse, delta});
        for (int at = 0; at < N_SCORES; at++) {
            int i = at % LANES_BLOCK;
            double w = at % 11 ? exp2(3 * (double)noise(at) - (double)lse[i]) : 0;
            assert_near(s[at], w, 1e-5);
            assert_near(ds[at], w * ((double)noise(at + 3) - (double)delta[i]), 1e-5);
        }
    }
}

static void rows_and_columns(void **state)
{
    (void)state;
    for (int set = 0; lanes_nth(set); set++) {
        float x[N_SCORES], y[N_SCORES], by[LANES_BLOCK];
        for (int i = 0; i < N_SCORES; i++) x[i] = noise(i), y[i] = noise(i + 4);
        for (int i = 0; i < LANES_BLOCK; i++) by[i] = noise(i + 8);
        for (int n = 0; n < 70; n++) {
            double sum = 0;
            for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
            assert_near(lanes_nth(set)->dot(x, y, n), sum, 1e-5);
        }
        lanes_nth(set)->scale_columns(x, KEYS, by);
        lanes_nth(set)->add_scaled(y, x, 0.5f, 47);
        for (int i = 0; i < N_SCORES; i++) {
            double scaled = (double)noise(i) * (double)noise(i % LANES_BLOCK + 8);
            assert_near(x[i], scaled, 1e-6);
            assert_near(y[i], (double)noise(i + 4) + (i < 47 ? 0.5 * scaled : 0), 1e-6);
        }
    }
}

static void turning_round(void **state)
{
    (void)state;
    enum { WIDE = 24 };
    for (int i = 0; i < 20 * 20 * 2; i++) {
        int rows = 1 + i % 20, cols = 1 + i / 20 % 20, add = i / 400;
        float x[20 * WIDE], y[20 * WIDE];
        for (int k = 0; k < 20 * WIDE; k++) x[k] = noise(k), y[k] = noise(k + 3);
        lanes_transpose(&(transposition){x, rows, cols, WIDE, y, WIDE, rows + 2, 3, add});
        for (int c = 0; c < 20; c++)
            for (int r = 0; r < WIDE; r++) {
                double old = (double)noise(c * WIDE + r + 3);
                double turned = 3 * (double)noise(r * WIDE + c) + (add ? old : 0);
                double want = c >= cols ? old : r < rows ? turned : r < rows + 2 ? 0 : old;
                assert_near(y[c * WIDE + r], want, 1e-5);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemms_of_any_size),
        cmocka_unit_test(exponentials_are_exact),
        cmocka_unit_test(blocks_of_scores),
        cmocka_unit_test(gradients_of_scores),
        cmocka_unit_test(rows_and_columns),
        cmocka_unit_test(turning_round),
        cmocka_unit_test(two_tokens_by_hand),
        cmocka_unit_test(extreme_scores),
        cmocka_unit_test(fast_equals_plain),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(gradients_equal_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
