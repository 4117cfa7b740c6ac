/* attention_room.h - which attention cuDNN takes, and the room that its plans want.
 *
 * The planner knows no library, so the bytes are formulas; tests/cudnn builds the plans and
 * compares. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_ROOM_H
#define BACKEND_CUDA_KERNELS_ATTENTION_ROOM_H

#include "backend/cuda/kernels/sdpa.h"

/* Heads of 16, 32, 48 ..: with heads of 24 a plan of cuDNN 9.19 writes past its own memory on the
 * host, which shows later and elsewhere (a corrupted heap). */
static inline bool sdpa_takes(const sdpa_shape *shape)
{
    const sdpa_shape z = sdpa_filled(*shape);
    return z.b > 0 && z.s > 0 && z.s_kv > 0 && z.h_kv > 0 && z.h % z.h_kv == 0 && z.d % 16 == 0 &&
           z.d_v % 16 == 0 && z.d > 0 && z.d_v > 0 && z.d <= 256 && z.d_v <= 256;
}

/* The gradient of all scores, in tiles of 128. */
static inline int64_t sdpa_scores_bytes(const sdpa_shape *shape)
{
    const sdpa_shape z = sdpa_filled(*shape);
    return 2 * z.b * z.h * ((z.s + 127) / 128 * 128) * ((z.s_kv + 127) / 128 * 128);
}

/* cuDNN's own workspace: gradients of keys and values of every query head where heads share them,
 * for the deterministic form the gradient of all scores, and a little. */
static inline int64_t sdpa_library_bytes(const sdpa_shape *shape, sdpa_pass pass)
{
    const sdpa_shape z = sdpa_filled(*shape);
    int64_t bytes = 512;
    if (pass != SDPA_FORWARD && z.h != z.h_kv) bytes += 2 * z.b * z.h * z.s_kv * (z.d + z.d_v);
    if (pass == SDPA_DETERMINISTIC) bytes += sdpa_scores_bytes(&z);
    return bytes;
}

/* A plan whose workspace is no larger than that; `what` names the operation. */
static inline status sdpa_plan_within(sdpa_plan **plan, const sdpa_shape *z, sdpa_pass pass,
                                      const char *what, error *err)
{
    sdpa_plan *p = NULL;
    const status s = sdpa_plan_make(&p, z, pass, NULL, err);
    if (s != OK) return s;
    const int64_t wanted = sdpa_plan_workspace(p), planned = sdpa_library_bytes(z, pass);
    if (wanted <= planned) {
        *plan = p;
        return OK;
    }
    sdpa_plan_free(p);
    return error_set(err, ERR_MACHINE,
                     "%s: cuDNN's attention wants %lld bytes of workspace, planned are %lld", what,
                     (long long)wanted, (long long)planned);
}

#endif
