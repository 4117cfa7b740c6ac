/* card_simulate.c - lists played from below, with the host that launches them.
 *
 * I1  Streams run in order, so a list in which something waits longer never ends sooner. Memory
 *     that buffers share only adds waits: played with every buffer at a place of its own, a list
 *     ends no later than the card's. The host is one more stream, and simulate.c's four numbers are
 *     such ends: each is below the card's, and so is what two lists join to.
 * I2  A list takes its end, and of each kind of messages that were hidden the share that they take
 *     of the chip. What the compute stream lost is at least what was exposed, so it takes no less
 *     than its end + (shares of all messages - the largest share x what was lost). The same holds
 *     of two lists: what they lost is not more than the end of both less what both compute.
 * I3  In a pair the operations of a half stay together on the compute stream. Messages that need
 *     none of them first may have started before; the others are waited for where they stand. */
#include "plan/card_simulate.h"

static const double LONG_AGO = -1e6; /* as in simulate.c */

static double larger(double x, double y)
{
    return x > y ? x : y;
}

/* When its stream is free and what it waits for is done. */
static double ready_at(const event_list *l, const event *e, double start)
{
    for (int n = 0; n < e->n_waits; n++)
        if (l->e[e->waits[n]].done > start) start = l->e[e->waits[n]].done;
    return start;
}

static double last_of(const double lane[PLAY_LANES])
{
    double end = lane[0];
    for (int i = 1; i < PLAY_LANES; i++) end = larger(end, lane[i]);
    return end;
}

double list_simulation(event_list *l, bool step, bool inside)
{
    double lane[PLAY_LANES] = {0};
    for (int i = 0; i < l->n; i++) {
        event *e = &l->e[i];
        e->done = 0;
        if (e->passed || (inside && e->early)) continue; /* I3 */
        e->done = lane[e->lane] = ready_at(l, e, lane[e->lane]) + e->cost[step].seconds;
    }
    return inside ? lane[STREAM_COMPUTE] : last_of(lane);
}

/* ---- the host */

typedef struct launcher {
    unsigned captured;
    const double *replay; /* NULL: nothing is replayed in parts */
    double host;
    double counted[2]; /* by owner: counts are there */
    bool graph;        /* inside a replay? */
} launcher;

static double launching(launcher *w, const event *e, const op_cost *c)
{
    bool held = (w->captured & c->part) != 0, starts = held && !w->graph;
    w->graph = held;
    if (!held) return c->eager;
    return c->replayed + (starts && w->replay ? w->replay[e->back] : 0);
}

static launcher launcher_of(const list_host *h, int g, double host)
{
    unsigned captured = h->captured[g];
    return (launcher){.captured = captured,
                      .replay = captured != ~0u ? h->replay : NULL,
                      .host = host,
                      .counted = {LONG_AGO, LONG_AGO}};
}

/* From a state between lists; `w` has the host's. Returns when the last stream is done. */
static double simulate_from(event_list *l, launcher *w, bool step, double device)
{
    double lane[PLAY_LANES];
    bool reads = !(w->captured & CAPTURED_EXPERTS);
    for (int i = 0; i < PLAY_LANES; i++) lane[i] = device;
    for (int i = 0; i < l->n; i++) {
        event *e = &l->e[i];
        const op_cost *c = &e->cost[step];
        int owner = c->owner ? 1 : 0;
        e->done = device;
        if (e->passed) continue;
        if (e->needs_counts) w->host = larger(w->host, w->counted[owner]);
        w->host += launching(w, e, c);
        double start = ready_at(l, e, lane[e->lane]);
        e->done = lane[e->lane] = larger(start, w->host) + c->seconds;
        if (c->counts && reads) w->counted[owner] = e->done;
    }
    return last_of(lane);
}

double list_launches(const event_list *l, const list_host *h, int g)
{
    launcher w = {.captured = h->captured[g]};
    for (int i = 0; i < l->n; i++) {
        const event *e = &l->e[i];
        if (!e->passed) w.host += launching(&w, e, &e->cost[g == SCOPE_STEP]);
    }
    return w.host;
}

/* ---- what messages take */

double list_with_share(const list_load *of, double end, bool clamped)
{
    double taken = of->shared - of->share * (end - of->compute);
    return end + (clamped && taken < 0 ? 0 : taken);
}

list_load list_load_of(const event_list *l, const double *share, bool step)
{
    list_load of = {0};
    for (int i = 0; i < l->n; i++) {
        const op_cost *c = &l->e[i].cost[step];
        if (l->e[i].lane == STREAM_COMPUTE) of.compute += c->seconds;
        if (c->kind < COST_TP || c->kind > COST_DP) continue;
        of.shared += share[c->kind] * c->seconds;
        if (share[c->kind] > of.share) of.share = share[c->kind];
    }
    return of;
}

/* ---- paces */

static list_least pace_of(event_list *l, const list_host *h, int g)
{
    bool step = g == SCOPE_STEP;
    list_load of = list_load_of(l, h->share, step);
    list_least out = {.compute = of.compute, .shared = of.shared, .share = of.share};
    launcher w = launcher_of(h, g, h->leads ? LONG_AGO : 0);
    simulation_pace *p = &out.pace;
    *p = (simulation_pace){simulate_from(l, &w, step, 0), LONG_AGO, LONG_AGO, LONG_AGO, 0};
    p->slowed = list_with_share(&of, p->device, true) - p->device;
    if (!h->leads) return out;
    p->back = w.host;
    w = launcher_of(h, g, 0);
    p->late = simulate_from(l, &w, step, LONG_AGO);
    p->host = w.host;
    return out;
}

void list_paces(list_least *const out[SCOPES], event_list *l, const list_host *h)
{
    for (int g = 0; g < SCOPES; g++) {
        int same = 0;
        unsigned held = h->captured[g] & l->parts_held;
        while (same < g && (g == SCOPE_STEP || (h->captured[same] & l->parts_held) != held)) same++;
        *out[g] = same < g ? *out[same] : pace_of(l, h, g);
    }
}

double list_least_seconds(const list_least *l)
{
    return pace_seconds(&l->pace);
}

double list_least_of_two(const list_least *x, const list_least *y)
{
    simulation_pace both = pace_join(&x->pace, &y->pace);
    double apart = x->pace.device + x->pace.slowed + y->pace.device + y->pace.slowed;
    list_load of = {x->compute + y->compute, x->shared + y->shared, larger(x->share, y->share)};
    double together = list_with_share(&of, both.device, true); /* I2 */
    double hosts = larger(both.host, (both.late + both.back) / 2);
    return larger(larger(apart, together), hosts);
}
