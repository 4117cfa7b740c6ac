/* search.c - the loops of a search, from what cards depend on to what only sums depend on.
 *
 * I1  A bound is below what it bounds: the busiest stream of a list below its time, the mean rank
 *     below the fullest, the best products that any EP allows below those of one.
 * I2  Recompute and offload only add time: where a set of modules fits, sets that hold it are not
 *     looked at.
 * I3  Whatever is left out is counted. */
#include "price/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/maths.h"
#include "price/card_steps.h"
#include "price/search_best.h"
#include "price/search_memo.h"
#include "price/search_space.h"
#include "program/plan.h"

enum { NODES_MAX = 1 << 14, STAGES_MOST = 4096, CHUNKS_MOST = 256, TOKENS_A_RANK = 4096 };

/* Attention of a layout: what the outer loop runs through. */
typedef struct node {
    choice c;
    int far;      /* from the first guess of CP x TP, in powers of two */
    double least; /* no step is shorter */
} node;

struct inner;

typedef struct search {
    search_result *out;
    const search_options *o;
    space sp;
    cards *k;
    ranks *r;
    arena *a, *scratch;
    struct inner *inner[DISPATCHER_KINDS][2][2][2]; /* [to][ep > 1][pp > 1][vpp > 1] */
    chunk_sum chunks[STAGES_MOST];
    int64_t fixed[STAGES_MOST];
    memo live; /* layers whose input is alive on each rank, by split and microbatches */
    int64_t layers[LAYER_KINDS_MAX];
    bool done;
} search;

/* ---- counts */

/* Which inner layouts are legal: the same for most sizes. */
typedef struct inner {
    int64_t n;
    int64_t n_of[BESIDE_KINDS][2]; /* by what runs beside, graphs */
    bool ok[BESIDE_KINDS][2][2][DROPS_MAX];
} inner;

static const inner *inner_table(search *s, const choice *c)
{
    inner **known = &s->inner[c->to][c->ep > 1][c->pp > 1][c->vpp > 1];
    if (*known) return *known;
    inner *t = *known = ARENA_NEW(s->a, inner);
    choice x = *c;
    for (int b = 0; b < BESIDE_KINDS; b++)
        for (int i = 0; i < 4 * s->sp.n_drops; i++) {
            x.beside = (beside_kind)b;
            x.graphs = i & 1;
            x.offload = i & 2;
            x.drop = s->sp.drops[i / 4];
            bool ok = space_inner_ok(&s->sp, &x);
            t->ok[b][x.graphs][x.offload][i / 4] = ok;
            t->n_of[b][x.graphs] += ok;
            t->n += ok;
        }
    return t;
}

static int64_t inner_of(search *s, const choice *c)
{
    return inner_table(s, c)->n;
}

static int64_t count_stages(search *s, const choice *c, int64_t only_pp)
{
    int64_t n = 0;
    choice x = *c;
    for (int i = 0; i < s->sp.n_splits; i++) {
        if (only_pp && s->sp.splits[i].pp != only_pp) continue;
        x.pp = s->sp.splits[i].pp;
        x.vpp = s->sp.splits[i].vpp;
        if (space_stages_ok(&s->sp, &x)) n += inner_of(s, &x);
    }
    return n;
}

typedef void expert_visit(search *s, const node *n, choice *c);

static void each_experts(search *s, const node *n, expert_visit *visit)
{
    choice c = n->c;
    for (int i = s->sp.ep.n - 1; i >= 0; i--)
        for (int k = 0; k < s->sp.etp.n; k++)
            for (int to = DISPATCHER_KINDS - 1; to >= 0; to--) {
                c.ep = s->sp.ep.v[i];
                c.etp = s->sp.etp.v[k];
                c.to = (dispatcher_kind)to;
                if (space_experts_ok(&s->sp, &c)) visit(s, n, &c);
            }
}

static void count_visit(search *s, const node *n, choice *c)
{
    (void)n;
    s->out->counts.legal += count_stages(s, c, 0);
}

static void slow_visit(search *s, const node *n, choice *c)
{
    (void)n;
    s->out->counts.slow += count_stages(s, c, 0);
}

/* ---- one layout, from here on all of it is known */

