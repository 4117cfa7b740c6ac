/* test_fused.c - fused kinds on the CPU: gradients equal differences of the forward kinds, by the
 * fast parts as by the plain ones; the table of parts names what ops.def has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/fused.h"
#include "backend/kernels/kernels.h"

enum { ROOM = 4096 };

/* A fused operation on FP32 tensors of its own. */
typedef struct fused_case {
    op o;
    float in[OP_IN_MAX][ROOM], out[OP_OUT_MAX][ROOM];
} fused_case;

static void fill(float *x, int n, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((double)(seed >> 8) / (1 << 23) - 1);
    }
}

static fused_case *case_of(op_kind kind, const int64_t *dim, int n_dims, unsigned missing_in,
                           unsigned missing_out)
{
    fused_case *c = calloc(1, sizeof *c);
    c->o = (op){.kind = kind, .name = "test", .real = {1e-5}};
    memcpy(c->o.dim, dim, sizeof *dim * (size_t)n_dims);
    for (int i = 0; i < OP_IN_MAX; i++) {
        c->o.in[i] = missing_in >> i & 1 ? -1 : i;
        fill(c->in[i], ROOM, 7u + (unsigned)i);
    }
    for (int i = 0; i < OP_OUT_MAX; i++) c->o.out[i] = missing_out >> i & 1 ? -1 : OP_IN_MAX + i;
    return c;
}

static void run(fused_case *c, bool plain)
{
    int n;
    const kernel *rows = kernels_cpu(&n), *row = kernel_pick(rows, n, &c->o, NULL, plain);
    size_t bytes = kernel_workspace_bytes(&c->o);
    void *room = calloc(1, bytes + 1), *in[OP_IN_MAX], *out[OP_OUT_MAX];
    for (int i = 0; i < OP_IN_MAX; i++) in[i] = c->o.in[i] < 0 ? NULL : c->in[i];
    for (int i = 0; i < OP_OUT_MAX; i++) out[i] = c->o.out[i] < 0 ? NULL : c->out[i];
    kernels_workspace(room, bytes);
    row->run(&c->o, in, out);
    kernels_workspace(NULL, 0);
    free(room);
}

/* The sum of outputs times weights, of outputs 0 .. n-1. */
static double weighed(const fused_case *c, float (*by)[ROOM], const int *sizes, int n)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < sizes[k]; i++) sum += (double)c->out[k][i] * (double)by[k][i];
    return sum;
}

typedef struct weights {
    float by[4][ROOM];
    int sizes[4], n;
} weights;

/* Central differences by elements of input `in` against what the gradient says. */
static void same_as_differences(fused_case *f, const weights *w, int in, const float *found, int n)
{
    const float step = 1e-2F;
    for (int i = 0; i < n; i++) {
        const float was = f->in[in][i];
        double side[2];
        for (int s = 0; s < 2; s++) {
            f->in[in][i] = s ? was + step : was - step;
            run(f, true);
            side[s] = weighed(f, (float(*)[ROOM])w->by, w->sizes, w->n);
        }
        f->in[in][i] = was;
        double want = (side[1] - side[0]) / (2 * (double)step);
        if (fabs(want - (double)found[i]) > 4e-3 * (fabs(want) + 1))
            fail_msg("%s: input %d, element %d: %g, and differences say %g",
                     op_infos[f->o.kind].name, in, i, (double)found[i], want);
    }
}

enum { T = 5, N = 4, G = 2, D = 6, S = 3, ROT = 4 };

static void heads_gradient(unsigned flags, bool gates, bool norms, bool plain)
{
    const int64_t dim[] = {T, N, G, D, S, ROT};
    const int q = T * N * D, k = T * G * D, all = q * (gates ? 2 : 1) + 2 * k;
    const unsigned no_gate = gates ? 0 : 1u << OUT_QKV_HEADS_gate;
    fused_case *f = case_of(OP_QKV_HEADS, dim, 6, norms ? ~15u : ~9u,
                            no_gate | (norms ? ~63u : ~15u)),
               *b;
    b = case_of(OP_QKV_HEADS_D, dim, 6, (gates ? 0 : 8u) | (norms ? 0 : 0x1f0u), norms ? ~7u : ~1u);
    weights *w = calloc(1, sizeof *w);
    *w = (weights){.sizes = {q, k, k, gates ? q : 0}, .n = gates ? 4 : 3};
    for (int i = 0; i < 4; i++) fill(w->by[i], ROOM, 99u + (unsigned)i);
    f->o.flags = b->o.flags = flags;
    f->o.real[0] = 0.1; /* so that differences are no worse than FP32 */
    run(f, plain);
    for (int i = 0; i < 4; i++) memcpy(b->in[i], w->by[i], sizeof b->in[i]);
    memcpy(b->in[IN_QKV_HEADS_D_qkv], f->in[IN_QKV_HEADS_qkv], sizeof b->in[0]);
    memcpy(b->in[IN_QKV_HEADS_D_wq], f->in[IN_QKV_HEADS_wq], sizeof b->in[0]);
    memcpy(b->in[IN_QKV_HEADS_D_wk], f->in[IN_QKV_HEADS_wk], sizeof b->in[0]);
    memcpy(b->in[IN_QKV_HEADS_D_rq], f->out[OUT_QKV_HEADS_rq], sizeof b->in[0]);
    memcpy(b->in[IN_QKV_HEADS_D_rk], f->out[OUT_QKV_HEADS_rk], sizeof b->in[0]);
    memcpy(b->in[IN_QKV_HEADS_D_table], f->in[IN_QKV_HEADS_table], sizeof b->in[0]);
    /* The table has any numbers here: the inverse rotation is the transpose, and so the gradient,
     * whatever they are. */
    run(b, plain);
    for (int i = 0; i < 4; i++) assert_memory_equal(b->in[i], w->by[i], sizeof b->in[i]);
    same_as_differences(f, w, IN_QKV_HEADS_qkv, b->out[OUT_QKV_HEADS_D_dqkv], all);
    if (norms) {
        same_as_differences(f, w, IN_QKV_HEADS_wq, b->out[OUT_QKV_HEADS_D_dwq], D);
        same_as_differences(f, w, IN_QKV_HEADS_wk, b->out[OUT_QKV_HEADS_D_dwk], D);
    }
    free(f);
    free(b);
    free(w);
}

