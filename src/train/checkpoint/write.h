/* write.h - one rank's tensor files of a checkpoint. Private to the checkpoint files.
 *
 * First it is planned which boxes the rank writes; then, if asked, they are copied, so that the
 * arrays may change; then they are written, by any thread. */
#ifndef TRAIN_CHECKPOINT_WRITE_H
#define TRAIN_CHECKPOINT_WRITE_H

#include "train/checkpoint/kinds.h"
#include "train/checkpoint/tensor_file.h"

typedef struct written_box {
    const weight *w;
    weight_box box;
    int64_t base;
} written_box;

typedef struct written_file {
    checkpoint_kind kind;
    written_box *boxes; /* [n] */
    tensor_spec *specs; /* [n] */
    int n;
    int64_t elements;
    float *copy; /* [elements], box after box; NULL: they are taken from the array */

    /* once written: */
    int64_t bytes;
    uint64_t header_sum;
} written_file;

/* Of one kind; memory comes from `a`. */
void checkpoint_file_plan(written_file *f, const checkpoint *c, checkpoint_kind k, arena *a);

/* Copies the values to f->copy, which the caller frees. */
status checkpoint_file_copy(written_file *f, error *err);

/* Writes PATH/kind-RANK-of-WORLD.safetensors and syncs it. A file without boxes is not written. */
const char *checkpoint_file_name(arena *a, const char *kind, int64_t rank, int64_t world);
status checkpoint_file_write(written_file *f, const char *path, arena *a, error *err);

#endif
