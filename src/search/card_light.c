/* card_light.c - a half of a layer without a memory plan: what it saves under any recompute, and
 * seconds that no card goes below.
 *
 * I1  Streams run in order, so a list in which something waits longer never ends sooner. Memory
 *     that buffers share only adds waits: played with every buffer at a place of its own, a list
 *     ends no later than the card's.
 * I2  A list takes its end, and of each kind of messages that were hidden the share that they take
 *     of the chip. What the compute stream lost is at least what was exposed, so it takes no less
 *     than its end + (shares of all messages - the largest share x what was lost).
 * I3  In a pair the operations of a half stay together on the compute stream. Messages that need
 *     none of them first may have started before; the others are waited for where they stand. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "program/fused.h"
#include "program/memory/fuse.h"
#include "program/memory/offload.h"
#include "program/memory/plan.h"
#include "search/card_list.h"
#include "search/card_parts.h"

/* ---- bytes */

static void add_mask(card_light *l, unsigned mask, int64_t bytes)
{
    int i = 0;
    while (i < l->n_masks && l->mask[i] != mask) i++;
    assert(i < CARD_MASKS_MAX);
    if (i == l->n_masks) {
        l->mask[l->n_masks++] = mask;
        l->any |= mask;
    }
    l->bytes[i] += bytes;
}

/* What waits on the host is not saved, whatever is made again. */
static void read_bytes(card_light *l, const segment *seg, const recipe *r)
{
    offload_options offload = offload_options_of(r);
    for (int id = 0; id < seg->n_bufs; id++) {
        const buf *b = &seg->bufs[id];
        if (b->life != LIFE_SAVED || b->parent >= 0 || offload_takes(&offload, b)) continue;
        unsigned mask = id ? b->drop & ~(unsigned)DROP_FULL : 0;
        int64_t bytes = round_up(b->bytes, PLAN_ALIGN);
        if (!id) l->input = bytes;
        add_mask(l, mask, bytes);
    }
}

/* ---- playing */

enum { LAUNCH_FREE = SCOPES }; /* after the scopes of graphs: launching takes no time */

/* Without the host, which may be ahead by any time (play.c, I4). */
static double play(event_list *l, int how, bool inside)
{
    double lane[PLAY_LANES] = {0}, end = 0;
    int step = how == SCOPE_STEP || (how == LAUNCH_FREE && l->steps);
    for (int i = 0; i < l->n; i++) {
        event *e = &l->e[i];
        const op_cost *c = &e->cost[step];
        e->done = 0;
        if (e->passed || (inside && e->early)) continue; /* I3 */
        double start = lane[e->lane];
        for (int n = 0; n < e->n_waits; n++)
            if (l->e[e->waits[n]].done > start) start = l->e[e->waits[n]].done;
        e->done = lane[e->lane] = start + c->seconds;
    }
    if (inside) return lane[STREAM_COMPUTE];
    for (int i = 0; i < PLAY_LANES; i++)
        if (lane[i] > end) end = lane[i];
    return end;
}

/* What the compute stream has to do, and what messages take from it (I2). */
typedef struct load {
    double compute, shared, share;
} load;

static double with_share(const load *of, double end, bool clamped)
{
    double taken = of->shared - of->share * (end - of->compute);
    return end + (clamped && taken < 0 ? 0 : taken);
}

static load load_of(const event_list *l, const double *share, int step)
{
    load of = {0};
    for (int i = 0; i < l->n; i++) {
        const op_cost *c = &l->e[i].cost[step];
        if (l->e[i].lane == STREAM_COMPUTE) of.compute += c->seconds;
        if (c->kind < COST_TP || c->kind > COST_DP) continue;
        of.shared += share[c->kind] * c->seconds;
        if (share[c->kind] > of.share) of.share = share[c->kind];
    }
    return of;
}

/* All launches of a list. */
static double host_of(const cards *k, const event_list *l, int g)
{
    double host = 0;
    for (int i = 0; i < l->n; i++) {
        const op_cost *c = &l->e[i].cost[g == SCOPE_STEP];
        host += k->captured[g] & c->part ? c->replayed : c->eager;
    }
    return host;
}

/* Scopes that hold the same of this half take as long. */
static void play_scopes(const cards *k, double *alone[SCOPES], event_list *of, const double *share)
{
    for (int g = 0; g < SCOPES; g++) {
        int same = 0;
        unsigned held = k->captured[g] & of->parts_held;
        while (same < g && (g == SCOPE_STEP || (k->captured[same] & of->parts_held) != held))
            same++;
        load sums = load_of(of, share, g == SCOPE_STEP);
        *alone[g] = same < g ? *alone[same]
                             : fmax(with_share(&sums, play(of, g, false), true), host_of(k, of, g));
    }
}

