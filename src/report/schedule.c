/* schedule.c - units of a schedule and bytes over the step.
 *
 * I1  A picture has room for so many units; of more, those in the middle are left out alike for
 *     every stage: a steady state repeats. */
#include "report/schedule.h"

#include <string.h>

typedef struct watching {
    report_schedule *out;
    arena *a;
    alive_list *alive; /* [pp] in the order of the play, which is that of time */
} watching;

/* ---- units */

/* Is `part` the same work as `u`, or one of the halves of that pair? Layers of a pair that have no
 * partner run alone between the others. */
static bool is_part(const report_unit *part, const report_unit *u)
{
    bool forward = part->chunk == u->chunk && part->micro == u->micro;
    bool backward = part->chunk == u->with_chunk && part->micro == u->with_micro;
    if (part->kind == u->kind)
        return forward && part->with_chunk == u->with_chunk && part->with_micro == u->with_micro;
    if (u->kind != UNIT_PAIR) return false;
    return part->kind == UNIT_FORWARD ? forward : part->kind == UNIT_BACKWARD && backward;
}

static void add_unit(watching *w, const seen_item *i)
{
    const item *it = i->it;
    report_stage *s = &w->out->stages[i->p->at.pp];
    bool pair = it->seg->kind == SEGMENT_PAIR && it->at[1].chunk >= 0;
    if (it->at[0].chunk < 0) return;
    report_unit u = {.kind = pair ? UNIT_PAIR : (unit_kind)it->phase,
                     .chunk = it->at[0].chunk,
                     .micro = it->at[0].micro,
                     .with_chunk = pair ? it->at[1].chunk : -1,
                     .with_micro = pair ? it->at[1].micro : -1,
                     .start = i->start,
                     .end = i->end};
    if (s->n && is_part(&u, &s->units[s->n - 1])) {
        s->units[s->n - 1].end = u.end;
        return;
    }
    while (pair && s->n && is_part(&s->units[s->n - 1], &u)) u.start = s->units[--s->n].start;
    ARENA_GROW(w->a, s->units, s->n, s->room);
    s->units[s->n++] = u;
}

static void shorten(report_schedule *out)
{
    int64_t all = 0, each = UNITS_MAX / out->n_stages / 2 * 2;
    for (int64_t i = 0; i < out->n_stages; i++) all += out->stages[i].n;
    if (all <= UNITS_MAX) return;
    for (int64_t i = 0; i < out->n_stages; i++) { /* I1 */
        report_stage *s = &out->stages[i];
        if (s->n <= each) continue;
        s->left_out = s->n - each;
        s->left_at = each / 2;
        memmove(&s->units[s->left_at], &s->units[s->n - each / 2],
                sizeof *s->units * (size_t)(each / 2));
        s->n = each;
    }
}

/* ---- all of it */

static bool see_item(void *to, const seen_item *i)
{
    watching *w = to;
    if (i->part == PART_STEP) add_unit(w, i);
    if (i->part == PART_STEP)
        alive_add(&w->alive[i->p->at.pp], i->p, i->it, i->start, i->end, w->a);
    return false;
}

void report_simulation(report_schedule *out, const price_job *j, arena *a)
{
    int64_t pp = j->s->pipe.pp;
    arena *scratch = arena_create();
    *out = (report_schedule){.stages = ARENA_ARRAY(a, report_stage, pp), .n_stages = pp};
    watching w = {.out = out, .a = scratch, .alive = ARENA_ARRAY(scratch, alive_list, pp)};
    price_watched(&out->p, &out->step, j, &(watcher){&w, see_item, NULL}, a);
    out->fullest = layout_coordinate(&j->s->lay, GRID_DENSE, AXIS_PP, out->p.fullest);
    shorten(out);
    for (int64_t i = 0; i < pp; i++) {
        report_stage *s = &out->stages[i];
        report_unit *kept = ARENA_ARRAY(a, report_unit, s->n + 1);
        if (s->n) memcpy(kept, s->units, sizeof *kept * (size_t)s->n);
        s->units = kept;
        s->rank = layout_stage_rank(&j->s->lay, i);
    }
    out->memory = ARENA_ARRAY(a, memory_point, MEMORY_POINTS);
    out->n_memory = MEMORY_POINTS;
    out->most_saved =
        alive_sample(out->memory, out->n_memory, &w.alive[out->fullest], out->step.step_s);
    arena_destroy(scratch);
}
