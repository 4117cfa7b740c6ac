/* executor_first.c - the launches before the first step: each kernel has to be met once, not each
 * operation. A step of half a million tokens takes a minute, and a large batch has many
 * microbatches; of GEMMs, attention and heads that are alike the first alone is launched.
 *
 * I1  Nothing else is left out: what others write may be read as an index (routing, sorting), and
 *     a place that nobody has written holds anything. Of numbers anything will do. */
#include <string.h>

#include "train/executor/executor_state.h"

typedef struct launched {
    const op *o;
    const bound_op *b;
} launched;

struct first_launches {
    arena *memory;
    launched *list;
    int n, room;
};

static bool may_be_left_out(const op *o)
{
    switch (cost_kind_of_op(o)) {
    case COST_GEMM:
    case COST_GROUPED:
    case COST_ATTENTION:
    case COST_HEAD:
        return !op_is_comm(o->kind); /* I1 */
    default:
        return false;
    }
}

static bool alike(const launched *l, const op *b, const bound_op *y)
{
    const op *a = l->o;
    const bound_op *x = l->b;
    if (x->row != y->row || a->flags != b->flags || memcmp(a->dim, b->dim, sizeof a->dim) != 0)
        return false;
    for (int i = 0; i < OP_IN_MAX; i++)
        if ((a->in[i] < 0) != (b->in[i] < 0) || (a->in[i] >= 0 && x->types.in[i] != y->types.in[i]))
            return false;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if ((a->out[i] < 0) != (b->out[i] < 0) ||
            (a->out[i] >= 0 && x->types.out[i] != y->types.out[i]))
            return false;
    return true;
}

bool executor_met(executor *e, const op *o, const bound_op *b)
{
    first_launches *f = e->first;
    if (!may_be_left_out(o)) return false;
    for (int i = 0; i < f->n; i++)
        if (alike(&f->list[i], o, b)) return true;
    ARENA_GROW(f->memory, f->list, f->n, f->room);
    f->list[f->n++] = (launched){o, b};
    return false;
}

void executor_first(executor *e, bool begins)
{
    if (begins) {
        arena *memory = arena_create();
        e->first = ARENA_NEW(memory, first_launches);
        e->first->memory = memory;
    } else {
        arena *memory = e->first->memory;
        e->first = NULL;
        arena_destroy(memory);
    }
}
