/* cost_message.c - messages, level by level of links.
 *
 * A collective goes round by rings that enter each node once: of an all-gather of N bytes each over
 * P members, g of them in a node, every link inside carries (P-1) N, and what comes from outside,
 * (P-g) N, is shared by the g network ports of the node's members. All-to-all sends each pair's
 * bytes over the link between them. Links inside the node and inside the NVLink domain are the same
 * ports, so their times add; those and the network run beside each other, and the slower counts.
 *
 * Dispatch has rates of its own (hardware/NAME.yaml). deepep and hybridep pass on inside a domain
 * what arrives in it while more is arriving: of the second hop only what takes longer than the
 * first counts. Where routing is limited to some groups of experts, fewer domains get a token than
 * predict/audit/expected.h says, which counts any expert as likely as others. */
#include <math.h>

#include "predict/audit/expected.h"
#include "predict/cost_parts.h"
#include "config/versions.h"

/* ---- groups, of rank 0 */

/* Members with ranks below `limit`: axes from the smallest stride on, each less than the next. */
typedef struct span_axis {
    int64_t size, stride;
} span_axis;

static int64_t below(const span_axis *x, int n, int64_t limit)
{
    int64_t count = 0, inner = 1;
    for (int i = 0; i < n; i++) inner *= x[i].size;
    while (n > 0 && limit > 0) {
        const span_axis *last = &x[--n];
        inner /= last->size;
        int64_t whole = limit / last->stride;
        if (whole >= last->size) return count + inner * last->size;
        count += whole * inner;
        limit -= whole * last->stride;
    }
    return count + (limit > 0 ? 1 : 0);
}

typedef struct axes_of {
    comm_group group;
    grid grid;
    unsigned axes;
} axes_of;

#define AX(x) (1u << AXIS_##x)
static const axes_of group_axes[] = {
    {GROUP_WORLD, GRID_DENSE, AX(TP) | AX(CP) | AX(DP) | AX(PP)},
    {GROUP_TP, GRID_DENSE, AX(TP)},
    {GROUP_CP, GRID_DENSE, AX(CP)},
    {GROUP_PP, GRID_DENSE, AX(PP)},
    {GROUP_DP_CP, GRID_DENSE, AX(DP) | AX(CP)},
    {GROUP_TP_CP, GRID_DENSE, AX(TP) | AX(CP)},
    {GROUP_TP_DP_CP, GRID_DENSE, AX(TP) | AX(DP) | AX(CP)},
    {GROUP_ETP, GRID_EXPERT, AX(TP)},
    {GROUP_EP, GRID_EXPERT, AX(EP)},
    {GROUP_EDP, GRID_EXPERT, AX(DP)},
    {GROUP_TP_EP, GRID_EXPERT, AX(TP) | AX(EP)},
};

static int64_t domain_of(const layout *l)
{
    return l->nvlink_domain > l->gpus_per_node ? l->nvlink_domain : l->gpus_per_node;
}

static group_facts facts_of(const layout *l, const span_axis *x, int n)
{
    int64_t members_n = 1, reach = 0;
    for (int i = 0; i < n; i++) {
        members_n *= x[i].size;
        reach += (x[i].size - 1) * x[i].stride;
    }
    int64_t node = l->gpus_per_node, domain = domain_of(l);
    group_facts f = {.members = (double)members_n,
                     .in_node = (double)below(x, n, node),
                     .in_domain = (double)below(x, n, domain),
                     .hops = 1 + ceil(log2((double)members_n))};
    f.farthest = reach < node ? LINK_IN_NODE : reach < domain ? LINK_IN_DOMAIN : LINK_OUTSIDE;
    return f;
}

static void init_group(cost_model *c, const axes_of *g)
{
    const layout *l = &c->s->lay;
    const axis *order = layout_order(l);
    span_axis x[AXIS_COUNT];
    int n = 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        if (g->axes & 1u << order[i] && l->size[g->grid][order[i]] > 1)
            x[n++] = (span_axis){l->size[g->grid][order[i]], l->stride[g->grid][order[i]]};
    c->groups[g->group] = facts_of(l, x, n);
}

