/* card_build.c - builds what a card is about as a segment of its own, and reads bytes and seconds
 * off it.
 *
 * I1  Cards are built with PP 1: nothing in a segment depends on stages, replicas or batches. */
#include <string.h>

#include "base/maths.h"
#include "ir/build/build.h"
#include "ir/build/messages.h"
#include "ir/memory/fuse.h"
#include "ir/memory/offload.h"
#include "ir/memory/plan.h"
#include "ir/shape.h"
#include "ir/target.h"
#include "plan/card_parts.h"

/* What a part does not depend on is left out, so that setups serve many parts. */
static choice plain_choice(const cards *k, const choice *c, card_what what, int kind)
{
    choice one = {.precision = c->precision,
                  .tp = c->tp,
                  .cp = c->cp,
                  .kind = c->kind,
                  .mbs = c->mbs,
                  .ep = 1,
                  .etp = 1,
                  .to = TO_ALLTOALL};
    memcpy(one.pick, c->pick, sizeof one.pick);
    if (!card_has_experts(k, what, kind) && what != CARD_PAIR) return one;
    one.ep = c->ep;
    one.etp = c->etp;
    one.to = c->to;
    one.overlap = what != CARD_PAIR && c->overlap >= OVERLAP_EP ? OVERLAP_NOTHING : c->overlap;
    return one;
}

static bool same_choice(const choice *a, const choice *b)
{
    return a->precision == b->precision && a->tp == b->tp && a->cp == b->cp && a->kind == b->kind &&
           a->mbs == b->mbs && choice_picks(a) == choice_picks(b) && a->ep == b->ep &&
           a->etp == b->etp && a->to == b->to && a->overlap == b->overlap;
}

static void set_up(cards *k, card_bench *w)
{
    choice one = w->c;
    w->ok = choice_repatch(&w->s, &w->log, k->m, &one, NULL);
    if (!w->ok) return;
    cost_init(&w->cost, k->hw, &w->s, k->o ? k->o->stack : NULL);
    price_skew(&w->cost, k->o);
    const step_shape z = step_shape_of(&w->s);
    w->b = builder_of(&w->s, &z, rank_coordinates(&w->s.lay, 0), k->scratch);
}

card_bench *card_set_up(cards *k, const choice *c, card_what what, int kind)
{
    choice one = plain_choice(k, c, what, kind);
    card_bench **slot = &k->bench[what == CARD_PAIR ? 2 : card_has_experts(k, what, kind)];
    if (*slot && same_choice(&(*slot)->c, &one)) return (*slot)->ok ? *slot : NULL;
    if (!*slot) *slot = ARENA_NEW(k->a, card_bench);
    (*slot)->c = one;
    set_up(k, *slot);
    return (*slot)->ok ? *slot : NULL;
}

static void build_half(builder *b, segment *seg, int half, int64_t layer)
{
    const model_block *k = model_layer(&b->s->m, layer)->block[half];
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, SEGMENT_LAYER, b->s, b->a);
    seg->n_layers = 1;
    b->module = MODULE_LAYER;
    b->node = NODE_ATTN;
    b->layer = layer;
    block_bufs t;
    int x = seg_saved(b, "x", size, offload_of_block(k)), y = seg_other(b, "y", LIFE_OUTPUT, size);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, size);
    block_forward(b, &t, k, x, y);
    block_backward(b, &t, k, dh);
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
        build_layers(b, seg, k->kinds[kind].sample, 1);
        break;
    default:
        build_half(b, seg, what == CARD_MLP, k->kinds[kind].sample);
    }
}

void card_part(cards *k, card_bench *w, segment *seg, card_what what, int kind)
{
    known_part **slot = &k->parts[what][kind][w->c.overlap], *p = *slot;
    if (!p) p = *slot = ARENA_NEW(k->a, known_part);
    if (!p->a || !same_choice(&p->c, &w->c)) {
        if (p->a)
            arena_release(p->a, p->empty);
        else
            p->empty = arena_mark(p->a = arena_create());
        p->c = w->c;
        w->b.a = p->a;
        build_part(k, &w->b, &p->seg, what, kind);
        w->b.a = k->scratch;
    }
    *seg = p->seg;
    seg->bufs = ARENA_RAW(k->scratch, buf, seg->n_bufs);
    seg->bufs_room = seg->n_bufs;
    memcpy(seg->bufs, p->seg.bufs, sizeof *seg->bufs * (size_t)seg->n_bufs);
}

