/* cost_init.c - what all operations of a setup have in common: numbers, factors, graphs; and what
 * happens once a step. */
#include <math.h>
#include <string.h>

#include "predict/cost_parts.h"
#include "predict/draw.h"
#include "op/fused.h"
#include "ir/quant_plan.h"
#include "op/update.h"
#include "config/loads.h"
#include "config/target.h"

/* ---- numbers of GEMMs */

static scaling_kind scaling_of(const job *j)
{
    static const scaling_kind kinds[] = {[J_FP8_RECIPE_NULL] = SCALING_TENSORWISE,
                                         [J_FP8_RECIPE_DELAYED] = SCALING_DELAYED,
                                         [J_FP8_RECIPE_TENSORWISE] = SCALING_TENSORWISE,
                                         [J_FP8_RECIPE_BLOCKWISE] = SCALING_BLOCKWISE,
                                         [J_FP8_RECIPE_MXFP8] = SCALING_MXFP8,
                                         [J_FP8_RECIPE_OTHER] = SCALING_TENSORWISE};
    return job_has(j, K_FP4) ? SCALING_NVFP4 : kinds[j->fp8_recipe];
}

/* A machine without such numbers computes in wider ones. */
static void init_numbers(cost_model *c)
{
    const job *j = &c->s->j;
    const double *peak = c->hw->peak;
    c->plain = j->bf16 || j->fp16 ? NUMBER_BF16 : NUMBER_FP32;
    c->gemms = c->plain;
    if (job_has(j, K_FP8) && peak[NUMBER_FP8] > 0) c->gemms = NUMBER_FP8;
    if (job_has(j, K_FP4) && peak[NUMBER_FP8] > 0)
        c->gemms = peak[NUMBER_FP4] > 0 ? NUMBER_FP4 : NUMBER_FP8;
    c->scaling = scaling_of(j);
    c->narrow_weight_gradients = j->fp8_wgrad;
    c->quantises = quant_plan_of(j).form != QUANT_NONE;
    c->by_reference = c->quantises && target_by_reference(j);
}

/* Weights travel as they are kept, but MXFP8 is made of BF16 where it arrives. */
static void init_gathers(cost_model *c)
{
    const job *j = &c->s->j;
    state_mode mode = state_mode_bare(&c->s->j);
    bool narrow = job_has(j, K_FP8) && j->fp8_params;
    c->gathered_bytes = narrow && c->scaling != SCALING_MXFP8 ? 1 : mode.plain;
}

/* ---- routing */

double cost_routed_tokens(const setup *s)
{
    double tokens = (double)s->j.seq * (double)s->j.mbs;
    return tokens / (double)(s->lay.cp * s->lay.tp);
}

/* Rows of an expert are a multiple of 32 for MXFP8 and NVFP4, of 16 for other FP8, and of 256 for
 * the op fuser's grouped GEMMs (Megatron's get_align_size_for_quantization): what arrives is
 * written so, and passed over so until it leaves. Links of dispatchers were measured with random
 * routing, so that the fullest rank counts for experts alone. */
static void init_draws(cost_model *c)
{
    enum { FUSED = 256, BLOCKS = 32, OTHERS = 16 };
    const setup *s = c->s;
    double ranks = (double)s->lay.ep, experts = (double)s->m.moe->experts,
           topk = (double)s->m.moe->topk;
    double rows = cost_routed_tokens(s) * topk * (double)s->lay.etp;
    c->fullest = c->aligned = c->padding = 1;
    if (!(c->hw->framework > 0) || !(experts > 0) || !(rows > 0)) return;
    c->fullest = draw_fullest(ranks, rows, topk, experts);
    if (c->gemms == c->plain) return;
    c->aligned = c->fused_experts ? FUSED : c->scaling >= SCALING_MXFP8 ? BLOCKS : OTHERS;
    double each = rows * ranks / experts;
    c->padding = draw_padded(each, c->aligned) / each;
}

void cost_fuse(cost_model *c)
{
    c->expert_launches[0] = c->expert_launches[1] = 0;
    c->expert_calls = 0;
    c->fused_experts = c->can_fuse && c->gemms != c->plain && c->scaling >= SCALING_MXFP8;
    if (c->fused_experts) c->one_by_one = false;
    init_draws(c);
}

void cost_stash(cost_model *c, unsigned drop)
{
    c->stashes = c->hw->framework > 0 && !(drop & (DROP_MOE | DROP_FULL));
    c->stashes_act = drop & DROP_MOE_ACT ? 0 : 1;
}