typedef struct attempt {
    setup s;
    choice_sizes z;
    const layout_facts *f;
    part_sums sums;
    double message;
    int64_t *fixed; /* [pp] bytes of all regions but saved and temporaries */
} attempt;

static void sum_chunks(search *s, const choice *c, const attempt *t)
{
    for (int64_t i = 0; i < c->pp * c->vpp; i++)
        s->chunks[i] = chunk_sum_of(&t->sums, &t->f->mix[i]);
}

/* Of the fullest rank. `exact`: packed, with temporaries; else a bound. */
static int64_t peak_of(search *s, const choice *c, const attempt *t, bool exact)
{
    int64_t most = 0, sizes[CHUNKS_MOST];
    for (int64_t q = 0; q < c->pp; q++) {
        for (int64_t v = 0; v < c->vpp; v++) sizes[v] = s->chunks[v * c->pp + q].saved;
        slots_of slots = {c, &t->z, t->f, s->k, &t->sums, q};
        int64_t saved =
            exact ? saved_packed(&slots, sizes, s->scratch) : saved_least(&slots, sizes);
        int64_t temp = exact ? temp_bytes(s->k, c, &t->z, t->f, q, s->scratch) : 0;
        int64_t sum = t->fixed[q] + round_up(saved, PLAN_ALIGN) + round_up(temp, PLAN_ALIGN) +
                      (c->graphs ? temp : 0);
        if (sum > most) most = sum;
    }
    return most;
}

static void fix_regions(search *s, const choice *c, attempt *t)
{
    t->fixed = s->fixed;
    for (int64_t q = 0; q < c->pp; q++) {
        int64_t bytes[REGION_COUNT];
        rank_regions(bytes, &t->s, &t->z, t->f, q);
        t->fixed[q] = 0;
        for (int i = 0; i < REGION_COUNT; i++) t->fixed[q] += round_up(bytes[i], PLAN_ALIGN);
    }
}

static step_play play_of(search *s, const choice *c, const attempt *t)
{
    return (step_play){
        .c = c, .z = &t->z, .f = t->f, .k = s->k, .chunks = s->chunks, .message = t->message};
}

static bool breaks_rule(search *s, const choice *c, attempt *t)
{
    arena_place mark = arena_mark(s->scratch);
    violations v;
    arena *own = t->s.r.a;
    t->s.r.a = s->scratch;
    t->s.r.knob[K_PRECISION_AWARE].v =
        c->offload ? value_of_bool(true) : t->s.r.knob[K_PRECISION_AWARE].v;
    rules_check(&v, &t->s, false, s->scratch);
    t->s.r.a = own;
    bool broken = v.n_errors > 0;
    arena_release(s->scratch, mark);
    return broken;
}

static void see_miss(search *s, const choice *c, const attempt *t, int64_t peak)
{
    search_result *r = s->out;
    if (r->has_miss && r->miss.peak_bytes <= peak) return;
    r->has_miss = true;
    r->miss = (found){.c = *c, .dp = t->z.dp, .edp = t->z.edp, .micros = t->z.micros};
    r->miss.peak_bytes = peak;
}

typedef enum verdict { TOO_SLOW, TOO_LARGE, GOOD } verdict;

/* Step played, memory summed. */
static verdict judge(search *s, const choice *c, attempt *t, found *out)
{
    search_counts *n = &s->out->counts;
    bool all = s->o->judge_all;
    sums_times(&t->sums, s->k, c);
    sum_chunks(s, c, t);
    *out = (found){.c = *c, .dp = t->z.dp, .edp = t->z.edp, .micros = t->z.micros};
    step_play p = play_of(s, c, t);
    if (!all &&
        !best_enters(s->out, c, step_least(&p, c->beside >= BESIDE_EP) + step_optimizer(&p))) {
        n->slow++;
        return TOO_SLOW;
    }
    out->step_s = step_seconds(&p, s->scratch);
    if (!all && !best_enters(s->out, c, out->step_s)) {
        n->played++;
        return TOO_SLOW;
    }
    out->peak_bytes = peak_of(s, c, t, true);
    n->summed++;
    if (out->peak_bytes > s->o->hw->usable) {
        see_miss(s, c, t, out->peak_bytes);
        return TOO_LARGE;
    }
    n->fitted++;
    return GOOD;
}

