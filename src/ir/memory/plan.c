/* plan.c - laying out the arena.
 *
 * I1  Regions follow one another; each starts at a multiple of PLAN_ALIGN. */
#include "ir/memory/plan.h"

#include "base/maths.h"
#include "ir/memory/step_packing.h"
#include "ir/quant_plan.h"
#include "ir/shape.h"
#include "ir/target.h"
#include "op/update.h"

/* ---- boundary */

static int64_t most_bytes(const program *p, life l)
{
    int64_t most = 0;
    for (int i = 0; i < p->n_segments; i++)
        for (int id = 0; id < p->segments[i]->n_bufs; id++) {
            const buf *b = &p->segments[i]->bufs[id];
            if (b->life == l && b->parent < 0 && b->bytes > most) most = b->bytes;
        }
    return most;
}

void plan_boundary(program *p)
{
    const step_shape z = step_shape_of(p->s);
    boundary_region b = {.dhidden_bytes = most_bytes(p, LIFE_DHIDDEN),
                         .message_bytes = most_bytes(p, LIFE_BOUNDARY),
                         .passed_bytes = most_bytes(p, LIFE_HIDDEN_IN_FLIGHT)};
    boundary_place(&b, p->s, &z);
    p->dhidden_bytes = b.dhidden_bytes, p->dhidden_offset = b.dhidden_offset;
    p->boundary_bytes = b.message_bytes, p->boundary_offset = b.message_offset;
    p->passed_bytes = b.passed_bytes, p->passed_offset = b.passed_offset;
    p->bytes[REGION_BOUNDARY] = b.bytes;
}

int64_t program_trained_weights(const program *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->weights.n; i++) n += p->weights.list[i].bucket >= 0;
    return n;
}

void plan_step(program *p)
{
    const step_shape z = step_shape_of(p->s);
    int64_t weights = program_trained_weights(p);
    p->bytes[REGION_STEP] = step_region(p->s, &z, weights, p->step_offset, p->step_bytes);
    p->staging_bytes = staging_region(&z, p->step_bytes, p->staging_offset);
}

int64_t program_staging(const program *p, step_buffer which)
{
    return p->arena_bytes + p->host_bytes + p->staging_offset[which];
}

int64_t program_kept(const program *p)
{
    return p->arena_bytes + p->host_bytes + p->staging_bytes;
}

int64_t program_end(const program *p)
{
    return program_kept(p) + p->kept.bytes;
}

/* ---- temporaries and workspace */

typedef struct temp_sizes {
    int64_t temp, work;
} temp_sizes;

static void see_list(temp_sizes *z, const program *p, const segment *seg, int phase)
{
    const target_row *target = target_row_of(p->s);
    if (seg->temp_bytes[phase] > z->temp) z->temp = seg->temp_bytes[phase];
    for (int k = 0; k < seg->n_ops[phase]; k++) {
        int64_t work = workspace_bytes(target, seg, &seg->ops[phase][k]);
        if (work > z->work) z->work = work;
    }
}

/* Of all lists, or, where the step is packed, of those before and behind it. */
static void place_temporaries(program *p)
{
    temp_sizes z = {0, 0};
    for (int i = 0; i < p->n_segments && !p->packed; i++)
        for (int phase = 0; phase < 2; phase++) see_list(&z, p, p->segments[i], phase);
    for (int part = 0; part < PART_COUNT && p->packed; part++)
        for (int64_t i = 0; part != PART_STEP && i < p->items[part].n; i++)
            see_list(&z, p, p->items[part].list[i].seg, p->items[part].list[i].phase);
    p->workspace_offset = z.temp;
    p->workspace_bytes = z.work;
    p->bytes[REGION_TEMP] = temp_region(z.temp, z.work);
}

/* Where an element of the flat array of weights lies in its region: untrained buffers, which stand
 * behind all others, are FP32. */
int64_t program_weight_bytes(const program *p, int64_t element)
{
    int64_t trained = p->weights.trained, behind = element > trained ? element - trained : 0;
    return dtype_bytes(p->types.weight, element - behind) + dtype_bytes(DTYPE_F32, behind);
}

