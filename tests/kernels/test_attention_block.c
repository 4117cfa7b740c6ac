/* test_attention_block.c - attention over a sequence that is cut over ranks: blocks merged around a
 * ring equal attention over the whole, forward and backward; rows agree on any positions; threads
 * change nothing; gradients equal differences. */
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
kernel_rows plain_attention_double(void);
#define REAL_DOUBLE
#define plain_attention plain_attention_double
#include "backend/cpu/kernels/plain_attention.c"
#undef plain_attention

/* ---- a ring of ranks against the whole sequence */

typedef struct shape {
    int64_t b, s, n, g, d, dv, window;
} shape;

/* Blocks are 64 by 64, spans of the gradient 256. S is a multiple of 8, for 4 ranks. */
static const shape shapes[] = {
    {1, 8, 1, 1, 2, 3, 0},      /* with 4 ranks a half is one token */
    {2, 40, 4, 2, 8, 8, 0},     /* two heads share keys */
    {2, 136, 4, 1, 24, 16, 0},  /* D and DV differ, nothing is a multiple of a block */
    {1, 136, 2, 2, 16, 16, 1},  /* a token sees itself alone */
    {2, 200, 4, 2, 16, 12, 30}, /* the window is shorter than most halves */
    {1, 520, 2, 1, 8, 8, 200},  /* the window reaches over several ranks */
    {1, 1408, 2, 1, 8, 4, 0},   /* three spans a half on one rank */
    {1, 1408, 2, 2, 4, 4, 700},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0], RANKS_MAX = 4 };

enum { Q, K, V, DO, O, LSE, DQ, DK, DV, N_TENSORS };

typedef struct part {
    void *x[N_TENSORS]; /* each [B * S/ranks][its numbers a token] */
} part;

typedef struct ring {
    const shape *p;
    int ranks;
    size_t bytes[N_TENSORS]; /* of a token */
    kernel_rows rows;
    double scale;
    part whole, at[RANKS_MAX];
} ring;

static void tensor_sizes(ring *c, number type)
{
    const shape *p = c->p;
    const int64_t n[N_TENSORS] = {p->n * p->d,  p->g * p->d,  p->g * p->dv,
                                  p->n * p->dv, p->n * p->dv, p->n,
                                  p->n * p->d,  p->g * p->d,  p->g * p->dv};
    for (int i = 0; i < N_TENSORS; i++) c->bytes[i] = (size_t)n[i] * number_bytes(type);
}

/* Copies tokens between the whole sequence and a rank, which has chunks r and 2*ranks-1-r. */
static void carry(const ring *c, int r, int tensor_id, bool to_rank)
{
    const int64_t half = c->p->s / (2 * c->ranks);
    const size_t bytes = c->bytes[tensor_id] * (size_t)half;
    for (int64_t i = 0; i < 2 * c->p->b; i++) {
        int64_t b = i / 2, piece = i % 2 ? 2 * c->ranks - 1 - r : r;
        char *rank = (char *)c->at[r].x[tensor_id] + (size_t)i * bytes;
        char *all = (char *)c->whole.x[tensor_id] + (size_t)(b * 2 * c->ranks + piece) * bytes;
        memcpy(to_rank ? rank : all, to_rank ? all : rank, bytes);
    }
}

static void ring_init(ring *c, const shape *p, int ranks, number type, kernel_rows rows)
{
    *c = (ring){.p = p, .ranks = ranks, .rows = rows, .scale = 4 / sqrt((double)p->d)};
    tensor_sizes(c, type);
    test_case random = {.real = type, .random = 77};
    for (int i = 0; i < N_TENSORS; i++) {
        const int64_t tokens = p->b * p->s;
        tensor t;
        case_reals(&random, &t, tokens * (int64_t)(c->bytes[i] / number_bytes(type)));
        c->whole.x[i] = t.start;
        free(t.data);
        for (int r = 0; r < ranks; r++) {
            c->at[r].x[i] = take(c->bytes[i] * (size_t)(tokens / ranks));
            carry(c, r, i, true); /* outputs are noise as well: they must be written */
        }
    }
}

static void ring_release(ring *c)
{
    for (int i = 0; i < N_TENSORS; i++) {
        free(c->whole.x[i]);
        for (int r = 0; r < c->ranks; r++) free(c->at[r].x[i]);
    }
}

/* The keys of rank `from` for the queries of rank r. */
static op block_op(const ring *c, op_kind kind, int r, int from)
{
    const shape *p = c->p;
    const int64_t s = p->s / c->ranks, half = s / 2, last = 2 * c->ranks - 1;
    return (op){.kind = kind,
                .dim = {p->b, s, s, p->n, p->g, p->d, p->dv, p->window, r * half, (last - r) * half,
                        from * half, (last - from) * half},
                .real = {c->scale}};
}

