/* cost.c - the price of every kind of operation: a table says how each counts. */
#include "predict/cost.h"

#include <math.h>

#include "predict/cost_parts.h"

const char *cost_kind_name(cost_kind k)
{
    static const char *const names[] = {
#define COST_NAME(id, name, title) name,
        COST_KINDS_TABLE(COST_NAME)
#undef COST_NAME
    };
    return names[k];
}

const char *cost_kind_title(cost_kind k)
{
    static const char *const titles[] = {
#define COST_TITLE(id, name, title) title,
        COST_KINDS_TABLE(COST_TITLE)
#undef COST_TITLE
    };
    return titles[k];
}

/* How seconds come about. Bytes of a memory-bound operation are those of its buffers, but
 * ROWS: of what it writes, twice (it picks rows of a table), and ADDED: of what it reads, three
 * times (it adds rows to one). UPDATE: cost_update_bytes. */
typedef enum cost_way {
    WAY_NONE,
    WAY_PRODUCT,
    WAY_GROUPED,
    WAY_ATTENTION,
    WAY_RULE,
    WAY_HEAD,
    WAY_MEMORY,
    WAY_ROWS,
    WAY_ADDED,
    WAY_MOVE,
    WAY_MESSAGE,
    WAY_HOST_COPY,
    WAY_UPDATE,
    WAY_HOST_UPDATE
} cost_way;

typedef struct cost_row {
    cost_way way;
    cost_kind kind; /* of messages: the group's */
} cost_row;

