/* plain_moe_meta.c - what travels beside a flex dispatcher's rows: the experts of each and their
 * weights, 2K numbers a row. Ids are numbers, too: they are exact up to 2^24. */
#include "kernels/cpu/plain_moe.h"

#include <string.h>

void plain_flex_pack(const op *o, void *const *in, void *const *out)
{
    const real *probs = in[0];  /* [T][K] */
    const int32_t *ids = in[1]; /* [T][K] */
    const real *keep = in[2];   /* [T][K] or none */
    real *meta = out[0];        /* [T][2K] */
    int64_t T = o->dim[0], K = o->dim[1];
    for (int64_t i = 0; i < T * K; i++) {
        real *row = meta + i / K * 2 * K; /* [2K] */
        row[i % K] = !keep || keep[i] != 0 ? (real)ids[i] : -1;
        row[K + i % K] = probs[i];
    }
}

void plain_flex_unpack(const op *o, void *const *in, void *const *out)
{
    const real *meta = in[0]; /* [ROOM][2K] */
    real *probs = out[0];     /* [ROOM][K] */
    int32_t *ids = out[1];    /* [ROOM][K] */
    int64_t room = o->dim[0], K = o->dim[1], filled = rows_received(in[1], o->dim[2]);
    for (int64_t i = 0; i < room * K; i++) {
        const real *row = meta + i / K * 2 * K; /* [2K] */
        ids[i] = i / K < filled ? (int32_t)row[i % K] : -1;
        probs[i] = i / K < filled ? row[K + i % K] : 0;
    }
}

/* The expert of pair i among the E from FIRST on, else -1. */
static int64_t own_expert_of(const op *o, const real *meta, int64_t i)
{
    int64_t K = o->dim[1], e = (int64_t)meta[i / K * 2 * K + i % K] - o->dim[5];
    return e < 0 || e >= o->dim[4] ? -1 : e;
}

void flex_sort(const op *o, void *const *in, void *const *out)
{
    const real *meta = in[1];  /* [T][2K] */
    int32_t *rows = out[2];    /* [T][K] */
    int32_t *offsets = out[3]; /* [E+1] */
    int32_t *demand = out[4];  /* [2] */
    int64_t T = o->dim[0], K = o->dim[1], room = o->dim[3], E = o->dim[4];
    int64_t n = rows_received(in[2], o->dim[6]) * K;
    memset(offsets, 0, (size_t)(E + 1) * sizeof *offsets);
    memset(rows, -1, (size_t)(T * K) * sizeof *rows);
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert_of(o, meta, i);
        if (e >= 0) offsets[e + 1]++;
    }
    for (int64_t e = 0; e < E; e++) offsets[e + 1] += offsets[e];
    demand[0] = offsets[E];
    demand[1] = (int32_t)room;
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert_of(o, meta, i);
        int32_t row = e >= 0 ? offsets[e]++ : -1;
        rows[i] = row < room ? row : -1;
    }
    memmove(offsets + 1, offsets, (size_t)E * sizeof *offsets); /* ends are starts of the next */
    offsets[0] = 0;
    for (int64_t e = 1; e <= E; e++)
        if (offsets[e] > room) offsets[e] = (int32_t)room;
}

void plain_flex_place(const op *o, void *const *in, void *const *out)
{
    const real *x = in[0];        /* [T][H] */
    const real *meta = in[1];     /* [T][2K] */
    real *xp = out[0];            /* [ROOM][H] */
    real *pp = out[1];            /* [ROOM] */
    const int32_t *rows = out[2]; /* [T][K] */
    int64_t T = o->dim[0], K = o->dim[1], H = o->dim[2], room = o->dim[3];
    flex_sort(o, in, out);
    memset(xp, 0, (size_t)(room * H) * sizeof *xp);
    memset(pp, 0, (size_t)room * sizeof *pp);
    for (int64_t i = 0; i < T * K; i++) {
        if (rows[i] < 0) continue;
        memcpy(xp + rows[i] * H, x + i / K * H, (size_t)H * sizeof *xp);
        pp[rows[i]] = meta[i / K * 2 * K + K + i % K];
    }
}
