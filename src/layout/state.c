/* state.c - bytes of a pipeline rank, read off the parameter table.
 *
 * I1  A buffer holds the weights of one chunk in reverse order of the network, as Megatron
 *     registers and reverses them: embedding, layers, final norm, prediction modules, head,
 *     backwards.
 * I2  The rank's bytes are those of its weights plus padding; padding is what the buffers have
 *     beyond the weights.
 * I3  The local experts of a row are one weight, because one grouped GEMM reads them. In
 *     Megatron each is a weight of its own: the same bytes wherever an expert's matrix is a
 *     multiple of 64 elements, as all real ones are. */
#include "layout/state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "layout/setup.h"
#include "layout/stage_parts.h"

static int64_t bytes_of(int64_t elements, double each)
{
    double bytes = ceil((double)elements * each);
    if (bytes >= (double)SIZE_HUGE) return SIZE_HUGE;
    int64_t whole = (int64_t)each;
    return (double)whole == each ? mul_sat(elements, whole) : (int64_t)bytes;
}

/* ---- a walk over the weights of a rank */

typedef struct walk {
    const model *m;
    const param_table *t;
    const layout *l;
    held_weights *held;
    buffer chunk[2]; /* of this chunk: dense, expert */
} walk;

static void add_row(walk *w, int i, bool alone)
{
    held_row *p = &w->held->row[i];
    p->times++;
    if (w->t->rows[i].trained) buffer_add(&w->chunk[p->buffer], 1, p->size, alone);
}

static void add_part(void *with, const stage_part *part)
{
    walk *w = with;
    const int *start = &w->t->start[part->block - w->m->blocks], first = *start;
    for (int i = start[1] - 1; i >= first; i--)
        if (stage_part_has(part, &w->t->rows[i], i == first)) add_row(w, i, part->alone);
}

static void add_chunk(walk *w, const stage *s, const buffer empty[2])
{
    for (int i = 0; i < 2; i++) w->chunk[i] = empty[i];
    stage_parts(w->m, s, w->l->pp, add_part, w); /* I1 */
    int64_t *padded = w->held->padded;
    for (int i = 0; i < 2; i++) padded[i] = add_sat(padded[i], buffer_close(&w->chunk[i]));
}

void state_walk(held_weights *held, const struct setup *s, int64_t pp_rank)
{
    const param_table *t = &s->params;
    const layout *l = &s->lay;
    buffer empty[2];
    assert(t->n_rows <= HELD_ROWS_MAX);
    memset(held->padded, 0, sizeof held->padded);
    for (int i = 0; i < t->n_rows; i++) {
        const param *p = &t->rows[i];
        held->row[i] = (held_row){param_local(p, l->tp, l->etp, l->ep), 0, buffer_of(l, p->kind)};
    }
    walk w = {&s->m, t, l, held, {{0}}};
    for (int i = 0; i < 2; i++) empty[i] = empty_buffer(&s->j, l, i);
    for (int64_t v = 0; v < s->pipe.vpp; v++)
        add_chunk(&w, &s->pipe.stages[v * s->pipe.pp + pp_rank], empty);
}

/* ---- bytes */

typedef struct weights_of {
    const param_table *t;
    const layout *l;
    const held_weights *held;
} weights_of;

/* An untrained buffer: FP32, with a counter beside each (the tokens of an expert), and no less than
 * a start at a multiple of 256 bytes takes. */
static int64_t buffer_bytes(int64_t n)
{
    int64_t both = mul_sat(n, 8), alone = round_up(mul_sat(n, 4), 256);
    return both > alone ? both : alone;
}

static void count_weights(state_bytes *s, const weights_of *w, const state_mode *mode)
{
    for (int i = 0; i < w->t->n_rows; i++) {
        const param *p = &w->t->rows[i];
        const held_row *here = &w->held->row[i];
        int64_t n = mul_sat(here->size, here->times);
        if (!n) continue;
        if (!p->trained) {
            s->buffers = add_sat(s->buffers, mul_sat(buffer_bytes(here->size), here->times));
            continue;
        }
        double each = mode->weight != mode->plain && p->linear ? mode->weight : mode->plain;
        s->elements[p->kind] = add_sat(s->elements[p->kind], n);
        s->weights[p->kind] = add_sat(s->weights[p->kind], bytes_of(n, each));
    }
}

/* Rows of the matrix (of one expert's) that a rank holds; its columns. */
typedef struct shape {
    int64_t rows, columns;
} shape;

static shape shape_of(const param *p, const layout *l)
{
    int64_t parts = p->kind == PARAM_EXPERT ? p->dim[0] : 1; /* experts are weights of their own */
    int64_t columns = p->dim[p->n_dims - 1];
    if (p->axis == p->n_dims - 1 && p->cut == CUT_TP) columns /= l->tp;
    if (p->axis == p->n_dims - 1 && p->cut == CUT_ETP) columns /= l->etp;
    int64_t all = param_local(p, l->tp, l->etp, parts);
    return (shape){columns > 0 ? all / columns : 0, columns};
}