static void keep(search *s, const choice *c, attempt *t, const found *f)
{
    front_put(s->out, f);
    if (!best_enters(s->out, c, f->step_s)) return;
    if (breaks_rule(s, c, t)) {
        s->out->counts.rules++;
        return;
    }
    best_put(s->out, f);
    if (s->o->only_fit) s->done = true;
}

/* ---- recompute and offload */

static bool holds_one(const unsigned *fit, int n, unsigned drop)
{
    for (int i = 0; i < n; i++)
        if (drop == DROP_FULL || (fit[i] & ~drop) == 0) return true;
    return false;
}

static bool patch(search *s, const choice *c, attempt *t)
{
    t->f = ranks_facts(s->r, c);
    if (!t->f->ok || !choice_patch(&t->s, s->sp.m, c, t->f->split)) return false;
    choice_sizes_of(&t->z, &t->s);
    fix_regions(s, c, t);
    return true;
}

/* Memory from below, before cards of this recompute are built. */
static bool may_fit(search *s, const choice *c, attempt *t)
{
    sums_saved(&t->sums, s->k, c);
    sum_chunks(s, c, t);
    int64_t least = peak_of(s, c, t, false);
    if (least <= s->o->hw->usable) return true;
    see_miss(s, c, t, least);
    return false;
}

/* What is known of the sets of modules before their cards are built, once for all that runs beside:
 * whether they may fit (by combined 1F1B and offload), and the least step (messages hidden or not,
 * without the optimizer). */
typedef struct drop_facts {
    bool settled[2][2];
    signed char may[2][2][DROPS_MAX]; /* -1: not known yet */
    double least[2][2][DROPS_MAX];    /* [hidden][graphs]; < 0: not known yet */
    double optimizer[2];              /* < 0: not known yet */
} drop_facts;

/* Where not even all modules together save enough, no part of them does. */
static void settle_small_sets(search *s, const choice *c, attempt *t, signed char *may)
{
    choice x = *c;
    x.drop = 0;
    for (int d = 0; d < s->sp.n_drops; d++)
        if (s->sp.drops[d] != DROP_FULL) x.drop |= s->sp.drops[d];
    if (may_fit(s, &x, t)) return;
    for (int d = 0; d < s->sp.n_drops; d++)
        if (s->sp.drops[d] != DROP_FULL) may[d] = 0;
}

static bool may_of(search *s, const choice *c, attempt *t, drop_facts *m, int d)
{
    bool pairs = c->beside >= BESIDE_EP;
    signed char *may = m->may[pairs][c->offload];
    if (!m->settled[pairs][c->offload]) {
        m->settled[pairs][c->offload] = true;
        settle_small_sets(s, c, t, may);
    }
    if (may[d] < 0) may[d] = may_fit(s, c, t);
    return may[d];
}

static double least_of(search *s, const choice *c, attempt *t, drop_facts *m, int d)
{
    bool hidden = c->beside != BESIDE_NOTHING;
    if (m->least[0][0][d] < 0) {
        choice plain = *c;
        plain.beside = BESIDE_NOTHING;
        for (int of = 0; of < BOUND_KINDS; of++) {
            sums_bounds(&t->sums, s->k, &plain, (bound_kind)of);
            sum_chunks(s, c, t);
            step_play p = play_of(s, c, t);
            double alone = step_least(&p, true), together = step_least(&p, false);
            for (int g = 0; g < 2; g++) {
                if (of == BOUND_EAGER && g) continue;
                m->least[1][g][d] = fmax(m->least[1][g][d], alone);
                m->least[0][g][d] = fmax(m->least[0][g][d], fmax(alone, together));
            }
        }
    }
    return m->least[hidden][c->graphs][d] + m->optimizer[c->offload];
}

