/* variant.c - edits of a layout of a search. */
#include "plan/variant.h"

#include <math.h>

#include "config/job_of.h"

/* One word each: an edit of one knob keeps the others of its axis. */
static const unsigned sizes =
    1u << AX_TP | 1u << AX_CP | 1u << AX_STAGES | 1u << AX_EP | 1u << AX_MBS;

/* Has a choice a field for it? */
static bool is_chosen(knob_id k)
{
    static const knob_id chosen[] = {K_TP,
                                     K_CP,
                                     K_EP,
                                     K_ETP,
                                     K_PP,
                                     K_VPP,
                                     K_MBS,
                                     K_CP_COMM,
                                     K_CP_LEVELS,
                                     K_LATENT_RING,
                                     K_DISPATCHER,
                                     K_FLEX,
                                     K_EP_OVERLAP,
                                     K_DELAY_WGRAD,
                                     K_SHARED_OVERLAP,
                                     K_DISPATCH_WGRAD,
                                     K_RECOMPUTE,
                                     K_RECOMPUTE_METHOD,
                                     K_RECOMPUTE_LAYERS,
                                     K_RECOMPUTE_MODULES,
                                     K_GRAPHS,
                                     K_GRAPH_MODULES,
                                     K_OPT_OFFLOAD,
                                     K_OPT_OFFLOAD_FRACTION,
                                     K_OPT_STATES};
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
        if (chosen[i] == k) return true;
    for (pick_id p = 0; p < PICKS; p++)
        if (pick_values[p].list[0].k == k) return true;
    return false;
}

static int64_t size_in(const job *j, knob_id k)
{
    int64_t n = job_int(j, k);
    return n > 0 ? n : 1;
}

static overlap_kind overlap_of(const job *j)
{
    return j->delay_wgrad      ? OVERLAP_EP_DELAY
           : j->ep_overlap     ? OVERLAP_EP
           : j->dispatch_wgrad ? OVERLAP_WGRAD
           : j->shared_overlap ? OVERLAP_SHARED
                               : OVERLAP_NOTHING;
}

static graph_scope scope_of(const job *j)
{
    bool attention = job_lists(j->graph_modules, J_GRAPH_MODULES_ATTN);
    bool router = job_lists(j->graph_modules, J_GRAPH_MODULES_MOE_ROUTER);
    if (j->graphs == J_GRAPHS_NULL || j->graphs == J_GRAPHS_NONE) return SCOPE_NONE;
    if (j->graphs == J_GRAPHS_FULL_ITERATION) return SCOPE_STEP;
    return attention == router ? SCOPE_BOTH : attention ? SCOPE_ATTENTION : SCOPE_ROUTER;
}

static int offload_of(const job *j)
{
    if (!j->opt_offload) return j->opt_states ? OFFLOAD_MOVED : 0;
    return job_has(j, K_OPT_OFFLOAD_FRACTION) ? (int)lround(j->opt_offload_fraction * OFFLOAD_ALL)
                                              : OFFLOAD_ALL;
}