static void init_routing(cost_model *c)
{
    const job *j = &c->s->j;
    const double *n = c->hw->launches;
    bool fused = j->permute_fusion, router = j->router_fusion;
    c->to = dispatcher_of(j);
    c->gathers = c->hw->framework > 0 && c->to->gathers;
    c->wide_combine = c->gathers && j->router_dtype == J_ROUTER_DTYPE_FP32;
    c->sorts_again =
        c->hw->framework > 0 && c->to->sorts_all && c->s->lay.ep == 1 && c->s->m.moe->experts > 1;
    c->one_by_one = c->hw->framework > 0;
    c->delays = c->hw->framework > 0 && j->ep_overlap && j->delay_wgrad;
    c->by_nodes = c->hw->framework > 0 && j->ep_overlap;
    double copies = c->hw->dispatch_copies[c->to->rates];
    c->permute_passes = fused ? 1 : c->hw->unfused;
    c->routing = copies * c->permute_passes;
    c->packs_itself = c->to->flex && c->hw->framework > 0;
    c->routing_launches = copies * n[fused ? LAUNCH_ROUTING : LAUNCH_ROUTING_UNFUSED];
    c->router_passes = router ? 1 : c->hw->unfused;
    c->router_launches = n[router ? LAUNCH_ROUTER : LAUNCH_ROUTER_UNFUSED];
    c->expert_launches[0] = n[LAUNCH_EXPERT];
    c->expert_launches[1] = fmax(n[LAUNCH_EXPERT], n[LAUNCH_EXPERT_NARROW]);
    c->expert_calls = 1;
    c->routing_calls = copies * (fused ? 1 : c->hw->unfused_calls);
    c->router_calls = router ? 1 : c->hw->unfused_calls;
    init_draws(c);
    if (j->op_fuser) cost_fuse(c);
    if (j->paged_stash)
        cost_stash(c, j->recompute == J_RECOMPUTE_FULL ? DROP_FULL : drop_of(&c->s->j));
    double factor = j->buffer_factor;
    c->fill = factor > 1 && c->s->lay.ep > 1 ? 1 / factor : 1;
    cost_set_skew(c, loads_priced(&c->s->j));
}

void cost_set_skew(cost_model *c, double skew)
{
    double most = (double)c->s->lay.ep; /* one rank has them all, at most */
    c->skew = skew >= 1 && c->s->lay.ep > 1 ? fmin(skew, most) : 1;
}

/* ---- the framework */

static const struct stack *stack_of(const hardware *h, const char *name)
{
    for (int i = 0; name && i < h->n_stacks; i++)
        if (text_equal(h->stacks[i].name, name)) return &h->stacks[i];
    return &h->stacks[h->n_stacks - 1];
}

/* ---- kinds */

static int kind_named(const char *name)
{
    int k = 0;
    while (k < OP_COUNT && strcmp(op_infos[k].name, name) != 0) k++;
    return k;
}

/* A pass that ends with QUANTISE and was not measured goes no faster than its slowest part: it
 * reads as the first one does and writes as the cast. */
static void init_codes(cost_model *c, const bool named[OP_COUNT])
{
    int n;
    const fused_form *forms = fused_forms(&n);
    for (int i = 0; i < n; i++) {
        op_kind k = forms[i].kind;
        if (!op_makes_codes(k) || named[k]) continue;
        c->kind_part[k] = c->kind_part[forms[i].parts[0].kind];
        for (int p = 1; p < forms[i].n_parts; p++)
            c->kind_part[k] = fmin(c->kind_part[k], c->kind_part[forms[i].parts[p].kind]);
    }
}

static void init_kinds(cost_model *c)
{
    bool named[OP_COUNT] = {false};
    for (int k = 0; k < OP_COUNT; k++) c->kind_part[k] = 1;
    for (int i = 0; i < c->hw->n_kinds; i++) {
        int k = kind_named(c->hw->kinds[i].kind);
        if (k == OP_COUNT) continue;
        c->kind_part[k] = c->hw->kinds[i].part;
        named[k] = true;
    }
    init_codes(c, named);
}

const char *cost_unknown_kind(const hardware *hw)
{
    for (int i = 0; i < hw->n_kinds; i++)
        if (kind_named(hw->kinds[i].kind) == OP_COUNT) return hw->kinds[i].kind;
    return NULL;
}

void cost_init(cost_model *c, const hardware *hw, const setup *s, const char *stack)
{
    *c = (cost_model){.hw = hw, .s = s};
    const struct stack *k = stack_of(hw, stack ? stack : s->j.stack);
    c->device = k->device;
    c->host = k->host;
    c->unfused_sinks = k->unfused_sinks;
    c->can_fuse = k->fused_experts > 0 && (k->fused_biases > 0 || !s->m.linear_bias);
    c->captured = capture_of(&s->j);
    for (int phase = 0; phase < 2; phase++)
        c->replay[phase] = hw->calls[CALL_REPLAY][phase] * hw->launch * c->host;
    c->copies_async = !job_on_cpu(&s->j);
    init_numbers(c);
    init_gathers(c);
    init_routing(c);
    init_kinds(c);
    cost_init_links(c);
}

/* ---- once a step */

/* At the rate that it has beside the copies of other pieces: `bench` measures it like that. */
double cost_host_update(const cost_model *c, double elements)
{
    return elements / c->hw->host_adam;
}

/* What the host updates: gradients go there, weights come back, and it computes. */
static update_copies offloaded(const cost_model *c, double elements, const state_mode *mode)
{
    const hardware *h = c->hw;
    double bytes = elements * (4 + mode->plain), copies = bytes / h->host_bandwidth,
           adam = cost_host_update(c, elements);
    bool overlap = c->s->j.opt_offload_overlap;
    return (update_copies){bytes, copies + adam, overlap ? fmax(copies, adam) : copies + adam};
}

