/* diff_profiles.h - `moefold diff` of what other programs measured: two profiles, or two logs. */
#ifndef CLI_DIFF_PROFILES_H
#define CLI_DIFF_PROFILES_H

#include "cli/diff.h"

/* Is it, by its name or its first bytes, something that `moefold profile` reads? */
bool diff_is_profile(const char *word);

/* Compares two of them, and prints. `code` is set as the command's exit code. ERR_INPUT: one cannot
 * be read. */
typedef struct diff_files {
    const char *words[2];
    double tolerance;
    bool json;
} diff_files;
status diff_profiles(const diff_files *f, int *code, arena *a, error *err);

#endif
