/* fast_dense_heads.c - heads, rotation and latent keys on threads: a token is one thread's. */
#include "backend/cpu/kernels/fast_dense.h"
#include "op/op_operands.h"

static void move(float *to, const float *from, int64_t n)
{
    memcpy(to, from, sizeof(float) * (size_t)n);
}

/* ---- queries, keys, values */

static void qkv_split_span(const call *c, int64_t begin, int64_t end)
{
    const op_qkv_split a = op_qkv_split_of(c->o, c->in, c->out);
    const int64_t r = a.N / a.G * a.D;
    const int64_t width = (a.gate ? 2 : 1) * r + 2 * a.D;
    for (int64_t i = begin * a.G; i < end * a.G; i++) {
        const float *group = a.qkv + i * width; /* queries, gates, key, value */
        move(a.q + i * r, group, r);
        if (a.gate) move(a.gate + i * r, group + r, r);
        move(a.k + i * a.D, group + width - 2 * a.D, a.D);
        move(a.v + i * a.D, group + width - a.D, a.D);
    }
}

static void fast_qkv_split(const op *o, void *const *in, void *const *out)
{
    const op_qkv_split a = op_qkv_split_of(o, in, out);
    share_rows(qkv_split_span, &(call){o, in, out}, a.T, 2 * a.N * a.D);
}

static void qkv_join_span(const call *c, int64_t begin, int64_t end)
{
    const op_qkv_join a = op_qkv_join_of(c->o, c->in, c->out);
    const int64_t r = a.N / a.G * a.D;
    const int64_t width = (a.dgate ? 2 : 1) * r + 2 * a.D;
    for (int64_t i = begin * a.G; i < end * a.G; i++) {
        float *group = a.dqkv + i * width; /* queries, gates, key, value */
        move(group, a.dq + i * r, r);
        if (a.dgate) move(group + r, a.dgate + i * r, r);
        move(group + width - 2 * a.D, a.dk + i * a.D, a.D);
        move(group + width - a.D, a.dv + i * a.D, a.D);
    }
}

static void fast_qkv_join(const op *o, void *const *in, void *const *out)
{
    const op_qkv_join a = op_qkv_join_of(o, in, out);
    share_rows(qkv_join_span, &(call){o, in, out}, a.T, 2 * a.N * a.D);
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
    const op_rope a = op_rope_of(c->o, c->in, c->out);
    const float sign = c->o->kind == OP_ROPE ? 1 : -1;
    for (int64_t i = begin * a.N; i < end * a.N; i++) {
        const float *table = a.table + i / a.N % a.S * a.ROT; /* [ROT] */
        float *x = a.x + i * a.D + a.OFFSET;                  /* [ROT] */
        if (c->o->flags & INTERLEAVED)
            rotate_pairs(x, table, a.ROT / 2, sign);
        else
            rotate_halves(x, table, a.ROT / 2, sign);
    }
}

static void fast_rope(const op *o, void *const *in, void *const *out)
{
    const op_rope a = op_rope_of(o, in, out);
    share_rows(rope_span, &(call){o, in, out}, a.T, a.N * a.D);
}

static void fast_rope_d(const op *o, void *const *in, void *const *out)
{
    fast_rope(o, in, out); /* the kind says which way */
}

/* ---- latent attention */

static void mla_kv_split_span(const call *c, int64_t begin, int64_t end)
{
    const op_mla_kv_split a = op_mla_kv_split_of(c->o, c->in, c->out);
    for (int64_t t = begin; t < end; t++) {
        move(a.latent + t * a.R, a.c + t * (a.R + a.Dr), a.R);
        move(a.kpe + t * a.Dr, a.c + t * (a.R + a.Dr) + a.R, a.Dr);
    }
}

static void fast_mla_kv_split(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_split a = op_mla_kv_split_of(o, in, out);
    share_rows(mla_kv_split_span, &(call){o, in, out}, a.T, a.R + a.Dr);
}

static void mla_kv_merge_span(const call *c, int64_t begin, int64_t end)
{
    const op_mla_kv_merge a = op_mla_kv_merge_of(c->o, c->in, c->out);
    for (int64_t t = begin; t < end; t++) {
        move(a.dc + t * (a.R + a.Dr), a.dlatent + t * a.R, a.R);
        move(a.dc + t * (a.R + a.Dr) + a.R, a.dkpe + t * a.Dr, a.Dr);
    }
}

static void fast_mla_kv_merge(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_merge a = op_mla_kv_merge_of(o, in, out);
    share_rows(mla_kv_merge_span, &(call){o, in, out}, a.T, a.R + a.Dr);
}

/* Numbers of a token in keys and values together. */
static int64_t mla_width(const op *o)
{
    return o->dim[DIM_MLA_KV_JOIN_N] *
           (o->dim[DIM_MLA_KV_JOIN_Dn] + o->dim[DIM_MLA_KV_JOIN_Dr] + o->dim[DIM_MLA_KV_JOIN_Dv]);
}

static void mla_kv_join_span(const call *c, int64_t begin, int64_t end)
{
    const op_mla_kv_join a = op_mla_kv_join_of(c->o, c->in, c->out);
    for (int64_t i = begin * a.N; i < end * a.N; i++) {
        move(a.k + i * (a.Dn + a.Dr), a.kv + i * (a.Dn + a.Dv), a.Dn);
        move(a.k + i * (a.Dn + a.Dr) + a.Dn, a.kpe + i / a.N * a.Dr, a.Dr);
        move(a.v + i * a.Dv, a.kv + i * (a.Dn + a.Dv) + a.Dn, a.Dv);
    }
}

static void fast_mla_kv_join(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_join a = op_mla_kv_join_of(o, in, out);
    share_rows(mla_kv_join_span, &(call){o, in, out}, a.T, mla_width(o));
}

static void mla_kv_join_d_span(const call *c, int64_t begin, int64_t end)
{
    const op_mla_kv_join_d a = op_mla_kv_join_d_of(c->o, c->in, c->out);
    memset(a.dkpe + begin * a.Dr, 0, sizeof(float) * (size_t)((end - begin) * a.Dr));
    for (int64_t i = begin * a.N; i < end * a.N; i++) {
        const float *key = a.dk + i * (a.Dn + a.Dr); /* [Dn+Dr] */
        move(a.dkv + i * (a.Dn + a.Dv), key, a.Dn);
        move(a.dkv + i * (a.Dn + a.Dv) + a.Dn, a.dv + i * a.Dv, a.Dv);
        for (int64_t j = 0; j < a.Dr; j++) a.dkpe[i / a.N * a.Dr + j] += key[a.Dn + j];
    }
}

static void fast_mla_kv_join_d(const op *o, void *const *in, void *const *out)
{
    const op_mla_kv_join_d a = op_mla_kv_join_d_of(o, in, out);
    share_rows(mla_kv_join_d_span, &(call){o, in, out}, a.T, mla_width(o));
}

kernel_rows fast_dense_heads(void)
{
    static const kernel rows[] = {
        {OP_QKV_SPLIT, "threads", .run = fast_qkv_split},
        {OP_QKV_JOIN, "threads", .run = fast_qkv_join},
        {OP_ROPE, "threads", .run = fast_rope},
        {OP_ROPE_D, "threads", .run = fast_rope_d},
        {OP_MLA_KV_SPLIT, "threads", .run = fast_mla_kv_split},
        {OP_MLA_KV_MERGE, "threads", .run = fast_mla_kv_merge},
        {OP_MLA_KV_JOIN, "threads", .run = fast_mla_kv_join},
        {OP_MLA_KV_JOIN_D, "threads", .run = fast_mla_kv_join_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
