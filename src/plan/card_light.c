/* card_light.c - a half of a layer without a memory plan: what it saves under any recompute, and
 * seconds that no card goes below. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "op/fused.h"
#include "ir/memory/fuse.h"
#include "ir/memory/offload.h"
#include "ir/memory/plan.h"
#include "plan/card_list.h"
#include "plan/card_parts.h"

/* ---- bytes */

static void add_mask(card_light *l, unsigned mask, saved_part part, int64_t bytes)
{
    int i = 0;
    while (i < l->n_masks && l->mask[i] != mask) i++;
    assert(i < CARD_MASKS_MAX);
    if (i == l->n_masks) {
        l->mask[l->n_masks++] = mask;
        l->any |= mask;
    }
    l->bytes[i] += bytes;
    l->parts[i][part] += bytes;
}

/* What waits on the host is not saved, whatever is made again. */
static void read_bytes(card_light *l, const segment *seg, const job *j)
{
    offload_options offload = offload_options_of(j);
    for (int id = 0; id < seg->n_bufs; id++) {
        const buf *b = &seg->bufs[id];
        if (b->life != LIFE_SAVED || b->parent >= 0 || offload_takes(&offload, b)) continue;
        unsigned mask = id ? b->drop & ~(unsigned)DROP_FULL : 0;
        int64_t bytes = round_up(b->bytes, PLAN_ALIGN);
        if (!id) l->input = bytes;
        add_mask(l, mask, segment_part(seg, id), bytes);
    }
}

/* ---- seconds
 *
 * I2  Streams run in order, so a list in which something waits longer never ends sooner. Memory
 *     that buffers share only adds waits: with every buffer at a place of its own a list ends no
 *     later than the card's.
 * I3  A list takes its end, and of each kind of messages that were hidden the share that they take
 *     of the chip. What the compute stream lost is at least what was exposed, so it takes no less
 *     than its end + (shares of all messages - the largest share x what was lost).
 * I4  In a pair the operations of a half stay together on the compute stream. Messages that need
 *     none of them first may have started before; the others are waited for where they stand. */

/* When the compute stream is done, without the host and messages that could have started before. */
static double end_of_compute(event_list *l)
{
    double lane[PLAY_LANES] = {0};
    for (int i = 0; i < l->n; i++) {
        event *e = &l->e[i];
        e->done = 0;
        if (e->passed || e->early) continue; /* I4 */
        double start = lane[e->lane];
        for (int n = 0; n < e->n_waits; n++)
            if (l->e[e->waits[n]].done > start) start = l->e[e->waits[n]].done;
        e->done = lane[e->lane] = start + e->cost[l->steps].seconds;
    }
    return lane[STREAM_COMPUTE];
}

/* All launches under one scope of graphs, without the starts of graphs: those of a half need not be
 * those of the whole or of a pair. */
static double launches_of(const event_list *l, unsigned captured, bool step)
{
    double host = 0;
    for (int i = 0; i < l->n; i++) {
        const op_cost *c = &l->e[i].cost[step];
        if (!l->e[i].passed) host += captured & c->part ? c->replayed : c->eager;
    }
    return host;
}

static void read_phase(const cards *k, card_light *l, event_list *of, int phase,
                       const double share[COST_KINDS])
{
    double lane[PLAY_LANES] = {0}, shared = 0, most = 0;
    for (int i = 0; i < of->n; i++) {
        const op_cost *c = &of->e[i].cost[of->steps];
        lane[of->e[i].lane] += c->seconds;
        if (c->kind < COST_TP || c->kind > COST_DP) continue;
        shared += share[c->kind] * c->seconds;
        if (share[c->kind] > most) most = share[c->kind];
    }
    for (int i = 0; i < PLAY_LANES; i++)
        if (i != STREAM_COMPUTE && lane[i] > l->messages[phase]) l->messages[phase] = lane[i];
    for (int g = 0; g < SCOPES; g++)
        l->host[g][phase] = launches_of(of, k->captured[g], g == SCOPE_STEP);
    const double end = end_of_compute(of), lost = end - lane[STREAM_COMPUTE];
    l->compute[phase] = lane[STREAM_COMPUTE] + shared;
    l->waited[phase] = end;
    l->inside[phase] = end + shared - most * lost; /* I3 */
}

/* A graph of the whole iteration is for some dispatchers only: elsewhere it costs what others
 * do. Its stash is left out, for some recompute leaves nothing to stash: no card is below. */
static void two_costs(const cards *k, const card_bench *w, cost_model out[2], event_list *of)
{
    out[0] = out[1] = w->cost;
    out[0].captured |= k->captured[SCOPE_BOTH] & CAPTURED_EXPERTS;
    of->steps = w->cost.to->fixed_shapes;
    card_set_scope(k, &out[1], SCOPE_STEP, DROP_FULL);
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
    read_bytes(l, &seg, &w->s.j);
    l->live = live_of_segment(&seg, &w->s, k->scratch);
    cost_model cost[2];
    double narrow = k->hw->peak[w->cost.gemms], plain = k->hw->peak[w->cost.plain];
    double peak = (narrow > plain ? narrow : plain) * (k->hw->clock > 1 ? k->hw->clock : 1);
    for (int phase = 0; phase < 2; phase++) {
        event_list of = {0};
        two_costs(k, w, cost, &of);
        event_list_fill(&of, cost, &seg, phase, k->scratch);
        read_phase(k, l, &of, phase, w->cost.share);
        if (of.temp > l->temp) l->temp = of.temp;
        l->fastest[phase] = of.flops / peak;
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
    two_costs(k, w, cost, &of);
    event_list_fill(&of, cost, &pair, 0, k->scratch);
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