static const cost_row rows[OP_COUNT] = {
    [OP_ALL_GATHER] = {WAY_MESSAGE, COST_OTHER},
    [OP_REDUCE_SCATTER] = {WAY_MESSAGE, COST_OTHER},
    [OP_ALL_REDUCE] = {WAY_MESSAGE, COST_OTHER},
    [OP_ALL_TO_ALL] = {WAY_MESSAGE, COST_OTHER},
    [OP_EXCHANGE] = {WAY_MESSAGE, COST_OTHER},
    [OP_SHIFT] = {WAY_MESSAGE, COST_OTHER},
    [OP_SEND] = {WAY_MESSAGE, COST_OTHER},
    [OP_RECV] = {WAY_MESSAGE, COST_OTHER},
    [OP_WAIT] = {WAY_NONE, COST_OTHER},
    [OP_COPY_OUT] = {WAY_HOST_COPY, COST_COPY},
    [OP_COPY_IN] = {WAY_HOST_COPY, COST_COPY},
    [OP_MOVE] = {WAY_MOVE, COST_MEMORY},
    [OP_ROUTER] = {WAY_MEMORY, COST_ROUTING},
    [OP_ROUTER_D] = {WAY_MEMORY, COST_ROUTING},
    [OP_DROP] = {WAY_MEMORY, COST_ROUTING},
    [OP_AUX_LOSS] = {WAY_MEMORY, COST_ROUTING},
    [OP_AUX_GLOBAL] = {WAY_MEMORY, COST_ROUTING},
    [OP_AUX_COUNT] = {WAY_MEMORY, COST_ROUTING},
    [OP_Z_LOSS] = {WAY_MEMORY, COST_ROUTING},
    [OP_LOAD] = {WAY_MEMORY, COST_ROUTING},
    [OP_SORT] = {WAY_MEMORY, COST_ROUTING},
    [OP_PERMUTE] = {WAY_MEMORY, COST_ROUTING},
    [OP_PERMUTE_D] = {WAY_MEMORY, COST_ROUTING},
    [OP_UNPERMUTE] = {WAY_MEMORY, COST_ROUTING},
    [OP_UNPERMUTE_D] = {WAY_MEMORY, COST_ROUTING},
    [OP_ROUTE] = {WAY_MEMORY, COST_ROUTING},
    [OP_FLEX_COUNT] = {WAY_MEMORY, COST_ROUTING},
    [OP_FLEX_PLAN] = {WAY_MEMORY, COST_ROUTING},
    [OP_FLEX_FAN] = {WAY_MEMORY, COST_ROUTING},
    [OP_FLEX_PACK] = {WAY_MEMORY, COST_ROUTING},
    [OP_FLEX_UNPACK] = {WAY_MEMORY, COST_ROUTING},
    [OP_FLEX_PLACE] = {WAY_MEMORY, COST_ROUTING},
    [OP_DEMAND] = {WAY_MEMORY, COST_ROUTING},
    [OP_GROUPED] = {WAY_GROUPED, COST_GROUPED},
    [OP_GROUPED_D] = {WAY_GROUPED, COST_GROUPED},
    [OP_GROUPED_W] = {WAY_GROUPED, COST_GROUPED},
    [OP_GROUPED_BIAS] = {WAY_MEMORY, COST_MEMORY},
    [OP_GROUPED_BIAS_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_GROUPED_BIAS_P] = {WAY_MEMORY, COST_MEMORY},
    [OP_GEMM] = {WAY_PRODUCT, COST_GEMM},
    [OP_GEMM_D] = {WAY_PRODUCT, COST_GEMM},
    [OP_GEMM_W] = {WAY_PRODUCT, COST_GEMM},
    [OP_QUANTISE] = {WAY_MEMORY, COST_QUANTISE},
    [OP_QGEMM] = {WAY_PRODUCT, COST_GEMM},
    [OP_QGEMM_D] = {WAY_PRODUCT, COST_GEMM},
    [OP_QGEMM_W] = {WAY_PRODUCT, COST_GEMM},
    [OP_QGROUPED] = {WAY_GROUPED, COST_GROUPED},
    [OP_QGROUPED_D] = {WAY_GROUPED, COST_GROUPED},
    [OP_QGROUPED_W] = {WAY_GROUPED, COST_GROUPED},
    [OP_BIAS] = {WAY_MEMORY, COST_MEMORY},
    [OP_BIAS_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_EMBED] = {WAY_ROWS, COST_MEMORY},
    [OP_EMBED_W] = {WAY_ADDED, COST_MEMORY},
    [OP_NORM] = {WAY_MEMORY, COST_MEMORY},
    [OP_NORM_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_NORM_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_ROW_DOTS] = {WAY_MEMORY, COST_MEMORY},
    [OP_NORM_PART] = {WAY_MEMORY, COST_MEMORY},
    [OP_NORM_PART_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_LAYER_NORM] = {WAY_MEMORY, COST_MEMORY},
    [OP_LAYER_NORM_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_LAYER_NORM_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_POSITIONS] = {WAY_ROWS, COST_MEMORY},
    [OP_POSITIONS_W] = {WAY_ADDED, COST_MEMORY},
    [OP_ADD] = {WAY_MEMORY, COST_MEMORY},
    [OP_COPY] = {WAY_MEMORY, COST_MEMORY},
    [OP_CAST] = {WAY_MEMORY, COST_MEMORY},
    [OP_ZERO] = {WAY_MEMORY, COST_MEMORY},
    [OP_GATE] = {WAY_MEMORY, COST_MEMORY},
    [OP_GATE_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_ACT] = {WAY_MEMORY, COST_MEMORY},
    [OP_ACT_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_ACT_AS] = {WAY_MEMORY, COST_MEMORY},
    [OP_ACT_AS_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_QKV_SPLIT] = {WAY_MEMORY, COST_MEMORY},
    [OP_QKV_JOIN] = {WAY_MEMORY, COST_MEMORY},
    [OP_ROPE] = {WAY_MEMORY, COST_MEMORY},
    [OP_ROPE_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_ATTN] = {WAY_ATTENTION, COST_ATTENTION},
    [OP_ATTN_D] = {WAY_ATTENTION, COST_ATTENTION},
    [OP_ATTN_BLOCK] = {WAY_ATTENTION, COST_ATTENTION},
    [OP_ATTN_BLOCK_D] = {WAY_ATTENTION, COST_ATTENTION},
    [OP_MLA_KV_SPLIT] = {WAY_MEMORY, COST_MEMORY},
    [OP_MLA_KV_MERGE] = {WAY_MEMORY, COST_MEMORY},
    [OP_MLA_KV_JOIN] = {WAY_MEMORY, COST_MEMORY},
    [OP_MLA_KV_JOIN_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_GDN_SPLIT] = {WAY_MEMORY, COST_MEMORY},
    [OP_GDN_JOIN] = {WAY_MEMORY, COST_MEMORY},
    [OP_CONV] = {WAY_MEMORY, COST_MEMORY},
    [OP_CONV_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_CONV_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_GDN_GATES] = {WAY_MEMORY, COST_MEMORY},
    [OP_GDN_GATES_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_GDN_GATES_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_GDN_RULE] = {WAY_RULE, COST_ATTENTION},
    [OP_GDN_RULE_D] = {WAY_RULE, COST_ATTENTION},
    [OP_GATED_NORM] = {WAY_MEMORY, COST_MEMORY},
    [OP_GATED_NORM_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_GATED_NORM_W] = {WAY_MEMORY, COST_MEMORY},
    [OP_HEAD_LOSS] = {WAY_HEAD, COST_HEAD},
    [OP_HEAD_PART] = {WAY_HEAD, COST_HEAD},
    [OP_HEAD_PART_D] = {WAY_HEAD, COST_HEAD},
    [OP_HEAD_LOGITS] = {WAY_HEAD, COST_HEAD},
    [OP_ADD_NORM] = {WAY_MEMORY, COST_MEMORY},
    [OP_NORM_BACK] = {WAY_MEMORY, COST_MEMORY},
    [OP_QKV_HEADS] = {WAY_MEMORY, COST_MEMORY},
    [OP_QKV_HEADS_D] = {WAY_MEMORY, COST_MEMORY},
    [OP_ACT_QUANT] = {WAY_MEMORY, COST_QUANTISE},
    [OP_ACT_D_QUANT] = {WAY_MEMORY, COST_QUANTISE},
    [OP_PERMUTE_QUANT] = {WAY_MEMORY, COST_QUANTISE},
    [OP_UNPERMUTE_D_QUANT] = {WAY_MEMORY, COST_QUANTISE},
    [OP_NORM_QUANT] = {WAY_MEMORY, COST_QUANTISE},
    [OP_SQUARES] = {WAY_UPDATE, COST_MEMORY},
    [OP_TALLY] = {WAY_MEMORY, COST_MEMORY},
    [OP_SUM] = {WAY_MEMORY, COST_MEMORY},
    [OP_VERDICT] = {WAY_MEMORY, COST_MEMORY},
    [OP_ADAMW] = {WAY_UPDATE, COST_MEMORY},
    [OP_HOST_ADAMW] = {WAY_HOST_UPDATE, COST_COPY},
    [OP_BIAS_UPDATE] = {WAY_MEMORY, COST_MEMORY},
};