/* The layout of a job on these axes; on the others it is as it was. */
static void choice_take(choice *c, const job *j, unsigned axes, const variant_job *of)
{
    const model *m = &choice_base(of->r->maker, 0, 1)->m;
    const int64_t tp = c->tp;
    c->tp = size_in(j, K_TP);
    c->cp = size_in(j, K_CP);
    c->ep = size_in(j, K_EP);
    c->etp = size_in(j, K_ETP);
    c->pp = size_in(j, K_PP);
    c->vpp = c->pp > 1 ? size_in(j, K_VPP) : 1;
    c->mbs = size_in(j, K_MBS);
    if (c->tp != tp && c->etp > 1) c->etp = c->tp;
    if (axes >> AX_CP_COMM & 1) c->kind = (cp_kind)(cp_kind_of(j, j->cp_comm.item[0]) - cp_kinds);
    for (int i = TO_KINDS - 1; i >= 0 && axes >> AX_DISPATCHER & 1; i--) {
        choice x = *c;
        x.to = (dispatch_choice)i;
        const dispatcher *d = choice_dispatcher(of->r->maker, &x);
        if (d->word == j->dispatcher && (!d->flex || d->backend == j->flex)) c->to = x.to;
    }
    if (axes >> AX_EXPERT_OVERLAP & 1) c->overlap = overlap_of(j);
    if (axes >> AX_GRAPHS & 1) c->graphs = scope_of(j);
    if (axes >> AX_OFFLOAD & 1) c->offload = offload_of(j);
    if (axes >> AX_RECOMPUTE & 1)
        c->drop = j->recompute == J_RECOMPUTE_FULL        ? DROP_FULL
                  : j->recompute == J_RECOMPUTE_SELECTIVE ? drop_of(j) & drop_of_model(m)
                                                          : 0;
    for (pick_id p = 0; p < PICKS; p++)
        for (size_t i = 0; i < pick_values[p].n; i++)
            if (edit_holds(&pick_values[p].list[i], j)) c->pick[p] = (signed char)i;
    choice_settle(c);
}

bool variant_recipe(recipe *out, const variant *v, const variant_job *j, arena *a)
{
    search_recipe(out, j->r, j->t.given, &v->c);
    out->a = a;
    return edits_apply(out, v->beside, "plan");
}

bool variant_edit(variant *out, const variant *from, const variant_job *j, edits e, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    unsigned axes = 0;
    job own;
    if (!variant_recipe(r, from, j, a)) return false;
    job_of(&own, r);
    job_put_int(&own, K_VPP, from->c.vpp); /* of a split that is written out, too */
    if (!edits_resolve(&e, e, &own, a)) return false;
    for (size_t i = 0; i < e.n; i++)
        if (is_chosen(e.list[i].k)) axes |= 1u << axis_of(e.list[i].k);
    for (const axis_knob *x = axis_knobs; x->k != K_COUNT; x++)
        if (axes & ~sizes & 1u << x->axis) recipe_open(r, x->k);
    recipe_set(r, K_VPP, value_of_int(from->c.vpp), "plan");
    if (!edits_apply(r, e, "plan")) return false;
    job_of(&own, r);
    *out = *from;
    choice_take(&out->c, &own, axes, j);
    for (size_t i = 0; i < e.n; i++)
        if (!is_chosen(e.list[i].k))
            out->beside = edits_join(out->beside, (edits){&e.list[i], 1}, a);
    const setup *base = choice_base(j->r->maker, out->c.precision, out->c.tp);
    const cp_traits *kind = &cp_kinds[out->c.kind];
    int64_t levels[2];
    return base &&
           (out->c.cp == 1 || !kind->levels || choice_levels(base, out->c.tp, out->c.cp, levels));
}

/* False: it is what it was, or what a person pinned would change; but for the backend of a
 * dispatcher that has none. */
static bool may_try(const recipe *now, const recipe *from, const recipe *given)
{
    job x, y;
    bool same = true;
    job_of(&x, now);
    job_of(&y, from);
    for (knob_id k = 0; k < K_COUNT; k++) {
        if (job_same(&x, &y, k)) continue;
        if (recipe_by_user(given, k) && k != K_FLEX) return false;
        same = false;
    }
    return !same;
}

bool variant_try(try_result *out, variant *to, const variant *from, const variant_job *j, edits e,
                 arena *a)
{
    recipe *r = ARENA_NEW(a, recipe), *before = ARENA_NEW(a, recipe);
    *out = (try_result){.s = NULL};
    return variant_edit(to, from, j, e, a) && variant_recipe(r, to, j, a) &&
           variant_recipe(before, from, j, a) && may_try(r, before, j->t.given) &&
           try_recipe(out, r, &j->t, a);
}
