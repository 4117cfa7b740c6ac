/* family.h - the kinds of model that are known, and what all members of a kind have in common.
 *
 * Private to src/config/models: presets and the config.json reader fill a family's common knobs from
 * here. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "config/recipe.h"

typedef enum family_id {
    QWEN3_MOE,
    DEEPSEEK_V3,
    QWEN3_NEXT,
    MIXTRAL,
    GPT_OSS,
    DEEPSEEK_V2,
    GLM4_MOE,
    QWEN2_MOE,
    OLMOE,
    MINIMAX_M2,
    LLAMA,
    QWEN2,
    QWEN3,
    MISTRAL,
    STARCODER2,
    GPT, /* no config.json is of it: sizes come from a preset or the user */
    FAMILY_COUNT
} family_id;

typedef struct family {
    const char *model_types;  /* as config.json spells it, with '|' */
    const char *architecture; /* how the names of its Python classes start */
    const char *settings;     /* see settings_fill */
} family;

extern const family families[FAMILY_COUNT];

/* Fills the knobs of "key=value key=value ..." that are still open, FROM_MODEL with this reason; a
 * key without a dot is one of model.*. ERR_INPUT only for text that no table should hold. */
status settings_fill(recipe *r, const char *settings, const char *why, error *err);

/* The family's settings, then those that hold for every family. */
status family_fill(recipe *r, family_id f, const char *why, error *err);

/* Fills one knob; the value is converted as the knob's type asks. */
status knob_fill(recipe *r, knob_id k, value v, const char *why, error *err);

/* moe_layer_freq for a model whose first layers are dense, over the layers that the recipe has. */
void dense_first_fill(recipe *r, int64_t n_dense, const char *why);

/* Fills a knob of the kind "every n-th layer or a list" with a list of 0 and 1, [n] flags. */
void pattern_fill(recipe *r, knob_id k, const unsigned char *flags, int64_t n, const char *why);

/* num_layers of the recipe, kept between 0 and the largest that is allowed. */
int64_t layers_in_recipe(const recipe *r);

/* In presets.c: the knobs of a preset; `name` is one that model_is_spelled accepts. */
status preset_fill(recipe *r, const char *name, error *err);

/* The family of a preset; FAMILY_COUNT: there is no such preset. */
family_id preset_family(const char *name);

/* In hf_family.c: what moefold lacks to build the model of this name on the hub, as far as it is a
 * known one; else NULL. */
const char *family_missing_by_name(const char *name);

#endif
