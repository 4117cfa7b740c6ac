/* lock.h - FOLDER/moefold.lock: one job at a time writes in a folder of checkpoints.
 *
 * Two things keep others out. The system's lock (of an open file description), which goes with the
 * process, however that ends, and over most network file systems holds between machines. And what
 * stands in the file: who holds it, and a number that a thread counts up every few seconds (a
 * beat). The second is for file systems without locks, and for those whose locks hold on one
 * machine only (Lustre's localflock, NFS's nolock), which nothing tells apart from the others.
 *
 *     the lock is held                                     refused, by the name in the file
 *     the file names nobody, or a process of this
 *         machine that is gone or, with locks, whatever    taken at once
 *     else: watched for a minute; it beats                 refused, by the name in the file
 *                                 it stays silent          taken
 *
 * A holder that was silent for so long (stopped, or cut off) may come back. So whoever holds the
 * folder reads the file before it moves anything there, and refuses once another name is in it.
 * docs/CHECKPOINTS.md has the argument. */
#ifndef TRAIN_CHECKPOINT_LOCK_H
#define TRAIN_CHECKPOINT_LOCK_H

#include "base/arena.h"
#include "base/status.h"
#include "train/checkpoint/owner.h"

typedef struct checkpoint_lock checkpoint_lock;

typedef struct lock_options {
    double beat, silence, settle;              /* seconds; 0: 5, 60, 1 */
    void (*say)(void *with, const char *text); /* what a person should know; NULL: nobody listens */
    void *with;
} lock_options;

/* ERR_MACHINE: another job holds the folder, and is named; or the file cannot be written. The
 * folder is there. Called by one process of a job; `o` may be NULL. */
status checkpoint_lock_take(checkpoint_lock **out, const char *folder, const lock_options *o,
                            error *err);

/* Is it still ours? A file that somebody has removed is made again. */
status checkpoint_lock_check(checkpoint_lock *l, error *err);

owner_held checkpoint_lock_held(const checkpoint_lock *l); /* NULL: HELD_ALONE */

/* NULL is fine. The file stays: removing it would let two jobs hold two files of one name. */
void checkpoint_lock_release(checkpoint_lock *l);

#endif
