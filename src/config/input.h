/* input.h - a file that stands for a recipe: ours, or one of Megatron-LM's. */
#ifndef CONFIG_INPUT_H
#define CONFIG_INPUT_H

#include "config/megatron.h"

/* Is this what Megatron-LM takes (megatron.h) rather than a recipe of ours? It is where a word
 * outside of comments is a flag, `--name`. */
bool input_is_megatron(const char *data, size_t n);

/* Reads a recipe's YAML or an input of Megatron-LM; its content says which it is. `how` (may be
 * NULL) is for the latter. */
status input_read(recipe *r, const char *path, const megatron_options *how, error *err);

#endif
