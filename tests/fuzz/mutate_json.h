/* mutate_json.h - changes that leave JSON readable, for readers whose errors lie behind the parser.
 *
 * Three of four times one value somewhere in the text becomes another, goes, or comes twice; else
 * bytes change at random. `skip` bytes at the start are kept apart. */
#ifndef TESTS_FUZZ_MUTATE_JSON_H
#define TESTS_FUZZ_MUTATE_JSON_H

#include <jansson.h>
#include <string.h>

#include "fuzz/mutate.h"

/* Numbers at the edges, words, and things of another type. */
static inline json_t *mutate_json_value(unsigned *seed)
{
    static const double reals[] = {0, -1, 1e-300, 1e300, -1e300, 0.5, 1e9, 4294967296.0};
    static const char *const words[] = {"",  "compute", "wait",     "X",  "M",  "s",
                                        "f", "run",     "finished", "\n", "%s", "moefold"};
    switch (mutate_random(seed, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_array();
    case 2:
        return json_object();
    case 3:
        return json_string(MUTATE_PICK(seed, words));
    case 4:
        return json_real(MUTATE_PICK(seed, reals));
    case 5:
        return json_boolean(mutate_random(seed, 2));
    default:
        return json_integer((json_int_t)MUTATE_PICK(seed, mutate_sizes));
    }
}

/* A place: a member of an object or an entry of a list, chosen level by level. */
static inline void mutate_json_at(json_t *o, unsigned *seed, int depth)
{
    size_t n = json_is_object(o) ? json_object_size(o) : json_array_size(o), k;
    if (!n) return;
    size_t at = mutate_random(seed, (unsigned)n);
    void *it = json_is_object(o) ? json_object_iter(o) : NULL;
    for (k = 0; it && k < at; k++) it = json_object_iter_next(o, it);
    json_t *v = it ? json_object_iter_value(it) : json_array_get(o, at);
    bool deeper = (json_is_object(v) && json_object_size(v)) || json_array_size(v);
    if (deeper && depth < 8 && mutate_random(seed, 5)) {
        mutate_json_at(v, seed, depth + 1);
        return;
    }
    char key[128];
    if (it) snprintf(key, sizeof key, "%s", json_object_iter_key(it));
    unsigned how = mutate_random(seed, 4);
    if (how == 0) {
        if (it) json_object_del(o, key);
        if (!it) json_array_remove(o, at);
    } else if (how == 1 && !it) {
        json_t *twice = json_deep_copy(v);
        json_array_insert_new(o, mutate_random(seed, (unsigned)n), twice);
    } else if (it) {
        json_object_set_new(o, key, mutate_json_value(seed));
    } else {
        json_array_set_new(o, at, mutate_json_value(seed));
    }
}

static inline size_t mutate_json(uint8_t *data, size_t n, size_t max, size_t skip, unsigned seed)
{
    json_t *o = n > skip && mutate_random(&seed, 4)
                    ? json_loadb((const char *)data + skip, n - skip, 0, NULL)
                    : NULL;
    if (!o) return LLVMFuzzerMutate(data, n, max);
    for (unsigned times = 1 + mutate_random(&seed, 3); times; times--) mutate_json_at(o, &seed, 0);
    char *text = json_dumps(o, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    bool fits = size > 0 && skip + size <= max;
    if (fits) memcpy(data + skip, text, size);
    free(text);
    json_decref(o);
    return fits ? skip + size : LLVMFuzzerMutate(data, n, max);
}

#endif
