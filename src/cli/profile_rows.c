/* profile_rows.c - what was measured beside what was predicted, by the same kinds.
 *
 * I1  The measured column adds up to the step, and so does the predicted one.
 * I2  A stage that waits for another one measures one thing, in a receive: PP communication and the
 *     pipeline bubble of the prediction are one row. */
#include <math.h>

#include "cli/profile.h"

static void add_row(profiled *q, profile_row r)
{
    bool none = (isnan(r.measured) || r.measured == 0) && (isnan(r.predicted) || r.predicted == 0);
    if (!none || r.hidden > 0) q->rows[q->n_rows++] = r;
}

static void add_kinds(profiled *q)
{
    const price *x = &q->predicted;
    double steps = q->p.steps;
    for (int k = 0; k < COST_KINDS; k++) {
        bool message = profile_is_message(k);
        profile_row r = {cost_kind_name((cost_kind)k), cost_kind_title((cost_kind)k),
                         q->p.busy[k] / steps, message ? x->exposed[k] : x->time[k],
                         q->p.hidden[k] / steps};
        if (k == COST_PP) { /* I2 */
            r.title = "PP communication and pipeline bubble";
            r.predicted += x->bubble;
            r.measured += q->p.idle[CAUSE_BUBBLE] / steps;
        }
        add_row(q, r);
    }
}

/* A log has forward and backward as one number. */
static void add_mixed(profiled *q)
{
    const price *x = &q->predicted;
    double sum = x->host + x->slowed + x->rest;
    for (int k = 0; k < COST_KINDS; k++) {
        if (k == COST_PP || k == COST_DP) continue;
        sum += profile_is_message(k) ? x->exposed[k] : x->time[k];
    }
    bool timed = q->p.log.n_timers > 0;
    add_row(q, (profile_row){"forward_backward", "forward and backward, all kinds",
                             timed ? q->p.mixed : NAN, sum, 0});
    static const cost_kind apart[] = {COST_PP, COST_DP};
    for (int i = 0; i < 2; i++) {
        cost_kind k = apart[i];
        bool pp = k == COST_PP;
        double measured = q->p.busy[k] + (pp ? q->p.idle[CAUSE_BUBBLE] : 0);
        add_row(q, (profile_row){cost_kind_name(k),
                                 pp ? "PP communication and pipeline bubble" : cost_kind_title(k),
                                 timed ? measured : NAN, x->exposed[k] + (pp ? x->bubble : 0), 0});
    }
}

static void add_idle(profiled *q)
{
    const price *x = &q->predicted;
    double steps = q->p.steps;
    bool log = q->p.source == SOURCE_LOG;
    for (int c = 0; c < CAUSE_COUNT; c++) {
        double predicted = c == CAUSE_LAUNCH && !log ? x->host : 0;
        bool apart = c == CAUSE_BUBBLE || (log && c == CAUSE_UNKNOWN && !q->p.log.n_timers);
        if (apart) continue;
        add_row(q,
                (profile_row){profile_cause_name((idle_cause)c), profile_cause_title((idle_cause)c),
                              q->p.idle[c] / steps, predicted, 0});
    }
    if (log) return;
    add_row(q, (profile_row){"slowed", "compute slowed by hidden transfers", 0, x->slowed, 0});
    add_row(q, (profile_row){"rest", "rest: ends of lists, late parameter gathers", 0, x->rest, 0});
}

void profile_make_rows(profiled *q)
{
    const price *x = &q->predicted;
    bool known = q->p.source != SOURCE_LOG || q->p.log.n_timers;
    double optimizer = q->without_optimizer ? 0 : x->optimizer;
    q->predicted_step = x->step_s - (q->without_optimizer ? x->optimizer : 0);
    if (q->p.source == SOURCE_LOG)
        add_mixed(q);
    else
        add_kinds(q);
    add_row(q, (profile_row){"optimizer", "optimizer and zeroing of gradients",
                             known ? q->p.busy[KIND_OPTIMIZER] / q->p.steps : NAN, optimizer, 0});
    add_row(q, (profile_row){"unknown_kernels", profile_kind_title(KIND_UNKNOWN),
                             q->p.busy[KIND_UNKNOWN] / q->p.steps, 0, 0});
    add_idle(q);
}
