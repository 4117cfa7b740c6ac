/* leftover.h - tensors of the files that no weight has used. Private to hf_load. */
#ifndef TRAIN_HF_LEFTOVER_H
#define TRAIN_HF_LEFTOVER_H

#include "train/hf/source.h"

/* Gives each a reason to be ignored, or fails with the first that has none. */
status hf_leftovers(hf_source *src, const setup *s, error *err);

#endif
