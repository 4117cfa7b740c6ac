/* fast_dense.h - what the threaded rows of the dense kinds share, and their names by file.
 *
 * Work is written over a span of rows (or columns, or elements); spans are shared among threads. An
 * element of the result is summed within one span, or over blocks that the sizes alone decide, so
 * that the number of threads changes no bit. */
#ifndef BACKEND_CPU_KERNELS_FAST_DENSE_H
#define BACKEND_CPU_KERNELS_FAST_DENSE_H

#include <stdint.h>
#include <string.h>

#include "base/wide.h"
#include "backend/cpu/kernels/rows.h"

typedef struct call {
    const op *o;
    void *const *in;
    void *const *out;
} call;

/* Does begin .. end-1 of a call. */
typedef void (*span_work)(const call *c, int64_t begin, int64_t end);

/* Shares 0 .. n-1 among the threads in spans of `grain`. */
void share(span_work work, const call *c, int64_t n, int64_t grain);

/* The same for n rows of `width` numbers, in spans that fit into the nearest cache. */
void share_rows(span_work work, const call *c, int64_t n, int64_t width);

/* e^x to 2 units in the last place: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (Cephes).
 * Without calls and branches, so that loops over it become vectors. Below -87.6 it is 0, above
 * 88.4 infinite; what is not a number stays so. */
static inline __attribute__((always_inline)) float fast_exp(float x)
{
    const float shift = 12582912; /* 1.5 * 2^23: adding it rounds to a whole number */
    float y = x > 89 ? 89 : x < -88 ? -88 : x;
    float t = y * 1.44269504F + shift, n = t - shift;
    float r = y - n * 0.693359375F + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1;
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127) << 23; /* the low bits of t are those of n */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

static inline __attribute__((always_inline)) float fast_sigmoid(float x)
{
    return 1 / (1 + fast_exp(-x));
}

/* Are sizes such that the matrix library takes them, and is there one? */
bool library_takes(const op *o, const op_types *t);

kernel_rows fast_dense_rows(void);
kernel_rows fast_dense_maps(void);
kernel_rows fast_dense_heads(void);
kernel_rows fast_dense_loss(void);

#endif