static void ring_forward(ring *c)
{
    for (int r = 0; r < c->ranks; r++)
        for (int step = 0; step < c->ranks; step++) {
            const int from = (r - step + c->ranks) % c->ranks;
            op o = block_op(c, OP_ATTN_BLOCK, r, from);
            o.flags = step ? ACCUMULATE : 0;
            void **x = c->at[r].x, **keys = c->at[from].x;
            void *in[] = {x[Q], keys[K], keys[V]}, *out[] = {x[O], x[LSE]};
            row_of(c->rows, o.kind)->run(&o, in, out);
        }
}

/* Gradients by keys gather where the keys are. */
static void ring_backward(ring *c)
{
    for (int step = 0; step < c->ranks; step++)
        for (int r = 0; r < c->ranks; r++) {
            const int from = (r - step + c->ranks) % c->ranks;
            op o = block_op(c, OP_ATTN_BLOCK_D, r, from);
            o.flags = step ? ACCUMULATE | ADD_KV : 0;
            void **x = c->at[r].x, **keys = c->at[from].x;
            void *in[] = {x[DO], x[Q], keys[K], keys[V], x[O], x[LSE]};
            void *out[] = {x[DQ], keys[DK], keys[DV]};
            row_of(c->rows, o.kind)->run(&o, in, out);
        }
}

static void whole_sequence(ring *c)
{
    const shape *p = c->p;
    op o = {.kind = OP_ATTN,
            .dim = {p->b, p->s, p->n, p->g, p->d, p->dv, p->window},
            .real = {c->scale}};
    void **x = c->whole.x;
    void *in[] = {x[Q], x[K], x[V], NULL}, *out[] = {x[O], x[LSE]};
    row_of(c->rows, OP_ATTN)->run(&o, in, out);
    void *in_d[] = {x[DO], x[Q], x[K], x[V], x[O], x[LSE], NULL};
    void *out_d[] = {x[DQ], x[DK], x[DV], NULL};
    o.kind = OP_ATTN_D;
    row_of(c->rows, OP_ATTN_D)->run(&o, in_d, out_d);
}

static double *as_doubles(const void *x, size_t bytes, number type)
{
    tensor t = {
        .type = type, .n = (int64_t)(bytes / number_bytes(type)), .data = (void *)(size_t)x};
    return copy_as_double(&t);
}

/* How far the ranks' tensor is from the whole sequence's, which is overwritten. */
static double ring_error(ring *c, int tensor_id, number type)
{
    const size_t bytes = c->bytes[tensor_id] * (size_t)(c->p->b * c->p->s);
    double *want = as_doubles(c->whole.x[tensor_id], bytes, type);
    for (int r = 0; r < c->ranks; r++) carry(c, r, tensor_id, false);
    double *got = as_doubles(c->whole.x[tensor_id], bytes, type);
    double e = relative_error(got, want, (int64_t)(bytes / number_bytes(type)));
    free(want);
    free(got);
    return e;
}

static void check_ring(const shape *p, int ranks, number type, kernel_rows rows)
{
    const double most = type == F64 ? 1e-12 : 1e-5;
    ring c;
    ring_init(&c, p, ranks, type, rows);
    ring_forward(&c);
    ring_backward(&c);
    whole_sequence(&c);
    for (int i = O; i < N_TENSORS; i++) {
        double e = ring_error(&c, i, type);
        if (!(e <= most))
            fail_msg("B%d S%d N%d G%d D%d DV%d window %d over %d ranks: tensor %d is %g off",
                     (int)p->b, (int)p->s, (int)p->n, (int)p->g, (int)p->d, (int)p->dv,
                     (int)p->window, ranks, i, e);
    }
    ring_release(&c);
}

static void ring_equals_whole_in_plain(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks *= 2)
            if (shapes[i].s <= 520) check_ring(&shapes[i], ranks, F64, plain_attention_double());
}

static void ring_equals_whole_in_fast(void **state)
{
    (void)state;
    kernels_threads(2);
    for (int i = 0; i < N_SHAPES; i++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks *= 2)
            check_ring(&shapes[i], ranks, F32, fast_attention());
}

/* ---- any positions */

