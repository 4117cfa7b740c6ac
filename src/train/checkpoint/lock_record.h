/* lock_record.h - what stands in moefold.lock. Private to lock.c and its tests.
 *
 *     process 4242 on node17, since 2026-11-15 19:00:00; machine 5f3a9c01 token 0123456789abcdef
 *     lock beat 12                     (one line, padded: a record is replaced by one write)
 *     not held */
#ifndef TRAIN_CHECKPOINT_LOCK_RECORD_H
#define TRAIN_CHECKPOINT_LOCK_RECORD_H

#include "base/unique.h"
#include "train/checkpoint/owner.h"

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
