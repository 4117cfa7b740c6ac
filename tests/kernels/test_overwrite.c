/* test_overwrite.c - a weight gradient that is written is what it would be if it were added to
 * zeros, bit by bit, whatever stood there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "kernels/kernels.h"

typedef struct trial {
    op o;
    int64_t dy, x, dw; /* elements */
    const int32_t *offsets;
} trial;

static float *numbers(int64_t n, int seed)
{
    float *x = malloc(sizeof *x * (size_t)n);
    philox g = philox_stream((uint64_t)seed, 3);
    philox_normal(&g, 0, n, 1, x);
    return x;
}

/* Every row of the kind: added to zeros, and written over NaN. */
static int rows_agree(const trial *t)
{
    int n, tried = 0;
    const kernel *rows = kernels_cpu(&n);
    float *dy = numbers(t->dy, 1), *x = numbers(t->x, 2);
    float *added = malloc(sizeof *added * (size_t)t->dw), *written = malloc(4 * (size_t)t->dw);
    op_types types = {.in = {DTYPE_F32, DTYPE_F32, DTYPE_I32}};
    void *in[OP_IN_MAX] = {dy, x, (void *)(uintptr_t)t->offsets};
    for (int i = 0; i < n; i++) {
        if (rows[i].kind != t->o.kind) continue;
        if (rows[i].accepts && !rows[i].accepts(&t->o, &types)) continue;
        for (int k = 0; k < 2; k++) {
            op o = t->o;
            void *out[OP_OUT_MAX] = {k ? written : added};
            memset(out[0], k ? 0xff : 0, 4 * (size_t)t->dw); /* NaN, or zeros */
            o.flags = k ? OVERWRITE : 0;
            rows[i].run(&o, in, out);
        }
        for (int64_t e = 0; e < t->dw; e++)
            if (!(added[e] == written[e])) fail_msg("%s: element %d", rows[i].name, (int)e);
        tried++;
    }
    free(dy);
    free(x);
    free(added);
    free(written);
    return tried;
}

static void products_are_written_whole(void **state)
{
    (void)state;
    static const int64_t dims[][3] = {{1, 1, 1}, {5, 7, 3}, {129, 65, 130}, {600, 520, 17}};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        const int64_t *d = dims[i];
        trial t = {.o = {.kind = OP_GEMM_W, .name = "w", .dim = {d[0], d[1], d[2]}},
                   .dy = d[0] * d[1],
                   .x = d[0] * d[2],
                   .dw = d[1] * d[2]};
        assert_true(op_can_overwrite(t.o.kind) && rows_agree(&t) >= 1);
    }
}

/* Experts without rows at the start, in the middle and at the end; rows past all of them. */
static void grouped_products_are_written_whole(void **state)
{
    (void)state;
    static const int32_t offsets[] = {0, 0, 70, 70, 71, 90, 90};
    enum { E = 6, ROOM = 96, N = 33, K = 130 };
    trial t = {.o = {.kind = OP_GROUPED_W, .name = "w", .dim = {ROOM, E, N, K}},
               .dy = ROOM * N,
               .x = ROOM * K,
               .dw = E * N * K,
               .offsets = offsets};
    assert_true(op_can_overwrite(t.o.kind) && rows_agree(&t) >= 1);
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_written_whole),
                                       cmocka_unit_test(grouped_products_are_written_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
