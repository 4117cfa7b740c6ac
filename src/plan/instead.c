/* instead.c - the moves of a plan's winner.
 *
 * I1  Nothing is claimed of an alternative but its price, or the rule that it breaks.
 * I2  What a person pinned has no alternative. */
#include "plan/instead.h"

#include "config/judgement.h"
#include "predict/bands.h"

typedef struct finder {
    instead *out;
    int n;
    const variant_job *j;
    const setup *winner;
    variant won;
    arena *a;
} finder;

/* Is there anything to choose? */
static bool is_open(why_topic t, const setup *s, const choice *c)
{
    bool cpu = job_on_cpu(&s->j), experts = s->m.moe->experts > 0;
    switch (t) {
    case WHY_PIPELINE:
        return c->pp > 1;
    case WHY_EXPERTS:
        return experts;
    case WHY_DISPATCHER:
        return experts && c->ep * c->etp > 1;
    case WHY_OVERLAP:
        return c->ep > 1;
    case WHY_GRAPHS:
    case WHY_PRECISION:
        return !cpu;
    default:
        return true;
    }
}

/* Static words, or NULL. */
static const char *unsupported_of(const setup *s, const char *stack)
{
    band_traits t = band_traits_of(s);
    if (stack) t.stack = stack;
    band_feature f = band_unsupported(&t);
    return f == BAND_FEATURES ? NULL : f == BAND_RECOMPUTE ? "recompute" : t.feature[f];
}

/* Not asked: flex where it cannot serve, chunks without layers. */
static bool is_idle(why_topic topic, const choice *c, const setup *s)
{
    return (topic == WHY_DISPATCHER && c->to >= TO_FLEX && !judge_flex_serves(&s->j)) ||
           (topic == WHY_PIPELINE && c->vpp * c->pp > s->m.n_layers);
}

static void consider(finder *f, why_topic topic, edits e)
{
    if (f->n == INSTEAD_MAX) return;
    instead *o = &f->out[f->n];
    arena *a = arena_create();
    variant v = f->won;
    try_result t;
    bool legal = variant_try(&t, &v, &f->won, f->j, e, a);
    *o = (instead){.topic = topic, .k = e.list[0].k, .v = {.c = v.c}, .priced = legal};
    if (!legal && t.s && t.found.n_errors) o->rule = t.found.list[0].rule;
    if (legal) {
        o->unsupported = unsupported_of(t.s, f->j->t.o->stack);
        o->p = t.p;
    }
    f->n += (legal || o->rule) && !is_idle(topic, &v.c, f->winner);
    arena_destroy(a);
}

static void consider_size(finder *f, why_topic topic, knob_id k, int64_t n)
{
    consider(f, topic, (edits){&(edit){k, EDIT_INT, {.whole = n}}, 1});
}

int instead_find(instead out[INSTEAD_MAX], const variant_job *j, const setup *winner, arena *a)
{
    const choice *c = &j->r->best[0].c;
    finder f = {.out = out, .j = j, .winner = winner, .won = {.c = *c}, .a = a};
    int64_t guess = 1;
    while (guess * 2 <= winner->j.seq / 4096) guess *= 2;
    for (why_topic topic = 0; topic < WHY_TOPICS; topic++) {
        if (!is_open(topic, winner, c)) continue;
        if (topic == WHY_CONTEXT && guess > 1) consider_size(&f, topic, K_CP, guess);
        for (move_id m = 0; m < MOVES; m++) {
            edits e;
            bool none = topic == WHY_CONTEXT && c->cp == 1;
            if (moves[m].by >> 2 >> topic & 1 && !none && move_edits(&e, m, &winner->j, a))
                consider(&f, topic, moves[m].e);
        }
        if (topic == WHY_EXPERTS) consider_size(&f, topic, K_ETP, c->etp > 1 ? 1 : c->tp);
    }
    return f.n;
}

void instead_warnings(violations *out, const variant_job *j, const setup *winner, arena *a)
{
    recipe *given = ARENA_NEW(a, recipe);
    int n = 0;
    rules_check(out, winner, false, a);
    for (int i = 0; i < out->n; i++)
        if (out->list[i].rule->severity == WARNING || out->list[i].n_repairs)
            out->list[n++] = out->list[i];
    out->n = n;
    rules_prove(out, winner, false, a);
    search_recipe(given, j->r, j->t.given, &j->r->best[0].c);
    repair_job repairs = {.given = given,
                          .s = winner,
                          .hw = j->t.hw,
                          .o = j->t.o,
                          .budget.left = TRY_SECONDS(1),
                          .notes = true};
    price_repairs(out, &repairs, a);
}
