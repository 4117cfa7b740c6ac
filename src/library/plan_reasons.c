/* plan_reasons.c - why the winner is what it is, in numbers: what it could have been
 * (plan/instead.h). An alternative that is faster and fits says why it is not the winner. */
#include "library/plan_parts.h"
#include "plan/instead.h"
#include "plan/search_ties.h"

const char *plan_dispatcher(const plan_answer *p, const choice *c)
{
    return choice_dispatcher(p->result->maker, c)->title;
}

const char *plan_overlap(overlap_kind overlap)
{
    static const char *const words[OVERLAP_KINDS] = {
        "none", "shared expert", "expert wgrad with dispatch", "EP", "EP, delayed wgrad"};
    return words[overlap];
}

/* NULL: it is no faster than the winner, or does not fit. */
static const char *why_left(const plan_answer *p, const instead *o, arena *a)
{
    const price *first = &p->result->best[0].exact;
    if (!o->priced || !o->p.fits || o->p.step_s >= first->step_s) return NULL;
    if (o->topic == WHY_PRECISION)
        return "faster, but only one precision is searched (--precision any)";
    if (p->published && o->unsupported)
        return arena_text(a, "faster, but no published run on such GPUs has it (%s; --search all)",
                          o->unsupported);
    if (ties_equal(o->p.step_s, first->step_s)) return "faster by less than anybody would tell";
    return "faster, but not searched: pin it";
}

static const char *name_of(const plan_answer *p, const instead *o, arena *a)
{
    const choice *c = &o->v.c;
    switch (o->topic) {
    case WHY_MEMORY:
        return o->k == K_TP   ? arena_text(a, "TP %lld, DP doubles", (long long)c->tp)
               : o->k == K_CP ? arena_text(a, "CP %lld, DP doubles", (long long)c->cp)
                              : arena_text(a, "PP %lld, DP doubles", (long long)c->pp);
    case WHY_PIPELINE:
        return arena_text(a, "VPP %lld", (long long)c->vpp);
    case WHY_EXPERTS:
        return o->k == K_EP ? arena_text(a, "EP %lld", (long long)c->ep)
                            : arena_text(a, "ETP %lld", (long long)c->etp);
    case WHY_CONTEXT:
        return o->k == K_CP ? arena_text(a, "CP %lld (sequence / 4096)", (long long)c->cp)
                            : cp_kinds[c->kind].title;
    case WHY_DISPATCHER:
        return plan_dispatcher(p, c);
    case WHY_OVERLAP:
        return plan_overlap(c->overlap);
    case WHY_GRAPHS:
        return choice_graphs(c->graphs);
    default:
        return "bf16_mixed";
    }
}

void plan_find_reasons(plan_answer *p, arena *a)
{
    static const char *const topics[WHY_TOPICS] = {
        [WHY_MEMORY] = "memory",   [WHY_PIPELINE] = "pipeline",     [WHY_EXPERTS] = "experts",
        [WHY_CONTEXT] = "context", [WHY_DISPATCHER] = "dispatcher", [WHY_OVERLAP] = "overlap",
        [WHY_GRAPHS] = "graphs",   [WHY_PRECISION] = "precision"};
    plan_reasons *r = &p->reasons;
    const variant_job j = plan_variants(p, TRY_PRICE);
    instead *others = ARENA_ARRAY(a, instead, INSTEAD_MAX);
    setup *s = ARENA_NEW(a, setup);
    recipe *won = ARENA_NEW(a, recipe);
    error err = {{0}};
    search_recipe(won, p->result, p->given, &p->result->best[0].c);
    if (setup_init(s, won, a, &err)) return;
    r->winner = s;
    r->n = instead_find(others, &j, s, a);
    for (int i = 0; i < r->n; i++) {
        const instead *o = &others[i];
        r->list[i] = (plan_other){.topic = topics[o->topic],
                                  .name = name_of(p, o, a),
                                  .priced = o->priced,
                                  .rule = o->rule ? o->rule->id : NULL,
                                  .left = why_left(p, o, a),
                                  .p = o->p};
    }
    instead_warnings(&r->warnings, &j, s, a);
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