static void read_phase(const cards *k, card_light *l, event_list *of, int phase,
                       const double *share)
{
    double lane[PLAY_LANES] = {0}, *alone[SCOPES];
    load sums = load_of(of, share, of->steps);
    for (int i = 0; i < of->n; i++) {
        lane[of->e[i].lane] += of->e[i].cost[of->steps].seconds;
    }
    for (int g = 0; g < SCOPES; g++) l->host[g][phase] = host_of(k, of, g);
    for (int i = 0; i < PLAY_LANES; i++)
        if (i != STREAM_COMPUTE && lane[i] > l->messages[phase]) l->messages[phase] = lane[i];
    l->compute[phase] = sums.compute + sums.shared;
    for (int g = 0; g < SCOPES; g++) alone[g] = &l->alone[g][phase];
    play_scopes(k, alone, of, share);
    l->free[phase] = with_share(&sums, play(of, LAUNCH_FREE, false), true);
    l->waited[phase] = play(of, LAUNCH_FREE, true);
    l->inside[phase] = with_share(&sums, l->waited[phase], false);
}

/* A graph of the whole iteration is for some dispatchers only: elsewhere it costs what others
 * do. */
static void two_costs(const cards *k, const card_bench *w, cost_model out[2], event_list *of)
{
    out[0] = out[1] = w->cost;
    out[0].captured |= k->captured[SCOPE_BOTH] & CAPTURED_EXPERTS;
    of->steps = w->c.to == TO_DOMAINS && w->cost.dispatch == DISPATCH_HYBRIDEP;
    card_set_scope(k, &out[1], SCOPE_STEP);
}

/* As cards are. In a whole layer the sum behind attention may be one with the norm of the other
 * half: then it is left out here, so that no card is below (I1). */
static void fuse_half(segment *seg, const setup *s, card_what what, arena *a)
{
    unsigned fusions = fusions_of(s);
    int *n = &seg->n_ops[SEG_FORWARD];
    segment_fuse(seg, fusions, a);
    if ((fusions & FUSE_ADD_NORM) && what == CARD_ATTENTION && *n > 0 &&
        seg->ops[SEG_FORWARD][*n - 1].kind == OP_ADD)
        --*n;
}

static void read_half(cards *k, card_light *l, card_bench *w, const card_key *key)
{
    arena_place mark = arena_mark(k->scratch);
    segment seg;
    card_part(k, w, &seg, (card_what)key->what, key->kind);
    segment_recompute(&seg, key->drop, k->scratch);
    fuse_half(&seg, &w->s, (card_what)key->what, k->scratch);
    read_bytes(l, &seg, &w->s.r);
    l->live = live_of_segment(&seg, &w->s, k->scratch);
    cost_model cost[2];
    double narrow = k->hw->peak[w->cost.products], plain = k->hw->peak[w->cost.plain];
    double peak = (narrow > plain ? narrow : plain) * (k->hw->clock > 1 ? k->hw->clock : 1);
    for (int phase = 0; phase < 2; phase++) {
        event_list of = {0};
        two_costs(k, w, cost, &of);
        event_list_fill(&of, cost, &seg, phase, k->scratch);
        read_phase(k, l, &of, phase, w->cost.share);
        if (of.temp > l->temp) l->temp = of.temp;
        l->fastest[phase] = of.flops * w->cost.device / peak;
    }
    arena_release(k->scratch, mark);
}

card_light *card_build_light(cards *k, const choice *c, card_key *key)
{
    card_light *l = ARENA_NEW(k->a, card_light);
    card_bench *w = card_set_up(k, c, (card_what)key->what, key->kind);
    if (w) read_half(k, l, w, key);
    memo_put(&k->lights, key, l);
    return l;
}

/* Forward of one kind of layer beside the backward of another. */
static void read_pair(cards *k, card_light *l, card_bench *w, const card_key *key)
{
    arena_place mark = arena_mark(k->scratch);
    segment half[2], pair;
    int n = key->kind == key->other ? 1 : 2;
    for (int i = 0; i < n; i++) {
        card_part(k, w, &half[i], CARD_PAIR, i ? key->other : key->kind);
        segment_recompute(&half[i], key->drop, k->scratch);
        segment_fuse(&half[i], fusions_of(&w->s), k->scratch);
    }
    pair_options o = card_pairing(w, &w->c);
    o.unplanned = true;
    segment_pair(&pair, &half[0], &half[n - 1], o, k->scratch);
    l->live.forward = live_of_pair(&pair, &w->s, k->scratch);
    event_list of = {0};
    cost_model cost[2];
    double *alone[SCOPES];
    two_costs(k, w, cost, &of);
    event_list_fill(&of, cost, &pair, 0, k->scratch);
    for (int g = 0; g < SCOPES; g++) alone[g] = &l->alone[g][0];
    play_scopes(k, alone, &of, w->cost.share);
    l->temp = of.temp;
    arena_release(k->scratch, mark);
}

card_light *card_build_pair_light(cards *k, const choice *c, card_key *key)
{
    card_light *l = ARENA_NEW(k->a, card_light);
    card_bench *w = card_set_up(k, c, CARD_PAIR, key->kind);
    if (w) read_pair(k, l, w, key);
    memo_put(&k->lights, key, l);
    return l;
}
