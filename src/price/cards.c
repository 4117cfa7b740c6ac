/* cards.c - building cards, and the table that remembers them.
 *
 * I1  A key holds what a card depends on and zeros elsewhere: what is the same is built once.
 * I2  Cards are built with PP 1: nothing in a segment depends on stages, replicas or batches. */
#include "price/cards.h"

#include <assert.h>
#include <string.h>

#include "base/maths.h"
#include "price/search_memo.h"
#include "program/build.h"
#include "program/build_messages.h"
#include "program/plan.h"

typedef struct card_key {
    int16_t what, kind, other, cp_kind, to, beside, precision, tp_overlap;
    int32_t tp, cp, mbs, ep, etp;
    uint32_t drop;
} card_key;

struct cards {
    choice_maker *m;
    const hardware *hw;
    const price_options *o;
    arena *a, *scratch;
    unsigned char kinds[LAYER_KINDS_MAX]; /* layer_kind_bits */
    int64_t sample[LAYER_KINDS_MAX];      /* a layer of each */
    int n_kinds;
    const model *model;
    memo cards, lights;
    int64_t built;
};

/* ---- kinds of layers */

static void find_kinds(cards *k, const model *m)
{
    for (int64_t i = 0; i < m->n_layers && k->n_kinds < LAYER_KINDS_MAX; i++) {
        int known = 0;
        while (known < k->n_kinds && k->kinds[known] != m->layer[i]) known++;
        if (known < k->n_kinds) continue;
        k->kinds[k->n_kinds] = m->layer[i];
        k->sample[k->n_kinds++] = i;
    }
}

cards *cards_create(choice_maker *m, const hardware *hw, const price_options *o, arena *a)
{
    cards *k = ARENA_NEW(a, cards);
    *k = (cards){.m = m, .hw = hw, .o = o, .a = a, .scratch = arena_create()};
    memo_init(&k->cards, sizeof(card_key), a);
    memo_init(&k->lights, sizeof(card_key), a);
    const setup *base = choice_base(m, 0, 1);
    if (!base) return k;
    k->model = &base->m;
    find_kinds(k, &base->m);
    return k;
}

void cards_release(cards *k)
{
    arena_destroy(k->scratch);
    k->scratch = NULL;
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
    int i = 0;
    while (i < k->n_kinds - 1 && k->kinds[i] != k->model->layer[layer]) i++;
    return i;
}

bool cards_kind_is(const cards *k, int kind, layer_kind_bits bit)
{
    return (k->kinds[kind] & bit) != 0;
}

int64_t cards_built(const cards *k)
{
    return k->built;
}

/* ---- keys */

static bool has_experts(const cards *k, card_what what, int kind)
{
    if (what == CARD_MTP) return k->model->experts > 0;
    return (what == CARD_MLP || what == CARD_LAYER || what == CARD_PAIR) &&
           (k->kinds[kind] & LAYER_MOE);
}

static bool has_attention(card_what what)
{
    return what == CARD_ATTENTION || what == CARD_LAYER || what == CARD_PAIR || what == CARD_MTP;
}

static card_key key_of(const cards *k, const choice *c, card_what what, int kind, int other)
{
    card_key key = {.what = (int16_t)what,
                    .kind = (int16_t)kind,
                    .other = (int16_t)other,
                    .precision = (int16_t)c->precision,
                    .tp_overlap = c->tp_overlap,
                    .tp = (int32_t)c->tp,
                    .cp = (int32_t)c->cp,
                    .mbs = (int32_t)c->mbs,
                    .drop = c->drop};
    if (has_attention(what)) key.cp_kind = (int16_t)c->kind;
    if (has_experts(k, what, kind) || (what == CARD_PAIR && has_experts(k, what, other))) {
        key.to = (int16_t)c->to;
        key.beside = (int16_t)c->beside;
        key.ep = (int32_t)c->ep;
        key.etp = (int32_t)c->etp;
        if (what != CARD_PAIR && c->beside >= BESIDE_EP) key.beside = BESIDE_NOTHING;
    }
    return key;
}

/* ---- building */

typedef struct bench {
    setup s[2]; /* without and with graphs */
    cost_model cost[2];
    builder b;
} bench;

static bool set_up(cards *k, bench *w, const choice *c, card_what what, int kind)
{
    choice one = *c;
    one.offload = false;
    if (!has_experts(k, what, kind) && what != CARD_PAIR) one.ep = one.etp = 1;
    if (what != CARD_PAIR && one.beside >= BESIDE_EP) one.beside = BESIDE_NOTHING;
    for (int g = 0; g < 2; g++) {
        one.graphs = g;
        if (!choice_patch(&w->s[g], k->m, &one, NULL)) return false;
        cost_init(&w->cost[g], k->hw, &w->s[g], k->o ? k->o->stack : NULL);
        if (k->o && k->o->skew > 0) w->cost[g].skew = k->o->skew;
    }
    const setup *s = &w->s[0];
    int64_t S = recipe_int(&s->r, K_SEQ) / c->cp;
    bool narrow = recipe_on(&s->r, K_BF16) || recipe_on(&s->r, K_FP16);
    w->b = (builder){.s = s,
                     .a = k->scratch,
                     .at = rank_coordinates(&s->lay, 0),
                     .seq = recipe_int(&s->r, K_SEQ),
                     .B = c->mbs,
                     .S = S,
                     .Tc = c->mbs * S,
                     .T = c->mbs * S / c->tp,
                     .word = narrow ? 2 : 4,
                     .aux_gradient = 1};
    bool stored = recipe_given(&s->r, K_FP8) || recipe_given(&s->r, K_FP4);
    w->b.stored = stored ? 1 : w->b.word;
    return true;
}