static void count_shapes(state_bytes *s, const weights_of *w)
{
    shape seen[HELD_ROWS_MAX];
    int n = 0;
    for (int i = 0; i < w->t->n_rows; i++) {
        const param *p = &w->t->rows[i];
        const held_row *held = &w->held->row[i];
        if (!held->times || !p->gemm) continue;
        if (p->linear) s->narrow = add_sat(s->narrow, mul_sat(held->size, held->times));
        shape here = shape_of(p, w->l);
        int k = 0;
        while (k < n && (seen[k].rows != here.rows || seen[k].columns != here.columns)) k++;
        if (k < n) continue;
        seen[n++] = here;
        s->shapes = add_sat(s->shapes, mul_sat(here.rows, here.columns));
    }
}

/* Megatron orthogonalises what a TP rank holds, each expert by itself; embedding and head have
 * Adam. */
static void count_turns(orthogonal out[2], const weights_of *w)
{
    for (int i = 0; i < w->t->n_rows; i++) {
        const param *p = &w->t->rows[i];
        const held_row *here = &w->held->row[i];
        bool matrix = p->trained && p->decay && p->kind != PARAM_EMBEDDING;
        if (!here->times || !matrix) continue;
        shape x = shape_of(p, w->l);
        double m = (double)(x.rows < x.columns ? x.rows : x.columns);
        double n = (double)(x.rows < x.columns ? x.columns : x.rows);
        if (m < 1) continue;
        double each = 4 * m * m * n + 2 * m * m * m;
        double all = each * (double)here->size / (m * n) * (double)here->times;
        orthogonal *t = &out[here->buffer];
        t->side = (t->side * t->flops + m * all) / (t->flops + all);
        t->flops += all;
        if (each > t->largest) t->largest = each;
    }
}

static int64_t sum3(const int64_t parts[3])
{
    return add_sat(add_sat(parts[0], parts[1]), parts[2]);
}

/* What buffers hold beyond what was counted by class. */
static int64_t beyond(int64_t whole, const int64_t parts[3])
{
    int64_t rest = whole - sum3(parts);
    return rest > 0 ? rest : 0;
}

static void count_shards(state_bytes *s, const weights_of *w, const state_mode *mode, const job *j)
{
    const int64_t *padded = w->held->padded;
    const int64_t shards[] = {optimizer_shards(j, w->l, 0), optimizer_shards(j, w->l, 1)};
    for (int c = 0; c < 3; c++) {
        s->gradients[c] = bytes_of(s->elements[c], mode->gradient);
        s->optimizer[c] =
            bytes_of(s->elements[c], mode->optimizer) / shards[buffer_of(w->l, (param_class)c)];
    }
    int64_t padding = beyond(add_sat(padded[0], padded[1]), s->elements); /* I2 */
    int64_t shard = add_sat(padded[0] / shards[0], padded[1] / shards[1]);
    s->padding_weights = bytes_of(padding, mode->plain);
    s->padding_gradients = bytes_of(padding, mode->gradient);
    s->padding_optimizer = beyond(bytes_of(shard, mode->optimizer), s->optimizer);
    s->host = bytes_of(shard, mode->host);
    if (mode->moved > 0) /* places of pieces */
        s->padding_optimizer = bytes_of(mul_sat(moved_piece(shard), MOVED_TURNS), mode->moved);
}

void state_of_walk(state_bytes *out, const held_weights *held, const struct setup *s)
{
    const weights_of w = {&s->params, &s->lay, held};
    const state_mode mode = state_mode_bare(&s->j);
    *out = (state_bytes){0};
    count_weights(out, &w, &mode);
    count_shapes(out, &w);
    if (mode.types.one_moment) count_turns(out->turns, &w);
    count_shards(out, &w, &mode, &s->j);
}

void state_of_stage(state_bytes *out, const struct setup *s, int64_t pp_rank)
{
    held_weights held;
    if (s->states) {
        *out = s->states[pp_rank];
        return;
    }
    state_walk(&held, s, pp_rank);
    state_of_walk(out, &held, s);
}

int64_t state_weights(const state_bytes *s)
{
    return add_sat(add_sat(sum3(s->weights), s->padding_weights), s->buffers);
}

int64_t state_gradients(const state_bytes *s)
{
    return add_sat(sum3(s->gradients), s->padding_gradients);
}

int64_t state_optimizer(const state_bytes *s)
{
    return add_sat(sum3(s->optimizer), s->padding_optimizer);
}

int64_t state_total(const state_bytes *s)
{
    return add_sat(add_sat(state_weights(s), state_gradients(s)), state_optimizer(s));
}
