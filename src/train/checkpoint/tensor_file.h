/* tensor_file.h - safetensors files: written in one pass with a checksum for each tensor, and the
 * boxes of our checkpoints read back.
 *
 * Any reader of safetensors can open what is written here. A file of ours says more, in the
 * __metadata__ under each tensor's name:
 *
 *     "of 128,64 at 0,32 xxh64 0123456789abcdef"
 *
 * the shape of the whole weight, where this box of it starts, and the checksum of the box's bytes.
 * The tensor's own shape is that of the box. Its name is the weight's where the box is the whole
 * weight, else followed by the place: "decoder.final_layernorm.weight[32]". So every rank can write
 * what it holds into a file of its own, in as many boxes as that takes, and whoever reads finds
 * each element of a weight in exactly one box, whatever the layout was. */
#ifndef TRAIN_CHECKPOINT_TENSOR_FILE_H
#define TRAIN_CHECKPOINT_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "model/params.h"
#include "model/safetensors.h"

/* ---- checksums of what is written and read: xxHash64, seed 0.
 *
 * It finds damage, not malice. The library comes as a header (Debian: libxxhash-dev) and is
 * compiled in, so nothing more is linked. */

enum { SUM_TEXT_MAX = 17 }; /* 16 hexadecimal digits and a 0 */

typedef struct sum64 {
    uint64_t state[12]; /* the library's */
} sum64;

void sum_init(sum64 *s);
void sum_add(sum64 *s, const void *bytes, size_t n);
uint64_t sum_value(const sum64 *s);

uint64_t sum_of(const void *bytes, size_t n);

void sum_text(char out[SUM_TEXT_MAX], uint64_t sum);
bool sum_parse(const char *text, uint64_t *sum); /* exactly 16 lower-case digits */

/* ---- writing */

typedef struct tensor_spec {
    const char *name, *dtype; /* "F32" or "BF16" */
    int n_dims;
    int64_t dim[SAFETENSOR_DIMS_MAX];
    const int64_t *of, *at; /* [n_dims] whole shape and place; NULL: no note */

    /* by the writer: */
    int64_t begin, end;
    uint64_t sum;
} tensor_spec;

typedef struct tensor_writer {
    const char *path, *format;
    tensor_spec *specs;
    int n_specs, at; /* tensor that is being written */
    int64_t written; /* bytes of data so far */
    sum64 sum;       /* of that tensor so far */
    size_t header_bytes;
    uint64_t header_sum; /* of all bytes before the data, once closed */
    int fd;
} tensor_writer;

/* Creates the file, which is a new one, and writes a header with room for the checksums. `specs`
 * are sorted as they will be written, and belong to the writer until close; so do the texts. Memory
 * comes from `a`. `w` brings path, format (what __metadata__ says), specs and their number. After a
 * failure the writer is closed by tensor_writer_abandon. */
status tensor_writer_open(tensor_writer *w, arena *a, error *err);

/* The next bytes of the data, tensor after tensor. */
status tensor_writer_put(tensor_writer *w, const void *bytes, size_t n, error *err);

/* Writes the checksums, syncs and closes; all data must have been put. */
status tensor_writer_close(tensor_writer *w, arena *a, error *err);
void tensor_writer_abandon(tensor_writer *w);

/* ---- reading */

typedef struct tensor_box {
    const char *weight, *path;
    int n_dims;
    int64_t of[PARAM_DIMS_MAX], at[PARAM_DIMS_MAX], dim[PARAM_DIMS_MAX];
    int64_t n;     /* elements, FP32 */
    int64_t place; /* byte in the file */
    uint64_t sum;
} tensor_box;

typedef struct tensor_boxes {
    tensor_box *list;
    int n;
    int64_t file_bytes;
    uint64_t header_sum; /* of all bytes before the data */
} tensor_boxes;

/* The file's size, and the checksum of all bytes before the data. */
status tensor_file_header(const char *path, int64_t *bytes, uint64_t *sum, error *err);

/* The boxes of a file; memory comes from `a`. ERR_INPUT: no such file, damaged, or not ours. */
status tensor_boxes_read(tensor_boxes *b, arena *a, const char *path, error *err);

/* A box of the weight that is wanted, and where its elements go: into an array of the shape `span`
 * that starts at values + base, the first to the place `to`. The base may lie before the array
 * where the array has only the later elements. */
typedef struct tensor_target {
    int64_t at[PARAM_DIMS_MAX], dim[PARAM_DIMS_MAX];
    int64_t to[PARAM_DIMS_MAX], span[PARAM_DIMS_MAX];
    float *values;
    int64_t base;
} tensor_target;

/* Has the box an element of the target? */
bool tensor_box_meets(const tensor_box *b, const tensor_target *t);

/* Reads the box through a buffer of fixed size, checks its checksum, and copies what the n targets
 * want of it. Targets have the box's number of dimensions; what they want elsewhere is no matter
 * (so a table with fewer or more rows takes those it has). */
status tensor_box_load(const tensor_box *b, const tensor_target *targets, int n, error *err);

/* Have the two an element in common? They are of the same weight. */
bool tensor_boxes_overlap(const tensor_box *a, const tensor_box *b);

#endif