static const cost_kind kind_of_group[GROUP_COUNT] = {
    [GROUP_NONE] = COST_OTHER,     [GROUP_WORLD] = COST_OTHER, [GROUP_TP] = COST_TP,
    [GROUP_CP] = COST_CP,          [GROUP_CP_INNER] = COST_CP, [GROUP_CP_OUTER] = COST_CP,
    [GROUP_PP] = COST_PP,          [GROUP_DP_CP] = COST_DP,    [GROUP_TP_CP] = COST_OTHER,
    [GROUP_TP_DP_CP] = COST_OTHER, [GROUP_ETP] = COST_EP,      [GROUP_EP] = COST_EP,
    [GROUP_EDP] = COST_DP,         [GROUP_TP_EP] = COST_EP,    [GROUP_EMBEDDING] = COST_PP,
};

cost_kind cost_kind_of(comm_group g)
{
    return kind_of_group[g];
}

cost_kind cost_kind_of_op(const op *o)
{
    return rows[o->kind].way == WAY_MESSAGE ? kind_of_group[o->group] : rows[o->kind].kind;
}

/* ---- launches */

static bool is_activation(op_kind k)
{
    return k == OP_ACT || k == OP_ACT_D || k == OP_ACT_AS || k == OP_ACT_AS_D;
}

