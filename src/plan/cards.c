/* cards.c - the table that remembers cards, and the kinds of layers they are for.
 *
 * I1  A key holds what a card depends on and zeros elsewhere: what is the same is built once. */
#include "plan/cards.h"

#include "ir/memory/offload.h"
#include "ir/quant_plan.h"
#include "plan/card_parts.h"

/* A bit for each precision in which this layer stays wide while others are quantised: those at the
 * ends (first_last_layers_bf16). */
static unsigned wide_in(const cards *k, int64_t layer)
{
    unsigned wide = 0;
    for (int i = 0; i < k->m->n_precisions; i++) {
        const setup *s = choice_base(k->m, i, 1);
        if (s && quant_plan_of(&s->j).form != QUANT_NONE && !quant_layer(&s->j, k->model, layer))
            wide |= 1u << i;
    }
    return wide;
}

static void find_kinds(cards *k, const model *m)
{
    k->kind_of_layer = ARENA_ARRAY(k->a, int, m->n_layers + m->n_mtp + 1);
    for (int64_t i = 0; i < m->n_layers; i++) {
        card_layer layer = {.of = model_layer(m, i), .wide = wide_in(k, i), .sample = i};
        for (int b = 0; b < layer.of->n_blocks; b++) layer.has |= 1u << layer.of->block[b]->kind;
        int known = 0;
        while (known < k->n_kinds &&
               (k->kinds[known].of != layer.of || k->kinds[known].wide != layer.wide))
            known++;
        if (known == LAYER_KINDS_MAX) {
            k->n_kinds = 0;
            return;
        }
        k->kind_of_layer[i] = known;
        if (known == k->n_kinds) k->kinds[k->n_kinds++] = layer;
    }
    for (int64_t i = m->n_layers; i < m->n_layers + m->n_mtp; i++)
        k->kind_of_layer[i] = k->kind_of_layer[m->n_layers - 1];
}

static void find_halves(cards *k)
{
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < k->n_kinds; i++) {
            const card_layer *l = k->kinds;
            while (l->of->block[half] != k->kinds[i].of->block[half] || l->wide != k->kinds[i].wide)
                l++;
            k->half_kind[half][i] = (int)(l - k->kinds);
        }
}

cards *cards_create(choice_maker *m, const hardware *hw, const price_options *o, arena *a)
{
    cards *k = ARENA_NEW(a, cards);
    *k = (cards){.m = m, .hw = hw, .o = o, .a = a, .scratch = arena_create()};
    memo_init(&k->cards, sizeof(card_key), a);
    memo_init(&k->lights, sizeof(card_key), a);
    for (int g = 0; g < SCOPES; g++) k->captured[g] = choice_captured(m, (graph_scope)g);
    const setup *base = choice_base(m, 0, 1);
    if (!base) return k;
    k->model = &base->m;
    k->offload = offload_options_of(&base->j).names != 0;
    find_kinds(k, &base->m);
    find_halves(k);
    return k;
}

void cards_release(cards *k)
{
    arena_destroy(k->scratch);
    k->scratch = NULL;
    known_part **parts = &k->parts[0][0][0];
    for (size_t i = 0; i < sizeof k->parts / sizeof *parts; i++)
        if (parts[i]) arena_destroy(parts[i]->a);
    for (int i = 0; i < 2; i++) arena_destroy(k->orders[i].a);
    k->orders[0].a = k->orders[1].a = NULL;
}

const model *cards_model(const cards *k)
{
    return k->model;
}

int cards_kinds(const cards *k)
{
    return k->n_kinds;
}

int cards_kind_of(const cards *k, int64_t layer)
{
    return k->kind_of_layer[layer];
}

bool cards_kind_has(const cards *k, int kind, block_kind block)
{
    return k->kinds[kind].has >> block & 1;
}

bool cards_offload(const cards *k)
{
    return k->offload;
}

bool cards_whole(const cards *k, const choice *c)
{
    return k->offload || c->drop == DROP_FULL;
}

int64_t cards_built(const cards *k)
{
    return k->built;
}

bool card_has_experts(const cards *k, card_what what, int kind)
{
    if (what == CARD_MTP) return model_layer_has(k->model, k->model->n_layers, BLOCK_MOE);
    return (what == CARD_MLP || what == CARD_LAYER || what == CARD_PAIR) &&
           cards_kind_has(k, kind, BLOCK_MOE);
}

static bool has_attention(card_what what)
{
    return what == CARD_ATTENTION || what == CARD_LAYER || what == CARD_PAIR || what == CARD_MTP;
}

static card_key key_of(const cards *k, const choice *c, card_what what, int kind, int other)
{
    if (what == CARD_ATTENTION || what == CARD_MLP) kind = k->half_kind[what == CARD_MLP][kind];
    card_key key = {.what = (int16_t)what,
                    .kind = (int16_t)kind,
                    .other = (int16_t)other,
                    .precision = (int16_t)c->precision,
                    .picks = (int16_t)choice_picks(c),
                    .tp = (int32_t)c->tp,
                    .cp = (int32_t)c->cp,
                    .mbs = (int32_t)c->mbs,
                    .drop = c->drop};
    if (has_attention(what)) key.cp_kind = (int16_t)c->kind;
    if (what == CARD_PAIR) key.overlap = (int16_t)c->overlap; /* what waits in it */
    if (card_has_experts(k, what, kind) ||
        (what == CARD_PAIR && card_has_experts(k, what, other))) {
        key.to = (int16_t)c->to;
        key.overlap = (int16_t)c->overlap;
        key.ep = (int32_t)c->ep;
        key.etp = (int32_t)c->etp;
        if (what != CARD_PAIR && c->overlap >= OVERLAP_EP) key.overlap = OVERLAP_NOTHING;
    }
    return key;
}

