/* look.h - is all there that metadata.json lists? Private to the checkpoint files. */
#ifndef TRAIN_CHECKPOINT_LOOK_H
#define TRAIN_CHECKPOINT_LOOK_H

#include "base/status.h"

/* Looks at the folder of a checkpoint, whatever its name: metadata.json has its checksum and
 * counters that can be, and every file that it lists is there with its size and the checksum of its
 * header, which holds those of the data. The data are not read again: they were synced.
 * ERR_MACHINE: the first that is not. */
status checkpoint_look(const char *path, error *err);

#endif
