/* fast_gdn_rule_back.c - the gradient of the gated delta rule in chunks, last chunk first.
 *
 * With dS the gradient by the state after the chunk and the names of fast_gdn.h:
 *     ddelta = P^T do + e^(G_last - G) K dS       Y = (I + A)^-T ddelta
 *     dP = do delta^T                             dA = -Y delta^T
 *     dv = beta Y,  dS = e^(G_last) dS + (e^G Q)^T do - (beta e^G K)^T Y
 * and dq, dk, dbeta, dG follow from where each stands in A, P, o and S'.
 *
 * I1  A task is a key head of a sequence with all its value heads: nobody else adds to its dq and
 *     dk. dqkv holds their gradients by the normalised q and k until the last head is done.
 * I2  Gradient by G: what stands under e^(G_t - G_j) gives to t what it takes from j; dg is the sum
 *     of the later ones.
 * I3  What pads rows of the two states is zero, so they can be taken as one row. */
#include "backend/cpu/kernels/fast_gdn.h"

#include <math.h>
#include <string.h>

#include "op/op_operands.h"

typedef struct scratch {
    gdn_chunk chunk;
    float state[GDN_HEAD * GDN_HEAD];   /* [Dk][v_stride]: S before the chunk */
    float dstate[GDN_HEAD * GDN_HEAD];  /* [Dk][v_stride]: dS */
    float turned[GDN_HEAD * GDN_HEAD];  /* [Dv][k_stride]: one of the two, turned round */
    float d_o[GDN_CHUNK * GDN_HEAD];    /* [n][v_stride] */
    float y[GDN_CHUNK * GDN_HEAD];      /* [n][v_stride] */
    float kds[GDN_CHUNK * GDN_HEAD];    /* [n][v_stride]: K dS, later scaled rows */
    float deltat[GDN_HEAD * GDN_CHUNK]; /* [Dv][GDN_CHUNK] */
    float dq[GDN_CHUNK * GDN_HEAD];     /* [n][k_stride], by the normalised q */
    float dk[GDN_CHUNK * GDN_HEAD];     /* [n][k_stride], by the normalised k */
    float dp[GDN_CHUNK * GDN_CHUNK];    /* [n][GDN_CHUNK]: dP, then by q_t.k_j */
    float da[GDN_CHUNK * GDN_CHUNK];    /* [n][GDN_CHUNK]: -dA, then by k_t.k_j, both ways */
    double dsum[GDN_CHUNK];             /* dG */
    double dbeta[GDN_CHUNK];
} scratch;

/* Called with: m n k, a and its two strides, b and its rows, c and its rows, add. */
static void multiply(const gdn_rule *r, gemm p)
{
    r->use->gemm(&p);
}

static void read_chunk(const gdn_rule *r, scratch *w)
{
    const gdn_chunk *c = &w->chunk;
    const int64_t at = (c->batch * r->n_chunks + c->index) * r->nv + c->head;
    const float *from = r->states + at * r->dk * r->dv; /* [Dk][Dv] */
    for (int64_t i = 0; i < r->dk; i++)
        memcpy(w->state + i * r->v_stride, from + i * r->dv, sizeof *from * (size_t)r->dv);
    const float *d_o = r->d_o + c->head_at * r->dv; /* [n][Nv Dv] */
    for (int64_t t = 0; t < c->n; t++)
        memcpy(w->d_o + t * r->v_stride, d_o + t * r->nv * r->dv, sizeof *d_o * (size_t)r->dv);
}

static void turn_state(const gdn_rule *r, const float *state /* [Dk][v_stride] */, scratch *w)
{
    lanes_transpose(&(transposition){.x = state,
                                     .n_rows = r->dk,
                                     .n_cols = r->dv,
                                     .x_row = r->v_stride,
                                     .y = w->turned,
                                     .y_row = r->k_stride,
                                     .pad = r->k_stride,
                                     .by = 1});
}

/* y = ddelta, then Y; kds = K dS. The gradient of e^(G_last - G) falls off on the way. */
static void back_delta(const gdn_rule *r, scratch *w)
{
    const gdn_chunk *c = &w->chunk;
    const int64_t n = c->n, dv = r->dv, ks = r->k_stride, vs = r->v_stride;
    multiply(r, (gemm){n, dv, r->dk, c->k, ks, 1, w->dstate, vs, w->kds, vs, false});
    for (int64_t t = 0; t < n; t++) {
        for (int64_t i = 0; i < dv; i++) w->y[t * vs + i] = c->to_end[t] * w->kds[t * vs + i];
        const double x = (double)r->use->dot(w->y + t * vs, c->delta + t * vs, dv);
        w->dsum[t] -= x;
        w->dsum[n - 1] += x;
    }
    multiply(r, (gemm){n, dv, n, c->p, 1, GDN_CHUNK, w->d_o, vs, w->y, vs, true});
    gdn_backward_substitution(r, c, w->y);
}

