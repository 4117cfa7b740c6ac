/* fast_moe_dispatch.c - capacity, permutation and its inverse on all threads.
 *
 * P1  A thread owns tokens; a row belongs to one token, so no two threads write to one row.
 * P2  Sums go over k in ascending order, as in row 0: the bits are the same.
 * P3  Every byte of the outputs is written once: rows without a token are found, not cleared
 *     together with all others beforehand. */
#include "backend/cpu/kernels/fast_moe.h"

#include <string.h>

#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

/* Weights are not negative, and the bits of such floats are ordered as they are. */
static uint32_t key_of(float weight)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits;
}

/* For each expert the largest key that at least `capacity` of its weights reach (0: fewer weights
 * than that). Bit by bit for all experts at once: 31 passes, and no list of an expert's tokens. */
static void find_thresholds(const op *o, const float *probs, const int32_t *ids,
                            uint32_t *thresholds /* [E] */)
{
    int64_t n = o->dim[DIM_DROP_T] * o->dim[DIM_DROP_K], E = o->dim[DIM_DROP_E];
    int32_t counts[EXPERTS_MAX]; /* [E] */
    memset(thresholds, 0, (size_t)E * sizeof *thresholds);
    for (int bit = 30; bit >= 0; bit--) {
        uint32_t one = (uint32_t)1 << bit;
        memset(counts, 0, (size_t)E * sizeof *counts);
        for (int64_t i = 0; i < n; i++)
            counts[ids[i]] += key_of(probs[i]) >= (thresholds[ids[i]] | one);
        for (int64_t e = 0; e < E; e++)
            if (counts[e] >= o->dim[DIM_DROP_CAPACITY]) thresholds[e] |= one;
    }
}

static void fast_drop(const op *o, void *const *in, void *const *out)
{
    const op_drop a = op_drop_of(o, in, out);
    int64_t n = a.T * a.K;
    bool by_position = a.POSITION == 1;
    uint32_t thresholds[EXPERTS_MAX]; /* [E] */
    int64_t left[EXPERTS_MAX];        /* [E]: room for weights that equal the threshold */
    if (!by_position) find_thresholds(o, a.probs, a.ids, thresholds);
    for (int64_t e = 0; e < a.E; e++) left[e] = a.CAPACITY;
    for (int64_t i = 0; i < n && !by_position; i++)
        left[a.ids[i]] -= key_of(a.probs[i]) > thresholds[a.ids[i]];
    for (int64_t i = 0; i < n; i++) {
        int32_t e = a.ids[i];
        bool sure = !by_position && key_of(a.probs[i]) > thresholds[e];
        bool equal = by_position || key_of(a.probs[i]) == thresholds[e];
        a.keep[i] = sure || (equal && left[e]-- > 0);
    }
}

enum { GAP_ROWS = 8192 }; /* rows that are looked through at a time */

/* Which of the rows `s` has a token? */
static void mark_filled(const int32_t *rows, int64_t n, span s, bool *filled /* [GAP_ROWS] */)
{
    memset(filled, 0, GAP_ROWS * sizeof *filled);
    for (int64_t i = 0; i < n; i++)
        if (rows[i] >= s.begin && rows[i] < s.end) filled[rows[i] - s.begin] = true;
}

/* Zeroes the rows of xp[ROOM][H] and pp[ROOM] (may be missing) that no token fills (P3). */
static void zero_gaps(const op *o, const int32_t *rows, float *xp, float *pp)
{
    int64_t n = o->dim[DIM_PERMUTE_T] * o->dim[DIM_PERMUTE_K], H = o->dim[DIM_PERMUTE_H],
            room = o->dim[DIM_PERMUTE_ROOM], n_filled = 0;
    for (int64_t i = 0; i < n; i++) n_filled += rows[i] >= 0;
    if (n_filled == room) return;
#pragma omp parallel for schedule(dynamic)
    for (int64_t begin = 0; begin < room; begin += GAP_ROWS) {
        span s = {begin, begin + GAP_ROWS < room ? begin + GAP_ROWS : room};
        bool filled[GAP_ROWS];
        mark_filled(rows, n, s, filled);
        for (int64_t r = s.begin; r < s.end; r++) {
            if (filled[r - s.begin]) continue;
            memset(xp + r * H, 0, (size_t)H * sizeof *xp);
            if (pp) pp[r] = 0;
        }
    }
}