static void try_drops(search *s, choice c, attempt *t, drop_facts *m)
{
    search_counts *n = &s->out->counts;
    const inner *legal = inner_table(s, &c);
    unsigned fit[DROPS_MAX * 2];
    int n_fit = 0;
    bool all = s->o->judge_all;
    for (int offload = 0; offload < 2; offload++) {
        c.offload = offload;
        c.drop = 0;
        bool patched = false;
        for (int d = 0; d < s->sp.n_drops && !s->done; d++) {
            if (!legal->ok[c.beside][c.graphs][offload][d]) continue;
            c.drop = s->sp.drops[d];
            if (!all && holds_one(fit, n_fit, c.drop)) { /* I2 */
                n->slow++;
                continue;
            }
            bool known = m->may[c.beside >= BESIDE_EP][offload][d] >= 0 && m->least[0][0][d] >= 0 &&
                         m->optimizer[offload] >= 0;
            known = known || m->may[c.beside >= BESIDE_EP][offload][d] == 0;
            if (!known && !patched) {
                if (!patch(s, &c, t)) return;
                patched = true;
                step_play p = play_of(s, &c, t);
                m->optimizer[offload] = step_optimizer(&p);
            }
            if (!may_of(s, &c, t, m, d)) {
                n->saved++;
                continue;
            }
            if (!all && !best_enters(s->out, &c, least_of(s, &c, t, m, d))) {
                fit[n_fit++] = c.drop; /* what holds it is slower still */
                n->slow++;
                continue;
            }
            if (!patch(s, &c, t)) return;
            patched = true;
            sums_saved(&t->sums, s->k, &c);
            found f;
            verdict v = judge(s, &c, t, &f);
            if (v != TOO_LARGE) fit[n_fit++] = c.drop;
            if (v == GOOD) keep(s, &c, t, &f);
        }
    }
}

/* ---- stages, graphs, overlap */

static void try_stages(search *s, choice c)
{
    static _Thread_local attempt t;
    static const beside_kind order[] = {BESIDE_NOTHING, BESIDE_SHARED, BESIDE_EP, BESIDE_WGRAD,
                                        BESIDE_EP_DELAY};
    drop_facts m;
    memset(m.may, -1, sizeof m.may);
    memset(m.settled, 0, sizeof m.settled);
    for (int i = 0; i < s->sp.n_drops; i++)
        for (int h = 0; h < 4; h++) m.least[h / 2][h % 2][i] = -1;
    m.optimizer[0] = m.optimizer[1] = -1;
    c.drop = 0;
    c.offload = false;
    c.beside = BESIDE_NOTHING;
    if (!patch(s, &c, &t)) return;
    t.message = c.pp > 1 ? card_message(s->k, &c, &t.s, 1) : 0;
    for (int b = 0; b < 2 * BESIDE_KINDS && !s->done; b++) {
        c.beside = order[b / 2];
        c.graphs = !(b & 1);
        if (inner_table(s, &c)->n_of[c.beside][c.graphs]) try_drops(s, c, &t, &m);
    }
}

/* ---- experts and PP */

/* Bytes of state of the mean rank, from below. */
static int64_t state_least(search *s, const choice *c, bool offload)
{
    static _Thread_local setup patched;
    const setup *base = choice_base(s->sp.m, c->precision, c->tp);
    patched.r = base->r;
    if (offload) patched.r.knob[K_OPT_OFFLOAD].v = value_of_bool(true);
    if (offload) patched.r.knob[K_OPT_OFFLOAD_FRACTION].v = value_of_float(1);
    state_mode mode = state_mode_bare(&patched.r);
    double word = mode.weight < mode.plain ? mode.weight : mode.plain, bytes = 0;
    const param_table *t = &base->params;
    for (int i = 0; i < t->n_rows; i++) {
        const param *p = &t->rows[i];
        if (!p->trained) continue;
        double n = (double)param_local(p, c->tp, c->etp, c->ep) *
                   (double)param_block_count(&base->m, p->block);
        double shards = (double)(p->kind == PARAM_EXPERT ? s->sp.world / (c->ep * c->etp * c->pp)
                                                         : s->sp.world / (c->tp * c->pp));
        bytes += n * (word + mode.gradient + mode.optimizer / shards);
    }
    return (int64_t)(bytes / (double)c->pp);
}

