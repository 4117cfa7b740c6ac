/* schedule.c - units of a schedule and bytes over the step.
 *
 * I1  Saved buffers are alive from the start of an instance's forward to the end of its backward,
 *     temporaries while their list runs. The plan has more where inputs are received ahead: their
 *     slots are taken sooner.
 * I2  A picture has room for so many units; of more, those in the middle are left out alike for
 *     every stage: a steady state repeats. */
#include "report/schedule.h"

#include <string.h>

typedef struct change {
    double at;
    int64_t saved, temp; /* that come, or go where negative */
} change;

typedef struct change_list {
    change *list;
    int64_t n, room;
} change_list;

typedef struct watching {
    report_schedule *out;
    arena *a;
    change_list *changes; /* [pp] in the order of the play, which is that of time */
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
    for (int64_t i = 0; i < out->n_stages; i++) { /* I2 */
        report_stage *s = &out->stages[i];
        if (s->n <= each) continue;
        s->left_out = s->n - each;
        s->left_at = each / 2;
        memmove(&s->units[s->left_at], &s->units[s->n - each / 2],
                sizeof *s->units * (size_t)(each / 2));
        s->n = each;
    }
}

/* ---- memory */

static void add_change(watching *w, int64_t pp, change c)
{
    change_list *l = &w->changes[pp];
    ARENA_GROW(w->a, l->list, l->n, l->room);
    l->list[l->n++] = c;
}

static int64_t saved_of(const program *p, const item_at *at)
{
    return at->chunk < 0 ? 0 : p->chunks[at->chunk].list[at->instance].seg->saved_bytes;
}

static void add_memory(watching *w, const seen_item *i)
{
    const item *it = i->it;
    bool pair = it->seg->kind == SEGMENT_PAIR;
    const item_at *f = it->phase == SEG_FORWARD ? &it->at[0] : NULL;
    const item_at *b = pair ? &it->at[1] : it->phase == SEG_BACKWARD ? &it->at[0] : NULL;
    int64_t pp = i->p->at.pp, temp = it->seg->temp_bytes[it->phase]; /* I1 */
    add_change(w, pp, (change){i->start, f ? saved_of(i->p, f) : 0, temp});
    add_change(w, pp, (change){i->end, b ? -saved_of(i->p, b) : 0, -temp});
}

static void sample_memory(report_schedule *out, const change_list *l, arena *a)
{
    int64_t n = MEMORY_POINTS, k = 0;
    memory_point now = {0};
    out->memory = ARENA_ARRAY(a, memory_point, n);
    out->n_memory = n;
    for (int64_t i = 0; i < n; i++) {
        double end = out->step.step_s * (double)(i + 1) / (double)n;
        memory_point most = now;
        for (; k < l->n && l->list[k].at <= end; k++) {
            now.saved += l->list[k].saved;
            now.temp += l->list[k].temp;
            if (now.saved > out->most_saved) out->most_saved = now.saved;
            if (now.saved + now.temp > most.saved + most.temp) most = now;
        }
        most.at = out->step.step_s * (double)i / (double)n;
        out->memory[i] = most;
    }
}

/* ---- all of it */

static bool see_item(void *to, const seen_item *i)
{
    watching *w = to;
    if (i->part == PART_STEP) add_unit(w, i);
    if (i->part == PART_STEP) add_memory(w, i);
    return false;
}

void report_play(report_schedule *out, const price_job *j, arena *a)
{
    int64_t pp = j->s->pipe.pp;
    arena *scratch = arena_create();
    *out = (report_schedule){.stages = ARENA_ARRAY(a, report_stage, pp), .n_stages = pp};
    watching w = {.out = out, .a = scratch, .changes = ARENA_ARRAY(scratch, change_list, pp)};
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
    sample_memory(out, &w.changes[out->fullest], a);
    arena_destroy(scratch);
}
