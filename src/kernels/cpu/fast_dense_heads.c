/* fast_dense_heads.c - heads, rotation and latent keys on threads: a token is one thread's. */
#include "kernels/cpu/fast_dense.h"

static void move(float *to, const float *from, int64_t n)
{
    memcpy(to, from, sizeof(float) * (size_t)n);
}

/* ---- queries, keys, values */

static void qkv_split_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t g = c->o->dim[2], d = c->o->dim[3], r = c->o->dim[1] / g * d;
    float *q = c->out[0];    /* [T][N][D] */
    float *k = c->out[1];    /* [T][G][D] */
    float *v = c->out[2];    /* [T][G][D] */
    float *gate = c->out[3]; /* [T][N][D], may be missing */
    const int64_t width = (gate ? 2 : 1) * r + 2 * d;
    for (int64_t i = begin * g; i < end * g; i++) {
        const float *group = (const float *)c->in[0] + i * width; /* queries, gates, key, value */
        move(q + i * r, group, r);
        if (gate) move(gate + i * r, group + r, r);
        move(k + i * d, group + width - 2 * d, d);
        move(v + i * d, group + width - d, d);
    }
}

void fast_qkv_split(const op *o, void *const *in, void *const *out)
{
    share_rows(qkv_split_span, &(call){o, in, out}, o->dim[0], 2 * o->dim[1] * o->dim[3]);
}

static void qkv_join_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t g = c->o->dim[2], d = c->o->dim[3], r = c->o->dim[1] / g * d;
    const float *dq = c->in[0];    /* [T][N][D] */
    const float *dk = c->in[1];    /* [T][G][D] */
    const float *dv = c->in[2];    /* [T][G][D] */
    const float *dgate = c->in[3]; /* [T][N][D], may be missing */
    const int64_t width = (dgate ? 2 : 1) * r + 2 * d;
    for (int64_t i = begin * g; i < end * g; i++) {
        float *group = (float *)c->out[0] + i * width; /* queries, gates, key, value */
        move(group, dq + i * r, r);
        if (dgate) move(group + r, dgate + i * r, r);
        move(group + width - 2 * d, dk + i * d, d);
        move(group + width - d, dv + i * d, d);
    }
}

void fast_qkv_join(const op *o, void *const *in, void *const *out)
{
    share_rows(qkv_join_span, &(call){o, in, out}, o->dim[0], 2 * o->dim[1] * o->dim[3]);
}

/* ---- rotation */

static inline __attribute__((always_inline)) void rotate_halves(float *x, const float *table,
                                                                int64_t half, float sign)
{
    const float *cosine = table, *sine = table + half; /* [ROT/2] each */
    float *a = x, *b = x + half;                       /* [ROT/2] each */
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        const float u = a[j], v = b[j], s = sign * sine[j];
        a[j] = u * cosine[j] - v * s;
        b[j] = v * cosine[j] + u * s;
    }
}

static inline __attribute__((always_inline)) void rotate_pairs(float *x, const float *table,
                                                               int64_t half, float sign)
{
    const float *cosine = table, *sine = table + half; /* [ROT/2] each */
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        const float u = x[2 * j], v = x[2 * j + 1], s = sign * sine[j];
        x[2 * j] = u * cosine[j] - v * s;
        x[2 * j + 1] = v * cosine[j] + u * s;
    }
}

WIDE static void rope_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t s = c->o->dim[1], n = c->o->dim[2], d = c->o->dim[3];
    const int64_t offset = c->o->dim[4], rot = c->o->dim[5];
    const float sign = c->o->kind == OP_ROPE ? 1 : -1;
    for (int64_t i = begin * n; i < end * n; i++) {
        const float *table = (const float *)c->in[0] + i / n % s * rot; /* [ROT] */
        float *x = (float *)c->out[0] + i * d + offset;                 /* [ROT] */
        if (c->o->flags & INTERLEAVED)
            rotate_pairs(x, table, rot / 2, sign);
        else
            rotate_halves(x, table, rot / 2, sign);
    }
}

void fast_rope(const op *o, void *const *in, void *const *out)
{
    share_rows(rope_span, &(call){o, in, out}, o->dim[0], o->dim[2] * o->dim[3]);
}

void fast_rope_d(const op *o, void *const *in, void *const *out)
{
    fast_rope(o, in, out); /* the kind says which way */
}

/* ---- latent attention */

static void mla_kv_split_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t r = c->o->dim[1], dr = c->o->dim[2];
    const float *kv = c->in[0]; /* [T][R+Dr] */
    float *latent = c->out[0];  /* [T][R] */
    float *kpe = c->out[1];     /* [T][Dr] */
    for (int64_t t = begin; t < end; t++) {
        move(latent + t * r, kv + t * (r + dr), r);
        move(kpe + t * dr, kv + t * (r + dr) + r, dr);
    }
}

void fast_mla_kv_split(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_split_span, &(call){o, in, out}, o->dim[0], o->dim[1] + o->dim[2]);
}

static void mla_kv_merge_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t r = c->o->dim[1], dr = c->o->dim[2];
    const float *dlatent = c->in[0]; /* [T][R] */
    const float *dkpe = c->in[1];    /* [T][Dr] */
    float *dc = c->out[0];           /* [T][R+Dr] */
    for (int64_t t = begin; t < end; t++) {
        move(dc + t * (r + dr), dlatent + t * r, r);
        move(dc + t * (r + dr) + r, dkpe + t * dr, dr);
    }
}

void fast_mla_kv_merge(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_merge_span, &(call){o, in, out}, o->dim[0], o->dim[1] + o->dim[2]);
}

/* Numbers of a token in keys and values together. */
static int64_t mla_width(const op *o)
{
    return o->dim[1] * (o->dim[2] + o->dim[3] + o->dim[4]);
}

static void mla_kv_join_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[1], dn = c->o->dim[2], dr = c->o->dim[3], dv = c->o->dim[4];
    const float *kv = c->in[0];  /* [T][N][Dn+Dv] */
    const float *kpe = c->in[1]; /* [T][Dr] */
    float *k = c->out[0];        /* [T][N][Dn+Dr] */
    float *v = c->out[1];        /* [T][N][Dv] */
    for (int64_t i = begin * n; i < end * n; i++) {
        move(k + i * (dn + dr), kv + i * (dn + dv), dn);
        move(k + i * (dn + dr) + dn, kpe + i / n * dr, dr);
        move(v + i * dv, kv + i * (dn + dv) + dn, dv);
    }
}

void fast_mla_kv_join(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_join_span, &(call){o, in, out}, o->dim[0], mla_width(o));
}

static void mla_kv_join_d_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[1], dn = c->o->dim[2], dr = c->o->dim[3], dv = c->o->dim[4];
    const float *dk = c->in[0];  /* [T][N][Dn+Dr] */
    const float *d_v = c->in[1]; /* [T][N][Dv] */
    float *dkv = c->out[0];      /* [T][N][Dn+Dv] */
    float *dkpe = c->out[1];     /* [T][Dr] */
    memset(dkpe + begin * dr, 0, sizeof(float) * (size_t)((end - begin) * dr));
    for (int64_t i = begin * n; i < end * n; i++) {
        const float *key = dk + i * (dn + dr); /* [Dn+Dr] */
        move(dkv + i * (dn + dv), key, dn);
        move(dkv + i * (dn + dv) + dn, d_v + i * dv, dv);
        for (int64_t j = 0; j < dr; j++) dkpe[i / n * dr + j] += key[dn + j];
    }
}

void fast_mla_kv_join_d(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_join_d_span, &(call){o, in, out}, o->dim[0], mla_width(o));
}
