/* fast_dense_heads.c - heads, rotation and latent keys on threads: a token is one thread's. */
#include "backend/cpu/kernels/fast_dense.h"

static void move(float *to, const float *from, int64_t n)
{
    memcpy(to, from, sizeof(float) * (size_t)n);
}

/* ---- queries, keys, values */

static void qkv_split_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t g = c->o->dim[DIM_QKV_SPLIT_G], d = c->o->dim[DIM_QKV_SPLIT_D],
                  r = c->o->dim[DIM_QKV_SPLIT_N] / g * d;
    float *q = c->out[OUT_QKV_SPLIT_q];       /* [T][N][D] */
    float *k = c->out[OUT_QKV_SPLIT_k];       /* [T][G][D] */
    float *v = c->out[OUT_QKV_SPLIT_v];       /* [T][G][D] */
    float *gate = c->out[OUT_QKV_SPLIT_gate]; /* [T][N][D], may be missing */
    const int64_t width = (gate ? 2 : 1) * r + 2 * d;
    for (int64_t i = begin * g; i < end * g; i++) {
        const float *group =
            (const float *)c->in[IN_QKV_SPLIT_qkv] + i * width; /* queries, gates, key, value */
        move(q + i * r, group, r);
        if (gate) move(gate + i * r, group + r, r);
        move(k + i * d, group + width - 2 * d, d);
        move(v + i * d, group + width - d, d);
    }
}

static void fast_qkv_split(const op *o, void *const *in, void *const *out)
{
    share_rows(qkv_split_span, &(call){o, in, out}, o->dim[DIM_QKV_SPLIT_T],
               2 * o->dim[DIM_QKV_SPLIT_N] * o->dim[DIM_QKV_SPLIT_D]);
}

static void qkv_join_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t g = c->o->dim[DIM_QKV_JOIN_G], d = c->o->dim[DIM_QKV_JOIN_D],
                  r = c->o->dim[DIM_QKV_JOIN_N] / g * d;
    const float *dq = c->in[IN_QKV_JOIN_dq];       /* [T][N][D] */
    const float *dk = c->in[IN_QKV_JOIN_dk];       /* [T][G][D] */
    const float *dv = c->in[IN_QKV_JOIN_dv];       /* [T][G][D] */
    const float *dgate = c->in[IN_QKV_JOIN_dgate]; /* [T][N][D], may be missing */
    const int64_t width = (dgate ? 2 : 1) * r + 2 * d;
    for (int64_t i = begin * g; i < end * g; i++) {
        float *group =
            (float *)c->out[OUT_QKV_JOIN_dqkv] + i * width; /* queries, gates, key, value */
        move(group, dq + i * r, r);
        if (dgate) move(group + r, dgate + i * r, r);
        move(group + width - 2 * d, dk + i * d, d);
        move(group + width - d, dv + i * d, d);
    }
}

static void fast_qkv_join(const op *o, void *const *in, void *const *out)
{
    share_rows(qkv_join_span, &(call){o, in, out}, o->dim[DIM_QKV_JOIN_T],
               2 * o->dim[DIM_QKV_JOIN_N] * o->dim[DIM_QKV_JOIN_D]);
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
    const int64_t s = c->o->dim[DIM_ROPE_S], n = c->o->dim[DIM_ROPE_N], d = c->o->dim[DIM_ROPE_D];
    const int64_t offset = c->o->dim[DIM_ROPE_OFFSET], rot = c->o->dim[DIM_ROPE_ROT];
    const float sign = c->o->kind == OP_ROPE ? 1 : -1;
    for (int64_t i = begin * n; i < end * n; i++) {
        const float *table = (const float *)c->in[IN_ROPE_table] + i / n % s * rot; /* [ROT] */
        float *x = (float *)c->out[OUT_ROPE_x] + i * d + offset;                    /* [ROT] */
        if (c->o->flags & INTERLEAVED)
            rotate_pairs(x, table, rot / 2, sign);
        else
            rotate_halves(x, table, rot / 2, sign);
    }
}

static void fast_rope(const op *o, void *const *in, void *const *out)
{
    share_rows(rope_span, &(call){o, in, out}, o->dim[DIM_ROPE_T],
               o->dim[DIM_ROPE_N] * o->dim[DIM_ROPE_D]);
}

static void fast_rope_d(const op *o, void *const *in, void *const *out)
{
    fast_rope(o, in, out); /* the kind says which way */
}

/* ---- latent attention */

static void mla_kv_split_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t r = c->o->dim[DIM_MLA_KV_SPLIT_R], dr = c->o->dim[DIM_MLA_KV_SPLIT_Dr];
    const float *kv = c->in[IN_MLA_KV_SPLIT_c];      /* [T][R+Dr] */
    float *latent = c->out[OUT_MLA_KV_SPLIT_latent]; /* [T][R] */
    float *kpe = c->out[OUT_MLA_KV_SPLIT_kpe];       /* [T][Dr] */
    for (int64_t t = begin; t < end; t++) {
        move(latent + t * r, kv + t * (r + dr), r);
        move(kpe + t * dr, kv + t * (r + dr) + r, dr);
    }
}

