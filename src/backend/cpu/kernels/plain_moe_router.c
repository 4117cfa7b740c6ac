/* plain_moe_router.c - scores, weights of the chosen experts, and their gradient.
 *
 * R1  The bias counts for the choice, never for a weight.
 * R2  The choice is a constant for the gradient.
 * R3  Softmax over all experts, renormalised over the chosen, is softmax over the chosen logits. It
 *     is computed so: with FORCED all chosen ones may be so small that their sum is 0. */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

#include <string.h>
#include <tgmath.h>

/* Megatron's and transformers' guard of a sum of scores. */
#define TINY ((real)1e-20)

static real sigmoid_of(real x)
{
    return 1 / (1 + exp(-x));
}

real score_of(unsigned flags, real logit)
{
    if (flags & SIGMOID) return sigmoid_of(logit);
    return sqrt(logit > 20 ? logit : log1p(exp(logit))); /* past 20 they are equal in FP32 */
}

real score_slope(unsigned flags, real logit, real score)
{
    if (flags & SIGMOID) return score * (1 - score);
    return score > 0 ? sigmoid_of(logit) / (2 * score) : 0;
}

void softmax_of(const real *x, int64_t n, real *y)
{
    real most = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > most) most = x[i];
    for (int64_t i = 0; i < n; i++) sum += y[i] = exp(x[i] - most);
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

static void softmax_of_chosen(const real *logits, const int32_t *ids, int64_t K, real *y /* [K] */)
{
    for (int64_t k = 0; k < K; k++) y[k] = logits[ids[k]];
    softmax_of(y, K, y);
}

/* Are own scores divided by their sum? A single one would become 1 and lose its gradient. */
static bool divides_by_sum(const op *o)
{
    return o->flags & RENORMALISE && o->dim[DIM_ROUTER_K] > 1;
}

static bool keeps_softmax(const op *o)
{
    return o->flags & PRE_SOFTMAX && !(o->flags & RENORMALISE);
}

/* What the choice goes by: scores, or logits where softmax comes after it. */
static void values_of(const op *o, const real *logits, const real *bias, real *values /* [E] */)
{
    int64_t E = o->dim[DIM_ROUTER_E];
    if (has_own_scores(o->flags))
        for (int64_t e = 0; e < E; e++) values[e] = score_of(o->flags, logits[e]);
    else if (o->flags & PRE_SOFTMAX)
        softmax_of(logits, E, values);
    else
        memcpy(values, logits, (size_t)E * sizeof *values);
    if (bias)
        for (int64_t e = 0; e < E; e++) values[e] += bias[e];
}

static void weigh_own_scores(const op *o, const real *logits, const int32_t *ids, real *probs)
{
    int64_t K = o->dim[DIM_ROUTER_K];
    real sum = TINY;
    for (int64_t k = 0; k < K; k++) sum += probs[k] = score_of(o->flags, logits[ids[k]]);
    if (divides_by_sum(o))
        for (int64_t k = 0; k < K; k++) probs[k] /= sum;
}

/* From logits, not from the values of the choice: those have the bias (R1). */
static void weigh(const op *o, const real *logits, const int32_t *ids, real *probs /* [K] */)
{
    int64_t E = o->dim[DIM_ROUTER_E], K = o->dim[DIM_ROUTER_K];
    if (has_own_scores(o->flags)) {
        weigh_own_scores(o, logits, ids, probs);
    } else if (keeps_softmax(o)) {
        real all[EXPERTS_MAX];
        softmax_of(logits, E, all);
        for (int64_t k = 0; k < K; k++) probs[k] = all[ids[k]];
    } else {
        softmax_of_chosen(logits, ids, K, probs); /* R3 */
    }
    for (int64_t k = 0; k < K; k++) probs[k] *= (real)o->real[REAL_ROUTER_scaling];
}

