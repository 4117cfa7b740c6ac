/* dtype.h - the number formats of weight files, read into FP32.
 *
 * Every format here is a subset of FP32, so reading is exact; base/dtype.h rounds the other way. */
#ifndef TRAIN_HF_DTYPE_H
#define TRAIN_HF_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hf_dtype {
    const char *name; /* as safetensors has it */
    int bytes;
    bool scaled; /* means nothing without the scales beside it */
    void (*decode)(const void *raw, float *out, int64_t n);
} hf_dtype;

/* NULL: not a format of weights. */
const hf_dtype *hf_dtype_find(const char *name);

/* MXFP4: n values (whole blocks of 32) from n / 2 bytes of blocks and n / 32 of scales. */
void hf_decode_mxfp4(const uint8_t *blocks, const uint8_t *scales, float *out, int64_t n);

#endif
