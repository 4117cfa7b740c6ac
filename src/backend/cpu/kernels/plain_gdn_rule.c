/* plain_gdn_rule.c - row 0 of the gated delta rule: the recurrence as it is written.
 *
 * A head's state S [Dk][Dv] maps keys to values. A token lets it fade, looks up what the state has
 * under its key, and writes a part beta of what was missing:
 *     S = e^g S;  delta = beta (v - S^T k);  S = S + k delta^T;  o = S^T q
 * with k and q of length one, q divided by sqrt(Dk) besides.
 *
 * I1  Columns of S never meet: a column (one number of v and o) is computed by itself, so that
 *     scratch is a column's states over a few tokens, and fits on the stack.
 * I2  The gradient runs the recurrence backwards from the states that the forward saved before each
 *     chunk. States in between are made again, TOKENS at a time: to go back from a state to the one
 *     before would be to divide by e^g, which may be zero.
 * I3  r value heads share a key head; gradients by q and k are sums over them and over columns.
 *     They are collected for the normalised q and k, and taken through the norm at the end. */
#include "backend/cpu/kernels/plain_gdn.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

enum { TOKENS = 32, KEY_MAX = 1024 };

typedef struct rule {
    int64_t b, s, nk, nv, dk, dv, chunk;
    int64_t n_chunks, row; /* row: numbers of a token in qkv */
    const real *qkv;       /* [B*S][Nk Dk | Nk Dk | Nv Dv] */
    const real *beta;      /* [B*S][Nv] */
    const real *g;         /* [B*S][Nv] */
    real *states;          /* [B][n_chunks][Nv][Dk][Dv], or NULL: forward only */
    const real *d_o;       /* [B*S][Nv][Dv] */
    real *dqkv;            /* [B*S][Nk Dk | Nk Dk | Nv Dv] */
    real *dbeta;           /* [B*S][Nv] */
    real *dg;              /* [B*S][Nv] */
} rule;

/* One column of one head: x is sequence b's, h the value head, c the column. */
typedef struct column {
    int64_t b, h, c;
} column;

/* What a token brings to a column. */
typedef struct token {
    double k[KEY_MAX], q[KEY_MAX]; /* [Dk] normalised */
    double v, beta, decay;
    int64_t at;               /* token of the batch */
    int64_t head;             /* at * Nv + h */
    int64_t k_at, q_at, v_at; /* places in qkv */
} token;

bool plain_gdn_rule_accepts(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_GDN_RULE_Dk] <= KEY_MAX;
}

