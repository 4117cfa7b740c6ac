/* plan.c - laying out the arena.
 *
 * I1  Regions follow one another; each starts at a multiple of PLAN_ALIGN.
 * I2  A slot of the saved pool belongs to a (chunk, microbatch) from its forward to its backward.
 *     Slots are packed at the lowest place that no living one covers, so the pool is the peak of
 *     their sum wherever sizes allow.
 * I3  `buffer_bytes` is the length of the union of all buffers: what a step can touch. */
#include "program/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "program/rope.h"

/* Head and loss: a chunk of logits, and behind it, aligned, a loss (double) for each row. */
static int64_t logits_bytes(const op *o)
{
    return mul_sat(mul_sat(o->dim[3], o->dim[2]), 4);
}

int64_t op_workspace(const op *o)
{
    if (o->kind != OP_HEAD_LOSS) return 0;
    return round_up(logits_bytes(o), PLAN_ALIGN) + o->dim[3] * 8;
}

/* ---- saved slots */

typedef struct living {
    int64_t at, bytes, chunk, micro;
} living;

static int64_t lowest_place(const living *list, int64_t n, int64_t bytes)
{
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        if (at < list[i].at + list[i].bytes && list[i].at < at + bytes) {
            at = list[i].at + list[i].bytes;
            i = -1;
        }
    return at;
}

static int64_t place_slots(program *p, arena *a)
{
    int64_t peak = order_peak(&p->order), n = 0, end = 0;
    living *alive = ARENA_ARRAY(a, living, peak + 1);
    p->slot = ARENA_ARRAY(a, int64_t, p->n_chunks * p->micros);
    for (int64_t i = 0; i < p->order.n; i++) {
        const order_entry *e = &p->order.list[i];
        int64_t bytes = p->chunks[e->chunk].saved_bytes;
        if (e->phase == SEG_FORWARD) {
            int64_t at = lowest_place(alive, n, bytes); /* I2 */
            alive[n++] = (living){at, bytes, e->chunk, e->micro};
            p->slot[e->chunk * p->micros + e->micro] = at;
            if (at + bytes > end) end = at + bytes;
        } else {
            int64_t k = 0;
            while (alive[k].chunk != e->chunk || alive[k].micro != e->micro) k++;
            alive[k] = alive[--n];
        }
    }
    return end;
}

/* ---- step buffers */

static void place_step(program *p)
{
    const model *m = &p->s->m;
    int64_t layers = m->n_layers + m->n_mtp, rot = rope_width(p->s);
    int64_t elements[STEP_COUNT] = {[STEP_IDS] = p->T,
                                    [STEP_LABELS] = p->T,
                                    [STEP_MASK] = p->T,
                                    [STEP_ROPE] = p->S * rot,
                                    [STEP_LOSS] = 2 * p->micros};
    if (m->n_mtp) {
        elements[STEP_MTP_IDS] = elements[STEP_MTP_LABELS] = elements[STEP_MTP_MASK] = p->T;
        elements[STEP_MTP_LOSS] = 2 * p->micros;
    }
    if (m->experts) {
        elements[STEP_AUX] = elements[STEP_Z] = layers;
        elements[STEP_LOAD] = layers * m->experts;
        elements[STEP_GLOBAL] = layers * m->experts;
    }
    int64_t end = 0;
    for (int i = 0; i < STEP_COUNT; i++) {
        p->step_offset[i] = end;
        p->step_bytes[i] = elements[i] * 4;
        end = round_up(end + p->step_bytes[i], PLAN_ALIGN);
    }
    p->bytes[REGION_STEP] = end;
}

/* ---- temporaries and workspace */

static void place_temporaries(program *p)
{
    int64_t temp = 0, work = 0;
    for (int i = 0; i < p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++) {
            const segment *seg = p->segments[i];
            if (seg->temp_bytes[phase] > temp) temp = seg->temp_bytes[phase];
            for (int k = 0; k < seg->n_ops[phase]; k++) {
                int64_t w = op_workspace(&seg->ops[phase][k]);
                if (w > work) work = w;
            }
        }
    p->workspace_offset = temp;
    p->workspace_bytes = work;
    p->bytes[REGION_TEMP] = temp + round_up(work, PLAN_ALIGN);
}

/* ---- what buffers cover */

enum { WORKSPACE_RANGES_MAX = 8 }; /* two for each operation that needs any: one or two heads */

typedef struct range {
    int64_t start, end;
} range;

static int by_start(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int64_t union_of(range *list, int64_t n)
{
    qsort(list, (size_t)n, sizeof *list, by_start);
    int64_t covered = 0, end = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t from = list[i].start > end ? list[i].start : end;
        if (list[i].end > from) covered += list[i].end - from;
        if (list[i].end > end) end = list[i].end;
    }
    return covered;
}

/* Without the gap of alignment inside. */
static int64_t workspace_ranges(const program *p, range *out)
{
    int64_t at = p->offset[REGION_TEMP] + p->workspace_offset, n = 0;
    for (int i = 0; i < p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p->segments[i]->n_ops[phase]; k++) {
                const op *o = &p->segments[i]->ops[phase][k];
                int64_t bytes = op_workspace(o);
                if (!bytes || n == WORKSPACE_RANGES_MAX) continue;
                out[n++] = (range){at, at + logits_bytes(o)};
                out[n++] = (range){at + bytes - o->dim[3] * 8, at + bytes};
            }
    return n;
}