static void finish(segment *seg, const setup *s, unsigned drop, arena *a)
{
    offload_options offload = offload_options_of(&s->j);
    segment_recompute(seg, drop, a);
    segment_fuse(seg, fusions_of(s), a);
    segment_offload(seg, &offload, a);
    segment_fit(seg, a);
    segment_waits(seg, a);
}

void card_set_scope(const cards *k, cost_model *c, graph_scope g, unsigned drop)
{
    c->captured = k->captured[g];
    if (g != SCOPE_STEP) return;
    cost_fuse(c);
    cost_stash(c, drop);
}

static void simulate_phase(const cards *k, card *out, const card_bench *w, const segment *seg,
                           int phase, unsigned drop)
{
    arena_place mark = arena_mark(k->scratch);
    int n = seg->n_ops[phase];
    op_cost *costs = ARENA_RAW(k->scratch, op_cost, n + 1);
    unsigned held = CAPTURED_EXPERTS;
    for (int g = 0; g < SCOPES; g++) {
        cost_model cost = w->cost;
        simulated p;
        int same = 0; /* scope, that captures the same of these operations */
        while (same < g && (g == SCOPE_STEP || ((k->captured[same] ^ k->captured[g]) & held)))
            same++;
        if (same < g) {
            out->seconds[g][phase] = out->seconds[same][phase];
            out->pace[g][phase] = out->pace[same][phase];
            continue;
        }
        card_set_scope(k, &cost, (graph_scope)g, drop);
        bool dispatch = cost.captured & CAPTURED_EXPERTS; /* costs less there */
        if (!g || dispatch) simulation_costs(costs, &cost, seg, phase);
        for (int i = 0; i < n && !g; i++) held |= costs[i].part;
        simulate_with(&p, &cost, seg, phase, (simulation_options){costs, true, NULL}, k->scratch);
        out->seconds[g][phase] = p.seconds;
        out->pace[g][phase] = p.pace;
    }
    arena_release(k->scratch, mark);
}

static void simulate_card(const cards *k, card *out, const card_bench *w, const segment *seg,
                          unsigned drop)
{
    const target_row *target = target_row_of(&w->s);
    out->saved = seg->saved_bytes;
    memcpy(out->parts, seg->parts, sizeof out->parts);
    if (seg->kind == SEGMENT_PAIR)
        out->live.forward = live_of_pair(seg, &w->s, k->scratch);
    else
        out->live = live_of_segment(seg, &w->s, k->scratch);
    for (int phase = 0; phase < 2; phase++) {
        if (seg->temp_bytes[phase] > out->temp) out->temp = seg->temp_bytes[phase];
        for (int i = 0; i < seg->n_ops[phase]; i++) {
            int64_t work = workspace_bytes(target, seg, &seg->ops[phase][i]);
            if (work > out->work) out->work = work;
        }
        simulate_phase(k, out, w, seg, phase, drop);
    }
}

card *card_build(cards *k, const choice *c, const card_key *key)
{
    card *out = ARENA_NEW(k->a, card);
    card_what what = (card_what)key->what;
    k->built++;
    card_bench *w = card_set_up(k, c, what, key->kind);
    if (!w) return out;
    arena_place mark = arena_mark(k->scratch);
    segment seg, other, pair;
    card_part(k, w, &seg, what, key->kind);
    finish(&seg, &w->s, key->drop, k->scratch);
    if (what == CARD_PAIR) {
        bool same = key->kind == key->other;
        if (!same) card_part(k, w, &other, what, key->other);
        if (!same) finish(&other, &w->s, key->drop, k->scratch);
        segment_pair(&pair, &seg, same ? &seg : &other, card_pairing(w, c), k->scratch);
        simulate_card(k, out, w, &pair, key->drop);
    } else {
        simulate_card(k, out, w, &seg, key->drop);
    }
    arena_release(k->scratch, mark);
    return out;
}

pair_options card_pairing(const card_bench *w, const choice *c)
{
    return (pair_options){.delay = c->overlap == OVERLAP_EP_DELAY, .early = w->s.j.early_attn};
}

double card_message(cards *k, const setup *s, int64_t parts)
{
    cost_model *cost = &k->of_message;
    cost_init(cost, k->hw, s, k->o ? k->o->stack : NULL);
    const step_shape z = step_shape_of(s);
    builder b = builder_of(s, &z, (rank_at){0}, k->scratch);
    arena_place mark = arena_mark(k->scratch);
    segment seg;
    build_send(&b, &seg, (message_shape){z.T * s->m.hidden * parts, 0, 1, false});
    double seconds = cost_of(cost, &seg, &seg.ops[SEG_FORWARD][0]).seconds;
    arena_release(k->scratch, mark);
    return seconds;
}
