/* fast_dense_maps.c - sums, gates and activations on threads: bound by memory, since exponentials
 * are vectors'. */
#include "backend/cpu/kernels/bytes.h"
#include "backend/cpu/kernels/fast_dense.h"
#include "op/op_operands.h"

enum { GRAIN = 16384 }; /* numbers in a span where there are no rows */

/* ---- sums and copies */

WIDE static void add_span(const call *c, int64_t begin, int64_t end)
{
    const op_add args = op_add_of(c->o, c->in, c->out);
#pragma omp simd
    for (int64_t i = begin; i < end; i++) args.y[i] = args.a[i] + args.b[i];
}

static void fast_add(const op *o, void *const *in, void *const *out)
{
    const op_add a = op_add_of(o, in, out);
    share(add_span, &(call){o, in, out}, a.N, GRAIN);
}

static void copy_span(const call *c, int64_t begin, int64_t end)
{
    const op_copy args = op_copy_of(c->o, c->in, c->out);
    memcpy(args.y + begin, args.a + begin, sizeof(float) * (size_t)(end - begin));
}

static void fast_copy(const op *o, void *const *in, void *const *out)
{
    const op_copy a = op_copy_of(o, in, out);
    share(copy_span, &(call){o, in, out}, a.N, GRAIN);
}

static void zero_span(const call *c, int64_t begin, int64_t end)
{
    const op_zero a = op_zero_of(c->o, c->in, c->out);
    memset((float *)a.y + begin, 0, sizeof(float) * (size_t)(end - begin));
}

static void fast_zero(const op *o, void *const *in, void *const *out)
{
    const op_zero a = op_zero_of(o, in, out);
    share(zero_span, &(call){o, in, out}, a.N, GRAIN);
}

/* ---- gates */

/* A gate for each number: rows do not matter. */
WIDE static void gate_each(const call *c, int64_t begin, int64_t end)
{
    const op_gate a = op_gate_of(c->o, c->in, c->out);
#pragma omp simd
    for (int64_t i = begin; i < end; i++) a.y[i] = a.x[i] * fast_sigmoid(a.g[i]);
}

/* A gate for each row. */
WIDE static void gate_rows(const call *c, int64_t begin, int64_t end)
{
    const op_gate a = op_gate_of(c->o, c->in, c->out);
    for (int64_t i = begin; i < end; i++) {
        const float s = fast_sigmoid(a.g[i]);
#pragma omp simd
        for (int64_t j = i * a.N; j < (i + 1) * a.N; j++) a.y[j] = a.x[j] * s;
    }
}

static void fast_gate(const op *o, void *const *in, void *const *out)
{
    const op_gate a = op_gate_of(o, in, out);
    const call c = {o, in, out};
    if (a.G == a.N)
        share(gate_each, &c, a.M * a.N, GRAIN);
    else
        share_rows(gate_rows, &c, a.M, a.N);
}

WIDE static void gate_d_each(const call *c, int64_t begin, int64_t end)
{
    const op_gate_d a = op_gate_d_of(c->o, c->in, c->out);
    if (a.dg) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            const float s = fast_sigmoid(a.g[i]);
            a.dg[i] = a.dy[i] * a.x[i] * s * (1 - s);
        }
    }
    if (a.dx) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) a.dx[i] = a.dy[i] * fast_sigmoid(a.g[i]);
    }
}

WIDE static void gate_d_rows(const call *c, int64_t begin, int64_t end)
{
    const op_gate_d a = op_gate_d_of(c->o, c->in, c->out);
    for (int64_t i = begin; i < end; i++) {
        const float s = fast_sigmoid(a.g[i]);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = i * a.N; j < (i + 1) * a.N; j++) sum += a.dy[j] * a.x[j];
        if (a.dg) a.dg[i] = sum * s * (1 - s);
        if (!a.dx) continue;
#pragma omp simd
        for (int64_t j = i * a.N; j < (i + 1) * a.N; j++) a.dx[j] = a.dy[j] * s;
    }
}

static void fast_gate_d(const op *o, void *const *in, void *const *out)
{
    const op_gate_d a = op_gate_d_of(o, in, out);
    const call c = {o, in, out};
    if (a.G == a.N)
        share(gate_d_each, &c, a.M * a.N, GRAIN);
    else
        share_rows(gate_d_rows, &c, a.M, a.N);
}

/* ---- activations */

static const float limit = 7, alpha = 1.702F; /* of the clamped form */

