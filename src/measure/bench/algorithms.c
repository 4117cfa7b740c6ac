/* algorithms.c - see algorithms.h. */
#include "measure/bench/algorithms.h"

#include <string.h>

#include "ir/program.h"

static bool is_gemm(op_kind k)
{
    return op_infos[k].cost == COST_CLASS_GEMM || op_infos[k].cost == COST_CLASS_HEAD;
}

static status prepare(device *d, const segment *seg, const op *o, int *others, error *err)
{
    int n;
    void *state = NULL;
    const kernel *rows = d->table->rows(&n);
    const op_types types = seg_op_types(seg, o);
    const kernel *k = kernel_pick(rows, n, o, &types, false);
    if (!k || strncmp(k->name, "cublaslt", strlen("cublaslt")) != 0) {
        *others += 1;
        return OK;
    }
    if (k->prepare) TRY(k->prepare(o, &types, &state, err));
    if (k->release) k->release(state);
    return OK;
}

static status prepare_segment(device *d, const segment *seg, int *others, error *err)
{
    status s = OK;
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < seg->n_ops[phase] && !s; i++)
            if (is_gemm(seg->ops[phase][i].kind))
                s = prepare(d, seg, &seg->ops[phase][i], others, err);
    return s;
}

status measure_algorithms(const setup *s, device *d, int *others, error *err)
{
    status st = OK;
    *others = 0;
    for (int64_t i = 0; i < s->pipe.pp && !st; i++) {
        arena *a = arena_create();
        program *p = ARENA_NEW(a, program);
        program_build(p, s, layout_stage_rank(&s->lay, i), a);
        for (int k = 0; k < p->n_segments && !st; k++)
            st = prepare_segment(d, p->segments[k], others, err);
        arena_destroy(a);
    }
    return st;
}
