/* plain_dense_heads.c - row 0 of what stands between products and attention: cutting a projection
 * into heads, rotation, and the keys and values of latent attention. */
#include "kernels/cpu/plain_dense.h"

#include <string.h>

#include "kernels/cpu/real.h"

static void move(real *to, const real *from, int64_t n)
{
    memcpy(to, from, sizeof(real) * (size_t)n);
}

static void qkv_split(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], n = o->dim[1], g = o->dim[2], d = o->dim[3];
    const real *qkv = in[0]; /* [T][G][queries, gates, key, value][D] */
    real *q = out[0];        /* [T][N][D] */
    real *k = out[1];        /* [T][G][D] */
    real *v = out[2];        /* [T][G][D] */
    real *gates = out[3];    /* [T][N][D], may be missing */
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
    const int64_t n_t = o->dim[0], n = o->dim[1], g = o->dim[2], d = o->dim[3];
    const real *dq = in[0];    /* [T][N][D] */
    const real *dk = in[1];    /* [T][G][D] */
    const real *dv = in[2];    /* [T][G][D] */
    const real *dgate = in[3]; /* [T][N][D], may be missing */
    real *dqkv = out[0];       /* [T][G][queries, gates, key, value][D] */
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
    const int64_t n_t = o->dim[0], s = o->dim[1], n = o->dim[2], d = o->dim[3],
                  half = o->dim[5] / 2;
    const bool pairs = o->flags & INTERLEAVED;
    for (int64_t i = 0; i < n_t * n; i++) {
        const real *c = table + i / n % s * 2 * half; /* [ROT/2] cosines, [ROT/2] sines */
        real *head = x + i * d + o->dim[4];           /* [ROT] */
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
    rotate(o, in[0], out[0], 1);
}

static void rope_d(const op *o, void *const *in, void *const *out)
{
    rotate(o, in[0], out[0], -1);
}

/* ---- latent attention */

static void mla_kv_split(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], r = o->dim[1], dr = o->dim[2];
    const real *c = in[0]; /* [T][R+Dr] */
    real *latent = out[0]; /* [T][R] */
    real *kpe = out[1];    /* [T][Dr] */
    for (int64_t t = 0; t < n_t; t++) {
        move(latent + t * r, c + t * (r + dr), r);
        move(kpe + t * dr, c + t * (r + dr) + r, dr);
    }
}

static void mla_kv_merge(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], r = o->dim[1], dr = o->dim[2];
    const real *dlatent = in[0]; /* [T][R] */
    const real *dkpe = in[1];    /* [T][Dr] */
    real *dc = out[0];           /* [T][R+Dr] */
    for (int64_t t = 0; t < n_t; t++) {
        move(dc + t * (r + dr), dlatent + t * r, r);
        move(dc + t * (r + dr) + r, dkpe + t * dr, dr);
    }
}

static void mla_kv_join(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], n = o->dim[1], dn = o->dim[2], dr = o->dim[3], dv = o->dim[4];
    const real *kv = in[0];  /* [T][N][Dn+Dv] */
    const real *kpe = in[1]; /* [T][Dr] */
    real *k = out[0];        /* [T][N][Dn+Dr] */
    real *v = out[1];        /* [T][N][Dv] */
    for (int64_t i = 0; i < n_t * n; i++) {
        move(k + i * (dn + dr), kv + i * (dn + dv), dn);
        move(k + i * (dn + dr) + dn, kpe + i / n * dr, dr);
        move(v + i * dv, kv + i * (dn + dv) + dn, dv);
    }
}

static void mla_kv_join_d(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], n = o->dim[1], dn = o->dim[2], dr = o->dim[3], dv = o->dim[4];
    const real *dk = in[0];  /* [T][N][Dn+Dr] */
    const real *d_v = in[1]; /* [T][N][Dv] */
    real *dkv = out[0];      /* [T][N][Dn+Dv] */
    real *dkpe = out[1];     /* [T][Dr] */
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
    {OP_QKV_SPLIT, "plain", NULL, qkv_split},
    {OP_QKV_JOIN, "plain", NULL, qkv_join},
    {OP_ROPE, "plain", NULL, rope},
    {OP_ROPE_D, "plain", NULL, rope_d},
    {OP_MLA_KV_SPLIT, "plain", NULL, mla_kv_split},
    {OP_MLA_KV_MERGE, "plain", NULL, mla_kv_merge},
    {OP_MLA_KV_JOIN, "plain", NULL, mla_kv_join},
    {OP_MLA_KV_JOIN_D, "plain", NULL, mla_kv_join_d},
};

kernel_rows plain_dense_heads(void)
{
    return (kernel_rows){head_rows, sizeof head_rows / sizeof head_rows[0]};
}
