/* test_dense.c - the dense kinds: rows agree, threads change nothing, gradients are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/blas.h"
#include "backend/cpu/kernels/rows.h"
#include "kernels/harness.c"

/* Row 0 once more, for double: real.h. */
kernel_rows plain_dense_float(void);
kernel_rows plain_dense_float(void)
{
    return plain_dense();
}
#define REAL_DOUBLE
#include "backend/cpu/kernels/plain_dense.c"
#include "backend/cpu/kernels/plain_dense_heads.c"
#include "backend/cpu/kernels/plain_dense_loss.c"
#include "backend/cpu/kernels/plain_dense_maps.c"

/* ---- shapes and sizes */

/* One operation to try. `without` names tensors that are missing ("i1 o3"), `in_place` is the input
 * whose buffer output 0 is, plus 1. */
typedef struct sizes {
    op_kind kind;
    int64_t dim[7];
    unsigned flags;
    const char *without;
    int in_place;
} sizes;

static const sizes tries[] = {
    {OP_GEMM, {1, 1, 1}, 0, "", 0},
    {OP_GEMM, {3, 5, 7}, ACCUMULATE, "", 0},
    {OP_GEMM, {129, 65, 33}, 0, "", 0},
    {OP_GEMM, {300, 270, 513}, ACCUMULATE, "", 0},
    {OP_GEMM, {1030, 17, 96}, 0, "", 0},
    {OP_GEMM, {600, 530, 400}, 0, "", 0},
    {OP_GEMM, {0, 5, 7}, 0, "", 0},
    {OP_GEMM_D, {1, 1, 1}, 0, "", 0},
    {OP_GEMM_D, {131, 67, 35}, ACCUMULATE, "", 0},
    {OP_GEMM_D, {290, 513, 301}, 0, "", 0},
    {OP_GEMM_W, {1, 1, 1}, 0, "", 0},
    {OP_GEMM_W, {131, 67, 35}, 0, "", 0},
    {OP_GEMM_W, {513, 301, 290}, 0, "", 0},
    {OP_GEMM_W, {0, 3, 4}, 0, "", 0},
    {OP_BIAS, {7, 33}, 0, "", 0},
    {OP_BIAS, {501, 129}, 0, "", 0},
    {OP_BIAS_W, {1, 1}, 0, "", 0},
    {OP_BIAS_W, {67, 1031}, 0, "", 0},
    {OP_BIAS_W, {3001, 13}, 0, "", 0},
    {OP_EMBED, {37, 19, 11}, 0, "", 0},
    {OP_EMBED, {257, 130, 300}, 0, "", 0},
    {OP_EMBED, {257, 130, 20, 7}, 0, "", 0},
    {OP_EMBED_W, {37, 19, 11}, 0, "", 0},
    {OP_EMBED_W, {257, 130, 30}, 0, "", 0},
    {OP_EMBED_W, {257, 130, 30, 7}, 0, "", 0},
    {OP_NORM, {1, 1}, 0, "", 0},
    {OP_NORM, {67, 33}, ZERO_CENTRED, "", 0},
    {OP_NORM, {130, 515}, 0, "o1", 0},
    {OP_NORM_D, {67, 33}, ZERO_CENTRED, "", 0},
    {OP_NORM_D, {130, 515}, ACCUMULATE, "", 0},
    {OP_NORM_W, {67, 33}, 0, "", 0},
    {OP_NORM_W, {2050, 64}, 0, "", 0},
    {OP_NORM_W, {67, 1031}, 0, "", 0},
    {OP_ADD, {1}, 0, "", 0},
    {OP_ADD, {70001}, 0, "", 0},
    {OP_ADD, {70001}, 0, "", 1},
    {OP_ADD, {70001}, 0, "", 2},
    {OP_COPY, {70001}, 0, "", 0},
    {OP_CAST, {70001}, 0, "", 0},
    {OP_COPY_OUT, {70001}, 0, "", 0},
    {OP_COPY_IN, {513}, 0, "", 0},
    {OP_ZERO, {70001}, 0, "", 0},
    {OP_GATE, {67, 33, 33}, 0, "", 0},
    {OP_GATE, {67, 515, 1}, 0, "", 0},
    {OP_GATE_D, {67, 33, 33}, 0, "", 0},
    {OP_GATE_D, {671, 33, 33}, 0, "", 1},
    {OP_GATE_D, {67, 515, 1}, 0, "", 1},
    {OP_GATE_D, {67, 515, 1}, 0, "o1", 0},
    {OP_GATE_D, {67, 33, 33}, 0, "o0", 0},
    {OP_ACT, {67, 33}, 0, "", 0},
    {OP_ACT, {130, 257}, CLAMPED, "i1", 0},
    {OP_ACT_D, {67, 33}, 0, "", 0},
    {OP_ACT_D, {67, 33}, 0, "i2 o1", 0},
    {OP_ACT_D, {130, 257}, CLAMPED, "", 0},
    {OP_QKV_SPLIT, {37, 6, 2, 5}, 0, "", 0},
    {OP_QKV_SPLIT, {301, 8, 4, 64}, 0, "o3", 0},
    {OP_QKV_JOIN, {37, 6, 2, 5}, 0, "", 0},
    {OP_QKV_JOIN, {301, 8, 4, 64}, 0, "i3", 0},
    {OP_ROPE, {34, 17, 3, 10, 0, 10}, 0, "", 0},
    {OP_ROPE, {300, 100, 4, 64, 16, 34}, INTERLEAVED, "", 0},
    {OP_ROPE_D, {34, 17, 3, 10, 2, 6}, INTERLEAVED, "", 0},
    {OP_ROPE_D, {300, 100, 4, 64, 16, 34}, 0, "", 0},
    {OP_MLA_KV_SPLIT, {301, 33, 9}, 0, "", 0},
    {OP_MLA_KV_MERGE, {301, 33, 9}, 0, "", 0},
    {OP_MLA_KV_JOIN, {301, 3, 16, 7, 9}, 0, "", 0},
    {OP_MLA_KV_JOIN_D, {301, 3, 16, 7, 9}, 0, "", 0},
    {OP_HEAD_LOSS, {1, 3, 2, 1}, 0, "", 0},
    {OP_HEAD_LOSS, {37, 19, 71, 8}, 0, "", 0},
    {OP_HEAD_LOSS, {37, 19, 71, 100}, 0, "i3", 0},
    {OP_HEAD_LOSS, {131, 65, 3001, 50}, 0, "", 0},
    {OP_HEAD_LOSS, {131, 65, 301, 50}, 0, "o1 o2", 0},
    {OP_HEAD_LOSS, {31, 65, 301, 50}, 0, "o2", 0},
    {OP_HEAD_LOSS, {31, 65, 301, 50}, 0, "o1", 0},
    {OP_HEAD_PART, {1, 3, 2, 1, 0, 0}, 0, "", 0},
    {OP_HEAD_PART, {131, 65, 3001, 50, 50, 0}, 0, "", 0},
    {OP_HEAD_PART, {131, 65, 301, 50, 100, 20}, 0, "", 0}, /* the last rows are not there */
    {OP_HEAD_PART, {31, 65, 301, 50, 50, 20}, 0, "", 0},   /* none is */
    {OP_HEAD_PART_D, {1, 3, 2, 1, 0, 0, 1}, 0, "", 0},
    {OP_HEAD_PART_D, {131, 65, 3001, 50, 50, 0, 2}, 0, "", 0},
    {OP_HEAD_PART_D, {131, 65, 301, 50, 100, 20, 3}, 0, "", 0},
    {OP_HEAD_PART_D, {131, 65, 301, 50, 100, 20, 1}, 0, "i4 o2", 0},
    {OP_HEAD_PART_D, {131, 65, 301, 50, 0, 20, 2}, 0, "o3", 0},
    {OP_HEAD_PART_D, {31, 65, 301, 50, 50, 20, 2}, 0, "", 0},
    {OP_HEAD_LOGITS, {37, 19, 301}, 0, "", 0},
};
enum { N_TRIES = sizeof tries / sizeof tries[0] };