/* What is moved comes, is updated and goes back, three pieces at a time, and the link goes both
 * ways at once. A list of pieces begins when the one before it is through: its first piece comes,
 * or its last goes back, beside nothing. */
static update_copies moved(const cost_model *c, double elements, const state_mode *mode)
{
    double one = c->hw->host_bandwidth, both = c->hw->host_both;
    double way = elements * mode->moved / (both > 0 ? fmin(one, both / 2) : one);
    double adam = cost_memory_of(c, OP_ADAMW, cost_update_bytes(c, OP_ADAMW, elements)) * c->device;
    double pieces = ceil(elements / (double)moved_piece((int64_t)elements));
    double lists = ceil(pieces / UPDATE_PIECES);
    double seconds = fmax(way, adam) + (pieces > 0 ? lists / pieces * (way + adam) : 0);
    return (update_copies){2 * elements * mode->moved, 2 * way, seconds - adam};
}

update_copies cost_update_copies(const cost_model *c, const program *p)
{
    state_mode mode = state_mode_bare(&c->s->j);
    double owned = (double)p->weights.owned, part = state_on_host(&c->s->j);
    bool ours = state_host_is_ours(&c->s->j) && !job_on_cpu(&c->s->j);
    if (!mode.types.moments || !ours) return (update_copies){0, 0, 0};
    if (mode.moved > 0) return moved(c, owned, &mode);
    return part > 0 ? offloaded(c, owned * part, &mode) : (update_copies){0, 0, 0};
}

/* State that waits on the host is fetched before the update and sent back behind it. */
static double fetched(const cost_model *c, double elements, const state_mode *mode)
{
    if (!state_waits_on_host(&c->s->j)) return 0;
    return 2 * elements * mode->optimizer / c->hw->host_bandwidth;
}

double cost_update_bytes(const cost_model *c, op_kind k, double elements)
{
    state_mode mode = state_mode_bare(&c->s->j);
    double here = elements * (1 - state_on_host(&c->s->j));
    switch (k) {
    case OP_SQUARES:
        return here * mode.gradient;
    case OP_ADAMW: /* state there and back, the weight */
        return here * (mode.gradient + mode.plain) + 2 * elements * (mode.optimizer + mode.moved);
    case OP_ZERO:
        return elements * mode.gradient;
    case OP_CAST: /* weights by rows and by columns, of what is read once */
        return c->gemms != c->plain ? elements * (mode.plain + 2) : 0;
    default:
        return 0;
    }
}

/* Of a program that is not built: what it has for its elements. */
static double update_by_elements(const cost_model *c, const program *p)
{
    double owned = (double)p->weights.owned, trained = (double)p->weights.trained, seconds = 0;
    static const op_kind kinds[] = {OP_ZERO, OP_CAST, OP_SQUARES, OP_ADAMW};
    for (int i = 0; i < 4; i++) {
        if (kinds[i] == OP_ADAMW && !state_mode_bare(&c->s->j).types.moments) continue;
        double bytes = cost_update_bytes(c, kinds[i], i < 2 ? trained : owned);
        seconds += bytes > 0 ? cost_memory_of(c, kinds[i], bytes) : 0;
    }
    return seconds;
}

/* The compute stream's operations of the step's parts outside of the layers. */
static double update_of(const cost_model *c, const program *p)
{
    if (!p->items[PART_REPORT].n) return update_by_elements(c, p);
    static const item_part parts[] = {PART_BEGIN, PART_REPORT, PART_UPDATE};
    double seconds = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const item_list *l = &p->items[parts[i]];
        for (int64_t n = 0; n < l->n; n++) {
            const segment *seg = l->list[n].seg;
            for (int k = 0; k < seg->n_ops[SEG_FORWARD]; k++) {
                const op *o = &seg->ops[SEG_FORWARD][k];
                if (o->stream == STREAM_COMPUTE && !op_is_comm(o->kind))
                    seconds += cost_of(c, seg, o).seconds;
            }
        }
    }
    return seconds;
}

/* One pass: where kernels begin and end inside it does not show. */
double cost_of_optimizer(const cost_model *c, const program *p)
{
    state_mode mode = state_mode_bare(&c->s->j);
    double owned = (double)p->weights.owned, trained = (double)p->weights.trained;
    double part = mode.types.moments ? state_on_host(&c->s->j) : 0;
    double bytes = cost_update_bytes(c, OP_ZERO, trained) + cost_update_bytes(c, OP_CAST, trained);
    if (mode.types.moments)
        bytes += cost_update_bytes(c, OP_SQUARES, owned) + cost_update_bytes(c, OP_ADAMW, owned);
    double seconds = c->hw->n_kinds ? update_of(c, p) : cost_memory(c, bytes) * c->device;
    seconds += c->hw->step * c->host;
    seconds += mode.types.moments ? fetched(c, owned, &mode) : 0;
    return seconds + (part > 0 ? offloaded(c, owned * part, &mode).exposed : 0) +
           (mode.moved > 0 ? moved(c, owned, &mode).exposed : 0);
}
