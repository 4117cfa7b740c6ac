/* family.h - the kinds of model that are known, and what all members of a kind have in common.
 *
 * Private to src/config/models: presets and the config.json reader fill a family's common knobs
 * from here. */
#ifndef CONFIG_MODELS_FAMILY_H
#define CONFIG_MODELS_FAMILY_H

#include "config/recipe.h"

typedef enum family_id {
#define FAMILY(id, types, class, traits, settings) id,
#include "config/models/families.def"
#undef FAMILY
    FAMILY_COUNT
} family_id;

/* What the config.json of a family has, or what transformers does with it: the traits of
 * families.def. */
typedef enum family_trait {
    LATENT = FAMILY_COUNT, /* latent attention */
    GROUPED_QUERIES,       /* grouped queries */
    ROUTED_EXPERTS,        /* routed experts */
    SHARED_EXPERTS,        /* a number of shared experts, leading dense layers */
    BIASED_SCORES,         /* sigmoid scores with a correction bias, groups */
    SPARSE_STEP,           /* decoder_sparse_step says which layers are dense */
    TWO_SOFTMAXES,         /* norm_topk_prob chooses between two softmaxes */
    MODULE_COUNT,          /* transformers assumes a prediction module */
    ONE_WIDTH,             /* intermediate_size is that of the experts */
    TWO_WIDTHS,            /* moe_intermediate_size is */
    WHOLE_BIAS,            /* attention_bias: also of the output projection */
    HEAD_NEEDED,           /* head_dim must be there */
    HEAD_OPEN,             /* hidden size / heads where it is not */
    RMS_NORMS,             /* rms_norm_eps */
    NUM_EXPERTS,           /* num_experts */
    LOCAL_EXPERTS,         /* num_local_experts */
    GROUPS_NEEDED,         /* num_key_value_heads must be there */
    GROUPS_OPEN,           /* as many as heads where it is not */
    SHARED_WIDTH,          /* shared_expert_intermediate_size */
    AUX_COEF,              /* router_aux_loss_coef */
    JITTER,                /* router_jitter_noise */
    UPPER_WINDOW,          /* only layers from max_window_layers on have the window */
    CHOSEN_WINDOW,         /* layer_types says which layers have the window; else all have it */
    WINDOW_SWITCH,         /* use_sliding_window */
    ALL_FULL,              /* every layer has full attention */
    ROTARY_PART,           /* a part of each head is rotated; others ignore the fraction */
    ROTARY_PART_NEEDED,    /* partial_rotary_factor must be there */
    TRAIT_END
} family_trait;

/* The bit of a family, or of a trait. */
#define IN(x)      (UINT64_C(1) << (x))
#define ANY_FAMILY (~UINT64_C(0))

_Static_assert(TRAIT_END <= 64, "families and traits are bits of a word");

typedef struct family {
    const char *model_types;  /* as config.json spells it, with '|' */
    const char *architecture; /* how the names of its Python classes start */
    uint64_t in;              /* its own bit, and its traits' */
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
