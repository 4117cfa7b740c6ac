/* optimizer.c - norm, clip and update over pieces of the flat arrays.
 *
 * I1  What this rank owns of each weight is cut into pieces of at most PIECE elements when the
 *     optimizer is made. What a piece gives depends on the piece alone, and sums are added in the
 *     order of the pieces: the number of threads changes nothing.
 * I2  Squares of floats are exact in double: only the additions round.
 * I3  A skipped step writes nothing. */
#include "run/optimizer.h"

#include <math.h>
#include <string.h>

#if defined __SSE2__
#include <emmintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#include "base/maths.h"
#include "run/owned.h"

enum { PIECE = 1 << 14, BLOCK = 1 << 10 };

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

/* ---- which weights */

/* Experts that a file keeps one by one have a dimension less there than here. */
static int dimensions_in_file(const param *row)
{
    return row->n_dims - (row->kind == PARAM_EXPERT && row->hf == HF_EXPERT_ROWS);
}

bool optimizer_decays(const param *row, decay_rule rule, bool qk_norms)
{
    if (!row->trained) return false;
    if (rule == DECAY_FILE) return dimensions_in_file(row) >= 2;
    bool qk = strstr(row->name, "q_layernorm.") || strstr(row->name, "k_layernorm.");
    return row->decay || (qk_norms && qk);
}

/* Megatron's decoupled rate is for the word table and the head, not for learned positions. */
static bool has_embedding_rate(const param *row)
{
    return row->kind == PARAM_EMBEDDING && !strstr(row->name, "position_embeddings");
}

static int64_t count_pieces(const weight_list *w)
{
    int64_t n = 0, first;
    for (int i = 0; i < w->n; i++)
        if (w->list[i].row->trained) n += ceil_div(owned_range(w, &w->list[i], &first), PIECE);
    return n;
}

/* All pieces of one weight are alike but for their places. */
static int64_t cut(optimizer_piece *out, const weight_list *list, const weight *w,
                   optimizer_piece like)
{
    int64_t first, n = owned_range(list, w, &first), n_pieces = ceil_div(n, PIECE);
    for (int64_t i = 0; i < n_pieces; i++) {
        int64_t at = i * PIECE, rest = n - at;
        out[i] = like;
        out[i].offset = w->offset + first + at;
        out[i].n = rest < PIECE ? rest : PIECE;
        out[i].moments = owned_moments(list, w, first) + at;
    }
    return n_pieces;
}

void optimizer_init(optimizer *o, const program *p, decay_rule rule, arena *a)
{
    const recipe *r = &p->s->r;
    const weight_list *w = &p->weights;
    bool qk_norms = recipe_on(r, K_WD_QK_NORM), skips = recipe_given(r, K_SKIP_NORM);
    int64_t n_pieces = count_pieces(w), next = 0;
    optimizer_piece *pieces = ARENA_ARRAY(a, optimizer_piece, n_pieces);
    for (int i = 0; i < w->n; i++) {
        const param *row = w->list[i].row;
        if (!row->trained) continue;
        optimizer_piece like = {.decay = optimizer_decays(row, rule, qk_norms),
                                .embedding = has_embedding_rate(row),
                                .answers = rank_answers(p->s, &p->at, &w->list[i])};
        next += cut(pieces + next, w, &w->list[i], like);
    }
    *o = (optimizer){.beta1 = recipe_real(r, K_BETA1),
                     .beta2 = recipe_real(r, K_BETA2),
                     .eps = recipe_real(r, K_ADAM_EPS),
                     .clip = recipe_real(r, K_CLIP),
                     .skip_norm = skips ? recipe_real(r, K_SKIP_NORM) : (double)INFINITY,
                     .l2 = !recipe_on(r, K_DECOUPLED_WD),
                     .pieces = pieces,
                     .n_pieces = n_pieces,
                     .sums = ARENA_ARRAY(a, double, n_pieces)};
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

/* Narrow numbers are widened in blocks, so that a block's numbers lie in the cache. */
static double sum_piece(const optimizer_piece *p, typed x,
                        double (*of_piece)(const float *x, int64_t n))
{
    if (!p->answers) return 0;
    if (x.type == DTYPE_F32) return of_piece((const float *)x.at + p->offset, p->n);
    float wide[BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < p->n; i += BLOCK) {
        int64_t n = p->n - i < BLOCK ? p->n - i : BLOCK;
        typed_read(wide, x, p->offset + i, n);
        sum += of_piece(wide, n);
    }
    return sum;
}

static double sum_pieces(const optimizer *o, typed x, double (*of_piece)(const float *x, int64_t n))
{
    double sum = 0;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < o->n_pieces; i++) o->sums[i] = sum_piece(&o->pieces[i], x, of_piece);
    for (int64_t i = 0; i < o->n_pieces; i++) sum += o->sums[i]; /* I1 */
    return sum;
}

