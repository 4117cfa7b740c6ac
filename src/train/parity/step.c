/* step.c - running a reference case's batch, and logits where they pass. */
#include "train/parity/step.h"

#include <math.h>
#include <string.h>

#include "train/data/index.h"

/* The first sample of a microbatch of this rank. */
static int64_t first_sample(const parity *q, int64_t micro)
{
    data_sampler from = {q->g->batch, 0, q->p->B, q->s->lay.dp, q->p->at.dp};
    return sampler_first(&from, micro);
}

static void load_all(parity *q)
{
    double counted = 0; /* 0: all; else the mean goes over those of the whole batch */
    for (int64_t i = 0; q->g->masked && i < q->g->batch * q->g->seq; i++)
        counted += (double)q->mask[i];
    for (int64_t m = 0; m < q->p->micros; m++) {
        int64_t at = first_sample(q, m) * q->g->seq;
        batch b = {q->g->ids + at, q->g->labels + at, q->mask + at};
        batch_load(q->e, q->p, m, &b, counted);
    }
}

/* ---- logits exist only here */

/* The head's operation of this kind, that of the main loss, with its phase in `it`; or NULL. */
static const op *head_op(op_kind kind, item *it)
{
    const segment *seg = it->seg;
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < seg->n_ops[phase]; i++) {
            const op *o = &seg->ops[phase][i];
            if (o->kind != kind) continue;
            if (!op_is(kind, NORMALISES) &&
                seg->bufs[o->in[IN_HEAD_LOSS_labels]].step != STEP_LABELS)
                continue;
            it->phase = phase;
            return o;
        }
    return NULL;
}

/* A buffer's values in FP32: a copy. */
static float *values_of(const parity *q, const item *it, int buf_id)
{
    const buf *b = &it->seg->bufs[buf_id];
    int64_t n = dtype_elements(b->type, b->bytes);
    float *values = ARENA_ARRAY(q->a, float, n);
    typed from = {b->type, ARENA_ARRAY(q->a, char, b->bytes)};
    executor_read(q->e, from.at, program_place(q->p, it, buf_id), b->bytes);
    typed_read(values, from, 0, n);
    return values;
}

static void run_op(const op *o, void *const *in, void *const *out)
{
    int n_rows;
    const kernel *rows = kernels_cpu(&n_rows);
    kernel_pick(rows, n_rows, o, NULL, false)->run(o, in, out);
}

/* What the head multiplies, of all tokens of this CP rank: normed where the head does that. */
static float *head_input(parity *q, item *it)
{
    int64_t n = q->p->T * q->s->m.hidden;
    float *own = values_of(q, it, 0);
    const op *norm = head_op(OP_NORM, it);
    if (!norm) norm = head_op(OP_LAYER_NORM, it);
    if (norm) {
        float *normed = ARENA_ARRAY(q->a, float, n);
        float *rstd = ARENA_ARRAY(q->a, float, 2 * q->p->T);
        void *in[OP_IN_MAX] = {own, values_of(q, it, norm->in[IN_NORM_w])};
        int bias = norm->in[IN_LAYER_NORM_b];
        if (bias >= 0) in[IN_LAYER_NORM_b] = values_of(q, it, bias);
        void *out[OP_OUT_MAX] = {normed, rstd};
        run_op(norm, in, out);
        own = normed;
    }
    float *all = ARENA_ARRAY(q->a, float, n * q->s->lay.tp);
    comm_collect(q->c, GROUP_TP, own, sizeof *own * (size_t)n, all);
    return all;
}

static void add_row(squares *to, const float *ours, const float *golden, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double d = (double)ours[i] - (double)golden[i];
        to->difference += d * d;
        to->golden += (double)golden[i] * (double)golden[i];
    }
}

/* Rows of the batch that this rank's tokens are, columns of its part of the vocabulary. */
static void add_logits(const parity *q, const float *logits, int64_t V, int64_t micro, squares *to)
{
    const program *p = q->p;
    int64_t columns = q->s->m.vocab, first = p->at.tp * V;
    const float *golden = golden_floats(q->g, "logits", q->g->batch * q->g->seq * columns);
    int64_t n = columns - first < V ? columns - first : V;
    for (int64_t t = 0; t < p->Tc && golden && n > 0; t++) {
        int64_t sample = first_sample(q, micro) + t / p->S;
        int64_t row = sample * q->g->seq + batch_position(p, t % p->S);
        add_row(to, logits + t * V, golden + row * columns + first, n);
    }
}

