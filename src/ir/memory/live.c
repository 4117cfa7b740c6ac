/* live.c - lives of tensors under Megatron, walked list by list.
 *
 * I1  A temporary lives from the first operation that touches it to the last. A saved tensor lives
 *     from the operation that writes it (the input: from the start) to the end of forward, and in
 *     backward from the start to the last operation that touches it. The gradient of the hidden
 *     state lives all through backward.
 * I2  The allocator gives multiples of ALLOCATED_UNIT bytes.
 * I3  Head and loss make all logits at once, in 16 bits, and keep them: Transformer Engine's cross
 *     entropy (2.20) reads them again in backward and writes their gradient beside them; the native
 *     one keeps the softmax in FP32 instead, while the logits that it was made of, then the
 *     gradient, lie beside it. A prediction module's loss keeps its own until backward, too.
 * I4  Under CP attention keeps its output for its own backward, and the projection behind it keeps
 *     another copy: the two differ in the order of tokens. core_attn makes the first one again.
 * I5  Of what is offloaded, the last group of each name stays on the GPU, and one more is still
 *     being copied while the next layer runs. */
#include "ir/memory/live.h"

#include <assert.h>
#include <string.h>

#include "base/maths.h"
#include "ir/schedule/units.h"
#include "ir/shape.h"

enum { ALLOCATED_UNIT = 512 };

static int64_t allocated(int64_t bytes)
{
    return round_up(bytes, ALLOCATED_UNIT); /* I2 */
}

/* ---- one list */

/* What a list adds and takes, operation by operation. */
typedef struct timeline {
    live_level *add, *take; /* [n + 1]: before and behind operation i */
    int *first, *last;
    int n;
    live_level start; /* lives before the first operation and is of this list */
} timeline;

static void touch(timeline *t, const segment *seg, int id, int at)
{
    if (id < 0) return;
    int root = seg_root(seg, id);
    if (t->first[root] < 0) t->first[root] = at;
    t->last[root] = at;
}

static void find_touches(timeline *t, const segment *seg, int phase)
{
    for (int id = 0; id < seg->n_bufs; id++) t->first[id] = t->last[id] = -1;
    for (int i = 0; i < t->n; i++) {
        const op *o = &seg->ops[phase][i];
        if (o->kind == OP_WAIT) continue;
        for (int k = 0; k < OP_IN_MAX; k++) touch(t, seg, o->in[k], i);
        for (int k = 0; k < OP_OUT_MAX; k++) touch(t, seg, o->out[k], i);
    }
}

/* Is the buffer of a half that runs forward? */
static bool runs_forward(const segment *seg, int phase, const buf *b)
{
    return seg->kind == SEGMENT_PAIR ? b->owner == 0 : phase == SEG_FORWARD;
}

/* What backward does not read goes with the module that saved it. */
static int last_of_module(const timeline *t, const segment *seg, int phase, const buf *b)
{
    for (int i = t->n - 1; i > 0; i--) {
        const op *o = &seg->ops[phase][i];
        if (o->kind != OP_WAIT && o->phase != PHASE_FORWARD && o->module == b->module) return i;
    }
    return 0;
}

/* I1 */
static void put_saved(timeline *t, const segment *seg, int phase, int id)
{
    const buf *b = &seg->bufs[id];
    int64_t bytes = allocated(b->bytes);
    if (!runs_forward(seg, phase, b))
        t->take[t->last[id] < 0 ? last_of_module(t, seg, phase, b) : t->last[id]].saved += bytes;
    else if (id == 0 || t->first[id] < 0)
        t->start.saved += bytes;
    else
        t->add[t->first[id]].saved += bytes;
}

static void put(timeline *t, const segment *seg, int phase, int id)
{
    const buf *b = &seg->bufs[id];
    int64_t bytes = allocated(b->bytes);
    if (b->parent >= 0) return;
    switch (b->life) {
    case LIFE_SAVED:
        put_saved(t, seg, phase, id);
        break;
    case LIFE_DHIDDEN:
        if (t->first[id] >= 0 && !runs_forward(seg, phase, b)) t->start.temp += bytes;
        break;
    case LIFE_OUTPUT:
        if (t->first[id] >= 0 && runs_forward(seg, phase, b)) t->add[t->first[id]].temp += bytes;
        break;
    case LIFE_TEMP:
    case LIFE_HIDDEN_IN_FLIGHT:
    case LIFE_BOUNDARY:
        if (t->first[id] < 0) break;
        t->add[t->first[id]].temp += bytes;
        t->take[t->last[id]].temp += bytes;
        break;
    default:
        break;
    }
}