static inline __attribute__((always_inline)) float clamped(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

WIDE static void act_span(const call *c, int64_t begin, int64_t end)
{
    const op_act args = op_act_of(c->o, c->in, c->out);
    for (int64_t i = begin; i < end; i++) {
        const float *gate = args.u + 2 * i * args.F; /* [F] */
        const float *up = gate + args.F;             /* [F] */
        float *a = args.a + i * args.F;              /* [F] */
        const float by = args.p ? args.p[i] : 1;
        if (c->o->flags & CLAMPED) {
#pragma omp simd
            for (int64_t j = 0; j < args.F; j++) {
                const float g = gate[j] > limit ? limit : gate[j];
                a[j] = by * (clamped(up[j], -limit, limit) + 1) * g * fast_sigmoid(alpha * g);
            }
        } else {
#pragma omp simd
            for (int64_t j = 0; j < args.F; j++)
                a[j] = by * gate[j] * fast_sigmoid(gate[j]) * up[j];
        }
    }
}

static void fast_act(const op *o, void *const *in, void *const *out)
{
    const op_act a = op_act_of(o, in, out);
    share_rows(act_span, &(call){o, in, out}, a.M, 2 * a.F);
}

/* One row of the gradients. */
typedef struct act_row {
    const float *da, *gate, *up; /* [F] */
    float *dgate, *dup;          /* [F] */
    float by;
    int64_t f;
} act_row;

/* Both give da . a without `by`: the gradient by p. */
static inline __attribute__((always_inline)) float act_d_row(const act_row *r)
{
    const float *da = r->da, *gate = r->gate, *up = r->up;
    float *dgate = r->dgate, *dup = r->dup, by = r->by, sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < r->f; j++) {
        const float g = gate[j], u = up[j], d = da[j], s = fast_sigmoid(g);
        sum += d * g * s * u;
        dgate[j] = by * d * u * s * (1 + g * (1 - s));
        dup[j] = by * d * g * s;
    }
    return sum;
}

static inline __attribute__((always_inline)) float act_d_row_clamped(const act_row *r)
{
    const float *da = r->da, *gate = r->gate, *up = r->up;
    float *dgate = r->dgate, *dup = r->dup, by = r->by, sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < r->f; j++) {
        const float g = gate[j] > limit ? limit : gate[j], u = clamped(up[j], -limit, limit) + 1;
        const float d = da[j], s = fast_sigmoid(alpha * g);
        const float by_gate = u * s * (1 + alpha * g * (1 - s));
        sum += d * u * g * s;
        dgate[j] = gate[j] > limit ? 0 : by * d * by_gate;
        dup[j] = up[j] < -limit || up[j] > limit ? 0 : by * d * g * s;
    }
    return sum;
}

WIDE static void act_d_span(const call *c, int64_t begin, int64_t end)
{
    const op_act_d a = op_act_d_of(c->o, c->in, c->out);
    for (int64_t i = begin; i < end; i++) {
        const float *da = a.da + i * a.F;   /* [F] */
        const float *u = a.u + 2 * i * a.F; /* [2F] */
        float *du = a.du + 2 * i * a.F;     /* [2F] */
        const act_row r = {da, u, u + a.F, du, du + a.F, a.p ? a.p[i] : 1, a.F};
        const float sum = c->o->flags & CLAMPED ? act_d_row_clamped(&r) : act_d_row(&r);
        if (a.dp) a.dp[i] = sum;
    }
}

static void fast_act_d(const op *o, void *const *in, void *const *out)
{
    const op_act_d a = op_act_d_of(o, in, out);
    share_rows(act_d_span, &(call){o, in, out}, a.M, 4 * a.F);
}

kernel_rows fast_dense_maps(void)
{
    static const kernel rows[] = {
        {OP_ADD, "threads", .run = fast_add},
        {OP_COPY, "threads", .run = fast_copy},
        {OP_CAST, "threads", .run = fast_copy},
        {OP_COPY_OUT, "threads", .run = fast_copy, .launch = bytes_copy},
        {OP_COPY_IN, "threads", .run = fast_copy, .launch = bytes_copy},
        {OP_ZERO, "threads", .run = fast_zero, .launch = bytes_zero},
        {OP_GATE, "threads", .run = fast_gate},
        {OP_GATE_D, "threads", .run = fast_gate_d},
        {OP_ACT, "threads", .run = fast_act},
        {OP_ACT_D, "threads", .run = fast_act_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
