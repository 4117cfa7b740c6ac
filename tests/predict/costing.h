/* costing.h - an operation of given sizes on a described machine, without a program around it. */
#ifndef TESTS_PREDICT_COSTING_H
#define TESTS_PREDICT_COSTING_H

#include "ir/testing.h"

#include <math.h>

#include "predict/cost.h"

enum { COSTING_BUFS = OP_IN_MAX + OP_OUT_MAX };

typedef struct costing {
    arena *a;
    hardware hw;
    setup s;
    cost_model c;
} costing;

/* `chip` as the file's name has it; `words` are overrides separated by spaces. */
static inline void costing_open(costing *x, const char *chip, const char *model_name,
                                const char *words)
{
    error err = {{0}};
    x->a = arena_create();
    if (hardware_read(&x->hw, chip, x->a, &err)) fail_msg("%s", err.text);
    setup_of_words(&x->s, x->a, model_name, words);
    assert_true(x->s.possible);
    cost_init(&x->c, &x->hw, &x->s, NULL);
}

static inline void costing_close(costing *x)
{
    arena_destroy(x->a);
}

/* One operation and its buffers. */
typedef struct lone_op {
    segment seg;
    buf bufs[COSTING_BUFS];
    op o;
} lone_op;

static inline void lone_init(lone_op *x, op_kind kind, const char *name, const int64_t *dim, int n)
{
    *x = (lone_op){.o = {.kind = kind, .name = name, .module = MODULE_MOE, .type = DTYPE_BF16}};
    x->seg = (segment){.name = "test", .bufs = x->bufs};
    for (int i = 0; i < OP_IN_MAX; i++) x->o.in[i] = -1;
    for (int i = 0; i < OP_OUT_MAX; i++) x->o.out[i] = -1;
    for (int i = 0; i < n; i++) x->o.dim[i] = dim[i];
}

static inline int lone_buf(lone_op *x, const char *name, double bytes)
{
    int id = x->seg.n_bufs++;
    x->bufs[id] = (buf){.name = name, .life = LIFE_TEMP, .type = DTYPE_BF16, .parent = -1};
    x->bufs[id].bytes = (int64_t)bytes;
    return id;
}

static inline op_cost lone_cost(const costing *c, const lone_op *x)
{
    return cost_of(&c->c, &x->seg, &x->o);
}

static inline void near(const char *what, double got, double wanted, double part)
{
    if (fabs(got - wanted) > part * wanted)
        fail_msg("%s: %g, expected %g within %g %%", what, got, wanted, 100 * part);
}

#endif
