/* card_memory.c - regions of a rank as sums of cards.
 *
 * I1  Each number is the one that src/ir/memory/plan.c computes from a whole program; a test
 *     holds them against each other.
 * I2  The first moment at which most slots are taken comes before the first backward gives one
 *     back: warm-up and one forward more; an input that is received ahead comes on top. With
 *     combined 1F1B what follows the warm-up takes places as others are left. */
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "ir/memory/offload.h"
#include "ir/memory/plan.h"
#include "ir/rope.h"
#include "plan/card_ranks.h"

static int64_t dhidden_parts(const setup *s, const chunk_mix *m)
{
    bool both = (m->receives && m->parts_in == 2) || (m->sends && m->parts_out == 2) ||
                m->n[MIX_MTP] || (m->n[MIX_HEAD] && s->m.n_mtp > 0);
    return both ? 2 : 1;
}

/* Is there an input of a layer that is only handed over on the device? */
static bool passes_any(const setup *s, const step_shape *z, int64_t rank)
{
    for (int64_t v = 0; v < s->pipe.vpp; v++) {
        const stage *st = &s->pipe.stages[v * s->pipe.pp + rank];
        for (int64_t i = 0; i < st->n_layers; i++)
            if (offload_takes_input(s, st->first_layer + i, z->T)) return true;
    }
    return false;
}

void rank_regions(int64_t bytes[REGION_COUNT], const setup *s, const step_shape *z,
                  const layout_facts *f, int64_t rank)
{
    const rank_facts *own = &f->ranks[rank];
    int64_t hidden = dtype_bytes(z->types.activation, z->T * s->m.hidden), dhidden = 0, message = 0;
    memset(bytes, 0, sizeof *bytes * REGION_COUNT);
    for (int64_t v = 0; v < s->pipe.vpp; v++) {
        const chunk_mix *m = &f->mix[v * s->pipe.pp + rank];
        int64_t parts = dhidden_parts(s, m);
        if (parts > dhidden) dhidden = parts;
        if (m->sends && m->parts_out > message) message = m->parts_out;
    }
    boundary_region b = {.dhidden_bytes = dhidden * hidden,
                         .message_bytes = message * hidden,
                         .passed_bytes = passes_any(s, z, rank) ? hidden : 0};
    boundary_place(&b, s, z);
    for (int i = 0; i < 3; i++) bytes[i] = own->state[i];
    bytes[REGION_QUANTIZED_WEIGHTS] = own->copies;
    bytes[REGION_BOUNDARY] = b.bytes;
    bytes[REGION_STEP] = step_region(s, z, own->weights, NULL, NULL);
}

/* ---- saved */

static const card_what part_cards[] = {CARD_EMBEDDING, CARD_FINAL, CARD_MTP, CARD_HEAD};

/* Has the model such a part at all? */
static bool has_part(const cards *k, int part)
{
    return (part != MIX_FINAL && part != MIX_MTP) || cards_model(k)->n_mtp > 0;
}

/* Full recompute keeps the input alone. */
static int64_t layer_saved(cards *k, const choice *c, int kind)
{
    const card_light *attention = card_light_of(k, c, CARD_ATTENTION, kind);
    if (c->drop == DROP_FULL) return attention->input;
    return card_saved(attention, c->drop) +
           card_saved(card_light_of(k, c, CARD_MLP, kind), c->drop);
}

void sums_saved(part_sums *p, cards *k, const choice *c)
{
    for (int i = 0; i < cards_kinds(k); i++) {
        const card_light *attention = card_light_of(k, c, CARD_ATTENTION, i);
        p->saved[i] = layer_saved(k, c, i);
        memset(p->part[i], 0, sizeof p->part[i]); /* of the layout before */
        p->part[i][SAVED_INPUT] = attention->input;
        if (c->drop == DROP_FULL) continue;
        p->part[i][SAVED_ATTENTION] = card_saved(attention, c->drop) - attention->input;
        p->part[i][SAVED_MLP] = p->saved[i] - card_saved(attention, c->drop);
    }
    for (int i = MIX_EMBEDDING; i < MIX_PARTS; i++) {
        if (!has_part(k, i) || i == MIX_MTP) continue;
        const card *part = card_of(k, c, part_cards[i - MIX_EMBEDDING], 0, 0);
        p->saved[i] = part->saved;
        memcpy(p->part[i], part->parts, sizeof part->parts);
    }
    if (!has_part(k, MIX_MTP)) return;
    const card_light *module = card_light_of(k, c, CARD_MTP, 0);
    p->saved[MIX_MTP] = card_saved(module, drop_of_module(c->drop));
    for (int i = 0; i < SAVED_PARTS; i++)
        p->part[MIX_MTP][i] = card_saved_part(module, drop_of_module(c->drop), (saved_part)i);
}

