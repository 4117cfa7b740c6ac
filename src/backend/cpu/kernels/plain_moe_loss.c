/* plain_moe_loss.c - load-balancing losses and the z loss.
 *
 *     loss = coefficient * E / (K * N^2) * sum over e of (sum over t of P[t][e]) * counts[e]
 *
 * L1  P are scores over all experts that sum to 1; counts say how often an expert is among the K
 *     best of them. Neither bias nor group limits nor capacity have a part in either.
 * L2  Counts are constants for the gradient, so what a token adds to the loss is also the inner
 *     GEMM that the gradient of its normalisation needs. One pass yields both.
 * L3  Sums over tokens are in double: a microbatch has up to millions of terms.
 * L4  The gradient is that of the loss as written, by this rank's logits. The global loss counts
 *     the tokens of all ranks in N; whoever averages gradients over data-parallel ranks afterwards
 *     must say so in `gradient`, or loses a factor as Megatron does (its issue 3672). */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

#include <string.h>
#include <tgmath.h>

/* Where E and K are among the sizes of each kind. */
static int64_t experts_of(const op *o)
{
    return o->kind == OP_AUX_LOSS ? o->dim[DIM_AUX_LOSS_E] : o->dim[DIM_AUX_COUNT_E];
}

static int64_t topk_of(const op *o)
{
    return o->kind == OP_AUX_LOSS ? o->dim[DIM_AUX_LOSS_K] : o->dim[DIM_AUX_COUNT_K];
}

/* P of one token (L1). Returns what own scores were divided by. */
static real spread_scores(unsigned flags, const real *logits, int64_t E, real *p /* [E] */)
{
    real sum = (real)1e-20;
    if (!has_own_scores(flags)) {
        softmax_of(logits, E, p);
        return 1;
    }
    for (int64_t e = 0; e < E; e++) sum += p[e] = score_of(flags, logits[e]);
    for (int64_t e = 0; e < E; e++) p[e] /= sum;
    return sum;
}

void aux_count_span(const op *o, const real *logits, span s, int32_t *counts)
{
    int64_t E = experts_of(o), K = topk_of(o);
    real p[EXPERTS_MAX];
    int32_t ids[EXPERTS_MAX];
    for (int64_t t = s.begin; t < s.end; t++) {
        spread_scores(o->flags, logits + t * E, E, p);
        best_of(p, E, K, ids);
        for (int64_t k = 0; k < K; k++) counts[ids[k]]++;
    }
}

double aux_push_span(const aux_pass *a, span s)
{
    int64_t E = a->E;
    double total = 0, scale = a->scale * a->gradient;
    real p[EXPERTS_MAX];
    for (int64_t t = s.begin; t < s.end; t++) {
        const real *logits = a->logits + t * E; /* [E] */
        real *dlogits = a->dlogits + t * E;     /* [E] */
        real sum = spread_scores(a->flags, logits, E, p);
        double dot = 0;
        for (int64_t e = 0; e < E; e++) dot += (double)p[e] * (double)a->counts[e];
        total += dot; /* L2 */
        for (int64_t e = 0; e < E; e++) {
            real g = (real)(scale * ((double)a->counts[e] - dot));
            real slope = has_own_scores(a->flags)
                             ? score_slope(a->flags, logits[e], p[e] * sum) / sum
                             : p[e];
            dlogits[e] += g * slope;
        }
    }
    return total;
}

aux_pass aux_local_pass(const op *o, void *const *in, void *const *out)
{
    const op_aux_loss a = op_aux_loss_of(o, in, out);
    int64_t all = a.TOKENS, seq = a.SEQ;
    if (!a.counts) all = a.T, seq = a.S;
    /* The losses of all / N sequences are averaged. */
    double N = (double)(a.KIND == 1 ? seq : all);
    double scale = a.coefficient * (double)a.E / ((double)a.K * N * (double)all);
    return (aux_pass){a.logits, NULL, a.dlogits, a.E, o->flags, scale, a.gradient};
}

/* The tokens of the span are balanced among themselves. */
static double balance_span(const op *o, aux_pass a, span s)
{
    int32_t counts[EXPERTS_MAX];
    real as_real[EXPERTS_MAX];
    memset(counts, 0, (size_t)a.E * sizeof *counts);
    aux_count_span(o, a.logits, s, counts);
    for (int64_t e = 0; e < a.E; e++) as_real[e] = (real)counts[e];
    a.counts = as_real;
    return aux_push_span(&a, s);
}

