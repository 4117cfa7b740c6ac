/* blas.h - OpenBLAS: found and loaded when first needed, with kernels that suit the processor.
 *
 * I1  OPENBLAS_CORETYPE is read while the library is loaded, so it is set before (and taken back
 *     after). What the user set is left alone.
 * I2  A call runs in the thread that makes it. OpenBLAS's own threads are never used: where they
 *     cut a GEMM depends on how many there are, and so do then the last bits of the result
 *     (measured: with Haswell's kernels most cuts change bits, even at multiples of 256).
 * I3  A large GEMM is cut into tiles by its sizes alone; any number of threads share them. */
#ifndef BACKEND_CPU_KERNELS_BLAS_H
#define BACKEND_CPU_KERNELS_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* c[m][n] = a b, or c += a b with `add`; rows are contiguous. `ta`: a is stored as [k][m], else
 * [m][k]; `tb`: b is stored as [n][k], else [k][n]. */
typedef struct blas_operands {
    const float *a; /* [m][k] or [k][m] */
    const float *b; /* [k][n] or [n][k] */
    float *c;       /* [m][n] */
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* from one stored row to the next */
    bool ta, tb, add;
} blas_operands;

/* The three GEMMs of a layer y[m][n] = x[m][k] w[n][k]^T; the last adds to dw. */
static inline blas_operands blas_forward(const float *x, const float *w, float *y, int64_t m,
                                         int64_t n, int64_t k)
{
    return (blas_operands){x, w, y, m, n, k, .lda = k, .ldb = k, .ldc = n, .tb = true};
}

static inline blas_operands blas_data(const float *dy, const float *w, float *dx, int64_t m,
                                      int64_t n, int64_t k)
{
    return (blas_operands){dy, w, dx, m, .n = k, .k = n, .lda = n, .ldb = k, .ldc = k};
}

static inline blas_operands blas_weight(const float *dy, const float *x, float *dw, int64_t m,
                                        int64_t n, int64_t k)
{
    blas_operands p = {dy, x, dw, .m = n, .n = k, .k = m, .lda = n, .ldb = k, .ldc = k};
    p.ta = p.add = true;
    return p;
}

/* Loads the library on the first call. False: there is none, and no other function here may be
 * called, except blas_describe. */
bool blas_ready(void);

/* One line: which library and kernels were chosen, and why; or what is missing. */
const char *blas_describe(void);

/* The GEMM, by the calling thread and in one call; for use inside parallel regions. */
void blas_gemm_here(const blas_operands *p);

/* The GEMM, its tiles shared by the OpenMP threads. */
void blas_gemm(const blas_operands *p);

/* The tiles themselves, for whoever has many GEMMs to share among threads: each of 0 .. n-1 is
 * to be run once, in any thread and order. */
int64_t blas_tiles(const blas_operands *p);
void blas_tile(const blas_operands *p, int64_t tile);

/* Makes OpenBLAS take the buffers for that many threads now: nothing may allocate in a step. */
void blas_warm(int n_threads);

/* What a processor offers, as far as OpenBLAS's choice goes. */
enum { CPU_AVX2 = 1, CPU_AVX512 = 2 };

/* OPENBLAS_CORETYPE for such a processor, or NULL: leave it to the library. */
const char *blas_core_for(unsigned cpu);

/* Does a core type (as OpenBLAS names what it chose) leave the processor's vectors unused? */
bool blas_core_is_poor(const char *core, unsigned cpu);

#endif
