/* bridge_keys.c - looking up keys of Megatron-Bridge that have no effect here. */
#include "recipe/bridge_keys.h"

#include <string.h>

#include "recipe/megatron_table.h"

static const struct {
    const char *key;
    flag_why why;
} rows[] = {
#define B(key, why) {key, WHY_##why},
#include "recipe/bridge_keys.def"
#undef B
};

static bool is_or_is_below(const char *key, const char *row)
{
    size_t n = strlen(row);
    return strncmp(key, row, n) == 0 && (key[n] == 0 || key[n] == '.');
}

const char *bridge_key_why(const char *key)
{
    if (text_starts(key, "env_vars.") && key[strlen("env_vars.")])
        return "an environment variable, no effect here";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_or_is_below(key, rows[i].key)) return flag_why_text(rows[i].why);
    return NULL;
}

bool bridge_is_section(const char *word)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_or_is_below(rows[i].key, word) && strlen(rows[i].key) > strlen(word)) return true;
    return false;
}