static void build_attention(builder *b, layer_bufs *t, int x, int h, int dh)
{
    if (model_layer_is(&b->s->m, b->layer, LAYER_LINEAR)) {
        gdn_forward(b, &t->gdn, x, h);
        gdn_backward(b, &t->gdn, dh);
    } else {
        attention_forward(b, &t->attention, x, h);
        attention_backward(b, &t->attention, dh);
    }
}

static void build_mlp(builder *b, layer_bufs *t, int h, int y, int dh)
{
    if (model_layer_is(&b->s->m, b->layer, LAYER_MOE)) {
        moe_forward(b, &t->moe, h, y);
        moe_backward(b, &t->moe, dh);
    } else {
        mlp_forward(b, &t->mlp, h, y);
        mlp_backward(b, &t->mlp, dh);
    }
}

static void build_half(builder *b, segment *seg, card_what what, int64_t layer)
{
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, "layer", b->s, b->a);
    seg->n_layers = 1;
    b->module = "layer";
    b->node = NODE_ATTN;
    b->layer = layer;
    layer_bufs t;
    int x = seg_saved(b, "x", size, 0), y = seg_other(b, "y", LIFE_OUTPUT, size);
    int dh = seg_other(b, "dh", LIFE_STREAM, size);
    if (what == CARD_ATTENTION)
        build_attention(b, &t, x, y, dh);
    else
        build_mlp(b, &t, x, y, dh);
}

static void build_part(cards *k, builder *b, segment *seg, card_what what, int kind)
{
    switch (what) {
    case CARD_EMBEDDING:
        build_embedding(b, seg);
        break;
    case CARD_FINAL:
        build_final(b, seg);
        break;
    case CARD_MTP:
        build_mtp(b, seg);
        break;
    case CARD_HEAD:
        build_head(b, seg);
        break;
    case CARD_LAYER:
    case CARD_PAIR:
        build_layers(b, seg, k->sample[kind], 1);
        break;
    default:
        build_half(b, seg, what, k->sample[kind]);
    }
}

static void finish(segment *seg, unsigned drop, arena *a)
{
    segment_recompute(seg, drop, a);
    segment_fit(seg, a);
    segment_waits(seg, a);
}

/* ---- reading what was built */

/* Computation, and what messages take from it where they are hidden; where they show, they cost
 * more (play.c). */
static double busy_of(const played *p, double share)
{
    double sum = p->busy[COST_OTHER];
    for (int i = 0; i < COST_TP; i++) sum += p->busy[i];
    for (int i = COST_TP; i <= COST_DP; i++) sum += share * p->busy[i];
    return sum;
}

static void play_card(card *out, const bench *w, const segment *seg)
{
    out->saved = seg->saved_bytes;
    for (int phase = 0; phase < 2; phase++) {
        if (seg->temp_bytes[phase] > out->temp) out->temp = seg->temp_bytes[phase];
        for (int i = 0; i < seg->n_ops[phase]; i++) {
            int64_t work = op_workspace(&seg->ops[phase][i]);
            if (work > out->work) out->work = work;
            for (int g = 0; g < 2; g++)
                out->host[g][phase] += cost_of(&w->cost[g], seg, &seg->ops[phase][i]).host;
        }
        cost_model idle = w->cost[0];
        idle.host = 0;
        played free;
        play_list(&free, &idle, seg, phase);
        out->unhindered[phase] = free.seconds;
        for (int g = 0; g < 2; g++) {
            played p;
            play_list(&p, &w->cost[g], seg, phase);
            out->seconds[g][phase] = p.seconds;
            out->least[g][phase] = busy_of(&p, w->cost[g].hw->message_share);
        }
    }
}

static card *build_card(cards *k, const choice *c, const card_key *key)
{
    static _Thread_local bench w;
    card *out = ARENA_NEW(k->a, card);
    card_what what = (card_what)key->what;
    k->built++;
    if (!set_up(k, &w, c, what, key->kind)) return out;
    arena_place mark = arena_mark(k->scratch);
    segment seg, other, pair;
    build_part(k, &w.b, &seg, what, key->kind);
    finish(&seg, key->drop, k->scratch);
    if (what == CARD_PAIR) {
        build_part(k, &w.b, &other, what, key->other);
        finish(&other, key->drop, k->scratch);
        pair_options o = {.delay = c->beside == BESIDE_EP_DELAY,
                          .early = recipe_on(&w.s[0].r, K_EARLY_ATTN)};
        segment_pair(&pair, &seg, &other, o, k->scratch);
        play_card(out, &w, &pair);
    } else {
        play_card(out, &w, &seg);
    }
    arena_release(k->scratch, mark);
    return out;
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
    made = build_card(k, c, &key);
    memo_put(&k->cards, &key, made);
    return made;
}

