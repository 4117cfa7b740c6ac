/* update.cu - what a step ends with: squares, tally, sums, verdict, AdamW, the routers' biases.
 *
 * U1  Squares and the update are one launch each over all that a rank owns: a block takes a piece
 *     of UPDATE_PIECE elements of one weight, which it finds in the table.
 * U2  Squares are added in double: within a piece by threads in a fixed way, then pieces likewise.
 * U3  A step that is not taken writes nothing: blocks read the verdict and leave. */
#include "backend/cuda/kernels/device.cuh"
#include "op/update.h"

enum { EACH = 4 };

struct update_table {
    const double *rows; /* [n][TABLE_COLUMNS] */
    int64_t n;
    __device__ double at(int64_t row, int column) const
    {
        return rows[row * TABLE_COLUMNS + column];
    }
    __device__ int64_t pieces() const
    {
        const int64_t last = (int64_t)at(n - 1, TABLE_N);
        return (int64_t)at(n - 1, TABLE_PIECE) + (last + UPDATE_PIECE - 1) / UPDATE_PIECE;
    }
};

/* No more than this many, whatever the table says. */
static int64_t pieces_most(int64_t elements, int64_t rows)
{
    return elements / UPDATE_PIECE + rows + 1;
}

struct piece {
    int64_t offset, moments, n;
    bool decays, embedding, answers;
};

/* The last row that begins at piece i or before it, by a warp: 32 places of what is left at
 * once. */
static __device__ int64_t row_of_piece(const update_table &t, int64_t i)
{
    const int lane = (int)threadIdx.x % WARP;
    int64_t low = 0, past = t.n; /* row `low` begins there or before, row `past` does not */
    while (past - low > 1) {
        const int64_t step = (past - low + WARP - 1) / WARP, at = low + lane * step;
        const bool before = at < past && t.at(at, TABLE_PIECE) <= (double)i;
        const int last = 31 - __clz((int)__ballot_sync(ALL_LANES, before));
        low += last * step;
        past = low + step < past ? low + step : past;
    }
    return low;
}

static __device__ piece piece_at(const update_table &t, int64_t i)
{
    const int64_t row = row_of_piece(t, i);
    const int64_t at = (i - (int64_t)t.at(row, TABLE_PIECE)) * UPDATE_PIECE;
    const int64_t rest = (int64_t)t.at(row, TABLE_N) - at;
    return {(int64_t)t.at(row, TABLE_OFFSET) + at,     (int64_t)t.at(row, TABLE_MOMENTS) + at,
            rest < UPDATE_PIECE ? rest : UPDATE_PIECE, t.at(row, TABLE_DECAYS) != 0,
            t.at(row, TABLE_EMBEDDING) != 0,           t.at(row, TABLE_ANSWERS) != 0};
}

/* ---- squares */

static __device__ double square(float x)
{
    return (double)x * (double)x;
}

template <int W> static __device__ double squares_of(numbers x, const piece &p)
{
    double sum = 0;
    const int64_t whole = p.n / W * W;
#pragma unroll 4
    for (int64_t i = threadIdx.x * W; i < whole; i += BLOCK * W) {
        const lanes<W> v = load<W>(x, p.offset + i);
#pragma unroll
        for (int k = 0; k < W; k++) sum += square(v.v[k]);
    }
    if (whole + threadIdx.x < p.n) sum += square(get(x, p.offset + whole + threadIdx.x));
    return sum;
}

static __global__ void squares_kernel(numbers x, update_table t, double *parts)
{
    const int64_t i = blockIdx.x;
    double sum = 0;
    if (i < t.pieces()) {
        const piece p = piece_at(t, i);
        if (p.answers) sum = p.offset % EACH ? squares_of<1>(x, p) : squares_of<EACH>(x, p);
    }
    sum = sum_over<BLOCK>(sum);
    if (threadIdx.x == 0) parts[i] = sum;
}

