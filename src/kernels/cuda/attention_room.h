/* attention_room.h - which attention cuDNN takes, and the room that its plans want.
 *
 * The planner knows no library, so the bytes are formulas; tests/cudnn builds the plans and
 * compares. */
#ifndef KERNELS_CUDA_ATTENTION_ROOM_H
#define KERNELS_CUDA_ATTENTION_ROOM_H

#include "kernels/cuda/sdpa.h"

/* Heads of 16, 32, 48 ..: with heads of 24 a plan of cuDNN 9.19 writes past its own memory on the
 * host, which shows later and elsewhere (a corrupted heap). */
static inline bool sdpa_takes(const sdpa_shape *z)
{
    return z->b > 0 && z->s > 0 && z->h_kv > 0 && z->h % z->h_kv == 0 && z->d % 16 == 0 &&
           z->d_v % 16 == 0 && z->d > 0 && z->d_v > 0 && z->d <= 256 && z->d_v <= 256;
}

/* cuDNN's own workspace: gradients of keys and values of every query head where heads share them,
 * for the deterministic form the gradient of all scores in tiles of 128, and a little. */
static inline int64_t sdpa_library_bytes(const sdpa_shape *z, sdpa_pass pass)
{
    const int64_t rows = z->b * z->h * z->s, wide = (z->s + 127) / 128 * 128;
    int64_t bytes = 512;
    if (pass != SDPA_FORWARD && z->h != z->h_kv) bytes += 2 * rows * (z->d + z->d_v);
    if (pass == SDPA_DETERMINISTIC) bytes += 2 * z->b * z->h * wide * wide;
    return bytes;
}

#endif
