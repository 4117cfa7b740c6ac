/* sdpa.h - causal attention by cuDNN: plans of forward and backward, by its backend API.
 *
 * S1  Before cuDNN 9.21 a causal mask cannot be said with the one-node form, so the graph is
 *     written out: two GEMMs, scale, mask, softmax (and their derivatives), which cuDNN
 *     recognises as a whole. Tensors are BF16 [B][S][H][D]; key and value heads may be fewer than
 *     query heads.
 * S2  Hopper's backward sums the query gradient with atomics into FP32 (SDPA_DQ_SUM). A graph
 *     without that buffer asks for the deterministic form; cuDNN then wants B*H*S*S*2 bytes of
 *     workspace.
 * S3  With properties of a device instead of a device nothing touches one: plans of tests.
 * S4  A block is some of each sample's queries against some of its keys, all of them seen or the
 *     same positions: rows between samples are strides, so nothing is copied. */
#ifndef BACKEND_CUDA_KERNELS_SDPA_H
#define BACKEND_CUDA_KERNELS_SDPA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sdpa_shape {
    int64_t b, h, h_kv, s;
    int64_t d, d_v; /* of queries and keys; of values */
    int64_t window; /* a token sees itself and the window-1 before; 0: all */
    /* of blocks */
    int64_t s_kv;            /* keys; 0: as many as queries */
    int64_t q_rows, kv_rows; /* of a sample in memory; 0: as many as are taken */
    bool full;               /* every query sees every key */
} sdpa_shape;

/* The same, with numbers for what was left out. */
static inline sdpa_shape sdpa_filled(sdpa_shape z)
{
    if (!z.s_kv) z.s_kv = z.s;
    if (!z.q_rows) z.q_rows = z.s;
    if (!z.kv_rows) z.kv_rows = z.s_kv;
    return z;
}

typedef enum sdpa_pass { SDPA_FORWARD, SDPA_BACKWARD, SDPA_DETERMINISTIC } sdpa_pass;

/* Tensors of a graph. */
enum {
    SDPA_Q = 1,
    SDPA_K,
    SDPA_V,
    SDPA_O,
    SDPA_STATS, /* FP32 [B][S][H]: logarithm of what a query's weights are divided by */
    SDPA_DO,
    SDPA_DQ,
    SDPA_DK,
    SDPA_DV,
    SDPA_SCALE, /* by value, as the next four */
    SDPA_MASKED,
    SDPA_ONE,
    SDPA_WINDOW,
    SDPA_DQ_SUM, /* FP32 [B][H][S][D] */
    SDPA_DO_O,   /* FP32 [B][H][S] */
    SDPA_IDS
};

typedef struct sdpa_plan sdpa_plan;

/* `device`: a device's properties as cuDNN writes them (566 bytes of JSON), or NULL: this one. The
 * caller frees. */
status sdpa_plan_make(sdpa_plan **plan, const sdpa_shape *z, sdpa_pass pass, const char *device,
                      error *err);
void sdpa_plan_free(sdpa_plan *plan); /* NULL: nothing */
int64_t sdpa_plan_workspace(const sdpa_plan *plan);

/* Starts it; `at` has addresses by id, values apart. False: cuDNN refused, and stderr says why. */
bool sdpa_run(const sdpa_plan *plan, void *const at[SDPA_IDS], float scale, void *workspace,
              void *stream);

#ifdef __cplusplus
}
#endif

#endif