static __global__ void add_squares_kernel(const double *parts, int64_t n, double *to)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) sum += parts[i];
    sum = sum_over<BLOCK>(sum);
    if (threadIdx.x == 0) *to = sum;
}

static int64_t squares_bytes(const op *o, const op_types *)
{
    return room_of(8 * pieces_most(o->dim[DIM_SQUARES_N], o->dim[DIM_SQUARES_ROWS]));
}

static void squares(const kernel_call *c)
{
    const int64_t rows = c->o->dim[DIM_SQUARES_ROWS];
    const int64_t n = rows > 0 ? pieces_most(c->o->dim[DIM_SQUARES_N], rows) : 0;
    double *parts = (double *)c->workspace;
    if (n > 0)
        squares_kernel<<<(unsigned)n, BLOCK, 0, stream_of(c)>>>(
            in_of(c, IN_SQUARES_x), {(const double *)c->in[IN_SQUARES_table], rows}, parts);
    add_squares_kernel<<<1, BLOCK, 0, stream_of(c)>>>(parts, n, (double *)c->out[OUT_SQUARES_sum]);
}

/* ---- the small blocks, each by one thread in the order of the CPU */

struct tallied {
    const float *loss, *mtp, *aux, *z, *rows;
    const double *counts, *given, *squares;
    int64_t micros, layers;
};

static __device__ double tokens_loss(const float *loss, double here)
{
    return loss[1] > 0 ? (double)loss[0] / (double)loss[1] * here : 0;
}

static __device__ double sum_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n && x; i++) sum += (double)x[i];
    return sum;
}

static __global__ void tally_kernel(tallied x, double *t)
{
    for (int i = 0; i < SUM_COUNT; i++) t[i] = 0;
    for (int64_t m = 0; m < x.micros && x.loss; m++) {
        const double *n = x.counts + m * COUNTS_COUNT;
        t[SUM_LOSS] += tokens_loss(x.loss + 2 * m, n[COUNTS_HERE]);
        t[SUM_TOKENS] += n[COUNTS_HERE];
        t[SUM_OBJECTIVE] += (double)x.loss[2 * m];
        if (!x.mtp) continue;
        t[SUM_OBJECTIVE] += (double)x.mtp[2 * m];
        if (n[COUNTS_MTP_WHOLE] > 0)
            t[SUM_MTP] += tokens_loss(x.mtp + 2 * m, n[COUNTS_MTP_HERE]) / n[COUNTS_MTP_WHOLE];
    }
    t[SUM_AUX] = sum_of(x.aux, x.layers);
    t[SUM_Z] = sum_of(x.z, x.layers);
    t[SUM_SQUARES] = *x.squares;
    for (int64_t i = 0; i < x.layers && x.rows; i++)
        if (x.rows[2 * i] > x.rows[2 * i + 1]) t[SUM_OVERFLOWS] = 1;
    t[SUM_FAILED] = x.given[GIVEN_FAILED];
    t[SUM_LEAVE] = x.given[GIVEN_LEAVE];
    t[SUM_MINUTE] = x.given[GIVEN_MINUTE];
    t[SUM_AGAIN] = x.given[GIVEN_AGAIN];
    t[SUM_SAVING] = x.given[GIVEN_SAVING];
}

static const double *doubles_in(const kernel_call *c, int i)
{
    return (const double *)c->in[i];
}

static void tally(const kernel_call *c)
{
    const tallied x = {floats_in(c, IN_TALLY_loss),   floats_in(c, IN_TALLY_mtp),
                       floats_in(c, IN_TALLY_aux),    floats_in(c, IN_TALLY_z),
                       floats_in(c, IN_TALLY_rows),   doubles_in(c, IN_TALLY_counts),
                       doubles_in(c, IN_TALLY_given), doubles_in(c, IN_TALLY_squares),
                       c->o->dim[DIM_TALLY_MICROS],   c->o->dim[DIM_TALLY_LAYERS]};
    tally_kernel<<<1, 1, 0, stream_of(c)>>>(x, (double *)c->out[OUT_TALLY_tally]);
}

