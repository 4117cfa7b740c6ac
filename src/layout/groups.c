/* groups.c - which ranks talk to each other.
 *
 * I1  A group is a base (the axes its kind leaves out) plus every sum of coordinate x stride
 *     over the axes it has.
 * I2  Along the order strides grow (layout.c I2), so a list built axis by axis ascends. */
#include "layout/layout.h"

#include "base/maths.h"

enum {
    TP = 1 << AXIS_TP,
    CP = 1 << AXIS_CP,
    EP = 1 << AXIS_EP,
    DP = 1 << AXIS_DP,
    PP = 1 << AXIS_PP
};

static const group_kind kinds[] = {
    {"tp", GRID_DENSE, TP, "dense linears, sequence parallel, vocabulary, shared experts"},
    {"cp", GRID_DENSE, CP, "keys and values of attention"},
    {"dp", GRID_DENSE, DP, "splits the batch; no communication"},
    {"pp", GRID_DENSE, PP, "activations between stages"},
    {"dp-cp", GRID_DENSE, DP | CP, "dense gradients and optimizer shards; loss"},
    {"tp-cp", GRID_DENSE, TP | CP, "auxiliary losses of a microbatch"},
    {"tp-pp", GRID_DENSE, TP | PP, "gradient norm without sharded optimizer"},
    {"tp-dp", GRID_DENSE, TP | DP, "FP8 maxima"},
    {"tp-dp-cp", GRID_DENSE, TP | DP | CP,
     "global auxiliary loss; token counts of the expert bias"},
    {"tp", GRID_EXPERT, TP, "expert linears"},
    {"ep", GRID_EXPERT, EP, "dispatch and combine"},
    {"dp", GRID_EXPERT, DP, "expert gradients and optimizer shards"},
    {"tp-ep", GRID_EXPERT, TP | EP, "dispatch of allgather and flex; token counts"},
    {"tp-ep-pp", GRID_EXPERT, TP | EP | PP, "gradient norm of experts"},
    {"pp", GRID_EXPERT, PP, "the same as the dense one"},
};

const group_kind *group_kinds(int *n)
{
    *n = (int)(sizeof kinds / sizeof kinds[0]);
    return kinds;
}

static bool has(const group_kind *k, axis x)
{
    return (k->axes >> x & 1) != 0;
}

int64_t group_size(const layout *l, const group_kind *k)
{
    int64_t n = 1;
    for (int x = 0; x < AXIS_COUNT; x++)
        if (has(k, (axis)x)) n *= l->size[k->grid][x];
    return n;
}

int64_t group_count(const layout *l, const group_kind *k)
{
    return l->world / group_size(l, k);
}

static int64_t base_of(const layout *l, const group_kind *k, int64_t g)
{
    int64_t base = 0;
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = layout_order(l)[i];
        if (has(k, x)) continue;
        base += g % l->size[k->grid][x] * l->stride[k->grid][x];
        g /= l->size[k->grid][x];
    }
    return base;
}

void group_ranks(const layout *l, const group_kind *k, int64_t g, int64_t *out)
{
    int64_t n = 1;
    out[0] = base_of(l, k, g);
    for (int i = 0; i < AXIS_COUNT; i++) { /* I2 */
        axis x = layout_order(l)[i];
        if (!has(k, x)) continue;
        int64_t whole = n * l->size[k->grid][x], stride = l->stride[k->grid][x];
        for (int64_t j = n; j < whole; j++) out[j] = out[j - n] + stride;
        n = whole;
    }
}

int64_t group_of(const layout *l, const group_kind *k, int64_t rank, int64_t *place)
{
    int64_t number[2] = {0, 0}, weight[2] = {1, 1}; /* [outside the kind, inside] */
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = layout_order(l)[i];
        bool inside = has(k, x);
        number[inside] += layout_coordinate(l, k->grid, x, rank) * weight[inside];
        weight[inside] *= l->size[k->grid][x];
    }
    if (place) *place = number[1];
    return number[0];
}

/* ---- reach */

/* Counts through a few axes, the first fastest; `value` is the sum of coordinate x stride. */
typedef struct odometer {
    int n;
    int64_t size[AXIS_COUNT], stride[AXIS_COUNT], at[AXIS_COUNT];
    int64_t value;
} odometer;

static void odometer_add(odometer *o, int64_t size, int64_t stride)
{
    o->size[o->n] = size;
    o->stride[o->n++] = stride;
}

static bool odometer_next(odometer *o)
{
    for (int i = 0; i < o->n; i++) {
        o->value += o->stride[i];
        if (++o->at[i] < o->size[i]) return true;
        o->value -= o->size[i] * o->stride[i];
        o->at[i] = 0;
    }
    return false; /* back at the start */
}

/* Boxes of `box` ranks that base + members touches; members ascend, so a box is left for good. */
static int64_t boxes_from(int64_t base, odometer *members, int64_t box)
{
    int64_t n = 0, limit = 0;
    do {
        int64_t rank = base + members->value;
        if (rank < limit) continue;
        n++;
        limit = (rank / box + 1) * box;
    } while (odometer_next(members));
    return n;
}

/* Most boxes that a group touches. An axis whose stride is a multiple of the box only
 * multiplies: what lies below it fills whole boxes. Of the bases only the remainder counts,
 * which repeats along an axis after box / gcd(stride, box) steps. So few bases are looked at,
 * however large the world. */
static int64_t most_boxes(const layout *l, const group_kind *k, int64_t box)
{
    if (box < 1 || box >= l->world) return 1;
    odometer bases = {0}, members = {0};
    int64_t factor = 1, most = 0;
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = layout_order(l)[i];
        int64_t size = l->size[k->grid][x], stride = l->stride[k->grid][x];
        int64_t period = box / gcd64(stride, box);
        if (!has(k, x))
            odometer_add(&bases, size < period ? size : period, stride);
        else if (period == 1)
            factor *= size;
        else
            odometer_add(&members, size, stride);
    }
    do {
        int64_t n = boxes_from(bases.value, &members, box);
        if (n > most) most = n;
    } while (odometer_next(&bases));
    return factor * most;
}

group_reach group_reach_of(const layout *l, const group_kind *k)
{
    return (group_reach){most_boxes(l, k, l->gpus_per_node), most_boxes(l, k, l->nvlink_domain)};
}