/* Runs of the CP list, and every inner-th of it. */
static void init_cp_parts(cost_model *c)
{
    const layout *l = &c->s->lay;
    int64_t stride = l->stride[GRID_DENSE][AXIS_CP], inner = group_width(c->s, GROUP_CP_INNER);
    if (inner < 1) inner = 1;
    span_axis in = {inner, stride}, out = {l->cp / inner, stride * inner};
    c->groups[GROUP_CP_INNER] = facts_of(l, &in, 1);
    c->groups[GROUP_CP_OUTER] = facts_of(l, &out, 1);
}

/* The stages with a copy of the word table: first and last, as a rule. */
static void init_embedding(cost_model *c)
{
    const layout *l = &c->s->lay;
    int64_t n = group_width(c->s, GROUP_EMBEDDING), stride = l->stride[GRID_DENSE][AXIS_PP];
    if (n < 2) return;
    span_axis x = {n, stride * (l->pp - 1) / (n - 1)};
    c->groups[GROUP_EMBEDDING] = facts_of(l, &x, 1);
}

/* ---- exchanges */

/* How likely one of K of `all` experts is among n of them. */
static double chance(double all, double n, int64_t topk)
{
    double none = 1;
    for (int64_t i = 0; i < topk; i++) {
        double left = all - n - (double)i;
        none *= left > 0 ? left / (all - (double)i) : 0;
    }
    return 1 - none;
}

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
    if (n <= size) return chosen / groups * chance(chosen * size, n, s->m.moe->topk);
    double held = floor(n / size);
    for (double j = 1; j <= held && j <= chosen; j++)
        if (chosen - j <= groups - held)
            sum += drawn(groups, held, chosen, j) * chance(chosen * size, j * size, s->m.moe->topk);
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
    double ranks = (double)(c->to->over_nvlink ? domain_of(l) : l->gpus_per_node);
    double members_n = c->groups[GROUP_TP_EP].members;
    if (ranks > members_n || hop == 2) ranks = hop == 2 ? 1 : members_n;
    double n =
        (double)c->s->m.moe->experts / (double)l->ep * ranks / (double)(hop == 2 ? 1 : l->etp);
    double plain = chance((double)c->s->m.moe->experts, n, c->s->m.moe->topk);
    return plain > 0 ? limited(c->s, n) / plain : 1;
}

static link_kind link_between(const layout *l, int64_t from, int64_t to)
{
    int64_t domain = domain_of(l);
    if (from / l->gpus_per_node == to / l->gpus_per_node) return LINK_IN_NODE;
    return from / domain == to / domain ? LINK_IN_DOMAIN : LINK_OUTSIDE;
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
        x[0].rows[link_between(l, 0, i * stride)] +=
            part * exchange_expected(c->s, &shape, 0, i * stride);
    x[1] = x[0];
}

/* Dispatch inside the NVLink domain goes at the pace of memory, moved by multiprocessors that
 * GEMMs would use; the network keeps them waiting. */
static void init_shares(cost_model *c)
{
    const hardware *h = c->hw;
    for (int k = 0; k < COST_KINDS; k++) c->share[k] = h->message_share;
    comm_group g = c->to->flex ? GROUP_TP_EP : GROUP_EP;
    if (c->groups[g].farthest != LINK_OUTSIDE)
        c->share[COST_EP] = fmax(h->message_share, h->near_share);
}

void cost_init_links(cost_model *c)
{
    for (int g = 0; g < GROUP_COUNT; g++)
        c->groups[g] = (group_facts){.members = 1, .in_node = 1, .in_domain = 1};
    for (size_t i = 0; i < sizeof group_axes / sizeof group_axes[0]; i++)
        init_group(c, &group_axes[i]);
    init_cp_parts(c);
    init_embedding(c);
    init_shares(c);
    if (!c->s->m.moe->experts) return;
    if (!c->to->flex) {
        init_exchange(c, GROUP_EP, 0);
        init_exchange(c, GROUP_ETP, 0);
    } else {
        init_exchange(c, GROUP_TP_EP, 1);
        init_exchange(c, GROUP_TP_EP, 2);
    }
}

/* ---- prices */

static const link_level *level_of(const cost_model *c, link_kind k)
{
    const hardware *h = c->hw;
    return k == LINK_IN_NODE ? &h->node : k == LINK_IN_DOMAIN ? &h->domain : &h->across;
}

static double over(const cost_model *c, link_kind k, double bytes)
{
    const link_level *l = level_of(c, k);
    return bytes > 0 ? bytes / (l->bandwidth * curve_at(&l->efficiency, bytes)) : 0;
}