static void sum(const kernel_call *c)
{
    const int64_t p = c->o->dim[DIM_SUM_P], n = c->o->dim[DIM_SUM_N];
    const double *x = doubles_in(c, IN_SUM_x); /* [P][N] */
    double *y = (double *)c->out[OUT_SUM_y];   /* [N] */
    for_each(c, n, [=] __device__(int64_t i) {
        double all = x[i];
        for (int64_t k = 1; k < p; k++) all += x[k * n + i];
        y[i] = all;
    });
}

struct limits {
    double clip, skip, beta1, beta2;
};

static __device__ int outcome_of(const double *sums, double norm, double skip)
{
    if (sums[SUM_FAILED] > 0) return STEP_FAILED;
    if (sums[SUM_OVERFLOWS] > 0) return STEP_OVERFLOWED;
    if (!isfinite(sums[SUM_LOSS]) || !isfinite(sums[SUM_MTP]) || !isfinite(sums[SUM_AUX]) ||
        !isfinite(sums[SUM_Z]))
        return STEP_LOSS_NOT_FINITE;
    if (!isfinite(norm)) return STEP_NOT_FINITE;
    return norm > skip ? STEP_TOO_LARGE : STEP_TAKEN;
}

static __global__ void verdict_kernel(const double *sums, const double *given, limits l,
                                      double *verdict)
{
    const double norm = given[GIVEN_SCALE] * sqrt(sums[SUM_SQUARES]), t = given[GIVEN_STEPS] + 1;
    const int outcome = outcome_of(sums, norm, l.skip);
    const bool clips = outcome == STEP_TAKEN && l.clip > 0;
    const double clip = clips ? fmin(1.0, l.clip / (norm + 1e-6)) : 1;
    verdict[VERDICT_OUTCOME] = outcome;
    verdict[VERDICT_NORM] = outcome == STEP_LOSS_NOT_FINITE ? CUDART_NAN : norm;
    verdict[VERDICT_CLIP] = clip;
    verdict[VERDICT_SCALE] = given[GIVEN_SCALE] * clip;
    verdict[VERDICT_LR] = given[GIVEN_LR];
    verdict[VERDICT_EMBEDDING_LR] = given[GIVEN_EMBEDDING_LR];
    verdict[VERDICT_DECAY] = given[GIVEN_DECAY];
    verdict[VERDICT_CORRECT1] = 1 / (1 - pow(l.beta1, t));
    verdict[VERDICT_CORRECT2] = 1 / (1 - pow(l.beta2, t));
}

static void verdict(const kernel_call *c)
{
    const double *r = c->o->real;
    verdict_kernel<<<1, 1, 0, stream_of(c)>>>(
        doubles_in(c, IN_VERDICT_sums), doubles_in(c, IN_VERDICT_given),
        {r[REAL_VERDICT_clip], r[REAL_VERDICT_skip], r[REAL_VERDICT_beta1], r[REAL_VERDICT_beta2]},
        (double *)c->out[OUT_VERDICT_verdict]);
}

/* ---- AdamW */

struct adam {
    float beta1, rest1, beta2, rest2, eps;
    bool l2;
};

/* The constants of one piece, rounded once. */
struct adam_piece {
    float correct1, correct2, scale, lr, decay, l2;
};

struct update_arrays {
    numbers gradients, weights;     /* of all weights */
    numbers masters, first, second; /* of what this rank owns; masters may be missing */
};

