/* plain_moe_meta.c - what travels beside a flex dispatcher's rows: the experts of each and their
 * weights, 2K numbers a row. Ids are numbers, too: they are exact up to 2^24. */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

#include <string.h>

static void plain_flex_pack(const op *o, void *const *in, void *const *out)
{
    const op_flex_pack a = op_flex_pack_of(o, in, out);
    for (int64_t i = 0; i < a.T * a.K; i++) {
        real *row = a.meta + i / a.K * 2 * a.K; /* [2K] */
        row[i % a.K] = !a.keep || a.keep[i] != 0 ? (real)a.ids[i] : -1;
        row[a.K + i % a.K] = a.probs[i];
    }
}

static void plain_flex_unpack(const op *o, void *const *in, void *const *out)
{
    const op_flex_unpack a = op_flex_unpack_of(o, in, out);
    int64_t filled = rows_received(a.hop2, a.P);
    for (int64_t i = 0; i < a.ROOM * a.K; i++) {
        const real *row = a.meta + i / a.K * 2 * a.K; /* [2K] */
        a.ids[i] = i / a.K < filled ? (int32_t)row[i % a.K] : -1;
        a.probs[i] = i / a.K < filled ? row[a.K + i % a.K] : 0;
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
    const op_flex_place a = op_flex_place_of(o, in, out);
    int64_t n = rows_received(a.hop2, a.P) * a.K;
    memset(a.offsets, 0, (size_t)(a.E + 1) * sizeof *a.offsets);
    memset(a.rows, -1, (size_t)(a.T * a.K) * sizeof *a.rows);
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert_of(o, a.meta, i);
        if (e >= 0) a.offsets[e + 1]++;
    }
    for (int64_t e = 0; e < a.E; e++)
        a.offsets[e + 1] = (int32_t)(a.offsets[e] + aligned_rows(a.offsets[e + 1], a.ALIGN));
    a.demand[0] = a.offsets[a.E];
    a.demand[1] = (int32_t)a.ROOM;
    for (int64_t i = 0; i < n; i++) {
        int64_t e = own_expert_of(o, a.meta, i);
        int32_t row = e >= 0 ? a.offsets[e]++ : -1;
        a.rows[i] = row < a.ROOM ? row : -1;
    }
    for (int64_t e = a.E; e > 0; e--) /* ends, aligned, are starts of the next */
        a.offsets[e] = (int32_t)aligned_rows(a.offsets[e - 1], a.ALIGN);
    a.offsets[0] = 0;
    for (int64_t e = 1; e <= a.E; e++)
        if (a.offsets[e] > a.ROOM) a.offsets[e] = (int32_t)a.ROOM;
}

static void plain_flex_place(const op *o, void *const *in, void *const *out)
{
    const op_flex_place a = op_flex_place_of(o, in, out);
    flex_sort(o, in, out);
    memset(a.xp, 0, (size_t)(a.ROOM * a.H) * sizeof *a.xp);
    memset(a.pp, 0, (size_t)a.ROOM * sizeof *a.pp);
    for (int64_t i = 0; i < a.T * a.K; i++) {
        if (a.rows[i] < 0) continue;
        memcpy(a.xp + a.rows[i] * a.H, a.x + i / a.K * a.H, (size_t)a.H * sizeof *a.xp);
        a.pp[a.rows[i]] = a.meta[i / a.K * 2 * a.K + a.K + i % a.K];
    }
}

kernel_rows plain_moe_meta(void)
{
    static const kernel rows[] = {
        {OP_FLEX_PACK, "plain", .run = plain_flex_pack},
        {OP_FLEX_UNPACK, "plain", .run = plain_flex_unpack},
        {OP_FLEX_PLACE, "plain", .run = plain_flex_place},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
