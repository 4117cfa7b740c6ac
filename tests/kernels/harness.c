/* harness.c - see harness.h. */
#include "kernels/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t number_bytes(number type)
{
    return type == F64 ? sizeof(double) : sizeof(float);
}

static size_t tensor_bytes(const tensor *t)
{
    return number_bytes(t->type) * (size_t)t->n;
}

/* Uniform in -1 .. 1, the same on every machine. */
static double next_random(test_case *c)
{
    c->random = c->random * 6364136223846793005U + 1442695040888963407U;
    return (double)(c->random >> 11) * 0x1p-52 - 1;
}

static void *take(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) fail_msg("no memory");
    return p;
}

static void put(tensor *t, int64_t i, double x)
{
    if (t->type == F64)
        ((double *)t->start)[i] = x;
    else if (t->type == F32)
        ((float *)t->start)[i] = (float)x;
    else
        ((int32_t *)t->start)[i] = (int32_t)x;
}

static double get(const tensor *t, const void *data, int64_t i)
{
    if (t->type == F64) return ((const double *)data)[i];
    if (t->type == F32) return (double)((const float *)data)[i];
    return ((const int32_t *)data)[i];
}

static void tensor_init(tensor *t, number type, int64_t n)
{
    *t = (tensor){.type = type, .n = n};
    t->start = take(tensor_bytes(t));
    t->data = take(tensor_bytes(t));
}

static void tensor_release(tensor *t)
{
    free(t->start);
    free(t->weight);
    if (!t->borrowed) free(t->data);
    *t = (tensor){0};
}

void case_init(test_case *c, op_kind kind, number real, const int64_t *dims, int n_dims)
{
    memset(c, 0, sizeof *c);
    c->o.kind = kind;
    c->o.real[0] = 1e-5; /* eps where there is one */
    c->real = real;
    c->random = 12345 + (uint64_t)kind;
    for (int i = 0; i < n_dims; i++) c->o.dim[i] = dims[i];
}

void case_release(test_case *c)
{
    for (int i = 0; i < OP_OUT_MAX; i++) tensor_release(&c->out[i]);
    for (int i = 0; i < OP_IN_MAX; i++) tensor_release(&c->in[i]);
}

void case_reals(test_case *c, tensor *t, int64_t n)
{
    tensor_init(t, c->real, n);
    for (int64_t i = 0; i < n; i++) put(t, i, next_random(c));
}

void case_ids(test_case *c, tensor *t, int64_t n, int low, int high)
{
    tensor_init(t, I32, n);
    for (int64_t i = 0; i < n; i++) put(t, i, floor(low + (next_random(c) + 1) / 2 * (high - low)));
}

void case_weights(test_case *c, tensor *out)
{
    out->weight = take(sizeof(double) * (size_t)out->n);
    for (int64_t i = 0; i < out->n; i++) out->weight[i] = next_random(c);
}

void case_given(test_case *c, tensor *t, int64_t n, const double *values)
{
    assert_int_equal(c->real, F64);
    tensor_init(t, F64, n);
    if (values) memcpy(t->start, values, tensor_bytes(t));
}

void case_in_place(test_case *c, int out, int in)
{
    tensor *t = &c->out[out];
    free(t->data);
    t->data = c->in[in].data;
    t->borrowed = true;
}

void case_run(test_case *c, kernel_run run)
{
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    for (int i = 0; i < OP_OUT_MAX; i++) {
        out[i] = c->out[i].data;
        if (out[i]) memcpy(out[i], c->out[i].start, tensor_bytes(&c->out[i]));
    }
    for (int i = 0; i < OP_IN_MAX; i++) { /* after the outputs: one may lie in an input's place */
        in[i] = c->in[i].data;
        if (in[i]) memcpy(in[i], c->in[i].start, tensor_bytes(&c->in[i]));
    }
    run(&c->o, in, out);
}

double relative_error(const double *a, const double *b, int64_t n)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return size > 0 ? sqrt(apart / size) : sqrt(apart);
}

static double *copy_as_double(const tensor *t)
{
    double *x = take(sizeof(double) * (size_t)t->n);
    for (int64_t i = 0; i < t->n; i++) x[i] = get(t, t->data, i);
    return x;
}

double case_error(test_case *c, kernel_run plain, kernel_run run)
{
    double *wanted[OP_OUT_MAX] = {0}, worst = 0;
    case_run(c, plain);
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (c->out[i].data) wanted[i] = copy_as_double(&c->out[i]);
    case_run(c, run);
    for (int i = 0; i < OP_OUT_MAX; i++) {
        if (!wanted[i]) continue;
        double *got = copy_as_double(&c->out[i]);
        double e = relative_error(got, wanted[i], c->out[i].n);
        if (!(e <= worst)) worst = e; /* what is not a number is the worst of all */
        free(got);
        free(wanted[i]);
    }
    return worst;
}

bool case_threads_agree(test_case *c, kernel_run run)
{
    void *first[OP_OUT_MAX] = {0};
    bool same = true;
    kernels_threads(1);
    case_run(c, run);
    for (int i = 0; i < OP_OUT_MAX; i++) {
        if (!c->out[i].data) continue;
        first[i] = take(tensor_bytes(&c->out[i]));
        memcpy(first[i], c->out[i].data, tensor_bytes(&c->out[i]));
    }
    for (int n = 2; n <= 3; n++) {
        kernels_threads(n);
        case_run(c, run);
        for (int i = 0; i < OP_OUT_MAX; i++)
            same &= !first[i] || !memcmp(first[i], c->out[i].data, tensor_bytes(&c->out[i]));
    }
    for (int i = 0; i < OP_OUT_MAX; i++) free(first[i]);
    return same;
}

static double weighted_sum(const test_case *c)
{
    double sum = 0;
    for (int i = 0; i < OP_OUT_MAX; i++) {
        const tensor *t = &c->out[i];
        for (int64_t j = 0; t->weight && j < t->n; j++) sum += t->weight[j] * get(t, t->data, j);
    }
    return sum;
}

double case_gradient_error(test_case *c, kernel_run forward, tensor *by, const double *gradient)
{
    const double step = 1e-5;
    double *slope = take(sizeof(double) * (size_t)by->n), *x = by->start;
    assert_int_equal(by->type, F64);
    for (int64_t i = 0; i < by->n; i++) {
        const double at = x[i];
        x[i] = at + step;
        case_run(c, forward);
        slope[i] = weighted_sum(c);
        x[i] = at - step;
        case_run(c, forward);
        slope[i] = (slope[i] - weighted_sum(c)) / (2 * step);
        x[i] = at;
    }
    double e = relative_error(gradient, slope, by->n);
    free(slope);
    return e;
}

const kernel *row_of(kernel_rows rows, op_kind kind)
{
    for (int i = 0; i < rows.n; i++)
        if (rows.rows[i].kind == kind) return &rows.rows[i];
    return NULL;
}
