/* timing.c - compares predicted with measured times. */
#include "train/executor/timing.h"

#include <string.h>

/* What a message costs the step: what shows of it, and the cores that move the rest. Waiting for
 * another stage is measured as waiting for its message. */
static double predicted_of(const price *p, const hardware *hw, cost_kind k)
{
    if (k < COST_TP || k > COST_DP) return p->time[k];
    double hidden = p->time[k] - p->exposed[k];
    return p->exposed[k] + hw->message_share * (hidden > 0 ? hidden : 0) +
           (k == COST_PP ? p->bubble : 0);
}

int timing_rows(timing_row *rows, const timing *t, const price *p, const hardware *hw)
{
    int n = 0;
    double each = t->steps > 0 ? 1 / t->steps : 0, left = t->step;
    for (int k = 0; k < COST_KINDS; k++) {
        timing_row r = {cost_kind_title((cost_kind)k), predicted_of(p, hw, (cost_kind)k),
                        t->seconds[k] * each};
        left -= t->seconds[k];
        if (r.predicted > 0 || r.measured > 0) rows[n++] = r;
    }
    rows[n++] = (timing_row){"optimizer and the rest", p->optimizer, left * each};
    rows[n++] = (timing_row){"step", p->step_s, t->step * each};
    return n;
}

timing timing_of_slowest(const timing *mine, const price *p, const setup *s, comm *c, arena *a)
{
    if (!c || comm_size(c) == 1) return *mine;
    timing *all = ARENA_ARRAY(a, timing, comm_size(c));
    comm_collect(c, GROUP_WORLD, mine, sizeof *mine, all);
    return all[layout_stage_rank(&s->lay, p->slowest)];
}
