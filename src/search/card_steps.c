/* card_steps.c - chunks of all pipeline ranks played against each other.
 *
 * I1  A rank goes on until it needs a message that nobody has sent yet; then the next one's turn
 *     comes.
 * I2  A message occupies its sender's link between stages, and is there at its end; the buffer
 *     that it leaves from is written again only then. */
#include "search/card_steps.h"

#include <string.h>

double step_optimizer(const step_play *p)
{
    double most = 0;
    for (int64_t q = 0; q < p->c->pp; q++)
        if (p->f->ranks[q].optimizer > most) most = p->f->ranks[q].optimizer;
    return most;
}

/* ---- playing */

typedef struct rank_steps {
    const step_order *order;
    int64_t next;
    double now, p2p, dp;
    int count[2];      /* entries of each phase so far */
    double sent[2][2]; /* [phase][turn]: when the last message from that buffer was out */
    double *ready;     /* [vpp] no forward starts earlier that would have to wait for weights */
    int64_t *left;     /* [vpp] backwards to come */
} rank_steps;

typedef struct steps {
    const step_play *p;
    int64_t pp, vpp, stages;
    rank_steps *ranks;
    double *arrived[2];                            /* [phase][stages][micros]; < 0: not sent yet */
    double *pairs;                                 /* [stages][stages]; < 0: not worked out */
    double gain[LAYER_KINDS_MAX][LAYER_KINDS_MAX]; /* of two layers as a pair; 1: not worked out */
} steps;

static double *arrival(steps *s, int phase, int64_t stage_id, int64_t micro)
{
    return &s->arrived[phase][stage_id * s->p->z->micros + micro];
}

static int64_t stage_of(const steps *s, const rank_steps *r, const order_entry *e)
{
    return e->chunk * s->pp + (r - s->ranks);
}

/* False: what it needs was not sent yet (I1). */
static bool can_start(steps *s, const rank_steps *r, const order_entry *e)
{
    int64_t id = stage_of(s, r, e);
    bool needs = e->phase == SEG_FORWARD ? id > 0 : id < s->stages - 1;
    return !needs || *arrival(s, e->phase, id, e->micro) >= 0;
}

static void wait_until(rank_steps *r, double when)
{
    if (when > r->now) r->now = when;
}

