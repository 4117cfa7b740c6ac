/* fast_gdn_chunk.c - a chunk of the gated delta rule: its matrices and its triangular systems.
 *
 * I1  GEMMs that fill or use a lower triangle go by strips of rows and stop at the diagonal's
 *     strip. What they leave beyond it is never read, or cleared here.
 * I2  A system is solved by blocks: GEMMs with what is solved already, then the few rows of the
 *     block one after another. */
#include "backend/cpu/kernels/fast_gdn.h"

#include <math.h>
#include <string.h>

enum { STRIP = 16 };

bool gdn_rule_accepts(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_GDN_RULE_Dk] <= GDN_HEAD && o->dim[DIM_GDN_RULE_Dv] <= GDN_HEAD &&
           o->dim[DIM_GDN_RULE_CHUNK] <= GDN_CHUNK;
}

void gdn_rule_sizes(gdn_rule *r, const op *o)
{
    r->use = lanes_best();
    r->b = o->dim[DIM_GDN_RULE_B], r->s = o->dim[DIM_GDN_RULE_S], r->nk = o->dim[DIM_GDN_RULE_Nk],
    r->nv = o->dim[DIM_GDN_RULE_Nv];
    r->dk = o->dim[DIM_GDN_RULE_Dk], r->dv = o->dim[DIM_GDN_RULE_Dv],
    r->chunk = o->dim[DIM_GDN_RULE_CHUNK];
    r->n_chunks = (r->s + r->chunk - 1) / r->chunk;
    r->row = 2 * r->nk * r->dk + r->nv * r->dv;
    r->k_stride = lanes_round(r->dk), r->v_stride = lanes_round(r->dv);
}

float gdn_normalise(const gdn_rule *r, const float *x, int64_t n, float *y)
{
    const float by = 1 / sqrtf(r->use->dot(x, x, n) + 1e-6f);
    for (int64_t i = 0; i < n; i++) y[i] = by * x[i];
    return by;
}

static void find(const gdn_rule *r, gdn_chunk *c)
{
    const int64_t at = c->index * r->chunk, left = r->s - at;
    c->first = c->batch * r->s + at;
    c->n = left < r->chunk ? left : r->chunk;
    c->q_at = c->first * r->row + c->head / (r->nv / r->nk) * r->dk;
    c->k_at = c->q_at + r->nk * r->dk;
    c->v_at = c->first * r->row + 2 * r->nk * r->dk + c->head * r->dv;
    c->head_at = c->first * r->nv + c->head;
}

static void read_keys(const gdn_rule *r, gdn_chunk *c)
{
    const float by = 1 / sqrtf((float)r->dk);
    for (int64_t t = 0; t < c->n; t++) {
        float *q = c->q + t * r->k_stride; /* [Dk] */
        gdn_normalise(r, r->qkv + c->k_at + t * r->row, r->dk, c->k + t * r->k_stride);
        gdn_normalise(r, r->qkv + c->q_at + t * r->row, r->dk, q);
        for (int64_t i = 0; i < r->dk; i++) q[i] *= by;
    }
    lanes_transpose(&(transposition){.x = c->k,
                                     .n_rows = c->n,
                                     .n_cols = r->dk,
                                     .x_row = r->k_stride,
                                     .y = c->kt,
                                     .y_row = GDN_CHUNK,
                                     .pad = lanes_round(c->n),
                                     .by = 1});
}

/* Sums of g in double: exponents are differences of numbers that may be far larger. */
static void read_gates(const gdn_rule *r, gdn_chunk *c)
{
    double sum[GDN_CHUNK], so_far = 0;
    for (int64_t t = 0; t < c->n; t++) {
        sum[t] = so_far += (double)r->g[c->head_at + t * r->nv];
        c->beta[t] = r->beta[c->head_at + t * r->nv];
    }
    for (int64_t t = 0; t < c->n; t++) {
        float *row = c->decay + t * GDN_CHUNK;
        for (int64_t j = 0; j <= t; j++) row[j] = (float)(sum[t] - sum[j]);
        r->use->exp(row, row, t + 1);
        memset(row + t + 1, 0, sizeof *row * (size_t)(GDN_CHUNK - t - 1));
        c->from_start[t] = (float)sum[t];
        c->to_end[t] = (float)(so_far - sum[t]);
    }
    r->use->exp(c->from_start, c->from_start, c->n);
    r->use->exp(c->to_end, c->to_end, c->n);
}

