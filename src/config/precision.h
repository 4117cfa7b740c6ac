/* precision.h - what the name of a precision recipe (mixed_precision=...) sets. */
#ifndef CONFIG_PRECISION_H
#define CONFIG_PRECISION_H

#include "config/recipe.h"

/* The value that the recipe `name` gives to knob k. False: it has no say in that knob. */
bool precision_implies(const char *name, knob_id k, value *out);

/* Resolves the name (from parts such as --bf16 --fp8-format where only those were given) and the
 * knobs that it implies. */
void precision_derive(recipe *r);

#endif
