/* plain_moe_dispatch.c - from tokens to rows of experts and back.
 *
 * D1  Rows stand expert by expert, and by token within an expert.
 * D2  rows[t][k] is a row below ROOM or -1; no two are equal.
 * D3  Rows that nobody fills are zero: GEMMs and sums may then run over whole buffers.
 * D4  A dropped expert gets no row, so it adds nothing and its weight gets no gradient. */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

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
    const op_drop a = op_drop_of(o, in, out);
    int64_t n = a.T * a.K;
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++)
            if (a.ids[j] == a.ids[i] && j != i) before += comes_before(o, a.probs, i, j);
        a.keep[i] = before < a.CAPACITY;
    }
}

static void plain_load(const op *o, void *const *in, void *const *out)
{
    const op_load a = op_load_of(o, in, out);
    for (int64_t i = 0; i < a.T * a.K; i++)
        if (!a.keep || a.keep[i] != 0) a.counts[a.ids[i]] += 1;
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
    const op_sort a = op_sort_of(o, in, out);
    int64_t n = a.T * a.K, pad = padded(o);
    sort_starts(o, a.ids, a.keep, a.offsets);
    if (a.demand) a.demand[0] = a.offsets[a.E], a.demand[1] = (int32_t)a.ROOM;
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert(o, a.ids, a.keep, i);
        int32_t row = e >= 0 ? a.offsets[e]++ : -1; /* offsets[e] is the next free row meanwhile */
        bool fits = row < a.ROOM && (pad == 0 || row < (e + 1) * pad);
        a.rows[i] = fits ? row : -1;
    }
    for (int64_t e = a.E; e > 0; e--) /* without PAD the end of one is now the start of the next */
        a.offsets[e] = (int32_t)(pad ? e * pad : aligned_rows(a.offsets[e - 1], a.ALIGN));
    a.offsets[0] = 0;
    for (int64_t e = 1; e <= a.E; e++)
        if (a.offsets[e] > a.ROOM)
            a.offsets[e] = (int32_t)a.ROOM; /* D2, also for who reads offsets only */
}

static void plain_permute(const op *o, void *const *in, void *const *out)
{
    const op_permute a = op_permute_of(o, in, out);
    memset(a.xp, 0, (size_t)(a.ROOM * a.H) * sizeof *a.xp); /* D3 */
    if (a.pp) memset(a.pp, 0, (size_t)a.ROOM * sizeof *a.pp);
    for (int64_t i = 0; i < a.T * a.K; i++) {
        if (a.rows[i] < 0) continue; /* D4 */
        memcpy(a.xp + a.rows[i] * a.H, a.x + i / a.K * a.H, (size_t)a.H * sizeof *a.xp);
        if (a.pp) a.pp[a.rows[i]] = a.probs[i];
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
    const op_permute_d a = op_permute_d_of(o, in, out);
    sum_rows(o, a.dxp /* [ROOM][H] */, a.rows, a.dx /* [T][H] */);
    for (int64_t i = 0; a.dprobs && i < a.T * a.K; i++)
        a.dprobs[i] = a.rows[i] < 0 ? 0 : a.dpp[a.rows[i]];
}

static void plain_unpermute(const op *o, void *const *in, void *const *out)
{
    const op_unpermute a = op_unpermute_of(o, in, out);
    sum_rows(o, a.yp, a.rows, a.y);
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
        {OP_DROP, "plain", .run = plain_drop},
        {OP_LOAD, "plain", .run = plain_load},
        {OP_SORT, "plain", .run = plain_sort},
        {OP_PERMUTE, "plain", .run = plain_permute},
        {OP_PERMUTE_D, "plain", .run = plain_permute_d},
        {OP_UNPERMUTE, "plain", .run = plain_unpermute},
        {OP_UNPERMUTE_D, "plain", .run = plain_unpermute_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
