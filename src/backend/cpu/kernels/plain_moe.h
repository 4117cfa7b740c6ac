/* plain_moe.h - what the files of the MoE kernels share.
 *
 * Work on tokens is written over a span of them: row 0 takes the whole microbatch in one, the fast
 * rows give spans to threads. */
#ifndef BACKEND_CPU_KERNELS_PLAIN_MOE_H
#define BACKEND_CPU_KERNELS_PLAIN_MOE_H

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/real.h"

/* Tokens or rows begin .. end-1. */
typedef struct span {
    int64_t begin, end;
} span;

/* A token's scores lie on the stack, since kernels allocate nothing. */
enum { EXPERTS_MAX = 4096 };

/* A test builds these sources a second time, for double, and links both. */
#ifdef REAL_DOUBLE
#define best_of            best_of_double
#define choose_experts     choose_experts_double
#define router_span        router_span_double
#define router_d_span      router_d_span_double
#define aux_count_span     aux_count_span_double
#define aux_push_span      aux_push_span_double
#define aux_samples        aux_samples_double
#define aux_local_pass     aux_local_pass_double
#define aux_global_pass    aux_global_pass_double
#define z_loss_span        z_loss_span_double
#define score_of           score_of_double
#define score_slope        score_slope_double
#define softmax_of         softmax_of_double
#define plain_moe_router   plain_moe_router_double
#define plain_moe_loss     plain_moe_loss_double
#define plain_moe_dispatch plain_moe_dispatch_double
#define plain_moe_grouped  plain_moe_grouped_double
#define plain_moe_route    plain_moe_route_double
#define plain_moe_flex     plain_moe_flex_double
#define plain_moe_meta     plain_moe_meta_double
#define flex_sort          flex_sort_double
#endif

static inline bool experts_fit(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_ROUTER_E] <= EXPERTS_MAX;
}

static inline bool loss_experts_fit(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_AUX_LOSS_E] <= EXPERTS_MAX;
}

/* ---- plain_moe_choice.c */

/* The k <= n largest of v[n], best first, equal ones by index. NaN never makes an id invalid. */
void best_of(const real *v /* [n] */, int64_t n, int64_t k, int32_t *ids /* [k] */);

/* The experts of one token of a ROUTER: by `values` (groups that lose are overwritten with
 * -infinity), or where FORCED by `token`, its number. */
void choose_experts(const op *o, int64_t token, real *values /* [E] */, int32_t *ids /* [K] */);

/* ---- plain_moe_router.c */

/* Is the score of an expert a function of its own logit alone? */
static inline bool has_own_scores(unsigned flags)
{
    return flags & (SIGMOID | SQRT_SOFTPLUS);
}

real score_of(unsigned flags, real logit);
real score_slope(unsigned flags, real logit, real score); /* d score / d logit */
void softmax_of(const real *x /* [n] */, int64_t n, real *y /* [n] */);

void router_span(const op *o, void *const *in, void *const *out, span s);
void router_d_span(const op *o, void *const *in, void *const *out, span s);

/* ---- plain_moe_loss.c */

/* One pass of a load-balancing loss: loss = scale * sum over tokens and experts of P * counts. */
typedef struct aux_pass {
    const real *logits; /* [T][E] */
    const real *counts; /* [E] */
    real *dlogits;      /* [T][E], += */
    int64_t E;
    unsigned flags;
    double scale, gradient; /* dlogits gets gradient * d loss */
} aux_pass;

/* Adds to counts how often each expert is among the K best scores of a token. */
void aux_count_span(const op *o, const real *logits, span s, int32_t *counts /* [E] */);

/* The span's part of sum P * counts; its gradient goes to dlogits. */
double aux_push_span(const aux_pass *p, span s);

/* T tokens, the first of which is number `first` of a list of samples of S each; S 0: they are one
 * sample, number 0. */
typedef struct samples {
    int64_t T, S, first;
} samples;

/* From the tokens of one sample to those of the next; start with {0, 0}. */
static inline bool next_sample(const samples *l, span *s)
{
    if (s->end >= l->T) return false;
    s->begin = s->end;
    s->end = l->S > 0 ? s->begin + l->S - (l->first + s->begin) % l->S : l->T;
    if (s->end > l->T) s->end = l->T;
    return true;
}

static inline int64_t sample_number(const samples *l, span s)
{
    return l->S > 0 ? (l->first + s.begin) / l->S : 0;
}

/* What an AUX_LOSS or AUX_COUNT balances together, and the loss's pass, counts still missing. */
samples aux_samples(const op *o);
aux_pass aux_local_pass(const op *o, void *const *in, void *const *out);

/* The pass of an AUX_GLOBAL. */
aux_pass aux_global_pass(const op *o, void *const *in, void *const *out);

/* The span's sum of logsumexp^2; its gradient goes to dlogits. */
double z_loss_span(const op *o, void *const *in, void *const *out, span s);

/* ---- rows of experts */

/* The rows of an expert, within the room that the buffer has. */
static inline span expert_rows(const int32_t *offsets, int64_t e, int64_t room)
{
    span r = {offsets[e], offsets[e + 1]};
    if (r.end > room) r.end = room;
    if (r.begin > r.end) r.begin = r.end;
    return r;
}

/* Rows rounded up to a multiple of ALIGN; 0 and 1 leave them. */
static inline int64_t aligned_rows(int64_t rows, int64_t align)
{
    return align > 1 ? (rows + align - 1) / align * align : rows;
}

/* ---- messages */

/* Tables of messages, int32[6][P]; see ops_moe.def. */
enum { SEND_START, SEND_ROWS, RECV_START, RECV_ROWS, TABLE_ROWS = 6 };

/* The last two rows of a table are its first two once more. */
static inline void table_end(int32_t *table, int64_t P)
{
    for (int64_t i = 0; i < 2 * P; i++) table[4 * P + i] = table[i];
}

static inline int64_t rows_received(const int32_t *table, int64_t P)
{
    int64_t n = 0;
    for (int64_t m = 0; m < P; m++) n += table[RECV_ROWS * P + m];
    return n;
}

/* The sorting half of a FLEX_PLACE: its outputs rows, offsets, demand. */
void flex_sort(const op *o, void *const *in, void *const *out);

/* ---- tables, by file */
kernel_rows plain_moe_router(void);
kernel_rows plain_moe_loss(void);
kernel_rows plain_moe_dispatch(void);
kernel_rows plain_moe_grouped(void);
kernel_rows plain_moe_route(void);
kernel_rows plain_moe_flex(void);
kernel_rows plain_moe_meta(void);

#endif
