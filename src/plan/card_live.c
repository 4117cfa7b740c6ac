/* card_live.c - what lives at once on a rank under Megatron, as sums of cards: program_live of
 * src/ir/memory, on spans of parts instead of whole segments. A test holds them against each
 * other.
 *
 * I1  The two halves of a layer never live at once but for what they keep, so that the layer's span
 *     is theirs, joined.
 * I2  The last rank's first unit that runs backward ends with the head, so that its logits lie
 *     beside all that is kept before; with combined 1F1B that need not be. */
#include "plan/card_ranks.h"

typedef struct levels {
    const slots_of *s;
    bool light; /* from what is known before cards are built */
    int kinds;  /* of layers */
    live_span *part;
    live_row *rows;
    struct known_pair {
        bool known;
        live_level level;
    } * pairs; /* [kinds][kinds] */
} levels;

static live_span half_span(const levels *l, card_what half, int kind)
{
    cards *k = l->s->k;
    const choice *c = l->s->c;
    return l->light ? card_bound_of(k, c, half, kind)->live : card_of(k, c, half, kind, 0)->live;
}

static live_span layer_span(const levels *l, int kind)
{
    if (cards_whole(l->s->k, l->s->c)) return half_span(l, CARD_LAYER, kind);
    live_span a = half_span(l, CARD_ATTENTION, kind), m = half_span(l, CARD_MLP, kind);
    live_span x = live_join(a, m); /* I1 */
    x.kept.again = x.forward.again = x.backward.again = a.kept.again + m.kept.again;
    return x;
}

/* Cards of the prediction module are dear, the others are few. */
static live_span other_span(const levels *l, int part)
{
    static const card_what of_part[] = {CARD_EMBEDDING, CARD_FINAL, CARD_MTP, CARD_HEAD};
    choice x = *l->s->c;
    if (part != MIX_MTP || !l->light)
        return card_of(l->s->k, &x, of_part[part - MIX_EMBEDDING], 0, 0)->live;
    x.drop = drop_of_module(x.drop);
    return card_bound_of(l->s->k, &x, CARD_MTP, 0)->live;
}

/* Only what the rank has. */
static void find_spans(levels *l)
{
    const slots_of *s = l->s;
    for (int i = 0; i < MIX_PARTS; i++) {
        bool here = false;
        for (int64_t v = 0; v < s->c->vpp; v++)
            here = here || s->f->mix[v * s->c->pp + s->rank].n[i];
        if (here) l->part[i] = i < MIX_EMBEDDING ? layer_span(l, i) : other_span(l, i);
    }
}

static void make_row(levels *l, int64_t v, arena *a)
{
    static const segment_kind kinds[] = {SEGMENT_EMBEDDING, SEGMENT_FINAL, SEGMENT_MTP,
                                         SEGMENT_HEAD};
    const slots_of *s = l->s;
    int64_t id = v * s->c->pp + s->rank;
    const chunk_mix *m = &s->f->mix[id];
    const stage *st = &s->f->split->pipe.stages[id];
    live_span *spans = ARENA_RAW(a, live_span, st->n_layers + 5);
    segment_kind *of = ARENA_RAW(a, segment_kind, st->n_layers + 5);
    int n = 0;
    if (m->n[MIX_EMBEDDING]) {
        spans[n] = l->part[MIX_EMBEDDING];
        of[n++] = SEGMENT_EMBEDDING;
    }
    for (int64_t i = 0; i < st->n_layers; i++) {
        spans[n] = l->part[cards_kind_of(s->k, st->first_layer + i)];
        of[n++] = SEGMENT_LAYER;
    }
    for (int i = MIX_FINAL; i < MIX_PARTS; i++) {
        if (!m->n[i]) continue;
        spans[n] = l->part[i];
        of[n++] = kinds[i - MIX_EMBEDDING];
    }
    l->rows[v] = (live_row){spans, of, n};
}

