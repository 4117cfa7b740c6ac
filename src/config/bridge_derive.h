/* bridge_derive.h - what Megatron-Bridge makes of a configuration before it looks at it. */
#ifndef CONFIG_BRIDGE_DERIVE_H
#define CONFIG_BRIDGE_DERIVE_H

#include "config/recipe.h"

/* Two copies of a setting that differ become one, old words become new. */
void bridge_derive(recipe *r);

/* The key to write for a knob so that it counts: an alias that was given may be stronger. */
const char *bridge_key_that_counts(const recipe *r, knob_id k);

/* The layout of a pipeline as lists of words, [[embedding,decoder],[decoder,loss]], as the string
 * that says the same, "Et|tL". Any other value as it is. */
value bridge_layout(arena *a, value v);

#endif