static int64_t collect(const program *p, range *out)
{
    int64_t n = 0;
    for (int i = REGION_WEIGHTS; i <= REGION_OPTIMIZER;
         i++) /* their padding is used like the rest */
        out[n++] = (range){p->offset[i], p->offset[i] + p->bytes[i]};
    for (int i = 0; i < STEP_COUNT; i++) {
        int64_t at = p->offset[REGION_STEP] + p->step_offset[i];
        out[n++] = (range){at, at + p->step_bytes[i]};
    }
    n += workspace_ranges(p, out + n);
    for (int64_t e = 0; e < p->order.n; e++) {
        const order_entry *entry = &p->order.list[e];
        const chunk *c = &p->chunks[entry->chunk];
        for (int i = 0; i < c->n; i++)
            for (int id = 0; id < c->list[i].seg->n_bufs; id++) {
                int64_t at = program_place(p, entry->chunk, i, id, entry->phase, entry->micro);
                life l = c->list[i].seg->bufs[id].life;
                if (at < 0 || (l != LIFE_SAVED && l != LIFE_TEMP && l != LIFE_STREAM)) continue;
                out[n++] = (range){at, at + c->list[i].seg->bufs[id].bytes};
            }
    }
    return n;
}

static int64_t ranges_at_most(const program *p)
{
    int64_t per_micro = 0;
    for (int64_t c = 0; c < p->n_chunks; c++)
        for (int i = 0; i < p->chunks[c].n; i++) per_micro += p->chunks[c].list[i].seg->n_bufs;
    return REGION_COUNT + STEP_COUNT + WORKSPACE_RANGES_MAX + 2 * per_micro * p->micros;
}

void plan_memory(program *p, arena *a)
{
    p->bytes[REGION_WEIGHTS] = p->weights.elements * 4;
    p->bytes[REGION_GRADIENTS] = p->weights.trained * 4;
    p->bytes[REGION_OPTIMIZER] = p->weights.trained * 8;
    p->bytes[REGION_SAVED] = place_slots(p, a);
    p->bytes[REGION_BOUNDARY] = round_up(p->T * p->s->m.hidden * 4, PLAN_ALIGN);
    place_step(p);
    place_temporaries(p);
    int64_t end = 0;
    for (int i = 0; i < REGION_COUNT; i++) {
        p->offset[i] = end; /* I1 */
        end += round_up(p->bytes[i], PLAN_ALIGN);
    }
    p->arena_bytes = end;
    range *list = malloc(sizeof *list * (size_t)ranges_at_most(p));
    p->buffer_bytes = list ? union_of(list, collect(p, list)) : 0; /* I3 */
    free(list);
}

/* ---- places */

static int64_t step_place(const program *p, const instance *i, const buf *b, int64_t micro)
{
    int64_t at = p->offset[REGION_STEP] + p->step_offset[b->step];
    if (b->step == STEP_LOSS || b->step == STEP_MTP_LOSS) return at + micro * 8;
    if (!b->step_stride) return at;
    bool head = i->seg->n_layers == 0; /* the prediction module's layer follows the decoder's */
    int64_t layer = head ? p->s->m.n_layers : i->layer + b->layer_step;
    return at + layer * b->step_stride;
}

static int64_t weight_place(const program *p, const instance *i, const buf *b)
{
    param_block block = b->row->block;
    bool shared = block == BLOCK_EMBEDDING || block == BLOCK_HEAD;
    int64_t layer = shared ? 0 : i->seg->n_layers ? i->layer + b->layer_step : p->s->m.n_layers;
    const weight *w = weight_find(&p->weights, b->row, layer);
    return w->offset * 4;
}

int64_t program_place(const program *p, int64_t chunk_id, int instance_id, int buf_id, int phase,
                      int64_t micro)
{
    const chunk *c = &p->chunks[chunk_id];
    const instance *i = &c->list[instance_id];
    const buf *b = &i->seg->bufs[buf_id];
    int64_t slot = p->offset[REGION_SAVED] + p->slot[chunk_id * p->micros + micro];
    switch (b->life) {
    case LIFE_WEIGHT:
        return p->offset[REGION_WEIGHTS] + weight_place(p, i, b);
    case LIFE_GRADIENT:
        return p->offset[REGION_GRADIENTS] + weight_place(p, i, b);
    case LIFE_SAVED:
        return slot + i->saved_offset + b->offset[0];
    case LIFE_OUTPUT:
        return instance_id + 1 < c->n ? slot + c->list[instance_id + 1].saved_offset : -1;
    case LIFE_STREAM:
        return p->offset[REGION_BOUNDARY];
    case LIFE_STEP:
        return step_place(p, i, b, micro);
    case LIFE_TEMP:
        return b->offset[phase] < 0 ? -1 : p->offset[REGION_TEMP] + b->offset[phase];
    default:
        return -1;
    }
}

const char *region_name(region r)
{
    static const char *const names[] = {"weights",  "gradients", "optimizer",  "saved",
                                        "boundary", "step",      "temporaries"};
    return names[r];
}
