/* update_math.h - a step's end as arithmetic: tally, verdict, the table's rows, AdamW, biases.
 *
 * The CPU's loops and the GPU's kernels are made of these functions, so what a step decides and
 * what an element becomes is said once. Who goes over which elements, and in which order sums are
 * added, is each backend's own. With t counting updates from 1:
 *
 *     g = gradient * scale * clip
 *     m = b1 m + (1-b1) g        v = b2 v + (1-b2) g^2
 *     w = w - lr * ( (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + decay * w )
 *
 * Without decoupled decay, decay * w is added to g instead.
 *
 * On the CPU only operations that round once are used, each by itself: every width of vectors, and
 * every processor, gives the same bits. */
#ifndef OP_UPDATE_MATH_H
#define OP_UPDATE_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/narrow.h"
#include "op/update.h"

#if defined(__clang__) && !defined(__CUDACC__)
#pragma STDC FP_CONTRACT OFF /* gcc contracts nothing in ISO C */
#endif

/* ---- the table */

typedef struct update_table {
    const update_row *rows;
    int64_t n;
} update_table;

/* An operand as what it holds. */
ON_BOTH update_table table_of(const double *operand, int64_t n)
{
    const update_table t = {(const update_row *)(const void *)operand, n};
    return t;
}

/* Pieces of a table that has rows. */
ON_BOTH int64_t table_pieces(const update_table *t)
{
    const update_row *last = t->rows + t->n - 1;
    return last->piece + (last->n + UPDATE_PIECE - 1) / UPDATE_PIECE;
}

typedef struct table_piece {
    int64_t offset, moments, n;
    bool decays, embedding, answers;
} table_piece;

/* Piece i, which lies in this row: the last one that begins there or before. */
ON_BOTH table_piece piece_of_row(const update_row *r, int64_t i)
{
    const int64_t at = (i - r->piece) * UPDATE_PIECE, rest = r->n - at;
    const table_piece p = {
        r->offset + at, r->moments + at,   rest < UPDATE_PIECE ? rest : UPDATE_PIECE,
        r->decays != 0, r->embedding != 0, r->answers != 0};
    return p;
}

/* The part of a piece whose masters and moments lie in a window: `n` elements of what is owned,
 * `from` on. Its moments are counted from there. */
ON_BOTH table_piece piece_within(table_piece p, int64_t from, int64_t n)
{
    const int64_t skip = from > p.moments ? from - p.moments : 0;
    const int64_t end = from + n - p.moments;
    p.n = (end < p.n ? end : p.n) - skip;
    p.moments += skip - from;
    p.offset += skip;
    return p;
}

/* Pieces of the table from `first` on, before `end`. */
typedef struct piece_range {
    int64_t first, end;
    int64_t elements; /* of the window, that they have; not positive: no piece reaches into it */
} piece_range;

/* Those of a row that reach into a window. */
ON_BOTH piece_range row_within(const update_row *row, int64_t from, int64_t n)
{
    const int64_t before = from - row->moments, skip = before > 0 ? before : 0;
    const int64_t last = before + n < row->n ? before + n : row->n;
    const piece_range r = {row->piece + skip / UPDATE_PIECE,
                           row->piece + (last + UPDATE_PIECE - 1) / UPDATE_PIECE, last - skip};
    return r;
}

/* ---- sums */

/* Squares of floats are exact in double: only additions round. */
ON_BOTH double exact_square(float x)
{
    return (double)x * (double)x;
}

/* The operands of TALLY. */
typedef struct tally_operands {
    const float *loss, *mtp, *aux, *z, *rows;
    const double *counts, *given, *squares;
    int64_t micros, layers;
} tally_operands;

/* Of the losses of this rank's tokens: buffers hold weighted sums, and sums of weights. */
ON_BOTH double tokens_loss(const float *loss, double here)
{
    return loss[1] > 0 ? (double)loss[0] / (double)loss[1] * here : 0;
}

ON_BOTH double sum_of_layers(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n && x; i++) sum += (double)x[i];
    return sum;
}

ON_BOTH void update_tally(double *t, const tally_operands *x)
{
    for (int i = 0; i < SUM_COUNT; i++) t[i] = 0;
    for (int64_t m = 0; m < x->micros && x->loss; m++) {
        const double *n = x->counts + m * COUNTS_COUNT;
        t[SUM_LOSS] += tokens_loss(x->loss + 2 * m, n[COUNTS_HERE]);
        t[SUM_TOKENS] += n[COUNTS_HERE];
        t[SUM_OBJECTIVE] += (double)x->loss[2 * m];
        if (!x->mtp) continue;
        t[SUM_OBJECTIVE] += (double)x->mtp[2 * m];
        if (n[COUNTS_MTP_WHOLE] > 0)
            t[SUM_MTP] += tokens_loss(x->mtp + 2 * m, n[COUNTS_MTP_HERE]) / n[COUNTS_MTP_WHOLE];
    }
    t[SUM_AUX] = sum_of_layers(x->aux, x->layers);
    t[SUM_Z] = sum_of_layers(x->z, x->layers);
    t[SUM_SQUARES] = *x->squares;
    for (int64_t i = 0; i < x->layers && x->rows; i++)
        if (x->rows[2 * i] > x->rows[2 * i + 1]) t[SUM_OVERFLOWS] = 1;
    t[SUM_FAILED] = x->given[GIVEN_FAILED];
    t[SUM_LEAVE] = x->given[GIVEN_LEAVE];
    t[SUM_MINUTE] = x->given[GIVEN_MINUTE];
    t[SUM_AGAIN] = x->given[GIVEN_AGAIN];
    t[SUM_SAVING] = x->given[GIVEN_SAVING];
}

