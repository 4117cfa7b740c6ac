/* mapped.h - files that are mapped into memory, and become shorter while they are.
 *
 * The kernel then ends the process by SIGBUS, without a word. Where the address lies in a mapping
 * that is registered here, the file is named first, and the exit code is ERR_MACHINE. */
#ifndef BASE_MAPPED_H
#define BASE_MAPPED_H

#include <stddef.h>

/* The path is copied. Not for several threads at a time. */
void mapped_add(const void *bytes, size_t n, const char *path);

/* Before it is unmapped. Unknown addresses are left alone. */
void mapped_remove(const void *bytes);

#endif