/* The highest level of a list over the one before it. */
static live_level list_level(const segment *seg, int phase, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    timeline t = {.n = seg->n_ops[phase]};
    t.add = ARENA_ARRAY(scratch, live_level, t.n + 1);
    t.take = ARENA_ARRAY(scratch, live_level, t.n + 1);
    t.first = ARENA_RAW(scratch, int, seg->n_bufs + 1);
    t.last = ARENA_RAW(scratch, int, seg->n_bufs + 1);
    find_touches(&t, seg, phase);
    for (int id = 0; id < seg->n_bufs; id++) put(&t, seg, phase, id);
    live_level now = t.start, most = now;
    for (int i = 0; i < t.n; i++) {
        now = live_add(now, t.add[i]);
        most = live_most(most, now);
        now = live_less(now, t.take[i]);
    }
    arena_release(scratch, mark);
    return most;
}

/* ---- a segment */

/* The second attention output of the half that runs forward (I4). Where heads are exchanged our
 * program has both, too: the one of heads goes with core_attn. */
static int64_t second_output(const segment *seg)
{
    int64_t bytes = 0;
    for (int id = 0; id < seg->n_bufs; id++) {
        const buf *b = &seg->bufs[id];
        if (b->parent >= 0 || b->owner != 0 || b->life != LIFE_SAVED) continue;
        if ((b->drop & DROP_CORE_ATTN) && b->type != DTYPE_F32) return 0;
        if (b->offload & OFF_ATTN_PROJ) bytes += allocated(b->bytes);
    }
    return bytes;
}

/* Scores of all heads behind the softmax, as the unfused attention keeps them; with dropout its
 * mask of a byte each and what it made of them stay, too (torch keeps all three). Another such
 * tensor lives beside them: in forward those before the softmax, in backward their gradient. */
static int64_t scores_bytes(const segment *seg)
{
    int64_t bytes = 0;
    for (int i = 0; i < seg->n_ops[SEG_FORWARD]; i++) {
        const op *o = &seg->ops[SEG_FORWARD][i];
        if (o->kind != OP_ATTN) continue;
        const int64_t *d = o->dim;
        int64_t each = mul_sat(d[DIM_ATTN_S], d[DIM_ATTN_S]);
        bytes += allocated(mul_sat(mul_sat(d[DIM_ATTN_B], d[DIM_ATTN_N]), mul_sat(each, 2)));
    }
    return bytes;
}

/* A byte for each element of both sums with the residual. */
static int64_t dropout_masks(const setup *s)
{
    const step_shape z = step_shape_of(s);
    int64_t tokens = s->j.sp ? z.Tc / s->lay.tp : z.Tc;
    return 2 * allocated(mul_sat(tokens, s->m.hidden));
}

/* Output of the norm before attention, which is one with the projection behind it outside MLA: what
 * layernorm's recompute names does not reach it. */
static int64_t fused_norm(const segment *seg)
{
    for (int i = 0; i < seg->n_ops[SEG_FORWARD]; i++) {
        const op *o = &seg->ops[SEG_FORWARD][i];
        bool attends = o->module == MODULE_ATTENTION || o->module == MODULE_LINEAR;
        if (!op_is(o->kind, NORMALISES) || !attends || o->in[IN_NORM_x] != 0) continue;
        const buf *b = &seg->bufs[seg_root(seg, o->out[OUT_NORM_y])];
        return b->life == LIFE_TEMP && (b->drop & DROP_LAYERNORM) ? allocated(b->bytes) : 0;
    }
    return 0;
}

