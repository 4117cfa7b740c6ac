/* card_ranks.c - reads weights, gradients, optimizer state and buckets of a pipeline rank off the
 * parameter table.
 *
 * I1  Ranks with the same layers in the same chunks have the same facts.
 * I2  Buckets are those of weight_list_rank, found by the same walk (bucket_walk).
 * I3  Offload moves the optimizer's state, and nothing else. */
#include "plan/card_ranks.h"

#include "predict/muon.h"

#include <string.h>

#include "base/maths.h"
#include "ir/build/messages.h"
#include "ir/memory/plan.h"
#include "layout/stage_parts.h"
#include "plan/search_memo.h"

struct ranks {
    cards *k;
    choice_maker *m;
    const hardware *hw;
    const price_options *o;
    arena *a, *scratch;
    memo facts, mixes;
    struct ranks_work *work; /* of the layout that is looked at */
};

ranks *ranks_create(cards *k, choice_maker *m, const hardware *hw, const price_options *o, arena *a)
{
    ranks *r = ARENA_NEW(a, ranks);
    *r = (ranks){.k = k, .m = m, .hw = hw, .o = o, .a = a, .scratch = arena_create()};
    memo_init(&r->facts, 8 * sizeof(int64_t), a);
    memo_init(&r->mixes, sizeof(void *), a);
    return r;
}

void ranks_release(ranks *r)
{
    arena_destroy(r->scratch);
    r->scratch = NULL;
}

/* ---- stages */

static const chunk_mix *mixes_of(ranks *r, const pipe_split *p, const model *m)
{
    const chunk_mix *known = memo_get(&r->mixes, &p);
    if (known) return known;
    int64_t n = p->pp * p->vpp;
    chunk_mix *out = ARENA_ARRAY(r->a, chunk_mix, n);
    for (int64_t i = 0; i < n; i++) {
        const stage *st = &p->pipe.stages[i];
        const stage_content has = stage_content_of(&p->pipe, m, i);
        chunk_mix *x = &out[i];
        for (int64_t l = 0; l < st->n_layers; l++) x->n[cards_kind_of(r->k, st->first_layer + l)]++;
        x->n[MIX_EMBEDDING] = has.embedding;
        x->n[MIX_FINAL] = has.final;
        x->n[MIX_MTP] = has.mtp;
        x->n[MIX_HEAD] = has.head;
        x->receives = has.receives;
        x->sends = has.sends;
        x->parts_in = has.parts_in;
        x->parts_out = has.parts_out;
    }
    memo_put(&r->mixes, &p, out);
    return out;
}

static bool same_mix(const chunk_mix *mix, const choice *c, int64_t q)
{
    for (int64_t v = 0; v < c->vpp; v++) {
        const chunk_mix *m = &mix[v * c->pp + q];
        if (memcmp(m, m - 1, sizeof *m) != 0) return false;
    }
    return true;
}

/* ---- buckets */

enum { LENGTHS_MAX = 64 };

/* Elements of the dense buffer of a chunk. */
typedef struct extent {
    int64_t start, end;
} extent;

typedef struct walk {
    const setup *s;
    const cost_model *cost;
    arena *a;
    bucket_walk buckets;
    int64_t shards[2];
    bool replicas[2];
    rank_facts *out;
    number_types types;
    int64_t trained, owned, weights;
    extent *uncut,
        *slices; /* of a chunk: weights without cut, what the first rank owns of buckets */
    int n_uncut, n_slices;
    int64_t packed; /* elements of the ones in the others */
    quant_plan quant;
    struct known_length { /* most buckets are equally long */
        int64_t n;
        int which;
        bucket_time time;
    } known[LENGTHS_MAX];
    int n_known;
} walk;

struct ranks_work {
    walk w;
    setup s;
    patch_log log;
    cost_model cost;
    int64_t of[8]; /* key of the layout whose stages were walked last, whatever its offload */
    held_weights *held;
    int64_t room; /* of `held` */
};