double layer_seconds(cards *k, const choice *c, int kind, int phase)
{
    graph_scope g = c->graphs;
    if (cards_whole(k, c)) return card_of(k, c, CARD_LAYER, kind, 0)->seconds[g][phase];
    const card *a = card_of(k, c, CARD_ATTENTION, kind, 0), *m = card_of(k, c, CARD_MLP, kind, 0);
    const card *first = phase == SEG_FORWARD ? a : m, *second = phase == SEG_FORWARD ? m : a;
    simulation_pace layer = pace_join(&first->pace[g][phase], &second->pace[g][phase]);
    return pace_seconds(&layer);
}

static void add_times(part_sums *p, int part, const card *c, graph_scope graphs)
{
    for (int phase = 0; phase < 2; phase++) {
        p->seconds[part][phase] += c->seconds[graphs][phase];
    }
}

void sums_times(part_sums *p, cards *k, const choice *c)
{
    bool whole = cards_whole(k, c);
    memset(p->seconds, 0, sizeof p->seconds);
    for (int i = 0; i < cards_kinds(k); i++) {
        add_times(p, i, card_of(k, c, whole ? CARD_LAYER : CARD_ATTENTION, i, 0), c->graphs);
        if (!whole) add_times(p, i, card_of(k, c, CARD_MLP, i, 0), c->graphs);
        for (int phase = 0; phase < 2; phase++)
            p->seconds[i][phase] = layer_seconds(k, c, i, phase);
    }
    for (int i = MIX_EMBEDDING; i < MIX_PARTS; i++)
        if (has_part(k, i))
            add_times(p, i, card_of(k, c, part_cards[i - MIX_EMBEDDING], 0, 0), c->graphs);
}

unsigned drop_of_module(unsigned drop)
{
    return drop == DROP_FULL ? 0 : drop;
}

chunk_sum chunk_sum_of(const part_sums *p, const chunk_mix *m)
{
    chunk_sum s = {0, {0, 0}};
    for (int i = 0; i < MIX_PARTS; i++) {
        if (!m->n[i]) continue;
        s.saved += m->n[i] * p->saved[i];
        for (int phase = 0; phase < 2; phase++) {
            s.seconds[phase] += m->n[i] * p->seconds[i][phase];
        }
    }
    return s;
}

order_shape choice_order(const choice *c, const step_shape *z, int64_t rank)
{
    return (order_shape){.pp = c->pp,
                         .rank = rank,
                         .vpp = c->vpp,
                         .micros = z->micros,
                         .group = c->pp,
                         .ep_overlap = c->overlap >= OVERLAP_EP};
}

int64_t saved_least(const slots_of *s, const int64_t *chunks)
{
    const choice *c = s->c;
    const step_shape *z = s->z;
    order_shape h = choice_order(c, z, s->rank);
    int64_t total = z->micros * c->vpp, taken = order_warmup(&h); /* I2 */
    if (!h.ep_overlap) taken++;
    if (taken > total) taken = total;
    if (c->vpp == 1) return taken * chunks[0];
    int64_t bytes = 0, in_group = h.group * h.vpp, left = taken;
    while (left > 0) { /* groups of microbatches, in each chunk after chunk */
        int64_t here = left < in_group ? left : in_group;
        for (int64_t v = 0; v < c->vpp && here > 0; v++) {
            int64_t n = here < h.group ? here : h.group;
            bytes += n * chunks[v];
            here -= n;
        }
        left -= in_group;
    }
    return bytes;
}

/* ---- temporaries */

typedef struct temps {
    int64_t temp, work;
} temps;