/* Sizes of an ATTN_BLOCK in the order of ops.def. */
static const int64_t blocks[][12] = {
    {1, 2, 2, 1, 1, 1, 1, 0, 0, 1, 0, 1},
    {2, 6, 4, 2, 1, 3, 2, 0, 7, 20, 3, 18},             /* as many queries as keys is not needed */
    {1, 6, 8, 4, 2, 4, 3, 3, 2, 9, 0, 7},               /* a window that ends within halves */
    {1, 4, 4, 2, 2, 3, 3, 0, 0, 10, 4, 12},             /* queries that see nothing */
    {1, 4, 4, 1, 1, 2, 2, 0, 0, 2, 50, 60},             /* no query sees anything */
    {1, 4, 4, 1, 1, 2, 2, 4, 50, 60, 0, 2},             /* all keys are out of the window */
    {2, 140, 260, 4, 2, 33, 17, 0, 100, 700, 0, 650},   /* halves end within blocks */
    {1, 700, 140, 2, 1, 8, 8, 0, 60, 900, 61, 1000},    /* more spans of queries than of keys */
    {1, 140, 1100, 2, 2, 8, 8, 0, 560, 1300, 0, 1240},  /* and the other way round */
    {1, 300, 300, 2, 1, 16, 16, 97, 900, 0, 850, 30},   /* the second half comes first */
    {1, 260, 260, 3, 1, 192, 128, 0, 130, 390, 0, 260}, /* latent attention; as off a ring */
    {1, 200, 8, 2, 2, 2, 2, 0, 0, 100, 500, 600},       /* no query sees anything, and many */
};

enum { N_BLOCKS = sizeof blocks / sizeof blocks[0], N_SMALL = 6 };

/* Where it adds, some queries have seen nothing before. */
static void put_forward(test_case *c, int which, unsigned flags, number type)
{
    const int64_t *d = blocks[which], tq = d[0] * d[1], tk = d[0] * d[2];
    case_init(c, OP_ATTN_BLOCK, type, d, 12);
    c->o.flags = flags;
    c->o.real[0] = 4 / sqrt((double)d[5]);
    case_reals(c, &c->in[0], tq * d[3] * d[5]);
    case_reals(c, &c->in[1], tk * d[4] * d[5]);
    case_reals(c, &c->in[2], tk * d[4] * d[6]);
    case_reals(c, &c->out[0], tq * d[3] * d[6]);
    case_reals(c, &c->out[1], tq * d[3]);
    for (int64_t i = 0; flags & ACCUMULATE && i < c->out[1].n; i += 3) {
        put(&c->out[1], i, -INFINITY);
        for (int64_t j = i * d[6]; j < (i + 1) * d[6]; j++) put(&c->out[0], j, 0);
    }
}

static void copy_start(tensor *to, const void *from)
{
    memcpy(to->start, from, tensor_bytes(to));
}

/* The gradient of a forward case that has run. */
static void put_gradient(test_case *c, const test_case *f, unsigned flags)
{
    case_init(c, OP_ATTN_BLOCK_D, f->real, f->o.dim, 12);
    c->o.flags = flags;
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
}

/* Minus infinity in both is no difference. */
static double error_with_infinities(test_case *c, kernel_run plain, kernel_run fast)
{
    case_run(c, plain);
    double *o = copy_as_double(&c->out[0]), *lse = copy_as_double(&c->out[1]);
    case_run(c, fast);
    double *o2 = copy_as_double(&c->out[0]), *lse2 = copy_as_double(&c->out[1]);
    for (int64_t i = 0; i < c->out[1].n; i++)
        if (lse[i] == -INFINITY && lse2[i] == -INFINITY) lse[i] = lse2[i] = 0;
    double e = relative_error(o2, o, c->out[0].n), e2 = relative_error(lse2, lse, c->out[1].n);
    double *all[] = {o, lse, o2, lse2};
    for (int i = 0; i < 4; i++) free(all[i]);
    return e <= e2 ? e2 : e;
}

static const unsigned all_flags[] = {0, ACCUMULATE, ADD_KV, ACCUMULATE | ADD_KV};

