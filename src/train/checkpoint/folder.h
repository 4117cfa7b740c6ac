/* folder.h - names in a folder of checkpoints. Private to the checkpoint files. */
#ifndef TRAIN_CHECKPOINT_FOLDER_H
#define TRAIN_CHECKPOINT_FOLDER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "train/checkpoint/lock.h"

#define CHECKPOINT_PROBE "probe-" /* files that are made to see whether that can be done */

/* FOLDER/iter_0000010 */
const char *checkpoint_path(arena *a, const char *folder, int64_t iteration);

/* The same, or where it stands aside while another takes its place; NULL: not there. */
const char *checkpoint_find(arena *a, const char *folder, int64_t iteration);

/* Removes what crashes have left, and puts back what stood aside when one struck; `held` says by
 * what this job holds the folder. Left alone is what may still be somebody's: how many, in *kept
 * (which may be NULL). */
void checkpoint_clean(const char *folder, owner_held held, int *kept);

/* ERR_INPUT: a folder iter_N is of another program, and so is the text file, which would then be
 * changed. */
status checkpoint_refuse_foreign(const char *folder, error *err);

/* Puts the complete folder `from` in the place of iter_N and names it in the text file. One that is
 * there must be ours. `lock` is looked at before anything is moved. */
status checkpoint_publish(const char *from, const char *folder, int64_t iteration,
                          checkpoint_lock *lock, error *err);

/* Names iter_N, which is there, as the best one. */
status checkpoint_name_best(const char *folder, int64_t iteration, owner_held held, error *err);

/* Removes the oldest of ours below `iteration`, so that `keep` are left with it, and `best` (0:
 * none). */
void checkpoint_prune(const char *folder, int64_t iteration, int keep, int64_t best,
                      owner_held held);

#endif