/* ---- from a row of `tries` to a case */

/* Zeros, ones and a half. */
static void mask_init(test_case *c, tensor *t, int64_t n)
{
    case_reals(c, t, n);
    for (int64_t i = 0; i < n; i++) put(t, i, i % 5 == 2 ? 0 : i % 5 == 3 ? 0.5 : 1);
}

/* Shapes are those of ops.def; ids of words are from -1 to past the last. */
static void tensors_init(test_case *c, const char *names, const char *types, int first, tensor *t)
{
    for (int i = 0; *names; i++) {
        int64_t n = op_elements(&c->o, first + i);
        if (types[i] == 'i')
            case_ids(c, &t[i], n, -1, (int)c->o.dim[DIM_EMBED_V] + 9);
        else if (strncmp(names, "mask", 4) == 0)
            mask_init(c, &t[i], n);
        else
            case_reals(c, &t[i], n);
        names += strcspn(names, " ");
        names += *names == ' ';
    }
}

/* A joint projection is shorter without its gate. */
static void mark_missing(op *o, const char *without)
{
    for (const char *p = without; *p; p += p[2] == ' ' ? 3 : 2)
        *(*p == 'i' ? &o->in[p[1] - '0'] : &o->out[p[1] - '0']) = -1;
}

/* Activations reach past the clamps, the scale of the loss is not 1, sums of exponentials are
 * positive. */
