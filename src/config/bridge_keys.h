/* bridge_keys.h - keys of Megatron-Bridge that are not knobs here. */
#ifndef CONFIG_BRIDGE_KEYS_H
#define CONFIG_BRIDGE_KEYS_H

#include <stdbool.h>

#include "config/megatron_table.h"

/* This key, or one above it, that is read without effect; NULL: Megatron-Bridge has no such key.
 * Any environment variable (env_vars.NAME) is one. */
const idle_option *bridge_key_find(const char *key);

/* Do keys of Megatron-Bridge begin with this word and a dot? */
bool bridge_is_section(const char *word);

#endif
