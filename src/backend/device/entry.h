/* entry.h - what the program and its CUDA object (moefold-cuda.so) tell each other.
 *
 * The object is opened when something is to run on a GPU. It links CUDA, the program does not. It
 * calls the program through the functions that it is handed here, and has copies of its own of the
 * few sources that both need. */
#ifndef BACKEND_DEVICE_ENTRY_H
#define BACKEND_DEVICE_ENTRY_H

#include "backend/device/issue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_ENTRY_NAME "moefold_cuda_entry"

/* The GPU that this rank would take, as CUDA describes it; what follows from it is the program's to
 * say (backend/device/cuda.h). */
typedef struct cuda_gpu {
    int count;           /* GPUs that are visible; 0: the fields below are not set */
    char why[128];       /* the runtime's words, where it could not be asked; else "" */
    int driver, runtime; /* versions of CUDA: 13000; 0: there is no driver */
    char name[128];
    char uuid[16];       /* ranks with the same one share a GPU */
    int major, minor;    /* compute capability */
    int64_t total, free; /* bytes */
} cuda_gpu;

/* What the program gets: the device's functions (but for `target`, which is the program's own) and
 * what it may ask before it opens one. */
typedef struct cuda_entry {
    device_table table;
    void (*look)(cuda_gpu *out);
    /* Opens the cuDNN of this folder, as device cuda:FOLDER will, and says which it is: "cuDNN
     * 9.19.0 (PATH)". ERR_MACHINE: it cannot be used, and why. */
    status (*cudnn)(const char *folder, char *found, size_t room, error *err);
} cuda_entry;

/* Counted up where something means something else; a function more or less is another size. */
enum { CUDA_ENTRY_VERSION = 11 + 1000 * (int)sizeof(cuda_entry) };

typedef status cuda_entry_function(int version, const device_calls *p, cuda_entry *out, error *err);
cuda_entry_function moefold_cuda_entry;

#ifdef __cplusplus
}
#endif

#endif
