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
#include "backend/kernels/kernels.h"

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

static void gemms_are_written_whole(void **state)
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
static void grouped_gemms_are_written_whole(void **state)
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

/* Head and loss: three chunks of rows, of which the first writes; the last is short. Some labels
 * are masked, one is no word. */
static void heads_are_written_whole(void **state)
{
    (void)state;
    enum { T = 70, H = 33, V = 57, ROWS = 32 };
    int n, tried = 0;
    const kernel *rows = kernels_cpu(&n);
    float *x = numbers((int64_t)T * H, 4), *w = numbers((int64_t)V * H, 5);
    static float mask[T], dx[T * H], dw[2][V * H], loss[2];
    static int32_t labels[T];
    for (int i = 0; i < T; i++) mask[i] = i % 9 != 0, labels[i] = i == 5 ? -1 : i * 7 % V;
    op_types types = {.in = {DTYPE_F32, DTYPE_F32, DTYPE_I32, DTYPE_F32}};
    op head = {.kind = OP_HEAD_LOSS, .name = "head", .dim = {T, H, V, ROWS}};
    head.real[REAL_HEAD_LOSS_scale] = 1;
    for (int i = 0; i < n; i++) {
        if (rows[i].kind != OP_HEAD_LOSS) continue;
        if (rows[i].accepts && !rows[i].accepts(&head, &types)) continue;
        for (int k = 0; k < 2; k++) {
            op o = head;
            void *in[OP_IN_MAX] = {x, w, labels, mask}, *out[OP_OUT_MAX] = {loss, dx, dw[k]};
            static double room[1 << 14];
            memset(dw[k], k ? 0xff : 0, sizeof dw[k]);
            o.flags = k ? OVERWRITE : 0;
            kernels_workspace(room, sizeof room);
            rows[i].run(&o, in, out);
            kernels_workspace(NULL, 0);
        }
        for (int e = 0; e < V * H; e++)
            if (!(dw[0][e] == dw[1][e])) fail_msg("%s: element %d", rows[i].name, e);
        tried++;
    }
    assert_true(op_can_overwrite(OP_HEAD_LOSS) && tried >= 1);
    free(x);
    free(w);
}

/* Words of another rank, words that come twice, and most that do not come at all. */
static void word_tables_are_written_whole(void **state)
{
    (void)state;
    enum { T = 40, H = 130, V = 57, FIRST = 20 };
    int n, tried = 0;
    const kernel *rows = kernels_cpu(&n);
    float *dx = numbers((int64_t)T * H, 6);
    static float dw[2][V * H];
    static int32_t ids[T];
    for (int i = 0; i < T; i++) ids[i] = i * 7 % 30 + 5;
    for (int i = 0; i < n; i++) {
        if (rows[i].kind != OP_EMBED_W) continue;
        for (int k = 0; k < 2; k++) {
            op o = {.kind = OP_EMBED_W, .name = "words", .dim = {T, H, V, FIRST}};
            memset(dw[k], k ? 0xff : 0, sizeof dw[k]);
            o.flags = k ? OVERWRITE : 0;
            rows[i].run(&o, (void *[OP_IN_MAX]){dx, ids}, (void *[OP_OUT_MAX]){dw[k]});
        }
        for (int e = 0; e < V * H; e++)
            if (!(dw[0][e] == dw[1][e])) fail_msg("%s: element %d", rows[i].name, e);
        tried++;
    }
    assert_true(op_can_overwrite(OP_EMBED_W) && tried >= 2);
    free(dx);
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(gemms_are_written_whole),
                                       cmocka_unit_test(grouped_gemms_are_written_whole),
                                       cmocka_unit_test(heads_are_written_whole),
                                       cmocka_unit_test(word_tables_are_written_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