static bucket_time time_of(walk *w, int which, int64_t n)
{
    for (int i = 0; i < w->n_known; i++)
        if (w->known[i].n == n && w->known[i].which == which) return w->known[i].time;
    bucket one = {.n = n, .expert = which == 1, .shards = w->shards[which]};
    program p = {.s = w->s, .weights = {.buckets = &one, .n_buckets = 1}};
    builder b = {.s = w->s, .a = w->a, .types = w->types};
    bucket_time t = {0, 0};
    segment seg;
    arena_place mark = arena_mark(w->a);
    if (w->replicas[which]) {
        build_reduce(&b, &seg, &p, 0, true);
        t.reduce = cost_of(w->cost, &seg, &seg.ops[SEG_FORWARD][0]).seconds;
    }
    if (one.shards > 1) {
        build_gather(&b, &seg, &p, 0, true);
        t.gather = cost_of(w->cost, &seg, &seg.ops[SEG_FORWARD][0]).seconds;
    }
    arena_release(w->a, mark);
    if (w->n_known < LENGTHS_MAX) {
        w->known[w->n_known].n = n;
        w->known[w->n_known].which = which;
        w->known[w->n_known++].time = t;
    }
    return t;
}

static void end_bucket(void *with, int which, int64_t start, int64_t end)
{
    walk *w = with;
    int64_t n = end - start;
    w->owned += n / w->shards[which];
    if (which == 0) w->slices[w->n_slices++] = (extent){start, start + n / w->shards[0]};
    w->out->buckets[w->out->n_buckets++] = time_of(w, which, n);
}

/* Of a matrix [parts][n][k] on this rank. */
static int64_t copy_bytes(const walk *w, const param *row, int64_t n, int64_t layer)
{
    const layout *l = &w->s->lay;
    bool matrix = row->linear;
    if (w->quant.form == QUANT_NONE || !matrix || !quant_layer(&w->s->j, &w->s->m, layer)) return 0;
    int64_t parts = row->kind == PARAM_EXPERT ? row->dim[0] / l->ep : 1;
    int64_t k = row->dim[row->n_dims - 1];
    if (row->axis == row->n_dims - 1)
        k /= row->cut == CUT_TP ? l->tp : row->cut == CUT_ETP ? l->etp : 1;
    return quant_places_of(&w->quant, parts, n / parts / k, k).bytes;
}

static void see_row(void *with, const param *row, int64_t layer, bool alone)
{
    walk *w = with;
    const layout *l = &w->s->lay;
    int64_t n = param_local(row, l->tp, l->etp, l->ep);
    if (n <= 0) return;
    w->out->copies += copy_bytes(w, row, n, layer);
    int64_t at = bucket_walk_add(&w->buckets, buffer_of(l, row->kind), n, alone);
    if (row->cut == CUT_NONE && row->kind != PARAM_EXPERT)
        w->uncut[w->n_uncut++] = (extent){at, at + n};
    w->weights++;
}

/* Both lists are in order. */
static int64_t overlap_of(const walk *w)
{
    int64_t sum = 0;
    for (int i = 0, k = 0; i < w->n_uncut && k < w->n_slices;) {
        const extent *x = &w->uncut[i], *y = &w->slices[k];
        int64_t lo = x->start > y->start ? x->start : y->start;
        int64_t hi = x->end < y->end ? x->end : y->end;
        if (hi > lo) sum += hi - lo;
        if (x->end < y->end)
            i++;
        else
            k++;
    }
    return sum;
}

static void walk_chunk(walk *w, const stage *st)
{
    w->buckets = (bucket_walk){.ended = end_bucket, .with = w};
    w->n_uncut = w->n_slices = 0;
    bucket_walk_begin(&w->buckets, &w->s->j, &w->s->lay);
    stage_weights_walk(&(stage_weights){w->s, st, w->s->lay.pp, true, see_row, w});
    for (int i = 0; i < 2; i++) w->trained += bucket_walk_end(&w->buckets, i);
    if (w->s->lay.tp > 1) w->packed += overlap_of(w);
}

/* ---- facts */

static void find_buckets(ranks *r, rank_facts *out, const setup *s, const cost_model *cost,
                         int64_t rank)
{
    int64_t rows = 4 * s->params.n_rows;
    for (int64_t v = 0; v < s->pipe.vpp; v++)
        rows += (s->pipe.stages[v * s->pipe.pp + rank].n_layers + 2) * 32;
    out->buckets = ARENA_RAW(r->scratch, bucket_time, rows);
    out->first_bucket = ARENA_ARRAY(r->a, int, s->pipe.vpp + 1);
    walk *w = &r->work->w;
    *w = (walk){.s = s, .cost = cost, .a = r->scratch, .out = out, .types = number_types_of(&s->j)};
    w->quant = quant_plan_of(&s->j);
    w->uncut = ARENA_RAW(r->scratch, extent, rows);
    w->slices = ARENA_RAW(r->scratch, extent, rows);
    for (int i = 0; i < 2; i++) w->shards[i] = optimizer_shards(&s->j, &s->lay, i);
    w->replicas[0] = group_width(s, GROUP_DP_CP) > 1;
    w->replicas[1] = group_width(s, GROUP_EDP) > 1;
    for (int64_t v = 0; v < s->pipe.vpp; v++) {
        out->first_bucket[v] = out->n_buckets;
        walk_chunk(w, &s->pipe.stages[v * s->pipe.pp + rank]);
    }
    out->first_bucket[s->pipe.vpp] = out->n_buckets;
    bucket_time *kept = ARENA_ARRAY(r->a, bucket_time, out->n_buckets + 1);
    memcpy(kept, out->buckets, sizeof *kept * (size_t)out->n_buckets);
    out->buckets = kept;
    out->trained = w->trained;
    out->owned = w->owned;
    out->weights = w->weights;
    out->uncut = round_up(dtype_bytes(w->types.gradient, w->packed), PLAN_ALIGN);
}

