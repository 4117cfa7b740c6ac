/* plain_dense_heads.c - row 0 of what stands between GEMMs and attention: cutting a projection
 * into heads, rotation, and the keys and values of latent attention. */
#include "backend/cpu/kernels/plain_dense.h"

#include <string.h>

#include "backend/cpu/kernels/real.h"

static void move(real *to, const real *from, int64_t n)
{
    memcpy(to, from, sizeof(real) * (size_t)n);
}

static void qkv_split(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_QKV_SPLIT_T], n = o->dim[DIM_QKV_SPLIT_N],
                  g = o->dim[DIM_QKV_SPLIT_G], d = o->dim[DIM_QKV_SPLIT_D];
    const real *qkv = in[IN_QKV_SPLIT_qkv]; /* [T][G][queries, gates, key, value][D] */
    real *q = out[OUT_QKV_SPLIT_q];         /* [T][N][D] */
    real *k = out[OUT_QKV_SPLIT_k];         /* [T][G][D] */
    real *v = out[OUT_QKV_SPLIT_v];         /* [T][G][D] */
    real *gates = out[OUT_QKV_SPLIT_gate];  /* [T][N][D], may be missing */
    const int64_t r = n / g * d;
    for (int64_t i = 0; i < n_t * g; i++) {
        move(q + i * r, qkv, r);
        qkv += r;
        if (gates) {
            move(gates + i * r, qkv, r);
            qkv += r;
        }
        move(k + i * d, qkv, d);
        move(v + i * d, qkv + d, d);
        qkv += 2 * d;
    }
}

static void qkv_join(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_QKV_JOIN_T], n = o->dim[DIM_QKV_JOIN_N],
                  g = o->dim[DIM_QKV_JOIN_G], d = o->dim[DIM_QKV_JOIN_D];
    const real *dq = in[IN_QKV_JOIN_dq];       /* [T][N][D] */
    const real *dk = in[IN_QKV_JOIN_dk];       /* [T][G][D] */
    const real *dv = in[IN_QKV_JOIN_dv];       /* [T][G][D] */
    const real *dgate = in[IN_QKV_JOIN_dgate]; /* [T][N][D], may be missing */
    real *dqkv = out[OUT_QKV_JOIN_dqkv];       /* [T][G][queries, gates, key, value][D] */
    const int64_t r = n / g * d;
    for (int64_t i = 0; i < n_t * g; i++) {
        move(dqkv, dq + i * r, r);
        dqkv += r;
        if (dgate) {
            move(dqkv, dgate + i * r, r);
            dqkv += r;
        }
        move(dqkv, dk + i * d, d);
        move(dqkv + d, dv + i * d, d);
        dqkv += 2 * d;
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
    rotate(o, in[IN_ROPE_table], out[OUT_ROPE_x], 1);
}

static void rope_d(const op *o, void *const *in, void *const *out)
{
    rotate(o, in[IN_ROPE_D_table], out[OUT_ROPE_D_dx], -1);
}

/* ---- latent attention */

static void mla_kv_split(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_MLA_KV_SPLIT_T], r = o->dim[DIM_MLA_KV_SPLIT_R],
                  dr = o->dim[DIM_MLA_KV_SPLIT_Dr];
    const real *c = in[IN_MLA_KV_SPLIT_c];       /* [T][R+Dr] */
    real *latent = out[OUT_MLA_KV_SPLIT_latent]; /* [T][R] */
    real *kpe = out[OUT_MLA_KV_SPLIT_kpe];       /* [T][Dr] */
    for (int64_t t = 0; t < n_t; t++) {
        move(latent + t * r, c + t * (r + dr), r);
        move(kpe + t * dr, c + t * (r + dr) + r, dr);
    }
}

