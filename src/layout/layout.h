/* layout.h - which rank does what: two mixed-radix readings of one rank.
 *
 *     dense grid    rank = tp  + TP  * (cp + CP * (dp  + DP  * pp))
 *     expert grid   rank = etp + ETP * (ep + EP * (edp + EDP * pp))
 *
 * That is all of Parallel Folding: EP may cross TP, CP and DP inside a pipeline stage. With
 * `use_tp_pp_dp_mapping` pp comes before dp (and edp) in both. */
#ifndef LAYOUT_LAYOUT_H
#define LAYOUT_LAYOUT_H

#include "job/job.h"

typedef enum axis { AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP, AXIS_COUNT } axis;
typedef enum grid { GRID_DENSE, GRID_EXPERT } grid; /* expert: TP means ETP, DP means EDP; no CP */

typedef struct layout {
    int64_t world, tp, cp, pp, ep, etp, dp, edp;
    bool pp_before_dp;
    int64_t gpus_per_node, nvlink_domain;
    /* size and stride of each axis of each grid; absent axes have size 1 */
    int64_t size[2][AXIS_COUNT], stride[2][AXIS_COUNT];
} layout;

enum { LAYOUT_WORLD_MAX = 1 << 20 }; /* ranks; a larger world is a mistake, not a cluster */

/* Is there a layout with these sizes? World divisible by both grids, and equal pipeline groups
 * on both. Sizes that are not positive or beyond LAYOUT_WORLD_MAX have none. */
bool layout_possible(const job *j);

/* From a resolved job. Requires layout_possible. */
void layout_init(layout *l, const job *j);

/* Data parallel sizes as the knobs have them, at least 1: for derivations, which run before
 * anyone knows whether there is a layout. */
int64_t layout_dp(const job *j);
int64_t layout_edp(const job *j);

/* The axes from the smallest stride to the largest. */
const axis *layout_order(const layout *l); /* [AXIS_COUNT] */

/* A kind of group: all ranks that differ only in `axes` (a mask of 1 << AXIS_x). */
typedef struct group_kind {
    const char *name; /* "dp-cp", as Megatron spells its tokens */
    grid grid;
    unsigned axes;
    const char *use; /* what travels in it */
} group_kind;

/* The kinds of facts about Megatron: dense tp cp dp pp dp-cp tp-cp tp-pp tp-dp tp-dp-cp, expert
 * tp ep dp tp-ep tp-ep-pp pp. */
const group_kind *group_kinds(int *n);

int64_t group_size(const layout *l, const group_kind *k);
int64_t group_count(const layout *l, const group_kind *k);

/* Ranks of group number g, in Megatron's order (which is ascending), into out[group_size].
 * Groups are numbered by the axes that the kind leaves out, members by those it has; the axis of
 * smallest stride runs fastest. */
void group_ranks(const layout *l, const group_kind *k, int64_t g, int64_t *out);

/* Which group of this kind the rank is in, and its place there. */
int64_t group_of(const layout *l, const group_kind *k, int64_t rank, int64_t *place);

/* Place of a rank on one axis. */
int64_t layout_coordinate(const layout *l, grid g, axis x, int64_t rank);

/* How far the groups of a kind reach: most nodes and most NVLink domains that one group touches. */
typedef struct group_reach {
    int64_t nodes, domains;
} group_reach;
group_reach group_reach_of(const layout *l, const group_kind *k);

/* Ranks of an NVLink domain, which holds a node at least. */
static inline int64_t layout_domain(const layout *l)
{
    return l->nvlink_domain > l->gpus_per_node ? l->nvlink_domain : l->gpus_per_node;
}

/* The link between two ranks. */
typedef enum link_kind { LINK_IN_NODE, LINK_IN_DOMAIN, LINK_OUTSIDE, LINK_KINDS } link_kind;
link_kind layout_link(const layout *l, int64_t a, int64_t b);

/* First rank of pipeline stage p (all other coordinates 0). */
int64_t layout_stage_rank(const layout *l, int64_t p);

/* Fewest ranks that these sizes need: PP * lcm(TP * CP, ETP * EP). Saturates at SIZE_HUGE; 0
 * where a size is not positive. */
int64_t layout_fewest(int64_t tp, int64_t cp, int64_t pp, int64_t ep, int64_t etp);

#endif