static bool may_offload(search *s, const choice *c)
{
    choice x = {
        .precision = c->precision, .tp = c->tp, .to = c->to, .ep = c->ep, .pp = 1, .vpp = 1};
    x.offload = true;
    x.drop = s->sp.drops[0];
    bool offload = false;
    for (int g = 0; g < 2; g++) {
        x.graphs = g;
        for (int b = 0; b < BESIDE_KINDS; b++) {
            x.beside = (beside_kind)b;
            offload = offload || space_inner_ok(&s->sp, &x);
        }
    }
    return offload;
}

/* Nothing may ever fit: then the least state is the nearest miss. */
static void see_state(search *s, const choice *c, int64_t bytes, bool offload)
{
    search_result *r = s->out;
    if (r->has_miss && r->miss.peak_bytes <= bytes) return;
    r->has_miss = true;
    r->miss = (found){.c = *c, .peak_bytes = bytes};
    r->miss.c.vpp = 1;
    r->miss.c.offload = offload;
    r->miss.c.drop = DROP_FULL;
}

/* Layers' inputs that each rank holds at once, at least. */
static const int64_t *live_of(search *s, const layout_facts *f, const choice *c, int64_t micros)
{
    int64_t key[4] = {c->pp, c->vpp, c->split, micros};
    int64_t *live = memo_get(&s->live, key);
    if (live) return live;
    live = ARENA_ARRAY(s->a, int64_t, c->pp);
    choice plain = *c;
    plain.beside = BESIDE_EP; /* fewest */
    choice_sizes z = {.micros = micros};
    for (int64_t q = 0; q < c->pp; q++) {
        int64_t layers[CHUNKS_MOST];
        for (int64_t v = 0; v < c->vpp; v++)
            layers[v] = f->split->pipe.stages[v * c->pp + q].n_layers;
        slots_of slots = {.c = &plain, .z = &z, .rank = q};
        live[q] = saved_least(&slots, layers);
        if (c->vpp == 1 && c->pp > 1) { /* no combined 1F1B: one more */
            plain.beside = BESIDE_NOTHING;
            live[q] = saved_least(&slots, layers);
            plain.beside = BESIDE_EP;
        }
    }
    memo_put(&s->live, key, live);
    return live;
}

/* Does the least that any recompute and offload leave fit? */
static bool stages_may_fit(search *s, const choice *c, int64_t input, bool offload)
{
    choice x = *c;
    x.offload = offload;
    const layout_facts *f = ranks_facts(s->r, &x);
    if (!f->ok) return false;
    int64_t dp = s->sp.world / (c->tp * c->cp * c->pp), micros = s->sp.gbs / (c->mbs * dp);
    const int64_t *live = live_of(s, f, &x, micros);
    for (int64_t q = 0; q < c->pp; q++) {
        const rank_facts *r = &f->ranks[q];
        int64_t state = r->state[0] + r->state[1] + r->state[2] + r->scratch;
        if (state + live[q] * input > s->o->hw->usable) return false;
    }
    return true;
}

/* Of all layers, a microbatch: each kind of work by itself, the largest counts. */
static double layers_least(search *s, const choice *c)
{
    double sum[BOUND_KINDS] = {0}, most = 0;
    for (int i = 0; i < cards_kinds(s->k); i++)
        for (int half = 0; half < 2; half++) {
            const card_light *l = card_bound_of(s->k, c, half ? CARD_MLP : CARD_ATTENTION, i);
            double n = (double)s->layers[i];
            sum[BOUND_COMPUTE] += n * (l->compute[0] + l->compute[1]);
            sum[BOUND_MESSAGES] += n * (l->messages[0] + l->messages[1]);
            sum[BOUND_HOST] += n * (l->host[0] + l->host[1]);
        }
    for (int i = 0; i < BOUND_EAGER; i++) most = fmax(most, sum[i]);
    return most;
}

/* What a layer saves under all modules together, of the kind that saves least. */
static int64_t selective_least(search *s, const choice *c)
{
    unsigned all = 0;
    int64_t least = INT64_MAX;
    for (int d = 0; d < s->sp.n_drops; d++)
        if (s->sp.drops[d] != DROP_FULL) all |= s->sp.drops[d];
    for (int i = 0; i < cards_kinds(s->k); i++) {
        int64_t saved = card_saved(card_light_of(s->k, c, CARD_ATTENTION, i), all) +
                        card_saved(card_light_of(s->k, c, CARD_MLP, i), all);
        if (saved < least) least = saved;
    }
    return least;
}

