/* plain_moe_loss.c - load-balancing losses and the z loss.
 *
 *     loss = coefficient * E / (K * N^2) * sum over e of (sum over t of P[t][e]) * counts[e]
 *
 * L1  P are scores over all experts that sum to 1; counts say how often an expert is among the K
 *     best of them. Neither bias nor group limits nor capacity have a part in either.
 * L2  Counts are constants for the gradient, so what a token adds to the loss is also the inner
 *     product that the gradient of its normalisation needs. One pass yields both.
 * L3  Sums over tokens are in double: a microbatch has up to millions of terms.
 * L4  The gradient is that of the loss as written, by this rank's logits. The global loss counts
 *     the tokens of all ranks in N; whoever averages gradients over data-parallel ranks afterwards
 *     must say so in `gradient`, or loses a factor as Megatron does (its issue 3672). */
#include "kernels/cpu/plain_moe.h"

#include <string.h>
#include <tgmath.h>

/* Where E and K are among the sizes of each kind. */
static int64_t experts_of(const op *o)
{
    return o->kind == OP_AUX_LOSS ? o->dim[2] : o->dim[1];
}

static int64_t topk_of(const op *o)
{
    return o->kind == OP_AUX_LOSS ? o->dim[3] : o->dim[2];
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
    int64_t E = o->dim[2], K = o->dim[3], all = o->dim[6], seq = o->dim[7];
    if (!in[1]) all = o->dim[0], seq = o->dim[1];
    /* The losses of all / N sequences are averaged. */
    double N = (double)(o->dim[4] == 1 ? seq : all);
    double scale = o->real[0] * (double)E / ((double)K * N * (double)all);
    return (aux_pass){in[0], NULL, out[1], E, o->flags, scale, o->real[1]};
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
    bool counts = o->kind == OP_AUX_COUNT;
    if (counts) return (samples){o->dim[0], o->dim[3], o->dim[4]};
    return (samples){o->dim[0], o->dim[4] == 1 ? o->dim[1] : 0, o->dim[5]};
}

void plain_aux_loss(const op *o, void *const *in, void *const *out)
{
    const real *counts = in[1]; /* [samples][E], [E] or none */
    real *loss = out[0];        /* [1] */
    aux_pass a = aux_local_pass(o, in, out);
    samples l = aux_samples(o);
    double total = 0;
    for (span s = {0, 0}; next_sample(&l, &s);) {
        a.counts = counts ? counts + sample_number(&l, s) * a.E : NULL;
        total += counts ? aux_push_span(&a, s) : balance_span(o, a, s);
    }
    if (l.T > 0 && !(o->flags & REPLAY)) loss[0] += (real)(a.scale * total);
}

void plain_aux_count(const op *o, void *const *in, void *const *out)
{
    int64_t E = o->dim[1];
    samples l = aux_samples(o);
    for (span s = {0, 0}; next_sample(&l, &s);) {
        real *counts = (real *)out[0] + sample_number(&l, s) * E; /* [E] */
        int32_t found[EXPERTS_MAX] = {0};
        aux_count_span(o, in[0], s, found);
        for (int64_t e = 0; e < E; e++) counts[e] += (real)found[e];
    }
}

aux_pass aux_global_pass(const op *o, void *const *in, void *const *out)
{
    const real *counts = in[1]; /* [E] */
    int64_t E = o->dim[1];
    double K = (double)o->dim[2], steps = (double)o->dim[3], N = (double)o->dim[4], sum = 0;
    /* A program is made once for all microbatches. STEPS 0: the counts know how many there were. */
    for (int64_t e = 0; e < E; e++) sum += (double)counts[e];
    if (steps == 0) steps = sum / (K * N);
    double scale = sum > 0 ? o->real[0] * (double)E / (K * N * N * steps) : 0;
    return (aux_pass){in[0], counts, out[1], E, o->flags, scale, o->real[1]};
}

void plain_aux_global(const op *o, void *const *in, void *const *out)
{
    real *loss = out[0]; /* [1] */
    aux_pass a = aux_global_pass(o, in, out);
    double total = aux_push_span(&a, (span){0, o->dim[0]});
    if (!(o->flags & REPLAY)) loss[0] += (real)(a.scale * total);
}

double z_loss_span(const op *o, void *const *in, void *const *out, span s)
{
    const real *logits = in[0]; /* [T][E] */
    real *dlogits = out[1];     /* [T][E] */
    int64_t T = o->dim[0], E = o->dim[1];
    real p[EXPERTS_MAX];
    double total = 0, scale = 2 * o->real[0] * o->real[1] / (double)T;
    for (int64_t t = s.begin; t < s.end; t++) {
        const real *x = logits + t * E; /* [E] */
        real most = x[0], sum = 0;
        for (int64_t e = 1; e < E; e++)
            if (x[e] > most) most = x[e];
        for (int64_t e = 0; e < E; e++) sum += p[e] = exp(x[e] - most);
        double lse = (double)(most + log(sum));
        total += lse * lse;
        real g = (real)(scale * lse) / sum;
        for (int64_t e = 0; e < E; e++) dlogits[t * E + e] += g * p[e];
    }
    return total;
}

void plain_z_loss(const op *o, void *const *in, void *const *out)
{
    real *loss = out[0]; /* [1] */
    int64_t T = o->dim[0];
    if (T == 0) return;
    double total = z_loss_span(o, in, out, (span){0, T});
    if (!(o->flags & REPLAY)) loss[0] += (real)(o->real[0] * total / (double)T);
}
