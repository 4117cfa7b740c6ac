/* grow.c - routed buffers that were too small for a step.
 *
 * Only routed buffers grow: weights and moments stay where they are, the rest of the memory is
 * taken anew. Gradients are made again by the step that follows. */
#include <math.h>

#include "backend/comm/agree.h"
#include "train/loop/state.h"

/* The buffer that was asked for most, of a rank. */
typedef struct overflow {
    double wanted, room; /* rows; wanted 0: none was too small */
    int64_t layer;
} overflow;

static bool worse(const overflow *a, const overflow *b)
{
    return b->wanted == 0 || a->wanted * b->room > b->wanted * a->room;
}

static overflow own_overflow(const trainer *t)
{
    const float *rows = t->report.rows;
    overflow worst = {0};
    for (int64_t i = 0; i < t->report.n_layers; i++) {
        overflow o = {(double)rows[2 * i], (double)rows[2 * i + 1], i};
        if (o.wanted > o.room && worse(&o, &worst)) worst = o;
    }
    return worst;
}

static overflow worst_overflow(const trainer *t, int64_t *rank)
{
    arena *scratch = arena_create();
    int64_t n = comm_size(t->c);
    overflow mine = own_overflow(t), worst = {0}, *all = ARENA_ARRAY(scratch, overflow, n);
    comm_collect(t->c, GROUP_WORLD, &mine, sizeof mine, all);
    for (int64_t r = 0; r < n; r++)
        if (all[r].wanted > 0 && worse(&all[r], &worst)) {
            worst = all[r];
            *rank = r;
        }
    arena_destroy(scratch);
    return worst;
}

/* Half as much again as was wanted, in tenths. */
static double enough(const trainer *t, const overflow *o)
{
    double factor = t->s->j.buffer_factor;
    double wanted = o->room > 0 ? o->wanted / o->room : 2;
    return ceil(factor * wanted * 1.5 * 10) / 10;
}

static status open_larger(trainer *t, double factor, error *err)
{
    setup *s = ARENA_NEW(t->a, setup);
    *s = *t->s;
    setup_set(s, K_BUFFER_FACTOR, value_of_float(factor), "routed buffers were too small");
    comm_work work = comm_work_begin(t->c, WORK_BUILD);
    status st = ranks_agree(t->c, trainer_open(t, s, err), err);
    comm_work_end(t->c, work);
    return st;
}

status trainer_grow(trainer *t, error *err)
{
    enum { FACTOR_MAX = 1024 }; /* of the knob */
    int64_t rank = 0, bytes = t->p->arena_bytes;
    overflow o = worst_overflow(t, &rank);
    double factor = enough(t, &o), before = t->s->j.buffer_factor;
    char *what = arena_text(
        t->a, "step %lld: rank %lld, layer %lld: %.0f rows do not fit into a routed buffer of %.0f",
        (long long)t->at.iteration + 1, (long long)rank, (long long)o.layer, o.wanted, o.room);
    if (t->s->j.on_overflow == J_ON_OVERFLOW_STOP || factor > FACTOR_MAX)
        return error_set(err, ERR_MACHINE,
                         "%s; %s (steps after the last checkpoint are lost); repair: "
                         "moefold.moe_buffer_factor=%g",
                         what,
                         factor > FACTOR_MAX ? "no factor is large enough"
                                             : "stopped because moefold.on_overflow=stop",
                         factor > FACTOR_MAX ? (double)FACTOR_MAX : factor);
    status s = open_larger(t, factor, err);
    if (s) return s;
    t->at.buffer_factor = factor;
    trainer_say(t, stderr,
                arena_text(t->a,
                           "%s; moefold.moe_buffer_factor %g becomes %g (arena of rank 0: %s "
                           "becomes %s), and the step runs again",
                           what, before, factor, text_bytes(t->a, bytes),
                           text_bytes(t->a, t->p->arena_bytes)));
    return OK;
}

status trainer_grow_as_before(trainer *t, error *err)
{
    double factor = t->at.buffer_factor, before = t->s->j.buffer_factor;
    if (factor <= before || t->s->j.on_overflow == J_ON_OVERFLOW_STOP) return OK;
    status s = open_larger(t, factor, err);
    if (s)
        return error_prefix(err, s,
                            "moefold.moe_buffer_factor=%g, which the run before needed "
                            "(moefold.on_overflow=stop leaves it at %g)",
                            factor, before);
    trainer_say(t, stderr,
                arena_text(t->a,
                           "moefold.moe_buffer_factor %g becomes %g, as before iteration %lld",
                           before, factor, (long long)t->at.iteration));
    return OK;
}