template <int W>
static __device__ __forceinline__ void adam_some(const update_arrays &a, const adam &k,
                                                 const adam_piece &q, int64_t at, int64_t own)
{
    lanes<W> p = a.masters.p ? load<W>(a.masters, own) : load<W>(a.weights, at);
    lanes<W> m = load<W>(a.first, own), v = load<W>(a.second, own);
    const lanes<W> g = load<W>(a.gradients, at);
#pragma unroll
    for (int i = 0; i < W; i++) {
        const float d = g.v[i] * q.scale + q.l2 * p.v[i];
        m.v[i] = k.beta1 * m.v[i] + k.rest1 * d;
        v.v[i] = k.beta2 * v.v[i] + k.rest2 * d * d;
        const float root = sqrtf(v.v[i] * q.correct2) + k.eps;
        p.v[i] -= q.lr * (m.v[i] * q.correct1 / root + q.decay * p.v[i]);
    }
    if (a.masters.p) store(a.masters, own, p);
    store(a.weights, at, p);
    store(a.first, own, m);
    store(a.second, own, v);
}

/* Elements whose masters and moments are there: `n` from element `from` on of what is owned. */
struct window {
    int64_t from, n;
};

static __device__ piece piece_within(piece p, window of)
{
    const int64_t skip = of.from > p.moments ? of.from - p.moments : 0;
    const int64_t end = of.from + of.n - p.moments;
    p.n = (end < p.n ? end : p.n) - skip;
    p.moments += skip - of.from;
    p.offset += skip;
    return p;
}

/* Pieces of the table from `first` on, before `end`. */
struct piece_range {
    int64_t first, end;
};

/* Those that reach into a window. Rows come in any order of moments, so each is looked at. */
static __device__ piece_range pieces_within(const update_table &t, window of)
{
    __shared__ unsigned long long first, end;
    if (threadIdx.x == 0) first = (unsigned long long)t.pieces(), end = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < t.n; i += BLOCK) {
        const int64_t from = of.from - (int64_t)t.at(i, TABLE_MOMENTS),
                      n = (int64_t)t.at(i, TABLE_N);
        const int64_t skip = from > 0 ? from : 0, last = from + of.n < n ? from + of.n : n;
        if (skip >= last) continue;
        const int64_t begin = (int64_t)t.at(i, TABLE_PIECE);
        atomicMin(&first, (unsigned long long)(begin + skip / UPDATE_PIECE));
        atomicMax(&end, (unsigned long long)(begin + (last + UPDATE_PIECE - 1) / UPDATE_PIECE));
    }
    __syncthreads();
    return {(int64_t)first, (int64_t)end};
}

static __device__ void adam_one(const update_arrays &a, const adam &k, const piece &p,
                                const double *verdict)
{
    if (p.n <= 0) return;
    const float decay = p.decays ? (float)verdict[VERDICT_DECAY] : 0;
    const adam_piece q = {(float)verdict[VERDICT_CORRECT1],
                          (float)verdict[VERDICT_CORRECT2],
                          (float)verdict[VERDICT_SCALE],
                          (float)verdict[p.embedding ? VERDICT_EMBEDDING_LR : VERDICT_LR],
                          k.l2 ? 0 : decay,
                          k.l2 ? decay : 0};
    const int64_t whole = (p.offset | p.moments) % EACH ? 0 : p.n / EACH * EACH;
    for (int64_t j = threadIdx.x * EACH; j < whole; j += BLOCK * EACH)
        adam_some<EACH>(a, k, q, p.offset + j, p.moments + j);
    for (int64_t j = whole + threadIdx.x; j < p.n; j += BLOCK)
        adam_some<1>(a, k, q, p.offset + j, p.moments + j);
}

static __global__ void adam_kernel(update_arrays a, adam k, update_table t, window of,
                                   const double *verdict)
{
    const int64_t i = blockIdx.x;
    if (verdict[VERDICT_OUTCOME] != STEP_TAKEN || i >= t.pieces()) return; /* U3 */
    adam_one(a, k, piece_within(piece_at(t, i), of), verdict);
}

