/* bring_up.c - the winner of a plan with moves taken back.
 *
 * What rules or memory need beyond a stage itself is added: more recompute, then a part of the
 * optimizer on the host. */
#include "plan/bring_up.h"

#include "ir/segment.h"

typedef struct making {
    const variant_job *j;
    const setup *winner;
    variant won;
    arena *a;
} making;

/* What a recipe does without before its stage. */
static const struct {
    bring_up_stage stage;
    move_id without;
} taken_back[] = {{BRING_UP_DISPATCHER, MOVE_ALLTOALL},
                  {BRING_UP_OVERLAP, MOVE_EP_ALONE},
                  {BRING_UP_OVERLAP, MOVE_TP_ALONE},
                  {BRING_UP_GRAPHS, MOVE_EAGER},
                  {BRING_UP_PRECISION, MOVE_BF16}};

static bool is_there(const making *m, bring_up_stage k)
{
    const choice *c = &m->won.c;
    switch (k) {
    case BRING_UP_DISPATCHER:
        return c->to != TO_ALLTOALL;
    case BRING_UP_OVERLAP:
        return c->overlap || c->pick[PICK_TP_OVERLAP];
    case BRING_UP_GRAPHS:
        return c->graphs != SCOPE_NONE;
    case BRING_UP_PRECISION:
        return job_has(&m->winner->j, K_FP8) || job_has(&m->winner->j, K_FP4);
    default:
        return true;
    }
}

/* With what rules ask for. */
static bool build(bring_up_layout *out, const making *m, const variant *v)
{
    arena *a = m->a;
    recipe *r = ARENA_NEW(a, recipe);
    try_result t;
    edits fix = NO_EDITS;
    out->end = BRING_UP_NO_LAYOUT;
    if (!variant_recipe(r, v, m->j, a)) return false;
    if (!try_recipe(&t, r, &m->j->t, a)) {
        if (!t.s || !t.found.n_errors) return false;
        out->end = BRING_UP_RULE;
        out->rule = t.found.list[0].rule;
        if (!rules_fix(r, a, &fix)) return false;
        if (!edits_apply(r, fix, "bring-up")) return false;
        if (!try_recipe(&t, r, &m->j->t, a)) return false;
    }
    out->end = t.fits ? BRING_UP_MADE : BRING_UP_NO_ROOM;
    out->v = *v;
    out->n_warnings = t.found.n - t.found.n_errors;
    out->added_rules = fix;
    out->r = r;
    out->p = t.p;
    return true;
}

/* Sets that include `drop`: none more, then from the cheapest module on, with norms and without;
 * then full recompute. Experts as a whole cover what is inside of them. */
enum { MORE = 5, SETS = 2 * MORE + 1 };

static unsigned more_recompute(const making *m, unsigned drop, int set)
{
    static const unsigned more[MORE] = {0, DROP_MOE_ACT, DROP_MLA_UP_PROJ, DROP_MLP, DROP_MOE};
    if (set == SETS - 1 || drop == DROP_FULL) return DROP_FULL;
    unsigned all = set >= MORE ? DROP_LAYERNORM : 0;
    for (int i = 0; i <= set % MORE; i++) all |= more[i];
    return drop_tidy(drop | (all & drop_of_model(&m->winner->m)));
}

/* The fastest that fits of more recompute; where none does, of those with a part of the optimizer
 * on the host, as small as it may be. Nothing that `check` would warn of. */
static void make_fit(bring_up_layout *out, const making *m)
{
    const bool open = !recipe_by_user(m->j->t.given, K_RECOMPUTE);
    bring_up_layout best = *out;
    for (int host = out->v.c.offload; host <= OFFLOAD_ALL && !best.p.fits; host++)
        for (int set = open ? 0 : SETS - 1; set < SETS; set++) {
            arena_place mark = arena_mark(m->a);
            bring_up_layout one = *out;
            edits e = open ? move_recompute(more_recompute(m, out->before.drop, set), m->a)
                           : (edits)NO_EDITS;
            variant v;
            if (host != out->before.offload) e = edits_join(e, move_optimizer(host, m->a), m->a);
            bool good = variant_edit(&v, &out->v, m->j, e, m->a) && build(&one, m, &v) &&
                        !one.added_rules.n && one.p.fits && one.n_warnings <= out->n_warnings &&
                        (!best.p.fits || one.p.step_s < best.p.step_s);
            if (good)
                best = one;
            else
                arena_release(m->a, mark);
        }
    *out = best;
}

void bring_up_find(bring_up_layout out[BRING_UP_STAGES], const variant_job *j, const setup *winner,
                   arena *a)
{
    const making m = {j, winner, {.c = j->r->best[0].c}, a};
    int last = BRING_UP_EAGER;
    for (int k = 0; k < BRING_UP_STAGES; k++)
        if (is_there(&m, (bring_up_stage)k)) last = k;
    for (int k = 0; k < BRING_UP_STAGES; k++) {
        bring_up_layout *x = &out[k];
        edits e = NO_EDITS;
        variant v = m.won;
        *x = (bring_up_layout){.end = BRING_UP_NOT_THERE};
        if (!is_there(&m, (bring_up_stage)k)) continue;
        for (size_t i = 0; i < sizeof taken_back / sizeof taken_back[0]; i++)
            if (k < (int)taken_back[i].stage && k != last && is_there(&m, taken_back[i].stage))
                e = edits_join(e, moves[taken_back[i].without].e, a);
        x->end = BRING_UP_NO_LAYOUT;
        if (!variant_edit(&v, &m.won, j, e, a)) continue;
        x->before = v.c;
        if (build(x, &m, &v) && !x->p.fits) make_fit(x, &m);
    }
}
