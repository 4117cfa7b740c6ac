/* fused.c - plain rows of fused kinds: the plain rows of their parts, one after another, with what
 * lies between them in the workspace. */
#include "op/fused.h"

#include "backend/cuda/kernels/parts.h"

static const kernel *row_of(const op *part, const op_types *t)
{
    int n;
    const kernel *rows = kernels_cuda(&n);
    return kernel_pick(rows, n, part, t, true);
}

static bool takes(const op *o, const op_types *t)
{
    fused_steps f;
    if (!cuda_types_fit(o, t)) return false;
    fused_expand(&f, o, t);
    for (int i = 0; i < f.n; i++)
        if (!row_of(&f.ops[i], &f.types[i])) return false;
    return true;
}

static int64_t workspace(const op *o, const op_types *t)
{
    fused_steps f;
    int64_t at[FUSED_BETWEEN_MAX], most = 0;
    fused_expand(&f, o, t);
    for (int i = 0; i < f.n; i++) {
        const kernel *row = row_of(&f.ops[i], &f.types[i]);
        int64_t n = row ? kernel_workspace_of(row, &f.ops[i], &f.types[i]) : 0;
        if (n > most) most = n;
    }
    return fused_places(&f, at) + most;
}

static void launch(const kernel_call *c)
{
    fused_steps f;
    int64_t at[FUSED_BETWEEN_MAX];
    fused_expand(&f, c->o, c->types);
    char *room = c->workspace;
    int64_t behind = fused_places(&f, at);
    for (int i = 0; i < f.n; i++) {
        void *in[OP_IN_MAX], *out[OP_OUT_MAX];
        for (int k = 0; k < OP_IN_MAX + OP_OUT_MAX; k++) {
            int id = k < OP_IN_MAX ? f.ops[i].in[k] : f.ops[i].out[k - OP_IN_MAX];
            void *p = id < 0               ? NULL
                      : id < OP_IN_MAX     ? c->in[id]
                      : id < FUSED_BETWEEN ? c->out[id - OP_IN_MAX]
                                           : room + at[id - FUSED_BETWEEN];
            *(k < OP_IN_MAX ? &in[k] : &out[k - OP_IN_MAX]) = p;
        }
        const kernel *row = row_of(&f.ops[i], &f.types[i]);
        row->launch(&(kernel_call){.row = row,
                                   .o = &f.ops[i],
                                   .types = &f.types[i],
                                   .in = in,
                                   .out = out,
                                   .workspace = room + behind,
                                   .stream = c->stream});
    }
}

cuda_part cuda_fused(void)
{
    static kernel rows[OP_COUNT];
    int n = 0;
    for (int k = 0; k < OP_COUNT; k++)
        if (op_is_fused((op_kind)k))
            rows[n++] = (kernel){.kind = (op_kind)k,
                                 .name = "plain",
                                 .accepts = takes,
                                 .workspace = workspace,
                                 .launch = launch};
    return (cuda_part){rows, n};
}
