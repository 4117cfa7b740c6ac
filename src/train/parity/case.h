/* case.h - the files of a reference case. Internal to src/train/parity*.c. */
#ifndef TRAIN_PARITY_CASE_H
#define TRAIN_PARITY_CASE_H

#include "base/json.h"
#include "base/arena.h"
#include "model/safetensors.h"

typedef struct golden_case {
    json_t *json; /* the caller gives it back */
    safetensors tensors;
    const unsigned char *bytes;  /* of golden.safetensors */
    const int32_t *ids, *labels; /* [batch][seq] */
    int64_t batch, seq;
    bool masked; /* some labels are negative: they do not count */
} golden_case;

status golden_open(golden_case *g, arena *a, const char *folder, error *err);

/* NULL: there is no such tensor of floats with so many elements. */
const float *golden_floats(const golden_case *g, const char *name, int64_t elements);

double golden_number(const json_t *object, const char *key, double otherwise);

#endif