/* Every member has all members' `bytes` in the end. */
static double ring(const cost_model *c, const group_facts *g, double bytes)
{
    link_kind inside = g->in_node > 1 ? LINK_IN_NODE : LINK_IN_DOMAIN;
    double near = g->in_domain > 1 ? over(c, inside, (g->members - 1) * bytes) : 0;
    double domain = over(c, LINK_IN_DOMAIN, (g->in_domain - g->in_node) / g->in_node * bytes);
    double far = over(c, LINK_OUTSIDE, (g->members - g->in_domain) / g->in_domain * bytes);
    return fmax(fmax(near, domain), far) + level_of(c, g->farthest)->latency * g->hops;
}

/* Parts of links that all-to-all reaches were measured with 235 to 411 MB a rank and way (4,096
 * tokens of 7,168 in BF16, 8 of 256 experts: arXiv 2603.07685 table 7). Peers are served side by
 * side, so it is all bytes of a kind of link that count, not those of a pair: at EP 64 a pair has
 * 7 MB, and the part is that of EP 16. Fewer bytes reach what NCCL reaches of them. */
static double all_to_all_over(const cost_model *c, link_kind k, double bytes)
{
    static const double MEASURED = 256 << 20;
    const link_level *l = level_of(c, k);
    double part = c->hw->dispatch[DISPATCH_ALLTOALL][k == LINK_OUTSIDE];
    if (!(bytes > 0)) return 0;
    if (bytes < MEASURED)
        part *= curve_at(&l->efficiency, bytes) / curve_at(&l->efficiency, MEASURED);
    return bytes / (l->bandwidth * part);
}

static double each_to_all(const cost_model *c, const group_facts *g, double bytes)
{
    double near = all_to_all_over(c, LINK_IN_NODE, (g->in_node - 1) * bytes) +
                  all_to_all_over(c, LINK_IN_DOMAIN, (g->in_domain - g->in_node) * bytes);
    double far = all_to_all_over(c, LINK_OUTSIDE, (g->members - g->in_domain) * bytes);
    return fmax(near, far) + level_of(c, g->farthest)->latency * g->hops;
}

/* Has hybridep 16 multiprocessors instead of the 32 that the files of machines speak of? On Hopper
 * 16 fill the links. 16 is Megatron's default up to 0.17.0; from 0.17.1 on (containers from 26.06)
 * it leaves the default to hybridep, which takes 32 in one domain. */
static bool few_multiprocessors(const cost_model *c)
{
    const job *j = &c->s->j;
    bool theirs = c->to->few_sms && c->hw->framework > 0;
    bool few = job_has(j, K_FLEX_SMS) ? j->flex_sms < 32 : version_is(j, "container", "", "26.06");
    return theirs && few && c->s->gpu && c->s->gpu->arch == ARCH_BLACKWELL;
}

/* A row of deepep or hybridep over a link. Their kernels take a time for each row besides its
 * bytes, which small rows show: with 16 multiprocessors of GB200 rows of 7,392 bytes (FP8 with
 * scales) take 0.62 of the time of those of 14,336, not half. 16 take twice as long for a row as 32
 * do, and reach 0.956, 0.92, 0.922, 0.944, 0.94 of their rate over 8, 16, 24, 32 and 36 GB200 (both
 * ways in BF16, kernels alone). All from the hybrid-ep README. */
static double row_seconds(const cost_model *c, link_kind k, double width)
{
    static const double MEASURED = 14336, FEW_REACH = 0.936;
    const hardware *h = c->hw;
    const dispatch_kind d = c->to->rates;
    const int across = k == LINK_OUTSIDE;
    bool few = !across && few_multiprocessors(c);
    double part = h->dispatch[d][across];
    if (!across && h->dispatch_near[d].n)
        part = curve_at(&h->dispatch_near[d], c->groups[GROUP_TP_EP].in_domain);
    double row = h->framework > 0 ? (few ? 2 : 1) * h->dispatch_row[d][across] : 0;
    double rate = level_of(c, k)->bandwidth * part * (few ? FEW_REACH : 1);
    return row + width * (1 / rate - row / MEASURED);
}

