/* fast_gdn.h - what the files of the fast gated delta net share.
 *
 * The rule in chunks. Within a chunk let G_t be the sum of g up to and with token t, S the state
 * before the chunk, and delta_t what token t writes (plain_gdn_rule.c). Writing out the recurrence:
 *     (I + A) delta = beta (v - e^G K S)            A[t][j] = beta_t e^(G_t - G_j) k_t.k_j   j < t
 *     o = e^G Q S + P delta                         P[t][j] = e^(G_t - G_j) q_t.k_j          j <= t
 *     S' = e^(G_last) S + (e^(G_last - G) K)^T delta
 * I + A is unit lower triangular: delta comes by forward substitution, its gradient by backward
 * substitution. All exponents are differences of later and earlier sums, never positive. */
#ifndef BACKEND_CPU_KERNELS_FAST_GDN_H
#define BACKEND_CPU_KERNELS_FAST_GDN_H

#include "backend/cpu/kernels/fast_attention_lanes.h"
#include "backend/kernels/kernels.h"

/* Scratch lies on the stack of each thread (about 700 KiB), hence the largest head and chunk. */
enum { GDN_CHUNK = 64, GDN_HEAD = 128 };

typedef struct gdn_rule {
    const lanes *use;
    int64_t b, s, nk, nv, dk, dv, chunk;
    int64_t n_chunks, row;      /* row: numbers of a token in qkv */
    int64_t k_stride, v_stride; /* rows of scratch */
    const float *qkv;           /* [B*S][Nk Dk | Nk Dk | Nv Dv] */
    const float *beta;          /* [B*S][Nv] */
    const float *g;             /* [B*S][Nv] */
    float *o;                   /* [B*S][Nv][Dv]; forward */
    float *states;              /* [B][n_chunks][Nv][Dk][Dv], or NULL: forward only */
    const float *d_o;           /* [B*S][Nv][Dv]; the gradient's, as all below */
    float *dqkv;                /* [B*S][Nk Dk | Nk Dk | Nv Dv] */
    float *dbeta;               /* [B*S][Nv] */
    float *dg;                  /* [B*S][Nv] */
} gdn_rule;

/* A chunk of one value head, and what both directions make of its tokens. */
typedef struct gdn_chunk {
    int64_t batch, head, index;
    int64_t first, n;                           /* first token of the batch, tokens */
    int64_t q_at, k_at, v_at, head_at;          /* of the first token: in qkv, in [B*S][Nv] */
    _Alignas(64) float k[GDN_CHUNK * GDN_HEAD]; /* [n][k_stride], normalised */
    float q[GDN_CHUNK * GDN_HEAD];              /* [n][k_stride], normalised and divided */
    float kt[GDN_HEAD * GDN_CHUNK];             /* [Dk][GDN_CHUNK] */
    float delta[GDN_CHUNK * GDN_HEAD];          /* [n][v_stride] */
    float had[GDN_CHUNK * GDN_HEAD];            /* [n][v_stride]: K S */
    float decay[GDN_CHUNK * GDN_CHUNK];         /* [n][GDN_CHUNK]: e^(G_t - G_j), 0 for j > t */
    float kk[GDN_CHUNK * GDN_CHUNK];            /* [n][GDN_CHUNK]: k_t.k_j for j <= t */
    float a[GDN_CHUNK * GDN_CHUNK];             /* [n][GDN_CHUNK]: -A */
    float p[GDN_CHUNK * GDN_CHUNK];             /* [n][GDN_CHUNK]: P */
    float from_start[GDN_CHUNK];                /* e^G */
    float to_end[GDN_CHUNK];                    /* e^(G_last - G) */
    float beta[GDN_CHUNK];
} gdn_chunk;

bool gdn_rule_accepts(const op *o, const op_types *t);
void gdn_rule_sizes(gdn_rule *r, const op *o);

/* x[n] / sqrt(sum of squares + 1e-6); gives that factor. */
float gdn_normalise(const gdn_rule *r, const float *x, int64_t n, float *y);

/* Reads chunk `index` of a head: all of gdn_chunk but had and delta. */
void gdn_chunk_read(const gdn_rule *r, gdn_chunk *c, int64_t batch, int64_t head, int64_t index);

/* had and delta, from the state before, state[Dk][v_stride]. */
void gdn_chunk_solve(const gdn_rule *r, gdn_chunk *c, const float *state);

/* x[n][v_stride]: (I + A) x' = x and (I + A)^T x' = x, in place. */
void gdn_forward_substitution(const gdn_rule *r, const gdn_chunk *c, float *x);
void gdn_backward_substitution(const gdn_rule *r, const gdn_chunk *c, float *x);

void fast_gdn_rule(const op *o, void *const *in, void *const *out);
void fast_gdn_rule_d(const op *o, void *const *in, void *const *out);

#endif