static void special_init(test_case *c)
{
    tensor *u = c->o.kind == OP_ACT ? &c->in[0] : c->o.kind == OP_ACT_D ? &c->in[1] : NULL;
    for (int64_t i = 0; u && i < u->n; i++) put(u, i, 9 * get(u, u->start, i));
    if (c->o.kind == OP_HEAD_LOSS || c->o.kind == OP_HEAD_PART_D) c->o.real[0] = 0.37;
    tensor *stats = c->o.kind == OP_HEAD_PART_D ? &c->in[0] : NULL;
    for (int64_t i = 1; stats && i < stats->n; i += 3)
        put(stats, i, 2 + get(stats, stats->start, i));
}

static void try_init(test_case *c, const sizes *s, number type)
{
    case_init(c, s->kind, type, s->dim, 7);
    c->o.flags = s->flags;
    const op_info *kind = &op_infos[s->kind];
    mark_missing(&c->o, s->without);
    tensors_init(c, kind->in, kind->types, 0, c->in);
    tensors_init(c, kind->out, strchr(kind->types, '>') + 1, OP_IN_MAX, c->out);
    special_init(c);
    for (const char *p = s->without; *p; p += p[2] == ' ' ? 3 : 2)
        tensor_release((*p == 'i' ? c->in : c->out) + (p[1] - '0'));
    if (s->in_place) case_in_place(c, 0, s->in_place - 1);
    size_t bytes = kernel_workspace_bytes(&c->o);
    kernels_workspace(take(bytes), bytes);
}

static void try_release(test_case *c)
{
    free(kernel_workspace(0));
    kernels_workspace(NULL, 0);
    case_release(c);
}

static const char *try_name(const sizes *s)
{
    static char text[128];
    snprintf(text, sizeof text, "kind %d, %d %d %d %d %d %d %d, flags %u, without '%s'",
             (int)s->kind, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2], (int)s->dim[3],
             (int)s->dim[4], (int)s->dim[5], (int)s->dim[6], s->flags, s->without);
    return text;
}

static const kernel *fast_row(const op *o)
{
    const kernel *k = row_of(fast_dense(), o->kind);
    return k && k->accepts && !k->accepts(o, &(op_types){.in = {0}}) ? NULL : k;
}

/* ---- rows */

static void pick_prefers_the_last_row_that_accepts(void **state)
{
    (void)state;
    kernel table[2] = {*row_of(plain_dense_float(), OP_NORM), *row_of(fast_dense(), OP_NORM)};
    op o = {.kind = OP_NORM, .dim = {8, 8}}, other = {.kind = OP_GEMM};
    assert_ptr_equal(kernel_pick(table, 2, &o, NULL, false), &table[1]);
    assert_ptr_equal(kernel_pick(table, 2, &o, NULL, true), &table[0]);
    assert_null(kernel_pick(table, 2, &other, NULL, false));
}

static void every_kind_is_tried(void **state)
{
    (void)state;
    kernel_rows plain = plain_dense_float();
    for (int i = 0; i < plain.n; i++) {
        bool tried = false;
        for (int j = 0; j < N_TRIES; j++) tried |= tries[j].kind == plain.rows[i].kind;
        assert_true(tried);
    }
}

