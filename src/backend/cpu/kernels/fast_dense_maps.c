/* fast_dense_maps.c - sums, gates and activations on threads: bound by memory, since exponentials
 * are vectors'. */
#include "backend/cpu/kernels/bytes.h"
#include "backend/cpu/kernels/fast_dense.h"

enum { GRAIN = 16384 }; /* numbers in a span where there are no rows */

/* ---- sums and copies */

WIDE static void add_span(const call *c, int64_t begin, int64_t end)
{
    const float *a = c->in[IN_ADD_a]; /* [N] */
    const float *b = c->in[IN_ADD_b]; /* [N] */
    float *y = c->out[OUT_ADD_y];     /* [N], may be a or b */
#pragma omp simd
    for (int64_t i = begin; i < end; i++) y[i] = a[i] + b[i];
}

static void fast_add(const op *o, void *const *in, void *const *out)
{
    share(add_span, &(call){o, in, out}, o->dim[DIM_ADD_N], GRAIN);
}

static void copy_span(const call *c, int64_t begin, int64_t end)
{
    const float *a = c->in[IN_COPY_a]; /* [N] */
    float *y = c->out[OUT_COPY_y];     /* [N] */
    memcpy(y + begin, a + begin, sizeof(float) * (size_t)(end - begin));
}

static void fast_copy(const op *o, void *const *in, void *const *out)
{
    share(copy_span, &(call){o, in, out}, o->dim[DIM_COPY_N], GRAIN);
}

static void zero_span(const call *c, int64_t begin, int64_t end)
{
    float *y = c->out[OUT_ZERO_y]; /* [N] */
    memset(y + begin, 0, sizeof(float) * (size_t)(end - begin));
}

static void fast_zero(const op *o, void *const *in, void *const *out)
{
    share(zero_span, &(call){o, in, out}, o->dim[DIM_ZERO_N], GRAIN);
}

/* ---- gates */

/* A gate for each number: rows do not matter. */
WIDE static void gate_each(const call *c, int64_t begin, int64_t end)
{
    const float *x = c->in[IN_GATE_x]; /* [M][N] */
    const float *g = c->in[IN_GATE_g]; /* [M][N] */
    float *y = c->out[OUT_GATE_y];     /* [M][N] */
#pragma omp simd
    for (int64_t i = begin; i < end; i++) y[i] = x[i] * fast_sigmoid(g[i]);
}

/* A gate for each row. */
WIDE static void gate_rows(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[DIM_GATE_N];
    const float *x = c->in[IN_GATE_x]; /* [M][N] */
    const float *g = c->in[IN_GATE_g]; /* [M] */
    float *y = c->out[OUT_GATE_y];     /* [M][N] */
    for (int64_t i = begin; i < end; i++) {
        const float s = fast_sigmoid(g[i]);
#pragma omp simd
        for (int64_t j = i * n; j < (i + 1) * n; j++) y[j] = x[j] * s;
    }
}

static void fast_gate(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GATE_M], n = o->dim[DIM_GATE_N];
    const call c = {o, in, out};
    if (o->dim[DIM_GATE_G] == n)
        share(gate_each, &c, m * n, GRAIN);
    else
        share_rows(gate_rows, &c, m, n);
}

WIDE static void gate_d_each(const call *c, int64_t begin, int64_t end)
{
    const float *dy = c->in[IN_GATE_D_dy]; /* [M][N] */
    const float *x = c->in[IN_GATE_D_x];   /* [M][N] */
    const float *g = c->in[IN_GATE_D_g];   /* [M][N] */
    float *dx = c->out[OUT_GATE_D_dx];     /* [M][N], may be missing, may be dy */
    float *dg = c->out[OUT_GATE_D_dg];     /* [M][N], may be missing */
    if (dg) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            const float s = fast_sigmoid(g[i]);
            dg[i] = dy[i] * x[i] * s * (1 - s);
        }
    }
    if (dx) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) dx[i] = dy[i] * fast_sigmoid(g[i]);
    }
}

