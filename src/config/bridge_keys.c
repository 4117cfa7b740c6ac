/* bridge_keys.c - looking up keys of Megatron-Bridge that have no effect here. */
#include "config/bridge_keys.h"

#include <string.h>

#define ALL  IDLE_ALL
#define NONE IDLE_NONE
static const idle_option rows[] = {
#define B(key, why, harmless) {key, ARITY_1, WHY_##why, harmless},
#include "config/bridge_keys.def"
#undef B
};
#undef ALL
#undef NONE

static bool is_or_is_below(const char *key, const char *row)
{
    size_t n = strlen(row);
    return strncmp(key, row, n) == 0 && (key[n] == 0 || key[n] == '.');
}

const idle_option *bridge_key_find(const char *key)
{
    static const idle_option variable = {"env_vars", ARITY_1, WHY_ENVIRONMENT, IDLE_ALL};
    if (text_starts(key, "env_vars.") && key[strlen("env_vars.")]) return &variable;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_or_is_below(key, rows[i].name)) return &rows[i];
    return NULL;
}

bool bridge_is_section(const char *word)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_or_is_below(rows[i].name, word) && strlen(rows[i].name) > strlen(word)) return true;
    return false;
}