static void fast_equals_plain(void **state)
{
    (void)state;
    kernel_rows plain = plain_attention(), fast = fast_attention();
    for (int i = 0; i < N_BLOCKS * 4; i++) {
        test_case f, g;
        put_forward(&f, i / 4, all_flags[i % 4] & ACCUMULATE, F32);
        double e = error_with_infinities(&f, row_of(plain, OP_ATTN_BLOCK)->run,
                                         row_of(fast, OP_ATTN_BLOCK)->run);
        if (!(e <= 1e-5)) fail_msg("block %d, flags %u: %g apart", i / 4, all_flags[i % 4], e);
        put_gradient(&g, &f, all_flags[i % 4]);
        e = case_error(&g, row_of(plain, OP_ATTN_BLOCK_D)->run, row_of(fast, OP_ATTN_BLOCK_D)->run);
        if (!(e <= 1e-5)) fail_msg("gradient %d, flags %u: %g apart", i / 4, all_flags[i % 4], e);
        case_release(&g);
        case_release(&f);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    kernel_rows fast = fast_attention();
    for (int i = 0; i < N_BLOCKS * 2; i++) {
        test_case f, g;
        put_forward(&f, i / 2, i % 2 ? ACCUMULATE : 0, F32);
        assert_true(case_threads_agree(&f, row_of(fast, OP_ATTN_BLOCK)->run));
        put_gradient(&g, &f, i % 2 ? ACCUMULATE | ADD_KV : 0);
        assert_true(case_threads_agree(&g, row_of(fast, OP_ATTN_BLOCK_D)->run));
        case_release(&g);
        case_release(&f);
    }
}

/* What is there already does not depend on this block's inputs, so the differences of a merged
 * output are the gradients of the block alone. */
static void gradients_equal_differences(void **state)
{
    (void)state;
    kernel_run forward = row_of(plain_attention_double(), OP_ATTN_BLOCK)->run;
    for (int i = 0; i < N_SMALL * 2; i++) {
        test_case f, g;
        put_forward(&f, i / 2, i % 2 ? ACCUMULATE : 0, F64);
        case_weights(&f, &f.out[0]);
        case_run(&f, forward);
        put_gradient(&g, &f, 0);
        copy_start(&g.in[0], f.out[0].weight);
        case_run(&g, row_of(plain_attention_double(), OP_ATTN_BLOCK_D)->run);
        for (int k = 0; k < 3; k++) {
            double e = case_gradient_error(&f, forward, &f.in[k], g.out[k].data);
            if (!(e <= 1e-6)) fail_msg("block %d: gradient %d is %g off", i, k, e);
        }
        case_release(&g);
        case_release(&f);
    }
}

/* Two queries at 0 and 5, one key a half at 3 and 9: the first sees nothing, the second one key. */
static void unseen_by_hand(void **state)
{
    (void)state;
    float q[] = {1, 2}, k[] = {0.5f, -1}, v[] = {3, 5}, o[] = {7, 7}, lse[] = {7, 7};
    float d_o[] = {1, 1}, dq[2], dk[2], dv[2];
    op what = {.kind = OP_ATTN_BLOCK, .dim = {1, 2, 2, 1, 1, 1, 1, 0, 0, 5, 3, 9}, .real = {0.5}};
    op back = what;
    back.kind = OP_ATTN_BLOCK_D;
    kernel_rows rows[] = {plain_attention(), fast_attention()};
    for (int i = 0; i < 2; i++) {
        for (what.flags = 0; what.flags <= ACCUMULATE; what.flags += ACCUMULATE) {
            if (what.flags) o[0] = o[1] = 0, lse[0] = lse[1] = -INFINITY;
            row_of(rows[i], OP_ATTN_BLOCK)->run(&what, (void *[]){q, k, v}, (void *[]){o, lse});
            assert_true(o[0] == 0 && lse[0] == -INFINITY);
            assert_true(fabsf(o[1] - 3) < 1e-6f && fabsf(lse[1] - 0.5f) < 1e-6f);
        }
        void *in[] = {d_o, q, k, v, o, lse}, *out[] = {dq, dk, dv};
        row_of(rows[i], OP_ATTN_BLOCK_D)->run(&back, in, out);
        assert_true(dq[0] == 0 && dk[1] == 0 && dv[1] == 0 && fabsf(dv[0] - 1) < 1e-6f);
        assert_true(fabsf(dq[1]) < 1e-6f && fabsf(dk[0]) < 1e-6f); /* one key: its weight is 1 */
    }
}

/* A block that gives nothing new leaves every bit. */
static void unseen_block_changes_no_bit(void **state)
{
    (void)state;
    const int nobody_sees = N_BLOCKS - 1;
    test_case f;
    put_forward(&f, nobody_sees, ACCUMULATE, F32);
    case_run(&f, row_of(fast_attention(), OP_ATTN_BLOCK)->run);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(f.out[i].data, f.out[i].start, tensor_bytes(&f.out[i]));
    case_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_equals_whole_in_plain),  cmocka_unit_test(ring_equals_whole_in_fast),
        cmocka_unit_test(fast_equals_plain),           cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(gradients_equal_differences), cmocka_unit_test(unseen_by_hand),
        cmocka_unit_test(unseen_block_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
