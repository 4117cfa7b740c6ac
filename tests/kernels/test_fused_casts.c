/* test_fused_casts.c - kinds that end with QUANTISE on the CPU: codes, scales and other outputs are
 * those of the parts, launched one after another on BF16 tensors, bit for bit, by plain and by fast
 * rows: what would lie between them is rounded as if it were written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/narrow.h"
#include "backend/kernels/kernels.h"
#include "op/fused.h"
#include "op/quant.h"

enum { OPERANDS = OP_IN_MAX + OP_OUT_MAX, EXPERTS = 3, TOKENS = 40, CHOSEN = 2, ROOM = 400 };

typedef struct made {
    op o;
    op_types t;
    void *at[OPERANDS], *want[OP_OUT_MAX];
    int64_t bytes[OPERANDS];
} made;

static uint32_t seed = 5;

static float next_number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)((double)(seed >> 8) / (1 << 23) - 1);
}

static void *room_of(int64_t bytes)
{
    void *p = malloc((size_t)bytes + 64);
    assert_non_null(p);
    memset(p, 0x55, (size_t)bytes + 64);
    return p;
}

static void put(made *m, int at, dtype type, int64_t n)
{
    bool in = at < OP_IN_MAX;
    int i = in ? at : at - OP_IN_MAX;
    *(in ? &m->t.in[i] : &m->t.out[i]) = type;
    *(in ? &m->t.in_elements[i] : &m->t.out_elements[i]) = n;
    *(in ? &m->o.in[i] : &m->o.out[i]) = at;
    m->bytes[at] = dtype_bytes(type, n);
    m->at[at] = room_of(m->bytes[at]);
    if (!in) m->want[i] = room_of(m->bytes[at]);
    for (int64_t k = 0; in && k < n; k++) {
        if (type == DTYPE_BF16) ((uint16_t *)m->at[at])[k] = bf16_of_float(next_number());
        if (type == DTYPE_F32) ((float *)m->at[at])[k] = next_number();
    }
}

/* The second expert has no rows; some behind the last are left. */
static void put_offsets(made *m, int i)
{
    static const int32_t starts[EXPERTS + 1] = {0, 128, 128, 256};
    put(m, i, DTYPE_I32, EXPERTS + 1);
    memcpy(m->at[i], starts, sizeof starts);
}

static void put_rows(made *m, int i)
{
    put(m, i, DTYPE_I32, TOKENS * CHOSEN);
    for (int t = 0; t < TOKENS; t++)
        for (int k = 0; k < CHOSEN; k++)
            ((int32_t *)m->at[i])[t * CHOSEN + k] = t % 13 == 5 ? -1 : 128 * k + t;
}

static void put_codes(made *m, int first, quant_form form, int64_t rows, int64_t cols)
{
    for (int turned = 0; turned < 2; turned++) {
        quant_shape z = {form, false, turned ? cols : rows, turned ? rows : cols};
        put(m, OP_IN_MAX + first + 2 * turned, DTYPE_E4M3, rows * cols);
        put(m, OP_IN_MAX + first + 2 * turned + 1, quant_info_of(form).scale, quant_scales(z));
    }
}