static int64_t host_bytes(const segment *seg)
{
    int64_t bytes = 0;
    for (int id = 0; id < seg->n_bufs; id++)
        if (seg->bufs[id].life == LIFE_HOST && seg->bufs[id].parent < 0)
            bytes += allocated(seg->bufs[id].bytes);
    return bytes;
}

/* What Transformer Engine keeps of a layer beside what our buffers are. */
typedef struct layer_extra {
    int64_t kept, beside;
} layer_extra;

static layer_extra extra_of(const segment *seg, const setup *s)
{
    layer_extra x = {0, 0};
    if (seg->dropped & DROP_FULL) return x;
    bool again = seg->dropped & DROP_CORE_ATTN;
    if (s->j.attn_backend == J_ATTN_BACKEND_UNFUSED) {
        bool away = s->j.offload && job_lists(s->j.offload_modules, J_OFFLOAD_MODULES_CORE_ATTN);
        int64_t scores = scores_bytes(seg);
        int64_t dropped = s->j.attention_dropout > 0 ? scores / 2 + scores : 0;
        x.kept = again || away ? 0 : scores + dropped;
        x.beside = scores + (again ? scores : away ? 3 * scores : 0); /* I5 */
    }
    if (s->j.offload) x.beside += host_bytes(seg); /* I5 */
    if (s->j.hidden_dropout > 0) x.kept += dropout_masks(s);
    if (s->lay.cp > 1 && !again) x.kept += second_output(seg);
    if ((seg->dropped & DROP_LAYERNORM) && !s->m.attention->mla) x.kept += fused_norm(seg);
    return x;
}

static int64_t kept_bytes(const segment *seg)
{
    int64_t bytes = 0;
    for (int id = 0; id < seg->n_bufs; id++)
        if (seg->bufs[id].life == LIFE_SAVED && seg->bufs[id].parent < 0)
            bytes += allocated(seg->bufs[id].bytes);
    return bytes;
}

static int64_t again_bytes(const segment *seg)
{
    int64_t bytes = 0;
    for (int id = 1; id < seg->n_bufs; id++) {
        const buf *b = &seg->bufs[id];
        bool made = b->life == LIFE_TEMP && b->parent < 0 && b->owner == 0;
        if (made && (b->drop & seg->dropped)) bytes += allocated(b->bytes);
    }
    return bytes;
}

/* I3 */
static void add_logits(live_span *x, const setup *s)
{
    const step_shape z = step_shape_of(s);
    int64_t logits = mul_sat(z.Tc, s->m.padded_vocab / s->lay.tp), losses = 1 + (s->m.n_mtp > 0);
    bool native = !s->j.ce_fusion || s->j.ce_impl == J_CE_IMPL_NATIVE;
    int64_t kept = allocated(mul_sat(logits, native ? 4 : 2)),
            beside = allocated(mul_sat(logits, 2));
    x->kept.logits += losses * kept;
    x->forward.logits += losses * kept + (native ? beside : 0);
    live_level loss = {.logits = beside};
    x->backward =
        live_most(loss, live_add(x->backward, (live_level){.logits = beside - losses * kept}));
}

live_span live_of_segment(const segment *seg, const setup *s, arena *scratch)
{
    live_span x = {.kept = {.saved = kept_bytes(seg), .again = again_bytes(seg)}};
    x.forward = list_level(seg, SEG_FORWARD, scratch);
    x.backward = list_level(seg, SEG_BACKWARD, scratch);
    if (seg->kind == SEGMENT_LAYER || seg->kind == SEGMENT_MTP) {
        layer_extra extra = extra_of(seg, s);
        x.kept.saved += extra.kept;
        x.forward.saved += extra.kept;
        x.forward.temp += extra.beside;
        x.backward.temp += extra.beside;
    }
    if (seg->kind == SEGMENT_HEAD) add_logits(&x, s);
    x.forward.again = x.backward.again = x.kept.again;
    return x;
}

live_level live_of_pair(const segment *pair, const setup *s, arena *scratch)
{
    live_level x = list_level(pair, SEG_FORWARD, scratch);
    layer_extra extra = extra_of(pair, s);
    x.saved += extra.kept;
    x.temp += extra.beside;
    x.again = again_bytes(pair);
    return x;
}