static double exchange_seconds(const cost_model *c, const exchange_rows *x, double width)
{
    if (!c->to->flex) {
        double all[LINK_KINDS];
        for (int k = 0; k < LINK_KINDS; k++)
            all[k] = all_to_all_over(c, (link_kind)k, width * x->rows[k]);
        return fmax(all[LINK_IN_NODE] + all[LINK_IN_DOMAIN], all[LINK_OUTSIDE]);
    }
    double near = x->rows[LINK_IN_NODE] * row_seconds(c, LINK_IN_NODE, width) +
                  x->rows[LINK_IN_DOMAIN] * row_seconds(c, LINK_IN_DOMAIN, width);
    return fmax(near, x->rows[LINK_OUTSIDE] * row_seconds(c, LINK_OUTSIDE, width));
}

bool cost_rides_along(const cost_model *c, const op *o)
{
    return c->to->flex && op_is(o->kind, BY_TABLE) && o->dim[DIM_EXCHANGE_W] * 4 <= c->s->m.hidden;
}

static double exchange(const cost_model *c, const segment *seg, const op *o)
{
    exchange_shape z = exchange_shape_of(seg, o);
    const exchange_rows *x = &c->exchanges[o->group][z.hop][z.back];
    double width = (double)dtype_bytes(o->type, o->dim[DIM_EXCHANGE_W]);
    double seconds = exchange_seconds(c, x, width);
    if (z.hop == 2)
        seconds = fmax(0, seconds - exchange_seconds(c, &c->exchanges[o->group][1][z.back], width));
    seconds *= cost_loads(c, seg, o).skew; /* all wait for the fullest rank */
    if (!x->known) /* a segment of another dispatcher: all that it has room for */
        seconds = over(c, c->groups[o->group].farthest, (double)o->dim[DIM_EXCHANGE_ROOM] * width);
    const group_facts *g = &c->groups[o->group];
    if (cost_rides_along(c, o)) return seconds;
    if (z.hop == 2 && !(c->captured & CAPTURED_EXPERTS)) /* once for both hops */
        seconds += c->hw->dispatch_start;
    return seconds + level_of(c, g->farthest)->latency * g->hops;
}

/* Bytes of what travels: weights may be gathered narrower than they are kept. */
static double bytes_sent(const cost_model *c, const segment *seg, const op *o)
{
    int id = op_first_buf(o);
    if (id < 0 || seg->bufs[id].life != LIFE_FIXED || seg->bufs[id].region != REGION_WEIGHTS)
        return (double)dtype_bytes(o->type, o->dim[DIM_MESSAGE_N]);
    return (double)o->dim[DIM_MESSAGE_N] * c->gathered_bytes;
}

/* What allgather sums up travels in FP32, and so do its gradients. */
static bool is_wide(const cost_model *c, const op *o)
{
    if (!c->wide_combine || o->module != MODULE_MOE || o->type != DTYPE_BF16) return false;
    bool back = o->phase == PHASE_BACKWARD;
    return o->kind == OP_REDUCE_SCATTER ? !back : o->kind == OP_ALL_GATHER && back;
}

/* hybridep gathers everybody's routing map, a byte for each token and expert, with NCCL, and every
 * rank reads all of it (DeepEP, branch hybrid-ep: allgather_routing_map, metadata_preprocess_core).
 * The rates that its test prints leave both out, for it passes the handle of a first dispatch.
 * deepep and all-to-all gather counts. */
static bool gathers_map(const cost_model *c, const op *o)
{
    return c->hw->framework > 0 && c->to->gathers_map && o->role == ROLE_COUNTS;
}

static double routing_map(const cost_model *c, const group_facts *g)
{
    double bytes = cost_routed_tokens(c->s) * (double)c->s->m.moe->experts;
    return ring(c, g, bytes) + cost_memory(c, g->members * bytes);
}

double cost_message(const cost_model *c, const segment *seg, const op *o)
{
    const group_facts *g = &c->groups[o->group];
    if (gathers_map(c, o)) return routing_map(c, g);
    double bytes = bytes_sent(c, seg, o) * (is_wide(c, o) ? 2 : 1);
    switch (o->kind) {
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
        return ring(c, g, bytes);
    case OP_ALL_REDUCE:
        return 2 * ring(c, g, bytes / g->members);
    case OP_ALL_TO_ALL:
        return each_to_all(c, g, bytes);
    case OP_EXCHANGE:
        return exchange(c, seg, o);
    default: /* SHIFT, SEND, RECV */
        return over(c, g->farthest, bytes) + level_of(c, g->farthest)->latency;
    }
}
