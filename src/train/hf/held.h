/* held.h - which elements of a Hugging Face tensor a rank holds, and where. Private to the files
 * that read and compare tensors. */
#ifndef TRAIN_HF_HELD_H
#define TRAIN_HF_HELD_H

#include "train/hf/map.h"
#include "train/executor/part_map.h"

/* Element hf + i * hf_step of the tensor is element ours + i * our_step of the rank's part of the
 * weight, i < n. */
typedef struct hf_held {
    const part_map *map;
    hf_runs runs;
    hf_run run; /* of the whole weight, from its element `next` on */
    int64_t next;
} hf_held;

/* Of the elements [lo, hi) of a part of the whole model's weight. */
hf_held hf_held_of(const part_map *map, const hf_part *p, int64_t lo, int64_t hi);
bool hf_held_next(hf_held *h, hf_run *run);

/* Has the rank any of them? */
bool hf_held_any(const part_map *map, const hf_part *p, int64_t lo, int64_t hi);

#endif
