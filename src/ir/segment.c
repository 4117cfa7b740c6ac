/* segment.c - building a segment: buffers, views and operations, one behind the other. */
#include "ir/segment.h"

#include <string.h>

#include "base/maths.h"

const char *const segment_names[SEGMENT_KINDS] = {
    [SEGMENT_EMBEDDING] = "embedding", [SEGMENT_LAYER] = "layer",
    [SEGMENT_FINAL] = "final",         [SEGMENT_MTP] = "mtp",
    [SEGMENT_HEAD] = "head",           [SEGMENT_RECEIVE] = "receive",
    [SEGMENT_SEND] = "send",           [SEGMENT_POST] = "post",
    [SEGMENT_WAIT] = "wait",           [SEGMENT_REDUCE] = "reduce",
    [SEGMENT_GATHER] = "gather",       [SEGMENT_SUMS] = "sums",
    [SEGMENT_BEGIN] = "begin",         [SEGMENT_REPORT] = "report",
    [SEGMENT_UPDATE] = "update",       [SEGMENT_COPIES] = "copies",
    [SEGMENT_PAIR] = "pair",
};

void segment_init(segment *seg, builder *b, segment_kind kind, const setup *s, arena *a)
{
    *seg = (segment){.kind = kind, .name = segment_names[kind]};
    b->s = s;
    b->a = a;
    b->seg = seg;
}

static int add_buf(builder *b, buf made)
{
    segment *seg = b->seg;
    ARENA_GROW(b->a, seg->bufs, seg->n_bufs, seg->bufs_room);
    made.module = b->module;
    made.role = b->role;
    made.offset[0] = made.offset[1] = -1;
    if (!made.parent) made.parent = NONE; /* buffer 0 has no views: it is the segment's input */
    seg->bufs[seg->n_bufs] = made;
    return seg->n_bufs++;
}

int seg_saved_as(builder *b, const char *name, int64_t elements, unsigned drop, dtype type)
{
    return add_buf(b, (buf){.name = name,
                            .life = LIFE_SAVED,
                            .type = type,
                            .bytes = dtype_bytes(type, elements),
                            .drop = (drop & ~(unsigned)(STORED | OFF_ALL)) | DROP_FULL,
                            .offload = drop & OFF_ALL});
}

int seg_saved(builder *b, const char *name, int64_t elements, unsigned drop)
{
    int id = seg_saved_as(b, name, elements, drop,
                          drop & STORED ? b->types.stored : b->types.activation);
    b->seg->bufs[id].stored = drop & STORED && b->quant.form != QUANT_NONE;
    return id;
}

static int add_typed(builder *b, const char *name, life l, int64_t elements, dtype type)
{
    return add_buf(
        b, (buf){.name = name, .life = l, .type = type, .bytes = dtype_bytes(type, elements)});
}

int seg_temp(builder *b, const char *name, int64_t elements)
{
    return add_typed(b, name, LIFE_TEMP, elements, b->types.activation);
}

int seg_temp_as(builder *b, const char *name, int64_t elements, dtype type)
{
    return add_typed(b, name, LIFE_TEMP, elements, type);
}

int seg_other(builder *b, const char *name, life l, int64_t elements)
{
    return add_typed(b, name, l, elements, b->types.activation);
}

int seg_fixed(builder *b, const char *name, int region, int64_t at, int64_t elements, dtype type)
{
    int id = add_typed(b, name, LIFE_FIXED, elements, type);
    b->seg->bufs[id].region = region;
    b->seg->bufs[id].offset[0] = at;
    return id;
}

