/* overrides.c - sets of overrides. */
#include "rules/overrides.h"

#include <string.h>

/* The place of the assignment's key; n: it is not there. */
static int place_of(const overrides *set, const char *assignment)
{
    size_t key = strcspn(assignment, "=");
    int i = 0;
    while (i < set->n &&
           (strcspn(set->list[i], "=") != key || strncmp(set->list[i], assignment, key) != 0))
        i++;
    return i;
}

bool overrides_put(overrides *set, const char *assignment, arena *a)
{
    int i = place_of(set, assignment);
    if (i == OVERRIDES_MAX) return false;
    set->list[i] = arena_copy(a, assignment, strlen(assignment));
    if (i == set->n) set->list[++set->n] = NULL;
    return true;
}

bool overrides_put_all(overrides *set, const char *const *assignments, arena *a)
{
    for (; *assignments; assignments++)
        if (!overrides_put(set, *assignments, a)) return false;
    return true;
}

bool overrides_add(overrides *set, const char *const *assignments, arena *a)
{
    for (; *assignments; assignments++) {
        int i = place_of(set, *assignments);
        bool there = i < set->n;
        if (there && strcmp(set->list[i], *assignments) != 0) return false;
        if (!there && !overrides_put(set, *assignments, a)) return false;
    }
    return true;
}

void overrides_take_out(overrides *set, int i)
{
    memmove(&set->list[i], &set->list[i + 1], sizeof *set->list * (size_t)(set->n - i));
    set->n--;
}

void overrides_thin(overrides *set, bool (*enough)(void *with, const overrides *set), void *with)
{
    for (bool dropped = true; dropped;) { /* what is dropped late may free what was kept before */
        dropped = false;
        for (int i = set->n - 1; i >= 0; i--) {
            overrides less = *set;
            overrides_take_out(&less, i);
            if (!enough(with, &less)) continue;
            *set = less;
            dropped = true;
        }
    }
}
