/* bridge_keys.h - keys of Megatron-Bridge that are not knobs here. */
#ifndef RECIPE_BRIDGE_KEYS_H
#define RECIPE_BRIDGE_KEYS_H

#include <stdbool.h>

/* Why this key, or one above it, is read without effect; NULL: Megatron-Bridge has no such key. Any
 * environment variable (env_vars.NAME) is one. */
const char *bridge_key_why(const char *key);

/* Do keys of Megatron-Bridge begin with this word and a dot? */
bool bridge_is_section(const char *word);

#endif
