/* described.c - operations in the words of traces. */
#include "predict/described.h"

static const char *const phase_names[] = {"forward", "backward", "weight gradient", "recompute"};

static const char *title_of(const op *o)
{
    return o->name && *o->name ? o->name : op_infos[o->kind].name;
}

static int64_t layer_of(const program *p, const item *it, const op *o)
{
    const item_at *at = &it->at[0];
    if (at->chunk < 0 || !it->seg->n_layers) return -1;
    return p->chunks[at->chunk].list[at->instance].layer + (o ? o->layer_step : 0);
}

/* What a message carries, or what an operation reads and writes. */
static int64_t bytes_of(const item *it, const op *o)
{
    if (!op_is_comm(o->kind) || op_is(o->kind, BY_TABLE)) return seg_op_bytes(it->seg, o);
    return dtype_bytes(o->type, o->dim[DIM_MESSAGE_N]);
}

/* The half of a pair that an operation belongs to. */
static int64_t micro_of(const item *it, const op *o)
{
    bool pair = it->seg->kind == SEGMENT_PAIR && o && o->phase != PHASE_FORWARD;
    const item_at *at = &it->at[pair && it->at[1].chunk >= 0];
    return at->chunk < 0 ? -1 : at->micro;
}

trace_op described(const program *p, const item *it, const op *o, cost_kind kind)
{
    trace_op t = {.name = "", .kind = cost_kind_title(kind), .bytes = -1};
    t.micro = micro_of(it, o);
    t.layer = layer_of(p, it, o);
    if (!o) return t;
    t.name = title_of(o);
    t.phase = phase_names[o->phase];
    t.bytes = bytes_of(it, o);
    if (op_is_comm(o->kind)) t.group = comm_group_name(o->group);
    return t;
}

int64_t described_at_stage(const setup *s, int64_t rank, int64_t pp)
{
    int64_t own = layout_coordinate(&s->lay, GRID_DENSE, AXIS_PP, rank);
    return rank + (pp - own) * s->lay.stride[GRID_DENSE][AXIS_PP];
}

const char *described_rank(const setup *s, int64_t rank, arena *a)
{
    int64_t pp = layout_coordinate(&s->lay, GRID_DENSE, AXIS_PP, rank);
    return arena_text(a, "rank %lld, pipeline stage %lld", (long long)rank, (long long)pp);
}