/* Pieces are large enough for the host's link, and several even of little: one is updated while
 * others are on their way. */
static int64_t kept_piece(int64_t n)
{
    enum { MOST = 1 << 24, PIECES = 4 };
    int64_t piece = round_up(ceil_div(n, PIECES), UPDATE_PIECE);
    return piece < MOST ? piece : MOST;
}

/* What pieces need beside the state: on the host where it is updated there, else places on the
 * device. */
static void plan_pieces(program *p)
{
    const number_types *t = &p->types;
    kept_state *k = &p->kept;
    if (k->moved) {
        k->piece = moved_piece(p->weights.owned);
        k->ring_depth = MOVED_TURNS;
        k->bytes = k->gradients;
        return;
    }
    k->piece = kept_piece(k->n);
    k->ring_depth = p->s->j.opt_offload_overlap ? 2 : 1;
    k->weights = k->gradients + k->ring_depth * dtype_bytes(t->gradient, k->piece);
    k->table = k->weights + k->ring_depth * dtype_bytes(t->weight, k->piece);
    k->bytes = k->table + p->step_bytes[STEP_TABLE];
}

static void plan_kept(program *p)
{
    const number_types *t = &p->types;
    kept_state *k = &p->kept;
    bool kept = t->moments && state_host_is_ours(&p->s->j);
    *k = (kept_state){.n = kept ? p->weights.owned - p->updated : 0,
                      .moved = state_is_moved(&p->s->j)};
    if (!k->n) return;
    k->first = t->masters ? round_up(dtype_bytes(t->master, k->n), PLAN_ALIGN) : 0;
    k->second = k->first + round_up(dtype_bytes(t->first, k->n), PLAN_ALIGN);
    k->gradients = k->second + round_up(dtype_bytes(t->second, k->n), PLAN_ALIGN);
    plan_pieces(p);
}

/* On a CPU regions are what the run has. Elsewhere what an element takes may be a fraction (scales
 * of blocks), and the host may keep some of the optimizer, so regions have the state's bytes. */
void plan_state(program *p)
{
    const setup *s = p->s;
    const number_types *t = &p->types;
    int64_t moments = t->moments ? p->weights.owned : 0;
    double on_host = job_on_cpu(&s->j) ? 0 : state_on_host(&s->j);
    if (state_is_moved(&s->j)) moments = 0;
    if (on_host > 0) /* whole vectors of kernels */
        moments = (int64_t)((double)moments * (1 - on_host)) / PLAN_ALIGN * PLAN_ALIGN;
    p->updated = moments;
    p->first_offset = t->masters ? dtype_bytes(t->master, moments) : 0;
    p->second_offset = p->first_offset + dtype_bytes(t->first, moments);
    p->optimizer_bytes = p->second_offset + dtype_bytes(t->second, moments);
    p->bytes[REGION_WEIGHTS] = program_weight_bytes(p, p->weights.elements);
    p->bytes[REGION_GRADIENTS] = dtype_bytes(t->gradient, p->weights.trained);
    p->bytes[REGION_OPTIMIZER] = p->optimizer_bytes;
    plan_kept(p);
    if (job_on_cpu(&s->j)) return;
    state_bytes bytes;
    state_of_stage(&bytes, s, p->at.pp);
    p->bytes[REGION_WEIGHTS] = state_weights(&bytes);
    p->bytes[REGION_GRADIENTS] = state_gradients(&bytes);
    p->bytes[REGION_OPTIMIZER] = state_optimizer(&bytes);
}

/* ---- copies of weights */

static const weight *weight_of(const program *p, const instance *i, const param *row,
                               int layer_step, int chunk_id)
{
    int64_t layer = !param_of_layer(row) ? 0
                    : i->seg->n_layers   ? i->layer + layer_step
                                         : p->s->m.n_layers;
    return weight_find(&p->weights, row, layer, chunk_id);
}