static void see(temps *t, const card *c)
{
    if (c->temp > t->temp) t->temp = c->temp;
    if (c->work > t->work) t->work = c->work;
}

static void see_chunk(temps *t, cards *k, const choice *c, const chunk_mix *m)
{
    bool whole = cards_whole(k, c);
    for (int i = 0; i < cards_kinds(k); i++) {
        if (!m->n[i]) continue;
        see(t, card_of(k, c, whole ? CARD_LAYER : CARD_ATTENTION, i, 0));
        if (!whole) see(t, card_of(k, c, CARD_MLP, i, 0));
    }
    for (int i = MIX_EMBEDDING; i < MIX_PARTS; i++)
        if (m->n[i]) see(t, card_of(k, c, part_cards[i - MIX_EMBEDDING], 0, 0));
}

/* Kinds of a chunk's layers in their order. `light`: from below, those with experts alone. */
static void see_pairs(temps *t, cards *k, const choice *c, const stage *const of[2], bool light)
{
    for (int64_t i = 0; i < of[0]->n_layers && i < of[1]->n_layers; i++) {
        int kf = cards_kind_of(k, of[0]->first_layer + i);
        int kb = cards_kind_of(k, of[1]->first_layer + of[1]->n_layers - 1 - i);
        if (!light) {
            see(t, card_of(k, c, CARD_PAIR, kf, kb));
        } else if (cards_kind_has(k, kf, BLOCK_MOE) && cards_kind_has(k, kb, BLOCK_MOE)) {
            int64_t temp = card_pair_light(k, c, kf, kb)->temp;
            if (temp > t->temp) t->temp = temp;
        }
    }
}

/* Chunks that meet on a rank. */
static void see_rendezvous(temps *t, const slots_of *s, bool light, arena *scratch)
{
    const choice *c = s->c;
    arena_place mark = arena_mark(scratch);
    order_shape h = choice_order(c, s->z, s->rank);
    const step_order *o = cards_order(s->k, &h);
    const stage *stages = s->f->split->pipe.stages + s->rank;
    bool *met = ARENA_ARRAY(scratch, bool, c->vpp * c->vpp);
    for (int64_t i = o->warmup; i < o->n && order_is_pair(o, i); i += 2) {
        int64_t vf = o->list[i].chunk, vb = o->list[i + 1].chunk;
        if (met[vf * c->vpp + vb]) continue;
        met[vf * c->vpp + vb] = true;
        const stage *const of[2] = {&stages[vf * c->pp], &stages[vb * c->pp]};
        see_pairs(t, s->k, c, of, light);
    }
    arena_release(scratch, mark);
}

/* Has the rank such a part? */
static bool rank_has(const slots_of *s, int part)
{
    for (int64_t v = 0; v < s->c->vpp; v++)
        if (s->f->mix[v * s->c->pp + s->rank].n[part]) return true;
    return false;
}

int64_t temp_least(const slots_of *s, arena *scratch)
{
    const choice *c = s->c;
    temps t = {0, 0};
    if (rank_has(s, MIX_MTP)) {
        choice x = *c;
        x.drop = drop_of_module(c->drop);
        t.temp = card_bound_of(s->k, &x, CARD_MTP, 0)->temp;
    }
    for (int i = 0; i < cards_kinds(s->k); i++) {
        for (int half = 0; half < 2 && rank_has(s, i); half++) {
            const card_light *l = card_bound_of(s->k, c, half ? CARD_MLP : CARD_ATTENTION, i);
            if (l->temp > t.temp) t.temp = l->temp;
        }
    }
    if (c->overlap >= OVERLAP_EP) see_rendezvous(&t, s, true, scratch);
    return t.temp;
}

int64_t temp_bytes(const slots_of *s, arena *scratch)
{
    const choice *c = s->c;
    temps t = {0, 0};
    for (int64_t v = 0; v < c->vpp; v++) see_chunk(&t, s->k, c, &s->f->mix[v * c->pp + s->rank]);
    if (c->overlap >= OVERLAP_EP) see_rendezvous(&t, s, false, scratch);
    if (s->f->ranks[s->rank].uncut > t.temp) t.temp = s->f->ranks[s->rank].uncut;
    return temp_region(t.temp, t.work);
}
