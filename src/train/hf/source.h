/* source.h - the tensors of a Hugging Face folder, found by name and read as FP32.
 *
 * A folder holds model.safetensors, or model.safetensors.index.json and the files that it names;
 * where both are there the index counts. Values are read with pread through a buffer of fixed size:
 * a mapped file that somebody shortens, or a disk that fails, would end the program with SIGBUS
 * where pread returns an error. At most one file is open at a time.
 *
 * Every refusal names the file and, where one is concerned, the tensor. */
#ifndef TRAIN_HF_SOURCE_H
#define TRAIN_HF_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/safetensors.h"
#include "train/hf/map.h"

/* ---- the number formats of weight files, read into FP32.
 *
 * Every format here is a subset of FP32, so reading is exact; base/dtype.h rounds the other way. */

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

/* ---- tensors */

/* What became of a tensor of the files. */
typedef enum hf_use { HF_UNUSED, HF_USED, HF_APPLIED, HF_IGNORED, HF_USES } hf_use;

typedef struct hf_entry {
    const safetensor *t;
    const char *path;
    int64_t data; /* byte of the file where its tensors start */
    hf_use use;
    const char *reason; /* why it is ignored */
} hf_entry;

typedef struct hf_source {
    arena *a;
    hf_entry *entries; /* by name */
    int n_entries, n_files;
    const char *open_path; /* of `fd`; NULL: none */
    int fd;
    unsigned char *raw; /* [HF_WINDOW * 4] bytes as read; NULL until the first are */
} hf_source;

enum {
    HF_WINDOW = 1 << 16, /* elements that are read at once; whole blocks of every format */
    HF_FP8_BLOCK = 128,  /* FP8 has a scale for each block of 128 x 128 */
};

/* Headers only. Memory comes from `a`, which must outlive the source. */
status hf_source_open(hf_source *src, arena *a, const char *folder, error *err);
void hf_source_close(hf_source *src);

/* Does the folder hold weights of this kind? */
bool hf_source_is(arena *a, const char *folder);

/* NULL: there is none. */
hf_entry *hf_source_find(const hf_source *src, const char *name);

/* The tensor of a part, its number format, and its scales where it has some. */
typedef struct hf_match {
    hf_entry *values, *scales;
    const hf_dtype *type; /* NULL: MXFP4 */
    float *factors;       /* scales of FP8 blocks, once hf_source_begin has read them */
} hf_match;

/* Finds them and checks shapes and formats. */
status hf_source_match(const hf_source *src, const hf_part *p, hf_match *m, error *err);

/* Elements [lo, hi), at most HF_WINDOW of them and lo a multiple of it, as FP32. Between begin and
 * end `m` may own memory. */
status hf_source_begin(hf_source *src, hf_match *m, error *err);
status hf_source_read(hf_source *src, const hf_match *m, int64_t lo, int64_t hi, float *out,
                      error *err);
void hf_source_end(hf_match *m);

/* Do two tensors hold the same bytes? */
status hf_source_same(hf_source *src, const hf_entry *a, const hf_entry *b, bool *same, error *err);

#endif
