/* quantised.h - what checks and times of quantised operations share. */
#ifndef TESTS_CUDA_QUANTISED_H
#define TESTS_CUDA_QUANTISED_H

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/cuda_rows.h"

/* Ends the program where a call failed. */
void must_run(cudaError_t e);

/* n bytes on the GPU, as on the host, or 0x55. */
void *device_of(const void *host, int64_t n);

/* An operation with all its buffers. */
op quantised_op(op_kind kind, const int64_t *dims, int n);

/* A row's call with what it has prepared, and its workspace. */
typedef struct quantised_call {
    kernel_call call;
    void *workspace;
} quantised_call;

quantised_call quantised_call_of(const kernel *k, const op *o, const op_types *t, void *const *in,
                                 void *const *out);
void quantised_call_end(quantised_call *c);

#endif
