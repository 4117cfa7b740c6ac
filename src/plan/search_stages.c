/* search_stages.c - all inner layouts of sizes and stages: recompute and offload, graphs, what runs
 * beside expert messages. Each is excluded by its memory from below, by its step from below (rough,
 * then tight), or tried. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/search_best.h"
#include "plan/search_parts.h"

/* What was found of a site; what others left is old. */
typedef struct known_least {
    unsigned site;
    double seconds;
} known_least;

/* One set of stages under one attention and one spread of experts. */
typedef struct site {
    unsigned id;
    const stage_times *times;
    const stage_bytes *bytes;
    double message;
    double limit;               /* a step that is not shorter does not enter the list */
    double optimizer[OFFLOADS]; /* the least of this and larger offloads */
    known_least least[LEAST_LEVELS][OVERLAP_KINDS][SCOPES][DROPS_MAX];
    known_least parts[DROPS_MAX]; /* of the widest scope, by what is known of smaller sets */
} site;

static double *known_at(search *s, const choice *c, site *t, int d, least_level level)
{
    overlap_kind overlap = level == LEAST_ROUGH ? OVERLAP_NOTHING : c->overlap;
    known_least *l = &t->least[level][overlap][c->graphs][d];
    if (l->site != t->id)
        *l = (known_least){
            t->id, stage_times_least(t->times, search_drop_times(s, c, d, level), t->message)};
    return &l->seconds;
}

/* Whatever a set of modules makes again, a larger set does too: no stream is shorter. Of full
 * recompute the largest set is a part. So what is known of a part is a bound of the whole, found
 * once for a site. */
static double part_least(search *s, const choice *c, site *t, int d)
{
    unsigned drop = s->sp.drops[d];
    known_least *own = &t->least[LEAST_ROUGH][OVERLAP_NOTHING][c->graphs][d], *l = &t->parts[d];
    if (own->site == t->id) return own->seconds;
    if (l->site == t->id) return l->seconds;
    *l = (known_least){t->id, 0};
    if (drop == DROP_FULL && s->sp.largest >= 0)
        l->seconds = *known_at(s, c, t, s->sp.largest, LEAST_ROUGH);
    for (int i = 0; i < d && drop != DROP_FULL; i++) {
        const known_least *x = &t->least[LEAST_ROUGH][OVERLAP_NOTHING][c->graphs][i];
        if (!(s->sp.drops[i] & ~drop) && x->site == t->id && x->seconds > l->seconds)
            l->seconds = x->seconds;
    }
    return l->seconds;
}

static bool may_enter(search *s, const choice *c, site *t, int d, least_level level)
{
    if (s->o->judge_all) return true;
    return *known_at(s, c, t, d, level) + t->bytes->optimizer[c->offload] < t->limit;
}

/* What memory and the rough bound leave, whatever runs beside. */
typedef struct candidate {
    int d, offload;
    bool pairs;
    graph_scope graphs;
    double least; /* step, roughly */
} candidate;

enum { CANDIDATES_MAX = 2 * OFFLOADS * SCOPES * DROPS_MAX };

struct site_work {
    site t;
    candidate list[CANDIDATES_MAX];
    signed char enough[SCOPES][DROPS_MAX]; /* offload that memory asks for */
};

/* Scopes of one set and one offload. */
static int sieve_graphs(search *s, choice *c, site *t, candidate x, candidate *out)
{
    const int *here = search_inner_table(s, c)->n_by[x.offload][x.d][x.pairs];
    int n = 0;
    for (int g = 0; g < SCOPES; g++) {
        c->graphs = x.graphs = (graph_scope)g;
        if (!here[g]) continue;
        if (!may_enter(s, c, t, x.d, LEAST_ROUGH)) {
            s->out->counts.slow += here[g];
            continue;
        }
        x.least = *known_at(s, c, t, x.d, LEAST_ROUGH) + t->bytes->optimizer[x.offload];
        out[n++] = x;
    }
    return n;
}

/* Is a step with this set of modules too long, whatever the offload from the first one on? Nothing
 * is launched faster than under the widest scope. */
static bool set_is_slow(search *s, choice *c, site *t, int d, int first)
{
    if (s->o->judge_all) return false;
    c->graphs = s->sp.widest;
    return part_least(s, c, t, d) + t->optimizer[first] >= t->limit ||
           *known_at(s, c, t, d, LEAST_ROUGH) + t->optimizer[first] >= t->limit;
}

/* The most promising first: what it reaches excludes more of the rest. Of equal ones that which
 * takes less memory or changes less. */
