/* guard.h - mapped files that others shorten, and disks that fail.
 *
 * Touching a mapped page that its file does not have any more, or that the disk cannot read, is
 * SIGBUS, which ends a program without a word. Plain reads would fail in order, but every rank
 * would keep its own copy of an .idx (20 bytes a sequence) that ranks of a machine now share. So
 * pages stay mapped, and a page that is gone is replaced by one of zeros: whoever reads goes on
 * with them, and asks afterwards whether what it read was there.
 *
 * A reader must therefore bear any numbers in what it reads until it has asked. */
#ifndef TRAIN_DATA_GUARD_H
#define TRAIN_DATA_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct guard guard;

/* From now until guard_release; the caller maps and unmaps. NULL: no memory, nothing guards. */
guard *guard_take(const void *bytes, size_t n);
void guard_release(guard *g); /* before it is unmapped; NULL is fine */

/* Was a page of it replaced? NULL: no. */
bool guard_lost(const guard *g);

#endif
