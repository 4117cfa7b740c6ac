/* share.h - kernels that move a rank's share of a message between ranks that reach each other's
 * memory. */
#ifndef BACKEND_CUDA_DEVICE_SHARE_H
#define BACKEND_CUDA_DEVICE_SHARE_H

#include <cuda_runtime.h>

#include "backend/device/issue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All copies in one launch (or few, of many); none may overlap another. */
void share_move(cudaStream_t s, const issue_copy *list, int n);

/* Adds in the order of the list, as adder.h: FP32, FP64 and INT32 as they are, BF16 and FP16
 * in FP32 and rounded once. A result may be one of the lists. */
void share_sum(cudaStream_t s, const issue_sum *x);

#ifdef __cplusplus
}
#endif

#endif
