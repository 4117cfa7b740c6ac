/* folder.h - names in a folder of checkpoints. Private to the checkpoint files. */
#ifndef RUN_CHECKPOINT_FOLDER_H
#define RUN_CHECKPOINT_FOLDER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* FOLDER/iter_0000010 */
const char *checkpoint_path(arena *a, const char *folder, int64_t iteration);

/* The same, or where it stands aside while another takes its place; NULL: not there. */
const char *checkpoint_find(arena *a, const char *folder, int64_t iteration);

/* Removes what crashes have left, and puts back what stood aside when one struck. */
void checkpoint_clean(const char *folder);

/* ERR_INPUT: a folder iter_N is of another program, and so is the text file, which would then be
 * changed. */
status checkpoint_refuse_foreign(const char *folder, error *err);

/* Keeps other jobs out of the folder until checkpoint_unlock or the end of the process.
 * ERR_MACHINE: another job holds it, and is named. Where the file system has no locks *held is -1,
 * and *why_not says so. One process of a job calls it. */
status checkpoint_lock(const char *folder, int *held, const char **why_not, arena *a, error *err);
void checkpoint_unlock(int held);

/* Puts the complete folder `from` in the place of iter_N and names it in the text file. One that is
 * there must be ours. */
status checkpoint_publish(const char *from, const char *folder, int64_t iteration, error *err);

/* Removes the oldest of ours below `iteration`, so that `keep` are left with it. */
void checkpoint_prune(const char *folder, int64_t iteration, int keep);

#endif