/* Kernels on the device. */
static double launches_of(const cost_model *c, const op *o, const cost_row *row, bool narrow)
{
    const double *n = c->hw->launches;
    switch (row->way) {
    case WAY_PRODUCT:
        return n[LAUNCH_PRODUCT] + (narrow ? n[LAUNCH_QUANTISE] : 0);
    case WAY_GROUPED:
        return n[LAUNCH_GROUPED] + (narrow ? n[LAUNCH_QUANTISE] : 0);
    case WAY_ATTENTION:
        return n[LAUNCH_ATTENTION];
    case WAY_RULE:
        return n[n[LAUNCH_RULE] > 0 ? LAUNCH_RULE : LAUNCH_ATTENTION];
    case WAY_HEAD:
        return n[LAUNCH_HEAD];
    case WAY_MESSAGE:
        return cost_rides_along(c, o) ? 0 : n[LAUNCH_MESSAGE];
    case WAY_HOST_COPY:
        return n[LAUNCH_MESSAGE];
    case WAY_NONE:
        return 0;
    default:
        if (row->kind == COST_QUANTISE) return n[LAUNCH_QUANTISE];
        if (row->kind != COST_ROUTING) return n[LAUNCH_ELEMENTWISE];
        return capture_is_router(o->kind) ? c->router_launches : c->routing_launches;
    }
}

/* Autograd's engine calls it from C++; everything else, recompute too, comes from Python. */
static bool is_backward(const op *o)
{
    return o->phase == PHASE_BACKWARD || o->phase == PHASE_WGRAD;
}

static bool is_gemm(const cost_row *row)
{
    return row->way == WAY_PRODUCT || row->way == WAY_GROUPED;
}

/* EP overlap schedules each layer as five parts (attention, router, dispatch, experts, combine):
 * each is a call from Python, backward too, with a stream and events. Counted where rows travel
 * there and back, in two hops or one. */
static double nodes_of(const cost_model *c, const op *o)
{
    bool rows_travel = o->kind == OP_EXCHANGE && o->dim[DIM_EXCHANGE_W] * 4 > c->s->m.hidden;
    if (!c->by_nodes || !rows_travel) return 0;
    return c->dispatch == DISPATCH_ALLTOALL ? 2.5 : 1.25;
}

/* The kind of call whose host time counts: `k`, or `other` where the file does not have it. */
static call_kind called(const double (*n)[2], call_kind k, call_kind other)
{
    return n[k][0] > 0 || n[k][1] > 0 ? k : other;
}

/* The host's time for it, in units of hardware.launch; DEMAND is our own program's. A weight
 * gradient that is delayed is called from Python. In BF16 that is the GEMM that autograd would have
 * called (16 H100, Qwen3-30B: 1.322 with it, 1.317 without); with narrow operands it is all of a
 * GEMM, which makes them by columns first: six published runs with FP8, EP overlap and no graphs
 * came out 8 to 40 % too fast without this, those in BF16 did not. */
static double calls_of(const cost_model *c, const op *o, const cost_row *row, bool narrow)
{
    bool late = c->delays && narrow && o->phase == PHASE_WGRAD;
    int way = is_backward(o) && !late;
    const double(*n)[2] = c->hw->calls;
    double times = narrow ? c->hw->narrow_calls : 1;
    switch (row->way) {
    case WAY_PRODUCT:
        return n[CALL_PRODUCT][way] * times;
    case WAY_GROUPED:
        return times * (n[CALL_GROUPED][way] +
                        n[CALL_EXPERT][way] * c->expert_calls * (double)o->dim[DIM_GROUPED_E]);
    case WAY_ATTENTION:
        return n[CALL_ATTENTION][way];
    case WAY_RULE:
        return n[called(n, CALL_RULE, CALL_ATTENTION)][way];
    case WAY_HEAD:
        return n[CALL_HEAD][way];
    case WAY_MESSAGE:
        if (cost_rides_along(c, o)) return 0;
        return n[CALL_MESSAGE][way] + nodes_of(c, o) * n[CALL_NODE][way];
    case WAY_HOST_COPY:
        return n[CALL_MESSAGE][way];
    case WAY_NONE:
        return 0;
    case WAY_MOVE:
        if (o->module != MODULE_LINEAR) return n[CALL_ELEMENTWISE][way];
        return n[called(n, CALL_HEADS, CALL_ELEMENTWISE)][way];
    default:
        if (row->kind != COST_ROUTING) return n[CALL_ELEMENTWISE][way];
        if (o->kind == OP_DEMAND) return 0;
        return capture_is_router(o->kind) ? n[CALL_ROUTER][way] * c->router_calls
                                          : n[CALL_ROUTING][way] * c->routing_calls;
    }
}

