/* megatron_table.h - which flag means what; shared by reading (megatron.c) and writing
 * (export.c). */
#ifndef CONFIG_MEGATRON_TABLE_H
#define CONFIG_MEGATRON_TABLE_H

#include "config/knobs.h"

/* ---- flags in the knob table. The mark says how the flag sets the knob; 0: by the value after
 * it. */
typedef struct knob_flag {
    char mark; /* 0, '+', '!' or '?' */
    const char *name;
    size_t n;
} knob_flag;

/* Takes the next flag off a knob's column: for (const char *p = knob.flag; knob_flag_next(&p,
 * &f);) */
bool knob_flag_next(const char **p, knob_flag *f);

/* Does the knob carry this flag? On yes, *mark is its mark. */
bool knob_has_flag(knob_id k, const char *flag, char *mark);

/* ---- flags that are not one knob's */
enum { COMBO_SETS_MAX = 2 };

typedef struct combo_set {
    knob_id k;
    const char *v; /* override text, after a ? where a setting of the user stays; NULL: no more */
} combo_set;

/* The flag, alone or with this one word after it, makes these settings. */
typedef struct combo {
    const char *flag, *word;
    bool written; /* exports write it where a recipe has all its settings */
    bool last;    /* in a file it wins over flags that come later, as Megatron-LM applies it last */
    combo_set set[COMBO_SETS_MAX];
    const char *now; /* an old spelling: what Megatron-LM reads it as */
} combo;

extern const combo combos[];
extern const int n_combos;

const combo *combo_find(const char *flag, const char *word); /* NULL: none */

/* Do written combos alone decide how this knob is written? */
bool combo_writes(knob_id k);

/* ---- flags and keys without effect */
typedef enum flag_arity { ARITY_0, ARITY_1, ARITY_N } flag_arity;

typedef enum flag_why {
    WHY_LAUNCHER,
    WHY_LOGGING,
    WHY_PROFILING,
    WHY_TOKENIZER,
    WHY_DATA,
    WHY_CHECKPOINT,
    WHY_FAULTS,
    WHY_HOST,
    WHY_LIBRARY,
    WHY_KERNEL,
    WHY_OPTIMIZER,
    WHY_INFERENCE,
    WHY_TRAINING,
    WHY_MODELS,
    WHY_CHANGES,
    WHY_ENVIRONMENT,
} flag_why;

/* A flag of Megatron-LM, or a key of Megatron-Bridge, that sets no knob. */
typedef struct idle_option {
    const char *name;
    flag_arity arity;
    flag_why why;
    const char *harmless; /* values that change no result of a run, with '|'; NULL: all; "": none */
} idle_option;

/* The last column of the tables: */
#define IDLE_ALL  NULL
#define IDLE_NONE ""

const idle_option *idle_flag_find(const char *flag); /* NULL: none */

/* This key, or one above it, that is read without effect; NULL: Megatron-Bridge has no such key.
 * Any environment variable (env_vars.NAME) is one. */
const idle_option *idle_key_find(const char *key);

/* Do keys of Megatron-Bridge begin with this word and a dot? */
bool bridge_is_section(const char *word);

const char *flag_why_text(flag_why why);

/* Does the option with this value (NULL: it stands alone) leave weights, data and what runs as they
 * are? null, none and what is empty always do, and false unless true is what does. */
bool idle_is_harmless(const idle_option *o, const char *text);

/* ---- all of them */

/* The name under which the tables have this flag: Megatron-LM gives some flags two names. */
const char *flag_canonical(const char *flag);

/* The nearest flag of all tables, for a message; NULL when nothing is near. */
const char *flag_nearest(arena *a, const char *flag);

#endif
