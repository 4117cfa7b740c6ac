/* cuda.h - the GPU as a device: opens the CUDA object where one was built. */
#ifndef DEVICE_CUDA_H
#define DEVICE_CUDA_H

#include "device/cuda/entry.h"

/* The device's table, valid for ever. ERR_MACHINE: no object, or none that fits. */
status device_cuda_table(const device_table **out, error *err);

/* The GPU that this rank would take. ERR_MACHINE: there is none that can be used; the text has the
 * reason and the repair. */
status device_cuda_look(cuda_gpu *out, error *err);

#endif
