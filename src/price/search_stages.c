/* search_stages.c - all inner layouts of sizes and stages: recompute and offload, graphs, what runs
 * beside expert messages. Each is excluded by its memory from below, by its step from below (rough,
 * then tight), or tried. */
#include <math.h>
#include <string.h>

#include "price/search_best.h"
#include "price/search_parts.h"

/* One set of stages under one attention and one spread of experts. */
typedef struct site {
    const stage_times *times;
    const stage_bytes *bytes[2]; /* by offload */
    double message;
    double limit;                      /* a step that is not shorter does not enter the list */
    signed char fits[2][2][DROPS_MAX]; /* [combined 1F1B][offload]; -1: not known yet */
    double least[LEAST_LEVELS][BESIDE_KINDS][2][DROPS_MAX]; /* [graphs]; < 0: not known yet */
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
    signed char *known = &t->fits[pairs][c->offload][d];
    if (*known >= 0) return *known;
    int64_t bytes = stage_bytes_least(t->bytes[c->offload], search_drop_bytes(s, c, d), pairs);
    *known = bytes <= s->o->hw->usable;
    if (!*known) search_see_miss(s, c, bytes);
    return *known;
}

static bool may_enter(search *s, const choice *c, site *t, int d)
{
    int levels = c->beside >= BESIDE_EP ? LEAST_LEVELS : LEAST_PAIRED;
    for (int level = 0; level < levels; level++) {
        beside_kind beside = level == LEAST_ROUGH ? BESIDE_NOTHING : c->beside;
        double *least = &t->least[level][beside][c->graphs][d];
        if (*least < 0) *least = least_of(t, search_drop_times(s, c, d, (least_level)level));
        if (*least + t->bytes[c->offload]->optimizer >= t->limit) return false;
    }
    return true;
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

static void try_drops(search *s, choice c, site *t)
{
    search_counts *n = &s->out->counts;
    const inner *legal = search_inner_table(s, &c);
    for (int i = 0; i < 2 * s->sp.n_drops && !s->done; i++) {
        int d = i % s->sp.n_drops;
        c.offload = i >= s->sp.n_drops;
        c.drop = s->sp.drops[d];
        if (!legal->ok[c.beside][c.graphs][c.offload][d]) continue;
        if (!may_fit(s, &c, t, d))
            n->saved++;
        else if (!s->o->judge_all && !may_enter(s, &c, t, d))
            n->slow++;
        else
            try_one(s, &c, t);
    }
}

/* False: the stages cannot be made. */
static bool open_site(search *s, const choice *c, site *t)
{
    choice x = *c;
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

static void forget(site *t)
{
    memset(t->fits, -1, sizeof t->fits);
    double *least = &t->least[0][0][0][0];
    for (size_t i = 0; i < sizeof t->least / sizeof *least; i++) least[i] = -1;
}

/* Not even without recompute, and with everything beside everything. */
static bool all_slow(search *s, const choice *c, const site *t)
{
    choice x = *c;
    x.graphs = true;
    double optimizer = fmin(t->bytes[0]->optimizer, t->bytes[1]->optimizer);
    return least_of(t, search_drop_times(s, &x, 0, LEAST_ROUGH)) + optimizer >= t->limit;
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
    forget(&t);
    for (int b = 0; b < 2 * BESIDE_KINDS && !s->done; b++) {
        c.beside = order[b / 2];
        c.graphs = !(b & 1);
        if (search_inner_table(s, &c)->n_of[c.beside][c.graphs]) try_drops(s, c, &t);
    }
}
