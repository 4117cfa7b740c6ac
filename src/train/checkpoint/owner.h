/* owner.h - whose a temporary name is, and whether that process is gone. Private to the checkpoint
 * files.
 *
 *     iter_0000010.tmp-node17-4242-5f3a9c01-lock-0123456789abcdef
 *                      host   process       held      random
 *                                  machine
 *
 * The machine is eight digits of a checksum of the kernel's boot and of the namespace that process
 * numbers are counted in: a host that was started again, and another container on the same host,
 * count processes anew, so their numbers mean nothing here. */
#ifndef TRAIN_CHECKPOINT_OWNER_H
#define TRAIN_CHECKPOINT_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* How the owner held the folder in which the name stands. */
typedef enum owner_held {
    HELD_ALONE, /* not at all: a name that only its maker looks for */
    HELD_FILE,  /* by what stands in moefold.lock: the file system has no locks */
    HELD_LOCK,  /* by the system's lock of moefold.lock */
    HELD_COUNT
} owner_held;

enum { OWNER_HOST = 65, OWNER_MACHINE = 9 };

typedef struct owner {
    char host[OWNER_HOST]; /* letters, digits and "._-"; others are '_' */
    char machine[OWNER_MACHINE];
    int64_t pid;
    owner_held held;
} owner;

/* This process. */
owner owner_self(owner_held held);

/* Do process numbers of the two mean the same? False where that is not known. */
bool owner_same_machine(const owner *a, const owner *b);

/* Is the process certainly gone? Never true of another machine's. */
bool owner_is_gone(const owner *o);

/* "PATH.KIND-TAIL" with a new random token, for what is on its way. */
const char *owner_beside(arena *a, const char *path, const char *kind, owner_held held);

/* Reads a tail ("node17-4242-5f3a9c01-lock-0123456789abcdef"). */
bool owner_parse(owner *o, const char *tail);

/* "lock", "file", "alone", and back. */
extern const char *const owner_held_words[HELD_COUNT];

#endif
