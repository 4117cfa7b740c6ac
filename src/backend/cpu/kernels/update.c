/* update.c - squares, verdict and AdamW over pieces of the flat arrays.
 *
 * I1  What a piece gives depends on the piece alone, and sums are added in the order of the pieces:
 *     the number of threads changes nothing.
 * I2  Squares of floats are exact in double: only the additions round.
 * I3  A step that is not taken writes nothing.
 * I4  Only operations that round once are used, each by itself: every width of vectors, and every
 *     processor, gives the same bits. */
#include "backend/cpu/kernels/update.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/maths.h"
#include "base/wide.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* I4; gcc contracts nothing in ISO C */
#endif

enum { BLOCK = 1 << 10 };

/* ---- pieces */

typedef struct piece {
    int64_t offset, moments, n;
    bool decays, embedding, answers;
} piece;

static const double *row_of(update_table t, int64_t i)
{
    return t.rows + i * TABLE_COLUMNS;
}

static int64_t pieces_of(update_table t)
{
    if (t.n < 1) return 0;
    const double *last = row_of(t, t.n - 1);
    return (int64_t)last[TABLE_PIECE] + ceil_div((int64_t)last[TABLE_N], UPDATE_PIECE);
}

/* The last row that begins at the piece or before it: rows without elements begin where the next
 * one does. */
static piece piece_at(update_table t, int64_t i)
{
    int64_t low = 0, high = t.n - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (row_of(t, middle)[TABLE_PIECE] <= (double)i)
            low = middle;
        else
            high = middle - 1;
    }
    const double *r = row_of(t, low);
    int64_t at = (i - (int64_t)r[TABLE_PIECE]) * UPDATE_PIECE, rest = (int64_t)r[TABLE_N] - at;
    return (piece){.offset = (int64_t)r[TABLE_OFFSET] + at,
                   .moments = (int64_t)r[TABLE_MOMENTS] + at,
                   .n = rest < UPDATE_PIECE ? rest : UPDATE_PIECE,
                   .decays = r[TABLE_DECAYS] != 0,
                   .embedding = r[TABLE_EMBEDDING] != 0,
                   .answers = r[TABLE_ANSWERS] != 0};
}

/* ---- sums */

static double square(float x)
{
    return (double)x * (double)x; /* I2 */
}

/* Four sums side by side hide the time that an addition takes. */
static double squares_of_piece(const float *x, int64_t n)
{
    double a = 0, b = 0, c = 0, d = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += square(x[i]);
        b += square(x[i + 1]);
        c += square(x[i + 2]);
        d += square(x[i + 3]);
    }
    for (; i < n; i++) a += square(x[i]);
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
static double sum_piece(const piece *p, typed x, sum_of_piece *of)
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
    int64_t all = pieces_of(t);
    for (int64_t first = 0; first < all; first += TOGETHER) {
        int64_t n = all - first < TOGETHER ? all - first : TOGETHER;
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            piece p = piece_at(t, first + i);
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

/* ---- the verdict */

static step_outcome outcome_of(const double *sums, double norm, const verdict_limits *l)
{
    static const step_sum losses[] = {SUM_LOSS, SUM_MTP, SUM_AUX, SUM_Z};
    if (sums[SUM_FAILED] > 0) return STEP_FAILED;
    if (sums[SUM_OVERFLOWS] > 0) return STEP_OVERFLOWED;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++)
        if (!isfinite(sums[losses[i]])) return STEP_LOSS_NOT_FINITE;
    if (!isfinite(norm)) return STEP_NOT_FINITE;
    return norm > l->skip ? STEP_TOO_LARGE : STEP_TAKEN;
}