static void make(made *m, op_kind kind, quant_form form, int64_t width, unsigned flags)
{
    *m = (made){.o = {.kind = kind, .name = "test", .flags = flags, .real = {1e-5}}};
    for (int i = 0; i < OP_IN_MAX; i++) m->o.in[i] = -1;
    for (int i = 0; i < OP_OUT_MAX; i++) m->o.out[i] = -1;
    const int64_t act[OP_DIM_MAX] = {EXPERTS, ROOM, width, form, DTYPE_E4M3};
    const int64_t moved[OP_DIM_MAX] = {TOKENS, CHOSEN, width, ROOM, EXPERTS, form, DTYPE_E4M3};
    const int64_t norm[OP_DIM_MAX] = {TOKENS, width, form, DTYPE_E4M3};
    bool acts = kind == OP_ACT_QUANT || kind == OP_ACT_D_QUANT;
    memcpy(m->o.dim, acts ? act : kind == OP_NORM_QUANT ? norm : moved, sizeof act);
    switch (kind) {
    case OP_ACT_QUANT:
        put(m, IN_ACT_QUANT_u, DTYPE_BF16, ROOM * 2 * width);
        put(m, IN_ACT_QUANT_p, DTYPE_F32, ROOM);
        put_offsets(m, IN_ACT_QUANT_offsets);
        put_codes(m, OUT_ACT_QUANT_q, form, ROOM, width);
        return;
    case OP_ACT_D_QUANT:
        put(m, IN_ACT_D_QUANT_da, DTYPE_BF16, ROOM * width);
        put(m, IN_ACT_D_QUANT_u, DTYPE_BF16, ROOM * 2 * width);
        put(m, IN_ACT_D_QUANT_p, DTYPE_F32, ROOM);
        put_offsets(m, IN_ACT_D_QUANT_offsets);
        put_codes(m, OUT_ACT_D_QUANT_q, form, ROOM, 2 * width);
        put(m, OP_IN_MAX + OUT_ACT_D_QUANT_dp, DTYPE_F32, ROOM);
        return;
    case OP_PERMUTE_QUANT:
        put(m, IN_PERMUTE_QUANT_x, DTYPE_BF16, TOKENS * width);
        put(m, IN_PERMUTE_QUANT_probs, DTYPE_F32, TOKENS * CHOSEN);
        put_rows(m, IN_PERMUTE_QUANT_rows);
        put_offsets(m, IN_PERMUTE_QUANT_offsets);
        put_codes(m, OUT_PERMUTE_QUANT_q, form, ROOM, width);
        put(m, OP_IN_MAX + OUT_PERMUTE_QUANT_pp, DTYPE_F32, ROOM);
        return;
    case OP_UNPERMUTE_D_QUANT:
        put(m, IN_UNPERMUTE_D_QUANT_dy, DTYPE_BF16, TOKENS * width);
        put_rows(m, IN_UNPERMUTE_D_QUANT_rows);
        put_offsets(m, IN_UNPERMUTE_D_QUANT_offsets);
        put_codes(m, OUT_UNPERMUTE_D_QUANT_q, form, ROOM, width);
        return;
    default:
        put(m, IN_NORM_QUANT_x, DTYPE_BF16, TOKENS * width);
        put(m, IN_NORM_QUANT_w, DTYPE_BF16, width);
        put_codes(m, OUT_NORM_QUANT_q, form, TOKENS, width);
        put(m, OP_IN_MAX + OUT_NORM_QUANT_rstd, DTYPE_F32, TOKENS);
    }
}

static void launch(const op *o, const op_types *t, void *const *in, void *const *out, bool plain)
{
    int n;
    const kernel *rows = kernels_cpu(&n), *k = kernel_pick(rows, n, o, t, plain);
    void *state = NULL, *work = room_of(kernel_workspace_of(k, o, t));
    error err = {{0}};
    if (k->prepare && k->prepare(o, t, &state, &err)) fail_msg("%s", err.text);
    k->launch(&(kernel_call){k, o, t, in, out, work, NULL, state});
    if (k->release) k->release(state);
    free(work);
}

static void run_parts(made *m, bool plain)
{
    fused_steps f;
    void *between[FUSED_BETWEEN_MAX] = {NULL};
    fused_expand(&f, &m->o, &m->t);
    for (int i = 0; i < f.n_between; i++) {
        assert_int_equal(f.type[i], DTYPE_BF16);
        between[i] = room_of(dtype_bytes(f.type[i], f.elements[i]));
    }
    for (int i = 0; i < f.n; i++) {
        void *at[OPERANDS] = {NULL};
        for (int k = 0; k < OPERANDS; k++) {
            int id = k < OP_IN_MAX ? f.ops[i].in[k] : f.ops[i].out[k - OP_IN_MAX];
            if (id < 0) continue;
            at[k] = id < OP_IN_MAX       ? m->at[id]
                    : id < FUSED_BETWEEN ? m->want[id - OP_IN_MAX]
                                         : between[id - FUSED_BETWEEN];
        }
        launch(&f.ops[i], &f.types[i], at, at + OP_IN_MAX, plain);
    }
    for (int i = 0; i < f.n_between; i++) free(between[i]);
}

static void codes_are_those_of_the_parts(void **state)
{
    (void)state;
    for (op_kind k = OP_ACT_QUANT; k <= OP_NORM_QUANT; k++)
        for (int i = 0; i < 8; i++) {
            made m;
            bool plain = i & 1, act = k == OP_ACT_QUANT || k == OP_ACT_D_QUANT;
            unsigned flags = !(i & 4) ? 0 : act ? CLAMPED : k == OP_NORM_QUANT ? ZERO_CENTRED : 0;
            make(&m, k, i & 2 ? QUANT_MX : QUANT_BLOCK, i & 2 ? 80 : 160, flags);
            launch(&m.o, &m.t, m.at, m.at + OP_IN_MAX, plain);
            run_parts(&m, plain);
            for (int n = 0; n < OP_OUT_MAX; n++)
                if (m.want[n] &&
                    memcmp(m.want[n], m.at[OP_IN_MAX + n], (size_t)m.bytes[OP_IN_MAX + n]) != 0)
                    fail_msg("%s, case %d: output %d differs", op_infos[k].name, i, n);
            for (int n = 0; n < OPERANDS; n++) free(m.at[n]);
            for (int n = 0; n < OP_OUT_MAX; n++) free(m.want[n]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes_are_those_of_the_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
