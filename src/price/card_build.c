/* card_build.c - builds what a card is about as a segment of its own, and reads bytes and seconds
 * off it.
 *
 * I1  Cards are built with PP 1: nothing in a segment depends on stages, replicas or batches. */
#include <assert.h>

#include "base/maths.h"
#include "price/card_parts.h"
#include "program/build.h"
#include "program/build_messages.h"
#include "program/offload.h"
#include "program/plan.h"

typedef struct bench {
    setup s[2]; /* without and with graphs */
    cost_model cost[2];
    builder b;
} bench;

static bool set_up(cards *k, bench *w, const choice *c, card_what what, int kind)
{
    choice one = *c;
    one.offload = false;
    if (!card_has_experts(k, what, kind) && what != CARD_PAIR) one.ep = one.etp = 1;
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
    unsigned input = what == CARD_ATTENTION ? offload_of_input(&b->s->m, layer)
                                            : offload_of_hidden(&b->s->m, layer);
    int x = seg_saved(b, "x", size, input), y = seg_other(b, "y", LIFE_OUTPUT, size);
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

static void finish(segment *seg, const recipe *r, unsigned drop, arena *a)
{
    offload_options offload = offload_options_of(r);
    segment_recompute(seg, drop, a);
    segment_offload(seg, &offload, a);
    segment_fit(seg, a);
    segment_waits(seg, a);
}

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

card *card_build(cards *k, const choice *c, const card_key *key)
{
    static _Thread_local bench w;
    card *out = ARENA_NEW(k->a, card);
    card_what what = (card_what)key->what;
    k->built++;
    if (!set_up(k, &w, c, what, key->kind)) return out;
    arena_place mark = arena_mark(k->scratch);
    segment seg, other, pair;
    build_part(k, &w.b, &seg, what, key->kind);
    finish(&seg, &w.s[0].r, key->drop, k->scratch);
    if (what == CARD_PAIR) {
        build_part(k, &w.b, &other, what, key->other);
        finish(&other, &w.s[0].r, key->drop, k->scratch);
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

/* What waits on the host is not saved, whatever is made again. */
static void read_light(card_light *l, const bench *w, const segment *seg)
{
    offload_options offload = offload_options_of(&w->s[0].r);
    for (int id = 0; id < seg->n_bufs; id++) {
        const buf *b = &seg->bufs[id];
        if (b->life != LIFE_SAVED || b->parent >= 0 || offload_takes(&offload, b)) continue;
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

card_light *card_build_light(cards *k, const choice *c, card_key *key)
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
