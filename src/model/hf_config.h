/* hf_config.h - the parts of the config.json reader. Private to src/model.
 *
 * A field's message has one form: FILE: FIELD is VALUE; what is needed or what to do. */
#ifndef MODEL_HF_CONFIG_H
#define MODEL_HF_CONFIG_H

#include "base/json.h"
#include "model/family.h"

typedef struct config {
    recipe *r;
    const char *name;   /* of the file, for messages and reasons */
    const char *folder; /* with a final slash; NULL: only the text is there */
    const json_t *root;
    family_id family;
    error *err;
} config;

enum {
    IN_QWEN3_MOE = 1 << QWEN3_MOE,
    IN_DEEPSEEK_V3 = 1 << DEEPSEEK_V3,
    IN_QWEN3_NEXT = 1 << QWEN3_NEXT,
    IN_MIXTRAL = 1 << MIXTRAL,
    IN_GPT_OSS = 1 << GPT_OSS,
    IN_DEEPSEEK_V2 = 1 << DEEPSEEK_V2,
    IN_GLM4_MOE = 1 << GLM4_MOE,
    IN_QWEN2_MOE = 1 << QWEN2_MOE,
    IN_OLMOE = 1 << OLMOE,
    IN_MINIMAX_M2 = 1 << MINIMAX_M2,
    IN_LLAMA = 1 << LLAMA,
    IN_QWEN2 = 1 << QWEN2,
    IN_QWEN3 = 1 << QWEN3,
    IN_MISTRAL = 1 << MISTRAL,
    IN_STARCODER2 = 1 << STARCODER2,
    IN_ALL = (1 << FAMILY_COUNT) - 1,
    IN_LATENT = IN_DEEPSEEK_V3 | IN_DEEPSEEK_V2, /* latent attention */
    IN_GQA = IN_ALL & ~IN_LATENT,
    IN_DENSE = IN_LLAMA | IN_QWEN2 | IN_QWEN3 | IN_MISTRAL | IN_STARCODER2,
    IN_MOE = IN_ALL & ~IN_DENSE,
    IN_SHARED = IN_LATENT | IN_GLM4_MOE,      /* a number of shared experts, leading dense layers */
    IN_BIASED = IN_DEEPSEEK_V3 | IN_GLM4_MOE, /* sigmoid scores with a correction bias, groups */
    IN_SPARSE_STEP = IN_QWEN3_MOE | IN_QWEN3_NEXT | IN_QWEN2_MOE,
    IN_SOFTMAX_NORM = IN_SPARSE_STEP | IN_OLMOE, /* norm_topk_prob chooses between two softmaxes */
};

static inline bool config_in(const config *c, unsigned mask)
{
    return (mask >> c->family & 1) != 0;
}

/* A config.json, or a file like it -> knobs. Weights are looked for beside a config.json only. */
status config_fill(recipe *r, const char *path, error *err);

/* ---- reading fields */

/* Each family has its own word for these. */
#define N_EXPERTS "num_experts|n_routed_experts|num_local_experts"
#define TOP_K     "num_experts_per_tok|experts_per_token"

/* The first name of "a|b|c" that is there and not null; *field says which. NULL: none. */
const json_t *config_find(const config *c, const char *names, const char **field);

/* A field that the table has read already, as a whole number; 0 when absent. */
int64_t config_int(const config *c, const char *names);

status config_missing(const config *c, const char *field, const char *what);
status config_wrong(const config *c, const char *field, const json_t *v, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Text of a JSON value for a message, cut short. */
const char *config_text(const config *c, const json_t *v);

/* Checks type and range of the knob and fills it, naming the field in messages and as reason. */
status config_knob(const config *c, const char *field, const json_t *v, knob_id k);

/* DeepSeek-V2 with topk_method greedy: its groups mean nothing. */
bool config_ignores_groups(const config *c);

/* Fills a knob with a value of ours, because of `field`. */
status config_set(const config *c, const char *field, knob_id k, value v);

/* The id of eos_token in the tokenizer's files of this folder (with a final slash); -1: none. */
int64_t config_tokenizer_eos(const recipe *r, const char *folder);

/* ---- the parts: the family first, the others in this order after the table of plain fields */

status config_family(config *c);       /* hf_family.c: which family the file is of */
status config_fields(const config *c); /* hf_fields.c: fields that are one knob, or one value */
status config_check(const config *c);  /* hf_check.c: fields that contradict each other */
status config_rope(const config *c);   /* hf_rope.c: both spellings of the rotary embedding */
status config_layers(const config *c); /* hf_layers.c: which layers are of which kind */
status config_mtp(const config *c);    /* hf_mtp.c: the prediction module */
status config_eos(const config *c);    /* hf_eos.c: the token that ends a document */

#endif