static void set_sizes(rule *r, const op *o)
{
    r->b = o->dim[DIM_GDN_RULE_B], r->s = o->dim[DIM_GDN_RULE_S], r->nk = o->dim[DIM_GDN_RULE_Nk],
    r->nv = o->dim[DIM_GDN_RULE_Nv];
    r->dk = o->dim[DIM_GDN_RULE_Dk], r->dv = o->dim[DIM_GDN_RULE_Dv],
    r->chunk = o->dim[DIM_GDN_RULE_CHUNK];
    r->n_chunks = (r->s + r->chunk - 1) / r->chunk;
    r->row = 2 * r->nk * r->dk + r->nv * r->dv;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* y = x / sqrt(sum of squares + 1e-6); gives that factor. */
static double normalise(const real *x, int64_t n, double *y)
{
    double sum = 1e-6;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const double by = 1 / sqrt(sum);
    for (int64_t i = 0; i < n; i++) y[i] = by * (double)x[i];
    return by;
}

static void read_token(const rule *r, const column *x, int64_t t, token *k)
{
    const int64_t key_head = x->h / (r->nv / r->nk);
    k->at = x->b * r->s + t;
    k->head = k->at * r->nv + x->h;
    k->q_at = k->at * r->row + key_head * r->dk;
    k->k_at = k->q_at + r->nk * r->dk;
    k->v_at = k->at * r->row + 2 * r->nk * r->dk + x->h * r->dv + x->c;
    normalise(r->qkv + k->k_at, r->dk, k->k);
    normalise(r->qkv + k->q_at, r->dk, k->q);
    for (int64_t i = 0; i < r->dk; i++) k->q[i] /= sqrt((double)r->dk);
    k->v = (double)r->qkv[k->v_at];
    k->beta = (double)r->beta[k->head];
    k->decay = exp((double)r->g[k->head]);
}

static void advance(const token *k, int64_t n, double *s /* [Dk] */)
{
    for (int64_t i = 0; i < n; i++) s[i] *= k->decay;
    const double delta = k->beta * (k->v - dot(s, k->k, n));
    for (int64_t i = 0; i < n; i++) s[i] += k->k[i] * delta;
}

static real *saved_state(const rule *r, const column *x, int64_t chunk)
{
    return r->states + ((x->b * r->n_chunks + chunk) * r->nv + x->h) * r->dk * r->dv + x->c;
}

static void forward_column(const rule *r, const column *x, real *o /* [B*S][Nv][Dv] */)
{
    double s[KEY_MAX] = {0};
    token k;
    for (int64_t t = 0; t < r->s; t++) {
        if (r->states && t % r->chunk == 0) {
            real *save = saved_state(r, x, t / r->chunk);
            for (int64_t i = 0; i < r->dk; i++) save[i * r->dv] = (real)s[i];
        }
        read_token(r, x, t, &k);
        advance(&k, r->dk, s);
        o[k.head * r->dv + x->c] = (real)dot(s, k.q, r->dk);
    }
}

void plain_gdn_rule(const op *what, void *const *in, void *const *out)
{
    const op_gdn_rule a = op_gdn_rule_of(what, in, out);
    rule r = {.qkv = a.qkv, .beta = a.beta, .g = a.g, .states = a.states};
    set_sizes(&r, what);
    for (int64_t i = 0; i < r.b * r.nv * r.dv; i++)
        forward_column(&r, &(column){i / r.dv / r.nv, i / r.dv % r.nv, i % r.dv}, a.o);
}

/* ---- gradient */

static void add(real *to, double x)
{
    *to = (real)((double)*to + x);
}

/* `ds` is the gradient by the state after token k, then by the state before it (`before`). */
static void back_token(const rule *r, const column *x, const token *k, const double *before,
                       double *ds)
{
    double faded[KEY_MAX];
    const double d_o = (double)r->d_o[k->head * r->dv + x->c];
    for (int64_t i = 0; i < r->dk; i++) faded[i] = k->decay * before[i];
    const double missing = k->v - dot(faded, k->k, r->dk), delta = k->beta * missing;
    for (int64_t i = 0; i < r->dk; i++) {
        add(&r->dqkv[k->q_at + i], d_o * (faded[i] + k->k[i] * delta));
        ds[i] += d_o * k->q[i];
    }
    const double d_delta = dot(ds, k->k, r->dk), d_missing = k->beta * d_delta;
    add(&r->dbeta[k->head], d_delta * missing);
    add(&r->dqkv[k->v_at], d_missing);
    for (int64_t i = 0; i < r->dk; i++) {
        add(&r->dqkv[k->k_at + i], ds[i] * delta - d_missing * faded[i]);
        ds[i] -= d_missing * k->k[i];
    }
    add(&r->dg[k->head], dot(ds, faded, r->dk));
    for (int64_t i = 0; i < r->dk; i++) ds[i] *= k->decay;
}

/* Tokens first .. past-1, all of one chunk, backwards (I2). */
static void back_tokens(const rule *r, const column *x, int64_t first, int64_t past, double *ds)
{
    double before[TOKENS][KEY_MAX], s[KEY_MAX];
    token k;
    const int64_t chunk = first / r->chunk;
    const real *saved = saved_state(r, x, chunk);
    for (int64_t i = 0; i < r->dk; i++) s[i] = (double)saved[i * r->dv];
    for (int64_t t = chunk * r->chunk; t < past; t++) {
        if (t >= first) memcpy(before[t - first], s, sizeof(double) * (size_t)r->dk);
        read_token(r, x, t, &k);
        advance(&k, r->dk, s);
    }
    for (int64_t t = past - 1; t >= first; t--) {
        read_token(r, x, t, &k);
        back_token(r, x, &k, before[t - first], ds);
    }
}

static void back_column(const rule *r, const column *x)
{
    double ds[KEY_MAX] = {0};
    for (int64_t past = r->s; past > 0;) {
        const int64_t in_chunk = (past - 1) % r->chunk, first = past - 1 - in_chunk % TOKENS;
        back_tokens(r, x, first, past, ds);
        past = first;
    }
}

/* I3: dx[n] by the normalised x, times `by`, becomes the gradient by x. */
static void back_norm(const real *x, int64_t n, double by, real *dx)
{
    double y[KEY_MAX], along = 0;
    const double factor = normalise(x, n, y);
    for (int64_t i = 0; i < n; i++) along += by * (double)dx[i] * y[i];
    for (int64_t i = 0; i < n; i++) dx[i] = (real)(factor * (by * (double)dx[i] - y[i] * along));
}

void plain_gdn_rule_d(const op *what, void *const *in, void *const *out)
{
    const op_gdn_rule_d a = op_gdn_rule_d_of(what, in, out);
    rule r = {
        .d_o = a.do_, .qkv = a.qkv, .beta = a.beta, .g = a.g, .states = in[IN_GDN_RULE_D_states]};
    r.dqkv = a.dqkv, r.dbeta = a.dbeta, r.dg = a.dg;
    set_sizes(&r, what);
    memset(r.dqkv, 0, sizeof(real) * (size_t)(r.b * r.s * r.row));
    memset(r.dbeta, 0, sizeof(real) * (size_t)(r.b * r.s * r.nv));
    memset(r.dg, 0, sizeof(real) * (size_t)(r.b * r.s * r.nv));
    for (int64_t i = 0; i < r.b * r.nv * r.dv; i++)
        back_column(&r, &(column){i / r.dv / r.nv, i / r.dv % r.nv, i % r.dv});
    for (int64_t t = 0; t < r.b * r.s; t++)
        for (int64_t h = 0; h < 2 * r.nk; h++) {
            const int64_t at = t * r.row + h * r.dk;
            const double by = h < r.nk ? 1 / sqrt((double)r.dk) : 1;
            back_norm(r.qkv + at, r.dk, by, r.dqkv + at);
        }
}