static void begin(steps *s, rank_steps *r, const order_entry *e)
{
    int64_t id = stage_of(s, r, e);
    bool forward = e->phase == SEG_FORWARD;
    bool needs = forward ? id > 0 : id < s->stages - 1;
    if (needs) wait_until(r, *arrival(s, e->phase, id, e->micro));
    bool sends = forward ? id < s->stages - 1 : s->pp > 1;
    if (sends) wait_until(r, r->sent[e->phase][r->count[e->phase] % s->p->z->turns]); /* I2 */
    if (forward) wait_until(r, r->ready[e->chunk]);
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

static void end(steps *s, rank_steps *r, const order_entry *e, double from)
{
    int64_t id = stage_of(s, r, e);
    bool forward = e->phase == SEG_FORWARD;
    int turn = r->count[e->phase]++ % s->p->z->turns;
    if (!forward && --r->left[e->chunk] == 0 && s->p->z->reduces_beside) reduce(s, r, e, from);
    if (forward ? id == s->stages - 1 : id == 0) return;
    const chunk_mix *m = &s->p->f->mix[id];
    double parts = (double)(forward ? m->parts_out : m->parts_in);
    if (r->p2p < r->now) r->p2p = r->now;
    r->p2p += parts * s->p->message; /* I2 */
    r->sent[e->phase][turn] = r->p2p;
    *arrival(s, e->phase, forward ? id + 1 : id - 1, e->micro) = r->p2p;
}

/* What two layers take more as a pair than one after the other. */
static double find_gain(const step_play *p, int kf, int kb)
{
    bool most = cards_kind_is(p->k, kf, LAYER_MOE) && cards_kind_is(p->k, kb, LAYER_MOE);
    if (p->light && p->half_light && most)
        return card_of(p->k, p->c, CARD_PAIR, kf, kb)->seconds[p->c->graphs][0] -
               layer_least(p->k, p->c, kf, SEG_FORWARD) - layer_least(p->k, p->c, kb, SEG_BACKWARD);
    if (p->light)
        return card_pair_least(p->k, p->c, kf, kb) - layer_least(p->k, p->c, kf, SEG_FORWARD) -
               layer_least(p->k, p->c, kb, SEG_BACKWARD);
    return card_of(p->k, p->c, CARD_PAIR, kf, kb)->seconds[p->c->graphs][0] -
           layer_seconds(p->k, p->c, kf, SEG_FORWARD) - layer_seconds(p->k, p->c, kb, SEG_BACKWARD);
}

static double pair_gain(steps *s, int kf, int kb)
{
    double *known = &s->gain[kf][kb];
    if (*known == 1) *known = find_gain(s->p, kf, kb);
    return *known;
}

/* Forward of one chunk beside the backward of another: layers in pairs, the rest by itself. */
static double pair_seconds(steps *s, int64_t f, int64_t b)
{
    double *known = &s->pairs[f * s->stages + b];
    if (*known >= 0) return *known;
    const step_play *p = s->p;
    const stage *sf = &p->f->split->pipe.stages[f], *sb = &p->f->split->pipe.stages[b];
    double sum = p->chunks[f].seconds[0] + p->chunks[b].seconds[1];
    for (int64_t i = 0; i < sf->n_layers && i < sb->n_layers; i++) {
        int kf = cards_kind_of(p->k, sf->first_layer + i);
        int kb = cards_kind_of(p->k, sb->first_layer + sb->n_layers - 1 - i);
        sum += pair_gain(s, kf, kb);
    }
    return *known = sum;
}

static bool run_unit(steps *s, rank_steps *r)
{
    const step_order *o = r->order;
    const order_entry *e = &o->list[r->next], *b = NULL;
    if (s->p->c->beside >= BESIDE_EP && order_is_pair(o, r->next)) b = e + 1;
    if (!can_start(s, r, e) || (b && !can_start(s, r, b))) return false;
    begin(s, r, e);
    if (b) begin(s, r, b);
    double from = r->now;
    int64_t id = stage_of(s, r, e);
    r->now += b ? pair_seconds(s, id, stage_of(s, r, b)) : s->p->chunks[id].seconds[e->phase];
    end(s, r, e, from);
    if (b) end(s, r, b, from);
    r->next += b ? 2 : 1;
    return true;
}

/* Weights are gathered chunk by chunk. A chunk's first forward goes through its buckets one after
 * another: what is `late` is how much longer it takes than alone, from its start on. */
static void gather(const step_play *p, rank_steps *r, const rank_facts *f, int64_t rank)
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

static void open_rank(steps *s, int64_t q, arena *a)
{
    const choice *c = s->p->c;
    rank_steps *r = &s->ranks[q];
    order_shape h = choice_order(c, s->p->z, q);
    r->order = cards_order(s->p->k, &h);
    r->ready = ARENA_ARRAY(a, double, c->vpp);
    r->left = ARENA_ARRAY(a, int64_t, c->vpp);
    for (int64_t v = 0; v < c->vpp; v++) r->left[v] = s->p->z->micros;
    gather(s->p, r, &s->p->f->ranks[q], q);
}

/* What follows the step's chunks. */
static double finish_of(const step_play *p, const rank_steps *r, const rank_facts *f)
{
    double now = r->p2p > r->now ? r->p2p : r->now;
    if (p->z->reduces_beside) return r->dp > now ? r->dp : now;
    for (int i = 0; i < f->n_buckets; i++) now += f->buckets[i].reduce;
    return now;
}

double step_seconds(const step_play *p, arena *a)
{
    arena_place mark = arena_mark(a);
    steps s = {.p = p, .pp = p->c->pp, .vpp = p->c->vpp, .stages = p->c->pp * p->c->vpp};
    s.ranks = ARENA_ARRAY(a, rank_steps, s.pp);
    int64_t n = s.stages * p->z->micros;
    for (int phase = 0; phase < 2; phase++) {
        s.arrived[phase] = ARENA_ARRAY(a, double, n);
        for (int64_t i = 0; i < n; i++) s.arrived[phase][i] = -1;
    }
    if (p->c->beside >= BESIDE_EP) {
        s.pairs = ARENA_ARRAY(a, double, s.stages *s.stages);
        for (int64_t i = 0; i < s.stages * s.stages; i++) s.pairs[i] = -1;
        for (int i = 0; i < LAYER_KINDS_MAX * LAYER_KINDS_MAX; i++)
            s.gain[i / LAYER_KINDS_MAX][i % LAYER_KINDS_MAX] = 1;
    }
    for (int64_t q = 0; q < s.pp; q++) open_rank(&s, q, a);
    for (bool moved = true; moved;) { /* I1 */
        moved = false;
        for (int64_t q = 0; q < s.pp; q++) {
            rank_steps *r = &s.ranks[q];
            while (r->next < r->order->n && run_unit(&s, r)) moved = true;
        }
    }
    double last = 0, late = 0;
    for (int64_t q = 0; q < s.pp; q++) {
        const rank_facts *f = &p->f->ranks[q];
        double done = finish_of(p, &s.ranks[q], f), own = 0;
        if (done > last) last = done;
        bool gathers = p->z->types.moments && !p->z->gathers_late;
        for (int i = 0; i < f->n_buckets && gathers; i++) own += f->buckets[i].gather;
        if (own > late) late = own;
    }
    arena_release(a, mark);
    return last + step_optimizer(p) + late;
}