/* The same, but of GEMM in blocks beside TP communication Megatron calls one whole, and Transformer
 * Engine puts blocks and messages from C++, as it does the GEMMs of experts. Its sum over blocks
 * is one kernel. */
static double calls_by_blocks(const cost_model *c, const op *o, const cost_row *row, bool narrow)
{
    double whole = calls_of(c, o, row, narrow);
    if (o->blocks < 2) return whole;
    double each = c->hw->calls[CALL_EXPERT][is_backward(o)];
    if (o->kind == OP_ADD) return each / o->blocks;
    return each + (is_gemm(row) ? whole / o->blocks : 0);
}

/* ---- seconds */

static double buffers(const segment *seg, const int *ids, int n)
{
    double bytes = 0;
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0) bytes += (double)seg->bufs[ids[i]].bytes;
    return bytes;
}

static double bytes_of(const segment *seg, const op *o, cost_way way)
{
    if (way == WAY_ROWS) return 2 * buffers(seg, o->out, OP_OUT_MAX);
    if (way == WAY_ADDED) return 3 * buffers(seg, o->in, 1);
    if (way != WAY_MOVE) return (double)seg_op_bytes(seg, o);
    double moved = 1;
    for (int i = DIM_MOVE_N0; i <= DIM_MOVE_N3; i++) moved *= (double)o->dim[i];
    int y = o->out[OUT_MOVE_y];
    int bits = dtype_bits(y >= 0 ? seg->bufs[y].type : DTYPE_F32);
    return moved * bits / 8 * (o->flags & ACCUMULATE ? 3 : 2);
}

static int owner_of(const segment *seg, const op *o)
{
    int id = op_first_buf(o);
    return id >= 0 ? seg->bufs[id].owner : 0;
}

double cost_bytes(const segment *seg, const op *o)
{
    return bytes_of(seg, o, rows[o->kind].way);
}

expert_loads cost_loads(const cost_model *c, const segment *seg, const op *o)
{
    expert_loads even = {.skew = c->skew};
    if (!c->by_layer) return even;
    int64_t layer = c->first[owner_of(seg, o) ? 1 : 0] + o->layer_step;
    return layer >= 0 && layer < c->n_by_layer ? c->by_layer[layer] : even;
}

/* Rows of all ranks that are made FP32 before they are summed, and their gradients narrow again. */
static double widened(const segment *seg, const op *o)
{
    if (o->kind == OP_UNPERMUTE) return 3 * buffers(seg, o->out, 1);
    return o->kind == OP_UNPERMUTE_D ? 3 * buffers(seg, o->in, 1) : 0;
}

/* All-to-all sorts what arrives by experts even where one rank has them all: rows are read and
 * written once more on each way. With more ranks the program has an operation for it. */
static double sorted_again(const cost_model *c, const segment *seg, const op *o)
{
    if (!c->sorts_again) return 0;
    if (o->kind == OP_PERMUTE || o->kind == OP_UNPERMUTE_D) return 2 * buffers(seg, o->out, 1);
    return o->kind == OP_PERMUTE_D || o->kind == OP_UNPERMUTE ? 2 * buffers(seg, o->in, 1) : 0;
}

/* A factor of the whole tensor needs its maximum first: what is quantised is read twice. */
static double read_again(const segment *seg, const op *o)
{
    bool factor = o->kind == OP_QUANTISE && o->out[OUT_QUANTISE_g] >= 0;
    return factor ? buffers(seg, o->in, 1) : 0;
}

/* Does an exchange of the segment write (or read) this buffer? */
static bool exchanged(const segment *seg, int id, bool written)
{
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < seg->n_ops[phase]; i++) {
            const op *o = &seg->ops[phase][i];
            if (o->kind == OP_EXCHANGE &&
                (written ? o->out[OUT_EXCHANGE_y] : o->in[IN_EXCHANGE_x]) == id)
                return true;
        }
    return false;
}

/* Does it put rows in the order of experts, or take them out of it? What arrived is put there, and
 * what is sent back was taken from there. */
