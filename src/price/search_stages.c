/* search_stages.c - all inner layouts of sizes and stages: recompute and offload, graphs, what runs
 * beside expert messages. */
#include <math.h>
#include <string.h>

#include "price/search_best.h"
#include "price/search_parts.h"

/* What is known of the sets of modules before their cards are built, once for all that runs beside:
 * whether they may fit (by combined 1F1B and offload), and the least step (messages hidden or not,
 * without the optimizer). */
typedef struct drop_facts {
    bool settled[2][2];
    signed char may[2][2][DROPS_MAX]; /* -1: not known yet */
    double least[2][2][DROPS_MAX];    /* [hidden][graphs]; < 0: not known yet */
    double optimizer[2];              /* < 0: not known yet */
} drop_facts;

static bool holds_one(const unsigned *fit, int n, unsigned drop)
{
    for (int i = 0; i < n; i++)
        if (drop == DROP_FULL || (fit[i] & ~drop) == 0) return true;
    return false;
}

/* Where not even all modules together save enough, no part of them does. */
static void settle_small_sets(search *s, const choice *c, attempt *t, signed char *may)
{
    choice x = *c;
    x.drop = 0;
    for (int d = 0; d < s->sp.n_drops; d++)
        if (s->sp.drops[d] != DROP_FULL) x.drop |= s->sp.drops[d];
    if (attempt_may_fit(s, &x, t)) return;
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
    if (may[d] < 0) may[d] = attempt_may_fit(s, c, t);
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
            attempt_sum_chunks(s, c, t);
            step_play p = attempt_play(s, c, t);
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
    const inner *legal = search_inner_table(s, &c);
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
            if (!all && !cards_offload(s->k) &&
                holds_one(fit, n_fit, c.drop)) { /* I2 of search_parts.h */
                n->slow++;
                continue;
            }
            bool known = m->may[c.beside >= BESIDE_EP][offload][d] >= 0 && m->least[0][0][d] >= 0 &&
                         m->optimizer[offload] >= 0;
            known = known || m->may[c.beside >= BESIDE_EP][offload][d] == 0;
            if (!known && !patched) {
                if (!attempt_patch(s, &c, t)) return;
                patched = true;
                step_play p = attempt_play(s, &c, t);
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
            if (!attempt_patch(s, &c, t)) return;
            patched = true;
            sums_saved(&t->sums, s->k, &c);
            found f;
            verdict v = attempt_judge(s, &c, t, &f);
            if (v != TOO_LARGE) fit[n_fit++] = c.drop;
            if (v == GOOD) attempt_keep(s, &c, t, &f);
        }
    }
}

void search_try_stages(search *s, choice c)
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
    if (!attempt_patch(s, &c, &t)) return;
    t.message = c.pp > 1 ? card_message(s->k, &c, &t.s, 1) : 0;
    for (int b = 0; b < 2 * BESIDE_KINDS && !s->done; b++) {
        c.beside = order[b / 2];
        c.graphs = !(b & 1);
        if (search_inner_table(s, &c)->n_of[c.beside][c.graphs]) try_drops(s, c, &t, &m);
    }
}
