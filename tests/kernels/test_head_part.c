/* test_head_part.c - head and loss of a vocabulary that is cut over ranks: chunk by chunk, with
 * what the ranks tell each other between the two operations, it equals head and loss in one. */
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
#define REAL_DOUBLE
#include "backend/cpu/kernels/plain_dense.c"
#include "backend/cpu/kernels/plain_dense_heads.c"
#include "backend/cpu/kernels/plain_dense_loss.c"
#include "backend/cpu/kernels/plain_dense_maps.c"

enum { PARTS_MAX = 3 };

/* What the ranks have between them; numbers are of the case's type. */
typedef struct ranks {
    test_case *whole; /* HEAD_LOSS */
    kernel_rows rows;
    int64_t t, h, v, rows_at_once; /* v: of one rank */
    int n;
    size_t one;              /* bytes of a number */
    char *logits[PARTS_MAX]; /* [ROWS][V] */
    char *dx[PARTS_MAX];     /* [T][H] */
    char *loss[PARTS_MAX];   /* [2] */
    char *stats;             /* [PARTS][ROWS][3] */
    char *dw;                /* [PARTS * V][H] */
} ranks;

static void ranks_init(ranks *c, test_case *whole, int n, kernel_rows rows)
{
    const int64_t *d = whole->o.dim;
    *c = (ranks){.whole = whole, .rows = rows, .t = d[0], .h = d[1], .v = d[2] / n, .n = n};
    c->rows_at_once = d[3];
    c->one = number_bytes(whole->real);
    for (int p = 0; p < n; p++) {
        c->logits[p] = take(c->one * (size_t)(c->rows_at_once * c->v));
        c->dx[p] = take(c->one * (size_t)(c->t * c->h));
        c->loss[p] = take(c->one * 2);
        memcpy(c->loss[p], whole->out[0].start, c->one * 2);
    }
    c->stats = take(c->one * (size_t)(n * c->rows_at_once * 3));
    c->dw = take(tensor_bytes(&whole->out[2]));
    memcpy(c->dw, whole->out[2].start, tensor_bytes(&whole->out[2]));
}

static void ranks_release(ranks *c)
{
    for (int p = 0; p < c->n; p++) {
        free(c->logits[p]);
        free(c->dx[p]);
        free(c->loss[p]);
    }
    free(c->stats);
    free(c->dw);
}

static op part_op(const ranks *c, op_kind kind, int part, int64_t first)
{
    return (op){.kind = kind,
                .dim = {c->t, c->h, c->v, c->rows_at_once, first, part * c->v, c->n},
                .real = {c->whole->o.real[0]}};
}

static void run_part(const ranks *c, int part, int64_t first)
{
    const tensor *in = c->whole->in;
    op o = part_op(c, OP_HEAD_PART, part, first);
    char *w = (char *)in[1].start + c->one * (size_t)(part * c->v * c->h);
    char *stats = c->stats + c->one * (size_t)(part * c->rows_at_once * 3);
    void *out[] = {c->logits[part], stats};
    row_of(c->rows, o.kind)->run(&o, (void *[]){in[0].start, w, in[2].start}, out);
}

static void run_part_d(const ranks *c, int part, int64_t first)
{
    const tensor *in = c->whole->in;
    op o = part_op(c, OP_HEAD_PART_D, part, first);
    const size_t skip = c->one * (size_t)(part * c->v * c->h);
    void *from[] = {c->stats, in[0].start, (char *)in[1].start + skip, in[2].start, in[3].start};
    void *out[] = {c->logits[part], c->loss[part], c->dx[part], c->dw + skip};
    row_of(c->rows, o.kind)->run(&o, from, out);
}

static void ranks_run(const ranks *c)
{
    for (int64_t first = 0; first < c->t; first += c->rows_at_once) {
        for (int p = 0; p < c->n; p++) run_part(c, p, first);
        for (int p = 0; p < c->n; p++) run_part_d(c, p, first);
    }
}

static double *as_doubles(const ranks *c, char *x, int64_t n)
{
    return copy_as_double(&(tensor){.type = c->whole->real, .n = n, .data = x});
}

/* The sum over ranks of their parts of dx. */
static double *sum_dx(const ranks *c)
{
    double *sum = as_doubles(c, c->dx[0], c->t * c->h);
    for (int p = 1; p < c->n; p++) {
        double *one = as_doubles(c, c->dx[p], c->t * c->h);
        for (int64_t i = 0; i < c->t * c->h; i++) sum[i] += one[i];
        free(one);
    }
    return sum;
}