static int by_promise(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->least != y->least) return x->least < y->least ? -1 : 1;
    if (x->graphs != y->graphs) return x->graphs < y->graphs ? -1 : 1;
    return (x->d > y->d) - (x->d < y->d);
}

/* Bytes that state and activations may have: what bounds say is compared with it. */
static int64_t search_room(const search *s, const site *t)
{
    return reported_room(&s->frame->all, s->o->hw->usable) - t->bytes->passing * s->frame->passing;
}

/* All offloads of one set: those below `least` do not fit. */
static int sieve_set(search *s, choice *c, site *t, candidate x, candidate *out)
{
    const int64_t *from = search_inner_table(s, c)->n_from[x.d][x.pairs];
    const int64_t *saved = search_drop_bytes(s, c, x.d, x.pairs);
    int n = 0,
        least = s->packs ? 0 : stage_bytes_offload(t->bytes, saved, x.pairs, search_room(s, t));
    s->out->counts.saved += from[0] - from[least];
    if (!from[least]) return 0;
    if (set_is_slow(s, c, t, x.d, least)) {
        s->out->counts.slow += from[least];
        return 0;
    }
    for (x.offload = least; x.offload < OFFLOADS; x.offload++) {
        int64_t here = from[x.offload] - from[x.offload + 1];
        c->offload = x.offload;
        c->graphs = s->sp.widest;
        if (!here) continue;
        if (may_enter(s, c, t, x.d, LEAST_ROUGH))
            n += sieve_graphs(s, c, t, x, out + n);
        else
            s->out->counts.slow += here;
    }
    return n;
}

static int sieve(search *s, choice c, site *t, candidate *out)
{
    int n = 0, sets = s->sp.n_drops;
    for (int i = 0; i < 2 * sets; i++) {
        candidate x = {.d = i % sets, .pairs = i >= sets};
        c.drop = s->sp.drops[x.d];
        c.overlap = x.pairs ? OVERLAP_EP : OVERLAP_NOTHING;
        n += sieve_set(s, &c, t, x, out + n);
    }
    if (n > 1) qsort(out, (size_t)n, sizeof *out, by_promise);
    return n;
}

/* What was judged without bounds tells whether they hold. */
static void check_bounds(search *s, const choice *c, site *t, const found *f)
{
    int d = 0, levels = c->overlap >= OVERLAP_EP ? LEAST_LEVELS : LEAST_PAIRED;
    bool pairs = c->overlap >= OVERLAP_EP;
    double step = f->step_s * (1 + 1e-9);
    while (s->sp.drops[d] != c->drop) d++;
    const int64_t *saved = search_drop_bytes(s, c, d, pairs);
    int64_t bytes = stage_bytes_least(t->bytes, saved, c->offload, pairs);
    bytes = reported_least(&s->frame->all, bytes + t->bytes->passing * s->frame->passing);
    bool broken = bytes > f->peak_bytes || s->node_least > step;
    for (int level = 0; level < levels; level++) {
        double least = *known_at(s, c, t, d, (least_level)level);
        broken = broken || least + t->bytes->optimizer[c->offload] > step;
    }
    for (int i = 0; i < d; i++) /* part_least */
        if (c->drop == DROP_FULL || !(s->sp.drops[i] & ~c->drop))
            broken = broken || *known_at(s, c, t, i, LEAST_ROUGH) >
                                   *known_at(s, c, t, d, LEAST_ROUGH) * (1 + 1e-9);
    s->out->counts.broken += broken;
}

/* False: it needs too much memory. */
static bool try_one(search *s, const choice *c, site *t)
{
    attempt *a = &s->tried;
    found f;
    a->message = t->message;
    if (!attempt_patch(s, c, a)) return true;
    verdict v = attempt_judge(s, c, a, &f);
    if (v == GOOD && s->o->judge_all) check_bounds(s, c, t, &f);
    if (v == GOOD) attempt_keep(s, c, a, &f);
    if (v == GOOD && !s->o->judge_all) t->limit = best_limit(s->out, c);
    return v != TOO_LARGE;
}

/* The same with more of the optimizer's state on the host: slower where that takes longer. */
static bool less_is_enough(const site *t, int offload, const candidate *x)
{
    return offload >= 0 && t->bytes->optimizer[x->offload] >= t->bytes->optimizer[offload];
}

