/* fast_moe_router.c - router and its losses on all threads.
 *
 * The work on a token is row 0's. Tokens are cut into PARTS parts, whatever the number of threads,
 * and sums of parts are added in their order: so the bits do not depend on who did what. */
#include "backend/cpu/kernels/fast_moe.h"

#include <string.h>

#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

enum { PARTS = 256 };

static span part_of(span s, int i)
{
    int64_t n = s.end - s.begin;
    return (span){s.begin + n * i / PARTS, s.begin + n * (i + 1) / PARTS};
}

static double sum_of_parts(const double *parts /* [PARTS] */)
{
    double sum = 0;
    for (int i = 0; i < PARTS; i++) sum += parts[i];
    return sum;
}

static void fast_router(const op *o, void *const *in, void *const *out)
{
    const op_router a = op_router_of(o, in, out);
    span all = {0, a.T};
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTS; i++) router_span(o, in, out, part_of(all, i));
}

static void fast_router_d(const op *o, void *const *in, void *const *out)
{
    const op_router_d a = op_router_d_of(o, in, out);
    span all = {0, a.T};
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTS; i++) router_d_span(o, in, out, part_of(all, i));
}

/* Whole numbers: they may be added in any order. */
static void count_tokens(const op *o, const float *logits, span s, int64_t E, int32_t *counts)
{
    memset(counts, 0, (size_t)E * sizeof *counts);
#pragma omp parallel
    {
        int32_t mine[EXPERTS_MAX];
        memset(mine, 0, (size_t)E * sizeof *mine);
#pragma omp for schedule(static)
        for (int i = 0; i < PARTS; i++) aux_count_span(o, logits, part_of(s, i), mine);
#pragma omp critical
        for (int64_t e = 0; e < E; e++) counts[e] += mine[e];
    }
}

static double push_tokens(const aux_pass *a, span s)
{
    double parts[PARTS];
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTS; i++) parts[i] = aux_push_span(a, part_of(s, i));
    return sum_of_parts(parts);
}

static double balance_tokens(const op *o, aux_pass a, span s)
{
    int32_t counts[EXPERTS_MAX];
    float as_real[EXPERTS_MAX];
    count_tokens(o, a.logits, s, a.E, counts);
    for (int64_t e = 0; e < a.E; e++) as_real[e] = (float)counts[e];
    a.counts = as_real;
    return push_tokens(&a, s);
}

static void fast_aux_loss(const op *o, void *const *in, void *const *out)
{
    const op_aux_loss args = op_aux_loss_of(o, in, out);
    const float *counts = args.counts; /* [samples][E], [E] or none */
    aux_pass a = aux_local_pass(o, in, out);
    samples l = aux_samples(o);
    double total = 0;
    for (span s = {0, 0}; next_sample(&l, &s);) {
        a.counts = counts ? counts + sample_number(&l, s) * a.E : NULL;
        total += counts ? push_tokens(&a, s) : balance_tokens(o, a, s);
    }
    if (l.T > 0 && !(o->flags & REPLAY)) args.loss[0] += (float)(a.scale * total);
}

static void fast_aux_count(const op *o, void *const *in, void *const *out)
{
    const op_aux_count a = op_aux_count_of(o, in, out);
    samples l = aux_samples(o);
    for (span s = {0, 0}; next_sample(&l, &s);) {
        float *counts = a.counts + sample_number(&l, s) * a.E; /* [E] */
        int32_t found[EXPERTS_MAX];
        count_tokens(o, a.logits, s, a.E, found);
        for (int64_t e = 0; e < a.E; e++) counts[e] += (float)found[e];
    }
}

static void fast_aux_global(const op *o, void *const *in, void *const *out)
{
    const op_aux_global args = op_aux_global_of(o, in, out);
    aux_pass a = aux_global_pass(o, in, out);
    double total = push_tokens(&a, (span){0, args.T});
    if (!(o->flags & REPLAY)) args.loss[0] += (float)(a.scale * total);
}

static void fast_z_loss(const op *o, void *const *in, void *const *out)
{
    const op_z_loss a = op_z_loss_of(o, in, out);
    span all = {0, a.T};
    double parts[PARTS];
    if (all.end == 0) return;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTS; i++) parts[i] = z_loss_span(o, in, out, part_of(all, i));
    double mean = sum_of_parts(parts) / (double)all.end;
    if (!(o->flags & REPLAY)) a.loss[0] += (float)(a.coefficient * mean);
}

kernel_rows fast_moe_router(void)
{
    static const kernel rows[] = {
        {OP_ROUTER, "threads", .accepts = experts_fit, .run = fast_router},
        {OP_ROUTER_D, "threads", .accepts = experts_fit, .run = fast_router_d},
        {OP_AUX_LOSS, "threads", .accepts = loss_experts_fit, .run = fast_aux_loss},
        {OP_AUX_GLOBAL, "threads", .accepts = experts_fit, .run = fast_aux_global},
        {OP_AUX_COUNT, "threads", .accepts = experts_fit, .run = fast_aux_count},
        {OP_Z_LOSS, "threads", .accepts = experts_fit, .run = fast_z_loss},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
