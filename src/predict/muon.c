/* muon.c - Newton-Schulz iterations over a rank's matrices.
 *
 * I1  Five iterations (Megatron's optimizer.muon_num_ns_steps), each X X', its square and one more
 *     GEMM with X, by BF16 tensor cores (muon_fp32_matmul_prec medium).
 * I2  The layer-wise optimizer deals whole matrices to replicas, the costliest first to whom has
 *     least: a rank's share is the mean, and no less than the largest matrix.
 * I3  Momentum, weights and their traffic are priced as Adam's are, with one moment. */
#include "predict/muon.h"

#include <math.h>

#include "layout/stage_parts.h"

enum { ITERATIONS = 5 }; /* I1 */

/* GEMMs of m x m and m x n: as wide and as deep as their shorter side. */
static double rate_at(const cost_model *c, double side)
{
    const hardware *h = c->hw;
    double clock = h->clock > 0 ? h->clock : 1;
    return clock * h->peak[NUMBER_BF16] * curve_at(&h->gemm[NUMBER_BF16], side) * side /
           (side + h->depth[NUMBER_BF16]);
}

double cost_of_muon(const cost_model *c, const state_bytes *s)
{
    double seconds = 0;
    for (int i = 0; i < 2; i++) {
        const orthogonal *t = &s->turns[i];
        if (!(t->flops > 0)) continue;
        double share = t->flops / (double)optimizer_shards(&c->s->j, &c->s->lay, i);
        double rate = rate_at(c, t->side);
        if (rate > 0) seconds += ITERATIONS * fmax(share, t->largest) / rate; /* I2 */
    }
    return seconds * c->device;
}
