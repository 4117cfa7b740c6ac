/* appended.h - overrides as words for the command line that made a recipe. */
#ifndef CONFIG_APPENDED_H
#define CONFIG_APPENDED_H

#include "config/recipe.h"

/* Overrides as words that can be appended to the command that made `r`: what --gpus, --seq or
 * --gbs said must be said by them again. */
const char *const *recipe_appended(const recipe *r, const char *const *overrides, arena *a);

/* A word as a shell would take it back: quoted unless it has only letters that no shell minds. */
const char *word_quoted(arena *a, const char *word);

/* Several, with blanks between. */
const char *words_text(const char *const *words, arena *a);

#endif
