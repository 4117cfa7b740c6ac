/* plain_moe_dispatch.c - from tokens to rows of experts and back.
 *
 * D1  Rows stand expert by expert, and by token within an expert.
 * D2  rows[t][k] is a row below ROOM or -1; no two are equal.
 * D3  Rows that nobody fills are zero: products and sums may then run over whole buffers.
 * D4  A dropped expert gets no row, so it adds nothing and its weight gets no gradient. */
#include "kernels/cpu/plain_moe.h"

#include <string.h>

/* Is `other` kept before `pair`, both of one expert? Pairs (t, k) are numbered t * K + k. */
static bool comes_before(const op *o, const real *probs, int64_t pair, int64_t other)
{
    bool by_position = o->dim[4] == 1;
    if (by_position || probs[other] == probs[pair]) return other < pair;
    return probs[other] > probs[pair];
}

void plain_drop(const op *o, void *const *in, void *const *out)
{
    const real *probs = in[0];  /* [T][K] */
    const int32_t *ids = in[1]; /* [T][K] */
    real *keep = out[0];        /* [T][K] */
    int64_t n = o->dim[0] * o->dim[2], capacity = o->dim[3];
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++)
            if (ids[j] == ids[i] && j != i) before += comes_before(o, probs, i, j);
        keep[i] = before < capacity;
    }
}

void plain_load(const op *o, void *const *in, void *const *out)
{
    const int32_t *ids = in[0]; /* [T][K] */
    const real *keep = in[1];   /* [T][K] or none */
    real *counts = out[0];      /* [E] */
    for (int64_t i = 0; i < o->dim[0] * o->dim[2]; i++)
        if (!keep || keep[i] != 0) counts[ids[i]] += 1;
}

/* The expert of pair i among the E from FIRST on; -1: dropped, or another rank's. */
static int64_t own_expert(const op *o, const int32_t *ids, const real *keep, int64_t i)
{
    int64_t e = ids[i] - o->dim[5];
    return (keep && keep[i] == 0) || e < 0 || e >= o->dim[1] ? -1 : e;
}

/* Where each expert's rows start: one after another, or every `pad` rows. */
static void sort_starts(const op *o, const int32_t *ids, const real *keep, int32_t *offsets)
{
    int64_t n = o->dim[0] * o->dim[2], E = o->dim[1], pad = o->dim[4];
    memset(offsets, 0, (size_t)(E + 1) * sizeof *offsets);
    for (int64_t i = 0; pad == 0 && i < n; i++) {
        int64_t e = own_expert(o, ids, keep, i);
        if (e >= 0) offsets[e + 1]++;
    }
    for (int64_t e = 0; e < E; e++)
        offsets[e + 1] = pad ? (int32_t)((e + 1) * pad) : offsets[e] + offsets[e + 1];
}

/* Size 4 is PAD: 0, or the rows that every expert has, filled or not (capacity with padding: all
 * sizes are then known beforehand, and rows without a token are zero). */
void plain_sort(const op *o, void *const *in, void *const *out)
{
    const int32_t *ids = in[0]; /* [T][K] */
    const real *keep = in[1];   /* [T][K] or none */
    int32_t *rows = out[0];     /* [T][K] */
    int32_t *offsets = out[1];  /* [E+1] */
    int32_t *demand = out[2];   /* [2] or none */
    int64_t n = o->dim[0] * o->dim[2], E = o->dim[1], room = o->dim[3], pad = o->dim[4];
    sort_starts(o, ids, keep, offsets);
    if (demand) demand[0] = offsets[E], demand[1] = (int32_t)room;
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert(o, ids, keep, i);
        int32_t row = e >= 0 ? offsets[e]++ : -1; /* offsets[e] is the next free row meanwhile */
        bool fits = row < room && (pad == 0 || row < (e + 1) * pad);
        rows[i] = fits ? row : -1;
    }
    for (int64_t e = E; e > 0; e--) /* without PAD the end of one is now the start of the next */
        offsets[e] = pad ? (int32_t)(e * pad) : offsets[e - 1];
    offsets[0] = 0;
    for (int64_t e = 1; e <= E; e++)
        if (offsets[e] > room) offsets[e] = (int32_t)room; /* D2, also for who reads offsets only */
}

void plain_permute(const op *o, void *const *in, void *const *out)
{
    const real *x = in[0];       /* [T][H] */
    const real *probs = in[1];   /* [T][K] or none */
    const int32_t *rows = in[2]; /* [T][K] */
    real *xp = out[0];           /* [ROOM][H] */
    real *pp = out[1];           /* [ROOM] or none */
    int64_t T = o->dim[0], K = o->dim[1], H = o->dim[2], room = o->dim[3];
    memset(xp, 0, (size_t)(room * H) * sizeof *xp); /* D3 */
    if (pp) memset(pp, 0, (size_t)room * sizeof *pp);
    for (int64_t i = 0; i < T * K; i++) {
        if (rows[i] < 0) continue; /* D4 */
        memcpy(xp + rows[i] * H, x + i / K * H, (size_t)H * sizeof *xp);
        if (pp) pp[rows[i]] = probs[i];
    }
}

/* y[t] = sum of the rows of t, in the order of k. */
static void sum_rows(const op *o, const real *yp, const int32_t *rows, real *y)
{
    int64_t T = o->dim[0], K = o->dim[1], H = o->dim[2];
    if (!(o->flags & ADD_TO)) memset(y, 0, (size_t)(T * H) * sizeof *y);
    for (int64_t i = 0; i < T * K; i++)
        for (int64_t h = 0; rows[i] >= 0 && h < H; h++) y[i / K * H + h] += yp[rows[i] * H + h];
}

void plain_permute_d(const op *o, void *const *in, void *const *out)
{
    const real *dpp = in[1];     /* [ROOM] or none */
    const int32_t *rows = in[2]; /* [T][K] */
    real *dprobs = out[1];       /* [T][K] or none */
    sum_rows(o, in[0] /* [ROOM][H] */, rows, out[0] /* [T][H] */);
    for (int64_t i = 0; dprobs && i < o->dim[0] * o->dim[1]; i++)
        dprobs[i] = rows[i] < 0 ? 0 : dpp[rows[i]];
}

void plain_unpermute(const op *o, void *const *in, void *const *out)
{
    sum_rows(o, in[0] /* [ROOM][H] */, in[1] /* [T][K] */, out[0] /* [T][H] */);
}

void plain_unpermute_d(const op *o, void *const *in, void *const *out)
{
    void *x[] = {in[0], NULL, in[1]};
    void *xp[] = {out[0], NULL};
    plain_permute(o, x, xp); /* the gradient of a sum goes to every row of it */
}
