/* plain_moe_dispatch.c - from tokens to rows of experts and back.
 *
 * D1  Rows stand expert by expert, and by token within an expert.
 * D2  rows[t][k] is a row below ROOM or -1; no two are equal.
 * D3  Rows that nobody fills are zero: GEMMs and sums may then run over whole buffers.
 * D4  A dropped expert gets no row, so it adds nothing and its weight gets no gradient. */
#include "backend/cpu/kernels/plain_moe.h"

#include <string.h>

/* Is `other` kept before `pair`, both of one expert? Pairs (t, k) are numbered t * K + k. */
static bool comes_before(const op *o, const real *probs, int64_t pair, int64_t other)
{
    bool by_position = o->dim[DIM_DROP_POSITION] == 1;
    if (by_position || probs[other] == probs[pair]) return other < pair;
    return probs[other] > probs[pair];
}

static void plain_drop(const op *o, void *const *in, void *const *out)
{
    const real *probs = in[IN_DROP_probs]; /* [T][K] */
    const int32_t *ids = in[IN_DROP_ids];  /* [T][K] */
    real *keep = out[OUT_DROP_keep];       /* [T][K] */
    int64_t n = o->dim[DIM_DROP_T] * o->dim[DIM_DROP_K], capacity = o->dim[DIM_DROP_CAPACITY];
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++)
            if (ids[j] == ids[i] && j != i) before += comes_before(o, probs, i, j);
        keep[i] = before < capacity;
    }
}

static void plain_load(const op *o, void *const *in, void *const *out)
{
    const int32_t *ids = in[IN_LOAD_ids]; /* [T][K] */
    const real *keep = in[IN_LOAD_keep];  /* [T][K] or none */
    real *counts = out[OUT_LOAD_counts];  /* [E] */
    for (int64_t i = 0; i < o->dim[DIM_LOAD_T] * o->dim[DIM_LOAD_K]; i++)
        if (!keep || keep[i] != 0) counts[ids[i]] += 1;
}

/* The expert of pair i among the E from FIRST on; -1: dropped, or another rank's. */
static int64_t own_expert(const op *o, const int32_t *ids, const real *keep, int64_t i)
{
    int64_t e = ids[i] - o->dim[DIM_SORT_FIRST];
    return (keep && keep[i] == 0) || e < 0 || e >= o->dim[DIM_SORT_E] ? -1 : e;
}

/* The rows that every expert has, or 0. */
static int64_t padded(const op *o)
{
    return aligned_rows(o->dim[DIM_SORT_PAD], o->dim[DIM_SORT_ALIGN]);
}

/* Where each expert's rows start: one after another, or every `pad` rows. */
static void sort_starts(const op *o, const int32_t *ids, const real *keep, int32_t *offsets)
{
    int64_t n = o->dim[DIM_SORT_T] * o->dim[DIM_SORT_K], E = o->dim[DIM_SORT_E], pad = padded(o),
            align = o->dim[DIM_SORT_ALIGN];
    memset(offsets, 0, (size_t)(E + 1) * sizeof *offsets);
    for (int64_t i = 0; pad == 0 && i < n; i++) {
        int64_t e = own_expert(o, ids, keep, i);
        if (e >= 0) offsets[e + 1]++;
    }
    for (int64_t e = 0; e < E; e++)
        offsets[e + 1] =
            (int32_t)(pad ? (e + 1) * pad : offsets[e] + aligned_rows(offsets[e + 1], align));
}

/* PAD is 0, or the rows that every expert has, filled or not (capacity with padding: all
 * sizes are then known beforehand, and rows without a token are zero). */
