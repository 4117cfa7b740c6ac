/* card_steps.c - chunks of all pipeline ranks played against each other.
 *
 * I1  A rank goes on until it needs a message that nobody has sent yet; then the next one's turn
 *     comes.
 * I2  A message occupies its sender's link between stages, and is there at its end; the buffer
 *     that it leaves from is written again only then.
 * I3  Where a receive is not posted ahead of its use, the message begins when both are there. */
#include "plan/card_steps.h"

#include <string.h>

double step_optimizer(const step_simulation *p)
{
    double most = 0;
    for (int64_t q = 0; q < p->c->pp; q++)
        if (p->f->ranks[q].optimizer > most) most = p->f->ranks[q].optimizer;
    return most;
}

/* ---- playing */

/* A stage in one phase. */
typedef struct side {
    double seconds, message; /* alone; of what it sends */
    double received;         /* seconds of what it receives where that begins only then (I3) */
    const double *in;        /* [micros] when what it needs arrives, < 0: not sent yet; or NULL */
    double *out;             /* of the stage that gets its message; or NULL */
    bool waits;              /* for the buffer that it sends from */
} side;

typedef struct rank_steps {
    const step_order *order;
    int64_t next;
    double now, p2p, dp;
    int turn[2];       /* of each phase: the buffer that is next */
    double sent[2][2]; /* [phase][turn]: when the last message from that buffer was out */
    side *sides;       /* [vpp][2] */
    double *ready;     /* [vpp] no forward starts earlier that would have to wait for weights */
    int64_t *left;     /* [vpp] backwards to come */
} rank_steps;

typedef struct steps {
    const step_simulation *p;
    int64_t pp, vpp, stages;
    rank_steps *ranks;
    double *arrived[2]; /* [phase][stages][micros]; < 0: not sent yet */
    double *pairs;      /* [pp][vpp][vpp]; < 0: not worked out */
    int kinds;          /* of layers */
    double *gain;       /* [kinds][kinds] of two layers as a pair; 1: not worked out */
} steps;

static void wait_until(rank_steps *r, double when)
{
    if (when > r->now) r->now = when;
}

/* False: what it needs was not sent yet (I1). */
static bool can_start(const side *x, const order_entry *e)
{
    return !x->in || x->in[e->micro] >= 0;
}

static void receive(rank_steps *r, const side *x, const order_entry *e)
{
    if (!x->in) return;
    wait_until(r, r->now + x->received); /* I3 */
    wait_until(r, x->in[e->micro]);
}

/* As items stand around a unit (ir/assembly/items.c). */
static void begin(rank_steps *r, const side *x, const order_entry *e)
{
    const double sent = x->waits ? r->sent[e->phase][r->turn[e->phase]] : 0; /* I2 */
    if (e->phase == SEG_BACKWARD) wait_until(r, sent);
    receive(r, x, e);
    wait_until(r, sent);
    if (e->phase == SEG_FORWARD) wait_until(r, r->ready[e->chunk]);
}

/* Buckets are reduced one after another as the last backward leaves them. */
static void reduce(steps *s, rank_steps *r, const order_entry *e, double from)
{
    const rank_facts *f = &s->p->f->ranks[r - s->ranks];
    int first = f->first_bucket[e->chunk], end = f->first_bucket[e->chunk + 1];
    for (int i = first; i < end; i++) {
        double start = from + (r->now - from) * (i - first + 1) / (end - first);
        if (start < r->dp) start = r->dp;
        r->dp = start + f->buckets[i].reduce;
    }
}

static void end(steps *s, rank_steps *r, const side *x, const order_entry *e, double from)
{
    int turn = r->turn[e->phase];
    r->turn[e->phase] = turn + 1 < s->p->z->ring_depth ? turn + 1 : 0;
    if (e->phase == SEG_BACKWARD && --r->left[e->chunk] == 0 && s->p->z->overlaps_reduction)
        reduce(s, r, e, from);
    if (!x->out) return;
    if (r->p2p < r->now) r->p2p = r->now;
    r->p2p += x->message; /* I2 */
    r->sent[e->phase][turn] = r->p2p;
    x->out[e->micro] = r->p2p;
}

/* What two layers take more as a pair than one after the other. */
static double pair_gain(steps *s, int kf, int kb)
{
    const step_simulation *p = s->p;
    double *known = &s->gain[kf * s->kinds + kb];
    if (*known == 1)
        *known = card_of(p->k, p->c, CARD_PAIR, kf, kb)->seconds[p->c->graphs][0] -
                 layer_seconds(p->k, p->c, kf, SEG_FORWARD) -
                 layer_seconds(p->k, p->c, kb, SEG_BACKWARD);
    return *known;
}

