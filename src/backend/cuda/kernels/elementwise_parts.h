/* elementwise_parts.h - tables of fast rows that move or add numbers; parts.h has the others. */
#ifndef BACKEND_CUDA_KERNELS_ELEMENTWISE_PARTS_H
#define BACKEND_CUDA_KERNELS_ELEMENTWISE_PARTS_H

#include "backend/cuda/kernels/parts.h"

#ifdef __cplusplus
extern "C" {
#endif

cuda_part cuda_fast_embed(void);
cuda_part cuda_fast_latent(void);

#ifdef __cplusplus
}
#endif

#endif