static void fast_equals_plain(void **state)
{
    (void)state;
    kernels_threads(2);
    for (int i = 0; i < N_TRIES; i++) {
        test_case c;
        try_init(&c, &tries[i], F32);
        const kernel *fast = fast_row(&c.o), *plain = row_of(plain_dense_float(), c.o.kind);
        double e = fast ? case_error(&c, plain->run, fast->run) : 0;
        if (!(e < 1e-5)) fail_msg("%s: relative error %g", try_name(&tries[i]), e);
        try_release(&c);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < N_TRIES; i++) {
        test_case c;
        try_init(&c, &tries[i], F32);
        const kernel *fast = fast_row(&c.o);
        if (fast && !case_threads_agree(&c, fast->run)) fail_msg("%s", try_name(&tries[i]));
        try_release(&c);
    }
}

/* Where the exponential ends: large gates, and what is not a number stays visible. */
static void extremes_stay_extreme(void **state)
{
    (void)state;
    float u[] = {-200, 200, 88, -88, 0, NAN, 1, 1, 1, 1, 1, 1}, a[6];
    op o = {.kind = OP_ACT, .dim = {1, 6}};
    row_of(fast_dense(), OP_ACT)->run(&o, (void *[]){u, NULL}, (void *[]){a});
    assert_true(a[0] == 0 && a[1] == 200 && a[2] == 88 && fabsf(a[3]) < 1e-30F && a[4] == 0);
    assert_true(isnan(a[5]));
}

/* ---- gradients */

/* The gradient of `forward` by input `by` (-1: by what output 0 holds at the start) is output `out`
 * of `backward`, whose inputs are, in order: g the gradient of an output, i an input, o an output
 * of the forward. With `adds` the result is added to what is there. */
typedef struct gradient {
    op_kind forward, backward;
    int by, out;
    const char *in;
    bool adds;
} gradient;

static const gradient gradients[] = {
    {OP_GEMM, OP_GEMM_D, 0, 0, "g0 i1", false},
    {OP_GEMM, OP_GEMM_W, 1, 0, "g0 i0", true},
    {OP_HEAD_LOGITS, OP_GEMM_D, 0, 0, "g0 i1", false},
    {OP_BIAS, OP_BIAS_W, 0, 0, "g0", true},
    {OP_EMBED, OP_EMBED_W, 0, 0, "g0 i1", true},
    {OP_NORM, OP_NORM_D, 0, 0, "g0 i0 i1 o1", false},
    {OP_NORM, OP_NORM_W, 1, 0, "g0 i0 o1", true},
    {OP_GATE, OP_GATE_D, 0, 0, "g0 i0 i1", false},
    {OP_GATE, OP_GATE_D, 1, 1, "g0 i0 i1", false},
    {OP_ACT, OP_ACT_D, 0, 0, "g0 i0 i1", false},
    {OP_ACT, OP_ACT_D, 1, 1, "g0 i0 i1", false},
    {OP_QKV_SPLIT, OP_QKV_JOIN, 0, 0, "g0 g1 g2 g3", false},
    {OP_ROPE, OP_ROPE_D, -1, 0, "i0", false},
    {OP_MLA_KV_SPLIT, OP_MLA_KV_MERGE, 0, 0, "g0 g1", false},
    {OP_MLA_KV_JOIN, OP_MLA_KV_JOIN_D, 0, 0, "g0 g1", false},
    {OP_MLA_KV_JOIN, OP_MLA_KV_JOIN_D, 1, 1, "g0 g1", false},
};

static const sizes differences[] = {
    {OP_GEMM, {3, 5, 7}, 0, "", 0},
    {OP_GEMM, {3, 5, 7}, ACCUMULATE, "", 0},
    {OP_HEAD_LOGITS, {3, 7, 5}, 0, "", 0},
    {OP_BIAS, {3, 5}, 0, "", 0},
    {OP_EMBED, {9, 3, 5}, 0, "", 0},
    {OP_EMBED, {20, 3, 5, 4}, 0, "", 0},
    {OP_NORM, {3, 7}, 0, "", 0},
    {OP_NORM, {3, 7}, ZERO_CENTRED, "", 0},
    {OP_NORM, {3, 7}, ACCUMULATE, "", 0},
    {OP_GATE, {3, 5, 5}, 0, "", 0},
    {OP_GATE, {3, 5, 1}, 0, "", 0},
    {OP_ACT, {3, 11}, 0, "", 0},
    {OP_ACT, {3, 11}, 0, "i1", 0},
    {OP_ACT, {3, 11}, CLAMPED, "", 0},
    {OP_QKV_SPLIT, {3, 4, 2, 5}, 0, "", 0},
    {OP_QKV_SPLIT, {3, 4, 2, 5}, 0, "o3", 0},
    {OP_ROPE, {6, 3, 2, 10, 2, 6}, 0, "", 0},
    {OP_ROPE, {6, 3, 2, 10, 2, 6}, INTERLEAVED, "", 0},
    {OP_MLA_KV_SPLIT, {3, 5, 4}, 0, "", 0},
    {OP_MLA_KV_JOIN, {3, 2, 4, 3, 5}, 0, "", 0},
};