/* `first`: the first item of the head, in a list of its own or in a pair's. */
static void compare_logits(parity *q, const item *first, int64_t micro, squares *to)
{
    const chunk *c = &q->p->chunks[q->p->n_chunks - 1];
    arena_place mark = arena_mark(q->a);
    item it = {.seg = program_head(q->p)->seg};
    it.at[0] = (item_at){(int)q->p->n_chunks - 1, c->n - 1, micro, 0};
    if (first->seg->bufs == it.seg->bufs) it.places = first->places;
    float *x = head_input(q, &it);
    const op *loss = head_op(OP_HEAD_LOSS, &it);
    if (!loss) loss = head_op(OP_HEAD_PART, &it);
    if (loss) {
        int64_t H = loss->dim[DIM_HEAD_LOSS_H], V = loss->dim[DIM_HEAD_LOSS_V];
        op made = {.kind = OP_HEAD_LOGITS, .dim = {q->p->Tc, H, V}};
        float *logits = ARENA_ARRAY(q->a, float, q->p->Tc *V);
        void *in[OP_IN_MAX] = {x, values_of(q, &it, loss->in[IN_HEAD_LOSS_w])};
        void *out[OP_OUT_MAX] = {logits};
        run_op(&made, in, out);
        add_logits(q, logits, V, micro, to);
    }
    arena_release(q->a, mark);
}

/* Which microbatch's head does this item begin with, of those whose logits were not seen; else -1.
 * The input is there before the first item of the head, in a list of its own or in a pair's. */
static int64_t head_of(const parity *q, const item *it, const bool *seen)
{
    const chunk *c = &q->p->chunks[q->p->n_chunks - 1];
    if (!program_head(q->p)) return -1;
    for (int k = 0; k < 2; k++) {
        const item_at *at = &it->at[k];
        bool head = at->chunk == (int)q->p->n_chunks - 1 && at->instance == c->n - 1;
        if (head && !seen[at->micro]) return at->micro;
    }
    return -1;
}

static void run_items(parity *q, squares *logits)
{
    arena_place mark = arena_mark(q->a);
    bool *seen = ARENA_ARRAY(q->a, bool, q->p->micros);
    executor_part(q->e, PART_BEGIN);
    for (int64_t i = 0; i < q->p->items[PART_STEP].n; i++) {
        const item *it = &q->p->items[PART_STEP].list[i];
        int64_t micro = head_of(q, it, seen);
        if (micro >= 0) {
            compare_logits(q, it, micro, logits);
            seen[micro] = true;
        }
        executor_item(q->e, PART_STEP, i);
    }
    arena_release(q->a, mark);
}

/* ---- the step */

static double own_overflow(const step_report *r)
{
    double most = 0;
    for (int64_t i = 0; i < r->n_layers && r->rows; i++) {
        double wanted = (double)r->rows[2 * i], room = (double)r->rows[2 * i + 1];
        if (wanted > room) most = fmax(most, wanted / fmax(room, 1));
    }
    return most;
}

double parity_step(parity *q, squares *logits)
{
    double given[GIVEN_COUNT];
    load_all(q);
    optimizer_give(&q->o, q->rates, given);
    comm_where(q->c, "a step of a reference case", NULL);
    if (logits)
        run_items(q, logits);
    else
        step_run_begin(q->e);
    step_give(q->e, given);
    step_run_end(q->e, q->p, STEP_ONLY);
    step_report report = step_report_of(q->e, q->p);
    double loss = report.sums[SUM_OBJECTIVE], overflow = own_overflow(&report);
    comm_max(q->c, GROUP_WORLD, &overflow, 1);
    if (overflow > q->overflow) q->overflow = overflow;
    return loss;
}

void parity_update(parity *q)
{
    if (!q->p->types.moments) return;
    step_run_update(q->e, q->p);
    q->o.steps += step_report_of(q->e, q->p).verdict[VERDICT_OUTCOME] == STEP_TAKEN;
}
