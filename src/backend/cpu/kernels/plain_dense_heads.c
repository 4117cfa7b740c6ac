/* plain_dense_heads.c - row 0 of what stands between GEMMs and attention: cutting a projection
 * into heads, rotation, and the keys and values of latent attention. */
#include "backend/cpu/kernels/plain_dense.h"

#include <string.h>

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

static void move(real *to, const real *from, int64_t n)
{
    memcpy(to, from, sizeof(real) * (size_t)n);
}

static void qkv_split(const op *o, void *const *in, void *const *out)
{
    const op_qkv_split a = op_qkv_split_of(o, in, out);
    const real *qkv = a.qkv; /* [T][G][queries, gates, key, value][D] */
    const int64_t r = a.N / a.G * a.D;
    for (int64_t i = 0; i < a.T * a.G; i++) {
        move(a.q + i * r, qkv, r);
        qkv += r;
        if (a.gate) {
            move(a.gate + i * r, qkv, r);
            qkv += r;
        }
        move(a.k + i * a.D, qkv, a.D);
        move(a.v + i * a.D, qkv + a.D, a.D);
        qkv += 2 * a.D;
    }
}

static void qkv_join(const op *o, void *const *in, void *const *out)
{
    const op_qkv_join a = op_qkv_join_of(o, in, out);
    real *dqkv = a.dqkv; /* [T][G][queries, gates, key, value][D] */
    const int64_t r = a.N / a.G * a.D;
    for (int64_t i = 0; i < a.T * a.G; i++) {
        move(dqkv, a.dq + i * r, r);
        dqkv += r;
        if (a.dgate) {
            move(dqkv, a.dgate + i * r, r);
            dqkv += r;
        }
        move(dqkv, a.dk + i * a.D, a.D);
        move(dqkv + a.D, a.dv + i * a.D, a.D);
        dqkv += 2 * a.D;
    }
}

/* Turns pairs of x by the angles of the table, or back with `sign` -1. */
static void rotate(const op *o, const real *table, real *x, double sign)
{
    const int64_t n_t = o->dim[DIM_ROPE_T], s = o->dim[DIM_ROPE_S], n = o->dim[DIM_ROPE_N],
                  d = o->dim[DIM_ROPE_D], half = o->dim[DIM_ROPE_ROT] / 2;
    const bool pairs = o->flags & INTERLEAVED;
    for (int64_t i = 0; i < n_t * n; i++) {
        const real *c = table + i / n % s * 2 * half;     /* [ROT/2] cosines, [ROT/2] sines */
        real *head = x + i * d + o->dim[DIM_ROPE_OFFSET]; /* [ROT] */
        for (int64_t j = 0; j < half; j++) {
            real *a = pairs ? head + 2 * j : head + j, *b = pairs ? a + 1 : a + half;
            double u = (double)*a, v = (double)*b;
            double cosine = (double)c[j], sine = sign * (double)c[half + j];
            *a = (real)(u * cosine - v * sine);
            *b = (real)(v * cosine + u * sine);
        }
    }
}

static void rope(const op *o, void *const *in, void *const *out)
{
    const op_rope a = op_rope_of(o, in, out);
    rotate(o, a.table, a.x, 1);
}

static void rope_d(const op *o, void *const *in, void *const *out)
{
    const op_rope_d a = op_rope_d_of(o, in, out);
    rotate(o, a.table, a.dx, -1);
}

/* ---- latent attention */

static void mla_kv_split(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_split a = op_mla_kv_split_of(o, in, out);
    for (int64_t t = 0; t < a.T; t++) {
        move(a.latent + t * a.R, a.c + t * (a.R + a.Dr), a.R);
        move(a.kpe + t * a.Dr, a.c + t * (a.R + a.Dr) + a.R, a.Dr);
    }
}

static void mla_kv_merge(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_merge a = op_mla_kv_merge_of(o, in, out);
    for (int64_t t = 0; t < a.T; t++) {
        move(a.dc + t * (a.R + a.Dr), a.dlatent + t * a.R, a.R);
        move(a.dc + t * (a.R + a.Dr) + a.R, a.dkpe + t * a.Dr, a.Dr);
    }
}

static void mla_kv_join(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_join a = op_mla_kv_join_of(o, in, out);
    for (int64_t i = 0; i < a.T * a.N; i++) {
        move(a.k + i * (a.Dn + a.Dr), a.kv + i * (a.Dn + a.Dv), a.Dn);
        move(a.k + i * (a.Dn + a.Dr) + a.Dn, a.kpe + i / a.N * a.Dr, a.Dr);
        move(a.v + i * a.Dv, a.kv + i * (a.Dn + a.Dv) + a.Dn, a.Dv);
    }
}

static void mla_kv_join_d(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_join_d a = op_mla_kv_join_d_of(o, in, out);
    for (int64_t i = 0; i < a.T * a.N; i++) {
        move(a.dkv + i * (a.Dn + a.Dv), a.dk + i * (a.Dn + a.Dr), a.Dn);
        move(a.dkv + i * (a.Dn + a.Dv) + a.Dn, a.dv + i * a.Dv, a.Dv);
    }
    for (int64_t t = 0; t < a.T; t++)
        for (int64_t j = 0; j < a.Dr; j++) {
            double sum = 0;
            for (int64_t i = t * a.N; i < (t + 1) * a.N; i++)
                sum += (double)a.dk[i * (a.Dn + a.Dr) + a.Dn + j];
            a.dkpe[t * a.Dr + j] = (real)sum;
        }
}

static const kernel head_rows[] = {
    {OP_QKV_SPLIT, "plain", .run = qkv_split},
    {OP_QKV_JOIN, "plain", .run = qkv_join},
    {OP_ROPE, "plain", .run = rope},
    {OP_ROPE_D, "plain", .run = rope_d},
    {OP_MLA_KV_SPLIT, "plain", .run = mla_kv_split},
    {OP_MLA_KV_MERGE, "plain", .run = mla_kv_merge},
    {OP_MLA_KV_JOIN, "plain", .run = mla_kv_join},
    {OP_MLA_KV_JOIN_D, "plain", .run = mla_kv_join_d},
};

kernel_rows plain_dense_heads(void)
{
    return (kernel_rows){head_rows, sizeof head_rows / sizeof head_rows[0]};
}