double optimizer_squares(const optimizer *o, typed x)
{
    return sum_pieces(o, x, squares_of_piece);
}

int64_t optimizer_zeros(const optimizer *o, typed x)
{
    return (int64_t)sum_pieces(o, x, zeros_of_piece);
}

/* ---- the step */

step_result optimizer_judge(const optimizer *o, double norm)
{
    step_result r = {STEP_TAKEN, norm, 1};
    if (!isfinite(norm))
        r.outcome = STEP_NOT_FINITE;
    else if (norm > o->skip_norm)
        r.outcome = STEP_TOO_LARGE;
    else if (o->clip > 0)
        r.clip = fmin(1, o->clip / (norm + 1e-6));
    return r;
}

/* The constants of one update, rounded once. */
typedef struct adam {
    float beta1, rest1, beta2, rest2;
    float correct1, correct2; /* 1 / (1 - beta^t) */
    float eps, scale;
    float lr, decay, l2;
} adam;

static adam adam_of_step(const optimizer *o, const step_rates *rates)
{
    double t = (double)o->steps;
    return (adam){.beta1 = (float)o->beta1,
                  .rest1 = (float)(1 - o->beta1),
                  .beta2 = (float)o->beta2,
                  .rest2 = (float)(1 - o->beta2),
                  .correct1 = (float)(1 / (1 - pow(o->beta1, t))),
                  .correct2 = (float)(1 / (1 - pow(o->beta2, t))),
                  .eps = (float)o->eps,
                  .scale = (float)rates->scale};
}

static adam adam_of_piece(adam k, const optimizer *o, const optimizer_piece *p,
                          const step_rates *rates)
{
    float decay = p->decay ? (float)rates->decay : 0;
    k.lr = (float)(p->embedding ? rates->embedding_lr : rates->lr);
    k.decay = o->l2 ? 0 : decay;
    k.l2 = o->l2 ? decay : 0;
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

static bool is_wide(const optimizer_arrays *x)
{
    return !x->masters.at && x->weights.type == DTYPE_F32 && x->gradients.type == DTYPE_F32 &&
           x->first.type == DTYPE_F32 && x->second.type == DTYPE_F32;
}

static void update_wide(const adam *k, const optimizer_piece *p, const optimizer_arrays *x)
{
    int64_t at = p->offset, own = p->moments;
    update_piece(k, p->n, (float *)x->weights.at + at, (const float *)x->gradients.at + at,
                 (float *)x->first.at + own, (float *)x->second.at + own);
}

/* The same on FP32 copies of a block at a time. */
static void update_narrow(const adam *k, const optimizer_piece *p, const optimizer_arrays *x)
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

void optimizer_update(optimizer *o, const optimizer_arrays *x, step_rates rates)
{
    o->steps++;
    adam k = adam_of_step(o, &rates);
    bool wide = is_wide(x);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < o->n_pieces; i++) {
        const optimizer_piece *p = &o->pieces[i];
        adam constants = adam_of_piece(k, o, p, &rates);
        if (wide)
            update_wide(&constants, p, x);
        else
            update_narrow(&constants, p, x);
    }
}

step_result optimizer_step(optimizer *o, const optimizer_arrays *x, step_rates rates)
{
    step_result r = optimizer_judge(o, rates.scale * sqrt(optimizer_squares(o, x->gradients)));
    if (r.outcome != STEP_TAKEN) return r; /* I3 */
    rates.scale *= r.clip;
    optimizer_update(o, x, rates);
    return r;
}

/* ---- the router's correction bias */

void expert_bias_update(float *bias, const float *counts, int64_t n, double rate)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)counts[i];
    for (int64_t i = 0; i < n; i++) {
        double mean = sum / (double)n, load = (double)counts[i];
        bias[i] += (float)rate * (float)((mean > load) - (mean < load));
    }
}
