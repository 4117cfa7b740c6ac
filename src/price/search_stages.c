/* search_stages.c - all inner layouts of sizes and stages: recompute and offload, graphs, what runs
 * beside expert messages. Each is excluded by its memory from below, by its step from below (rough,
 * then tight), or tried. */
#include <math.h>
#include <string.h>

#include "price/search_best.h"
#include "price/search_parts.h"

/* What was found of a site; what others left is old. */
typedef struct known_fit {
    unsigned site;
    bool fits;
} known_fit;
typedef struct known_least {
    unsigned site;
    double seconds;
} known_least;

/* One set of stages under one attention and one spread of experts. */
typedef struct site {
    unsigned id;
    const stage_times *times;
    const stage_bytes *bytes[2]; /* by offload */
    double message;
    double limit;                    /* a step that is not shorter does not enter the list */
    known_fit fits[2][2][DROPS_MAX]; /* [combined 1F1B][offload] */
    known_least least[LEAST_LEVELS][BESIDE_KINDS][2][DROPS_MAX]; /* [graphs] */
} site;

static double least_of(const site *t, const drop_times *of)
{
    double most = 0;
    for (int way = 0; way < of->ways; way++)
        most = fmax(most, stage_times_least(t->times, of->seconds[way], t->message));
    return most;
}

static bool may_fit(search *s, const choice *c, site *t, int d)
{
    bool pairs = c->beside >= BESIDE_EP;
    known_fit *known = &t->fits[pairs][c->offload][d];
    if (known->site == t->id) return known->fits;
    int64_t bytes = stage_bytes_least(t->bytes[c->offload], search_drop_bytes(s, c, d), pairs);
    *known = (known_fit){t->id, bytes <= s->o->hw->usable};
    if (!known->fits) search_see_miss(s, c, bytes);
    return known->fits;
}

static double *known_at(search *s, const choice *c, site *t, int d, least_level level)
{
    beside_kind beside = level == LEAST_ROUGH ? BESIDE_NOTHING : c->beside;
    known_least *l = &t->least[level][beside][c->graphs][d];
    if (l->site != t->id) *l = (known_least){t->id, least_of(t, search_drop_times(s, c, d, level))};
    return &l->seconds;
}

/* Whatever a set of modules makes again, a larger set does too: no stream is shorter. Of full
 * recompute the largest set is a part. */
static bool part_is_slow(search *s, const choice *c, site *t, int d)
{
    unsigned drop = s->sp.drops[d];
    double rest = t->limit - t->bytes[c->offload]->optimizer;
    if (drop == DROP_FULL && s->sp.largest >= 0)
        return *known_at(s, c, t, s->sp.largest, LEAST_ROUGH) >= rest;
    for (int i = 0; i < d; i++) {
        const known_least *l = &t->least[LEAST_ROUGH][BESIDE_NOTHING][c->graphs][i];
        if (!(s->sp.drops[i] & ~drop) && l->site == t->id && l->seconds >= rest) return true;
    }
    return false;
}

static bool may_enter(search *s, const choice *c, site *t, int d, least_level level)
{
    if (s->o->judge_all) return true;
    return *known_at(s, c, t, d, level) + t->bytes[c->offload]->optimizer < t->limit;
}

/* What memory and the rough bound leave, whatever runs beside. */
typedef struct candidate {
    int d;
    bool offload, pairs, graphs;
} candidate;

enum { CANDIDATES_MAX = 8 * DROPS_MAX };

static int sieve(search *s, choice c, site *t, candidate *out)
{
    search_counts *counts = &s->out->counts;
    const inner *legal = search_inner_table(s, &c);
    int n = 0;
    for (int i = 0; i < 4 * s->sp.n_drops; i++) {
        candidate x = {i / 2 % s->sp.n_drops, i / 2 >= s->sp.n_drops, i & 1, false};
        const int *here = legal->n_by[x.offload][x.d][x.pairs];
        if (!here[0] && !here[1]) continue;
        c.offload = x.offload;
        c.drop = s->sp.drops[x.d];
        c.beside = x.pairs ? BESIDE_EP : BESIDE_NOTHING;
        if (!may_fit(s, &c, t, x.d)) {
            counts->saved += here[0] + here[1];
            continue;
        }
        for (int g = 0; g < 2; g++) {
            c.graphs = x.graphs = g;
            bool slow = !s->o->judge_all && here[g] && part_is_slow(s, &c, t, x.d);
            if (!here[g]) continue;
            if (slow || !may_enter(s, &c, t, x.d, LEAST_ROUGH))
                counts->slow += here[g];
            else
                out[n++] = x;
        }
    }
    return n;
}

