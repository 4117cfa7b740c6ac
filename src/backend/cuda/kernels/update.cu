/* update.cu - what a step ends with: squares, tally, sums, verdict, AdamW, the routers' biases.
 *
 * U1  Squares and the update are one launch each over all that a rank owns: a block takes a piece
 *     of UPDATE_PIECE elements of one weight, which it finds in the table.
 * U2  Squares are added in double: within a piece by threads in a fixed way, then pieces likewise.
 * U3  A step that is not taken writes nothing: blocks read the verdict and leave. */
#include "backend/cuda/kernels/device.cuh"
#include "op/update_math.h"

enum { EACH = 4 };

/* No more than this many, whatever the table says. */
static int64_t pieces_most(int64_t elements, int64_t rows)
{
    return elements / UPDATE_PIECE + rows + 1;
}

/* The last row that begins at piece i or before it, by a warp: 32 places of what is left at
 * once. */
static __device__ int64_t row_of_piece(const update_table &t, int64_t i)
{
    const int lane = (int)threadIdx.x % WARP;
    int64_t low = 0, past = t.n; /* row `low` begins there or before, row `past` does not */
    while (past - low > 1) {
        const int64_t step = (past - low + WARP - 1) / WARP, at = low + lane * step;
        const bool before = at < past && table_at(&t, at, TABLE_PIECE) <= (double)i;
        const int last = 31 - __clz((int)__ballot_sync(ALL_LANES, before));
        low += last * step;
        past = low + step < past ? low + step : past;
    }
    return low;
}

static __device__ table_piece piece_at(const update_table &t, int64_t i)
{
    return piece_of_row(&t, row_of_piece(t, i), i);
}

/* ---- squares */

template <int W> static __device__ double squares_of(numbers x, const table_piece &p)
{
    double sum = 0;
    const int64_t whole = p.n / W * W;
#pragma unroll 4
    for (int64_t i = threadIdx.x * W; i < whole; i += BLOCK * W) {
        const lanes<W> v = load<W>(x, p.offset + i);
#pragma unroll
        for (int k = 0; k < W; k++) sum += exact_square(v.v[k]);
    }
    if (whole + threadIdx.x < p.n) sum += exact_square(get(x, p.offset + whole + threadIdx.x));
    return sum;
}

static __global__ void squares_kernel(numbers x, update_table t, double *parts)
{
    const int64_t i = blockIdx.x;
    double sum = 0;
    if (i < table_pieces(&t)) {
        const table_piece p = piece_at(t, i);
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

static __global__ void tally_kernel(tally_operands x, double *t)
{
    update_tally(t, &x);
}

static const double *doubles_in(const kernel_call *c, int i)
{
    return (const double *)c->in[i];
}

static void tally(const kernel_call *c)
{
    const tally_operands x = {floats_in(c, IN_TALLY_loss),   floats_in(c, IN_TALLY_mtp),
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

static __global__ void verdict_kernel(const double *sums, const double *given, verdict_limits l,
                                      double *verdict)
{
    update_verdict(verdict, sums, given, &l);
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

struct update_arrays {
    numbers gradients, weights;     /* of all weights */
    numbers masters, first, second; /* of what this rank owns; masters may be missing */
};

template <int W>
static __device__ __forceinline__ void adam_some(const update_arrays &a, const adam_numbers &k,
                                                 const adam_piece &q, int64_t at, int64_t own)
{
    lanes<W> p = a.masters.p ? load<W>(a.masters, own) : load<W>(a.weights, at);
    lanes<W> m = load<W>(a.first, own), v = load<W>(a.second, own);
    const lanes<W> g = load<W>(a.gradients, at);
#pragma unroll
    for (int i = 0; i < W; i++) p.v[i] = adam_element(&k, &q, p.v[i], g.v[i], &m.v[i], &v.v[i]);
    if (a.masters.p) store(a.masters, own, p);
    store(a.weights, at, p);
    store(a.first, own, m);
    store(a.second, own, v);
}

/* Elements whose masters and moments are there: `n` from element `from` on of what is owned. */
struct window {
    int64_t from, n;
};

/* Those that reach into a window. Rows come in any order of moments, so each is looked at. */
static __device__ piece_range pieces_within(const update_table &t, window of)
{
    __shared__ unsigned long long first, end;
    if (threadIdx.x == 0) first = (unsigned long long)table_pieces(&t), end = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < t.n; i += BLOCK) {
        const piece_range r = row_within(&t, i, of.from, of.n);
        if (r.elements <= 0) continue;
        atomicMin(&first, (unsigned long long)r.first);
        atomicMax(&end, (unsigned long long)r.end);
    }
    __syncthreads();
    return {(int64_t)first, (int64_t)end};
}

static __device__ void adam_one(const update_arrays &a, const adam_numbers &k, const table_piece &p,
                                const double *verdict)
{
    if (p.n <= 0) return;
    const adam_piece q = adam_of_piece(&k, &p, verdict);
    const int64_t whole = (p.offset | p.moments) % EACH ? 0 : p.n / EACH * EACH;
    for (int64_t j = threadIdx.x * EACH; j < whole; j += BLOCK * EACH)
        adam_some<EACH>(a, k, q, p.offset + j, p.moments + j);
    for (int64_t j = whole + threadIdx.x; j < p.n; j += BLOCK)
        adam_some<1>(a, k, q, p.offset + j, p.moments + j);
}

static __global__ void adam_kernel(update_arrays a, adam_numbers k, update_table t, window of,
                                   const double *verdict)
{
    const int64_t i = blockIdx.x;
    if (verdict[VERDICT_OUTCOME] != STEP_TAKEN || i >= table_pieces(&t)) return; /* U3 */
    adam_one(a, k, piece_within(piece_at(t, i), of.from, of.n), verdict);
}

/* Of a part of what is owned: a block for each of its pieces, not of all. State that is moved comes
 * in thousands of parts: with blocks for all pieces each part took 1.7 ms of 15e9 elements. */
static __global__ void adam_part_kernel(update_arrays a, adam_numbers k, update_table t, window of,
                                        const double *verdict)
{
    if (verdict[VERDICT_OUTCOME] != STEP_TAKEN) return; /* U3 */
    const piece_range r = pieces_within(t, of);
    for (int64_t i = r.first + blockIdx.x; i < r.end; i += gridDim.x)
        adam_one(a, k, piece_within(piece_at(t, i), of.from, of.n), verdict);
}

static void adamw(const kernel_call *c)
{
    const double *r = c->o->real;
    const int64_t rows = c->o->dim[DIM_ADAMW_ROWS];
    const adam_numbers k = adam_of(r[REAL_ADAMW_beta1], r[REAL_ADAMW_beta2], r[REAL_ADAMW_eps],
                                   (c->o->flags & DECAY_L2) != 0);
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
    for (int64_t i = threadIdx.x; i < n; i += BLOCK)
        bias[i] += bias_step((double)load_of[i], mean, rate);
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
