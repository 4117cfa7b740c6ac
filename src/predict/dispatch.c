/* dispatch.c - what dispatchers cost: bytes of their libraries, seconds of their messages. What
 * differs between them is in the columns of job/dispatchers.def.
 *
 * Dispatch has rates of its own (hardware/NAME.yaml). Those of flex pass on inside a domain what
 * arrives in it while more is arriving: of the second hop only what takes longer than the first
 * counts. Where routing is limited to some groups of experts, fewer domains get a token than
 * predict/audit/expected.h says, which counts any expert as likely as others. */
#include "predict/dispatch.h"

#include <math.h>

#include "base/maths.h"
#include "config/versions.h"
#include "ir/shape.h"
#include "predict/audit/expected.h"
#include "predict/cost_parts.h"

/* ---- libraries */

/* EP ranks that share an NVLink domain, and domains that a group spans. */
typedef struct ep_reach {
    int64_t ranks, domains;
} ep_reach;

static ep_reach reach_of(const setup *s)
{
    int64_t ep = mul_sat(s->lay.ep, s->lay.etp), domain = s->lay.nvlink_domain;
    int64_t ranks = domain > 0 && ep > domain ? domain : ep;
    return (ep_reach){ranks, ranks > 0 ? ceil_div(ep, ranks) : 1};
}

/* What a dispatcher's library takes where ranks share a layer's experts: a column of
 * job/dispatchers.def. */
static int64_t no_library(const setup *s)
{
    (void)s;
    return 0;
}

/* For each token of a rank and each rank of its domain the row in 16 bits, a weight for each expert
 * of the domain in FP32, and scales; across domains as much again for each that sends. */
static int64_t hybridep_library(const setup *s)
{
    const step_shape z = step_shape_of(s);
    ep_reach e = reach_of(s);
    int64_t H = s->m.hidden, experts = s->m.moe->experts / s->lay.ep;
    int64_t row = 2 * H + 4 * experts * e.ranks + H / 32;
    int64_t inside = mul_sat(mul_sat(z.T, e.ranks), row);
    int64_t across = e.domains > 1 ? mul_sat(mul_sat(z.T, e.domains), row) : 0;
    return add_sat(inside, across);
}

/* Queues between ranks: 10 channels of 512 rows to each rank of a node; across nodes 128 rows a
 * node, both ways. */
static int64_t deepep_library(const setup *s)
{
    ep_reach e = reach_of(s);
    int64_t H = s->m.hidden;
    enum { CHANNELS = 10, ROWS_NEAR = 512, ROWS_FAR = 128 };
    int64_t row = 2 * H + H / 32 + 128, node = e.ranks > 8 ? 8 : e.ranks;
    int64_t nodes = ceil_div(mul_sat(s->lay.ep, s->lay.etp), node);
    int64_t near = mul_sat(CHANNELS * node * ROWS_NEAR, row);
    return add_sat(near, nodes > 1 ? mul_sat(2 * CHANNELS * nodes * ROWS_FAR, row) : 0);
}

int64_t dispatch_library(const setup *s)
{
    static int64_t (*const all[DISPATCHERS])(const setup *) = {
#define DISPATCHER(id, name, title, steps, rows, library, ...) [DISPATCHER_##id] = library,
#include "job/dispatchers.def"
    };
    bool shared = s->m.moe->experts && s->lay.ep > 1;
    return shared ? all[dispatcher_of(&s->j) - dispatchers](s) : 0;
}

/* ---- rows of balanced routing */

/* n of N things are marked and k drawn: how likely j of those are marked. */
static double drawn(double N, double n, double k, double j)
{
    double log_p = lgamma(n + 1) - lgamma(j + 1) - lgamma(n - j + 1) + lgamma(N - n + 1) -
                   lgamma(k - j + 1) - lgamma(N - n - k + j + 1) - lgamma(N + 1) + lgamma(k + 1) +
                   lgamma(N - k + 1);
    return exp(log_p);
}

