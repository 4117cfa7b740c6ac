/* search_experts.c - all stages of one attention with one spread of experts: those that bounds do
 * not exclude are tried. */
#include "plan/search_best.h"
#include "plan/search_parts.h"

/* The most that any of its layouts may have on the host. */
static int most_offload(search *s, const choice *c)
{
    choice x = *c;
    x.pp = x.vpp = 1;
    const inner *t = search_inner_table(s, &x);
    int most = 0;
    for (int i = 0; i < OFFLOADS; i++)
        for (int d = 0; d < s->sp.n_drops; d++)
            for (int g = 0; g < SCOPES; g++)
                if (t->n_by[i][d][0][g]) most = i;
    return most;
}

/* Nothing may ever fit: then the least state is the nearest miss. */
static void see_state(search *s, const choice *c, int64_t bytes)
{
    if (s->out->has_miss && s->out->miss.peak_bytes <= bytes) return;
    choice x = *c;
    x.vpp = 1;
    x = search_smallest(s, &x);
    search_see_miss(s, &x, bytes);
}

/* What lies outside depends on no stage, recompute or overlap. */
static const visit_frame *frame_visit(search *s, const choice *c)
{
    int64_t key[8] = {c->precision, c->tp, c->cp, c->mbs, c->ep, c->etp, c->pp, c->to};
    visit_frame *f = memo_get(&s->frames, key);
    if (f) return f;
    setup *patched = &s->patched;
    f = ARENA_NEW(s->a, visit_frame);
    memo_put(&s->frames, key, f);
    f->all = s->least[c->precision];
    if (!choice_repatch(patched, &s->of_patched, s->sp.m, c, choice_split(s->sp.m, c))) return f;
    f->all = reported_frame_of(patched);
    const step_shape z = step_shape_of(patched);
    if (c->pp > 1 && s->megatron)
        f->passing = dtype_bytes(z.types.activation, z.T * patched->m.hidden);
    return f;
}

/* Stages of the i-th PP. */
static void try_splits(search *s, const choice *c, int i)
{
    const struct pp_splits *of = &s->sp.of_pp[i];
    bool first = true;
    for (int k = of->first + of->n - 1; k >= of->first && !search_over(s); k--) {
        choice x = *c;
        if (!search_is_now(s, c, s->sp.splits[k].rare)) continue;
        x.vpp = s->sp.splits[k].vpp;
        x.split = s->sp.splits[k].split;
        if (!space_stages_ok(&s->sp, &x)) continue;
        if (first) s->message = c->pp > 1 ? search_message(s, &x) : 0;
        if (first) s->frame = frame_visit(s, &x);
        first = false;
        search_try_stages(s, x);
    }
}

/* The same wherever attention of these sizes goes on with such experts. */
static void see_experts(search *s, const choice *c)
{
    choice x = *c;
    x.overlap = OVERLAP_NOTHING;
    x.drop = 0;
    double sum = 0;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        const card_light *l = card_bound_of(s->k, &x, CARD_MLP, i);
        double layers = (double)(s->layers[i] + (i == s->module));
        sum += layers * (l->compute[0] + l->compute[1]);
    }
    if (sum < s->experts_least) s->experts_least = sum;
}

static double layers_least(search *s, const choice *c)
{
    double each = (double)s->sp.gbs * (double)(c->tp * c->cp) / (double)(c->mbs * s->sp.world);
    return each * search_layers_least(s, c);
}

void search_experts_visit(search *s, const node *n, choice *c)
{
    if (search_forbidden(s, c, AXES_EXPERTS)) {
        search_rule_visit(s, n, c);
        return;
    }
    s->node_least = n->least;
    for (int i = 0; i < cards_kinds(s->k); i++)
        s->inputs[i] = card_light_of(s->k, &n->c, CARD_ATTENTION, i)->input;
    int offload = most_offload(s, c);
    search_counts *counts = &s->out->counts;
    double least = -1;
    s->visit++;
    for (int i = 0; i < s->sp.pp.n && !search_over(s); i++) {
        c->pp = s->sp.pp.v[i];
        int64_t here = search_count_pp(s, c, i);
        if (!here) continue;
        int64_t state = search_state_least(s, c, offload);
        state = reported_least(&s->least[c->precision], state);
        if (state > s->o->hw->usable) {
            counts->state += here;
            see_state(s, c, state);
            continue;
        }
        /* what attention alone cannot exclude shows what experts take */
        if (least < 0 && s->plausible == s->visit) least = layers_least(s, c);
        if (!s->o->judge_all && least >= best_tenth(s->out))
            counts->slow += here;
        else
            try_splits(s, c, i);
    }
    if (s->plausible == s->visit) see_experts(s, c);
}