/* ---- light cards */

static void add_mask(card_light *l, unsigned mask, int64_t bytes)
{
    int i = 0;
    while (i < l->n_masks && l->mask[i] != mask) i++;
    assert(i < CARD_MASKS_MAX);
    if (i == l->n_masks) {
        l->mask[l->n_masks++] = mask;
        l->any |= mask;
    }
    l->bytes[i] += bytes;
}

static void read_light(card_light *l, const bench *w, const segment *seg)
{
    for (int id = 0; id < seg->n_bufs; id++) {
        const buf *b = &seg->bufs[id];
        if (b->life != LIFE_SAVED || b->parent >= 0) continue;
        unsigned mask = id ? b->drop & ~(unsigned)DROP_FULL : 0;
        int64_t bytes = round_up(b->bytes, PLAN_ALIGN);
        if (!id) l->input = bytes;
        add_mask(l, mask, bytes);
    }
    for (int phase = 0; phase < 2; phase++) {
        double stream[STREAM_COUNT] = {0}, hidden = 0;
        for (int i = 0; i < seg->n_ops[phase]; i++) {
            const op *o = &seg->ops[phase][i];
            op_cost cost = cost_of(&w->cost[1], seg, o);
            stream[o->stream] += cost.seconds;
            l->host[phase] += cost.host;
            l->eager[phase] += cost_of(&w->cost[0], seg, o).host;
            if (cost.kind <= COST_ATTENTION) l->products[phase] += cost.seconds;
            if (cost.kind >= COST_TP && cost.kind <= COST_DP) hidden += cost.seconds;
        }
        l->compute[phase] = stream[STREAM_COMPUTE] + hidden * w->cost[1].hw->message_share;
        l->least[phase] = l->compute[phase];
        for (int i = 0; i < STREAM_COUNT; i++)
            if (i != STREAM_COMPUTE && stream[i] > l->messages[phase])
                l->messages[phase] = stream[i];
        if (l->messages[phase] > l->least[phase]) l->least[phase] = l->messages[phase];
    }
}

static card_light *build_light(cards *k, const choice *c, card_key *key)
{
    static _Thread_local bench w;
    card_light *l = ARENA_NEW(k->a, card_light);
    card_what half = (card_what)key->what;
    if (set_up(k, &w, c, half, key->kind)) {
        arena_place mark = arena_mark(k->scratch);
        segment seg;
        build_part(k, &w.b, &seg, half, key->kind);
        segment_recompute(&seg, key->drop, k->scratch);
        read_light(l, &w, &seg);
        arena_release(k->scratch, mark);
    }
    memo_put(&k->lights, key, l);
    return l;
}

const card_light *card_light_of(cards *k, const choice *c, card_what half, int kind)
{
    card_key key = key_of(k, c, half, kind, 0);
    key.drop = 0;
    card_light *l = memo_get(&k->lights, &key);
    return l ? l : build_light(k, c, &key);
}

const card_light *card_bound_of(cards *k, const choice *c, card_what half, int kind)
{
    card_key key = key_of(k, c, half, kind, 0);
    if (c->drop != DROP_FULL) key.drop &= card_light_of(k, c, half, kind)->any;
    card_light *l = memo_get(&k->lights, &key);
    return l ? l : build_light(k, c, &key);
}

int64_t card_saved(const card_light *l, unsigned drop)
{
    int64_t bytes = 0;
    for (int i = 0; i < l->n_masks; i++)
        if (!(l->mask[i] & drop)) bytes += l->bytes[i];
    return bytes;
}

/* ---- messages between stages */

double card_message(cards *k, const choice *c, const setup *s, int64_t parts)
{
    static _Thread_local bench w;
    cost_model *cost = &w.cost[0];
    cost_init(cost, k->hw, s, k->o ? k->o->stack : NULL);
    int64_t T = c->mbs * (recipe_int(&s->r, K_SEQ) / c->cp) / c->tp;
    bool narrow = recipe_on(&s->r, K_BF16) || recipe_on(&s->r, K_FP16);
    builder b = {.s = s, .a = k->scratch, .T = T, .word = narrow ? 2 : 4};
    arena_place mark = arena_mark(k->scratch);
    segment seg;
    build_send(&b, &seg, (message_shape){T * s->m.hidden * parts, 0, false});
    double seconds = cost_of(cost, &seg, &seg.ops[SEG_FORWARD][0]).seconds;
    arena_release(k->scratch, mark);
    return seconds;
}