const char *const step_names[STEP_COUNT] = {
    [STEP_IDS] = "ids",
    [STEP_LABELS] = "labels",
    [STEP_MASK] = "mask",
    [STEP_MTP_IDS] = "mtp.ids",
    [STEP_MTP_LABELS] = "mtp.labels",
    [STEP_MTP_MASK] = "mtp.mask",
    [STEP_ROPE] = "rotations",
    [STEP_LOSS] = "loss",
    [STEP_MTP_LOSS] = "mtp.loss",
    [STEP_AUX] = "aux losses",
    [STEP_Z] = "z losses",
    [STEP_LOAD] = "expert loads",
    [STEP_GLOBAL] = "global counts",
    [STEP_OVERFLOW] = "routed rows",
    [STEP_COUNTS] = "token counts",
    [STEP_GIVEN] = "rates and flags",
    [STEP_TABLE] = "owned weights",
    [STEP_SQUARES] = "squares",
    [STEP_TALLY] = "tally",
    [STEP_TALLIES] = "tallies",
    [STEP_SUMS] = "sums",
    [STEP_VERDICT] = "verdict",
};

dtype step_type(step_buffer which)
{
    switch (which) {
    case STEP_IDS:
    case STEP_LABELS:
    case STEP_MTP_IDS:
    case STEP_MTP_LABELS:
        return DTYPE_I32;
    case STEP_COUNTS:
    case STEP_GIVEN:
    case STEP_TABLE:
    case STEP_SQUARES:
    case STEP_TALLY:
    case STEP_TALLIES:
    case STEP_SUMS:
    case STEP_VERDICT:
        return DTYPE_F64;
    default:
        return DTYPE_F32;
    }
}

step_staged step_is_staged(step_buffer which)
{
    static const step_staged staged[STEP_COUNT] = {
        [STEP_IDS] = STAGED_UP,       [STEP_LABELS] = STAGED_UP,     [STEP_MASK] = STAGED_UP,
        [STEP_MTP_IDS] = STAGED_UP,   [STEP_MTP_LABELS] = STAGED_UP, [STEP_MTP_MASK] = STAGED_UP,
        [STEP_COUNTS] = STAGED_UP,    [STEP_GIVEN] = STAGED_UP,      [STEP_SUMS] = STAGED_DOWN,
        [STEP_VERDICT] = STAGED_DOWN, [STEP_OVERFLOW] = STAGED_DOWN, [STEP_LOAD] = STAGED_DOWN};
    return staged[which];
}

static int find_step(const builder *b, step_buffer which, int layer_step)
{
    for (int i = 0; i < b->seg->n_bufs; i++) {
        const buf *p = &b->seg->bufs[i];
        if (p->life == LIFE_STEP && p->step == which && p->layer_step == layer_step) return i;
    }
    return NONE;
}

int seg_step(builder *b, step_buffer which, int64_t elements)
{
    int found = find_step(b, which, 0);
    if (found != NONE) return found;
    int id = add_typed(b, step_names[which], LIFE_STEP, elements, step_type(which));
    b->seg->bufs[id].step = which;
    return id;
}

int seg_layer_step(builder *b, step_buffer which, int64_t elements)
{
    int found = find_step(b, which, b->layer_step);
    if (found != NONE) return found;
    int id = add_typed(b, step_names[which], LIFE_STEP, elements, step_type(which));
    buf *made = &b->seg->bufs[id];
    made->step = which;
    made->layer_step = b->layer_step;
    made->step_stride = made->bytes;
    return id;
}

/* Rows of this layer's blocks, then of embedding and head. */
const param *seg_row(const builder *b, const char *name)
{
    const layer_kind *l = model_layer(&b->s->m, b->layer);
    for (int i = 0; i < b->s->params.n_rows; i++) {
        const param *p = &b->s->params.rows[i];
        bool here = !param_of_layer(p);
        for (int k = 0; k < l->n_blocks; k++) here = here || p->block == l->block[k]->weights;
        if (here && strcmp(p->name, name) == 0) return p;
    }
    return NULL;
}

int seg_view(builder *b, int parent, int64_t first, int64_t elements)
{
    buf whole = b->seg->bufs[parent];
    int64_t at = dtype_bytes(whole.type, first) + (whole.parent >= 0 ? whole.view_at : 0);
    return add_buf(b, (buf){.name = whole.name,
                            .life = whole.life,
                            .type = whole.type,
                            .bytes = dtype_bytes(whole.type, elements),
                            .parent = whole.parent >= 0 ? whole.parent : parent,
                            .view_at = at});
}