static bool at_experts(const segment *seg, const op *o)
{
    if (o->kind == OP_UNPERMUTE) return !exchanged(seg, o->in[IN_UNPERMUTE_yp], true);
    if (o->kind == OP_UNPERMUTE_D) return exchanged(seg, o->in[IN_UNPERMUTE_D_dy], true);
    return true;
}

/* Times the bytes of an operation of the routing. deepep's and hybridep's kernels send a token from
 * where it lies and add up what comes back, so that nothing is packed on the token's side; what
 * arrived is written in the order of experts by a permutation of its own, and summed by another. */
static double routing_passes(const cost_model *c, const segment *seg, const op *o)
{
    if (capture_is_router(o->kind)) return c->router_passes;
    bool rows_move = o->kind == OP_UNPERMUTE || o->kind == OP_UNPERMUTE_D ||
                     o->kind == OP_PERMUTE || o->kind == OP_PERMUTE_D || o->kind == OP_FLEX_PLACE;
    if (!c->packs_itself || !rows_move) return c->routing;
    return at_experts(seg, o) ? c->permute_passes : 0;
}

/* Bytes of the paged stash: buffers in a graph of the whole iteration have room for the fullest
 * rank, so what experts keep is copied to pages in forward and back in backward: the first
 * GEMM's result in BF16, and the inputs of both in blocks of 32 with a scale. Copies have a
 * stream of their own (Megatron's paged_stash.py), but kernels that fill the chip: taken to cost
 * compute what dispatch inside a domain costs it, which goes at the memory's pace, too. */
static double stashed(const cost_model *c, const op *o)
{
    const double block = 1 + 1.0 / 32, plain = 2;
    double n = (double)o->dim[DIM_ACT_M], ffn = (double)o->dim[DIM_ACT_F];
    bool gated = (o->kind != OP_ACT_AS && o->kind != OP_ACT_AS_D) || o->dim[DIM_ACT_AS_GATED];
    double inputs = (double)c->s->m.hidden + ffn * c->stashes_act;
    if (o->phase == PHASE_RECOMPUTE) return 0;
    return 2 * n * ((gated ? 2 : 1) * ffn * plain + inputs * block) * c->hw->near_share;
}

static double moved(const cost_model *c, const segment *seg, const op *o, const cost_row *row)
{
    bool experts = is_activation(o->kind) && role_is_routed(o->role);
    /* of what routed buffers have room for */
    double full = c->fill * fmax(cost_loads(c, seg, o).skew, c->fullest) * c->padding;
    double pages = experts && c->stashes ? stashed(c, o) * full : 0;
    bool again = o->phase == PHASE_RECOMPUTE; /* by itself: its GEMM does not run again */
    if (c->fused_experts && experts && !again) return pages;
    bool bias = o->kind == OP_BIAS || o->kind == OP_GROUPED_BIAS;
    if (bias && c->hw->framework > 0) return 0; /* the GEMM before or the activation adds it */
    if (o->kind == OP_ADD && o->blocks > 1 && c->hw->framework > 0) /* one sum of all blocks */
        return buffers(seg, o->out, 1) * (1 + 2.0 / o->blocks);
    double bytes = bytes_of(seg, o, row->way);
    if (c->wide_combine) bytes += widened(seg, o);
    bytes += sorted_again(c, seg, o);
    if (row->kind == COST_QUANTISE) /* a pass of our own kernels moves what it names */
        return (bytes + read_again(seg, o)) * (role_is_routed(o->role) ? full : 1);
    if (row->kind == COST_MEMORY)
        return pages + bytes * c->hw->fusion * (role_is_routed(o->role) ? full : 1);
    return bytes * routing_passes(c, seg, o) * (capture_is_router(o->kind) ? 1 : full);
}

/* Over the host's link, each way by itself; of routed rows those that are there. */
static double host_copy(const cost_model *c, const segment *seg, const op *o)
{
    const buf *b = &seg->bufs[op_first_buf(o)];
    double bytes = (double)b->bytes * (role_is_routed(b->role) ? c->fill : 1);
    return c->copies_async ? bytes / c->hw->host_bandwidth : cost_memory(c, 2 * bytes);
}