/* Row t of dP and -dA: the shares of G and beta fall off, then q_t.k_j and k_t.k_j get theirs. */
static void back_row(const gdn_rule *r, scratch *w, int64_t t)
{
    const gdn_chunk *c = &w->chunk;
    const float *p = c->p + t * GDN_CHUNK, *a = c->a + t * GDN_CHUNK;
    const float *decay = c->decay + t * GDN_CHUNK, *kk = c->kk + t * GDN_CHUNK;
    float *dp = w->dp + t * GDN_CHUNK, *da = w->da + t * GDN_CHUNK;
    w->dsum[t] += (double)r->use->dot(dp, p, t) + (double)r->use->dot(da, a, t); /* I2 */
    for (int64_t j = 0; j < t; j++) {
        w->dsum[j] -= (double)(dp[j] * p[j] + da[j] * a[j]);
        da[j] *= decay[j];
    }
    w->dbeta[t] -= (double)r->use->dot(da, kk, t);
    for (int64_t j = 0; j < c->n; j++) {
        dp[j] *= decay[j]; /* 0 beyond t */
        da[j] *= j < t ? -c->beta[t] : 0;
    }
}

/* From dP and dA: what q_t.k_j and k_t.k_j get, and the shares of G and beta. */
static void back_matrices(const gdn_rule *r, scratch *w)
{
    const gdn_chunk *c = &w->chunk;
    const int64_t n = c->n, vs = r->v_stride;
    lanes_transpose(&(transposition){.x = c->delta,
                                     .n_rows = n,
                                     .n_cols = r->dv,
                                     .x_row = vs,
                                     .y = w->deltat,
                                     .y_row = GDN_CHUNK,
                                     .pad = lanes_round(n),
                                     .by = 1});
    const int64_t cs = GDN_CHUNK;
    multiply(r, (gemm){n, n, r->dv, w->d_o, vs, 1, w->deltat, cs, w->dp, cs, false});
    multiply(r, (gemm){n, n, r->dv, w->y, vs, 1, w->deltat, cs, w->da, cs, false});
    for (int64_t t = 0; t < n; t++) back_row(r, w, t);
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = t + 1; j < n; j++) w->da[t * cs + j] = w->da[j * cs + t];
}

/* dv, and the rest of the gradient by beta; y becomes -beta e^G Y. */
static void back_values(const gdn_rule *r, scratch *w)
{
    const gdn_chunk *c = &w->chunk;
    for (int64_t t = 0; t < c->n; t++) {
        const float *v = r->qkv + c->v_at + t * r->row; /* [Dv] */
        float *dv = r->dqkv + c->v_at + t * r->row;     /* [Dv] */
        float *y = w->y + t * r->v_stride;
        const float *had = c->had + t * r->v_stride;
        const double found = (double)(c->from_start[t] * r->use->dot(y, had, r->dv));
        w->dbeta[t] += (double)r->use->dot(y, v, r->dv) - found;
        w->dsum[t] -= (double)c->beta[t] * found;
        for (int64_t i = 0; i < r->dv; i++) {
            dv[i] = c->beta[t] * y[i];
            y[i] *= -c->beta[t] * c->from_start[t];
        }
    }
}

/* kds becomes rows of x scaled by `by`. */
static const float *scaled(const gdn_rule *r, scratch *w, const float *x, const float *by)
{
    for (int64_t t = 0; t < w->chunk.n; t++)
        for (int64_t i = 0; i < r->dv; i++)
            w->kds[t * r->v_stride + i] = by[t] * x[t * r->v_stride + i];
    return w->kds;
}

