/* adder.c - adds, and rounds once. */
#include "backend/comm/adder.h"

static void add_f32(adder *s, const void *from, int64_t n, bool first)
{
    const float *v = from;
    for (int64_t i = 0; i < n; i++) s->f[i] = first ? v[i] : s->f[i] + v[i];
}

static void add_f64(adder *s, const void *from, int64_t n, bool first)
{
    const double *v = from;
    for (int64_t i = 0; i < n; i++) s->d[i] = first ? v[i] : s->d[i] + v[i];
}

static void add_i32(adder *s, const void *from, int64_t n, bool first)
{
    const uint32_t *v = from;
    for (int64_t i = 0; i < n; i++) s->u[i] = first ? v[i] : s->u[i] + v[i];
}

static void add_bf16(adder *s, const void *from, int64_t n, bool first)
{
    const uint16_t *v = from;
    for (int64_t i = 0; i < n; i++) {
        float wide = bf16_to_float(v[i]);
        s->f[i] = first ? wide : s->f[i] + wide;
    }
}

static void add_f16(adder *s, const void *from, int64_t n, bool first)
{
    const uint16_t *v = from;
    for (int64_t i = 0; i < n; i++) {
        float wide = f16_to_float(v[i]);
        s->f[i] = first ? wide : s->f[i] + wide;
    }
}

static void take_four(const adder *s, void *to, int64_t n)
{
    memcpy(to, s, 4 * (size_t)n);
}

static void take_eight(const adder *s, void *to, int64_t n)
{
    memcpy(to, s, 8 * (size_t)n);
}

static void take_bf16(const adder *s, void *to, int64_t n)
{
    bf16_of_floats(to, s->f, n);
}

static void take_f16(const adder *s, void *to, int64_t n)
{
    uint16_t *out = to;
    for (int64_t i = 0; i < n; i++) out[i] = f16_of_float(s->f[i]);
}

static const struct {
    void (*add)(adder *s, const void *from, int64_t n, bool first);
    void (*take)(const adder *s, void *to, int64_t n);
} rows[DTYPE_COUNT] = {
    [DTYPE_F32] = {add_f32, take_four}, [DTYPE_F64] = {add_f64, take_eight},
    [DTYPE_I32] = {add_i32, take_four}, [DTYPE_BF16] = {add_bf16, take_bf16},
    [DTYPE_F16] = {add_f16, take_f16},
};

bool adder_has(dtype t)
{
    return rows[t].add != NULL;
}

void adder_add(adder *s, dtype t, const void *from, int64_t n, bool first)
{
    rows[t].add(s, from, n, first);
}

void adder_take(const adder *s, dtype t, void *to, int64_t n)
{
    rows[t].take(s, to, n);
}
