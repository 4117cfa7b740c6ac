/* cost.c - the price of every operation: its class (ops.def) says how it counts. */
#include "predict/cost.h"

#include <math.h>

#include "predict/cost_parts.h"
#include "predict/dispatch.h"

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

/* What seconds of a class count as; of messages the group says. */
static const cost_kind kind_of_class[COST_CLASSES] = {
    [COST_CLASS_NONE] = COST_OTHER,           [COST_CLASS_GEMM] = COST_GEMM,
    [COST_CLASS_GROUPED] = COST_GROUPED,      [COST_CLASS_ATTENTION] = COST_ATTENTION,
    [COST_CLASS_DELTA_RULE] = COST_ATTENTION, [COST_CLASS_HEAD] = COST_HEAD,
    [COST_CLASS_MEMORY] = COST_MEMORY,        [COST_CLASS_GATHER] = COST_MEMORY,
    [COST_CLASS_SCATTER] = COST_MEMORY,       [COST_CLASS_STRIDED] = COST_MEMORY,
    [COST_CLASS_QUANTISE] = COST_QUANTISE,    [COST_CLASS_ROUTER] = COST_ROUTING,
    [COST_CLASS_ROUTING] = COST_ROUTING,      [COST_CLASS_COLLECTIVE] = COST_OTHER,
    [COST_CLASS_HOST_COPY] = COST_COPY,       [COST_CLASS_UPDATE] = COST_MEMORY,
    [COST_CLASS_HOST_UPDATE] = COST_COPY,
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
    return op_is_comm(o->kind) ? kind_of_group[o->group] : kind_of_class[op_infos[o->kind].cost];
}

/* ---- launches */

/* Kernels on the device. */
static double launches_of(const cost_model *c, const op *o, op_cost_class class, bool narrow)
{
    const double *n = c->hw->launches;
    switch (class) {
    case COST_CLASS_GEMM:
        return n[LAUNCH_PRODUCT] + (narrow ? n[LAUNCH_QUANTISE] : 0);
    case COST_CLASS_GROUPED:
        return n[LAUNCH_GROUPED] + (narrow ? n[LAUNCH_QUANTISE] : 0);
    case COST_CLASS_ATTENTION:
        return n[LAUNCH_ATTENTION];
    case COST_CLASS_DELTA_RULE:
        return n[n[LAUNCH_RULE] > 0 ? LAUNCH_RULE : LAUNCH_ATTENTION];
    case COST_CLASS_HEAD:
        return n[LAUNCH_HEAD];
    case COST_CLASS_COLLECTIVE:
        return dispatch_rides_along(c, o) ? 0 : n[LAUNCH_MESSAGE];
    case COST_CLASS_HOST_COPY:
        return n[LAUNCH_MESSAGE];
    case COST_CLASS_NONE:
        return 0;
    case COST_CLASS_QUANTISE:
        return n[LAUNCH_QUANTISE];
    case COST_CLASS_ROUTER:
        return c->router_launches;
    case COST_CLASS_ROUTING:
        return c->routing_launches;
    default:
        return n[LAUNCH_ELEMENTWISE];
    }
}

/* Autograd's engine calls it from C++; everything else, recompute too, comes from Python. */
static bool is_backward(const op *o)
{
    return o->phase == PHASE_BACKWARD || o->phase == PHASE_WGRAD;
}

static bool is_gemm(op_cost_class class)
{
    return class == COST_CLASS_GEMM || class == COST_CLASS_GROUPED;
}

/* EP overlap schedules each layer as five parts (attention, router, dispatch, experts, combine):
 * each is a call from Python, backward too, with a stream and events. Counted where rows travel
 * there and back, in two hops or one. */
