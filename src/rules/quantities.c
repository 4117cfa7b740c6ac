/* quantities.c - the table of {words}, and looking one up. */
#include "rules/quantities.h"

#include <inttypes.h>
#include <string.h>

typedef struct quantity {
    const char *name;
    int64_t (*number)(const setup *s);
    const char *(*words)(const setup *s, const char *argument, arena *a);
} quantity;

static const quantity table[] = {
#define NUMBER(name) {#name, q_##name, NULL},
#define WORDS(name)  {#name, NULL, q_##name},
#include "rules/quantities.def"
#undef NUMBER
#undef WORDS
};

static const quantity *find(const char *name)
{
    size_t n = strcspn(name, ":");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i].name) == n && strncmp(table[i].name, name, n) == 0) return &table[i];
    return NULL;
}

bool rule_quantity_known(const char *name)
{
    return find(name) != NULL;
}

const char *rule_quantity(const setup *s, const char *name, arena *a)
{
    const quantity *q = find(name);
    if (!q) return NULL;
    const char *colon = strchr(name, ':');
    if (q->words) return q->words(s, colon ? colon + 1 : "", a);
    int64_t n = q->number(s);
    return n < 0 ? NULL : arena_text(a, "%" PRId64, n);
}
