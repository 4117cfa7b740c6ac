/* test_gdn.c - the gated delta net: rows agree, chunks equal the recurrence, threads change
 * nothing, gradients are right. */
#include <math.h>
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
kernel_rows plain_gdn_double(void);
#define REAL_DOUBLE
#define plain_gdn              plain_gdn_double
#define plain_gdn_rule         plain_gdn_rule_double
#define plain_gdn_rule_d       plain_gdn_rule_d_double
#define plain_gdn_rule_accepts plain_gdn_rule_accepts_double
#include "backend/cpu/kernels/plain_gdn.c"
#include "backend/cpu/kernels/plain_gdn_rule.c"
#undef plain_gdn

/* ---- shapes */

/* Tensors of a kind as counts of numbers, and where its gradient comes from. */
typedef struct sizes {
    op_kind kind;
    int64_t dim[7];
    unsigned flags;
} sizes;

enum { TENSORS_MAX = 6 };

typedef struct tensors {
    int64_t in[TENSORS_MAX], out[TENSORS_MAX]; /* 0: no more */
} tensors;

static tensors rule_tensors(const int64_t *d, bool gradient)
{
    const int64_t t = d[0] * d[1], row = 2 * d[2] * d[4] + d[3] * d[5];
    const int64_t states = d[0] * ((d[1] + d[6] - 1) / d[6]) * d[3] * d[4] * d[5];
    if (!gradient) return (tensors){{t * row, t * d[3], t * d[3]}, {t * d[3] * d[5], states}};
    return (tensors){{t * d[3] * d[5], t * row, t * d[3], t * d[3], states},
                     {t * row, t * d[3], t * d[3]}};
}

static tensors tensors_of(const sizes *z)
{
    const int64_t *d = z->dim, n = d[0] * d[1], in = d[0] * (d[1] + d[2] + 2 * d[3]);
    const int64_t x = d[0] * d[1] * d[2], w = d[2] * d[3];
    switch ((int)z->kind) {
    case OP_GDN_SPLIT:
        return (tensors){{in}, {n, d[0] * d[2], d[0] * d[3], d[0] * d[3]}};
    case OP_GDN_JOIN:
        return (tensors){{n, d[0] * d[2], d[0] * d[3], d[0] * d[3]}, {in}};
    case OP_CONV:
        return (tensors){{x, w}, {x}};
    case OP_CONV_D:
        return (tensors){{x, x, w}, {x}};
    case OP_CONV_W:
        return (tensors){{x, x, w}, {w}};
    case OP_GDN_GATES:
        return (tensors){{n, n, d[1], d[1]}, {n, n}};
    case OP_GDN_GATES_D:
        return (tensors){{n, n, n, n, d[1], d[1]}, {n, n}};
    case OP_GDN_GATES_W:
        return (tensors){{n, n, d[1], d[1]}, {d[1], d[1]}};
    case OP_GATED_NORM:
        return (tensors){{n, n, d[1]}, {n, d[0]}};
    case OP_GATED_NORM_D:
        return (tensors){{n, n, n, d[1], d[0]}, {n, n}};
    case OP_GATED_NORM_W:
        return (tensors){{n, n, n, d[0]}, {d[1]}};
    default:
        return rule_tensors(d, z->kind == OP_GDN_RULE_D);
    }
}

static void put_case(test_case *c, const sizes *z, number type)
{
    const tensors t = tensors_of(z);
    case_init(c, z->kind, type, z->dim, 7);
    c->o.flags = z->flags;
    for (int i = 0; i < TENSORS_MAX; i++) {
        if (t.in[i]) case_reals(c, &c->in[i], t.in[i]);
        if (t.out[i]) case_reals(c, &c->out[i], t.out[i]);
    }
}

static void scale_start(tensor *t, double by, double plus)
{
    for (int64_t i = 0; i < t->n; i++) put(t, i, get(t, t->start, i) * by + plus);
}

/* beta in 0 .. 1, g in -strength .. 0, states small: what a model has. */
static void tame_rule(test_case *c, double strength)
{
    const int first = c->o.kind == OP_GDN_RULE_D ? 1 : 0;
    scale_start(&c->in[first + 1], 0.5, 0.5);
    scale_start(&c->in[first + 2], strength / 2, -strength / 2);
}

