/* lt.h - products by cuBLASLt: C[m][n] (+)= sum over l of A[m][l] B[n][l], all row-major.
 *
 * L1  A plan is made before the first launch, with an algorithm that needs no more workspace than
 *     32 MiB and addresses at multiples of 16 bytes only, as views have: the one that the run has
 *     kept, else the one that `bench` found fastest on this GPU, else the heuristic's first
 *     (lt_choices.h).
 * L2  Sums are FP32 (of FP32 operands without TF32). The algorithms chosen repeat bit by bit, those
 *     that cut the sum included: they add their parts in the workspace (docs/GPU.md). Those that
 *     add them in the result are never asked for, and what is tuned is seen to repeat.
 * L3  There is no cuBLAS handle: that takes 66 MiB of the GPU, this one 2.
 * L4  The library knows no factor of a tensor beside its scales (LT_NV): the product of both
 *     factors is its alpha, which then lies on the device with beta, in the last LT_ALIGN bytes of
 *     the workspace, and the library has as much less. What is added to is not multiplied. */
#ifndef BACKEND_CUDA_KERNELS_LT_H
#define BACKEND_CUDA_KERNELS_LT_H

#include "base/status.h"
#include "backend/kernels/lt_use.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call needs: 32 MiB at a multiple of 256 bytes, wherever the workspace begins. */
enum { LT_ALIGN = 256, LT_WORKSPACE = (32 << 20) + LT_ALIGN };

bool lt_shape_is(const lt_shape *a, const lt_shape *b);

typedef struct lt_plan lt_plan;

/* `what` names the operation in messages. The caller frees. */
status lt_plan_make(lt_plan **plan, const lt_shape *s, const char *what, error *err);
void lt_plan_free(lt_plan *plan); /* NULL: nothing */

/* Where scales of A and B lie on the device: at multiples of 16 bytes, of LT_FACTORS the factors
 * themselves. LT_NV has factors beside its scales, of others those are not read. */
typedef struct lt_scales {
    const void *a, *b;
    const float *a_factor, *b_factor;
} lt_scales;

/* For the launches that follow; only for plans of scaled operands. False: cuBLASLt refused. */
bool lt_set_scales(lt_plan *plan, const lt_scales *s);

/* Starts it on `stream`; false: cuBLASLt refused, and stderr says why. */
bool lt_run(const lt_plan *plan, const void *a, const void *b, void *c, void *workspace,
            void *stream);

/* ---- choices */

/* Plans that are made from now on use and keep choices of these files (lt_files); `gpu` is its
 * name. With `tunes` each product is timed once by LT_TRIED algorithms, which takes memory of the
 * GPU beside what the program has, and the best goes to the file of the machine. */
void lt_use_files(const char *run, const char *from, const char *tuned, const char *gpu,
                  bool tunes);

/* Products that were planned since then, each once; at most `room` of them. Returns how many there
 * are. */
int lt_uses(lt_use *list, int room);

#ifdef __cplusplus
}
#endif

#endif
