/* update.c - squares, verdict and AdamW over pieces of the flat arrays.
 *
 * I1  What a piece gives depends on the piece alone, and sums are added in the order of the pieces:
 *     the number of threads changes nothing.
 * I2  A step that is not taken writes nothing.
 * I3  Formulas are those of op/update_math.h: every width of vectors gives the same bits. */
#include "backend/cpu/kernels/update.h"

#include <string.h>

#include "base/wide.h"

enum { BLOCK = 1 << 10 };

/* ---- pieces */

/* The last row that begins at the piece or before it: rows without elements begin where the next
 * one does. */
static table_piece piece_at(const update_table *t, int64_t i)
{
    int64_t low = 0, high = t->n - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (t->rows[middle].piece <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return piece_of_row(t->rows + low, i);
}

/* ---- sums */

/* Four sums side by side hide the time that an addition takes. */
static double squares_of_piece(const float *x, int64_t n)
{
    double a = 0, b = 0, c = 0, d = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += exact_square(x[i]);
        b += exact_square(x[i + 1]);
        c += exact_square(x[i + 2]);
        d += exact_square(x[i + 3]);
    }
    for (; i < n; i++) a += exact_square(x[i]);
    return (a + b) + (c + d);
}

static double zeros_of_piece(const float *x, int64_t n)
{
    int64_t zeros = 0;
    for (int64_t i = 0; i < n; i++) zeros += x[i] == 0;
    return (double)zeros;
}

typedef double sum_of_piece(const float *x, int64_t n);

/* Narrow numbers are widened in blocks, so that a block's numbers lie in the cache. */
static double sum_piece(const table_piece *p, typed x, sum_of_piece *of)
{
    if (!p->answers) return 0;
    if (x.type == DTYPE_F32) return of((const float *)x.at + p->offset, p->n);
    float wide[BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < p->n; i += BLOCK) {
        int64_t n = p->n - i < BLOCK ? p->n - i : BLOCK;
        typed_read(wide, x, p->offset + i, n);
        sum += of(wide, n);
    }
    return sum;
}

/* Pieces are summed side by side, so many at a time, and their sums one after another. */
static double sum_pieces(update_table t, typed x, sum_of_piece *of)
{
    enum { TOGETHER = 1 << 12 };
    double sums[TOGETHER], sum = 0;
    int64_t all = t.n < 1 ? 0 : table_pieces(&t);
    for (int64_t first = 0; first < all; first += TOGETHER) {
        int64_t n = all - first < TOGETHER ? all - first : TOGETHER;
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            table_piece p = piece_at(&t, first + i);
            sums[i] = sum_piece(&p, x, of);
        }
        for (int64_t i = 0; i < n; i++) sum += sums[i]; /* I1 */
    }
    return sum;
}

double update_squares(update_table t, typed x)
{
    return sum_pieces(t, x, squares_of_piece);
}

double update_zeros(update_table t, typed x)
{
    return sum_pieces(t, x, zeros_of_piece);
}

/* ---- AdamW */

/* Loops have copies of the constants: else each store might change them. */
WIDE static void update_piece(const adam_numbers *all, const adam_piece *of, int64_t n,
                              float *restrict w, const float *restrict g, float *restrict m,
                              float *restrict v)
{
    const adam_numbers k = *all;
    const adam_piece q = *of;
    for (int64_t i = 0; i < n; i++) w[i] = adam_element(&k, &q, w[i], g[i], &m[i], &v[i]);
}

/* The same where the weights are BF16 and w are their masters. */
WIDE static void update_masters(const adam_numbers *all, const adam_piece *of, int64_t n,
                                uint16_t *restrict rounded, float *restrict w,
                                const float *restrict g, float *restrict m, float *restrict v)
{
    const adam_numbers k = *all;
    const adam_piece q = *of;
    for (int64_t i = 0; i < n; i++) {
        w[i] = adam_element(&k, &q, w[i], g[i], &m[i], &v[i]);
        rounded[i] = bf16_of_float(w[i]);
    }
}

/* Nothing but the weights is in another format than FP32; those are BF16 where there are
 * masters. */