live_span live_join(live_span a, live_span b)
{
    live_span x = {.kept = live_add(a.kept, b.kept),
                   .forward = live_most(a.forward, live_add(a.kept, b.forward)),
                   .backward = live_most(b.backward, live_less(a.backward, b.kept))};
    return x;
}

/* ---- a rank */

typedef struct walk {
    const live_rank *r;
    live_level now, most;
} walk;

/* Two chunks side by side are the same wherever they meet. */
typedef struct rendezvous {
    bool known;
    live_level most;
} rendezvous;

static void see(walk *w, live_level level)
{
    w->most = live_most(w->most, live_add(w->now, level));
}

/* Both chunks, instance by instance, as combined 1F1B runs them. */
static live_level both_level(const live_rank *r, const order_entry *f, const order_entry *b)
{
    walk own = {.r = r}, *w = &own;
    const live_row *of_f = &r->rows[f->chunk], *of_b = &r->rows[b->chunk];
    unit_walk u = {
        .f = of_f->kinds, .b = of_b->kinds, .f_end = of_f->n, .b_at = of_b->n - 1, .b_end = -1};
    unit_step x;
    while (unit_layers(&u, &x) || unit_rest(&u, &x)) {
        if (x.f >= 0 && x.b >= 0)
            see(w, w->r->pair(w->r->with, f->chunk, x.f, b->chunk, x.b));
        else
            see(w, x.f >= 0 ? of_f->spans[x.f].forward : of_b->spans[x.b].backward);
        if (x.f >= 0) w->now = live_add(w->now, of_f->spans[x.f].kept);
        if (x.b >= 0) w->now = live_less(w->now, of_b->spans[x.b].kept);
    }
    return own.most;
}

static live_span whole(const live_row *row)
{
    live_span sum = {0};
    for (int i = 0; i < row->n; i++) sum = i ? live_join(sum, row->spans[i]) : row->spans[0];
    return sum;
}

int64_t live_in_flight(const step_order *o, const int64_t *of_chunk)
{
    int64_t n = 0;
    for (int64_t i = 0; i <= o->warmup && i < o->n; i++)
        if (o->list[i].phase == ORDER_FORWARD) n += of_chunk[o->list[i].chunk];
    return n;
}

/* One entry of the order, or a pair of them. Returns how many. */
static int64_t step(walk *w, const live_span *chunks, rendezvous *met, int64_t i)
{
    const live_rank *r = w->r;
    const order_entry *e = &r->order->list[i];
    const live_span *of = &chunks[e->chunk];
    if (r->pairs && order_is_pair(r->order, i)) {
        const order_entry *b = e + 1;
        rendezvous *m = &met[e->chunk * r->n_chunks + b->chunk];
        if (!m->known) *m = (rendezvous){true, both_level(r, e, b)};
        see(w, m->most);
        w->now = live_less(live_add(w->now, of->kept), chunks[b->chunk].kept);
        return 2;
    }
    bool forward = e->phase == ORDER_FORWARD;
    see(w, forward ? of->forward : of->backward);
    w->now = forward ? live_add(w->now, of->kept) : live_less(w->now, of->kept);
    return 1;
}

/* Behind the warm-up the order repeats itself, and behind that it only goes down: where many
 * entries in a row were no higher, none will be. */
live_level live_peak(const live_rank *r, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    walk w = {.r = r};
    live_span *chunks = ARENA_RAW(scratch, live_span, r->n_chunks + 1);
    rendezvous *met = r->pairs ? ARENA_ARRAY(scratch, rendezvous, r->n_chunks * r->n_chunks) : NULL;
    for (int64_t i = 0; i < r->n_chunks; i++) chunks[i] = whole(&r->rows[i]);
    int64_t many = 4 * (r->order->warmup + 2 * r->n_chunks), highest = 0, most = 0;
    for (int64_t i = 0; i < r->order->n;) {
        i += step(&w, chunks, met, i);
        if (live_sum(w.most) > most) highest = i;
        most = live_sum(w.most);
        if (!r->whole && i > r->order->warmup + many && i > highest + many) break;
    }
    arena_release(scratch, mark);
    return w.most;
}