static void gradients_of_heads_equal_differences(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++)
        heads_gradient((i & 1 ? INTERLEAVED : 0) | (i & 2 ? ZERO_CENTRED : 0), i & 4, i & 8,
                       i % 3 == 0);
}

static void gradients_of_a_norm_equal_differences(void **state)
{
    (void)state;
    enum { M = 7, H = 9 };
    const int64_t dim[] = {M, H};
    for (int i = 0; i < 4; i++) {
        fused_case *f = case_of(OP_ADD_NORM, dim, 2, ~7u, ~7u);
        fused_case *b = case_of(OP_NORM_BACK, dim, 2, ~15u, ~3u);
        weights *w = calloc(1, sizeof *w);
        *w = (weights){.sizes = {0, M * H}, .n = 2};
        fill(w->by[1], ROOM, 5);
        f->o.flags = i & 1 ? ZERO_CENTRED : 0;
        b->o.flags = f->o.flags | (i & 2 ? ACCUMULATE : 0);
        f->o.real[0] = 0.1;
        run(f, i == 0);
        memcpy(b->in[IN_NORM_BACK_dy], w->by[1], sizeof b->in[0]);
        memcpy(b->in[IN_NORM_BACK_x], f->out[OUT_ADD_NORM_h], sizeof b->in[0]);
        memcpy(b->in[IN_NORM_BACK_w], f->in[IN_ADD_NORM_w], sizeof b->in[0]);
        memcpy(b->in[IN_NORM_BACK_rstd], f->out[OUT_ADD_NORM_rstd], sizeof b->in[0]);
        for (int k = 0; k < M * H; k++) b->out[OUT_NORM_BACK_dx][k] = 3;
        run(b, i == 0);
        for (int k = 0; (i & 2) && k < M * H; k++) b->out[OUT_NORM_BACK_dx][k] -= 3;
        same_as_differences(f, w, IN_ADD_NORM_a, b->out[OUT_NORM_BACK_dx], M * H);
        same_as_differences(f, w, IN_ADD_NORM_b, b->out[OUT_NORM_BACK_dx], M * H);
        same_as_differences(f, w, IN_ADD_NORM_w, b->out[OUT_NORM_BACK_dw], H);
        free(f);
        free(b);
        free(w);
    }
}

/* BF16 between the parts: the sum is rounded before it is normed. */
static void sums_are_rounded_before_they_are_normed(void **state)
{
    (void)state;
    enum { H = 8 };
    const int64_t dim[] = {1, H};
    fused_case *c = case_of(OP_ADD_NORM, dim, 2, ~7u, ~7u);
    op_types t = {.in = {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
                  .out = {DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
                  .out_elements = {H, H, 1}};
    int n;
    const kernel *rows = kernels_cpu(&n), *row = kernel_pick(rows, n, &c->o, NULL, true);
    void *in[OP_IN_MAX] = {c->in[0], c->in[1], c->in[2]};
    void *out[OP_OUT_MAX] = {c->out[0], c->out[1], c->out[2]};
    double squares = 0;
    fused_run(row, &c->o, &t, in, out);
    for (int i = 0; i < H; i++) {
        float h = bf16_to_float(bf16_of_float(c->in[0][i] + c->in[1][i]));
        assert_true(c->out[OUT_ADD_NORM_h][i] == h);
        squares += (double)h * (double)h;
    }
    assert_true(fabs((double)c->out[OUT_ADD_NORM_rstd][0] - 1 / sqrt(squares / H + 1e-5)) < 1e-6);
    free(c);
}

/* Each form writes every output of its kind that is there, and a pattern starts with no fused
 * kind. */
static void forms_write_every_output(void **state)
{
    (void)state;
    int n;
    const fused_form *forms = fused_forms(&n);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        bool written[OP_OUT_MAX] = {false};
        for (int p = 0; p < forms[i].n_parts; p++) {
            assert_false(op_is_fused(forms[i].parts[p].kind));
            for (int k = 0; k < OP_OUT_MAX; k++) {
                int id = forms[i].parts[p].out[k] - OP_IN_MAX;
                if (id >= 0 && id < OP_OUT_MAX) written[id] = true;
            }
        }
        assert_true(written[0] && op_is_fused(forms[i].kind));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_heads_equal_differences),
        cmocka_unit_test(gradients_of_a_norm_equal_differences),
        cmocka_unit_test(sums_are_rounded_before_they_are_normed),
        cmocka_unit_test(forms_write_every_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