/* dq, dk of the normalised, and dS before the chunk. */
static void back_keys(const gdn_rule *r, scratch *w)
{
    const gdn_chunk *c = &w->chunk;
    const int64_t n = c->n, dk = r->dk, dv = r->dv, ks = r->k_stride, vs = r->v_stride;
    const int64_t cs = GDN_CHUNK;
    const float *x = scaled(r, w, c->delta, c->to_end);
    turn_state(r, w->dstate, w);
    multiply(r, (gemm){n, dk, dv, x, vs, 1, w->turned, ks, w->dk, ks, false});
    x = scaled(r, w, w->d_o, c->from_start);
    turn_state(r, w->state, w);
    multiply(r, (gemm){n, dk, dv, x, vs, 1, w->turned, ks, w->dq, ks, false});
    multiply(r, (gemm){n, dk, dv, w->y, vs, 1, w->turned, ks, w->dk, ks, true});
    for (int64_t t = 0; t < n; t++)
        w->dsum[t] += (double)r->use->dot(w->dq + t * ks, c->q + t * ks, dk);
    multiply(r, (gemm){n, dk, n, w->dp, cs, 1, c->k, ks, w->dq, ks, true});
    multiply(r, (gemm){n, dk, n, w->dp, 1, cs, c->q, ks, w->dk, ks, true});
    multiply(r, (gemm){n, dk, n, w->da, cs, 1, c->k, ks, w->dk, ks, true});
    const float fade = c->from_start[n - 1];
    w->dsum[n - 1] += (double)(fade * r->use->dot(w->state, w->dstate, dk * vs)); /* I3 */
    for (int64_t i = 0; i < dk * vs; i++) w->dstate[i] *= fade;
    multiply(r, (gemm){dk, dv, n, c->q, 1, ks, x, vs, w->dstate, vs, true});
    multiply(r, (gemm){dk, dv, n, c->k, 1, ks, w->y, vs, w->dstate, vs, true});
}

static void put(const gdn_rule *r, const scratch *w, bool first)
{
    const gdn_chunk *c = &w->chunk;
    double later = 0;
    for (int64_t t = c->n - 1; t >= 0; t--) {
        later += w->dsum[t]; /* I2 */
        r->dg[c->head_at + t * r->nv] = (float)later;
        r->dbeta[c->head_at + t * r->nv] = (float)w->dbeta[t];
        float *dq = r->dqkv + c->q_at + t * r->row, *dk = r->dqkv + c->k_at + t * r->row; /* [Dk] */
        const float *q = w->dq + t * r->k_stride, *k = w->dk + t * r->k_stride;
        for (int64_t i = 0; i < r->dk; i++) {
            dq[i] = first ? q[i] : dq[i] + q[i]; /* I1 */
            dk[i] = first ? k[i] : dk[i] + k[i];
        }
    }
}

static void back_chunk(const gdn_rule *r, scratch *w, bool first)
{
    memset(w->dsum, 0, sizeof w->dsum);
    memset(w->dbeta, 0, sizeof w->dbeta);
    read_chunk(r, w);
    gdn_chunk_solve(r, &w->chunk, w->state);
    back_delta(r, w);
    back_matrices(r, w);
    back_values(r, w);
    back_keys(r, w);
    put(r, w, first);
}

/* dx[Dk] by the normalised x, times `by`, becomes the gradient by x. */
static void back_norm(const gdn_rule *r, const float *x, float by, float *dx)
{
    float y[GDN_HEAD];
    const float factor = gdn_normalise(r, x, r->dk, y), along = r->use->dot(y, dx, r->dk);
    for (int64_t i = 0; i < r->dk; i++) dx[i] = factor * by * (dx[i] - y[i] * along);
}

static void key_head(const gdn_rule *r, int64_t batch, int64_t key)
{
    scratch w;
    const int64_t heads = r->nv / r->nk, first = key * heads;
    memset(w.state, 0, sizeof w.state); /* I3 */
    for (int64_t h = first; h < first + heads; h++) {
        memset(w.dstate, 0, sizeof w.dstate);
        for (int64_t i = r->n_chunks - 1; i >= 0; i--) {
            gdn_chunk_read(r, &w.chunk, batch, h, i);
            back_chunk(r, &w, h == first);
        }
    }
    for (int64_t t = batch * r->s; t < (batch + 1) * r->s; t++) {
        const int64_t q = t * r->row + key * r->dk, k = q + r->nk * r->dk;
        back_norm(r, r->qkv + q, 1 / sqrtf((float)r->dk), r->dqkv + q);
        back_norm(r, r->qkv + k, 1, r->dqkv + k);
    }
}

void fast_gdn_rule_d(const op *what, void *const *in, void *const *out)
{
    const op_gdn_rule_d a = op_gdn_rule_d_of(what, in, out);
    gdn_rule r = {
        .d_o = a.do_, .qkv = a.qkv, .beta = a.beta, .g = a.g, .states = in[IN_GDN_RULE_D_states]};
    r.dqkv = a.dqkv, r.dbeta = a.dbeta, r.dg = a.dg;
    gdn_rule_sizes(&r, what);
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < r.b * r.nk; task++) key_head(&r, task / r.nk, task % r.nk);
}
