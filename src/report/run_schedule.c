/* run_schedule.c - from operations to units.
 *
 * I1  A unit is a row of operations of compute in one direction of one microbatch and chunk; what
 *     has no layer (head, embedding, losses) belongs to the unit that it stands in.
 * I2  A step begins where a rank begins to read its batch. */
#include "report/run_schedule.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

/* I2: of the last step, the first of all ranks. */
static double last_begin(const trace *t)
{
    double begin = INFINITY;
    for (int64_t r = 0; r < t->n_ranks; r++) {
        double own = -1;
        for (int64_t i = 0; i < t->n; i++) {
            const trace_op *o = &t->ops[i];
            bool reads = o->rank == t->ranks[r].rank && text_equal(o->kind, "reading data");
            if (reads && o->start > own) own = o->start;
        }
        if (own >= 0) begin = fmin(begin, own);
    }
    return begin;
}

static int chunk_of(const setup *s, int64_t pp, int64_t layer, int otherwise)
{
    for (int64_t c = 0; c < s->pipe.vpp && layer >= 0; c++) {
        const stage *st = &s->pipe.stages[c * s->pipe.pp + pp];
        if (layer >= st->first_layer && layer < st->first_layer + st->n_layers) return (int)c;
    }
    return otherwise;
}

typedef struct unit_list {
    report_stage *stage;
    const setup *s;
    int64_t pp;
    double begin;
    arena *a;
} unit_list;

static void add_op(unit_list *l, const trace_op *o)
{
    report_stage *st = l->stage;
    bool forward = o->phase && strcmp(o->phase, "forward") == 0;
    report_unit *last = st->n ? &st->units[st->n - 1] : NULL;
    unit_kind kind = forward ? UNIT_FORWARD : UNIT_BACKWARD;
    bool same = last && last->kind == kind && last->micro == o->micro;
    int which = chunk_of(l->s, l->pp, o->layer, same ? last->chunk : 0); /* I1 */
    double end = o->end - l->begin;
    if (same && which == last->chunk) {
        last->end = end;
        return;
    }
    ARENA_GROW(l->a, st->units, st->n, st->room);
    st->units[st->n++] = (report_unit){
        .kind = kind, .chunk = which, .micro = o->micro, .start = o->start - l->begin, .end = end};
}

static bool is_computed(const trace *t, const trace_op *o, double begin)
{
    return o->what == TRACE_OPERATION && o->start >= begin &&
           text_equal(t->streams[o->stream], "compute");
}

bool run_schedule(report_schedule *out, const trace *t, const setup *s, arena *a)
{
    double begin = last_begin(t), optimizer[2] = {INFINITY, 0};
    *out = (report_schedule){.n_stages = s->pipe.pp};
    if (!isfinite(begin)) return false;
    out->stages = ARENA_ARRAY(a, report_stage, s->pipe.pp);
    for (int64_t pp = 0; pp < s->pipe.pp; pp++) {
        unit_list l = {&out->stages[pp], s, pp, begin, a};
        l.stage->rank = layout_stage_rank(&s->lay, pp);
        double end = 0;
        for (int64_t i = 0; i < t->n; i++) {
            const trace_op *o = &t->ops[i];
            if (o->rank != l.stage->rank || !is_computed(t, o, begin)) continue;
            bool in_layers = o->micro >= 0;
            if (in_layers) add_op(&l, o);
            if (in_layers) end = o->end;
            if (!in_layers && end > 0 && o->start >= end && text_equal(o->kind, "optimizer")) {
                optimizer[0] = fmin(optimizer[0], o->start - begin);
                optimizer[1] = fmax(optimizer[1], o->end - begin);
            }
        }
        if (!l.stage->n || l.stage->n > UNITS_MAX / s->pipe.pp) return false;
    }
    out->step.step_s = t->span - begin;
    if (optimizer[1] > optimizer[0]) {
        out->step.all_end = optimizer[0];
        out->step.optimizer = optimizer[1] - optimizer[0];
    }
    return out->step.step_s > 0;
}
