/* update.c - squares, verdict and AdamW over pieces of the flat arrays.
 *
 * I1  What a piece gives depends on the piece alone, and sums are added in the order of the pieces:
 *     the number of threads changes nothing.
 * I2  Squares of floats are exact in double: only the additions round.
 * I3  A step that is not taken writes nothing. */
#include "kernels/cpu/update.h"

#include <math.h>
#include <string.h>

#if defined __SSE2__
#include <emmintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#include "base/maths.h"

enum { BLOCK = 1 << 10 };

/* ---- four numbers at a time
 *
 * The update is bound by memory only where it is vectorised, and compilers do not vectorise a loop
 * with sqrtf, which may set errno. So lanes are spelled out, in the compilers' own notation. */

enum { LANES = 4 };
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));

/* The next LANES numbers, zeros where only n are left. */
static inline floats load(const float *x, int64_t n)
{
    floats v = {0};
    if (n >= LANES)
        memcpy(&v, x, sizeof v);
    else
        memcpy(&v, x, sizeof *x * (size_t)n);
    return v;
}

static inline void store(float *x, int64_t n, floats v)
{
    if (n >= LANES)
        memcpy(x, &v, sizeof v);
    else
        memcpy(x, &v, sizeof *x * (size_t)n);
}

static inline floats root_of(floats x)
{
#if defined __SSE2__
    return _mm_sqrt_ps(x);
#elif defined __aarch64__
    return (floats)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}

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

static void update_piece(const adam *k, int64_t n, float *w, const float *g, float *m, float *v)
{
    for (int64_t i = 0; i < n; i += LANES) {
        floats p = load(w + i, n - i);
        floats d = load(g + i, n - i) * k->scale + k->l2 * p;
        floats first = k->beta1 * load(m + i, n - i) + k->rest1 * d;
        floats second = k->beta2 * load(v + i, n - i) + k->rest2 * d * d;
        floats root = root_of(second * k->correct2) + k->eps;
        store(w + i, n - i, p - k->lr * (first * k->correct1 / root + k->decay * p));
        store(m + i, n - i, first);
        store(v + i, n - i, second);
    }
}

static bool is_wide(const update_arrays *x)
{
    return !x->masters.at && x->weights.type == DTYPE_F32 && x->gradients.type == DTYPE_F32 &&
           x->first.type == DTYPE_F32 && x->second.type == DTYPE_F32;
}

static void update_wide(const adam *k, const piece *p, const update_arrays *x)
{
    int64_t at = p->offset, own = p->moments;
    update_piece(k, p->n, (float *)x->weights.at + at, (const float *)x->gradients.at + at,
                 (float *)x->first.at + own, (float *)x->second.at + own);
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

void update_adamw(const adamw_numbers *k, const double *verdict, update_table t,
                  const update_arrays *x)
{
    if (verdict[VERDICT_OUTCOME] != STEP_TAKEN) return; /* I3 */
    adam of_step = adam_of_step(k, verdict);
    bool wide = is_wide(x);
    int64_t n = pieces_of(t);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        piece p = piece_at(t, i);
        adam of_piece = adam_of_piece(of_step, k->l2, &p, verdict);
        if (wide)
            update_wide(&of_piece, &p, x);
        else
            update_narrow(&of_piece, &p, x);
    }
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
