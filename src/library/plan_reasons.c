/* plan_reasons.c - why the winner is what it is, in numbers: each of its choices beside the other
 * ones, all else equal, priced as whole programs.
 *
 * I1  Nothing is claimed of an alternative but its price, or the rule that it breaks.
 * I2  What a person pinned has no alternative.
 * I3  An alternative that is faster and fits says why it is not the winner. */

#include "library/plan_parts.h"
#include "config/judgement.h"
#include "config/target.h"
#include "plan/search_ties.h"

typedef struct finder {
    plan_answer *p;
    const choice *won;
    arena *a;
} finder;

static bool pinned(const finder *f, knob_id k)
{
    return f->p->given->knob[k].from == FROM_USER;
}

/* I3. NULL: it is no faster than the winner, or does not fit. */
static const char *why_left(const finder *f, const plan_other *o)
{
    const plan_answer *p = f->p;
    if (!o->p.fits || o->p.step_s >= p->result->best[0].exact.step_s) return NULL;
    if (text_equal(o->topic, "precision"))
        return "faster, but only one precision is searched (--precision any)";
    if (p->published && o->unsupported)
        return arena_text(f->a,
                          "faster, but no published run on such GPUs has it (%s; --search all)",
                          o->unsupported);
    if (ties_equal(o->p.step_s, p->result->best[0].exact.step_s))
        return "faster by less than anybody would tell";
    return "faster, but not searched: pin it";
}

static void try_other(finder *f, const char *topic, const char *name, const choice *c,
                      const char *words)
{
    plan_reasons *r = &f->p->reasons;
    if (r->n == REASONS_MAX) return;
    plan_other *o = &r->list[r->n++];
    *o = (plan_other){.topic = topic, .name = name};
    o->priced = plan_price_trial(o, f->p, c, words, f->a);
    if (!o->priced && !o->rule) r->n--; /* there is no such layout */
    if (o->priced) o->left = why_left(f, o);
}

static const char *size_text(const finder *f, const char *name, int64_t n, const char *then)
{
    return arena_text(f->a, "%s %lld%s", name, (long long)n, then);
}

/* ---- what each choice could have been */

/* Less model parallelism leaves more replicas. */
static void find_halves(finder *f)
{
    static const struct {
        knob_id k;
        const char *name;
    } sizes[] = {{K_TP, "TP"}, {K_CP, "CP"}, {K_PP, "PP"}};
    for (int i = 0; i < 3; i++) {
        choice c = *f->won;
        if (pinned(f, sizes[i].k) || !plan_halve(&c, sizes[i].k)) continue;
        int64_t n = i == 0 ? c.tp : i == 1 ? c.cp : c.pp;
        try_other(f, "memory", size_text(f, sizes[i].name, n, ", DP doubles"), &c, NULL);
    }
}

static void find_stages(finder *f, const setup *s)
{
    if (f->won->pp == 1 || pinned(f, K_VPP) || pinned(f, K_PP_LAYOUT)) return;
    for (int twice = 0; twice < 2; twice++) {
        choice c = *f->won;
        if (!twice && c.vpp % 2) continue;
        c.vpp = twice ? c.vpp * 2 : c.vpp / 2;
        if (c.vpp * c.pp > s->m.n_layers) continue; /* some chunks would be empty */
        try_other(f, "pipeline", size_text(f, "VPP", c.vpp, ""), &c, NULL);
    }
}

static void find_experts(finder *f, const setup *s)
{
    choice c = *f->won;
    if (!s->m.moe->experts) return;
    for (int twice = 0; twice < 2 && !pinned(f, K_EP); twice++) {
        c.ep = twice ? f->won->ep * 2 : f->won->ep / 2;
        if (c.ep < 1 || s->m.moe->experts % c.ep || (!twice && f->won->ep % 2)) continue;
        try_other(f, "experts", size_text(f, "EP", c.ep, ""), &c, NULL);
    }
    c.ep = f->won->ep;
    c.etp = f->won->etp > 1 ? 1 : f->won->tp;
    if (c.etp != f->won->etp && !pinned(f, K_ETP))
        try_other(f, "experts", size_text(f, "ETP", c.etp, ""), &c, NULL);
}

static void find_context(finder *f, const setup *s)
{
    int64_t guess = 1, seq = recipe_int(&s->r, K_SEQ);
    while (guess * 2 <= seq / 4096) guess *= 2;
    choice c = *f->won;
    c.cp = guess;
    if (guess > 1 && guess != f->won->cp && !pinned(f, K_CP))
        try_other(f, "context", size_text(f, "CP", guess, " (sequence / 4096)"), &c, NULL);
    c = *f->won;
    for (int k = 0; k < CP_KINDS && c.cp > 1 && !pinned(f, K_CP_COMM); k++) {
        c.kind = (cp_kind)k;
        int64_t levels[2];
        const cp_traits *of = &cp_kinds[k];
        bool latent = of->latent && (!s->m.attention->mla || !target_has(&s->j, K_LATENT_RING));
        bool level = of->heads && of->ring && !choice_levels(s, c.tp, c.cp, levels);
        if (c.kind == f->won->kind || latent || level) continue;
        try_other(f, "context", of->title, &c, NULL);
    }
}

