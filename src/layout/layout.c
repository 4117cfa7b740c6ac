/* layout.c - the two grids.
 *
 * I1  An axis that a grid lacks has size 1 there, so that both grids are read by the same loops.
 * I2  Strides grow along the order: each is the product of the sizes before it.
 * I3  The product of a grid's sizes is the world. */
#include "layout/layout.h"

#include <assert.h>

#include "base/maths.h"

static const axis plain_order[AXIS_COUNT] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP};
static const axis pp_first_order[AXIS_COUNT] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_PP, AXIS_DP};

const axis *layout_order(const layout *l)
{
    return l->pp_before_dp ? pp_first_order : plain_order;
}

static bool sane(int64_t size)
{
    return size >= 1 && size <= LAYOUT_WORLD_MAX;
}

static int64_t product(int64_t a, int64_t b, int64_t c)
{
    return mul_sat(mul_sat(a, b), c);
}

bool layout_possible(const job *j)
{
    int64_t world = j->n_gpus, pp = j->pp;
    int64_t tp = j->tp, cp = j->cp;
    int64_t ep = j->ep, etp = j->etp;
    if (!sane(world) || !sane(tp) || !sane(cp) || !sane(pp) || !sane(ep) || !sane(etp))
        return false;
    int64_t dense = product(tp, cp, pp), expert = product(etp, ep, pp);
    if (world % dense || world % expert) return false;
    /* pp inside dp: its stride is TP * CP on one grid and ETP * EP on the other. */
    return !j->tp_pp_dp || pp == 1 || dense == expert;
}

static int64_t at_least_one(int64_t n)
{
    return n < 1 ? 1 : n;
}

static int64_t replicas(int64_t world, int64_t a, int64_t b, int64_t pp)
{
    int64_t ranks = product(at_least_one(a), at_least_one(b), at_least_one(pp));
    return at_least_one(world / ranks);
}

int64_t layout_dp(const job *j)
{
    return replicas(j->n_gpus, j->tp, j->cp, j->pp);
}

int64_t layout_edp(const job *j)
{
    return replicas(j->n_gpus, j->etp, j->ep, j->pp);
}

static void set_strides(layout *l, grid g)
{
    int64_t stride = 1;
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = layout_order(l)[i];
        l->stride[g][x] = stride; /* I2 */
        stride *= l->size[g][x];
    }
    assert(stride == l->world); /* I3 */
}

void layout_init(layout *l, const job *j)
{
    *l = (layout){
        .world = j->n_gpus,
        .tp = j->tp,
        .cp = j->cp,
        .pp = j->pp,
        .ep = j->ep,
        .etp = j->etp,
        .dp = layout_dp(j),
        .edp = layout_edp(j),
        .pp_before_dp = j->tp_pp_dp,
        .gpus_per_node = j->gpus_per_node,
        .nvlink_domain = j->nvlink,
    };
    int64_t *dense = l->size[GRID_DENSE], *expert = l->size[GRID_EXPERT];
    dense[AXIS_TP] = l->tp;
    dense[AXIS_CP] = l->cp;
    dense[AXIS_EP] = 1; /* I1 */
    dense[AXIS_DP] = l->dp;
    expert[AXIS_TP] = l->etp;
    expert[AXIS_CP] = 1; /* I1 */
    expert[AXIS_EP] = l->ep;
    expert[AXIS_DP] = l->edp;
    dense[AXIS_PP] = expert[AXIS_PP] = l->pp;
    set_strides(l, GRID_DENSE);
    set_strides(l, GRID_EXPERT);
}

int64_t layout_coordinate(const layout *l, grid g, axis x, int64_t rank)
{
    return rank / l->stride[g][x] % l->size[g][x];
}

int64_t layout_stage_rank(const layout *l, int64_t p)
{
    return p * l->stride[GRID_DENSE][AXIS_PP];
}

int64_t layout_fewest(int64_t tp, int64_t cp, int64_t pp, int64_t ep, int64_t etp)
{
    if (tp < 1 || cp < 1 || pp < 1 || ep < 1 || etp < 1) return 0;
    return mul_sat(pp, lcm64(mul_sat(tp, cp), mul_sat(etp, ep)));
}

link_kind layout_link(const layout *l, int64_t a, int64_t b)
{
    if (a / l->gpus_per_node == b / l->gpus_per_node) return LINK_IN_NODE;
    return a / layout_domain(l) == b / layout_domain(l) ? LINK_IN_DOMAIN : LINK_OUTSIDE;
}
