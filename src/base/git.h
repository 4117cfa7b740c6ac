/* git.h - a file as it was at another commit. */
#ifndef BASE_GIT_H
#define BASE_GIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

/* "main:recipes/a.yaml": a revision, a colon and a path, and no file of that name. */
bool git_is_revision(const char *word);

/* What `git show WORD` prints, at most `limit` bytes; ends with a 0 that is not counted. ERR_INPUT:
 * git does not know it, in git's own words; ERR_MACHINE: git cannot be run. */
status git_show(arena *a, const char *word, size_t limit, char **data, size_t *n, error *err);

/* The path behind the colon. */
const char *git_path(const char *word);

#endif