/* Layers of a chunk follow its embedding. */
static int kind_at(const levels *l, int64_t v, int i)
{
    const slots_of *s = l->s;
    int64_t id = v * s->c->pp + s->rank;
    int64_t layer = i - (s->f->mix[id].n[MIX_EMBEDDING] > 0);
    return cards_kind_of(s->k, s->f->split->pipe.stages[id].first_layer + layer);
}

static live_level level_of(const levels *l, int kf, int kb)
{
    cards *k = l->s->k;
    if (!l->light) return card_of(k, l->s->c, CARD_PAIR, kf, kb)->live.forward;
    if (cards_kind_has(k, kf, BLOCK_MOE) && cards_kind_has(k, kb, BLOCK_MOE))
        return card_pair_light(k, l->s->c, kf, kb)->live.forward;
    return (live_level){0, 0, 0, 0};
}

static live_level pair_level(void *with, int64_t f_chunk, int f, int64_t b_chunk, int b)
{
    levels *l = with;
    int kf = kind_at(l, f_chunk, f), kb = kind_at(l, b_chunk, b);
    struct known_pair *p = &l->pairs[kf * l->kinds + kb];
    if (!p->known) *p = (struct known_pair){true, level_of(l, kf, kb)};
    return p->level;
}

static live_level walk_rank(const slots_of *s, bool light, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    const choice *c = s->c;
    int kinds = cards_kinds(s->k);
    levels l = {.s = s,
                .light = light,
                .kinds = kinds,
                .part = ARENA_RAW(scratch, live_span, MIX_PARTS),
                .rows = ARENA_ARRAY(scratch, live_row, c->vpp),
                .pairs = ARENA_ARRAY(scratch, struct known_pair, (int64_t)kinds * kinds)};
    find_spans(&l);
    for (int64_t v = 0; v < c->vpp; v++) make_row(&l, v, scratch);
    order_shape h = choice_order(c, s->z, s->rank);
    live_rank r = {.order = cards_order(s->k, &h),
                   .rows = l.rows,
                   .n_chunks = c->vpp,
                   .pairs = c->overlap >= OVERLAP_EP,
                   .pair = pair_level,
                   .with = &l};
    live_level most = live_peak(&r, scratch);
    arena_release(scratch, mark);
    return most;
}

live_level live_exact(const slots_of *s, arena *scratch)
{
    return walk_rank(s, false, scratch);
}

live_level live_light(const slots_of *s, const int64_t *chunks, arena *scratch)
{
    if (cards_offload(s->k)) return (live_level){.saved = live_least(s, chunks)};
    return walk_rank(s, true, scratch);
}

int64_t layers_exact(const slots_of *s, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    const choice *c = s->c;
    int64_t *n = ARENA_ARRAY(scratch, int64_t, c->vpp);
    for (int64_t v = 0; v < c->vpp; v++) {
        int64_t id = v * c->pp + s->rank;
        n[v] = s->f->split->pipe.stages[id].n_layers + s->f->mix[id].n[MIX_MTP];
    }
    order_shape h = choice_order(c, s->z, s->rank);
    int64_t most = live_in_flight(cards_order(s->k, &h), n);
    arena_release(scratch, mark);
    return most;
}

int64_t live_least(const slots_of *s, const int64_t *chunks)
{
    const choice *c = s->c;
    step_shape z = {.micros = s->z->micros};
    slots_of plain = *s;
    plain.z = &z; /* what a receive is posted for lives in its message */
    int64_t bytes = saved_least(&plain, chunks);
    bool head = s->f->mix[(c->vpp - 1) * c->pp + s->rank].n[MIX_HEAD] > 0;
    if (!head || c->overlap >= OVERLAP_EP) return bytes;
    const live_span *x = &card_of(s->k, c, CARD_HEAD, 0, 0)->live; /* I2 */
    int64_t loss = x->backward.logits > 0 ? x->backward.logits : 0;
    return bytes + x->kept.logits + loss;
}