static void plain_sort(const op *o, void *const *in, void *const *out)
{
    const int32_t *ids = in[IN_SORT_ids];     /* [T][K] */
    const real *keep = in[IN_SORT_keep];      /* [T][K] or none */
    int32_t *rows = out[OUT_SORT_rows];       /* [T][K] */
    int32_t *offsets = out[OUT_SORT_offsets]; /* [E+1] */
    int32_t *demand = out[OUT_SORT_demand];   /* [2] or none */
    int64_t n = o->dim[DIM_SORT_T] * o->dim[DIM_SORT_K], E = o->dim[DIM_SORT_E],
            room = o->dim[DIM_SORT_ROOM], pad = padded(o), align = o->dim[DIM_SORT_ALIGN];
    sort_starts(o, ids, keep, offsets);
    if (demand) demand[0] = offsets[E], demand[1] = (int32_t)room;
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert(o, ids, keep, i);
        int32_t row = e >= 0 ? offsets[e]++ : -1; /* offsets[e] is the next free row meanwhile */
        bool fits = row < room && (pad == 0 || row < (e + 1) * pad);
        rows[i] = fits ? row : -1;
    }
    for (int64_t e = E; e > 0; e--) /* without PAD the end of one is now the start of the next */
        offsets[e] = (int32_t)(pad ? e * pad : aligned_rows(offsets[e - 1], align));
    offsets[0] = 0;
    for (int64_t e = 1; e <= E; e++)
        if (offsets[e] > room) offsets[e] = (int32_t)room; /* D2, also for who reads offsets only */
}

static void plain_permute(const op *o, void *const *in, void *const *out)
{
    const real *x = in[IN_PERMUTE_x];          /* [T][H] */
    const real *probs = in[IN_PERMUTE_probs];  /* [T][K] or none */
    const int32_t *rows = in[IN_PERMUTE_rows]; /* [T][K] */
    real *xp = out[OUT_PERMUTE_xp];            /* [ROOM][H] */
    real *pp = out[OUT_PERMUTE_pp];            /* [ROOM] or none */
    int64_t T = o->dim[DIM_PERMUTE_T], K = o->dim[DIM_PERMUTE_K], H = o->dim[DIM_PERMUTE_H],
            room = o->dim[DIM_PERMUTE_ROOM];
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
    int64_t T = o->dim[DIM_UNPERMUTE_T], K = o->dim[DIM_UNPERMUTE_K], H = o->dim[DIM_UNPERMUTE_H];
    if (!(o->flags & ACCUMULATE)) memset(y, 0, (size_t)(T * H) * sizeof *y);
    for (int64_t i = 0; i < T * K; i++)
        for (int64_t h = 0; rows[i] >= 0 && h < H; h++) y[i / K * H + h] += yp[rows[i] * H + h];
}

static void plain_permute_d(const op *o, void *const *in, void *const *out)
{
    const real *dpp = in[IN_PERMUTE_D_dpp];      /* [ROOM] or none */
    const int32_t *rows = in[IN_PERMUTE_D_rows]; /* [T][K] */
    real *dprobs = out[OUT_PERMUTE_D_dprobs];    /* [T][K] or none */
    sum_rows(o, in[IN_PERMUTE_D_dxp] /* [ROOM][H] */, rows, out[OUT_PERMUTE_D_dx] /* [T][H] */);
    for (int64_t i = 0; dprobs && i < o->dim[DIM_PERMUTE_D_T] * o->dim[DIM_PERMUTE_D_K]; i++)
        dprobs[i] = rows[i] < 0 ? 0 : dpp[rows[i]];
}

static void plain_unpermute(const op *o, void *const *in, void *const *out)
{
    sum_rows(o, in[IN_UNPERMUTE_yp] /* [ROOM][H] */, in[IN_UNPERMUTE_rows] /* [T][K] */,
             out[OUT_UNPERMUTE_y] /* [T][H] */);
}

static void plain_unpermute_d(const op *o, void *const *in, void *const *out)
{
    void *x[] = {in[IN_UNPERMUTE_D_dy], NULL, in[IN_UNPERMUTE_D_rows]};
    void *xp[] = {out[OUT_UNPERMUTE_D_dyp], NULL};
    plain_permute(o, x, xp); /* the gradient of a sum goes to every row of it */
}

kernel_rows plain_moe_dispatch(void)
{
    static const kernel rows[] = {
        {OP_DROP, "plain", NULL, .run = plain_drop},
        {OP_LOAD, "plain", NULL, .run = plain_load},
        {OP_SORT, "plain", NULL, .run = plain_sort},
        {OP_PERMUTE, "plain", NULL, .run = plain_permute},
        {OP_PERMUTE_D, "plain", NULL, .run = plain_permute_d},
        {OP_UNPERMUTE, "plain", NULL, .run = plain_unpermute},
        {OP_UNPERMUTE_D, "plain", NULL, .run = plain_unpermute_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