static void mla_kv_merge(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_MLA_KV_MERGE_T], r = o->dim[DIM_MLA_KV_MERGE_R],
                  dr = o->dim[DIM_MLA_KV_MERGE_Dr];
    const real *dlatent = in[IN_MLA_KV_MERGE_dlatent]; /* [T][R] */
    const real *dkpe = in[IN_MLA_KV_MERGE_dkpe];       /* [T][Dr] */
    real *dc = out[OUT_MLA_KV_MERGE_dc];               /* [T][R+Dr] */
    for (int64_t t = 0; t < n_t; t++) {
        move(dc + t * (r + dr), dlatent + t * r, r);
        move(dc + t * (r + dr) + r, dkpe + t * dr, dr);
    }
}

static void mla_kv_join(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_MLA_KV_JOIN_T], n = o->dim[DIM_MLA_KV_JOIN_N],
                  dn = o->dim[DIM_MLA_KV_JOIN_Dn], dr = o->dim[DIM_MLA_KV_JOIN_Dr],
                  dv = o->dim[DIM_MLA_KV_JOIN_Dv];
    const real *kv = in[IN_MLA_KV_JOIN_kv];   /* [T][N][Dn+Dv] */
    const real *kpe = in[IN_MLA_KV_JOIN_kpe]; /* [T][Dr] */
    real *k = out[OUT_MLA_KV_JOIN_k];         /* [T][N][Dn+Dr] */
    real *v = out[OUT_MLA_KV_JOIN_v];         /* [T][N][Dv] */
    for (int64_t i = 0; i < n_t * n; i++) {
        move(k + i * (dn + dr), kv + i * (dn + dv), dn);
        move(k + i * (dn + dr) + dn, kpe + i / n * dr, dr);
        move(v + i * dv, kv + i * (dn + dv) + dn, dv);
    }
}

static void mla_kv_join_d(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_MLA_KV_JOIN_D_T], n = o->dim[DIM_MLA_KV_JOIN_D_N],
                  dn = o->dim[DIM_MLA_KV_JOIN_D_Dn], dr = o->dim[DIM_MLA_KV_JOIN_D_Dr],
                  dv = o->dim[DIM_MLA_KV_JOIN_D_Dv];
    const real *dk = in[IN_MLA_KV_JOIN_D_dk];  /* [T][N][Dn+Dr] */
    const real *d_v = in[IN_MLA_KV_JOIN_D_dv]; /* [T][N][Dv] */
    real *dkv = out[OUT_MLA_KV_JOIN_D_dkv];    /* [T][N][Dn+Dv] */
    real *dkpe = out[OUT_MLA_KV_JOIN_D_dkpe];  /* [T][Dr] */
    for (int64_t i = 0; i < n_t * n; i++) {
        move(dkv + i * (dn + dv), dk + i * (dn + dr), dn);
        move(dkv + i * (dn + dv) + dn, d_v + i * dv, dv);
    }
    for (int64_t t = 0; t < n_t; t++)
        for (int64_t j = 0; j < dr; j++) {
            double sum = 0;
            for (int64_t i = t * n; i < (t + 1) * n; i++) sum += (double)dk[i * (dn + dr) + dn + j];
            dkpe[t * dr + j] = (real)sum;
        }
}

static const kernel head_rows[] = {
    {OP_QKV_SPLIT, "plain", NULL, .run = qkv_split},
    {OP_QKV_JOIN, "plain", NULL, .run = qkv_join},
    {OP_ROPE, "plain", NULL, .run = rope},
    {OP_ROPE_D, "plain", NULL, .run = rope_d},
    {OP_MLA_KV_SPLIT, "plain", NULL, .run = mla_kv_split},
    {OP_MLA_KV_MERGE, "plain", NULL, .run = mla_kv_merge},
    {OP_MLA_KV_JOIN, "plain", NULL, .run = mla_kv_join},
    {OP_MLA_KV_JOIN_D, "plain", NULL, .run = mla_kv_join_d},
};

kernel_rows plain_dense_heads(void)
{
    return (kernel_rows){head_rows, sizeof head_rows / sizeof head_rows[0]};
}
