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
        const bool before = at < past && t.rows[at].piece <= i;
        const int last = 31 - __clz((int)__ballot_sync(ALL_LANES, before));
        low += last * step;
        past = low + step < past ? low + step : past;
    }
    return low;
}

static __device__ table_piece piece_at(const update_table &t, int64_t i)
{
    return piece_of_row(t.rows + row_of_piece(t, i), i);
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
    const op_squares o = op_squares_of(c);
    const int64_t n = o.ROWS > 0 ? pieces_most(o.N, o.ROWS) : 0;
    double *parts = (double *)c->workspace;
    if (n > 0)
        squares_kernel<<<(unsigned)n, BLOCK, 0, stream_of(c)>>>(o.x, table_of(o.table, o.ROWS),
                                                                parts);
    add_squares_kernel<<<1, BLOCK, 0, stream_of(c)>>>(parts, n, o.sum);
}

/* ---- the small blocks, each by one thread in the order of the CPU */

static __global__ void tally_kernel(tally_operands x, double *t)
{
    update_tally(t, &x);
}

static void tally(const kernel_call *c)
{
    const op_tally o = op_tally_of(c);
    tally_kernel<<<1, 1, 0, stream_of(c)>>>(
        {o.loss, o.mtp, o.aux, o.z, o.rows, o.counts, o.given, o.squares, o.MICROS, o.LAYERS},
        o.tally);
}

static void sum(const kernel_call *c)
{
    const op_sum o = op_sum_of(c);
    for_each(c, o.N, [=] __device__(int64_t i) {
        double all = o.x[i];
        for (int64_t k = 1; k < o.P; k++) all += o.x[k * o.N + i];
        o.y[i] = all;
    });
}

static __global__ void verdict_kernel(const double *sums, const double *given, verdict_limits l,
                                      double *verdict)
{
    update_verdict(verdict, sums, given, &l);
}

static void verdict(const kernel_call *c)
{
    const op_verdict o = op_verdict_of(c);
    const double *r = c->o->real;
    verdict_kernel<<<1, 1, 0, stream_of(c)>>>(
        o.sums, o.given,
        {r[REAL_VERDICT_clip], r[REAL_VERDICT_skip], r[REAL_VERDICT_beta1], r[REAL_VERDICT_beta2]},
        o.verdict);
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
        const piece_range r = row_within(t.rows + i, of.from, of.n);
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
    const op_adamw o = op_adamw_of(c);
    const double *r = c->o->real;
    const adam_numbers k = adam_of(r[REAL_ADAMW_beta1], r[REAL_ADAMW_beta2], r[REAL_ADAMW_eps],
                                   (o.flags & DECAY_L2) != 0);
    const update_arrays a = {o.gradient, o.weight, o.master, o.first, o.second};
    const window of = {o.FROM, o.COUNT};
    const update_table t = table_of(o.table, o.ROWS);
    const int64_t each = of.n / UPDATE_PIECE + 2;
    enum { BLOCKS_MOST = 1056 }; /* eight on each multiprocessor */
    if (o.ROWS <= 0) return;
    if (of.n < o.N)
        adam_part_kernel<<<(unsigned)(each < BLOCKS_MOST ? each : BLOCKS_MOST), BLOCK, 0,
                           stream_of(c)>>>(a, k, t, of, o.verdict);
    else
        adam_kernel<<<(unsigned)pieces_most(o.N, o.ROWS), BLOCK, 0, stream_of(c)>>>(a, k, t, of,
                                                                                    o.verdict);
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
    const op_bias_update o = op_bias_update_of(c);
    bias_kernel<<<1, BLOCK, 0, stream_of(c)>>>(o.load, o.verdict, o.bias, o.E, o.rate);
}

extern "C" cuda_part cuda_update(void)
{
    static const kernel rows[] = {
        {.kind = OP_SQUARES, .name = "plain", .workspace = squares_bytes, .launch = squares},
        {.kind = OP_TALLY, .name = "plain", .launch = tally},
        {.kind = OP_SUM, .name = "plain", .launch = sum},
        {.kind = OP_VERDICT, .name = "plain", .launch = verdict},
        {.kind = OP_ADAMW, .name = "plain", .launch = adamw},
        {.kind = OP_BIAS_UPDATE, .name = "plain", .launch = bias_update},
    };
    return PART(rows);
}
