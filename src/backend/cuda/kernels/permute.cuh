/* permute.cuh - tokens to the rows of their experts: by the row, so that each is written once.
 *
 * rows[T][K] says where a pair (token, choice) goes; what is needed is who comes to a row. That map
 * is made in the workspace first: no two pairs have the same row. */
#ifndef BACKEND_CUDA_KERNELS_PERMUTE_CUH
#define BACKEND_CUDA_KERNELS_PERMUTE_CUH

#include "backend/cuda/kernels/device.cuh"

static inline int64_t permute_bytes(int64_t room)
{
    return room_of(room * (int64_t)sizeof(int64_t));
}

struct placing {
    numbers x, xp;       /* [T][H] -> [ROOM][H] */
    const int32_t *rows; /* [T][K], -1: none */
    float *pp;           /* [ROOM], may be missing */
    int64_t n_t, k, h, room;
};

/* Loads that are on their way before the first is stored: the compiler would not move one past a
 * store, whose address might be its own. */
enum { AT_ONCE = 4 };

struct place_one {
    numbers x, xp;       /* [T][H] -> [ROOM][H] */
    const int64_t *pair; /* [ROOM], -1: nobody */
    int64_t k, h;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t who = pair[i], from = who / k * h;
        for (int64_t j = thread * W; j < h; j += THREADS * W * AT_ONCE) {
            lanes<W> v[AT_ONCE] = {};
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++)
                if (who >= 0 && j + n * THREADS * W < h)
                    v[n] = load<W>(x, from + j + n * THREADS * W);
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++)
                if (j + n * THREADS * W < h) store(xp, i * h + j + n * THREADS * W, v[n]);
        }
    }
};

/* pair[room] of rows[n]: who comes to a row, -1: nobody. */
static void map_rows(const kernel_call *c, const int32_t *rows, int64_t n, int64_t room,
                     int64_t *pair)
{
    for_each(c, room, [=] __device__(int64_t row) { pair[row] = -1; });
    for_each(c, n, [=] __device__(int64_t i) {
        if (rows[i] >= 0) pair[rows[i]] = i;
    });
}

/* `prob` gives the weight of a pair, where pp is there. */
template <class P> static void place_rows(const kernel_call *c, const placing &p, void *map, P prob)
{
    int64_t *pair = (int64_t *)map;
    const placing q = p;
    map_rows(c, p.rows, p.n_t * p.k, p.room, pair);
    for_rows(c, p.room, p.h, place_one{p.x, p.xp, pair, p.k, p.h});
    if (!p.pp) return;
    for_each(c, p.room,
             [=] __device__(int64_t row) { q.pp[row] = pair[row] < 0 ? 0 : prob(pair[row]); });
}

#endif
