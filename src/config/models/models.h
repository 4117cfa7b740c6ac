/* models.h - what moefold.model names: presets, and config.json as it is read and written. */
#ifndef CONFIG_MODELS_MODELS_H
#define CONFIG_MODELS_MODELS_H

#include "config/recipe.h"

/* Reads `moefold.model` (a preset; a config.json or a folder that has one, relative to the recipe's
 * folder, then to the working folder; or, where no such path exists, a preset's name on the hub or
 * in another case) and sets the knobs of the architecture that the user left open. Does
 * nothing when the knob is null. Fails with ERR_INPUT: unknown model (the nearest is named), a
 * field that is missing, contradictory or of the wrong type; then the recipe is as it was. A model
 * with its leading layers dense, or with a list of kinds of layers, follows the user's number of
 * layers. */
status model_fill(recipe *r, error *err);

/* What the model has for a knob of a resolved recipe that a person set otherwise; false: nothing
 * else. */
bool model_has_own(const recipe *resolved, knob_id k, arena *a, value *own);

/* The same from the text of a config.json; `name` stands for the file in messages. No weights are
 * looked at, so a prediction module is noted and never used. */
status model_parse_config(recipe *r, const char *name, const char *data, size_t n, error *err);

/* The config.json that `moefold.model` means; NULL: it is a preset, open, or not there. */
const char *model_config_path(const recipe *r);

/* ---- the way back: a config.json that says what a recipe is */

typedef struct config_source {
    const char *config; /* text of the file that the model came from; NULL: there is none */
    const char *model;  /* its name: a preset's tells the family; may be NULL */
    const char *dtype;  /* of the weights beside the file: "float32" */
} config_source;

typedef struct config_made {
    const char *text;
    const char *model_type;
    const char *changed; /* fields that differ from the source's, with ", "; "": none */
    bool anew;           /* nothing of the source could be kept but its token ids */
} config_made;

/* `r` is resolved. Every field that the family has is written from it; what the source has besides
 * is kept, and a source that says the same already is kept byte for byte. The family is the
 * source's, or the first whose files can say what the recipe is. What was written has been read
 * again and is the same model. ERR_INPUT: no family's file can say it; the knobs are named with
 * what the file would say instead. */
status model_write_config(const recipe *r, const config_source *from, config_made *out, error *err);

/* Names of the presets, for messages and `moefold show --presets`. */
const char *const *model_presets(int *n);
bool model_is_preset(const char *name);
const char *model_hub_names(const char *preset); /* with '|' */

/* The same in any case, or by a name on the hub: "deepseek-ai/DeepSeek-V3". */
bool model_is_spelled(const char *name);

/* May `moefold.model` have this value? A preset, a folder, a file whose name ends in .json, or,
 * where no such path exists, another spelling of a preset. */
bool model_is_named(const char *name);

/* How many presets begin so, where it is no preset's whole name; *first is one of them. One
 * alone is what a word of the command line means; in a file names are whole. */
int model_begun(const char *name, const char **first);

/* "the nearest preset is X", "presets that begin so are X or Y"; NULL: none is near. */
const char *model_meant(arena *a, const char *name);

#endif