samples aux_samples(const op *o)
{
    const int64_t *d = o->dim;
    if (o->kind == OP_AUX_COUNT)
        return (samples){d[DIM_AUX_COUNT_T], d[DIM_AUX_COUNT_S], d[DIM_AUX_COUNT_FIRST]};
    return (samples){d[DIM_AUX_LOSS_T], d[DIM_AUX_LOSS_KIND] == 1 ? d[DIM_AUX_LOSS_S] : 0,
                     d[DIM_AUX_LOSS_FIRST]};
}

static void plain_aux_loss(const op *o, void *const *in, void *const *out)
{
    const op_aux_loss args = op_aux_loss_of(o, in, out);
    const real *counts = args.counts; /* [samples][E], [E] or none */
    aux_pass a = aux_local_pass(o, in, out);
    samples l = aux_samples(o);
    double total = 0;
    for (span s = {0, 0}; next_sample(&l, &s);) {
        a.counts = counts ? counts + sample_number(&l, s) * a.E : NULL;
        total += counts ? aux_push_span(&a, s) : balance_span(o, a, s);
    }
    if (l.T > 0 && !(o->flags & REPLAY)) args.loss[0] += (real)(a.scale * total);
}

static void plain_aux_count(const op *o, void *const *in, void *const *out)
{
    const op_aux_count a = op_aux_count_of(o, in, out);
    samples l = aux_samples(o);
    for (span s = {0, 0}; next_sample(&l, &s);) {
        real *counts = a.counts + sample_number(&l, s) * a.E; /* [E] */
        int32_t found[EXPERTS_MAX] = {0};
        aux_count_span(o, a.logits, s, found);
        for (int64_t e = 0; e < a.E; e++) counts[e] += (real)found[e];
    }
}

aux_pass aux_global_pass(const op *o, void *const *in, void *const *out)
{
    const op_aux_global a = op_aux_global_of(o, in, out);
    double K = (double)a.K, steps = (double)a.STEPS, N = (double)a.TOKENS, sum = 0;
    /* A program is made once for all microbatches. STEPS 0: the counts know how many there were. */
    for (int64_t e = 0; e < a.E; e++) sum += (double)a.counts[e];
    if (steps == 0) steps = sum / (K * N);
    double scale = sum > 0 ? a.coefficient * (double)a.E / (K * N * N * steps) : 0;
    return (aux_pass){a.logits, a.counts, a.dlogits, a.E, o->flags, scale, a.gradient};
}

static void plain_aux_global(const op *o, void *const *in, void *const *out)
{
    const op_aux_global args = op_aux_global_of(o, in, out);
    aux_pass a = aux_global_pass(o, in, out);
    double total = aux_push_span(&a, (span){0, args.T});
    if (!(o->flags & REPLAY)) args.loss[0] += (real)(a.scale * total);
}

double z_loss_span(const op *o, void *const *in, void *const *out, span s)
{
    const op_z_loss a = op_z_loss_of(o, in, out);
    real p[EXPERTS_MAX];
    double total = 0, scale = 2 * a.coefficient * a.gradient / (double)a.T;
    for (int64_t t = s.begin; t < s.end; t++) {
        const real *x = a.logits + t * a.E; /* [E] */
        real most = x[0], sum = 0;
        for (int64_t e = 1; e < a.E; e++)
            if (x[e] > most) most = x[e];
        for (int64_t e = 0; e < a.E; e++) sum += p[e] = exp(x[e] - most);
        double lse = (double)(most + log(sum));
        total += lse * lse;
        real g = (real)(scale * lse) / sum;
        for (int64_t e = 0; e < a.E; e++) a.dlogits[t * a.E + e] += g * p[e];
    }
    return total;
}

static void plain_z_loss(const op *o, void *const *in, void *const *out)
{
    const op_z_loss a = op_z_loss_of(o, in, out);
    if (a.T == 0) return;
    double total = z_loss_span(o, in, out, (span){0, a.T});
    if (!(o->flags & REPLAY)) a.loss[0] += (real)(a.coefficient * total / (double)a.T);
}

kernel_rows plain_moe_loss(void)
{
    static const kernel rows[] = {
        {OP_AUX_LOSS, "plain", .accepts = loss_experts_fit, .run = plain_aux_loss},
        {OP_AUX_GLOBAL, "plain", .accepts = experts_fit, .run = plain_aux_global},
        {OP_AUX_COUNT, "plain", .accepts = experts_fit, .run = plain_aux_count},
        {OP_Z_LOSS, "plain", .accepts = experts_fit, .run = plain_z_loss},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