const card *card_of(cards *k, const choice *c, card_what what, int kind, int other)
{
    card_key key = key_of(k, c, what, kind, other);
    if (what == CARD_ATTENTION || what == CARD_MLP)
        key.drop &= card_light_of(k, c, what, kind)->any;
    else if (what != CARD_LAYER && (c->drop == DROP_FULL || !has_attention(what)))
        key.drop = 0; /* only layers are made again */
    card *made = memo_get(&k->cards, &key);
    if (made) return made;
    made = card_build(k, c, &key);
    memo_put(&k->cards, &key, made);
    return made;
}

const card_light *card_light_of(cards *k, const choice *c, card_what half, int kind)
{
    card_key key = key_of(k, c, half, kind, 0);
    key.drop = 0;
    card_light *l = memo_get(&k->lights, &key);
    return l ? l : card_build_light(k, c, &key);
}

/* An MLP sees tokens, not sequences: with as many in fewer samples over fewer ranks its balance
 * loss is no dearer, and the rest is the same. */
static choice fewest_samples(const choice *c)
{
    choice x = *c;
    while (x.cp % 2 == 0 && x.mbs % 2 == 0) {
        x.cp /= 2;
        x.mbs /= 2;
    }
    x.kind = CP_RING;
    return x;
}

const card_light *card_bound_of(cards *k, const choice *c, card_what half, int kind)
{
    choice x = half == CARD_MLP ? fewest_samples(c) : *c;
    card_key key = key_of(k, &x, half, kind, 0);
    if (half != CARD_LAYER && c->drop && c->drop != DROP_FULL)
        key.drop &= card_light_of(k, &x, half, kind)->any;
    card_light *l = memo_get(&k->lights, &key);
    return l ? l : card_build_light(k, &x, &key);
}

const card_light *card_pair_light(cards *k, const choice *c, int kind, int other)
{
    card_key key = key_of(k, c, CARD_PAIR, kind, other);
    card_light *l = memo_get(&k->lights, &key);
    return l ? l : card_build_pair_light(k, c, &key);
}

int64_t card_saved(const card_light *l, unsigned drop)
{
    int64_t bytes = 0;
    for (int i = 0; i < l->n_masks; i++)
        if (!(l->mask[i] & drop)) bytes += l->bytes[i];
    return bytes;
}

int64_t card_saved_part(const card_light *l, unsigned drop, saved_part part)
{
    int64_t bytes = 0;
    for (int i = 0; i < l->n_masks; i++)
        if (!(l->mask[i] & drop)) bytes += l->parts[i][part];
    return bytes;
}

const step_order *cards_order(cards *k, const order_shape *h)
{
    known_orders *o = &k->orders[h->ep_overlap];
    bool same = o->a && o->shape.pp == h->pp && o->shape.vpp == h->vpp &&
                o->shape.micros == h->micros && o->shape.group == h->group;
    if (!same) {
        if (o->a)
            arena_release(o->a, o->empty);
        else
            o->empty = arena_mark(o->a = arena_create());
        o->shape = *h;
        o->ranks = ARENA_ARRAY(o->a, step_order, h->pp);
        o->meets = ARENA_ARRAY(o->a, order_meets, h->pp);
    }
    step_order *own = &o->ranks[h->rank];
    if (!own->list) order_make(own, h, o->a);
    return own;
}

static void count_meets(order_meets *m, const step_order *o, int64_t vpp, arena *a)
{
    int64_t *at = ARENA_ARRAY(a, int64_t, vpp * vpp); /* place in the list, from 1 on */
    m->alone = ARENA_ARRAY(a, int64_t, 2 * vpp);
    m->list = ARENA_ARRAY(a, order_meet, vpp * vpp);
    for (int64_t i = 0; i < o->n; i++) {
        const order_entry *e = &o->list[i];
        if (!order_is_pair(o, i)) {
            m->alone[2 * e->chunk + e->phase]++;
            continue;
        }
        int64_t *place = &at[e->chunk * vpp + o->list[++i].chunk];
        if (!*place) {
            m->list[m->n] = (order_meet){e->chunk, o->list[i].chunk, 0};
            *place = ++m->n;
        }
        m->list[*place - 1].times++;
    }
    m->by_first_stage = o->n && o->warmup > 0 && !o->list[0].chunk && !o->list[o->n - 1].chunk;
}

const order_meets *cards_meets(cards *k, const order_shape *h)
{
    const step_order *order = cards_order(k, h);
    known_orders *o = &k->orders[h->ep_overlap];
    order_meets *m = &o->meets[h->rank];
    if (!m->alone) count_meets(m, order, h->vpp, o->a);
    return m;
}
