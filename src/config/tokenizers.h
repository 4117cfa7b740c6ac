/* tokenizers.h - how many tokens well-known tokenizers have. */
#ifndef CONFIG_TOKENIZERS_H
#define CONFIG_TOKENIZERS_H

#include <stdint.h>

/* The size that Megatron-LM would read off the tokenizer, before padding. `type` is the value of
 * --tokenizer-type, `model` that of --tokenizer-model (a name on the hub or the path of a file);
 * both may be NULL. 0: not known here. */
int64_t tokenizer_size(const char *type, const char *model);

#endif
