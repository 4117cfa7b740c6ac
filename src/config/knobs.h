/* knobs.h - the knob table: one row a knob, in knobs.def.
 *
 * A knob has the key of Megatron-Bridge and, where there is one, the flag of Megatron-LM. The
 * parser, the help, docs/KNOBS.md and both exports are loops over this table. A new knob is a new
 * row. */
#ifndef CONFIG_KNOBS_H
#define CONFIG_KNOBS_H

#include "job/fields.h"
#include "config/value.h"

typedef enum knob_kind { BOOL, INT, FLOAT, TEXT, ENUM } knob_kind;
typedef enum knob_form {
    ONE,
    LIST,
    EITHER
} knob_form; /* one value, a list, or whichever is given */

/* What is another one where a knob has another value: bits, which a knob may have several of. */
enum {
    OF_NOTHING = 1, /* layout, machine, number formats, intervals */
    OF_EVAL = 2,    /* the loss of given weights: other sizes or data */
    OF_JOB = 4,     /* the weights that a job trains, on any machine, in any layout */
    OF_MODEL = 8 | OF_JOB | OF_EVAL, /* what the weights compute */
    OF_SHAPE = 16 | OF_MODEL,        /* and their shapes, so that none would fit */
    OF_RUN = 32                      /* where a run saves, prints and ends */
};

typedef struct knob {
    const char *id;  /* the short name used in rules: TP, CP, ... */
    const char *key; /* "model.context_parallel_size" */
    knob_kind kind;
    const char *dflt; /* ours, as override text; "null" is a value when it stands here */
    knob_form form;
    const char *allowed; /* ENUM: "a|b|c". INT and FLOAT: "1..65536" or "0.." . NULL: anything */
    const char *flag;    /* Megatron-LM, several with a space: "--x" takes the value, "+--x" sets
                            true, "!--x" sets false, "?--x" is read but never written */
    const char *lm;      /* default of Megatron-LM where it differs from ours */
    const char *bridge;  /* default of Megatron-Bridge's class where it differs from ours */
    const char *unit;
    const char *short_name; /* "tp": tp=8, TP8 */
    const char *alias; /* other keys for the same knob, with spaces; where given they must agree */
    bool path;         /* ENUM: or the path of a file, from the folder of the recipe */
    const char *only;  /* the one value that moefold's own runtime runs; NULL: it runs them all */
    unsigned of;       /* OF_...; 0: as its section has it (knob_is_of) */
    const char *spell; /* other spellings of values: "norm=layernorm up_proj=mla_up_proj" */
    const char *help;
} knob;

extern const knob knobs[K_COUNT];

/* The knob with this key, short name (in any case) or alias, or -1. `*is_alias` may be NULL. */
int knob_find(const char *key, bool *is_alias);

/* Is it of all of these (OF_...)? */
bool knob_is_of(knob_id k, unsigned of);

/* The nearest known key, for a message; NULL when nothing is near. */
const char *knob_nearest(const char *key);

/* "TP8", "seq128K": a short name and its number as an assignment ("tp=8"); NULL: no such word. */
const char *knob_short_word(arena *a, const char *word);

/* Does the knob hold text, or may it name a file? Its value is kept as it is written. */
bool knob_is_text(knob_id k);

/* Reads the text form of a value; `parse` accepts it, too. */
status knob_read(arena *a, knob_id k, const char *s, value *out, error *err);
status knob_parse(arena *a, knob_id k, const char *s, value *out, error *err);

/* Checks the type of a value (not its range: that is a rule) and applies spellings; a word where a
 * list belongs becomes a list of one, a whole number where a fraction belongs becomes one, 128K
 * where a whole number belongs becomes 131072. */
status knob_accept(arena *a, knob_id k, value given, value *out, error *err);

typedef enum knob_system { MOEFOLD, MEGATRON_LM, MEGATRON_BRIDGE } knob_system;

/* The default that this system has. */
value knob_default(arena *a, knob_id k, knob_system system);

/* Is it exported to the two other systems, or ours alone? */
bool knob_is_ours(knob_id k);

/* Is the word of a knob with a `path` a path? Names have no slash and no dot. */
bool knob_is_path(const char *word);

/* Is this a value that our own runtime runs (column `only`)? Null always is. */
bool knob_is_run(knob_id k, value v);

/* Does the value lie within `allowed`? Null always does. On "no", *nearest is a value that does. */
bool knob_in_range(arena *a, knob_id k, value v, value *nearest);

#endif