static int add_row(builder *b, const char *name, life l)
{
    const param *row = seg_row(b, name);
    if (!row) return NONE;
    for (int i = 0; i < b->seg->n_bufs; i++) {
        const buf *p = &b->seg->bufs[i];
        if (p->life == l && p->row == row && p->layer_step == b->layer_step) return i;
    }
    dtype type = !row->trained ? DTYPE_F32 : l == LIFE_WEIGHT ? b->types.weight : b->types.gradient;
    const layout *lay = &b->s->lay;
    int id = add_typed(b, row->name, l, param_local(row, lay->tp, lay->etp, lay->ep), type);
    b->seg->bufs[id].row = row;
    b->seg->bufs[id].layer_step = b->layer_step;
    return id;
}

int seg_weight(builder *b, const char *name)
{
    return add_row(b, name, LIFE_WEIGHT);
}

int seg_gradient(builder *b, const char *name)
{
    return add_row(b, name, LIFE_GRADIENT);
}

static op *append(segment *seg, int phase, arena *a)
{
    ARENA_GROW(a, seg->ops[phase], seg->n_ops[phase], seg->ops_room[phase]);
    return &seg->ops[phase][seg->n_ops[phase]++];
}

op *seg_op(builder *b, int phase, op_kind kind, const char *name, const int *in, const int *out,
           const int64_t *dim)
{
    op *o = append(b->seg, phase, b->a);
    *o = (op){.kind = kind, .name = name, .module = b->module, .role = b->role};
    o->node = b->node;
    o->layer_step = b->layer_step;
    o->blocks = b->blocks;
    o->phase = phase == SEG_FORWARD                             ? PHASE_FORWARD
               : op_infos[kind].gradient == GRADIENT_OF_WEIGHTS ? PHASE_WGRAD
                                                                : PHASE_BACKWARD;
    for (int i = 0; i < OP_IN_MAX; i++) o->in[i] = NONE;
    for (int i = 0; i < OP_OUT_MAX; i++) o->out[i] = NONE;
    for (int i = 0; in && in[i] != END; i++) o->in[i] = in[i];
    for (int i = 0; out && out[i] != END; i++) o->out[i] = out[i];
    for (int i = 0; dim && dim[i] != DIM_END; i++) o->dim[i] = dim[i];
    return o;
}

op *seg_comm(builder *b, int phase, op_kind kind, const char *name, comm_group g, const int *in,
             const int *out, const int64_t *dim)
{
    op *o = seg_op(b, phase, kind, name, in, out, dim);
    o->stream = STREAM_COMM;
    o->group = g;
    o->type = b->seg->bufs[op_first_buf(o)].type;
    return o;
}

int64_t seg_width(const builder *b, comm_group g)
{
    return group_width(b->s, g);
}

int64_t seg_group_rank(const builder *b, comm_group g)
{
    return group_rank(b->s, g, &b->at);
}

static void type_of(const segment *seg, int id, dtype *type, int64_t *elements)
{
    if (id < 0) return;
    *type = seg->bufs[id].type;
    *elements = dtype_elements(*type, seg->bufs[id].bytes);
}

op_types seg_op_types(const segment *seg, const op *o)
{
    op_types t = {.in = {0}};
    for (int i = 0; i < OP_IN_MAX; i++) type_of(seg, o->in[i], &t.in[i], &t.in_elements[i]);
    for (int i = 0; i < OP_OUT_MAX; i++) type_of(seg, o->out[i], &t.out[i], &t.out_elements[i]);
    return t;
}

int64_t seg_op_bytes(const segment *seg, const op *o)
{
    int64_t bytes = 0;
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] >= 0) bytes += seg->bufs[o->in[i]].bytes;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] >= 0) bytes += seg->bufs[o->out[i]].bytes;
    return bytes;
}