static double error_of(double *got, const tensor *t)
{
    double *want = copy_as_double(t), e = relative_error(got, want, t->n);
    free(want);
    free(got);
    return e;
}

static void whole_init(test_case *c, number type, int64_t v, bool mask)
{
    const int64_t t = 37, h = 19;
    case_init(c, OP_HEAD_LOSS, type, (int64_t[]){t, h, v, 8}, 4); /* the last chunk is short */
    c->o.real[0] = 0.37;
    case_reals(c, &c->in[0], t * h);
    case_reals(c, &c->in[1], v * h);
    case_ids(c, &c->in[2], t, -3, (int)v + 3); /* some are no words */
    if (mask) case_reals(c, &c->in[3], t);
    for (int64_t i = 0; mask && i < t; i++)
        put(&c->in[3], i, i % 5 == 2 ? 0 : i % 5 == 3 ? 0.5 : 1);
    case_reals(c, &c->out[0], 2);
    case_reals(c, &c->out[1], t * h);
    case_reals(c, &c->out[2], v * h);
}

/* `rows` for the parts against `one` for the whole. */
static void check(number type, kernel_rows rows, kernel_rows one, double most)
{
    for (int n = 1; n <= PARTS_MAX; n++)
        for (int mask = 0; mask < 2; mask++) {
            test_case whole;
            ranks c;
            whole_init(&whole, type, 66, mask);
            ranks_init(&c, &whole, n, rows);
            ranks_run(&c);
            case_run(&whole, row_of(one, OP_HEAD_LOSS)->run);
            for (int p = 0; p < n; p++) /* every rank has the whole loss */
                assert_true(error_of(as_doubles(&c, c.loss[p], 2), &whole.out[0]) <= most);
            assert_true(error_of(sum_dx(&c), &whole.out[1]) <= most);
            assert_true(error_of(as_doubles(&c, c.dw, 66 * c.h), &whole.out[2]) <= most);
            ranks_release(&c);
            case_release(&whole);
        }
}

static void parts_equal_whole_in_plain(void **state)
{
    (void)state;
    check(F64, plain_dense_double(), plain_dense_double(), 1e-12);
}

#undef plain_dense
kernel_rows plain_dense(void);

static void parts_equal_whole_in_fast(void **state)
{
    (void)state;
    op o = {.kind = OP_HEAD_PART};
    if (!row_of(fast_dense(), OP_HEAD_PART)->accepts(&o, &(op_types){.in = {0}})) skip();
    kernels_threads(2);
    check(F32, fast_dense(), plain_dense(), 1e-5);
}

/* Logits of thousands on one rank and of minus thousands on the other. */
static void extreme_logits(void **state)
{
    (void)state;
    float x[] = {1}, w[] = {3000, 2000, -3000, -2000}, stats[6], logits[2][2], dw[4] = {0};
    int32_t labels[] = {3};
    kernel_rows rows = fast_dense();
    op o = {.kind = OP_HEAD_PART, .dim = {1, 1, 2, 1, 0, 0, 2}, .real = {1}};
    if (!row_of(rows, OP_HEAD_PART)->accepts(&o, &(op_types){.in = {0}})) skip();
    for (int p = 0; p < 2; p++) {
        o.dim[5] = 2 * p;
        void *in[] = {x, w + 2 * p, labels}, *out[] = {logits[p], stats + 3 * p};
        row_of(rows, OP_HEAD_PART)->run(&o, in, out);
    }
    o.kind = OP_HEAD_PART_D;
    for (int p = 0; p < 2; p++) {
        float loss[2] = {0}, dx[1];
        o.dim[5] = 2 * p;
        void *in[] = {stats, x, w + 2 * p, labels, NULL};
        void *out[] = {logits[p], loss, dx, dw + 2 * p};
        row_of(rows, OP_HEAD_PART_D)->run(&o, in, out);
        assert_true(loss[0] == 5000 && loss[1] == 1);
        assert_true(dx[0] == (p ? 2000 : 3000));
    }
    static const float want[] = {1, 0, 0, -1};
    assert_memory_equal(dw, want, sizeof dw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_equal_whole_in_plain),
        cmocka_unit_test(parts_equal_whole_in_fast),
        cmocka_unit_test(extreme_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
