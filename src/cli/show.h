/* show.h - the parts of `moefold show` that have files of their own. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "cli/cli.h"
#include "config/export.h"

/* Writes the recipe as megatron-lm, megatron-bridge, recipe or config.json. What the other system
 * cannot be told, or would stop at, is ERR_RULE: nothing is written then, and the message gives the
 * nearest recipe that can be written, with its price. `given` is the recipe as it was before
 * `s`. */
status show_export(const recipe *given, const setup *s, const char *system, arena *a, error *err);

typedef struct export_words {
    const char *command;         /* which says on the standard error what cannot be written */
    knob_system system;          /* MOEFOLD: a recipe file */
    const char *launcher, *more; /* of export_megatron_lm_by; "": none */
} export_words;

/* The same into `out`, which stays as it was on an error. */
status cli_export(textbuf *out, const recipe *given, const setup *s, const export_words *w,
                  error *err);

#endif
