/* object.h - shared objects that lie beside the program and are opened when they are needed.
 *
 * An object is in the folder of the program, in ../lib/moefold where it was installed, or in
 * $MOEFOLD_BACKENDS; for a test (tests/FOLDER) two folders up. Other folders above are not looked
 * into: whoever may write there is not whoever installed us. */
#ifndef BASE_OBJECT_H
#define BASE_OBJECT_H

#include <stdbool.h>

#include "base/status.h"

typedef struct object_name {
    const char *what;   /* for messages: "MPI" */
    const char *file;   /* "moefold-mpi.so" */
    const char *symbol; /* the function that is wanted */
    const char *repair; /* what to install, where the file is missing or does not load */
    bool global;        /* parts that it loads look for its symbols among all */
} object_name;

/* Is there a file of that name to open? */
bool object_is_there(const object_name *n);

/* The address of the symbol. An object that was opened stays open. ERR_MACHINE: it is missing, does
 * not load or has no such symbol. */
status object_open(const object_name *n, void **symbol, error *err);

#endif
