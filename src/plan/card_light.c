/* card_light.c - a half of a layer without a memory plan: what it saves under any recompute, and
 * seconds that no card goes below (card_simulate.c). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "op/fused.h"
#include "ir/memory/fuse.h"
#include "ir/memory/offload.h"
#include "ir/memory/plan.h"
#include "plan/card_simulate.h"
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

/* ---- seconds */

static list_host host_of(const cards *k, const card_bench *w)
{
    return (list_host){.captured = k->captured,
                       .share = w->cost.share,
                       .replay = w->cost.replay,
                       .leads = w->cost.copies_async};
}

static void read_phase(card_light *l, event_list *of, int phase, const list_host *h)
{
    double lane[PLAY_LANES] = {0};
    list_least *least[SCOPES];
    list_load sums = list_load_of(of, h->share, of->steps);
    for (int i = 0; i < of->n; i++) lane[of->e[i].lane] += of->e[i].cost[of->steps].seconds;
    for (int i = 0; i < PLAY_LANES; i++)
        if (i != STREAM_COMPUTE && lane[i] > l->messages[phase]) l->messages[phase] = lane[i];
    for (int g = 0; g < SCOPES; g++) {
        l->host[g][phase] = list_launches(of, h, g);
        least[g] = &l->least[g][phase];
    }
    list_paces(least, of, h);
    l->compute[phase] = sums.compute + sums.shared;
    l->waited[phase] = list_simulation(of, of->steps, true);
    l->inside[phase] = list_with_share(&sums, l->waited[phase], false);
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
    list_host host = host_of(k, w);
    double narrow = k->hw->peak[w->cost.gemms], plain = k->hw->peak[w->cost.plain];
    double peak = (narrow > plain ? narrow : plain) * (k->hw->clock > 1 ? k->hw->clock : 1);
    for (int phase = 0; phase < 2; phase++) {
        event_list of = {0};
        two_costs(k, w, cost, &of);
        event_list_fill(&of, cost, &seg, phase, k->scratch);
        read_phase(l, &of, phase, &host);
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
    list_host host = host_of(k, w);
    list_least *least[SCOPES];
    two_costs(k, w, cost, &of);
    event_list_fill(&of, cost, &pair, 0, k->scratch);
    for (int g = 0; g < SCOPES; g++) least[g] = &l->least[g][0];
    list_paces(least, &of, &host);
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