static double nodes_of(const cost_model *c, const op *o)
{
    bool rows_travel = op_is(o->kind, BY_TABLE) && o->dim[DIM_EXCHANGE_W] * 4 > c->s->m.hidden;
    if (!c->by_nodes || !rows_travel) return 0;
    return c->to->flex ? 1.25 : 2.5;
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
static double calls_of(const cost_model *c, const op *o, op_cost_class class, bool narrow)
{
    bool late = c->delays && narrow && o->phase == PHASE_WGRAD;
    int way = is_backward(o) && !late;
    const double(*n)[2] = c->hw->calls;
    double times = narrow ? c->hw->narrow_calls : 1;
    switch (class) {
    case COST_CLASS_GEMM:
        return n[CALL_PRODUCT][way] * times;
    case COST_CLASS_GROUPED:
        return times * (n[CALL_GROUPED][way] +
                        n[CALL_EXPERT][way] * c->expert_calls * (double)o->dim[DIM_GROUPED_E]);
    case COST_CLASS_ATTENTION:
        return n[CALL_ATTENTION][way];
    case COST_CLASS_DELTA_RULE:
        return n[called(n, CALL_RULE, CALL_ATTENTION)][way];
    case COST_CLASS_HEAD:
        return n[CALL_HEAD][way];
    case COST_CLASS_COLLECTIVE:
        if (dispatch_rides_along(c, o)) return 0;
        return n[CALL_MESSAGE][way] + nodes_of(c, o) * n[CALL_NODE][way];
    case COST_CLASS_HOST_COPY:
        return n[CALL_MESSAGE][way];
    case COST_CLASS_NONE:
        return 0;
    case COST_CLASS_STRIDED:
        if (o->module != MODULE_LINEAR) return n[CALL_ELEMENTWISE][way];
        return n[called(n, CALL_HEADS, CALL_ELEMENTWISE)][way];
    case COST_CLASS_ROUTER:
        return n[CALL_ROUTER][way] * c->router_calls;
    case COST_CLASS_ROUTING:
        return op_is(o->kind, UNCALLED) ? 0 : n[CALL_ROUTING][way] * c->routing_calls;
    default:
        return n[CALL_ELEMENTWISE][way];
    }
}

/* The same, but of GEMM in blocks beside TP communication Megatron calls one whole, and Transformer
 * Engine puts blocks and messages from C++, as it does the GEMMs of experts. Its sum over blocks
 * is one kernel. */
static double calls_by_blocks(const cost_model *c, const op *o, op_cost_class class, bool narrow)
{
    double whole = calls_of(c, o, class, narrow);
    if (o->blocks < 2) return whole;
    double each = c->hw->calls[CALL_EXPERT][is_backward(o)];
    if (o->kind == OP_ADD) return each / o->blocks;
    return each + (is_gemm(class) ? whole / o->blocks : 0);
}

/* ---- seconds */

static double buffers(const segment *seg, const int *ids, int n)
{
    double bytes = 0;
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0) bytes += (double)seg->bufs[ids[i]].bytes;
    return bytes;
}