static void try_candidates(search *s, choice c, site *t, const candidate *list, int n)
{
    const inner *legal = search_inner_table(s, &c);
    if (!s->o->judge_all) t->limit = best_limit(s->out, &c);
    memset(s->sites->enough, -1, sizeof s->sites->enough);
    for (int i = 0; i < n && !s->done; i++) {
        const candidate *x = &list[i];
        if (x->pairs != (c.overlap >= OVERLAP_EP)) continue;
        if (!legal->ok[c.overlap][x->graphs][x->offload][x->d]) continue;
        c.graphs = x->graphs;
        c.offload = x->offload;
        c.drop = s->sp.drops[x->d];
        signed char *less = &s->sites->enough[x->graphs][x->d];
        bool may = s->o->judge_all || (x->least < t->limit && !less_is_enough(t, *less, x));
        for (int level = LEAST_TIGHT; level < (x->pairs ? LEAST_LEVELS : LEAST_PAIRED) && may;
             level++)
            may = may_enter(s, &c, t, x->d, (least_level)level);
        if (!may)
            s->out->counts.slow++;
        else if (search_forbidden(s, &c, AXES_ALL))
            s->out->counts.rules++;
        else if (!search_over(s) && try_one(s, &c, t) && *less < 0)
            *less = (signed char)x->offload;
    }
}

static void open_site(search *s, const choice *c, site *t)
{
    t->id++;
    t->times = search_stage_times(s, c);
    t->message = s->message;
    t->limit = s->o->judge_all ? INFINITY : best_limit_any(s->out, c);
}

/* False: the stages cannot be made. */
static bool add_bytes(search *s, const choice *c, site *t)
{
    t->bytes = search_stage_bytes(s, c);
    if (!t->bytes) return false;
    for (int i = OFFLOADS - 1; i >= 0; i--)
        t->optimizer[i] =
            fmin(t->bytes->optimizer[i], i + 1 < OFFLOADS ? t->optimizer[i + 1] : INFINITY);
    return true;
}

/* Not even with the optimizer on the host and the inputs of layers alone. */
static bool all_large(search *s, const choice *c, const site *t)
{
    int64_t bytes = INT64_MAX;
    if (s->packs) return false; /* saved buffers may lie in gradients */
    for (int pairs = 0; pairs < 2; pairs++) {
        int64_t x = stage_bytes_least(t->bytes, s->inputs, OFFLOAD_ALL, pairs);
        if (x < bytes) bytes = x;
    }
    bytes = reported_least(&s->frame->all, bytes + t->bytes->passing * s->frame->passing);
    if (bytes <= s->o->hw->usable) return false;
    if (s->out->has_miss && s->out->miss.peak_bytes <= bytes) return true;
    choice x = search_smallest(s, c);
    search_see_miss(s, &x, bytes);
    return true;
}

/* Not even without recompute, and with everything beside everything. */
static bool all_slow(search *s, const choice *c, const site *t, double optimizer)
{
    choice x = *c;
    x.graphs = s->sp.widest;
    if (t->limit == INFINITY) return false;
    return stage_times_least(t->times, search_drop_times(s, &x, 0, LEAST_ROUGH), t->message) +
               optimizer >=
           t->limit;
}

void search_try_stages(search *s, choice c)
{
    static const overlap_kind order[] = {OVERLAP_NOTHING, OVERLAP_SHARED, OVERLAP_EP, OVERLAP_WGRAD,
                                         OVERLAP_EP_DELAY};
    search_counts *n = &s->out->counts;
    if (!s->sites) s->sites = ARENA_NEW(s->a, struct site_work);
    site *t = &s->sites->t;
    if (search_forbidden(s, &c, AXES_STAGES)) {
        n->rules += search_inner_count(s, &c);
        return;
    }
    open_site(s, &c, t);
    /* where other stages were found to fit, bytes are dearer than seconds */
    if (s->plausible == s->visit && all_slow(s, &c, t, 0)) {
        n->slow += search_inner_count(s, &c);
        return;
    }
    if (!add_bytes(s, &c, t)) {
        n->rules += search_inner_count(s, &c);
        return;
    }
    if (all_large(s, &c, t)) {
        n->saved += search_inner_count(s, &c);
        return;
    }
    s->plausible = s->visit;
    if (all_slow(s, &c, t, t->optimizer[0])) {
        n->slow += search_inner_count(s, &c);
        return;
    }
    candidate *list = s->sites->list;
    int left = sieve(s, c, t, list);
    for (int b = 0; b < OVERLAP_KINDS && left && !s->done; b++) {
        c.overlap = order[b];
        try_candidates(s, c, t, list, left);
    }
}
