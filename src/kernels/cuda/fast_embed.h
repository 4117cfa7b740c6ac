/* fast_embed.h - rows of words and their gradients; see fast_embed.cu. */
#ifndef KERNELS_CUDA_FAST_EMBED_H
#define KERNELS_CUDA_FAST_EMBED_H

#include "kernels/cuda/parts.h"

#ifdef __cplusplus
extern "C" {
#endif

cuda_part cuda_fast_embed(void);

#ifdef __cplusplus
}
#endif

#endif
