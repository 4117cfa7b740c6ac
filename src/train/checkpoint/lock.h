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
#include "base/unique.h"
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

/* ---- what stands in moefold.lock: for lock.c and its tests alone
 *
 *     process 4242 on node17, since 2026-11-15 19:00:00; machine 5f3a9c01 token 0123456789abcdef
 *     lock beat 12                     (one line, padded: a record is replaced by one write)
 *     not held */

enum { RECORD_BYTES = 320 };

typedef struct lock_record {
    bool released;             /* its last job has ended: the file says that it is not held */
    bool named;                /* false: released, or not readable as a record */
    owner who;                 /* if named */
    char token[UNIQUE_TEXT];   /* if named */
    bool foreign;              /* something else stands there: the file is nobody's lock */
    char text[RECORD_BYTES];   /* as it stands there, without padding and line end */
    char people[RECORD_BYTES]; /* up to the ';' */
} lock_record;

/* One line of a record; `since` is local time. */
void record_print(char out[RECORD_BYTES], const owner *who, const char *token, const char *since,
                  int64_t beat);
void record_print_not_held(char out[RECORD_BYTES]);

/* 0, or errno. A file with a second name (EMLINK) or of another kind (EINVAL) is not ours to write,
 * and is left as it is. */
int record_read(lock_record *r, const char *path);
int record_write(const char *path, const char text[RECORD_BYTES]);
int record_not_ours(int fd);

#endif