/* to[n][GDN_CHUNK] = x[n][k_stride] K^T, as far as the diagonal (I1). */
static void times_keys(const gdn_rule *r, const gdn_chunk *c, const float *x, float *to)
{
    for (int64_t t = 0; t < c->n; t += STRIP) {
        const int64_t m = c->n - t < STRIP ? c->n - t : STRIP;
        gemm p = {.m = m, .n = t + m, .k = r->dk};
        p.a = x + t * r->k_stride, p.a_row = r->k_stride, p.a_col = 1;
        p.b = c->kt, p.b_row = GDN_CHUNK;
        p.c = to + t * GDN_CHUNK, p.c_row = GDN_CHUNK;
        r->use->gemm(&p);
    }
}

void gdn_chunk_read(const gdn_rule *r, gdn_chunk *c, int64_t batch, int64_t head, int64_t index)
{
    c->batch = batch, c->head = head, c->index = index;
    find(r, c);
    read_keys(r, c);
    read_gates(r, c);
    times_keys(r, c, c->k, c->kk);
    times_keys(r, c, c->q, c->p);
    for (int64_t t = 0; t < c->n; t++) {
        const float *decay = c->decay + t * GDN_CHUNK, *kk = c->kk + t * GDN_CHUNK;
        float *a = c->a + t * GDN_CHUNK, *p = c->p + t * GDN_CHUNK;
        for (int64_t j = 0; j <= t; j++) {
            a[j] = -c->beta[t] * decay[j] * kk[j];
            p[j] *= decay[j];
        }
        for (int64_t j = t; j < c->n; j++) a[j] = 0;
        for (int64_t j = t + 1; j < c->n; j++) p[j] = 0;
    }
}

void gdn_chunk_solve(const gdn_rule *r, gdn_chunk *c, const float *state /* [Dk][v_stride] */)
{
    gemm p = {.m = c->n, .n = r->dv, .k = r->dk};
    p.a = c->k, p.a_row = r->k_stride, p.a_col = 1;
    p.b = state, p.b_row = r->v_stride;
    p.c = c->had, p.c_row = r->v_stride;
    r->use->gemm(&p);
    for (int64_t t = 0; t < c->n; t++) {
        const float *v = r->qkv + c->v_at + t * r->row; /* [Dv] */
        const float *had = c->had + t * r->v_stride;
        float *delta = c->delta + t * r->v_stride;
        for (int64_t i = 0; i < r->dv; i++)
            delta[i] = c->beta[t] * (v[i] - c->from_start[t] * had[i]);
    }
    gdn_forward_substitution(r, c, c->delta);
}

void gdn_forward_substitution(const gdn_rule *r, const gdn_chunk *c, float *x /* [n][v_stride] */)
{
    for (int64_t t = 0; t < c->n; t += STRIP) {
        const int64_t m = c->n - t < STRIP ? c->n - t : STRIP;
        gemm p = {.m = m, .n = r->dv, .k = t, .add = true};
        p.a = c->a + t * GDN_CHUNK, p.a_row = GDN_CHUNK, p.a_col = 1;
        p.b = x, p.b_row = r->v_stride;
        p.c = x + t * r->v_stride, p.c_row = r->v_stride;
        if (t > 0) r->use->gemm(&p);
        for (int64_t i = t + 1; i < t + m; i++)
            for (int64_t j = t; j < i; j++)
                r->use->add_scaled(x + i * r->v_stride, x + j * r->v_stride,
                                   c->a[i * GDN_CHUNK + j], r->dv);
    }
}

void gdn_backward_substitution(const gdn_rule *r, const gdn_chunk *c, float *x /* [n][v_stride] */)
{
    for (int64_t t = (c->n - 1) / STRIP * STRIP; t >= 0; t -= STRIP) {
        const int64_t past = c->n - t < STRIP ? c->n : t + STRIP;
        gemm p = {.m = past - t, .n = r->dv, .k = c->n - past, .add = true};
        p.a = c->a + past * GDN_CHUNK + t, p.a_row = 1, p.a_col = GDN_CHUNK;
        p.b = x + past * r->v_stride, p.b_row = r->v_stride;
        p.c = x + t * r->v_stride, p.c_row = r->v_stride;
        if (past < c->n) r->use->gemm(&p);
        for (int64_t i = past - 2; i >= t; i--)
            for (int64_t j = past - 1; j > i; j--)
                r->use->add_scaled(x + i * r->v_stride, x + j * r->v_stride,
                                   c->a[j * GDN_CHUNK + i], r->dv);
    }
}