/* An input of the backward, from what the forward had, made or is given. */
static void input_from(test_case *b, int i, const test_case *f, const char *word)
{
    const tensor *t = (*word == 'i' ? f->in : f->out) + (word[1] & 7);
    const double *values = *word == 'g' ? t->weight : *word == 'i' ? t->start : t->data;
    if (!t->start) return;
    if (t->type == F64)
        case_given(b, &b->in[i], t->n, values);
    else {
        case_ids(b, &b->in[i], t->n, 0, 1);
        memcpy(b->in[i].start, t->start, tensor_bytes(t));
    }
}

static void backward_init(test_case *b, const test_case *f, const gradient *g, const sizes *s)
{
    static const int logits_to_gemm[] = {0, 2, 1}; /* T H V are M K N */
    case_init(b, g->backward, F64, f->o.dim, 7);
    for (int i = 0; f->o.kind == OP_HEAD_LOGITS && i < 3; i++)
        b->o.dim[i] = f->o.dim[logits_to_gemm[i]];
    b->o.flags = f->o.flags;
    int n = 0;
    for (const char *p = g->in; *p; p += p[2] == ' ' ? 3 : 2) input_from(b, n++, f, p);
    const op_info *kind = &op_infos[g->backward];
    mark_missing(&b->o, g->backward == OP_QKV_JOIN && strstr(s->without, "o3") ? "i3" : "");
    tensors_init(b, kind->out, strchr(kind->types, '>') + 1, OP_IN_MAX, b->out);
    if (g->by < 0) memcpy(b->out[0].start, f->out[0].weight, tensor_bytes(&b->out[0]));
}

static void check_gradient(const gradient *g, const sizes *s)
{
    test_case f, b;
    kernel_rows rows = plain_dense_double();
    kernel_run forward = row_of(rows, g->forward)->run;
    try_init(&f, s, F64);
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (f.out[i].start && !(g->forward == OP_NORM && i == 1)) case_weights(&f, &f.out[i]);
    case_run(&f, forward);
    backward_init(&b, &f, g, s);
    case_run(&b, row_of(rows, g->backward)->run);
    double *found = b.out[g->out].data, *was = b.out[g->out].start;
    bool adds = g->adds || (s->flags & ACCUMULATE);
    for (int64_t i = 0; adds && i < b.out[g->out].n; i++) found[i] -= was[i];
    tensor *by = g->by < 0 ? &f.out[0] : &f.in[g->by];
    double e = by->start ? case_gradient_error(&f, forward, by, found) : 0;
    if (!(e < 1e-7)) fail_msg("%s, by %d: relative error %g", try_name(s), g->by, e);
    case_release(&b);
    try_release(&f);
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        int n = 0;
        for (size_t j = 0; j < sizeof differences / sizeof differences[0]; j++) {
            if (differences[j].kind != gradients[i].forward) continue;
            check_gradient(&gradients[i], &differences[j]);
            n++;
        }
        assert_true(n > 0);
    }
}

/* Its gradients are made together with the loss, of which only the sum counts, times the scale. */
static void gradients_of_head_and_loss_equal_differences(void **state)
{
    (void)state;
    static const sizes cases[] = {{OP_HEAD_LOSS, {11, 5, 7, 4}, 0, "", 0},
                                  {OP_HEAD_LOSS, {11, 5, 7, 4}, 0, "i3", 0}};
    kernel_run run = row_of(plain_dense_double(), OP_HEAD_LOSS)->run;
    for (int i = 0; i < 2; i++) {
        test_case c;
        try_init(&c, &cases[i], F64);
        c.out[0].weight = take(2 * sizeof(double));
        c.out[0].weight[0] = c.o.real[0];
        case_run(&c, run);
        double *dx = copy_as_double(&c.out[1]), *dw = copy_as_double(&c.out[2]);
        for (int64_t j = 0; j < c.out[2].n; j++) dw[j] -= ((double *)c.out[2].start)[j];
        assert_true(case_gradient_error(&c, run, &c.in[0], dx) < 1e-7);
        assert_true(case_gradient_error(&c, run, &c.in[1], dw) < 1e-7);
        free(dx);
        free(dw);
        try_release(&c);
    }
}

