/* search_bounds.c - what sizes need at least: state, activations and seconds from below (I1 of
 * search_parts.h). */
#include <math.h>
#include <string.h>

#include "plan/search_parts.h"

int64_t search_micros(const search *s, const choice *c)
{
    int64_t dp = s->sp.world / (c->tp * c->cp * c->pp);
    return s->sp.gbs / (c->mbs * dp);
}

/* ---- state */

static int64_t state_least(search *s, const choice *c, int offload)
{
    const setup *base = choice_base(s->sp.m, c->precision, c->tp);
    job j = base->j;
    if (offload == OFFLOAD_MOVED)
        job_put_flag(&j, K_OPT_STATES, true);
    else if (offload) {
        job_put_flag(&j, K_OPT_OFFLOAD, true);
        job_put_real(&j, K_OPT_OFFLOAD_FRACTION, (double)offload / OFFLOAD_ALL);
    }
    state_mode mode = state_mode_bare(&j);
    double word = mode.weight < mode.plain ? mode.weight : mode.plain, bytes = 0;
    if (s->waits) mode.optimizer = 0;
    const param_table *t = &base->params;
    for (int i = 0; i < t->n_rows; i++) {
        const param *p = &t->rows[i];
        if (!p->trained) continue;
        double n = (double)param_local(p, c->tp, c->etp, c->ep) * (double)p->block->times;
        double shards = (double)(p->kind == PARAM_EXPERT ? s->sp.world / (c->ep * c->etp * c->pp)
                                                         : s->sp.world / (c->tp * c->pp));
        bytes += n * (word + mode.gradient + mode.optimizer / shards);
    }
    return (int64_t)(bytes / (double)c->pp);
}

int64_t search_state_least(search *s, const choice *c, int offload)
{
    int64_t key[6] = {c->precision, c->tp, c->ep, c->etp, c->pp, offload};
    int64_t *known = memo_get(&s->states, key);
    if (known) return *known;
    known = ARENA_NEW(s->a, int64_t);
    *known = state_least(s, c, offload);
    memo_put(&s->states, key, known);
    return *known;
}

/* ---- parts that are no layers: their cards are few, and exact */

static const struct {
    int part;
    card_what card;
} others[] = {{MIX_EMBEDDING, CARD_EMBEDDING}, {MIX_FINAL, CARD_FINAL}, {MIX_HEAD, CARD_HEAD}};
enum { OTHERS = 3 };

static const card *other_card(search *s, const choice *c, int i)
{
    if (others[i].part == MIX_FINAL && cards_model(s->k)->n_mtp == 0) return NULL;
    return card_of(s->k, c, others[i].card, 0, 0);
}

/* ---- the prediction module
 *
 * Its list has all operations and saved buffers of a layer of the last kind, and some of its own.
 * Its cards are dear, so the layer stands for it from below, and its own list, played without a
 * memory plan, only where that excludes nothing. Full recompute leaves it as it is. */

/* Seconds of the layer inside. Roughly it is without recompute: the same for all sets of modules,
 * so that of two sets the larger one is never below the smaller. */
static double module_rough(search *s, const choice *c, bool tight)
{
    double compute = 0, waited = 0, host = 0;
    choice x = *c;
    x.drop = tight ? drop_of_module(c->drop) : 0;
    if (x.overlap >= OVERLAP_EP || !tight) x.overlap = OVERLAP_NOTHING;
    for (int half = CARD_ATTENTION; half <= CARD_MLP && s->module >= 0; half++) {
        const card_light *l = card_bound_of(s->k, &x, (card_what)half, s->module);
        for (int phase = 0; phase < 2; phase++) {
            compute += l->compute[phase];
            waited += l->waited[phase];
            host += l->host[c->graphs][phase];
        }
    }
    return fmax(compute, fmax(waited, host));
}

/* ---- bytes */

/* A layer's, and under Megatron the second attention output (live.c). */
static int64_t layer_bytes(search *s, const choice *c, int kind, unsigned drop)
{
    const card_light *half[2] = {card_bound_of(s->k, c, CARD_ATTENTION, kind),
                                 card_bound_of(s->k, c, CARD_MLP, kind)};
    int64_t bytes = half[0]->input;
    if (drop != DROP_FULL) bytes = card_saved(half[0], drop) + card_saved(half[1], drop);
    if (!s->megatron || cards_offload(s->k)) return bytes;
    bool second = drop != DROP_FULL && !(drop & DROP_CORE_ATTN);
    int64_t more = half[0]->live.kept.saved - card_saved(half[0], 0);
    return bytes + (second && more > 0 ? more : 0);
}

/* The logits of the head's microbatch lie beside all that is kept before it; under combined 1F1B
 * they need not. */
static int64_t head_logits(const search *s, const card *head)
{
    int64_t loss = head->live.backward.logits > 0 ? head->live.backward.logits : 0;
    return s->megatron ? head->live.kept.logits + loss : 0;
}

static void find_drop_bytes(search *s, const choice *c, int d, int64_t saved[2][MIX_PARTS])
{
    choice plain = *c;
    plain.drop = 0;
    plain.overlap = OVERLAP_NOTHING;
    int64_t *of = saved[0];
    for (int i = 0; i < cards_kinds(s->k); i++) of[i] = layer_bytes(s, &plain, i, s->sp.drops[d]);
    if (s->module >= 0)
        of[MIX_MTP] = layer_bytes(s, &plain, s->module, drop_of_module(s->sp.drops[d]));
    for (int i = 0; i < OTHERS; i++) {
        const card *o = other_card(s, c, i);
        if (o) of[others[i].part] = o->saved;
    }
    memcpy(saved[1], of, sizeof saved[1]);
    of[MIX_HEAD] += head_logits(s, card_of(s->k, c, CARD_HEAD, 0, 0));
}

