/* cost_message.c - messages, level by level of links.
 *
 * A collective goes round by rings that enter each node once: of an all-gather of N bytes each over
 * P members, g of them in a node, every link inside carries (P-1) N, and what comes from outside,
 * (P-g) N, is shared by the g network ports of the node's members. All-to-all sends each pair's
 * bytes over the link between them. Links inside the node and inside the NVLink domain are the same
 * ports, so their times add; those and the network run beside each other, and the slower counts. */
#include <math.h>

#include "layout/members.h"
#include "predict/cost_parts.h"
#include "predict/dispatch.h"

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

static group_facts facts_of(const layout *l, const span_axis *x, int n)
{
    int64_t members_n = 1, reach = 0;
    for (int i = 0; i < n; i++) {
        members_n *= x[i].size;
        reach += (x[i].size - 1) * x[i].stride;
    }
    int64_t node = l->gpus_per_node, domain = layout_domain(l);
    group_facts f = {.members = (double)members_n,
                     .in_node = (double)below(x, n, node),
                     .in_domain = (double)below(x, n, domain),
                     .hops = 1 + ceil(log2((double)members_n))};
    f.farthest = reach < node ? LINK_IN_NODE : reach < domain ? LINK_IN_DOMAIN : LINK_OUTSIDE;
    return f;
}

static void init_group(cost_model *c, comm_group g)
{
    const layout *l = &c->s->lay;
    const group_kind *k = comm_group_kind(g);
    const axis *order = layout_order(l);
    span_axis x[AXIS_COUNT];
    int n = 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        if (k->axes & 1u << order[i] && l->size[k->grid][order[i]] > 1)
            x[n++] = (span_axis){l->size[k->grid][order[i]], l->stride[k->grid][order[i]]};
    c->groups[g] = facts_of(l, x, n);
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

void cost_init_links(cost_model *c)
{
    for (int g = 0; g < GROUP_COUNT; g++) {
        c->groups[g] = (group_facts){.members = 1, .in_node = 1, .in_domain = 1};
        if (comm_group_kind((comm_group)g)) init_group(c, (comm_group)g);
    }
    init_cp_parts(c);
    init_embedding(c);
    for (int k = 0; k < COST_KINDS; k++) c->share[k] = c->hw->message_share;
    dispatch_init(c);
}

/* ---- prices */

const link_level *cost_level(const cost_model *c, link_kind k)
{
    const hardware *h = c->hw;
    return k == LINK_IN_NODE ? &h->node : k == LINK_IN_DOMAIN ? &h->domain : &h->across;
}

double cost_over(const cost_model *c, link_kind k, double bytes)
{
    const link_level *l = cost_level(c, k);
    return bytes > 0 ? bytes / (l->bandwidth * curve_at(&l->efficiency, bytes)) : 0;
}

/* Every member has all members' `bytes` in the end. */
double cost_ring(const cost_model *c, const group_facts *g, double bytes)
{
    link_kind inside = g->in_node > 1 ? LINK_IN_NODE : LINK_IN_DOMAIN;
    double near = g->in_domain > 1 ? cost_over(c, inside, (g->members - 1) * bytes) : 0;
    double domain = cost_over(c, LINK_IN_DOMAIN, (g->in_domain - g->in_node) / g->in_node * bytes);
    double far = cost_over(c, LINK_OUTSIDE, (g->members - g->in_domain) / g->in_domain * bytes);
    return fmax(fmax(near, domain), far) + cost_level(c, g->farthest)->latency * g->hops;
}

/* Parts of links that all-to-all reaches were measured with 235 to 411 MB a rank and way (4,096
 * tokens of 7,168 in BF16, 8 of 256 experts: arXiv 2603.07685 table 7). Peers are served side by
 * side, so it is all bytes of a kind of link that count, not those of a pair: at EP 64 a pair has
 * 7 MB, and the part is that of EP 16. Fewer bytes reach what NCCL reaches of them. */
double cost_all_to_all_over(const cost_model *c, link_kind k, double bytes)
{
    static const double MEASURED = 256 << 20;
    const link_level *l = cost_level(c, k);
    double part = c->hw->dispatch[DISPATCH_ALLTOALL][k == LINK_OUTSIDE];
    if (!(bytes > 0)) return 0;
    if (bytes < MEASURED)
        part *= curve_at(&l->efficiency, bytes) / curve_at(&l->efficiency, MEASURED);
    return bytes / (l->bandwidth * part);
}

static double each_to_all(const cost_model *c, const group_facts *g, double bytes)
{
    double near = cost_all_to_all_over(c, LINK_IN_NODE, (g->in_node - 1) * bytes) +
                  cost_all_to_all_over(c, LINK_IN_DOMAIN, (g->in_domain - g->in_node) * bytes);
    double far = cost_all_to_all_over(c, LINK_OUTSIDE, (g->members - g->in_domain) * bytes);
    return fmax(near, far) + cost_level(c, g->farthest)->latency * g->hops;
}

/* Bytes of what travels: weights may be gathered narrower than they are kept. */
static double bytes_sent(const cost_model *c, const segment *seg, const op *o)
{
    int id = op_first_buf(o);
    if (id < 0 || seg->bufs[id].life != LIFE_FIXED || seg->bufs[id].region != REGION_WEIGHTS)
        return (double)dtype_bytes(o->type, o->dim[DIM_MESSAGE_N]);
    return (double)o->dim[DIM_MESSAGE_N] * c->gathered_bytes;
}

double cost_message(const cost_model *c, const segment *seg, const op *o)
{
    const group_facts *g = &c->groups[o->group];
    if (op_is(o->kind, BY_TABLE)) return dispatch_exchange(c, seg, o);
    double map = dispatch_map(c, o);
    if (map > 0) return map;
    double bytes = bytes_sent(c, seg, o) * (dispatch_is_wide(c, o) ? 2 : 1);
    if (op_is(o->kind, STEPPED))
        return cost_over(c, g->farthest, bytes) + cost_level(c, g->farthest)->latency;
    if (op_goes_twice(o->kind)) return 2 * cost_ring(c, g, bytes / g->members);
    return op_is(o->kind, SUMS) || op_is(o->kind, GATHERS) ? cost_ring(c, g, bytes)
                                                           : each_to_all(c, g, bytes);
}