static bool is_wide(const update_arrays *x)
{
    bool masters = x->masters.at && x->masters.type == DTYPE_F32;
    return (x->masters.at ? masters && x->weights.type == DTYPE_BF16
                          : x->weights.type == DTYPE_F32) &&
           x->gradients.type == DTYPE_F32 && x->first.type == DTYPE_F32 &&
           x->second.type == DTYPE_F32;
}

static void update_wide(const adam_numbers *k, const adam_piece *q, const table_piece *p,
                        const update_arrays *x)
{
    int64_t at = p->offset, own = p->moments;
    const float *g = (const float *)x->gradients.at + at;
    float *m = (float *)x->first.at + own, *v = (float *)x->second.at + own;
    if (x->masters.at)
        update_masters(k, q, p->n, (uint16_t *)x->weights.at + at, (float *)x->masters.at + own, g,
                       m, v);
    else
        update_piece(k, q, p->n, (float *)x->weights.at + at, g, m, v);
}

/* The same on FP32 copies of a block at a time. */
static void update_narrow(const adam_numbers *k, const adam_piece *q, const table_piece *p,
                          const update_arrays *x)
{
    float w[BLOCK], g[BLOCK], m[BLOCK], v[BLOCK];
    bool masters = x->masters.at != NULL;
    for (int64_t i = 0; i < p->n; i += BLOCK) {
        int64_t n = p->n - i < BLOCK ? p->n - i : BLOCK, at = p->offset + i, own = p->moments + i;
        typed_read(w, masters ? x->masters : x->weights, masters ? own : at, n);
        typed_read(g, x->gradients, at, n);
        typed_read(m, x->first, own, n);
        typed_read(v, x->second, own, n);
        update_piece(k, q, n, w, g, m, v);
        if (masters) typed_write(x->masters, own, w, n);
        typed_write(x->weights, at, w, n);
        typed_write(x->first, own, m, n);
        typed_write(x->second, own, v, n);
    }
}

/* The pieces that reach into the window. */
static piece_range pieces_within(const update_table *t, const update_window *of)
{
    piece_range r = {.first = INT64_MAX};
    for (int64_t i = 0; i < t->n; i++) {
        piece_range row = row_within(t->rows + i, of->from, of->n);
        if (row.elements <= 0) continue;
        r.elements += row.elements;
        if (row.first < r.first) r.first = row.first;
        if (row.end > r.end) r.end = row.end;
    }
    return r;
}

static void update_pieces(const adam_numbers *k, const double *verdict, const update_table *t,
                          const update_arrays *x, const update_window *of, piece_range r)
{
    bool wide = is_wide(x);
/* Who is free takes the next. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = r.first; i < r.end; i++) {
        table_piece p = piece_within(piece_at(t, i), of->from, of->n);
        if (p.n <= 0) continue;
        p.offset -= of->at;
        adam_piece q = adam_of_piece(k, &p, verdict);
        (wide ? update_wide : update_narrow)(k, &q, &p, x);
    }
}

void update_adamw(const adam_numbers *k, const double *verdict, update_table t,
                  const update_arrays *x, const update_window *of)
{
    static const update_window all = {.n = INT64_MAX};
    if (!of) of = &all;
    if (verdict[VERDICT_OUTCOME] == STEP_TAKEN) /* I2 */
        update_pieces(k, verdict, &t, x, of, pieces_within(&t, of));
}

/* Weights as their masters are rounded. Padding between them has masters, too: zeros. */
static void round_masters(const update_arrays *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += BLOCK) {
        float wide[BLOCK];
        int64_t some = n - i < BLOCK ? n - i : BLOCK;
        typed_read(wide, x->masters, i, some);
        typed_write(x->weights, i, wide, some);
    }
}

void update_adamw_apart(const adam_numbers *k, const double *verdict, update_table t,
                        const update_arrays *x, const update_window *of)
{
    bool taken = verdict[VERDICT_OUTCOME] == STEP_TAKEN;
    piece_range r = pieces_within(&t, of);
    if (x->masters.at && (!taken || r.elements < of->n)) round_masters(x, of->n);
    if (taken) update_pieces(k, verdict, &t, x, of, r);
}

void update_bias(float *bias, const float *load_of, int64_t n, double rate)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)load_of[i];
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) bias[i] += bias_step((double)load_of[i], mean, (float)rate);
}
