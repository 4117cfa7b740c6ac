/* overrides.h - a set of overrides, "key=value", as repairs are made of: one a key. */
#ifndef RULES_OVERRIDES_H
#define RULES_OVERRIDES_H

#include "base/arena.h"

#include <stdbool.h>

enum { OVERRIDES_MAX = 256 };

typedef struct overrides {
    const char *list[OVERRIDES_MAX + 1]; /* ends with NULL */
    int n;
} overrides;

/* A later one of a key replaces an earlier one. The text is copied. False: there is no room. */
bool overrides_put(overrides *set, const char *assignment, arena *a);
bool overrides_put_all(overrides *set, const char *const *assignments, arena *a);

/* Those that it does not have yet. False: it has another value of one, or there is no room. */
bool overrides_add(overrides *set, const char *const *assignments, arena *a);

void overrides_take_out(overrides *set, int i);

/* Leaves out what can be left out, the last first, as long as `enough` says so of what stays. */
void overrides_thin(overrides *set, bool (*enough)(void *with, const overrides *set), void *with);

#endif
