/* bridge_launch.h - Megatron-Bridge's launcher: run_recipe.py --recipe NAME key=value ... */
#ifndef CONFIG_BRIDGE_LAUNCH_H
#define CONFIG_BRIDGE_LAUNCH_H

#include "config/megatron_reader.h"

bool bridge_launches(const char *program);

/* The words behind the program: the recipe's name says which model, the rest are overrides. What
 * the recipe itself sets is not read, and a note says so. */
status bridge_launch(reader *rd, const shell_words *w, int from);

#endif