/* Elements of an operation of the update: where state is moved, one piece has some of them. */
static double updated_of(const cost_model *c, const op *o)
{
    bool piece = o->kind == OP_ADAMW && state_is_moved(&c->s->r);
    return (double)o->dim[piece ? DIM_ADAMW_COUNT : DIM_ADAMW_N];
}

static double seconds_of(const cost_model *c, const segment *seg, const op *o, double *quantise)
{
    const cost_row *row = &rows[o->kind];
    switch (row->way) {
    case WAY_NONE:
        return 0;
    case WAY_PRODUCT:
        return cost_gemm(c, seg, o, quantise);
    case WAY_GROUPED:
        return cost_grouped(c, seg, o, quantise);
    case WAY_ATTENTION:
        return cost_attention(c, seg, o);
    case WAY_RULE:
        return cost_rule(c, seg, o);
    case WAY_HEAD:
        return cost_head(c, seg, o);
    case WAY_MESSAGE:
        return cost_message(c, seg, o);
    case WAY_HOST_COPY:
        return host_copy(c, seg, o);
    case WAY_UPDATE:
        return cost_memory_of(c, o->kind, cost_update_bytes(c, o->kind, updated_of(c, o)));
    case WAY_HOST_UPDATE:
        return cost_host_update(c, (double)o->dim[DIM_HOST_ADAMW_COUNT]);
    default:
        return cost_memory_of(c, o->kind, moved(c, seg, o, row));
    }
}

/* Counts that the host must know before it can launch the rest. */
static bool reads_back(const cost_model *c, const op *o)
{
    return o->role == ROLE_COUNTS && c->dispatch == DISPATCH_ALLTOALL;
}

/* Where Megatron runs, every dispatcher does, but where a graph holds the experts; allgather counts
 * what it has sorted. */
static bool is_counted(const cost_model *c, const op *o)
{
    if (!(c->hw->framework > 0) || (c->captured & CAPTURED_EXPERTS)) return false;
    return c->gathers ? o->kind == OP_SORT : o->role == ROLE_COUNTS;
}

bool cost_passes_on(const cost_model *c, const segment *seg, const op *o)
{
    if (o->kind != OP_UNPERMUTE && o->kind != OP_UNPERMUTE_D && o->kind != OP_FLEX_FAN)
        return false;
    if (!(c->hw->framework > 0) || !exchanged(seg, op_first_buf(o), true)) return false;
    return o->kind == OP_FLEX_FAN || exchanged(seg, o->out[OUT_UNPERMUTE_y], false);
}

/* Factors of container generations are for what the framework brought: dense GEMM are cuBLAS's in
 * all of them, and as fast. */
op_cost cost_of(const cost_model *c, const segment *seg, const op *o)
{
    const cost_row *row = &rows[o->kind];
    op_cost out = {.kind = row->kind};
    if (row->way == WAY_NONE || cost_passes_on(c, seg, o)) return out;
    out.seconds = seconds_of(c, seg, o, &out.quantise);
    bool message = row->way == WAY_MESSAGE, async = message || row->way == WAY_HOST_COPY;
    double one = cost_chunk(c, o);
    double launches = launches_of(c, o, row, out.quantise > 0) * one;
    if (message) out.kind = kind_of_group[o->group];
    if (message) out.seconds *= one;
    if (!async) {
        double gemm = row->way == WAY_PRODUCT ? out.seconds - out.quantise : 0;
        out.seconds = gemm + (out.seconds - gemm + c->hw->least * launches) * c->device;
    }
    out.quantise *= c->device;
    out.part = capture_part(o);
    if (row->way == WAY_GROUPED)
        launches += c->expert_launches[cost_is_narrow(c, o)] * (double)o->dim[DIM_GROUPED_E];
    bool counted = c->hw->framework > 0 && c->hw->calls[CALL_PRODUCT][0] > 0;
    double calls =
        counted ? calls_by_blocks(c, o, row, is_gemm(row) && cost_is_narrow(c, o)) * one : launches;
    out.eager = calls * c->hw->launch * c->host;
    if (reads_back(c, o)) out.eager += c->hw->sync * c->host;
    out.replayed = launches * c->hw->graph_launch * c->host;
    out.host = c->captured & out.part ? out.replayed : out.eager;
    out.counts = is_counted(c, o);
    out.owner = owner_of(seg, o);
    return out;
}
