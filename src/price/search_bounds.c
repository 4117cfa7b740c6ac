/* search_bounds.c - what sizes need at least, whatever their inner layout: state, activations and
 * seconds from below (I1 of search_parts.h). */
#include <math.h>

#include "price/search_parts.h"

/* Bytes of state of the mean rank, from below. */
int64_t search_state_least(search *s, const choice *c, bool offload)
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
bool search_stages_may_fit(search *s, const choice *c, int64_t input, bool offload)
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
double search_layers_least(search *s, const choice *c)
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
int64_t search_selective_least(search *s, const choice *c)
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
