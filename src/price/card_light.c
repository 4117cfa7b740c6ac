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
#include <string.h>

#include "base/maths.h"
#include "price/card_parts.h"
#include "program/offload.h"
#include "program/plan.h"

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

/* ---- what waits for what */

/* A part of a buffer that an operation touches. */
typedef struct part {
    int root, event;
    bool written;
    const struct part *before; /* that an earlier operation of the compute stream touched */
    int64_t start, end;
} part;

enum { WAITS_MAX = 8, FLIGHT_MAX = 32 }; /* what is left out only makes bounds lower */

typedef struct event {
    op_cost cost[2]; /* under parts of graphs or none, and in a graph of the whole iteration */
    int lane;
    bool message;
    bool passed; /* takes no time and nobody waits for it (play.c) */
    bool early;  /* needs no operation of the compute stream (I3) */
    int n_parts, n_waits;
    const part *parts;
    int waits[WAITS_MAX]; /* events that its stream waits for before it */
    double done;
} event;

typedef struct list {
    event *e;
    part *parts;          /* free ones */
    const part **touched; /* by buffer: the last one of the compute stream */
    int n;
    int flight[FLIGHT_MAX], n_flight; /* messages that the compute stream has not waited for */
    double flops;                     /* of products */
    bool steps;                       /* a whole iteration may be captured */
    unsigned parts_held;              /* CAPTURED_ bits of its operations */
    int64_t temp;                     /* most bytes of temporaries that live at once */
} list;

typedef struct ids {
    const int *id;
    int n;
    bool written;
} ids;

static void add_parts(list *l, event *e, const segment *seg, ids of)
{
    for (int i = 0; i < of.n; i++) {
        if (of.id[i] < 0) continue;
        const buf *b = &seg->bufs[of.id[i]];
        bool view = b->parent >= 0;
        int64_t at = view ? b->view_at : 0;
        part *p = l->parts++;
        *p = (part){.root = view ? b->parent : of.id[i],
                    .event = l->n,
                    .written = of.written,
                    .start = at,
                    .end = at + b->bytes};
        e->n_parts++;
        if (e->message) continue;
        p->before = l->touched[p->root];
        l->touched[p->root] = p;
    }
}

static bool meet(const part *x, const part *y)
{
    return x->root == y->root && (x->written || y->written) && x->start < y->end &&
           y->start < x->end;
}

static bool conflict(const event *a, const event *b)
{
    for (int i = 0; i < a->n_parts; i++)
        for (int k = 0; k < b->n_parts; k++)
            if (meet(&a->parts[i], &b->parts[k])) return true;
    return false;
}

/* The last operation of the compute stream that a message conflicts with; -1: none. */
static int last_conflict(const list *l, const event *e)
{
    int last = -1;
    for (int i = 0; i < e->n_parts; i++) {
        const part *p = l->touched[e->parts[i].root];
        while (p && p->event > last && !meet(p, &e->parts[i])) p = p->before;
        if (p && p->event > last) last = p->event;
    }
    return last;
}

static void add_wait(list *l, event *e, int other)
{
    if (e->n_waits == WAITS_MAX) return;
    e->waits[e->n_waits++] = other;
    e->early = e->early && l->e[other].early;
}

/* The compute stream waits for a message once; a message for what it needs, and for the last
 * operation of the compute stream that it conflicts with. */
static void find_waits(list *l, event *e, int at)
{
    int kept = 0;
    for (int i = 0; i < l->n_flight; i++) {
        bool waits = conflict(&l->e[l->flight[i]], e);
        if (waits) add_wait(l, e, l->flight[i]);
        if (!waits || e->message) l->flight[kept++] = l->flight[i];
    }
    l->n_flight = kept;
    int last = e->message ? last_conflict(l, e) : -1;
    if (last >= 0) add_wait(l, e, last);
    if (e->message && l->n_flight < FLIGHT_MAX) l->flight[l->n_flight++] = at;
}

/* Most bytes of temporaries that live at once, from their first operation to their last. */
static int64_t most_alive(const list *l, const segment *seg, arena *a)
{
    int *last = ARENA_ARRAY(a, int, seg->n_bufs + 1);
    bool *born = ARENA_ARRAY(a, bool, seg->n_bufs + 1);
    int64_t alive = 0, most = 0;
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->e[i].n_parts; k++) last[l->e[i].parts[k].root] = i;
    for (int i = 0; i < l->n; i++) {
        const event *e = &l->e[i];
        for (int k = 0; k < e->n_parts; k++) {
            int root = e->parts[k].root;
            if (seg->bufs[root].life != LIFE_TEMP || born[root]) continue;
            born[root] = true;
            alive += seg->bufs[root].bytes;
        }
        if (alive > most) most = alive;
        for (int k = 0; k < e->n_parts; k++) {
            int root = e->parts[k].root;
            if (seg->bufs[root].life != LIFE_TEMP || !born[root] || last[root] != i) continue;
            last[root] = -1;
            alive -= seg->bufs[root].bytes;
        }
    }
    return most;
}

static int count_parts(const segment *seg, int phase)
{
    int n = 0;
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        for (int k = 0; k < OP_IN_MAX; k++) n += o->in[k] >= 0;
        for (int k = 0; k < OP_OUT_MAX; k++) n += o->out[k] >= 0;
    }
    return n;
}

/* Lanes are streams, and of messages one for each kind where Megatron runs (play.c). */
enum { LANES = STREAM_COUNT + COST_KINDS };

static int lane_of(const cost_model *c, const op *o)
{
    bool own = c->hw->framework > 0 && o->stream == STREAM_COMM && op_is_comm(o->kind);
    return own ? STREAM_COUNT + (int)cost_kind_of(o->group) : (int)o->stream;
}

