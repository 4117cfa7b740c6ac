/* mutate.h - changes that keep an input readable, for targets whose errors lie behind the parser.
 *
 * Bytes changed at random rarely leave a text that can be read. So two of three times a recipe gets
 * a line "key: value" for a knob of the table instead, with a value that its type allows or nearly
 * so; a line for the same knob is taken out first. */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <string.h>

#include "fuzz/fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed);

static inline unsigned mutate_random(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

#define MUTATE_PICK(seed, list) (list)[mutate_random(seed, sizeof(list) / sizeof *(list))]

/* Sizes at the edges: of types, of tables, of what divides. */
static const int64_t mutate_sizes[] = {
    0,
    1,
    1,
    2,
    2,
    3,
    4,
    4,
    5,
    6,
    7,
    8,
    8,
    16,
    32,
    61,
    64,
    128,
    1000,
    1024,
    4096,
    65535,
    65536,
    131072,
    -1,
    INT32_MAX,
    (int64_t)1 << 32,
    (int64_t)1 << 53,
    INT64_MAX,
    INT64_MIN,
};

static inline const char *mutate_word(arena *a, const char *list, unsigned *seed)
{
    int n = 1;
    for (const char *p = list; (p = strchr(p, '|')); p++) n++;
    const char *word = list;
    for (unsigned skip = mutate_random(seed, (unsigned)n); skip; skip--)
        word = strchr(word, '|') + 1;
    return arena_copy(a, word, strcspn(word, "|"));
}

static inline const char *mutate_value(arena *a, const knob *k, unsigned *seed)
{
    static const char *const odd[] = {"null", "[]", "word", "true", "1", "[1,2]", "1e308", "''"};
    static const char *const reals[] = {"0", "0.5", "1", "1.5", "-1", "1e-9", "1e18", "1e308"};
    static const char *const texts[] = {"tiny",    "mixtral-8x7b",  "gpt-oss-20b",  "deepseek-v3",
                                        "Ett|ttL", "Et|(tt|)*30mL", "([0]*1+[1]*3)"};
    if (mutate_random(seed, 16) == 0) return MUTATE_PICK(seed, odd);
    if (k->form == LIST && k->allowed)
        return arena_text(a, "[%s]", mutate_word(a, k->allowed, seed));
    switch (k->kind) {
    case BOOL:
        return mutate_random(seed, 2) ? "true" : "false";
    case INT:
        return arena_text(a, "%lld", (long long)MUTATE_PICK(seed, mutate_sizes));
    case FLOAT:
        return MUTATE_PICK(seed, reals);
    case ENUM:
        return k->allowed ? mutate_word(a, k->allowed, seed) : "word";
    case TEXT:
        break;
    }
    return MUTATE_PICK(seed, texts);
}

static inline size_t mutate_drop_line(char *text, size_t n, const char *start)
{
    size_t length = strlen(start);
    for (size_t i = 0; i + length <= n;) {
        const char *end = memchr(text + i, '\n', n - i);
        size_t next = end ? (size_t)(end - text) + 1 : n;
        if (memcmp(text + i, start, length) != 0) {
            i = next;
            continue;
        }
        memmove(text + i, text + next, n - next);
        n -= next - i;
    }
    return n;
}

static inline size_t mutate_recipe(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    if (mutate_random(&seed, 3) == 0) return LLVMFuzzerMutate(data, n, max);
    arena *a = arena_create();
    const knob *k = &knobs[mutate_random(&seed, K_COUNT)];
    const char *line = arena_text(a, "%s: %s\n", k->key, mutate_value(a, k, &seed));
    size_t length = strlen(line);
    n = mutate_drop_line((char *)data, n, arena_text(a, "%s:", k->key));
    if (n + length + 1 <= max) {
        if (n && data[n - 1] != '\n') data[n++] = '\n';
        memcpy(data + n, line, length);
        n += length;
    }
    arena_destroy(a);
    return n;
}

#endif
