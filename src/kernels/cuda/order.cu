/* order.cu - from choices to the order of rows: capacity, load, sorting; and what travels beside
 * the rows of a flex dispatcher. */
#include "kernels/cuda/order.cuh"
#include "kernels/cuda/permute.cuh"

/* ---- capacity */

/* Keeps a pair if fewer than CAPACITY of its expert come before it: those with a larger weight, or
 * an equal one and an earlier place; POSITION: the earlier ones. */
static void drop(const cuda_call *c)
{
    const int64_t n = c->o->dim[0] * c->o->dim[2], capacity = c->o->dim[3];
    const bool by_position = c->o->dim[4] == 1;
    const float *probs = floats_in(c, 0);
    const int32_t *ids = ints_in(c, 1);
    float *keep = floats_out(c, 0);
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

static void load(const cuda_call *c)
{
    const int64_t n = c->o->dim[0] * c->o->dim[2], n_experts = c->o->dim[1];
    const choice list = {ints_in(c, 0), floats_in(c, 1), n, n_experts, 0};
    if (n_experts > 0)
        load_kernel<<<(unsigned)n_experts, BLOCK, 0, stream_of(c)>>>(list, floats_out(c, 0));
}

static void sort(const cuda_call *c)
{
    const int64_t *d = c->o->dim, n = d[0] * d[2];
    const choice list = {ints_in(c, 0), floats_in(c, 1), n, d[1], d[5]};
    sort_list(c, list, n, d[1], d[3], d[4], ints_out(c, 0), ints_out(c, 1), ints_out(c, 2));
}

/* ---- meta: 2K numbers a row, ids and weights */

/* The rows that have come, by a table of messages int32[6][P]. */
static __device__ int64_t received(const int32_t *table, int64_t members)
{
    int64_t n = 0;
    for (int64_t m = 0; m < members; m++) n += table[3 * members + m];
    return n;
}

static void flex_pack(const cuda_call *c)
{
    const int64_t n_t = c->o->dim[0], k = c->o->dim[1];
    const float *probs = floats_in(c, 0), *keep = floats_in(c, 2);
    const int32_t *ids = ints_in(c, 1);
    float *meta = floats_out(c, 0);
    for_each(c, n_t * k, [=] __device__(int64_t i) {
        float *row = meta + i / k * 2 * k;
        row[i % k] = !keep || keep[i] != 0 ? (float)ids[i] : -1;
        row[k + i % k] = probs[i];
    });
}

static void flex_unpack(const cuda_call *c)
{
    const int64_t room = c->o->dim[0], k = c->o->dim[1], n_members = c->o->dim[2];
    const float *meta = floats_in(c, 0);
    const int32_t *table = ints_in(c, 1);
    float *probs = floats_out(c, 0);
    int32_t *ids = ints_out(c, 1);
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

static int64_t flex_place_bytes(const op *o)
{
    return permute_bytes(o->dim[3]);
}

static void flex_place(const cuda_call *c)
{
    const int64_t *d = c->o->dim;
    const int64_t n_t = d[0], k = d[1], h = d[2], room = d[3];
    const float *meta = floats_in(c, 1);
    const arrived list = {meta, ints_in(c, 2), k, d[4], d[5], d[6]};
    sort_list(c, list, n_t * k, d[4], room, 0, ints_out(c, 2), ints_out(c, 3), ints_out(c, 4));
    place_rows(c, {in_of(c, 0), out_of(c, 0), ints_out(c, 2), floats_out(c, 1), n_t, k, h, room},
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

static void demand(const cuda_call *c)
{
    demand_kernel<<<1, 1, 0, stream_of(c)>>>(ints_in(c, 0), c->o->dim[0], floats_out(c, 0));
}

extern "C" cuda_part cuda_order(void)
{
    static const cuda_row rows[] = {
        {OP_DROP, "plain", "fi", "f", drop, NULL, NULL},
        {OP_LOAD, "plain", "if", "f", load, NULL, NULL},
        {OP_SORT, "plain", "if", "iii", sort, NULL, NULL},
        {OP_FLEX_PACK, "plain", "fif", "f", flex_pack, NULL, NULL},
        {OP_FLEX_UNPACK, "plain", "fi", "fi", flex_unpack, NULL, NULL},
        {OP_FLEX_PLACE, "plain", "nfi", "nfiii", flex_place, flex_place_bytes, NULL},
        {OP_DEMAND, "plain", "i", "f", demand, NULL, NULL},
    };
    return PART(rows);
}