/* Forward of one chunk beside the backward of another: layers in pairs, the rest by itself. */
static double pair_seconds(steps *s, int64_t rank, int64_t vf, int64_t vb)
{
    double *known = &s->pairs[(rank * s->vpp + vf) * s->vpp + vb];
    if (*known >= 0) return *known;
    const step_simulation *p = s->p;
    int64_t f = vf * s->pp + rank, b = vb * s->pp + rank;
    const stage *sf = &p->f->split->pipe.stages[f], *sb = &p->f->split->pipe.stages[b];
    double sum = p->chunks[f].seconds[0] + p->chunks[b].seconds[1];
    for (int64_t i = 0; i < sf->n_layers && i < sb->n_layers; i++) {
        int kf = cards_kind_of(p->k, sf->first_layer + i);
        int kb = cards_kind_of(p->k, sb->first_layer + sb->n_layers - 1 - i);
        sum += pair_gain(s, kf, kb);
    }
    return *known = sum;
}

static bool run_alone(steps *s, rank_steps *r, const order_entry *e)
{
    const side *x = &r->sides[2 * e->chunk + e->phase];
    if (!can_start(x, e)) return false;
    begin(r, x, e);
    double from = r->now;
    r->now += x->seconds;
    end(s, r, x, e, from);
    r->next++;
    return true;
}

static bool run_pair(steps *s, rank_steps *r, const order_entry *f)
{
    const order_entry *b = f + 1;
    const side *x = &r->sides[2 * f->chunk + f->phase], *y = &r->sides[2 * b->chunk + b->phase];
    if (!can_start(x, f) || !can_start(y, b)) return false;
    begin(r, x, f);
    begin(r, y, b);
    double from = r->now;
    r->now += pair_seconds(s, r - s->ranks, f->chunk, b->chunk);
    end(s, r, x, f, from);
    end(s, r, y, b, from);
    r->next += 2;
    return true;
}

/* As far as it gets. */
static bool run_rank(steps *s, rank_steps *r)
{
    const step_order *o = r->order;
    const bool pairs = s->p->c->overlap >= OVERLAP_EP;
    int64_t before = r->next;
    while (r->next < o->n) {
        const order_entry *e = &o->list[r->next];
        if (!(pairs && order_is_pair(o, r->next) ? run_pair(s, r, e) : run_alone(s, r, e))) break;
    }
    return r->next > before;
}

/* Weights are gathered chunk by chunk. A chunk's first forward goes through its buckets one after
 * another: what is `late` is how much longer it takes than alone, from its start on. */
static void gather(const step_simulation *p, rank_steps *r, const rank_facts *f, int64_t rank)
{
    for (int64_t v = 0; v < p->c->vpp && p->z->gathers_late; v++) {
        double alone = p->chunks[v * p->c->pp + rank].seconds[0];
        int first = f->first_bucket[v], n = f->first_bucket[v + 1] - first;
        for (int i = n - 1; i >= 0; i--) { /* buckets lie in reverse order of the network */
            r->dp += f->buckets[first + i].gather;
            double end_then = r->dp + alone * (i + 1) / n;
            if (end_then - alone > r->ready[v]) r->ready[v] = end_then - alone;
        }
    }
}

static void open_side(steps *s, side *x, int64_t id, int phase)
{
    const step_simulation *p = s->p;
    const chunk_mix *m = &p->f->mix[id];
    bool forward = phase == SEG_FORWARD, first = id == 0, last = id == s->stages - 1;
    int64_t micros = p->z->micros;
    x->seconds = p->chunks[id].seconds[phase];
    x->message = (double)(forward ? m->parts_out : m->parts_in) * p->message;
    if (!p->z->posts_early)
        x->received = (double)(forward ? m->parts_in : m->parts_out) * p->message;
    x->waits = forward ? !last : s->pp > 1;
    if (!(forward ? first : last)) x->in = &s->arrived[phase][id * micros];
    if (!(forward ? last : first))
        x->out = &s->arrived[phase][(forward ? id + 1 : id - 1) * micros];
}

static void open_rank(steps *s, int64_t q, arena *a)
{
    const choice *c = s->p->c;
    rank_steps *r = &s->ranks[q];
    order_shape h = choice_order(c, s->p->z, q);
    r->order = cards_order(s->p->k, &h);
    r->ready = ARENA_ARRAY(a, double, c->vpp);
    r->left = ARENA_ARRAY(a, int64_t, c->vpp);
    r->sides = ARENA_ARRAY(a, side, 2 * c->vpp);
    for (int64_t v = 0; v < c->vpp; v++) {
        r->left[v] = s->p->z->micros;
        for (int phase = 0; phase < 2; phase++)
            open_side(s, &r->sides[2 * v + phase], v * s->pp + q, phase);
    }
    gather(s->p, r, &s->p->f->ranks[q], q);
}