void update_verdict(double *verdict, const double *sums, const double *given,
                    const verdict_limits *l)
{
    double norm = given[GIVEN_SCALE] * sqrt(sums[SUM_SQUARES]), t = given[GIVEN_STEPS] + 1;
    step_outcome outcome = outcome_of(sums, norm, l);
    bool clips = outcome == STEP_TAKEN && l->clip > 0;
    double clip = clips ? fmin(1, l->clip / (norm + 1e-6)) : 1;
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

/* The constants of one update, rounded once. */
typedef struct adam {
    float beta1, rest1, beta2, rest2;
    float correct1, correct2;
    float eps, scale;
    float lr, decay, l2;
} adam;

static adam adam_of_step(const adamw_numbers *k, const double *verdict)
{
    return (adam){.beta1 = (float)k->beta1,
                  .rest1 = (float)(1 - k->beta1),
                  .beta2 = (float)k->beta2,
                  .rest2 = (float)(1 - k->beta2),
                  .correct1 = (float)verdict[VERDICT_CORRECT1],
                  .correct2 = (float)verdict[VERDICT_CORRECT2],
                  .eps = (float)k->eps,
                  .scale = (float)verdict[VERDICT_SCALE]};
}

static adam adam_of_piece(adam k, bool l2, const piece *p, const double *verdict)
{
    float decay = p->decays ? (float)verdict[VERDICT_DECAY] : 0;
    k.lr = (float)verdict[p->embedding ? VERDICT_EMBEDDING_LR : VERDICT_LR];
    k.decay = l2 ? 0 : decay;
    k.l2 = l2 ? decay : 0;
    return k;
}

/* One element. Written out for a loop that becomes vectors: the update is to be bound by memory. */
static inline __attribute__((always_inline)) float new_weight(const adam *k, float p, float g,
                                                              float *m, float *v)
{
    float d = g * k->scale + k->l2 * p;
    float first = k->beta1 * *m + k->rest1 * d;
    float second = k->beta2 * *v + k->rest2 * d * d;
    float root = sqrtf(second * k->correct2) + k->eps;
    *m = first;
    *v = second;
    return p - k->lr * (first * k->correct1 / root + k->decay * p);
}

WIDE static void update_piece(const adam *of, int64_t n, float *restrict w, const float *restrict g,
                              float *restrict m, float *restrict v)
{
    const adam k = *of;
    for (int64_t i = 0; i < n; i++) w[i] = new_weight(&k, w[i], g[i], &m[i], &v[i]);
}

/* The same where the weights are BF16 and w are their masters. */
WIDE static void update_masters(const adam *of, int64_t n, uint16_t *restrict rounded,
                                float *restrict w, const float *restrict g, float *restrict m,
                                float *restrict v)
{
    const adam k = *of;
    for (int64_t i = 0; i < n; i++) {
        w[i] = new_weight(&k, w[i], g[i], &m[i], &v[i]);
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

static void update_wide(const adam *k, const piece *p, const update_arrays *x)
{
    int64_t at = p->offset, own = p->moments;
    const float *g = (const float *)x->gradients.at + at;
    float *m = (float *)x->first.at + own, *v = (float *)x->second.at + own;
    if (x->masters.at)
        update_masters(k, p->n, (uint16_t *)x->weights.at + at, (float *)x->masters.at + own, g, m,
                       v);
    else
        update_piece(k, p->n, (float *)x->weights.at + at, g, m, v);
}

/* The same on FP32 copies of a block at a time. */
static void update_narrow(const adam *k, const piece *p, const update_arrays *x)
{
    float w[BLOCK], g[BLOCK], m[BLOCK], v[BLOCK];
    bool masters = x->masters.at != NULL;
    for (int64_t i = 0; i < p->n; i += BLOCK) {
        int64_t n = p->n - i < BLOCK ? p->n - i : BLOCK, at = p->offset + i, own = p->moments + i;
        typed_read(w, masters ? x->masters : x->weights, masters ? own : at, n);
        typed_read(g, x->gradients, at, n);
        typed_read(m, x->first, own, n);
        typed_read(v, x->second, own, n);
        update_piece(k, n, w, g, m, v);
        if (masters) typed_write(x->masters, own, w, n);
        typed_write(x->weights, at, w, n);
        typed_write(x->first, own, m, n);
        typed_write(x->second, own, v, n);
    }
}

/* The part of a piece that lies in the window, with its places in the window's arrays. */
static piece piece_within(piece p, const update_window *of)
{
    int64_t skip = of->from > p.moments ? of->from - p.moments : 0;
    int64_t end = of->n - (p.moments - of->from);
    p.n = (end < p.n ? end : p.n) - skip;
    p.moments += skip - of->from;
    p.offset += skip - of->at;
    return p;
}

/* The pieces that reach into the window. */
typedef struct piece_range {
    int64_t first, end;
    int64_t elements; /* of the window, that they have */
} piece_range;

static piece_range pieces_within(update_table t, const update_window *of)
{
    piece_range r = {.first = pieces_of(t)};
    for (int64_t i = 0; i < t.n; i++) {
        const double *row = row_of(t, i);
        piece all = {.moments = (int64_t)row[TABLE_MOMENTS], .n = (int64_t)row[TABLE_N]};
        piece some = piece_within(all, of);
        if (some.n <= 0) continue;
        int64_t skipped = some.moments + of->from - all.moments, begin = (int64_t)row[TABLE_PIECE];
        int64_t first = begin + skipped / UPDATE_PIECE;
        int64_t end = begin + ceil_div(skipped + some.n, UPDATE_PIECE);
        r.elements += some.n;
        if (first < r.first) r.first = first;
        if (end > r.end) r.end = end;
    }
    return r;
}

static void update_pieces(const adamw_numbers *k, const double *verdict, update_table t,
                          const update_arrays *x, const update_window *of, piece_range r)
{
    adam of_step = adam_of_step(k, verdict);
    bool wide = is_wide(x);
/* Who is free takes the next. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = r.first; i < r.end; i++) {
        piece p = piece_within(piece_at(t, i), of);
        if (p.n <= 0) continue;
        adam of_piece = adam_of_piece(of_step, k->l2, &p, verdict);
        if (wide)
            update_wide(&of_piece, &p, x);
        else
            update_narrow(&of_piece, &p, x);
    }
}

void update_adamw(const adamw_numbers *k, const double *verdict, update_table t,
                  const update_arrays *x, const update_window *of)
{
    static const update_window all = {.n = INT64_MAX};
    if (!of) of = &all;
    if (verdict[VERDICT_OUTCOME] == STEP_TAKEN) /* I3 */
        update_pieces(k, verdict, t, x, of, pieces_within(t, of));
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

void update_adamw_apart(const adamw_numbers *k, const double *verdict, update_table t,
                        const update_arrays *x, const update_window *of)
{
    bool taken = verdict[VERDICT_OUTCOME] == STEP_TAKEN;
    piece_range r = pieces_within(t, of);
    if (x->masters.at && (!taken || r.elements < of->n)) round_masters(x, of->n);
    if (taken) update_pieces(k, verdict, t, x, of, r);
}

int update_threads_beside_gpu(void)
{
    int all = omp_get_max_threads();
    return all > 2 ? all - 1 : all;
}

/* HOST_ADAMW has the positions of ADAMW, and one more. */
void update_run(const op *o, const op_types *t, void *const *in, void *const *out)
{
    const double *r = o->real;
    const int64_t *d = o->dim;
    typed to[OP_OUT_MAX];
    for (int i = OUT_ADAMW_weight; i <= OUT_ADAMW_second; i++) to[i] = (typed){t->out[i], out[i]};
    update_arrays x = {.weights = to[OUT_ADAMW_weight],
                       .gradients = {t->in[IN_ADAMW_gradient], in[IN_ADAMW_gradient]},
                       .masters = to[OUT_ADAMW_master],
                       .first = to[OUT_ADAMW_first],
                       .second = to[OUT_ADAMW_second]};
    adamw_numbers k = {r[REAL_ADAMW_beta1], r[REAL_ADAMW_beta2], r[REAL_ADAMW_eps],
                       (o->flags & DECAY_L2) != 0};
    bool apart = o->kind == OP_HOST_ADAMW;
    update_window of = {d[DIM_ADAMW_FROM], d[DIM_ADAMW_COUNT], apart ? d[DIM_HOST_ADAMW_AT] : 0};
    update_table rows = {in[IN_ADAMW_table], d[DIM_ADAMW_ROWS]};
    (apart ? update_adamw_apart : update_adamw)(&k, in[IN_ADAMW_verdict], rows, &x, &of);
}

void update_bias(float *bias, const float *load_of, int64_t n, double rate)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)load_of[i];
    for (int64_t i = 0; i < n; i++) {
        double mean = sum / (double)n, own = (double)load_of[i];
        bias[i] += (float)rate * (float)((mean > own) - (mean < own));
    }
}
