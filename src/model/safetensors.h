/* safetensors.h - what tensors a Hugging Face weight file holds.
 *
 * A file is an 8-byte little-endian length, that many bytes of JSON, then the tensors' bytes
 * without a gap. Only the header is read here. No file, however broken, does more than fail with
 * ERR_INPUT. */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum { SAFETENSOR_DIMS_MAX = 8, SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000 };

typedef struct safetensor {
    const char *name;
    const char *dtype; /* "F32", "BF16", "F8_E4M3", ... */
    int n_dims;
    int64_t dim[SAFETENSOR_DIMS_MAX];
    int64_t begin, end; /* bytes after `data` */
    const char *note;   /* what __metadata__ holds under the tensor's own name; NULL: nothing */
    const char *file;   /* from an index: the file that holds it; NULL: not a name */
} safetensor;

typedef struct safetensors {
    const safetensor *tensors; /* by name */
    int n_tensors;
    int64_t data; /* where the tensors' bytes start in the file */
} safetensors;

int64_t safetensor_elements(const safetensor *t);

/* The tensor of this name, or NULL. */
const safetensor *safetensors_find(const safetensors *f, const char *name);

/* Does the name of any tensor start so? */
bool safetensors_any(const safetensors *f, const char *prefix);

/* Reads the header of a file; memory comes from `a`. */
status safetensors_open(safetensors *f, arena *a, const char *path, error *err);

/* The same from the start of a file, which must hold the header. */
typedef struct safetensors_head {
    const char *name; /* stands for the file in messages */
    const void *bytes;
    size_t n_bytes;     /* of them */
    int64_t file_bytes; /* of the whole file */
} safetensors_head;
status safetensors_parse(safetensors *f, arena *a, const safetensors_head *head, error *err);

/* The names in a model.safetensors.index.json: tensors with a file, without type, shape or place.
 */
status safetensors_open_index(safetensors *f, arena *a, const char *path, error *err);

#endif
