/* save_config.h - the config.json that goes with weights which we write. Private to hf_save. */
#ifndef RUN_HF_SAVE_CONFIG_H
#define RUN_HF_SAVE_CONFIG_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

/* The text with its dtype made right and without a quantization_config: transformers would take our
 * plain weights for packed ones. Byte for byte the same where both are right already. */
status hf_config_adapt(arena *a, const char *config, bool bf16, const char **out, error *err);

#endif