static void find_dispatchers(finder *f, const setup *s)
{
    if (!s->m.moe->experts || f->won->ep * f->won->etp == 1 || pinned(f, K_DISPATCHER)) return;
    for (int to = 0; to < TO_KINDS; to++) {
        choice c = *f->won;
        c.to = (dispatch_choice)to;
        bool flex = c.to >= TO_FLEX, named = c.to > TO_FLEX && pinned(f, K_FLEX);
        if (c.to == f->won->to || named || (flex && !judge_flex_serves(&s->j))) continue;
        try_other(f, "dispatcher", plan_dispatcher(f->p, &c), &c, NULL);
    }
}

static void find_overlaps(finder *f, const setup *s)
{
    if (f->won->ep == 1) return;
    const dispatcher *d = choice_dispatcher(f->p->result->maker, f->won);
    bool fixed = pinned(f, K_EP_OVERLAP) || pinned(f, K_DELAY_WGRAD) ||
                 pinned(f, K_SHARED_OVERLAP) || pinned(f, K_DISPATCH_WGRAD);
    for (int b = 0; b < OVERLAP_KINDS && !fixed; b++) {
        choice c = *f->won;
        c.overlap = (overlap_kind)b;
        bool shared = c.overlap == OVERLAP_SHARED && (!s->m.moe->shared_ffn || !d->shared_overlap);
        if (c.overlap == f->won->overlap || shared) continue;
        try_other(f, "overlap", plan_overlap(c.overlap), &c, NULL);
    }
}

static void find_graphs(finder *f)
{
    static const graph_scope scopes[] = {SCOPE_NONE, SCOPE_BOTH, SCOPE_STEP};
    if (pinned(f, K_GRAPHS) || pinned(f, K_GRAPH_MODULES)) return;
    for (int i = 0; i < 3; i++) {
        choice c = *f->won;
        c.graphs = scopes[i];
        bool stash =
            c.graphs == SCOPE_STEP && !choice_dispatcher(f->p->result->maker, &c)->fixed_shapes;
        if (c.graphs == f->won->graphs || stash || (c.graphs && recipe_on_cpu(f->p->given)))
            continue;
        try_other(f, "graphs", choice_graphs(c.graphs), &c, NULL);
    }
}

static void find_precision(finder *f, const setup *s)
{
    if (pinned(f, K_PRECISION) || recipe_is(&s->r, K_PRECISION, "bf16_mixed") ||
        recipe_on_cpu(&s->r))
        return;
    try_other(f, "precision", "bf16_mixed", f->won, "mixed_precision=bf16_mixed");
}

/* ---- what `check` would warn of */

static void find_warnings(finder *f, const setup *s, const recipe *given)
{
    violations *v = &f->p->reasons.warnings;
    rules_check(v, s, false, f->a);
    int n = 0;
    for (int i = 0; i < v->n; i++)
        if (v->list[i].rule->severity == WARNING || v->list[i].n_repairs) v->list[n++] = v->list[i];
    v->n = n;
    rules_prove(v, s, false, f->a);
    repair_job j = {.given = given,
                    .s = s,
                    .hw = f->p->hw,
                    .o = &f->p->prices,
                    .budget.left = TRY_SECONDS(1),
                    .notes = true};
    price_repairs(v, &j, f->a);
}

void plan_find_reasons(plan_answer *p, arena *a)
{
    finder f = {.p = p, .won = &p->result->best[0].c, .a = a};
    setup *s = ARENA_NEW(a, setup);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    search_recipe(r, p->result, p->given, f.won);
    if (setup_init(s, r, a, &err)) return;
    p->reasons.winner = s;
    find_halves(&f);
    find_stages(&f, s);
    find_experts(&f, s);
    find_context(&f, s);
    find_dispatchers(&f, s);
    find_overlaps(&f, s);
    find_graphs(&f);
    find_precision(&f, s);
    find_warnings(&f, s, r);
}

/* ---- pins that the target cannot run */

/* A search would leave the latent ring out, and say that the pin was not kept. */
status plan_refuse_target(plan_answer *p, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    violations all, *never = &p->result->never;
    if (setup_init(s, p->given, a, err)) return OK; /* the search says so */
    rules_check(&all, s, false, a);
    never->list = ARENA_ARRAY(a, violation, all.n + 1);
    for (int i = 0; i < all.n_errors; i++)
        if (all.list[i].rule->number == RULE_target_can_run) never->list[never->n++] = all.list[i];
    never->n_errors = never->n;
    return never->n ? error_set(err, ERR_RULE, "%s", never->list[0].message) : OK;
}
