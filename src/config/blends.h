/* blends.h - data files as Megatron-Bridge names them, and as the knobs have them. */
#ifndef CONFIG_BLENDS_H
#define CONFIG_BLENDS_H

#include "config/recipe.h"

#define BLEND_PER_SPLIT "dataset.blend_per_split"

/* [[a, b], [0.3, 0.7]] as the words 0.3 a 0.7 b, and [[a, b], null] as a b; other values stay. */
value blend_words(arena *a, value v);

/* dataset.blend_per_split: three knobs. */
status blends_set(recipe *r, value v, const char *where, error *err);

/* The other way; null for no words. */
value blend_pair(arena *a, value words);

#endif