static void experts_visit(search *s, const node *n, choice *c)
{
    bool any = false, fits[AXIS_MAX] = {false}, offload = may_offload(s, c);
    int64_t input = card_light_of(s->k, c, CARD_ATTENTION, 0)->input;
    search_counts *counts = &s->out->counts;
    for (int i = 0; i < s->sp.pp.n && !s->done; i++) {
        c->pp = s->sp.pp.v[i];
        int64_t here = count_stages(s, c, c->pp);
        if (!here) continue;
        int64_t state = state_least(s, c, offload);
        fits[i] = state <= s->o->hw->usable;
        any = any || fits[i];
        if (fits[i]) continue;
        counts->state += here;
        see_state(s, c, state, offload);
    }
    if (!any || s->done) return;
    double each = (double)s->sp.gbs * (double)(c->tp * c->cp) / (double)(c->mbs * s->sp.world);
    (void)n;
    c->beside = BESIDE_NOTHING;
    c->drop = 0;
    double least = each * layers_least(s, c), full = -1;
    int64_t selective = selective_least(s, c);
    for (int i = 0; i < s->sp.pp.n && !s->done; i++) {
        c->pp = s->sp.pp.v[i];
        if (!fits[i]) continue;
        if (!s->o->judge_all && least >= best_tenth(s->out)) {
            counts->slow += count_stages(s, c, c->pp);
            continue;
        }
        for (int k = s->sp.n_splits - 1; k >= 0; k--) {
            choice x = *c;
            if (s->sp.splits[k].pp != c->pp) continue;
            x.vpp = s->sp.splits[k].vpp;
            x.split = s->sp.splits[k].split;
            if (!space_stages_ok(&s->sp, &x)) continue;
            bool may = stages_may_fit(s, &x, selective, offload);
            if (!may && stages_may_fit(s, &x, input, offload)) { /* full recompute alone */
                c->drop = DROP_FULL;
                if (full < 0) full = each * layers_least(s, c);
                c->drop = 0;
                may = full < best_tenth(s->out) || s->o->judge_all;
            }
            if (may)
                try_stages(s, x);
            else
                counts->saved += inner_of(s, &x);
        }
    }
}

/* ---- attention: the outer loop */

static int far_from_guess(const search *s, const choice *c)
{
    int64_t guess = s->sp.seq / TOKENS_A_RANK > 1 ? s->sp.seq / TOKENS_A_RANK : 1;
    int64_t cut = c->tp * c->cp;
    int far = 0;
    for (; cut * 2 <= guess; cut *= 2) far++;
    for (; cut >= guess * 2; cut /= 2) far++;
    return far;
}

static void add_node(search *s, node *list, int *n, const choice *c, double products)
{
    node *x = &list[*n];
    *x = (node){.c = *c, .far = far_from_guess(s, c)};
    double compute = products, messages = 0;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        const card_light *l = card_light_of(s->k, c, CARD_ATTENTION, i);
        compute += (double)s->layers[i] * (l->compute[0] + l->compute[1]);
        messages += (double)s->layers[i] * (l->messages[0] + l->messages[1]);
    }
    double each = (double)s->sp.gbs * (double)(c->tp * c->cp) / (double)(c->mbs * s->sp.world);
    x->least = each * fmax(compute, messages);
    if (*n < NODES_MAX - 1) ++*n;
}

/* Products of the MLP where experts are spread widest: no EP makes them faster. */
static double best_products(search *s, const choice *c)
{
    choice x = *c;
    x.etp = 1;
    x.to = TO_EXPERTS;
    x.ep = 1;
    const setup *base = choice_base(s->sp.m, c->precision, c->tp);
    for (int64_t e = 2; base->m.experts && e <= base->m.experts && e <= s->sp.world; e++)
        if (base->m.experts % e == 0 && s->sp.world % e == 0) x.ep = e;
    double sum = 0;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        const card_light *l = card_light_of(s->k, &x, CARD_MLP, i);
        sum += (double)s->layers[i] * (l->products[0] + l->products[1]);
    }
    return sum;
}