static void copy_start(tensor *to, const void *from)
{
    memcpy(to->start, from, tensor_bytes(to));
}

static const char *name_of(const sizes *z)
{
    static char text[200];
    int at = snprintf(text, sizeof text, "kind %d:", (int)z->kind);
    for (int i = 0; i < 7; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %d", (int)z->dim[i]);
    return text;
}

static bool is_rule(const sizes *z)
{
    return z->kind == OP_GDN_RULE || z->kind == OP_GDN_RULE_D;
}

/* ---- fast rows against row 0 */

static const sizes around_the_rule[] = {
    {OP_GDN_SPLIT, {5, 12, 6, 2}, 0},
    {OP_GDN_SPLIT, {1, 1, 1, 1}, 0},
    {OP_GDN_JOIN, {5, 12, 6, 2}, 0},
    {OP_CONV, {1, 1, 1, 4}, 0},
    {OP_CONV, {2, 3, 5, 4}, 0}, /* shorter than the taps */
    {OP_CONV, {2, 130, 70, 4}, 0},
    {OP_CONV, {1, 257, 33, 8}, 0},
    {OP_CONV, {3, 9, 64, 1}, 0},
    {OP_CONV_D, {1, 1, 1, 4}, 0},
    {OP_CONV_D, {2, 3, 5, 4}, 0},
    {OP_CONV_D, {2, 130, 70, 4}, 0},
    {OP_CONV_D, {1, 257, 33, 8}, 0},
    {OP_CONV_D, {3, 9, 64, 1}, 0},
    {OP_CONV_W, {1, 1, 1, 4}, 0},
    {OP_CONV_W, {2, 3, 5, 4}, 0},
    {OP_CONV_W, {2, 130, 70, 4}, 0},
    {OP_CONV_W, {1, 257, 33, 8}, 0},
    {OP_GDN_GATES, {7, 3}, 0},
    {OP_GDN_GATES_D, {7, 3}, 0},
    {OP_GDN_GATES_W, {70, 3}, 0},
    {OP_GATED_NORM, {1, 1}, 0},
    {OP_GATED_NORM, {9, 33}, ZERO_CENTRED},
    {OP_GATED_NORM, {40, 128}, 0},
    {OP_GATED_NORM_D, {1, 3}, 0},
    {OP_GATED_NORM_D, {9, 33}, ZERO_CENTRED},
    {OP_GATED_NORM_D, {40, 128}, 0},
    {OP_GATED_NORM_W, {1, 1}, 0},
    {OP_GATED_NORM_W, {9, 33}, 0},
    {OP_GATED_NORM_W, {100, 300}, 0},
};

/* B S Nk Nv Dk Dv CHUNK */
static const sizes rules[] = {
    {OP_GDN_RULE, {1, 1, 1, 1, 1, 1, 64}, 0},       {OP_GDN_RULE, {2, 5, 1, 2, 3, 4, 64}, 0},
    {OP_GDN_RULE, {1, 64, 2, 2, 16, 16, 64}, 0},    /* a chunk */
    {OP_GDN_RULE, {1, 65, 1, 1, 16, 16, 64}, 0},    /* and a token */
    {OP_GDN_RULE, {2, 100, 2, 4, 17, 33, 64}, 0},   /* nothing even */
    {OP_GDN_RULE, {1, 200, 1, 3, 24, 8, 64}, 0},    /* three value heads a key head */
    {OP_GDN_RULE, {1, 150, 1, 2, 128, 128, 64}, 0}, /* Qwen3-Next's heads */
    {OP_GDN_RULE, {1, 50, 1, 2, 8, 8, 16}, 0},      /* other chunks */
    {OP_GDN_RULE, {1, 50, 1, 1, 8, 8, 7}, 0},       {OP_GDN_RULE, {1, 20, 1, 1, 4, 4, 1}, 0},
};

enum {
    N_AROUND = sizeof around_the_rule / sizeof around_the_rule[0],
    N_RULES = sizeof rules / sizeof rules[0],
};

static void fast_equals_plain(void **state)
{
    (void)state;
    for (int i = 0; i < N_AROUND; i++) {
        const sizes *z = &around_the_rule[i];
        test_case c;
        put_case(&c, z, F32);
        double e =
            case_error(&c, row_of(plain_gdn(), z->kind)->run, row_of(fast_gdn(), z->kind)->run);
        if (!(e <= 1e-5)) fail_msg("%s: %g apart", name_of(z), e);
        assert_true(case_threads_agree(&c, row_of(fast_gdn(), z->kind)->run));
        case_release(&c);
    }
}

/* A gradient case of the rule from a forward case that has run. */
static void put_rule_gradient(test_case *g, const test_case *f, const sizes *z)
{
    sizes of = *z;
    of.kind = OP_GDN_RULE_D;
    put_case(g, &of, f->real);
    for (int i = 0; i < 3; i++) copy_start(&g->in[1 + i], f->in[i].start);
    copy_start(&g->in[4], f->out[1].data);
}

static void chunks_equal_recurrence(void **state)
{
    (void)state;
    static const double strengths[] = {0.05, 1, 30}; /* hardly fading, fading, gone at once */
    for (int i = 0; i < 3 * N_RULES; i++) {
        const sizes *z = &rules[i / 3];
        test_case f, g;
        put_case(&f, z, F32);
        tame_rule(&f, strengths[i % 3]);
        double e = case_error(&f, row_of(plain_gdn(), OP_GDN_RULE)->run,
                              row_of(fast_gdn(), OP_GDN_RULE)->run);
        if (!(e <= 1e-5)) fail_msg("%s: forward %g apart", name_of(z), e);
        assert_true(case_threads_agree(&f, row_of(fast_gdn(), OP_GDN_RULE)->run));
        case_run(&f, row_of(plain_gdn(), OP_GDN_RULE)->run);
        put_rule_gradient(&g, &f, z);
        e = case_error(&g, row_of(plain_gdn(), OP_GDN_RULE_D)->run,
                       row_of(fast_gdn(), OP_GDN_RULE_D)->run);
        if (!(e <= 1e-5)) fail_msg("%s: gradient %g apart", name_of(z), e);
        assert_true(case_threads_agree(&g, row_of(fast_gdn(), OP_GDN_RULE_D)->run));
        case_release(&g);
        case_release(&f);
    }
}

/* States are what a shorter sequence would have ended with; without a place for them nothing else
 * changes. */
static void states_are_optional(void **state)
{
    (void)state;
    kernel_rows rows[] = {plain_gdn(), fast_gdn()};
    for (int i = 0; i < 2; i++) {
        test_case c;
        put_case(&c, &rules[4], F32);
        tame_rule(&c, 1);
        case_run(&c, row_of(rows[i], OP_GDN_RULE)->run);
        void *in[] = {c.in[0].data, c.in[1].data, c.in[2].data};
        float *o = calloc((size_t)c.out[0].n, sizeof *o);
        void *out[] = {o, NULL};
        row_of(rows[i], OP_GDN_RULE)->run(&c.o, in, out);
        assert_memory_equal(o, c.out[0].data, tensor_bytes(&c.out[0]));
        free(o);
        case_release(&c);
    }
}

/* ---- gradients in double against central differences */

/* One check: output `out` of kind `of` is the gradient by input `by` of `z`; `from` says where each
 * of its inputs comes from: an input of the forward (i0 is 0), an output (10 and up), the gradient
 * that flows into an output (20 and up). */
typedef struct gradient_of {
    sizes z;
    op_kind of;
    int from[OP_IN_MAX]; /* -1: no more */
    int by[4];           /* of outputs 0, 1, ...; -1: no more */
} gradient_of;

enum { OUT = 10, FLOW = 20, END = -1 };

#define CONV_SIZES  2, 6, 3, 4
#define GATES_SIZES 5, 3
#define NORM_SIZES  4, 5

static const gradient_of gradients[] = {
    {{OP_GDN_SPLIT, {3, 4, 2, 2}, 0},
     OP_GDN_JOIN,
     {FLOW, FLOW + 1, FLOW + 2, FLOW + 3, END},
     {0, END}},
    {{OP_GDN_JOIN, {3, 4, 2, 2}, 0}, OP_GDN_SPLIT, {FLOW, END}, {0, 1, 2, 3}},
    {{OP_CONV, {CONV_SIZES}, 0}, OP_CONV_D, {FLOW, 0, 1, END}, {0, END}},
    {{OP_CONV, {CONV_SIZES}, 0}, OP_CONV_W, {FLOW, 0, 1, END}, {1, END}},
    {{OP_GDN_GATES, {GATES_SIZES}, 0},
     OP_GDN_GATES_D,
     {FLOW, FLOW + 1, 0, 1, 2, 3, END},
     {0, 1, END}},
    {{OP_GDN_GATES, {GATES_SIZES}, 0}, OP_GDN_GATES_W, {FLOW + 1, 1, 2, 3, END}, {2, 3, END}},
    {{OP_GATED_NORM, {NORM_SIZES}, 0}, OP_GATED_NORM_D, {FLOW, 0, 1, 2, OUT + 1, END}, {0, 1, END}},
    {{OP_GATED_NORM, {NORM_SIZES}, 0}, OP_GATED_NORM_W, {FLOW, 0, 1, OUT + 1, END}, {2, END}},
    {{OP_GATED_NORM, {NORM_SIZES}, ZERO_CENTRED},
     OP_GATED_NORM_D,
     {FLOW, 0, 1, 2, OUT + 1, END},
     {0, 1, END}},
    {{OP_GATED_NORM, {NORM_SIZES}, ZERO_CENTRED},
     OP_GATED_NORM_W,
     {FLOW, 0, 1, OUT + 1, END},
     {2, END}},
    {{OP_GDN_RULE, {2, 5, 1, 2, 3, 2, 64}, 0},
     OP_GDN_RULE_D,
     {FLOW, 0, 1, 2, OUT + 1, END},
     {0, 1, 2, END}},
    {{OP_GDN_RULE, {1, 9, 1, 1, 2, 3, 4}, 0},
     OP_GDN_RULE_D,
     {FLOW, 0, 1, 2, OUT + 1, END},
     {0, 1, 2, END}},
    {{OP_GDN_RULE, {1, 40, 1, 1, 2, 2, 64}, 0},
     OP_GDN_RULE_D,
     {FLOW, 0, 1, 2, OUT + 1, END},
     {0, 1, 2, END}},
};

static bool flows(const gradient_of *g, int out)
{
    for (int i = 0; g->from[i] != END; i++)
        if (g->from[i] == FLOW + out) return true;
    return false;
}

static void put_gradient(test_case *c, const test_case *f, const gradient_of *g)
{
    sizes z = g->z;
    z.kind = g->of;
    put_case(c, &z, F64);
    for (int i = 0; g->from[i] != END; i++) {
        const int from = g->from[i];
        copy_start(&c->in[i], from >= FLOW  ? (const void *)f->out[from - FLOW].weight
                              : from >= OUT ? f->out[from - OUT].data
                                            : f->in[from].start);
    }
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (c->out[i].start) memset(c->out[i].start, 0, tensor_bytes(&c->out[i])); /* += */
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        const gradient_of *g = &gradients[i];
        kernel_run forward = row_of(plain_gdn_double(), g->z.kind)->run;
        test_case f, c;
        put_case(&f, &g->z, F64);
        if (is_rule(&g->z)) tame_rule(&f, 1);
        for (int k = 0; k < OP_OUT_MAX; k++)
            if (f.out[k].start && flows(g, k)) case_weights(&f, &f.out[k]);
        case_run(&f, forward);
        put_gradient(&c, &f, g);
        case_run(&c, row_of(plain_gdn_double(), g->of)->run);
        for (int k = 0; k < 4 && g->by[k] != END; k++) {
            double e = case_gradient_error(&f, forward, &f.in[g->by[k]], c.out[k].data);
            if (!(e <= 1e-6)) fail_msg("%s: gradient %d is %g off", name_of(&g->z), k, e);
        }
        case_release(&c);
        case_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_equals_plain),
        cmocka_unit_test(chunks_equal_recurrence),
        cmocka_unit_test(states_are_optional),
        cmocka_unit_test(gradients_equal_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
