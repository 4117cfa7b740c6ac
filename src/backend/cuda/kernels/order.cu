/* order.cu - from choices to the order of rows: capacity, load, sorting; and what travels beside
 * the rows of a flex dispatcher. */
#include "backend/cuda/kernels/order.cuh"
#include "backend/cuda/kernels/permute.cuh"

/* ---- capacity */

/* Keeps a pair if fewer than CAPACITY of its expert come before it: those with a larger weight, or
 * an equal one and an earlier place; POSITION: the earlier ones. */
static void drop(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_DROP_T] * c->o->dim[DIM_DROP_K],
                  capacity = c->o->dim[DIM_DROP_CAPACITY];
    const bool by_position = c->o->dim[DIM_DROP_POSITION] == 1;
    const float *probs = floats_in(c, IN_DROP_probs);
    const int32_t *ids = ints_in(c, IN_DROP_ids);
    float *keep = floats_out(c, OUT_DROP_keep);
    for_each(c, n, [=] __device__(int64_t i) {
        const int32_t id = ids[i];
        const float own = probs[i];
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++) {
            if (ids[j] != id || j == i) continue;
            const float other = probs[j];
            before += by_position || other == own ? j < i : other > own;
        }
        keep[i] = before < capacity ? 1.f : 0.f;
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
    const int64_t n = c->o->dim[DIM_LOAD_T] * c->o->dim[DIM_LOAD_K],
                  n_experts = c->o->dim[DIM_LOAD_E];
    const choice list = {ints_in(c, IN_LOAD_ids), floats_in(c, IN_LOAD_keep), n, n_experts, 0};
    if (n_experts > 0)
        load_kernel<<<(unsigned)n_experts, BLOCK, 0, stream_of(c)>>>(
            list, floats_out(c, OUT_LOAD_counts));
}

static void sort(const kernel_call *c)
{
    const int64_t *d = c->o->dim, n = d[DIM_SORT_T] * d[DIM_SORT_K];
    const choice list = {ints_in(c, IN_SORT_ids), floats_in(c, IN_SORT_keep), n, d[DIM_SORT_E],
                         d[DIM_SORT_FIRST]};
    sort_list(c, list, n, {d[DIM_SORT_E], d[DIM_SORT_ROOM], d[DIM_SORT_PAD], d[DIM_SORT_ALIGN]},
              ints_out(c, OUT_SORT_rows), ints_out(c, OUT_SORT_offsets),
              ints_out(c, OUT_SORT_demand));
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
    const int64_t n_t = c->o->dim[DIM_FLEX_PACK_T], k = c->o->dim[DIM_FLEX_PACK_K];
    const float *probs = floats_in(c, IN_FLEX_PACK_probs), *keep = floats_in(c, IN_FLEX_PACK_keep);
    const int32_t *ids = ints_in(c, IN_FLEX_PACK_ids);
    float *meta = floats_out(c, OUT_FLEX_PACK_meta);
    for_each(c, n_t * k, [=] __device__(int64_t i) {
        float *row = meta + i / k * 2 * k;
        row[i % k] = !keep || keep[i] != 0 ? (float)ids[i] : -1;
        row[k + i % k] = probs[i];
    });
}

static void flex_unpack(const kernel_call *c)
{
    const int64_t room = c->o->dim[DIM_FLEX_UNPACK_ROOM], k = c->o->dim[DIM_FLEX_UNPACK_K],
                  n_members = c->o->dim[DIM_FLEX_UNPACK_P];
    const float *meta = floats_in(c, IN_FLEX_UNPACK_meta);
    const int32_t *table = ints_in(c, IN_FLEX_UNPACK_hop2);
    float *probs = floats_out(c, OUT_FLEX_UNPACK_probs);
    int32_t *ids = ints_out(c, OUT_FLEX_UNPACK_ids);
    for_each(c, room * k, [=] __device__(int64_t i) {
        const float *row = meta + i / k * 2 * k;
        const bool filled = i / k < received(table, n_members);
        ids[i] = filled ? (int32_t)row[i % k] : -1;
        probs[i] = filled ? row[k + i % k] : 0;
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
    const int64_t *d = c->o->dim;
    const int64_t n_t = d[DIM_FLEX_PLACE_T], k = d[DIM_FLEX_PLACE_K], h = d[DIM_FLEX_PLACE_H],
                  room = d[DIM_FLEX_PLACE_ROOM];
    const float *meta = floats_in(c, IN_FLEX_PLACE_meta);
    const arrived list = {meta,
                          ints_in(c, IN_FLEX_PLACE_hop2),
                          k,
                          d[DIM_FLEX_PLACE_E],
                          d[DIM_FLEX_PLACE_FIRST],
                          d[DIM_FLEX_PLACE_P]};
    sort_list(c, list, n_t * k, {d[DIM_FLEX_PLACE_E], room, 0, d[DIM_FLEX_PLACE_ALIGN]},
              ints_out(c, OUT_FLEX_PLACE_rows), ints_out(c, OUT_FLEX_PLACE_offsets),
              ints_out(c, OUT_FLEX_PLACE_demand));
    place_rows(c,
               {in_of(c, IN_FLEX_PLACE_x), out_of(c, OUT_FLEX_PLACE_xp),
                ints_out(c, OUT_FLEX_PLACE_rows), floats_out(c, OUT_FLEX_PLACE_pp), n_t, k, h,
                room},
               c->workspace, [=] __device__(int64_t i) { return meta[i / k * 2 * k + k + i % k]; });
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
    demand_kernel<<<1, 1, 0, stream_of(c)>>>(ints_in(c, IN_DEMAND_demand), c->o->dim[DIM_DEMAND_N],
                                             floats_out(c, OUT_DEMAND_most));
}

extern "C" cuda_part cuda_order(void)
{
    static const kernel rows[] = {
        {OP_DROP, "plain", NULL, NULL, NULL, NULL, drop},
        {OP_LOAD, "plain", NULL, NULL, NULL, NULL, load},
        {OP_SORT, "plain", NULL, NULL, NULL, NULL, sort},
        {OP_FLEX_PACK, "plain", NULL, NULL, NULL, NULL, flex_pack},
        {OP_FLEX_UNPACK, "plain", NULL, NULL, NULL, NULL, flex_unpack},
        {OP_FLEX_PLACE, "plain", NULL, NULL, NULL, flex_place_bytes, flex_place},
        {OP_DEMAND, "plain", NULL, NULL, NULL, NULL, demand},
    };
    return PART(rows);
}