void plan_copies(program *p, arena *a)
{
    const quant_plan plan = quant_plan_of(&p->s->j);
    p->bytes[REGION_QUANTIZED_WEIGHTS] = 0;
    if (plan.form == QUANT_NONE) return;
    p->copy_at = ARENA_ARRAY(a, int64_t, p->weights.n + 1);
    for (int i = 0; i < p->weights.n; i++) p->copy_at[i] = -1;
    for (int64_t c = 0; c < p->n_chunks; c++)
        for (int i = 0; i < p->chunks[c].n; i++) {
            const instance *in = &p->chunks[c].list[i];
            for (int k = 0; k < in->seg->n_copies; k++) {
                const quant_copy *q = &in->seg->copies[k];
                const weight *w = weight_of(p, in, q->row, q->layer_step, (int)c);
                p->copy_at[w - p->weights.list] = p->bytes[REGION_QUANTIZED_WEIGHTS];
                p->bytes[REGION_QUANTIZED_WEIGHTS] +=
                    quant_places_of(&plan, q->parts, q->n, q->k).bytes;
            }
        }
}

/* Regions follow one another; where the first `n` of them end. I1 */
static int64_t place_regions(program *p, int n)
{
    int64_t end = 0;
    for (int i = 0; i < n; i++) {
        p->offset[i] = end;
        end += round_up(p->bytes[i], PLAN_ALIGN);
    }
    return end;
}

void plan_memory(program *p, bool sizes_only, arena *a)
{
    p->offset[REGION_SAVED] = place_regions(p, REGION_SAVED);
    p->packed = step_packs(p->s) && step_packing(p, a);
    if (!p->packed) {
        packed saved = place_slots(p, false, sizes_only, a);
        p->bytes[REGION_SAVED] = saved.bytes;
        p->saved_live = saved.live;
    }
    p->host_bytes = place_slots(p, true, sizes_only, a).bytes;
    place_temporaries(p);
    p->arena_bytes = place_regions(p, REGION_COUNT);
}

/* ---- places */

static int64_t step_place(const program *p, const instance *i, const buf *b, int64_t micro)
{
    int64_t at = p->offset[REGION_STEP] + p->step_offset[b->step];
    if (step_by_micro(b->step)) return at + micro * p->step_bytes[b->step];
    if (!b->step_stride) return at;
    bool module = i->seg->n_layers == 0; /* the prediction module's layer follows the decoder's */
    int64_t layer = module ? p->s->m.n_layers : i->layer + b->layer_step;
    return at + layer * b->step_stride;
}

static int64_t weight_place(const program *p, const instance *i, const buf *b, int chunk_id)
{
    return weight_of(p, i, b->row, b->layer_step, chunk_id)->offset;
}

static int64_t copy_place(const program *p, const instance *i, const buf *b, int chunk_id)
{
    const weight *w = weight_of(p, i, b->row, b->layer_step, chunk_id);
    return p->offset[REGION_QUANTIZED_WEIGHTS] + p->copy_at[w - p->weights.list] + b->offset[0];
}

/* Where an instance's input is that is not saved. One that is received may come while the one
 * before is still computed, so it has a place of its own. */
static int64_t passed_place(const program *p, const item_at *at, int instance_id)
{
    const chunk *c = &p->chunks[at->chunk];
    bool received = instance_id > 0 && c->list[instance_id - 1].seg->kind == SEGMENT_RECEIVE;
    int64_t which = received ? 2 + at->turn : instance_id % 2;
    return p->offset[REGION_BOUNDARY] + p->passed_offset + which * p->passed_bytes;
}

/* Where a part of an instance begins in its region. Instances are counted without messages. */
static const int64_t *slot_place(const program *p, int64_t *slots, const item_at *at,
                                 int instance_id, saved_part part)
{
    const chunk *c = &p->chunks[at->chunk];
    int first = c->list[0].seg->kind == SEGMENT_RECEIVE;
    packing_places places = {slots, p->micros, p->slots};
    return packing_place(&places, at->chunk, at->micro, instance_id - first, part);
}

