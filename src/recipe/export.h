/* export.h - a recipe in the words of other systems, and as a recipe file.
 *
 * The first two take a resolved recipe: every knob has its value, derived ones included, so
 * that the result means the same there. What the other system cannot be told stands in comments
 * at the end. */
#ifndef RECIPE_EXPORT_H
#define RECIPE_EXPORT_H

#include "recipe/recipe.h"

/* Flags of Megatron-LM, one a line with a backslash before each line end: those whose value
 * differs from that system's default. megatron_parse reads them back. */
void export_megatron_lm(const recipe *resolved, textbuf *out);

/* Overrides of Megatron-Bridge, one a line, quoted for a shell where that is needed: those
 * whose value differs from our default or from that system's. recipe_override reads them back
 * (without the shell's quotes). A knob that has copies in several sections there is written to
 * each that counts. */
void export_bridge(const recipe *resolved, textbuf *out);

/* A file for recipe_read_yaml: what the user and the model set, and cluster.gpu. What was derived
 * stands in comments with its reason: reading the file derives it again, and it is no choice of
 * the user's, which rules would hold against him. With `all`, everything is written as a setting:
 * the record of a run. */
void export_yaml(const recipe *r, bool all, textbuf *out);

#endif