/* What depends on where the optimizer's state is. */
static void find_state(rank_facts *out, const setup *s, const cost_model *cost, int64_t rank,
                       const held_weights *held)
{
    state_of_walk(&out->all, held, s);
    out->overlap = allocated_state_least(s, rank, &out->all);
    out->state[0] = state_weights(&out->all);
    out->state[1] = state_gradients(&out->all);
    out->state[2] = state_optimizer(&out->all);
    program p = {.s = s, .weights = {.owned = out->owned, .trained = out->trained}};
    out->optimizer = cost_of_optimizer(cost, &p) + cost_of_muon(cost, &out->all);
}

/* What is the same for all offloads of a layout, which are asked for one after another: what
 * operations cost, and the weights of stages that are not like the one before. */
static void open_layout(ranks *r, const int64_t key[8])
{
    struct ranks_work *w = r->work;
    int64_t of[8];
    memcpy(of, key, sizeof of);
    of[7] = 0; /* its offload */
    if (memcmp(w->of, of, sizeof of) == 0) return;
    memcpy(w->of, of, sizeof of);
    cost_init(&w->cost, r->hw, &w->s, r->o ? r->o->stack : NULL);
    if (w->s.pipe.pp > w->room) w->held = ARENA_RAW(r->a, held_weights, w->room = w->s.pipe.pp);
    for (int64_t q = 0; q < w->s.pipe.pp; q++)
        if (!setup_stage_repeats(&w->s, q)) state_walk(&w->held[q], &w->s, q);
}

const layout_facts *ranks_facts(ranks *r, const choice *c)
{
    int64_t key[8] = {c->tp, c->ep, c->etp, c->pp, c->vpp, c->split, c->precision, c->offload};
    layout_facts *f = memo_get(&r->facts, key);
    if (f) return f;
    f = ARENA_NEW(r->a, layout_facts);
    memo_put(&r->facts, key, f);
    f->split = choice_split(r->m, c);
    choice none = *c; /* buckets and weights are those of no offload (I3) */
    none.offload = 0;
    const layout_facts *known = c->offload ? ranks_facts(r, &none) : NULL;
    if (!r->work) r->work = ARENA_NEW(r->a, struct ranks_work);
    setup *s = &r->work->s;
    choice plain = {.precision = c->precision, .tp = c->tp, .ep = c->ep, .etp = c->etp};
    plain.pp = c->pp;
    plain.vpp = c->vpp;
    plain.split = c->split;
    plain.offload = c->offload;
    plain.cp = plain.mbs = 1; /* DP x CP is the same */
    plain.to = TO_ALLTOALL;
    if (!f->split->ok || !choice_repatch(s, &r->work->log, r->m, &plain, f->split)) return f;
    open_layout(r, key);
    const cost_model *cost = &r->work->cost;
    arena_place mark = arena_mark(r->scratch);
    f->mix = mixes_of(r, f->split, &s->m);
    f->ranks = ARENA_RAW(r->a, rank_facts, c->pp);
    for (int64_t q = 0; q < c->pp; q++) {
        if (setup_stage_repeats(s, q)) {
            f->ranks[q] = f->ranks[q - 1]; /* I1 */
            f->ranks[q].as_before = same_mix(f->mix, c, q);
            continue;
        }
        f->ranks[q] = known ? known->ranks[q] : (rank_facts){.n_buckets = 0};
        if (!known) find_buckets(r, &f->ranks[q], s, cost, q);
        find_state(&f->ranks[q], s, cost, q, &r->work->held[q]);
    }
    arena_release(r->scratch, mark);
    f->ok = true;
    return f;
}
