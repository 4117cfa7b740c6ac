/* pick.c - the choice of a row: the same for every device. */
#include "backend/kernels/kernels.h"

const kernel *kernel_pick(const kernel *table, int n, const op *o, const op_types *t,
                          bool plain_only)
{
    static const op_types fp32;
    const kernel *best = NULL;
    for (int i = 0; i < n; i++) {
        const kernel *k = table + i;
        if (k->kind != o->kind || (k->accepts && !k->accepts(o, t ? t : &fp32))) continue;
        best = k;
        if (plain_only) break;
    }
    return best;
}

int64_t kernel_workspace_of(const kernel *k, const op *o, const op_types *t)
{
    return k->workspace ? k->workspace(o, t) : 0;
}