static void fast_permute(const op *o, void *const *in, void *const *out)
{
    const op_permute a = op_permute_of(o, in, out);
    zero_gaps(o, a.rows, a.xp, a.pp);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < a.T; t++)
        for (int64_t i = t * a.K; i < (t + 1) * a.K; i++) {
            if (a.rows[i] < 0) continue;
            memcpy(a.xp + a.rows[i] * a.H, a.x + t * a.H, (size_t)a.H * sizeof *a.xp);
            if (a.pp) a.pp[a.rows[i]] = a.probs[i];
        }
}

static void fast_unpermute_d(const op *o, void *const *in, void *const *out)
{
    void *x[] = {in[IN_UNPERMUTE_D_dy], NULL, in[IN_UNPERMUTE_D_rows]};
    void *xp[] = {out[OUT_UNPERMUTE_D_dyp], NULL};
    fast_permute(o, x, xp);
}

enum { COLUMNS = 2048 }; /* of a token's sum at a time: they stay in the first cache */

/* y[H] = or += the rows of one token. */
static void sum_token(const op *o, const float *yp, const int32_t *rows /* [K] */, float *y)
{
    int64_t K = o->dim[DIM_UNPERMUTE_K], H = o->dim[DIM_UNPERMUTE_H];
    for (int64_t begin = 0; begin < H; begin += COLUMNS) {
        int64_t n = H - begin < COLUMNS ? H - begin : COLUMNS;
        float *restrict sum = y + begin; /* [n] */
        if (!(o->flags & ACCUMULATE)) memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t k = 0; k < K; k++) {
            if (rows[k] < 0) continue;
            const float *row = yp + rows[k] * H + begin;      /* [n] */
            for (int64_t h = 0; h < n; h++) sum[h] += row[h]; /* P2 */
        }
    }
}

static void fast_unpermute(const op *o, void *const *in, void *const *out)
{
    const op_unpermute a = op_unpermute_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < a.T; t++) sum_token(o, a.yp, a.rows + t * a.K, a.y + t * a.H);
}

static void fast_permute_d(const op *o, void *const *in, void *const *out)
{
    const op_permute_d a = op_permute_d_of(o, in, out);
    void *sums[] = {in[IN_PERMUTE_D_dxp], in[IN_PERMUTE_D_rows]};
    fast_unpermute(o, sums, out);
    for (int64_t i = 0; a.dprobs && i < a.T * a.K; i++)
        a.dprobs[i] = a.rows[i] < 0 ? 0 : a.dpp[a.rows[i]];
}

/* Where experts are not aligned filled rows are the first ones. */
static void fast_flex_place(const op *o, void *const *in, void *const *out)
{
    const op_flex_place a = op_flex_place_of(o, in, out);
    int64_t end;
    flex_sort(o, in, out);
    end = a.ALIGN > 1 ? 0 : a.offsets[a.E];
    memset(a.xp + end * a.H, 0, (size_t)((a.ROOM - end) * a.H) * sizeof *a.xp);
    memset(a.pp + end, 0, (size_t)(a.ROOM - end) * sizeof *a.pp);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < a.T; t++)
        for (int64_t k = 0; k < a.K; k++) {
            int64_t row = a.rows[t * a.K + k];
            if (row < 0) continue;
            memcpy(a.xp + row * a.H, a.x + t * a.H, (size_t)a.H * sizeof *a.xp); /* P1 */
            a.pp[row] = a.meta[t * 2 * a.K + a.K + k];
        }
}

kernel_rows fast_moe_dispatch(void)
{
    static const kernel rows[] = {
        {OP_DROP, "threshold", .accepts = experts_fit, .run = fast_drop},
        {OP_PERMUTE, "threads", .run = fast_permute},
        {OP_PERMUTE_D, "threads", .run = fast_permute_d},
        {OP_UNPERMUTE, "threads", .run = fast_unpermute},
        {OP_UNPERMUTE_D, "threads", .run = fast_unpermute_d},
        {OP_FLEX_PLACE, "threads", .run = fast_flex_place},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