static void add_nodes(search *s, node *list, int *n, choice c)
{
    if (!space_dense_ok(&s->sp, &c)) return;
    double products = best_products(s, &c);
    for (int kind = 0; kind < CP_KINDS; kind++)
        for (int overlap = 0; overlap < 2; overlap++) {
            c.kind = (cp_kind)kind;
            c.tp_overlap = overlap;
            if (space_kind_ok(&s->sp, &c)) add_node(s, list, n, &c, products);
        }
}

/* First those that cut sequences as the rule of thumb has it: good layouts are found early, and
 * bounds exclude more of the rest. */
static int by_promise(const void *a, const void *b)
{
    const node *x = a, *y = b;
    if (x->far != y->far) return x->far - y->far;
    return (x->least > y->least) - (x->least < y->least);
}

static int list_nodes(search *s, node *list)
{
    int n = 0;
    choice c = {0};
    for (c.precision = 0; c.precision < s->sp.m->n_precisions; c.precision++)
        for (int i = 0; i < s->sp.tp.n; i++)
            for (int k = 0; k < s->sp.cp.n; k++)
                for (int m = 0; m < s->sp.mbs.n; m++) {
                    c.tp = s->sp.tp.v[i];
                    c.cp = s->sp.cp.v[k];
                    c.mbs = s->sp.mbs.v[m];
                    add_nodes(s, list, &n, c);
                }
    qsort(list, (size_t)n, sizeof *list, by_promise);
    return n;
}

/* ---- the best as whole programs */

static void price_best(search *s, arena *a)
{
    search_result *r = s->out;
    int n = s->o->best > 0 && s->o->best < r->n_best ? s->o->best : r->n_best;
    for (int i = 0; i < n; i++) {
        found *f = &r->best[i];
        setup *t = ARENA_NEW(a, setup);
        if (!choice_patch(t, s->sp.m, &f->c, choice_split(s->sp.m, &f->c))) continue;
        t->r.a = a;
        price_setup(&f->exact, t, s->o->hw, &s->o->prices, a);
        f->priced = true;
    }
    best_sort(r);
}

/* The winner's layout from no recompute on, one module more a rung, cheapest first. */
static void climb(search *s)
{
    search_result *r = s->out;
    if (!r->n_best || s->o->only_fit) return;
    static _Thread_local attempt t;
    choice c = r->best[0].c;
    c.graphs = false;
    if (c.beside == BESIDE_EP || c.beside == BESIDE_EP_DELAY) c.beside = BESIDE_NOTHING;
    static const unsigned rungs[] = {
        0,        DROP_LAYERNORM, DROP_MOE_ACT, DROP_MLA_UP_PROJ, DROP_GDN_NORM_OUT,
        DROP_MLP, DROP_SHARED,    DROP_MOE,     DROP_FULL};
    unsigned drop = 0, all = 0;
    for (int i = 0; i < s->sp.n_drops; i++) all |= s->sp.drops[i];
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0] && r->n_ladder < LADDER_MAX; i++) {
        if (rungs[i] & ~all) continue;
        drop |= rungs[i];
        if (rungs[i] == DROP_MOE) drop &= ~(unsigned)(DROP_MOE_ACT | DROP_SHARED);
        c.drop = rungs[i] == DROP_FULL ? DROP_FULL : drop;
        if (c.beside == BESIDE_SHARED && (c.drop & DROP_SHARED)) c.beside = BESIDE_NOTHING;
        found *f = &r->ladder[r->n_ladder];
        *f = (found){.c = c};
        if (!patch(s, &c, &t)) continue;
        sums_saved(&t.sums, s->k, &c);
        sums_times(&t.sums, s->k, &c);
        sum_chunks(s, &c, &t);
        f->peak_bytes = peak_of(s, &c, &t, true);
        step_play p = play_of(s, &c, &t);
        f->step_s = step_seconds(&p, s->scratch);
        r->n_ladder++;
    }
}

/* ---- the whole */