/* ---- the verdict */

typedef struct verdict_limits {
    double clip, skip, beta1, beta2; /* as the reals of VERDICT */
} verdict_limits;

ON_BOTH step_outcome outcome_of(const double *sums, double norm, double skip)
{
    if (sums[SUM_FAILED] > 0) return STEP_FAILED;
    if (sums[SUM_OVERFLOWS] > 0) return STEP_OVERFLOWED;
    if (!isfinite(sums[SUM_LOSS]) || !isfinite(sums[SUM_MTP]) || !isfinite(sums[SUM_AUX]) ||
        !isfinite(sums[SUM_Z]))
        return STEP_LOSS_NOT_FINITE;
    if (!isfinite(norm)) return STEP_NOT_FINITE;
    return norm > skip ? STEP_TOO_LARGE : STEP_TAKEN;
}

ON_BOTH void update_verdict(double *verdict, const double *sums, const double *given,
                            const verdict_limits *l)
{
    const double norm = given[GIVEN_SCALE] * sqrt(sums[SUM_SQUARES]), t = given[GIVEN_STEPS] + 1;
    const step_outcome outcome = outcome_of(sums, norm, l->skip);
    const bool clips = outcome == STEP_TAKEN && l->clip > 0;
    const double clip = clips ? fmin(1.0, l->clip / (norm + 1e-6)) : 1;
    verdict[VERDICT_OUTCOME] = outcome;
    verdict[VERDICT_NORM] = outcome == STEP_LOSS_NOT_FINITE ? (double)NAN : norm;
    verdict[VERDICT_CLIP] = clip;
    verdict[VERDICT_SCALE] = given[GIVEN_SCALE] * clip;
    verdict[VERDICT_LR] = given[GIVEN_LR];
    verdict[VERDICT_EMBEDDING_LR] = given[GIVEN_EMBEDDING_LR];
    verdict[VERDICT_DECAY] = given[GIVEN_DECAY];
    verdict[VERDICT_CORRECT1] = 1 / (1 - pow(l->beta1, t));
    verdict[VERDICT_CORRECT2] = 1 / (1 - pow(l->beta2, t));
}

/* ---- AdamW */

/* The constants of all updates, rounded once. */
typedef struct adam_numbers {
    float beta1, rest1, beta2, rest2, eps;
    bool l2; /* decay goes into the gradient */
} adam_numbers;

/* Those of one piece. */
typedef struct adam_piece {
    float correct1, correct2, scale, lr, decay, l2;
} adam_piece;

static inline adam_numbers adam_of(double beta1, double beta2, double eps, bool l2)
{
    const adam_numbers k = {(float)beta1,       (float)(1 - beta1), (float)beta2,
                            (float)(1 - beta2), (float)eps,         l2};
    return k;
}

ON_BOTH adam_piece adam_of_piece(const adam_numbers *k, const table_piece *p, const double *verdict)
{
    const float decay = p->decays ? (float)verdict[VERDICT_DECAY] : 0;
    const adam_piece q = {(float)verdict[VERDICT_CORRECT1],
                          (float)verdict[VERDICT_CORRECT2],
                          (float)verdict[VERDICT_SCALE],
                          (float)verdict[p->embedding ? VERDICT_EMBEDDING_LR : VERDICT_LR],
                          k->l2 ? 0 : decay,
                          k->l2 ? decay : 0};
    return q;
}

/* a * b + c: two roundings on the CPU, one on the GPU. Written out because a compiler that may
 * contract g * scale + l2 * p takes either product, another one in other surroundings. */
ON_BOTH float times_plus(float a, float b, float c)
{
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return a * b + c;
#endif
}

/* The new weight of one element. Part of loops that become vectors: they are to be bound by
 * memory. */
ON_BOTH __attribute__((always_inline)) float
adam_element(const adam_numbers *k, const adam_piece *q, float p, float g, float *m, float *v)
{
    const float d = times_plus(g, q->scale, q->l2 * p);
    const float first = times_plus(k->beta1, *m, k->rest1 * d);
    const float second = times_plus(k->beta2, *v, k->rest2 * d * d);
    const float root = sqrtf(second * q->correct2) + k->eps;
    *m = first;
    *v = second;
    return p - q->lr * times_plus(q->decay, p, first * q->correct1 / root);
}

/* ---- the routers' biases */

/* What it grows by: experts below the mean load gain `rate`, those above lose it. */
ON_BOTH float bias_step(double load, double mean, float rate)
{
    return rate * (float)((mean > load) - (mean < load));
}

#endif