/* What lies at this offset of an instance's saved bytes: its parts lie by themselves. */
static int64_t saved_place(const program *p, const item_at *at, int instance_id, int64_t offset)
{
    const int64_t *parts = p->chunks[at->chunk].list[instance_id].seg->parts;
    int part = SAVED_INPUT;
    for (; part < SAVED_OTHER && offset >= parts[part]; part++) offset -= parts[part];
    return p->offset[REGION_SAVED] + *slot_place(p, p->slot, at, instance_id, (saved_part)part) +
           offset;
}

/* Buffer 0 of the instance behind: in its slot, or on its way to the next stage or the host. */
static int64_t output_place(const program *p, const item_at *at)
{
    const chunk *c = &p->chunks[at->chunk];
    if (at->instance + 1 >= c->n) return -1;
    const instance *next = &c->list[at->instance + 1];
    if (next->seg->bufs[0].life == LIFE_BOUNDARY)
        return p->offset[REGION_BOUNDARY] + p->boundary_offset + at->turn * p->boundary_bytes;
    if (next->seg->bufs[0].life == LIFE_HIDDEN_IN_FLIGHT)
        return passed_place(p, at, at->instance + 1);
    return saved_place(p, at, at->instance + 1, 0);
}

static int64_t chunk_place(const program *p, const item *it, const buf *b)
{
    const item_at *at = &it->at[b->owner];
    const instance *i = &p->chunks[at->chunk].list[at->instance];
    int64_t boundary = p->offset[REGION_BOUNDARY];
    switch (b->life) {
    case LIFE_WEIGHT:
        return p->offset[REGION_WEIGHTS] +
               program_weight_bytes(p, weight_place(p, i, b, at->chunk));
    case LIFE_GRADIENT:
        return p->offset[REGION_GRADIENTS] +
               dtype_bytes(p->types.gradient, weight_place(p, i, b, at->chunk));
    case LIFE_COPY:
        return copy_place(p, i, b, at->chunk);
    case LIFE_SAVED:
        return saved_place(p, at, at->instance, b->offset[0]);
    case LIFE_OUTPUT:
        return output_place(p, at);
    case LIFE_DHIDDEN:
        return boundary + p->dhidden_offset + at->turn * p->dhidden_bytes;
    case LIFE_BOUNDARY:
        return boundary + p->boundary_offset + at->turn * p->boundary_bytes;
    case LIFE_HIDDEN_IN_FLIGHT:
        return passed_place(p, at, at->instance);
    case LIFE_HOST:
        return p->arena_bytes + *slot_place(p, p->host_slot, at, at->instance, SAVED_OTHER) +
               b->offset[0];
    case LIFE_STEP:
        return step_place(p, i, b, at->micro);
    default:
        return -1;
    }
}

int64_t program_place(const program *p, const item *it, int buf_id)
{
    const buf *b = &it->seg->bufs[buf_id];
    if (b->life == LIFE_FIXED) {
        int64_t start = b->region == REGION_KEPT      ? program_kept(p)
                        : b->region == REGION_STAGING ? p->arena_bytes + p->host_bytes
                                                      : p->offset[b->region];
        return start + b->offset[0];
    }
    bool in_step = b->life == LIFE_TEMP || b->life == LIFE_SAVED || b->life == LIFE_OUTPUT;
    if (it->places && in_step) return it->places[buf_id];
    if (b->life == LIFE_TEMP)
        return b->offset[it->phase] < 0 ? -1 : p->offset[REGION_TEMP] + b->offset[it->phase];
    if (it->at[b->owner].chunk < 0) return -1;
    bool view = b->parent >= 0 && b->life != LIFE_SAVED;
    int64_t at = chunk_place(p, it, view ? &it->seg->bufs[b->parent] : b);
    return view && at >= 0 ? at + b->view_at : at;
}

const char *region_name(region r)
{
    static const char *const names[] = {"weights", "gradients", "optimizer", "saved",
                                        "copies",  "boundary",  "step",      "temporaries"};
    return names[r];
}

const char *region_title(region r)
{
    static const char *const titles[] = {"weights",
                                         "gradients",
                                         "optimizer",
                                         "activations",
                                         "low-precision copies of weights",
                                         "pipeline buffers",
                                         "batch, losses and counters",
                                         "temporaries and workspace"};
    return titles[r];
}