static void list_events(list *l, const cost_model c[2], const segment *seg, int phase, arena *a)
{
    l->e = ARENA_RAW(a, event, seg->n_ops[phase] + 1);
    l->parts = ARENA_RAW(a, part, count_parts(seg, phase) + 1);
    l->touched = (const part **)ARENA_ARRAY(a, part *, seg->n_bufs + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        event *e = &l->e[l->n];
        e->n_parts = e->n_waits = 0;
        for (int step = 0; step < 2; step++)
            e->cost[step] = step && !l->steps ? e->cost[0] : cost_of(&c[step], seg, o);
        e->lane = lane_of(c, o);
        e->message = op_is_comm(o->kind);
        e->passed = cost_passes_on(c, seg, o);
        e->early = e->message || e->passed;
        e->parts = l->parts;
        add_parts(l, e, seg, (ids){o->in, OP_IN_MAX, false});
        add_parts(l, e, seg, (ids){o->out, OP_OUT_MAX, true});
        l->parts_held |= e->cost[0].part;
        find_waits(l, e, l->n++);
        if (e->passed) e->n_waits = 0;
        cost_kind kind = e->cost[0].kind;
        if (kind == COST_GEMM || kind == COST_GROUPED) l->flops += op_flops(o);
    }
    l->temp = most_alive(l, seg, a);
}

/* ---- playing */

enum { LAUNCH_FREE = SCOPES }; /* after the scopes of graphs: launching takes no time */

static double play(const cards *k, list *l, int how, bool inside)
{
    double lane[LANES] = {0}, host = 0, end = 0;
    int step = how == SCOPE_STEP || (how == LAUNCH_FREE && l->steps);
    for (int i = 0; i < l->n; i++) {
        event *e = &l->e[i];
        const op_cost *c = &e->cost[step];
        e->done = 0;
        if (e->passed || (inside && e->early)) continue; /* I3 */
        double start = lane[e->lane];
        if (how != LAUNCH_FREE) host += k->captured[how] & c->part ? c->replayed : c->eager;
        if (host > start) start = host;
        for (int n = 0; n < e->n_waits; n++)
            if (l->e[e->waits[n]].done > start) start = l->e[e->waits[n]].done;
        e->done = lane[e->lane] = start + c->seconds;
    }
    if (inside) return lane[STREAM_COMPUTE];
    for (int i = 0; i < LANES; i++)
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

static load load_of(const list *l, const double *share, int step)
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

/* Scopes that hold the same of this half take as long. */
static void play_scopes(const cards *k, double *alone[SCOPES], list *of, const double *share)
{
    for (int g = 0; g < SCOPES; g++) {
        int same = 0;
        unsigned held = k->captured[g] & of->parts_held;
        while (same < g && (g == SCOPE_STEP || (k->captured[same] & of->parts_held) != held))
            same++;
        load sums = load_of(of, share, g == SCOPE_STEP);
        *alone[g] = same < g ? *alone[same] : with_share(&sums, play(k, of, g, false), true);
    }
}

static void read_phase(const cards *k, card_light *l, list *of, int phase, const double *share)
{
    double lane[LANES] = {0}, *alone[SCOPES];
    load sums = load_of(of, share, of->steps);
    for (int i = 0; i < of->n; i++) {
        lane[of->e[i].lane] += of->e[i].cost[of->steps].seconds;
        for (int g = 0; g < SCOPES; g++) {
            const op_cost *c = &of->e[i].cost[g == SCOPE_STEP];
            l->host[g][phase] += k->captured[g] & c->part ? c->replayed : c->eager;
        }
    }
    for (int i = 0; i < LANES; i++)
        if (i != STREAM_COMPUTE && lane[i] > l->messages[phase]) l->messages[phase] = lane[i];
    l->compute[phase] = sums.compute + sums.shared;
    for (int g = 0; g < SCOPES; g++) alone[g] = &l->alone[g][phase];
    play_scopes(k, alone, of, share);
    l->free[phase] = with_share(&sums, play(k, of, LAUNCH_FREE, false), true);
    l->inside[phase] = with_share(&sums, play(k, of, LAUNCH_FREE, true), false);
}

/* A graph of the whole iteration is for some dispatchers only: elsewhere it costs what others
 * do. */
static void two_costs(const cards *k, const card_bench *w, cost_model out[2], list *of)
{
    out[0] = out[1] = w->cost;
    out[0].captured |= k->captured[SCOPE_BOTH] & CAPTURED_EXPERTS;
    of->steps = w->c.to == TO_DOMAINS && w->cost.dispatch == DISPATCH_HYBRIDEP;
    card_set_scope(k, &out[1], SCOPE_STEP);
}

static void read_half(cards *k, card_light *l, card_bench *w, const card_key *key)
{
    arena_place mark = arena_mark(k->scratch);
    segment seg;
    card_part(k, w, &seg, (card_what)key->what, key->kind);
    segment_recompute(&seg, key->drop, k->scratch);
    read_bytes(l, &seg, &w->s.r);
    cost_model cost[2];
    double narrow = k->hw->peak[w->cost.products], plain = k->hw->peak[w->cost.plain];
    double peak = (narrow > plain ? narrow : plain) * (k->hw->clock > 1 ? k->hw->clock : 1);
    for (int phase = 0; phase < 2; phase++) {
        list of = {0};
        two_costs(k, w, cost, &of);
        list_events(&of, cost, &seg, phase, k->scratch);
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
    }
    pair_options o = card_pairing(w, &w->c);
    o.unplanned = true;
    segment_pair(&pair, &half[0], &half[n - 1], o, k->scratch);
    list of = {0};
    cost_model cost[2];
    double *alone[SCOPES];
    two_costs(k, w, cost, &of);
    list_events(&of, cost, &pair, 0, k->scratch);
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