/* The same chance where all K come from `topk_groups` of the groups. */
static double limited(const setup *s, double n)
{
    double groups = (double)s->j.groups;
    double chosen = (double)s->j.group_topk;
    double all = (double)s->m.moe->experts, size = all / groups, sum = 0;
    if (n <= size) return chosen / groups * expected_chance(chosen * size, n, s->m.moe->topk);
    double held = floor(n / size);
    for (double j = 1; j <= held && j <= chosen; j++)
        if (chosen - j <= groups - held)
            sum += drawn(groups, held, chosen, j) *
                   expected_chance(chosen * size, j * size, s->m.moe->topk);
    return sum;
}

static bool is_limited(const setup *s)
{
    int64_t groups = s->j.groups, chosen = s->j.group_topk;
    return groups > 1 && chosen > 0 && chosen < groups && s->m.moe->experts % groups == 0 &&
           s->m.moe->topk <= chosen * (s->m.moe->experts / groups);
}

/* What limited routing leaves of the rows of a hop. */
static double part_left(const cost_model *c, int hop)
{
    const layout *l = &c->s->lay;
    if (!hop || !is_limited(c->s)) return 1;
    double ranks = (double)(c->to->over_nvlink ? layout_domain(l) : l->gpus_per_node);
    double members_n = c->groups[GROUP_TP_EP].members;
    if (ranks > members_n || hop == 2) ranks = hop == 2 ? 1 : members_n;
    double n =
        (double)c->s->m.moe->experts / (double)l->ep * ranks / (double)(hop == 2 ? 1 : l->etp);
    double plain = expected_chance((double)c->s->m.moe->experts, n, c->s->m.moe->topk);
    return plain > 0 ? limited(c->s, n) / plain : 1;
}

/* Of balanced routing. The way back has the same rows in the other direction. The kernels of deepep
 * and hybridep copy the rows that stay with a rank like those that leave it, and the rates that
 * their tests print count all that a rank receives (dispatched_hidden.numel()), its own too: so
 * those count here. Of EP 2 they are half, of EP 8 an eighth. */
static void init_exchange(cost_model *c, comm_group g, int hop)
{
    const layout *l = &c->s->lay;
    exchange_rows *x = c->exchanges[g][hop];
    exchange_shape shape = {g, hop, false};
    int64_t stride = g == GROUP_EP ? l->stride[GRID_EXPERT][AXIS_EP] : 1;
    double part = part_left(c, hop);
    bool own = hop == 2 && c->hw->framework > 0;
    x[0] = (exchange_rows){.known = true};
    for (int64_t i = own ? 0 : 1; i < (int64_t)c->groups[g].members; i++)
        x[0].rows[layout_link(l, 0, i * stride)] +=
            part * exchange_expected(c->s, &shape, 0, i * stride);
    x[1] = x[0];
}

void dispatch_init(cost_model *c)
{
    const hardware *h = c->hw;
    comm_group g = c->to->flex ? GROUP_TP_EP : GROUP_EP;
    /* Inside the NVLink domain it goes at the pace of memory, moved by multiprocessors that GEMMs
     * would use; the network keeps them waiting. */
    if (c->groups[g].farthest != LINK_OUTSIDE)
        c->share[COST_EP] = fmax(h->message_share, h->near_share);
    if (!c->s->m.moe->experts) return;
    init_exchange(c, g, c->to->flex ? 1 : 0);
    init_exchange(c, c->to->flex ? g : GROUP_ETP, c->to->flex ? 2 : 0);
}

/* ---- seconds */

/* Has it the multiprocessors that it takes by itself, fewer than the files of machines speak of? 16
 * is Megatron's default up to 0.17.0; from 0.17.1 on (containers from 26.06) it leaves the default
 * to hybridep, which takes 32 in one domain. On Hopper 16 fill the links. */
static bool few_multiprocessors(const cost_model *c)
{
    const job *j = &c->s->j;
    const int64_t full = dispatcher_full_sms(c->to, c->s->gpu);
    if (!full || !(c->hw->framework > 0)) return false;
    return job_has(j, K_FLEX_SMS) ? j->flex_sms < full : version_is(j, "container", "", "26.06");
}

/* A row of flex over a link. Kernels take a time for each row besides its bytes, which small rows
 * show: with 16 multiprocessors of GB200 rows of 7,392 bytes (FP8 with scales) take 0.62 of the
 * time of those of 14,336, not half (the hybrid-ep README). */