/* Ids that another rank has: no row of this one's table may be read or changed. */
static void embedding_of_a_part_by_hand(void **state)
{
    (void)state;
    enum { T = 5, H = 2, V = 3, FIRST = 10 };
    float w[V * H] = {1, 2, 3, 4, 5, 6}, x[T * H], dw[V * H];
    int32_t ids[T] = {9, 10, 12, 13, -1};
    static const float want[T * H] = {0, 0, 1, 2, 5, 6, 0, 0, 0, 0};
    static const float want_dw[V * H] = {1, 2, 0, 0, 5, 6};
    kernel_rows tables[] = {plain_dense_float(), fast_dense()};
    for (int i = 0; i < 2; i++) {
        op o = {.kind = OP_EMBED, .dim = {T, H, V, FIRST}};
        row_of(tables[i], OP_EMBED)->run(&o, (void *[]){w, ids}, (void *[]){x});
        assert_memory_equal(x, want, sizeof x);
        memset(dw, 0, sizeof dw);
        o.kind = OP_EMBED_W;
        row_of(tables[i], OP_EMBED_W)->run(&o, (void *[]){x, ids}, (void *[]){dw});
        assert_memory_equal(dw, want_dw, sizeof dw);
    }
}

/* ---- head and loss, in figures */

/* 151,936 words and 8,192 tokens, of which 256 at a time: never 8,192 x 151,936 logits. */
static void workspace_holds_a_chunk_of_logits(void **state)
{
    (void)state;
    op o = {.kind = OP_HEAD_LOSS, .dim = {8192, 2048, 151936, 256}};
    size_t logits = 256 * 151936 * sizeof(float);
    assert_in_range(kernel_workspace_bytes(&o), logits, logits + 256 * sizeof(double) + 64);
    o.dim[0] = 100;
    assert_true(kernel_workspace_bytes(&o) < logits);
    o.kind = OP_NORM;
    assert_int_equal(kernel_workspace_bytes(&o), 0);
}

static void masked_rows_count_for_nothing(void **state)
{
    (void)state;
    enum { T = 5, H = 2, V = 3 };
    float x[T * H] = {0}, w[V * H] = {0}, mask[T] = {1, 0, 0.5F, 1, 1};
    int32_t labels[T] = {0, 1, 2, -100, V}; /* the last two are no words */
    kernel_rows tables[] = {plain_dense_float(), fast_dense()};
    for (int i = 0; i < 2; i++) {
        op o = {.kind = OP_HEAD_LOSS, .dim = {T, H, V, 2}, .real = {1}};
        const kernel *k = row_of(tables[i], OP_HEAD_LOSS);
        if (k->accepts && !k->accepts(&o, &(op_types){.in = {0}})) continue;
        float loss[2] = {0};
        char room[256] __attribute__((aligned(64)));
        assert_true(kernel_workspace_bytes(&o) <= sizeof room);
        kernels_workspace(room, sizeof room);
        k->run(&o, (void *[]){x, w, labels, mask}, (void *[]){loss, NULL, NULL});
        assert_true(fabs((double)loss[0] - 1.5 * log(V)) < 1e-6);
        assert_true(loss[1] == 1.5F);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pick_prefers_the_last_row_that_accepts),
        cmocka_unit_test(every_kind_is_tried),
        cmocka_unit_test(fast_equals_plain),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(extremes_stay_extreme),
        cmocka_unit_test(gradients_equal_differences),
        cmocka_unit_test(gradients_of_head_and_loss_equal_differences),
        cmocka_unit_test(embedding_of_a_part_by_hand),
        cmocka_unit_test(workspace_holds_a_chunk_of_logits),
        cmocka_unit_test(masked_rows_count_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
