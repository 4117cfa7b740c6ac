/* plain_moe_meta.c - what travels beside a flex dispatcher's rows: the experts of each and their
 * weights, 2K numbers a row. Ids are numbers, too: they are exact up to 2^24. */
#include "backend/cpu/kernels/plain_moe.h"

#include <string.h>

static void plain_flex_pack(const op *o, void *const *in, void *const *out)
{
    const real *probs = in[IN_FLEX_PACK_probs]; /* [T][K] */
    const int32_t *ids = in[IN_FLEX_PACK_ids];  /* [T][K] */
    const real *keep = in[IN_FLEX_PACK_keep];   /* [T][K] or none */
    real *meta = out[OUT_FLEX_PACK_meta];       /* [T][2K] */
    int64_t T = o->dim[DIM_FLEX_PACK_T], K = o->dim[DIM_FLEX_PACK_K];
    for (int64_t i = 0; i < T * K; i++) {
        real *row = meta + i / K * 2 * K; /* [2K] */
        row[i % K] = !keep || keep[i] != 0 ? (real)ids[i] : -1;
        row[K + i % K] = probs[i];
    }
}

static void plain_flex_unpack(const op *o, void *const *in, void *const *out)
{
    const real *meta = in[IN_FLEX_UNPACK_meta]; /* [ROOM][2K] */
    real *probs = out[OUT_FLEX_UNPACK_probs];   /* [ROOM][K] */
    int32_t *ids = out[OUT_FLEX_UNPACK_ids];    /* [ROOM][K] */
    int64_t room = o->dim[DIM_FLEX_UNPACK_ROOM], K = o->dim[DIM_FLEX_UNPACK_K],
            filled = rows_received(in[IN_FLEX_UNPACK_hop2], o->dim[DIM_FLEX_UNPACK_P]);
    for (int64_t i = 0; i < room * K; i++) {
        const real *row = meta + i / K * 2 * K; /* [2K] */
        ids[i] = i / K < filled ? (int32_t)row[i % K] : -1;
        probs[i] = i / K < filled ? row[K + i % K] : 0;
    }
}

/* The expert of pair i among the E from FIRST on, else -1. */
static int64_t own_expert_of(const op *o, const real *meta, int64_t i)
{
    int64_t K = o->dim[DIM_FLEX_PLACE_K],
            e = (int64_t)meta[i / K * 2 * K + i % K] - o->dim[DIM_FLEX_PLACE_FIRST];
    return e < 0 || e >= o->dim[DIM_FLEX_PLACE_E] ? -1 : e;
}

void flex_sort(const op *o, void *const *in, void *const *out)
{
    const real *meta = in[IN_FLEX_PLACE_meta];      /* [T][2K] */
    int32_t *rows = out[OUT_FLEX_PLACE_rows];       /* [T][K] */
    int32_t *offsets = out[OUT_FLEX_PLACE_offsets]; /* [E+1] */
    int32_t *demand = out[OUT_FLEX_PLACE_demand];   /* [2] */
    int64_t T = o->dim[DIM_FLEX_PLACE_T], K = o->dim[DIM_FLEX_PLACE_K],
            room = o->dim[DIM_FLEX_PLACE_ROOM], E = o->dim[DIM_FLEX_PLACE_E],
            align = o->dim[DIM_FLEX_PLACE_ALIGN];
    int64_t n = rows_received(in[IN_FLEX_PLACE_hop2], o->dim[DIM_FLEX_PLACE_P]) * K;
    memset(offsets, 0, (size_t)(E + 1) * sizeof *offsets);
    memset(rows, -1, (size_t)(T * K) * sizeof *rows);
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert_of(o, meta, i);
        if (e >= 0) offsets[e + 1]++;
    }
    for (int64_t e = 0; e < E; e++)
        offsets[e + 1] = (int32_t)(offsets[e] + aligned_rows(offsets[e + 1], align));
    demand[0] = offsets[E];
    demand[1] = (int32_t)room;
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert_of(o, meta, i);
        int32_t row = e >= 0 ? offsets[e]++ : -1;
        rows[i] = row < room ? row : -1;
    }
    for (int64_t e = E; e > 0; e--) /* ends, aligned, are starts of the next */
        offsets[e] = (int32_t)aligned_rows(offsets[e - 1], align);
    offsets[0] = 0;
    for (int64_t e = 1; e <= E; e++)
        if (offsets[e] > room) offsets[e] = (int32_t)room;
}

static void plain_flex_place(const op *o, void *const *in, void *const *out)
{
    const real *x = in[IN_FLEX_PLACE_x];            /* [T][H] */
    const real *meta = in[IN_FLEX_PLACE_meta];      /* [T][2K] */
    real *xp = out[OUT_FLEX_PLACE_xp];              /* [ROOM][H] */
    real *pp = out[OUT_FLEX_PLACE_pp];              /* [ROOM] */
    const int32_t *rows = out[OUT_FLEX_PLACE_rows]; /* [T][K] */
    int64_t T = o->dim[DIM_FLEX_PLACE_T], K = o->dim[DIM_FLEX_PLACE_K],
            H = o->dim[DIM_FLEX_PLACE_H], room = o->dim[DIM_FLEX_PLACE_ROOM];
    flex_sort(o, in, out);
    memset(xp, 0, (size_t)(room * H) * sizeof *xp);
    memset(pp, 0, (size_t)room * sizeof *pp);
    for (int64_t i = 0; i < T * K; i++) {
        if (rows[i] < 0) continue;
        memcpy(xp + rows[i] * H, x + i / K * H, (size_t)H * sizeof *xp);
        pp[rows[i]] = meta[i / K * 2 * K + K + i % K];
    }
}

kernel_rows plain_moe_meta(void)
{
    static const kernel rows[] = {
        {OP_FLEX_PACK, "plain", NULL, .run = plain_flex_pack},
        {OP_FLEX_UNPACK, "plain", NULL, .run = plain_flex_unpack},
        {OP_FLEX_PLACE, "plain", NULL, .run = plain_flex_place},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