static void list_precisions(choice_maker *m, const recipe *r, bool any)
{
    static const char *const hopper[] = {"bf16_with_fp8_subchannel_scaling_mixed", "bf16_mixed",
                                         "bf16_with_fp8_current_scaling_mixed"};
    static const char *const blackwell[] = {"bf16_with_mxfp8_mixed", "bf16_mixed",
                                            "bf16_with_nvfp4_mixed"};
    static const char *const ampere[] = {"bf16_mixed"};
    static const char *const cpus[] = {"fp32"};
    const gpu *g = gpu_find(recipe_word(r, K_GPU));
    gpu_arch arch = g ? g->arch : ARCH_HOPPER;
    const char *const *list = arch == ARCH_HOPPER      ? hopper
                              : arch == ARCH_BLACKWELL ? blackwell
                              : arch == ARCH_AMPERE    ? ampere
                                                       : cpus;
    int n = arch == ARCH_HOPPER || arch == ARCH_BLACKWELL ? 3 : 1;
    static const knob_id parts[] = {K_PRECISION, K_BF16, K_FP16, K_FP8, K_FP4, K_FP8_RECIPE};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (r->knob[parts[i]].from == FROM_USER) {
            m->n_precisions = 1; /* as the recipe has it */
            return;
        }
    m->n_precisions = any ? n : 1;
    for (int i = 0; i < m->n_precisions; i++) m->precisions[i] = list[i];
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static status open_search(search *s, const recipe *given, arena *a, error *err)
{
    choice_maker *m = ARENA_NEW(a, choice_maker);
    *m = (choice_maker){.a = a, .given = given, .world = recipe_int(given, K_N_GPUS)};
    list_precisions(m, given, s->o->any_precision);
    s->out->maker = m;
    recipe *whole = ARENA_NEW(a, recipe);
    *whole = *given;
    setup *probe = ARENA_NEW(a, setup);
    status st = setup_init(probe, whole, a, err);
    if (st) return st;
    if (!choice_base(m, 0, 1))
        return error_set(err, ERR_RULE, "no layout of %lld GPUs can be made", (long long)m->world);
    s->k = cards_create(m, s->o->hw, &s->o->prices, a);
    s->r = ranks_create(s->k, m, s->o->hw, &s->o->prices, a);
    space_init(&s->sp, m);
    const model *mod = cards_model(s->k);
    for (int64_t i = 0; i < mod->n_layers; i++) s->layers[cards_kind_of(s->k, i)]++;
    memo_init(&s->live, 4 * sizeof(int64_t), a);
    return OK;
}

/* What the rules say of the recipe as it was given. */
static status say_why_none(const recipe *given, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    violations v = {0};
    if (setup_init(s, given, a, err)) return ERR_RULE;
    rules_check(&v, s, false, a);
    const char *why = v.n_errors
                          ? v.list[0].message
                          : "no sizes divide GPUs, heads, experts, sequence and batch at once";
    return error_set(err, ERR_RULE, "no layout is legal: %s%s%s", why,
                     v.n_errors && v.list[0].n_repairs ? "; a repair: " : "",
                     v.n_errors && v.list[0].n_repairs ? v.list[0].repairs[0][0] : "");
}

status search_run(search_result *out, const recipe *given, const search_options *o, arena *a,
                  error *err)
{
    double start = now();
    memset(out, 0, sizeof *out);
    search *s = ARENA_NEW(a, search);
    *s = (search){.out = out, .o = o, .a = a, .scratch = arena_create()};
    status st = open_search(s, given, a, err);
    node *nodes = st ? NULL : ARENA_ARRAY(a, node, NODES_MAX);
    int n = st ? 0 : list_nodes(s, nodes);
    for (int i = 0; i < n; i++) each_experts(s, &nodes[i], count_visit);
    for (int i = 0; i < n && !s->done; i++)
        each_experts(s, &nodes[i],
                     !o->judge_all && nodes[i].least >= best_tenth(out) ? slow_visit
                                                                        : experts_visit);
    if (!st) price_best(s, a);
    if (!st) climb(s);
    out->counts.cards = st ? 0 : cards_built(s->k);
    if (s->k) cards_release(s->k);
    if (s->r) ranks_release(s->r);
    arena_destroy(s->scratch);
    out->counts.seconds = now() - start;
    if (!st && !out->counts.legal) st = say_why_none(given, a, err);
    return st;
}

void search_recipe(recipe *out, search_result *r, const recipe *given, const choice *c)
{
    *out = *given;
    choice_set(out, r->maker, c);
}