/* What follows the step's chunks. */
static double finish_of(const step_simulation *p, const rank_steps *r, const rank_facts *f)
{
    double now = r->p2p > r->now ? r->p2p : r->now;
    if (p->z->overlaps_reduction) return r->dp > now ? r->dp : now;
    for (int i = 0; i < f->n_buckets; i++) now += f->buckets[i].reduce;
    return now;
}

static void open_pairs(steps *s, arena *a)
{
    int64_t n = s->pp * s->vpp * s->vpp;
    s->pairs = ARENA_RAW(a, double, n);
    for (int64_t i = 0; i < n; i++) s->pairs[i] = -1;
    int places = cards_kinds(s->p->k) * cards_kinds(s->p->k);
    s->kinds = cards_kinds(s->p->k);
    s->gain = ARENA_RAW(a, double, places);
    for (int i = 0; i < places; i++) s->gain[i] = 1;
}

/* Weights that are gathered before anybody goes on. */
static double gather_last(const step_simulation *p)
{
    double late = 0;
    bool gathers = p->z->types.moments && !p->z->gathers_late;
    for (int64_t q = 0; q < p->c->pp && gathers; q++) {
        const rank_facts *f = &p->f->ranks[q];
        double own = 0;
        for (int i = 0; i < f->n_buckets; i++) own += f->buckets[i].gather;
        if (own > late) late = own;
    }
    return late;
}

static steps steps_of(const step_simulation *p, arena *a)
{
    steps s = {.p = p, .pp = p->c->pp, .vpp = p->c->vpp, .stages = p->c->pp * p->c->vpp};
    if (p->c->overlap >= OVERLAP_EP) open_pairs(&s, a);
    return s;
}

double step_seconds(const step_simulation *p, arena *a)
{
    arena_place mark = arena_mark(a);
    steps s = steps_of(p, a);
    s.ranks = ARENA_ARRAY(a, rank_steps, s.pp);
    int64_t n = s.stages * p->z->micros;
    for (int phase = 0; phase < 2; phase++) {
        s.arrived[phase] = ARENA_RAW(a, double, n);
        for (int64_t i = 0; i < n; i++) s.arrived[phase][i] = -1;
    }
    for (int64_t q = 0; q < s.pp; q++) open_rank(&s, q, a);
    for (bool moved = true; moved;) { /* I1 */
        moved = false;
        for (int64_t q = 0; q < s.pp; q++) moved = run_rank(&s, &s.ranks[q]) || moved;
    }
    double last = 0;
    for (int64_t q = 0; q < s.pp; q++) {
        double done = finish_of(p, &s.ranks[q], &p->f->ranks[q]);
        if (done > last) last = done;
    }
    arena_release(a, mark);
    return last + step_optimizer(p) + gather_last(p);
}

/* ---- from below
 *
 * Before a rank's first forward the first microbatch passes the stages before it, and behind its
 * last backward the gradient passes them back: both by themselves, for every warm-up has a forward
 * and every cool-down a backward. Between lies its own work, in which chunks meet as often as its
 * order says. */
static double own_work(steps *s, int64_t q, const order_meets *o)
{
    const chunk_sum *chunks = s->p->chunks;
    double sum = 0;
    for (int64_t v = 0; v < s->vpp; v++)
        for (int phase = 0; phase < 2; phase++)
            sum += (double)o->alone[2 * v + phase] * chunks[v * s->pp + q].seconds[phase];
    for (int i = 0; i < o->n; i++) {
        const order_meet *m = &o->list[i];
        sum += (double)m->times * pair_seconds(s, q, m->forward, m->backward);
    }
    return sum;
}

double step_least(const step_simulation *p, arena *a)
{
    arena_place mark = arena_mark(a);
    steps s = steps_of(p, a);
    double most = 0, before = 0;
    for (int64_t q = 0; q < s.pp; q++) {
        order_shape h = choice_order(p->c, p->z, q);
        const order_meets *o = cards_meets(p->k, &h);
        double here = own_work(&s, q, o) + (o->by_first_stage ? before : 0);
        if (here > most) most = here;
        const chunk_mix *m = &p->f->mix[q];
        before += p->chunks[q].seconds[0] + p->chunks[q].seconds[1];
        before +=
            (double)(m->parts_out + p->f->mix[q + 1 < s.stages ? q + 1 : q].parts_in) * p->message;
    }
    arena_release(a, mark);
    return most + step_optimizer(p) + gather_last(p);
}
