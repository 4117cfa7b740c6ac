/* parts.h - where the GPU's rows come from: each .cu file gives a table of its own. */
#ifndef BACKEND_CUDA_KERNELS_PARTS_H
#define BACKEND_CUDA_KERNELS_PARTS_H

#include "backend/cuda/kernels/cuda_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_part {
    const kernel *rows;
    int n;
} cuda_part;

#define CUDA_PART(name) cuda_part cuda_##name(void);
#include "backend/cuda/kernels/parts.def"
#undef CUDA_PART

#ifdef __cplusplus
}
#endif

#endif
