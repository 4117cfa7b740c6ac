/* hf_config.h - the parts of the config.json reader and of its writer; for this folder only.
 *
 * I1  What reads a field and what writes it stand side by side: a row of hf_fields.c is both, every
 *     other part is a pair of functions in one file (config_parts).
 * I2  What is written is read again before anybody gets it (hf_write.c), so the two cannot drift
 *     apart unseen.
 *
 * A field's message has one form: FILE: FIELD is VALUE; what is needed or what to do. */
#ifndef CONFIG_MODELS_HF_CONFIG_H
#define CONFIG_MODELS_HF_CONFIG_H

#include "base/json.h"
#include "config/models/family.h"
#include "model/model.h"

typedef struct config {
    recipe *r;
    const char *name;   /* of the file, for messages and reasons */
    const char *folder; /* with a final slash; NULL: only the text is there */
    const json_t *root;
    family_id family;
    error *err;
} config;

/* ---- what of a recipe a config.json says (hf_facts.c) */

typedef struct facts_side {
    const recipe *r; /* resolved */
    const model *m;
} facts_side;

/* Gives back every knob that a config.json can say, so that reading one sets it. */
void facts_reopen(recipe *r);

/* What a knob comes to: 1 where null means 1, the biases that are there whichever knob asks for
 * them, a list of flags for kinds of layers. */
value facts_value(facts_side a, knob_id k);

/* The knobs by which the second computes something else with the same weights, up to `most`;
 * returns how many there are. */
int facts_differ(facts_side a, facts_side b, knob_id *out, int most);

/* The value of `a` for a message: as the knob has it where the other's has another, else as it
 * counts. */
const char *facts_text(facts_side a, facts_side b, knob_id k);

/* ---- writing */

/* A config.json that is being written. */
typedef struct draft {
    facts_side of;
    family_id family;
    json_t *root; /* the file that the model came from, or an empty one */
} draft;

static inline bool draft_in(const draft *d, uint64_t mask)
{
    return (families[d->family].in & mask) != 0;
}

static inline bool config_in(const config *c, uint64_t mask)
{
    return (families[c->family].in & mask) != 0;
}

/* A config.json, or a file like it -> knobs. Weights are looked for beside a config.json only. */
status config_fill(recipe *r, const char *path, error *err);

/* The same from JSON that was read; weights are looked for in `folder`, if that is not NULL. On
 * failure the recipe stays as it was. */
status config_fill_json(recipe *r, const char *name, const char *folder, const json_t *root,
                        error *err);

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

/* ---- writing fields */

/* Takes over `v` and sets every one of the alternatives "a|b|c" that the file has, else the
 * first. */
void draft_put(const draft *d, const char *names, json_t *v);

/* Sets those that are there, and adds none. */
void draft_correct(const draft *d, const char *names, json_t *v);

bool draft_has(const draft *d, const char *name);

/* A number of a knob as the kind of the knob: Python minds whether 1 is 1.0. */
json_t *draft_number(knob_id k, value v);

/* ---- the parts: the family first, the others in this order after the table of plain fields */

status config_family(config *c);       /* hf_family.c: which family the file is of */
status config_fields(const config *c); /* hf_fields.c: fields that are one knob, or one value */
status config_check(const config *c);  /* hf_check.c: fields that contradict each other */
status config_rope(const config *c);   /* hf_rope.c: both spellings of the rotary embedding */
status config_layers(const config *c); /* hf_layers.c: which layers are of which kind */
status config_mtp(const config *c);    /* hf_mtp.c: the prediction module */
status config_eos(const config *c);    /* hf_eos.c: the token that ends a document */

void draft_fields(const draft *d);
void draft_fixed(const draft *d); /* fields that admit one value: after all others */
void draft_rope(const draft *d);
void draft_layers(const draft *d);
void draft_mtp(const draft *d);
void draft_eos(const draft *d);

/* Every part, in order. */
typedef struct config_part {
    status (*read)(const config *c);
    void (*write)(const draft *d);
} config_part;
extern const config_part config_parts[];
extern const int n_config_parts;

/* How many modules a file names; 0: none, or no such field. */
int64_t config_modules_named(const json_t *root);

#endif