void router_span(const op *o, void *const *in, void *const *out, span s)
{
    const op_router a = op_router_of(o, in, out);
    real values[EXPERTS_MAX];
    for (int64_t t = s.begin; t < s.end; t++) {
        if (!(o->flags & FORCED)) values_of(o, a.logits + t * a.E, a.bias, values);
        choose_experts(o, a.FIRST + t, values, a.ids + t * a.K);
        weigh(o, a.logits + t * a.E, a.ids + t * a.K, a.probs + t * a.K);
    }
}

static void plain_router(const op *o, void *const *in, void *const *out)
{
    const op_router a = op_router_of(o, in, out);
    router_span(o, in, out, (span){0, a.T});
}

/* One token of the gradient. */
typedef struct token_grad {
    const real *g;      /* [K], of the weights without scaling */
    const real *logits; /* [E] */
    const int32_t *ids; /* [K] */
    real *dlogits;      /* [E], zero before */
} token_grad;

static void own_scores_grad(const op *o, const token_grad *t)
{
    int64_t K = o->dim[DIM_ROUTER_D_K];
    real scores[EXPERTS_MAX], sum = TINY, dot = 0;
    for (int64_t k = 0; k < K; k++) sum += scores[k] = score_of(o->flags, t->logits[t->ids[k]]);
    if (divides_by_sum(o))
        for (int64_t k = 0; k < K; k++) dot += t->g[k] * (scores[k] / sum);
    else
        sum = 1;
    for (int64_t k = 0; k < K; k++) {
        int32_t e = t->ids[k];
        t->dlogits[e] = (t->g[k] - dot) / sum * score_slope(o->flags, t->logits[e], scores[k]);
    }
}

/* Every logit has its part in a softmax over all experts. */
static void all_softmax_grad(const op *o, const token_grad *t)
{
    int64_t E = o->dim[DIM_ROUTER_D_E], K = o->dim[DIM_ROUTER_D_K];
    real all[EXPERTS_MAX], dot = 0;
    softmax_of(t->logits, E, all);
    for (int64_t k = 0; k < K; k++) dot += t->g[k] * all[t->ids[k]];
    for (int64_t e = 0; e < E; e++) t->dlogits[e] = -dot * all[e];
    for (int64_t k = 0; k < K; k++) t->dlogits[t->ids[k]] += t->g[k] * all[t->ids[k]];
}

static void chosen_softmax_grad(const op *o, const token_grad *t)
{
    int64_t K = o->dim[DIM_ROUTER_D_K];
    real p[EXPERTS_MAX], dot = 0;
    softmax_of_chosen(t->logits, t->ids, K, p);
    for (int64_t k = 0; k < K; k++) dot += t->g[k] * p[k];
    for (int64_t k = 0; k < K; k++) t->dlogits[t->ids[k]] = p[k] * (t->g[k] - dot);
}

void router_d_span(const op *o, void *const *in, void *const *out, span s)
{
    const op_router_d a = op_router_d_of(o, in, out);
    real g[EXPERTS_MAX];
    for (int64_t i = s.begin; i < s.end; i++) {
        token_grad t = {g, a.logits + i * a.E, a.ids + i * a.K, a.dlogits + i * a.E};
        memset(t.dlogits, 0, (size_t)a.E * sizeof *t.dlogits);
        for (int64_t k = 0; k < a.K; k++) g[k] = a.dprobs[i * a.K + k] * (real)a.scaling;
        if (has_own_scores(o->flags))
            own_scores_grad(o, &t);
        else if (keeps_softmax(o))
            all_softmax_grad(o, &t);
        else
            chosen_softmax_grad(o, &t);
    }
}

static void plain_router_d(const op *o, void *const *in, void *const *out)
{
    const op_router_d a = op_router_d_of(o, in, out);
    router_d_span(o, in, out, (span){0, a.T});
}

kernel_rows plain_moe_router(void)
{
    static const kernel rows[] = {
        {OP_ROUTER, "plain", .accepts = experts_fit, .run = plain_router},
        {OP_ROUTER_D, "plain", .accepts = experts_fit, .run = plain_router_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
