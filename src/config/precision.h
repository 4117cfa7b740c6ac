/* precision.h - what the name of a precision recipe (mixed_precision=...) sets. */
#ifndef CONFIG_PRECISION_H
#define CONFIG_PRECISION_H

#include "config/recipe.h"

/* The value that the recipe `name` gives to knob k. False: it has no say in that knob. */
bool precision_implies(const char *name, knob_id k, value *out);

/* A knob that a person set otherwise than mixed_precision has it, and what that is; -1: none. */
int precision_contradicted(const recipe *r, value *has);

/* "PRECISION=name", and the knobs that a person set so that they must give way to it, by their
 * short names, as the repairs of rules write them. */
const char *precision_overrides(const recipe *r, const char *name, arena *a);

/* Resolves the name (from parts such as --bf16 --fp8-format where only those were given) and the
 * knobs that it implies. */
void precision_derive(recipe *r);

#endif
