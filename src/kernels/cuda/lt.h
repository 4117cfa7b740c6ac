/* lt.h - products by cuBLASLt: C[m][n] (+)= sum over l of A[m][l] B[n][l], all row-major.
 *
 * L1  A plan is made before the first launch: the heuristic's first algorithm that needs no more
 *     workspace than 32 MiB and addresses at multiples of 16 bytes only, as views have.
 * L2  Sums are FP32 (of FP32 operands without TF32). The algorithms chosen repeat bit by bit, those
 *     that cut the sum included: they add their parts in the workspace (docs/GPU.md).
 *     A run keeps what was chosen, and goes on with it (lt_choices.h).
 * L3  There is no cuBLAS handle: that takes 66 MiB of the GPU, this one 2. */
#ifndef KERNELS_CUDA_LT_H
#define KERNELS_CUDA_LT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call needs: 32 MiB at a multiple of 256 bytes, wherever the workspace begins. */
enum { LT_ALIGN = 256, LT_WORKSPACE = (32 << 20) + LT_ALIGN };

typedef struct lt_shape {
    int64_t m, n, k;
    bool a_turned, b_turned; /* stored as [k][m], [k][n] */
    dtype in, out;           /* BF16 and either, or FP32 and FP32 */
    bool add;                /* to what is there */
} lt_shape;

typedef struct lt_plan lt_plan;

/* `what` names the operation in messages. The caller frees. */
status lt_plan_make(lt_plan **plan, const lt_shape *s, const char *what, error *err);
void lt_plan_free(lt_plan *plan); /* NULL: nothing */

/* Plans that are made from now on use and keep choices (lt_choices_use). */
void lt_keep_choices(const char *path, const char *from);

/* Starts it on `stream`; false: cuBLASLt refused, and stderr says why. */
bool lt_run(const lt_plan *plan, const void *a, const void *b, void *c, void *workspace,
            void *stream);

#ifdef __cplusplus
}
#endif

#endif