static void fast_mla_kv_split(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_split_span, &(call){o, in, out}, o->dim[DIM_MLA_KV_SPLIT_T],
               o->dim[DIM_MLA_KV_SPLIT_R] + o->dim[DIM_MLA_KV_SPLIT_Dr]);
}

static void mla_kv_merge_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t r = c->o->dim[DIM_MLA_KV_MERGE_R], dr = c->o->dim[DIM_MLA_KV_MERGE_Dr];
    const float *dlatent = c->in[IN_MLA_KV_MERGE_dlatent]; /* [T][R] */
    const float *dkpe = c->in[IN_MLA_KV_MERGE_dkpe];       /* [T][Dr] */
    float *dc = c->out[OUT_MLA_KV_MERGE_dc];               /* [T][R+Dr] */
    for (int64_t t = begin; t < end; t++) {
        move(dc + t * (r + dr), dlatent + t * r, r);
        move(dc + t * (r + dr) + r, dkpe + t * dr, dr);
    }
}

static void fast_mla_kv_merge(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_merge_span, &(call){o, in, out}, o->dim[DIM_MLA_KV_MERGE_T],
               o->dim[DIM_MLA_KV_MERGE_R] + o->dim[DIM_MLA_KV_MERGE_Dr]);
}

/* Numbers of a token in keys and values together. */
static int64_t mla_width(const op *o)
{
    return o->dim[DIM_MLA_KV_JOIN_N] *
           (o->dim[DIM_MLA_KV_JOIN_Dn] + o->dim[DIM_MLA_KV_JOIN_Dr] + o->dim[DIM_MLA_KV_JOIN_Dv]);
}

static void mla_kv_join_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[DIM_MLA_KV_JOIN_N], dn = c->o->dim[DIM_MLA_KV_JOIN_Dn],
                  dr = c->o->dim[DIM_MLA_KV_JOIN_Dr], dv = c->o->dim[DIM_MLA_KV_JOIN_Dv];
    const float *kv = c->in[IN_MLA_KV_JOIN_kv];   /* [T][N][Dn+Dv] */
    const float *kpe = c->in[IN_MLA_KV_JOIN_kpe]; /* [T][Dr] */
    float *k = c->out[OUT_MLA_KV_JOIN_k];         /* [T][N][Dn+Dr] */
    float *v = c->out[OUT_MLA_KV_JOIN_v];         /* [T][N][Dv] */
    for (int64_t i = begin * n; i < end * n; i++) {
        move(k + i * (dn + dr), kv + i * (dn + dv), dn);
        move(k + i * (dn + dr) + dn, kpe + i / n * dr, dr);
        move(v + i * dv, kv + i * (dn + dv) + dn, dv);
    }
}

static void fast_mla_kv_join(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_join_span, &(call){o, in, out}, o->dim[DIM_MLA_KV_JOIN_T], mla_width(o));
}

static void mla_kv_join_d_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[DIM_MLA_KV_JOIN_D_N], dn = c->o->dim[DIM_MLA_KV_JOIN_D_Dn],
                  dr = c->o->dim[DIM_MLA_KV_JOIN_D_Dr], dv = c->o->dim[DIM_MLA_KV_JOIN_D_Dv];
    const float *dk = c->in[IN_MLA_KV_JOIN_D_dk];  /* [T][N][Dn+Dr] */
    const float *d_v = c->in[IN_MLA_KV_JOIN_D_dv]; /* [T][N][Dv] */
    float *dkv = c->out[OUT_MLA_KV_JOIN_D_dkv];    /* [T][N][Dn+Dv] */
    float *dkpe = c->out[OUT_MLA_KV_JOIN_D_dkpe];  /* [T][Dr] */
    memset(dkpe + begin * dr, 0, sizeof(float) * (size_t)((end - begin) * dr));
    for (int64_t i = begin * n; i < end * n; i++) {
        const float *key = dk + i * (dn + dr); /* [Dn+Dr] */
        move(dkv + i * (dn + dv), key, dn);
        move(dkv + i * (dn + dv) + dn, d_v + i * dv, dv);
        for (int64_t j = 0; j < dr; j++) dkpe[i / n * dr + j] += key[dn + j];
    }
}

static void fast_mla_kv_join_d(const op *o, void *const *in, void *const *out)
{
    share_rows(mla_kv_join_d_span, &(call){o, in, out}, o->dim[DIM_MLA_KV_JOIN_D_T], mla_width(o));
}

kernel_rows fast_dense_heads(void)
{
    static const kernel rows[] = {
        {OP_QKV_SPLIT, "threads", NULL, .run = fast_qkv_split},
        {OP_QKV_JOIN, "threads", NULL, .run = fast_qkv_join},
        {OP_ROPE, "threads", NULL, .run = fast_rope},
        {OP_ROPE_D, "threads", NULL, .run = fast_rope_d},
        {OP_MLA_KV_SPLIT, "threads", NULL, .run = fast_mla_kv_split},
        {OP_MLA_KV_MERGE, "threads", NULL, .run = fast_mla_kv_merge},
        {OP_MLA_KV_JOIN, "threads", NULL, .run = fast_mla_kv_join},
        {OP_MLA_KV_JOIN_D, "threads", NULL, .run = fast_mla_kv_join_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
