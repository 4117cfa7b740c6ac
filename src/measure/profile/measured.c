/* measured.c - a profile as a price, so that the same table and the same wall serve both.
 *
 * I1  A log tells forward and backward as one: inside of it the prediction's shares are used. */
#include <string.h>

#include "base/text.h"
#include "measure/profile/profile.h"

static double host_of(const profile *p)
{
    static const idle_cause causes[] = {CAUSE_LAUNCH, CAUSE_BETWEEN, CAUSE_SYNC, CAUSE_DATA,
                                        CAUSE_AFTER};
    double sum = 0;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) sum += p->idle[causes[i]];
    return sum;
}

/* I1 */
static void share_mixed(price *out, const profile *p, const price *predicted)
{
    double whole = predicted->host + predicted->slowed + predicted->rest;
    double left = p->log.n_timers ? p->mixed : p->span;
    for (int k = 0; k < COST_KINDS; k++)
        whole += profile_is_message(k) ? predicted->exposed[k] : predicted->time[k];
    if (!p->log.n_timers) whole += predicted->bubble + predicted->optimizer;
    double by = whole > 0 ? left / whole : 0;
    for (int k = 0; k < COST_KINDS; k++) {
        out->time[k] += by * predicted->time[k];
        out->exposed[k] += by * predicted->exposed[k];
    }
    out->host += by * predicted->host;
    if (p->log.n_timers) return;
    out->bubble = by * predicted->bubble;
    out->optimizer = by * predicted->optimizer;
}

void profile_as_price(price *out, const profile *p, const price *predicted, arena *a)
{
    double steps = p->steps;
    *out = (price){.step_s = p->span / steps, .usable = predicted->usable};
    for (int k = 0; k < COST_KINDS; k++) {
        out->time[k] = (p->busy[k] + p->hidden[k]) / steps;
        if (profile_is_message(k)) out->exposed[k] = p->busy[k] / steps;
    }
    out->optimizer = p->busy[KIND_OPTIMIZER] / steps;
    out->host = host_of(p) / steps;
    out->bubble = p->idle[CAUSE_BUBBLE] / steps;
    if (p->source == SOURCE_LOG) share_mixed(out, p, predicted);
    out->fullest = predicted->fullest;
    out->peak_bytes = p->peak_bytes ? p->peak_bytes : predicted->peak_bytes;
    if (!p->peak_bytes && !predicted->fits) out->peak_bytes = predicted->usable; /* it ran */
    out->fits = true;
    if (out->step_s > 0) price_see_wall(out, a);
    if (p->source == SOURCE_LOG && out->evidence)
        out->evidence = arena_text(a, "%s (shares inside %s are predicted)", out->evidence,
                                   p->log.n_timers ? "forward and backward" : "the step");
    if (!p->log.out_of_memory) return;
    out->fits = false;
    out->wall = WALL_MEMORY;
    out->evidence = arena_text(a, "the log says: %s", p->log.out_of_memory);
}
