/* order.cu - from choices to the order of rows: capacity, load, sorting; and what travels beside
 * the rows of a flex dispatcher. */
#include "backend/cuda/kernels/order.cuh"
#include "backend/cuda/kernels/permute.cuh"

/* ---- capacity */

/* Keeps a pair if fewer than CAPACITY of its expert come before it: those with a larger weight, or
 * an equal one and an earlier place; POSITION: the earlier ones. */
static void drop(const kernel_call *c)
{
    const op_drop o = op_drop_of(c);
    const int64_t n = o.T * o.K;
    const bool by_position = o.POSITION == 1;
    for_each(c, n, [=] __device__(int64_t i) {
        const int32_t id = o.ids[i];
        const float own = o.probs[i];
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++) {
            if (o.ids[j] != id || j == i) continue;
            const float other = o.probs[j];
            before += by_position || other == own ? j < i : other > own;
        }
        o.keep[i] = before < o.CAPACITY ? 1.f : 0.f;
    });
}

/* Pairs of this rank's choice; dropped ones and those of other ranks' experts are nobody's. */
struct choice {
    const int32_t *ids; /* [T][K] */
    const float *keep;  /* [T][K], may be missing */
    int64_t n, n_experts, first;
    __device__ int64_t size() const
    {
        return n;
    }
    __device__ int64_t expert(int64_t i) const
    {
        const int64_t e = ids[i] - first;
        return (keep && keep[i] == 0) || e < 0 || e >= n_experts ? -1 : e;
    }
};

static __global__ void load_kernel(choice list, float *counts)
{
    const int64_t e = blockIdx.x;
    const int64_t count = number_own(
        list.n, [&](int64_t i) { return list.expert(i) == e; }, [](int64_t, int64_t) {});
    if (threadIdx.x == 0) counts[e] += (float)count;
}

static void load(const kernel_call *c)
{
    const op_load o = op_load_of(c);
    if (o.E > 0)
        load_kernel<<<(unsigned)o.E, BLOCK, 0, stream_of(c)>>>({o.ids, o.keep, o.T * o.K, o.E, 0},
                                                               o.counts);
}

static void sort(const kernel_call *c)
{
    const op_sort o = op_sort_of(c);
    const choice list = {o.ids, o.keep, o.T * o.K, o.E, o.FIRST};
    sort_list(c, list, list.n, {o.E, o.ROOM, o.PAD, o.ALIGN}, o.rows, o.offsets, o.demand);
}

/* ---- meta: 2K numbers a row, ids and weights */

/* The rows that have come, by a table of messages int32[6][P]. */
static __device__ int64_t received(const int32_t *table, int64_t members)
{
    int64_t n = 0;
    for (int64_t m = 0; m < members; m++) n += table[3 * members + m];
    return n;
}

static void flex_pack(const kernel_call *c)
{
    const op_flex_pack o = op_flex_pack_of(c);
    for_each(c, o.T * o.K, [=] __device__(int64_t i) {
        float *row = o.meta + i / o.K * 2 * o.K;
        row[i % o.K] = !o.keep || o.keep[i] != 0 ? (float)o.ids[i] : -1;
        row[o.K + i % o.K] = o.probs[i];
    });
}

static void flex_unpack(const kernel_call *c)
{
    const op_flex_unpack o = op_flex_unpack_of(c);
    for_each(c, o.ROOM * o.K, [=] __device__(int64_t i) {
        const float *row = o.meta + i / o.K * 2 * o.K;
        const bool filled = i / o.K < received(o.hop2, o.P);
        o.ids[i] = filled ? (int32_t)row[i % o.K] : -1;
        o.probs[i] = filled ? row[o.K + i % o.K] : 0;
    });
}

/* Pairs of rows that arrived. */
struct arrived {
    const float *meta;    /* [T][2K] */
    const int32_t *table; /* [6][P] */
    int64_t k, n_experts, first, n_members;
    __device__ int64_t size() const
    {
        return received(table, n_members) * k;
    }
    __device__ int64_t expert(int64_t i) const
    {
        const int64_t e = (int64_t)meta[i / k * 2 * k + i % k] - first;
        return e < 0 || e >= n_experts ? -1 : e;
    }
};

static int64_t flex_place_bytes(const op *o, const op_types *)
{
    return permute_bytes(o->dim[DIM_FLEX_PLACE_ROOM]);
}

static void flex_place(const kernel_call *c)
{
    const op_flex_place o = op_flex_place_of(c);
    sort_list(c, arrived{o.meta, o.hop2, o.K, o.E, o.FIRST, o.P}, o.T * o.K,
              {o.E, o.ROOM, 0, o.ALIGN}, o.rows, o.offsets, o.demand);
    place_rows(c, {o.x, o.xp, o.rows, o.pp, o.T, o.K, o.H, o.ROOM}, c->workspace,
               [=] __device__(int64_t i) { return o.meta[i / o.K * 2 * o.K + o.K + i % o.K]; });
}

/* ---- the fullest of all so far; room 0 says that there was none yet */

static __global__ void demand_kernel(const int32_t *demand, int64_t n, float *most)
{
    for (int64_t i = 0; i < n; i++) {
        const double wanted = demand[2 * i], room = demand[2 * i + 1];
        if ((double)most[1] > 0 && wanted * (double)most[1] <= (double)most[0] * room) continue;
        most[0] = (float)wanted;
        most[1] = (float)room;
    }
}

static void demand(const kernel_call *c)
{
    const op_demand o = op_demand_of(c);
    demand_kernel<<<1, 1, 0, stream_of(c)>>>(o.demand, o.N, o.most);
}

extern "C" cuda_part cuda_order(void)
{
    static const kernel rows[] = {
        {.kind = OP_DROP, .name = "plain", .launch = drop},
        {.kind = OP_LOAD, .name = "plain", .launch = load},
        {.kind = OP_SORT, .name = "plain", .launch = sort},
        {.kind = OP_FLEX_PACK, .name = "plain", .launch = flex_pack},
        {.kind = OP_FLEX_UNPACK, .name = "plain", .launch = flex_unpack},
        {.kind = OP_FLEX_PLACE,
         .name = "plain",
         .workspace = flex_place_bytes,
         .launch = flex_place},
        {.kind = OP_DEMAND, .name = "plain", .launch = demand},
    };
    return PART(rows);
}
