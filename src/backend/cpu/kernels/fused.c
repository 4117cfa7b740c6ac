/* fused.c - see fused.h. */
#include "backend/cpu/kernels/fused.h"

#include <string.h>

#include "backend/cpu/kernels/rows.h"

static void round_to(dtype type, float *x, int64_t n)
{
    enum { BLOCK = 1 << 10 };
    uint16_t narrow[BLOCK];
    for (int64_t i = 0; type == DTYPE_BF16 && i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        bf16_of_floats(narrow, x + i, m);
        bf16_to_floats(x + i, narrow, m);
    }
}

static void *address(int operand, void *const *in, void *const *out, float *const *between)
{
    if (operand < 0) return NULL;
    if (operand < OP_IN_MAX) return in[operand];
    return operand < FUSED_BETWEEN ? out[operand - OP_IN_MAX] : between[operand - FUSED_BETWEEN];
}

/* QUANTISE reads its operand in the format that it has: here FP32, rounded as the part before it
 * would have written it. */
static void run_part(const kernel *row, const op *part, void *const *in, void *const *out)
{
    static const op_types wide;
    if (row->run)
        row->run(part, in, out);
    else
        row->launch(&(kernel_call){.row = row, .o = part, .types = &wide, .in = in, .out = out});
}

static void run_parts(const op *o, const op_types *t, void *const *in, void *const *out, bool plain)
{
    int n_rows;
    const kernel *rows = kernels_cpu(&n_rows);
    fused_steps f, wide;
    int64_t at[FUSED_BETWEEN_MAX];
    float *between[FUSED_BETWEEN_MAX] = {NULL};
    fused_expand(&wide, o, NULL);
    fused_expand(&f, o, t);
    unsigned char *room = kernel_workspace((size_t)fused_places(&wide, at));
    for (int i = 0; i < f.n_between; i++) between[i] = (float *)(void *)(room + at[i]);
    for (int i = 0; i < f.n; i++) {
        const op *part = &f.ops[i];
        void *from[OP_IN_MAX], *to[OP_OUT_MAX];
        for (int k = 0; k < OP_IN_MAX; k++) from[k] = address(part->in[k], in, out, between);
        for (int k = 0; k < OP_OUT_MAX; k++) to[k] = address(part->out[k], in, out, between);
        run_part(kernel_pick(rows, n_rows, part, NULL, plain), part, from, to);
        for (int k = 0; k < OP_OUT_MAX; k++)
            if (to[k]) round_to(f.types[i].out[k], to[k], f.types[i].out_elements[k]);
    }
}

void fused_run(const kernel *row, const op *o, const op_types *t, void *const *in, void *const *out)
{
    run_parts(o, t, in, out, strcmp(row->name, "plain") == 0);
}

static void run_plain(const op *o, void *const *in, void *const *out)
{
    run_parts(o, NULL, in, out, true);
}

static void run_fast(const op *o, void *const *in, void *const *out)
{
    run_parts(o, NULL, in, out, false);
}

/* One for every kind that has parts. */
static kernel_rows rows_of_parts(kernel room[OP_COUNT], const char *name, kernel_run run)
{
    int n = 0;
    for (int k = 0; k < OP_COUNT; k++)
        if (op_is_fused((op_kind)k))
            room[n++] = (kernel){.kind = (op_kind)k, .name = name, .run = run};
    return (kernel_rows){room, n};
}

kernel_rows plain_fused(void)
{
    static kernel room[OP_COUNT];
    return rows_of_parts(room, "plain", run_plain);
}

kernel_rows fast_fused(void)
{
    static kernel room[OP_COUNT];
    return rows_of_parts(room, "parts", run_fast);
}