/* Of a part of what is owned: a block for each of its pieces, not of all. State that is moved comes
 * in thousands of parts: with blocks for all pieces each part took 1.7 ms of 15e9 elements. */
static __global__ void adam_part_kernel(update_arrays a, adam k, update_table t, window of,
                                        const double *verdict)
{
    if (verdict[VERDICT_OUTCOME] != STEP_TAKEN) return; /* U3 */
    const piece_range r = pieces_within(t, of);
    for (int64_t i = r.first + blockIdx.x; i < r.end; i += gridDim.x)
        adam_one(a, k, piece_within(piece_at(t, i), of), verdict);
}

static void adamw(const kernel_call *c)
{
    const double *r = c->o->real;
    const int64_t rows = c->o->dim[DIM_ADAMW_ROWS];
    const adam k = {(float)r[REAL_ADAMW_beta1], (float)(1 - r[REAL_ADAMW_beta1]),
                    (float)r[REAL_ADAMW_beta2], (float)(1 - r[REAL_ADAMW_beta2]),
                    (float)r[REAL_ADAMW_eps],   (c->o->flags & DECAY_L2) != 0};
    const update_arrays a = {in_of(c, IN_ADAMW_gradient), out_of(c, OUT_ADAMW_weight),
                             out_of(c, OUT_ADAMW_master), out_of(c, OUT_ADAMW_first),
                             out_of(c, OUT_ADAMW_second)};
    const window of = {c->o->dim[DIM_ADAMW_FROM], c->o->dim[DIM_ADAMW_COUNT]};
    const update_table t = {doubles_in(c, IN_ADAMW_table), rows};
    const double *verdict = doubles_in(c, IN_ADAMW_verdict);
    const int64_t n = c->o->dim[DIM_ADAMW_N], each = of.n / UPDATE_PIECE + 2;
    enum { BLOCKS_MOST = 1056 }; /* eight on each multiprocessor */
    if (rows <= 0) return;
    if (of.n < n)
        adam_part_kernel<<<(unsigned)(each < BLOCKS_MOST ? each : BLOCKS_MOST), BLOCK, 0,
                           stream_of(c)>>>(a, k, t, of, verdict);
    else
        adam_kernel<<<(unsigned)pieces_most(n, rows), BLOCK, 0, stream_of(c)>>>(a, k, t, of,
                                                                                verdict);
}

/* ---- the routers' biases */

static __global__ void bias_kernel(const float *load_of, const double *verdict, float *bias,
                                   int64_t n, float rate)
{
    if (verdict[VERDICT_OUTCOME] != STEP_TAKEN) return;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) sum += (double)load_of[i];
    const double mean = sum_over<BLOCK>(sum) / (double)n;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        const double own = (double)load_of[i];
        bias[i] += rate * (float)((mean > own) - (mean < own));
    }
}

static void bias_update(const kernel_call *c)
{
    bias_kernel<<<1, BLOCK, 0, stream_of(c)>>>(
        floats_in(c, IN_BIAS_UPDATE_load), doubles_in(c, IN_BIAS_UPDATE_verdict),
        floats_out(c, OUT_BIAS_UPDATE_bias), c->o->dim[DIM_BIAS_UPDATE_E],
        (float)c->o->real[REAL_BIAS_UPDATE_rate]);
}

extern "C" cuda_part cuda_update(void)
{
    static const kernel rows[] = {
        {OP_SQUARES, "plain", NULL, NULL, NULL, squares_bytes, squares},
        {OP_TALLY, "plain", NULL, NULL, NULL, NULL, tally},
        {OP_SUM, "plain", NULL, NULL, NULL, NULL, sum},
        {OP_VERDICT, "plain", NULL, NULL, NULL, NULL, verdict},
        {OP_ADAMW, "plain", NULL, NULL, NULL, NULL, adamw},
        {OP_BIAS_UPDATE, "plain", NULL, NULL, NULL, NULL, bias_update},
    };
    return PART(rows);
}