WIDE static void gate_d_rows(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[DIM_GATE_D_N];
    const float *dy = c->in[IN_GATE_D_dy]; /* [M][N] */
    const float *x = c->in[IN_GATE_D_x];   /* [M][N] */
    const float *g = c->in[IN_GATE_D_g];   /* [M] */
    float *dx = c->out[OUT_GATE_D_dx];     /* [M][N], may be missing, may be dy */
    float *dg = c->out[OUT_GATE_D_dg];     /* [M], may be missing */
    for (int64_t i = begin; i < end; i++) {
        const float s = fast_sigmoid(g[i]);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = i * n; j < (i + 1) * n; j++) sum += dy[j] * x[j];
        if (dg) dg[i] = sum * s * (1 - s);
        if (!dx) continue;
#pragma omp simd
        for (int64_t j = i * n; j < (i + 1) * n; j++) dx[j] = dy[j] * s;
    }
}

static void fast_gate_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GATE_D_M], n = o->dim[DIM_GATE_D_N];
    const call c = {o, in, out};
    if (o->dim[DIM_GATE_D_G] == n)
        share(gate_d_each, &c, m * n, GRAIN);
    else
        share_rows(gate_d_rows, &c, m, n);
}

/* ---- activations */

static const float limit = 7, alpha = 1.702F; /* of the clamped form */

static inline __attribute__((always_inline)) float clamped(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

WIDE static void act_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t f = c->o->dim[DIM_ACT_F];
    const float *p = c->in[IN_ACT_p]; /* [M], may be missing */
    for (int64_t i = begin; i < end; i++) {
        const float *gate = (const float *)c->in[IN_ACT_u] + 2 * i * f; /* [F] */
        const float *up = gate + f;                                     /* [F] */
        float *a = (float *)c->out[OUT_ACT_a] + i * f;                  /* [F] */
        const float by = p ? p[i] : 1;
        if (c->o->flags & CLAMPED) {
#pragma omp simd
            for (int64_t j = 0; j < f; j++) {
                const float g = gate[j] > limit ? limit : gate[j];
                a[j] = by * (clamped(up[j], -limit, limit) + 1) * g * fast_sigmoid(alpha * g);
            }
        } else {
#pragma omp simd
            for (int64_t j = 0; j < f; j++) a[j] = by * gate[j] * fast_sigmoid(gate[j]) * up[j];
        }
    }
}

static void fast_act(const op *o, void *const *in, void *const *out)
{
    share_rows(act_span, &(call){o, in, out}, o->dim[DIM_ACT_M], 2 * o->dim[DIM_ACT_F]);
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
    const int64_t f = c->o->dim[DIM_ACT_D_F];
    const float *p = c->in[IN_ACT_D_p]; /* [M], may be missing */
    float *dp = c->out[OUT_ACT_D_dp];   /* [M], may be missing */
    for (int64_t i = begin; i < end; i++) {
        const float *da = (const float *)c->in[IN_ACT_D_da] + i * f;   /* [F] */
        const float *u = (const float *)c->in[IN_ACT_D_u] + 2 * i * f; /* [2F] */
        float *du = (float *)c->out[OUT_ACT_D_du] + 2 * i * f;         /* [2F] */
        const act_row r = {da, u, u + f, du, du + f, p ? p[i] : 1, f};
        const float sum = c->o->flags & CLAMPED ? act_d_row_clamped(&r) : act_d_row(&r);
        if (dp) dp[i] = sum;
    }
}

static void fast_act_d(const op *o, void *const *in, void *const *out)
{
    share_rows(act_d_span, &(call){o, in, out}, o->dim[DIM_ACT_D_M], 4 * o->dim[DIM_ACT_D_F]);
}

kernel_rows fast_dense_maps(void)
{
    static const kernel rows[] = {
        {OP_ADD, "threads", NULL, .run = fast_add},
        {OP_COPY, "threads", NULL, .run = fast_copy},
        {OP_CAST, "threads", NULL, .run = fast_copy},
        {OP_COPY_OUT, "threads", NULL, .run = fast_copy, .launch = bytes_copy},
        {OP_COPY_IN, "threads", NULL, .run = fast_copy, .launch = bytes_copy},
        {OP_ZERO, "threads", NULL, .run = fast_zero, .launch = bytes_zero},
        {OP_GATE, "threads", NULL, .run = fast_gate},
        {OP_GATE_D, "threads", NULL, .run = fast_gate_d},
        {OP_ACT, "threads", NULL, .run = fast_act},
        {OP_ACT_D, "threads", NULL, .run = fast_act_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
