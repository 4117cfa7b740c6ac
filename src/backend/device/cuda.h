/* cuda.h - the GPU as a device: opens the CUDA object where one was built, and says what keeps a
 * GPU from being used. */
#ifndef BACKEND_DEVICE_CUDA_H
#define BACKEND_DEVICE_CUDA_H

#include "backend/device/entry.h"

/* The device's table, valid for ever. ERR_MACHINE: no object, or no GPU that can be used. */
status device_cuda_table(const device_table **out, error *err);

/* The GPU that this rank would take. ERR_MACHINE: there is none that can be used; the text has the
 * reason and the repair. */
status device_cuda_look(cuda_gpu *out, error *err);

/* Can this one be used? */
status device_cuda_judge(const cuda_gpu *g, error *err);

/* "NVIDIA H200" and "NVIDIA H100 80GB HBM3" -> h200, h100: what files of it are called. */
const char *device_cuda_word(const cuda_gpu *g, arena *a);

/* The file of cuBLASLt's algorithms that `bench` tuned for this GPU, in the folders of hardware
 * files; "": there is none. */
const char *device_cuda_tuned(const cuda_gpu *g, arena *a);

/* The cuDNN that attention will use: `folder` as moefold.cudnn_path has it, or "". ERR_MACHINE:
 * none that can be used, and why. */
status device_cuda_cudnn(const char *folder, char *found, size_t room, error *err);

#endif