double cost_bytes(const segment *seg, const op *o)
{
    const op_cost_class class = op_infos[o->kind].cost;
    if (class == COST_CLASS_GATHER) return 2 * buffers(seg, o->out, OP_OUT_MAX);
    if (class == COST_CLASS_SCATTER) return 3 * buffers(seg, o->in, 1);
    if (class != COST_CLASS_STRIDED) return (double)seg_op_bytes(seg, o);
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
            if (op_is(o->kind, BY_TABLE) &&
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
    if (!c->packs_itself || !op_is(o->kind, MOVES_ROWS)) return c->routing;
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

/* Biases of the experts' second product, which Megatron adds from Python
 * (TEGroupedMLP._apply_bias): expert by expert times the probability in FP32, the sum, all of them
 * put together and narrowed, and autograd's ten kernels backward. They do not keep up with the
 * memory: one H200 takes 12 and 19 ps an element. With what biases cost the products beside (2 to
 * 13 % with cuBLAS's epilogues) it is fitted, in that proportion: eleven rows of gpt-oss-120b on
 * five chips. A third of it is left where the op fuser's kernels add them as they write: their
 * gradients and the probabilities' (docs/ACCURACY.md). Negative: it is no such operation. */
static double seconds_of_biases(const cost_model *c, const op *o)
{
    const double eager[] = {23e-12, 37e-12}, fused = 20e-12;
    if (!(c->hw->framework > 0)) return -1;
    switch (o->kind) {
    case OP_GROUPED_BIAS: {
        double n = (double)o->dim[DIM_GROUPED_BIAS_ROOM] * (double)o->dim[DIM_GROUPED_BIAS_N];
        if (o->in[IN_GROUPED_BIAS_p] < 0) return -1;
        return c->fused_experts ? 0 : eager[0] * n;
    }
    case OP_GROUPED_BIAS_W: {
        double n = (double)o->dim[DIM_GROUPED_BIAS_W_ROOM] * (double)o->dim[DIM_GROUPED_BIAS_W_N];
        if (o->in[IN_GROUPED_BIAS_W_p] < 0) return -1;
        return (c->fused_experts ? fused : eager[1]) * n;
    }
    case OP_GROUPED_BIAS_P: /* in the former */
        return 0;
    default:
        return -1;
    }
}

/* Of what routed buffers have room for. */
static double filled(const cost_model *c, const segment *seg, const op *o)
{
    return c->fill * fmax(cost_loads(c, seg, o).skew, c->fullest) * c->padding;
}

static double moved(const cost_model *c, const segment *seg, const op *o, op_cost_class class)
{
    bool experts = op_is(o->kind, ACTIVATION) && role_is_routed(o->role);
    double full = filled(c, seg, o);
    double pages = experts && c->stashes ? stashed(c, o) * full : 0;
    bool again = o->phase == PHASE_RECOMPUTE; /* by itself: its GEMM does not run again */
    if (c->fused_experts && experts && !again) return pages;
    if (op_is(o->kind, ADDS_BIAS) && c->hw->framework > 0) return 0;
    if (o->kind == OP_ADD && o->blocks > 1 && c->hw->framework > 0) /* one sum of all blocks */
        return buffers(seg, o->out, 1) * (1 + 2.0 / o->blocks);
    double bytes = cost_bytes(seg, o);
    if (c->wide_combine) bytes += widened(seg, o);
    bytes += sorted_again(c, seg, o);
    if (class == COST_CLASS_QUANTISE) /* a pass of our own kernels moves what it names */
        return (bytes + read_again(seg, o)) * (role_is_routed(o->role) ? full : 1);
    if (class != COST_CLASS_ROUTER && class != COST_CLASS_ROUTING)
        return pages + bytes * c->hw->fusion * (role_is_routed(o->role) ? full : 1);
    return bytes * routing_passes(c, seg, o) * (class == COST_CLASS_ROUTER ? 1 : full);
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
    bool piece = o->kind == OP_ADAMW && state_is_moved(&c->s->j);
    return (double)o->dim[piece ? DIM_ADAMW_COUNT : DIM_ADAMW_N];
}

static double seconds_of(const cost_model *c, const segment *seg, const op *o, double *quantise)
{
    const op_cost_class class = op_infos[o->kind].cost;
    switch (class) {
    case COST_CLASS_NONE:
        return 0;
    case COST_CLASS_GEMM:
        return cost_gemm(c, seg, o, quantise);
    case COST_CLASS_GROUPED:
        return cost_grouped(c, seg, o, quantise);
    case COST_CLASS_ATTENTION:
        return cost_attention(c, seg, o);
    case COST_CLASS_DELTA_RULE:
        return cost_rule(c, seg, o);
    case COST_CLASS_HEAD:
        return cost_head(c, seg, o);
    case COST_CLASS_COLLECTIVE:
        return cost_message(c, seg, o);
    case COST_CLASS_HOST_COPY:
        return host_copy(c, seg, o);
    case COST_CLASS_UPDATE:
        return cost_memory_of(c, o->kind, cost_update_bytes(c, o->kind, updated_of(c, o)));
    case COST_CLASS_HOST_UPDATE:
        return cost_host_update(c, (double)o->dim[DIM_HOST_ADAMW_COUNT]);
    default: {
        double biases = seconds_of_biases(c, o);
        if (biases >= 0) return biases * filled(c, seg, o);
        return cost_memory_of(c, o->kind, moved(c, seg, o, class));
    }
    }
}

/* Counts that the host must know before it can launch the rest. */
static bool reads_back(const cost_model *c, const op *o)
{
    return o->role == ROLE_COUNTS && !c->to->flex;
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
    const op_cost_class class = op_infos[o->kind].cost;
    op_cost out = {.kind = kind_of_class[class]};
    if (class == COST_CLASS_NONE || cost_passes_on(c, seg, o)) return out;
    out.seconds = seconds_of(c, seg, o, &out.quantise);
    bool message = class == COST_CLASS_COLLECTIVE, async = message || class == COST_CLASS_HOST_COPY;
    double one = cost_chunk(c, o);
    double launches = launches_of(c, o, class, out.quantise > 0) * one;
    if (message) out.kind = kind_of_group[o->group];
    if (message) out.seconds *= one;
    if (!async) {
        double gemm = class == COST_CLASS_GEMM ? out.seconds - out.quantise : 0;
        out.seconds = gemm + (out.seconds - gemm + c->hw->least * launches) * c->device;
    }
    out.quantise *= c->device;
    out.part = capture_part(o);
    if (class == COST_CLASS_GROUPED)
        launches += c->expert_launches[cost_is_narrow(c, o)] * (double)o->dim[DIM_GROUPED_E];
    bool counted = c->hw->framework > 0 && c->hw->calls[CALL_PRODUCT][0] > 0;
    double calls = counted
                       ? calls_by_blocks(c, o, class, is_gemm(class) && cost_is_narrow(c, o)) * one
                       : launches;
    /* what older containers call more often is experts' and their routing's (docs/ACCURACY.md) */
    bool routed = role_is_routed(o->role) || class == COST_CLASS_GROUPED ||
                  class == COST_CLASS_ROUTER || class == COST_CLASS_ROUTING;
    out.eager = calls * c->hw->launch * (routed ? c->host : 1);
    if (reads_back(c, o)) out.eager += c->hw->sync * c->host;
    out.replayed = launches * c->hw->graph_launch * c->host;
    out.host = c->captured & out.part ? out.replayed : out.eager;
    out.counts = is_counted(c, o);
    out.owner = owner_of(seg, o);
    return out;
}