static double row_seconds(const cost_model *c, link_kind k, double width)
{
    static const double MEASURED = 14336;
    const hardware *h = c->hw;
    const dispatch_kind d = c->to->rates;
    const int across = k == LINK_OUTSIDE;
    bool few = !across && few_multiprocessors(c);
    double part = h->dispatch[d][across];
    if (!across && h->dispatch_near[d].n)
        part = curve_at(&h->dispatch_near[d], c->groups[GROUP_TP_EP].in_domain);
    double row = h->framework > 0 ? (few ? c->to->few_row : 1) * h->dispatch_row[d][across] : 0;
    double rate = cost_level(c, k)->bandwidth * part * (few ? c->to->few_rate : 1);
    return row + width * (1 / rate - row / MEASURED);
}

static double exchange_seconds(const cost_model *c, const exchange_rows *x, double width)
{
    if (!c->to->flex) {
        double all[LINK_KINDS];
        for (int k = 0; k < LINK_KINDS; k++)
            all[k] = cost_all_to_all_over(c, (link_kind)k, width * x->rows[k]);
        return fmax(all[LINK_IN_NODE] + all[LINK_IN_DOMAIN], all[LINK_OUTSIDE]);
    }
    double near = x->rows[LINK_IN_NODE] * row_seconds(c, LINK_IN_NODE, width) +
                  x->rows[LINK_IN_DOMAIN] * row_seconds(c, LINK_IN_DOMAIN, width);
    return fmax(near, x->rows[LINK_OUTSIDE] * row_seconds(c, LINK_OUTSIDE, width));
}

bool dispatch_rides_along(const cost_model *c, const op *o)
{
    return c->to->flex && op_is(o->kind, BY_TABLE) && o->dim[DIM_EXCHANGE_W] * 4 <= c->s->m.hidden;
}

double dispatch_exchange(const cost_model *c, const segment *seg, const op *o)
{
    exchange_shape z = exchange_shape_of(seg, o);
    const exchange_rows *x = &c->exchanges[o->group][z.hop][z.back];
    double width = (double)dtype_bytes(o->type, o->dim[DIM_EXCHANGE_W]);
    double seconds = exchange_seconds(c, x, width);
    if (z.hop == 2)
        seconds = fmax(0, seconds - exchange_seconds(c, &c->exchanges[o->group][1][z.back], width));
    seconds *= cost_loads(c, seg, o).skew; /* all wait for the fullest rank */
    if (!x->known) /* a segment of another dispatcher: all that it has room for */
        seconds =
            cost_over(c, c->groups[o->group].farthest, (double)o->dim[DIM_EXCHANGE_ROOM] * width);
    const group_facts *g = &c->groups[o->group];
    if (dispatch_rides_along(c, o)) return seconds;
    if (z.hop == 2 && !(c->captured & CAPTURED_EXPERTS)) /* once for both hops */
        seconds += c->hw->dispatch_start;
    return seconds + cost_level(c, g->farthest)->latency * g->hops;
}

/* What allgather sums up travels in FP32, and so do its gradients. */
bool dispatch_is_wide(const cost_model *c, const op *o)
{
    if (!c->wide_combine || o->module != MODULE_MOE || o->type != DTYPE_BF16) return false;
    bool back = o->phase == PHASE_BACKWARD;
    return op_is(o->kind, back ? GATHERS : SUMS);
}

/* hybridep gathers everybody's routing map, a byte for each token and expert, with NCCL, and every
 * rank reads all of it (DeepEP, branch hybrid-ep: allgather_routing_map, metadata_preprocess_core).
 * The rates that its test prints leave both out, for it passes the handle of a first dispatch.
 * deepep and all-to-all gather counts. */
double dispatch_map(const cost_model *c, const op *o)
{
    const group_facts *g = &c->groups[o->group];
    if (!(c->hw->framework > 0) || !c->to->gathers_map || o->role != ROLE_COUNTS) return 0;
    double bytes = cost_routed_tokens(c->s) * (double)c->s->m.moe->experts;
    return cost_ring(c, g, bytes) + cost_memory(c, g->members * bytes);
}