const int64_t *search_drop_bytes(search *s, const choice *c, int d, bool pairs)
{
    drop_bytes *b = &s->drop_bytes[d];
    if (b->visit != s->visit) {
        *b = (drop_bytes){.visit = s->visit};
        find_drop_bytes(s, c, d, b->saved);
    }
    return b->saved[pairs];
}

/* ---- seconds */

/* Each stream by itself. */
static void add_streams(drop_times *t, int kind, const card_light *l, graph_scope graphs)
{
    t->ways = 3;
    for (int phase = 0; phase < 2; phase++) {
        t->seconds[0][kind] += l->compute[phase];
        t->seconds[1][kind] += l->messages[phase];
        t->seconds[2][kind] += l->host[graphs][phase];
    }
}

/* Streams of the two halves of a pair by themselves: forward of one kind, backward of another. */
static double streams_of(search *s, const choice *c, int kind, int phase)
{
    return card_bound_of(s->k, c, CARD_ATTENTION, kind)->inside[phase] +
           card_bound_of(s->k, c, CARD_MLP, kind)->compute[phase];
}

/* What layers with experts take more than their streams, in pairs or one after the other, at
 * least. */
static double pair_extra(search *s, const choice *c)
{
    double least = INFINITY;
    for (int i = 0; i < cards_kinds(s->k); i++)
        for (int k = 0; k < cards_kinds(s->k); k++) {
            if (!cards_kind_has(s->k, i, BLOCK_MOE) || !cards_kind_has(s->k, k, BLOCK_MOE))
                continue;
            double streams = streams_of(s, c, i, SEG_FORWARD) + streams_of(s, c, k, SEG_BACKWARD);
            double alone =
                layer_seconds(s->k, c, i, SEG_FORWARD) + layer_seconds(s->k, c, k, SEG_BACKWARD);
            double pair = card_of(s->k, c, CARD_PAIR, i, k)->seconds[c->graphs][0];
            least = fmin(least, fmin(pair, alone) - streams);
        }
    return least > 0 && least < INFINITY ? least : 0;
}

/* Of n layers with experts and m without at least n - m meet one with experts. */
static void add_extra(search *s, drop_times *t, const choice *c)
{
    double extra = pair_extra(s, c);
    for (int i = 0; i < cards_kinds(s->k); i++)
        t->seconds[0][i] += cards_kind_has(s->k, i, BLOCK_MOE) ? extra : -extra;
}

/* What a layer takes more alone, forward and backward, than its part of a pair. */
static void find_longer(search *s, drop_times *t, const choice *c)
{
    t->pairs = true;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        double alone =
            layer_seconds(s->k, c, i, SEG_FORWARD) + layer_seconds(s->k, c, i, SEG_BACKWARD);
        for (int way = 0; way < t->ways; way++) {
            double longer = alone - t->seconds[way][i];
            t->longer[way][i] = longer > 0 ? longer : 0;
        }
    }
}

static void find_times(search *s, drop_times *t, const choice *c, least_level level)
{
    bool tight = level > LEAST_ROUGH, pairs = c->overlap >= OVERLAP_EP;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        const card_light *a = card_bound_of(s->k, c, CARD_ATTENTION, i);
        const card_light *m = card_bound_of(s->k, c, CARD_MLP, i);
        if (!tight || pairs) {
            add_streams(t, i, a, c->graphs);
            add_streams(t, i, m, c->graphs);
            for (int phase = 0; phase < 2 && tight && pairs; phase++)
                t->seconds[0][i] += a->inside[phase] - a->compute[phase];
        } else {
            t->ways = 1;
            t->seconds[0][i] =
                layer_seconds(s->k, c, i, SEG_FORWARD) + layer_seconds(s->k, c, i, SEG_BACKWARD);
        }
    }
    for (int way = 0; way < t->ways; way++) t->seconds[way][MIX_MTP] = module_rough(s, c, tight);
    if (level == LEAST_PAIRED) add_extra(s, t, c);
    if (tight && pairs) find_longer(s, t, c);
    for (int i = 0; i < OTHERS; i++) {
        const card *o = other_card(s, c, i);
        for (int way = 0; o && way < t->ways; way++)
            t->seconds[way][others[i].part] = o->seconds[c->graphs][0] + o->seconds[c->graphs][1];
    }
}

const drop_times *search_drop_times(search *s, const choice *given, int d, least_level level)
{
    choice c = *given;
    c.drop = s->sp.drops[d];
    if (level == LEAST_ROUGH) c.overlap = OVERLAP_NOTHING;
    drop_times *t = &s->drop_times[level][c.overlap][c.graphs][d];
    if (t->visit == s->visit) return t;
    *t = (drop_times){.visit = s->visit};
    find_times(s, t, &c, level);
    return t;
}

double search_layers_least(search *s, const choice *c)
{
    choice x = *c;
    x.graphs = s->sp.widest;
    x.drop = 0;
    x.overlap = OVERLAP_NOTHING;
    drop_times t = {0};
    find_times(s, &t, &x, LEAST_ROUGH);
    double most = 0;
    for (int way = 0; way < t.ways; way++) {
        double sum = 0;
        for (int i = 0; i < cards_kinds(s->k); i++) sum += (double)s->layers[i] * t.seconds[way][i];
        sum += t.seconds[way][MIX_MTP];
        most = fmax(most, sum);
    }
    return most;
}
