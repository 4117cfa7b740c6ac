/* events.c - names are kept once: a trace has a million kernels of some hundred names. */
#include <string.h>

#include "base/text.h"

#include "measure/profile/readers.h"

enum { NAME_MAX_BYTES = 4096 };

static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static int64_t slot_of(const profile_events *e, const char *name)
{
    int64_t at = (int64_t)(hash(name) & (uint32_t)(e->n_slots - 1));
    while (e->slots[at] && strcmp(e->names[e->slots[at] - 1], name) != 0)
        at = (at + 1) & (e->n_slots - 1);
    return at;
}

static void more_slots(profile_events *e)
{
    e->n_slots = e->n_slots ? e->n_slots * 4 : 1024;
    e->slots = ARENA_ARRAY(e->a, int32_t, e->n_slots);
    for (int64_t i = 0; i < e->n_names; i++) e->slots[slot_of(e, e->names[i])] = (int32_t)(i + 1);
}

int profile_intern(profile_events *e, const char *name)
{
    char shown[NAME_MAX_BYTES];
    if (!text_is_plain(name)) { /* whoever made the file chose it */
        text_escape(shown, sizeof shown, name, false);
        name = shown;
    }
    if (e->n_names * 2 >= e->n_slots) more_slots(e);
    int64_t at = slot_of(e, name);
    if (!e->slots[at]) {
        ARENA_GROW(e->a, e->names, e->n_names, e->names_room);
        e->names[e->n_names++] = arena_copy(e->a, name, strlen(name));
        e->slots[at] = (int32_t)e->n_names;
    }
    return e->slots[at] - 1;
}

void events_kernel(profile_events *e, profile_kernel k)
{
    ARENA_GROW(e->a, e->kernels, e->n_kernels, e->kernels_room);
    e->kernels[e->n_kernels++] = k;
}

void events_call(profile_events *e, profile_call c)
{
    ARENA_GROW(e->a, e->calls, e->n_calls, e->calls_room);
    e->calls[e->n_calls++] = c;
}

void events_range(profile_events *e, profile_range r)
{
    ARENA_GROW(e->a, e->ranges, e->n_ranges, e->ranges_room);
    e->ranges[e->n_ranges++] = r;
}