static void try_one(search *s, const choice *c, site *t)
{
    static _Thread_local attempt a;
    found f;
    a.message = t->message;
    if (!attempt_patch(s, c, &a) || attempt_judge(s, c, &a, &f) != GOOD) return;
    attempt_keep(s, c, &a, &f);
    if (!s->o->judge_all) t->limit = best_limit(s->out, c);
}

static void try_candidates(search *s, choice c, site *t, const candidate *list, int n)
{
    const inner *legal = search_inner_table(s, &c);
    for (int i = 0; i < n && !s->done; i++) {
        const candidate *x = &list[i];
        if (x->graphs != c.graphs || x->pairs != (c.beside >= BESIDE_EP)) continue;
        if (!legal->ok[c.beside][c.graphs][x->offload][x->d]) continue;
        c.offload = x->offload;
        c.drop = s->sp.drops[x->d];
        bool may = true;
        for (int level = 0; level < (x->pairs ? LEAST_LEVELS : LEAST_PAIRED) && may; level++)
            may = may_enter(s, &c, t, x->d, (least_level)level);
        if (may)
            try_one(s, &c, t);
        else
            s->out->counts.slow++;
    }
}

/* False: the stages cannot be made. */
static bool open_site(search *s, const choice *c, site *t)
{
    choice x = *c;
    t->id++;
    for (int offload = 0; offload < 2; offload++) {
        x.offload = offload;
        const layout_facts *f = ranks_facts(s->r, &x);
        if (!f->ok) return false;
        t->times = search_stage_times(s, &x, f);
        t->bytes[offload] = search_stage_bytes(s, &x, f);
    }
    t->message = c->pp > 1 ? search_message(s, c) : 0;
    t->limit = s->o->judge_all ? INFINITY : best_limit(s->out, c);
    return true;
}

/* Not even without recompute, and with everything beside everything. */
static bool all_slow(search *s, const choice *c, const site *t)
{
    choice x = *c;
    x.graphs = true;
    double optimizer = fmin(t->bytes[0]->optimizer, t->bytes[1]->optimizer);
    return least_of(t, search_drop_times(s, &x, 0, LEAST_ROUGH)) + optimizer >= t->limit;
}

/* Not even with the optimizer on the host and the inputs of layers alone. */
static bool all_large(search *s, const choice *c, const site *t)
{
    int64_t saved[MIX_PARTS] = {0};
    for (int i = 0; i < cards_kinds(s->k); i++)
        saved[i] = card_light_of(s->k, c, CARD_ATTENTION, i)->input;
    int64_t bytes = INT64_MAX;
    for (int i = 0; i < 4; i++) {
        int64_t x = stage_bytes_least(t->bytes[i & 1], saved, i & 2);
        if (x < bytes) bytes = x;
    }
    if (bytes > s->o->hw->usable) search_see_miss(s, c, bytes);
    return bytes > s->o->hw->usable;
}

void search_try_stages(search *s, choice c)
{
    static _Thread_local site t;
    static const beside_kind order[] = {BESIDE_NOTHING, BESIDE_SHARED, BESIDE_EP, BESIDE_WGRAD,
                                        BESIDE_EP_DELAY};
    search_counts *n = &s->out->counts;
    if (!open_site(s, &c, &t)) {
        n->rules += search_inner_count(s, &c);
        return;
    }
    if (!s->o->judge_all && all_slow(s, &c, &t)) {
        n->slow += search_inner_count(s, &c);
        return;
    }
    if (all_large(s, &c, &t)) {
        n->saved += search_inner_count(s, &c);
        return;
    }
    static _Thread_local candidate list[CANDIDATES_MAX];
    int left = sieve(s, c, &t, list);
    for (int b = 0; b < 2 * BESIDE_KINDS && left && !s->done; b++) {
        c.beside = order[b / 2];
        c.graphs = !(b & 1);
        try_candidates(s, c, &t, list, left);
    }
}
