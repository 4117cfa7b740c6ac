/* cudnn_open.h - cuDNN, opened when attention first needs it: nothing of the backend links with it.
 *
 * Machines have several side by side, and a process that loads parts of two fails late and
 * unclearly (SUBLIBRARY_LOADING_FAILED). So a folder can be named, from which all parts are loaded;
 * one that is too old is refused by its version. */
#ifndef BACKEND_CUDA_KERNELS_CUDNN_OPEN_H
#define BACKEND_CUDA_KERNELS_CUDNN_OPEN_H

#include <cudnn.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is used of it. */
#define CUDNN_FUNCTIONS(X)                                                                         \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetLastErrorString)                                                                     \
    X(cudnnCreate)                                                                                 \
    X(cudnnSetStream)                                                                              \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendExecute)

typedef struct cudnn_library {
#define X(name) __typeof__(&name) name;
    CUDNN_FUNCTIONS(X)
#undef X
} cudnn_library;

enum { CUDNN_OLDEST = 91900 }; /* what this was tried with; 9.14 has not been */

/* The folder of libcudnn.so.9, before the first cudnn_open; NULL or "": MOEFOLD_CUDNN, and where
 * that is not set the loader's choice. The text is copied. */
void cudnn_use(const char *folder);

/* Opens it, once; every later call gives the same answer. */
status cudnn_open(const cudnn_library **lib, error *err);

/* "cuDNN 9.19.0 (FOLDER)", or "" before it is opened. */
const char *cudnn_found(void);

#ifdef __cplusplus
}
#endif

#endif
