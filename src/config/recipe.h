/* recipe.h - what the user asked for: a setting for every knob, each with where it came from.
 *
 * Layers, later ones win: files, then overrides and flags on the command line. The model (a preset
 * or a config.json) fills what the user left open, then derivations do, then defaults; so a setting
 * that a person made is never changed. `why` says where a setting came from, or the reason for it.
 *
 * A recipe is plain data: copying the struct copies the recipe (values and texts live in the
 * arena). */
#ifndef CONFIG_RECIPE_H
#define CONFIG_RECIPE_H

#include <stdarg.h>

#include "hardware/gpus.h"
#include "config/knobs.h"

typedef enum origin { FROM_NOTHING, FROM_DEFAULT, FROM_DERIVED, FROM_MODEL, FROM_USER } origin;

typedef struct setting {
    value v;
    origin from;
    const char *why; /* "recipes/a.yaml:12", "command line", "default", or the reason */
} setting;

/* An alias was used: dataset.seq_length for model.seq_length. A rule compares it with the knob. */
typedef struct alias_use {
    knob_id knob;
    const char *key, *why;
    value v;
    bool alone;          /* the knob itself was not given: it takes this value */
    const char *instead; /* "key=value", which Megatron-Bridge takes instead; NULL: this counts */
} alias_use;

/* An option of Megatron that sets no knob, with a value that would change weights, data or what
 * runs: a run of ours refuses it. */
typedef struct ignored_option {
    const struct idle_option *option;
    const char *name; /* as it was written, perhaps a key below the option's */
    const char *text; /* its value; NULL: it stood alone */
    const char *where;
} ignored_option;

enum { ALIASES_MAX = 64, NOTES_MAX = 256, IGNORED_MAX = 64 };

typedef struct recipe {
    arena *a;
    const char *name;   /* as the user named it */
    const char *folder; /* where relative paths in it start, with a final slash or empty */
    setting knob[K_COUNT];
    const gpu *machine; /* what the hardware file that cluster.gpu names describes; NULL: no file */
    alias_use aliases[ALIASES_MAX];
    int n_aliases;
    const char *notes[NOTES_MAX]; /* what was read and has no effect, and why */
    int n_notes;
    ignored_option ignored[IGNORED_MAX]; /* the first of them */
    int n_ignored;
} recipe;

void recipe_init(recipe *r, arena *a, const char *name);

/* Sets a knob as the user's wish. The value has been accepted by knob_accept. */
void recipe_set(recipe *r, knob_id k, value v, const char *why);

/* Whose defaults and rules hold is a knob, moefold.system; a Megatron-LM argument list sets it. */
void recipe_set_system(recipe *r, knob_system system, const char *why);

/* The same with a value that has not been accepted yet. */
status recipe_set_knob(recipe *r, knob_id k, value given, const char *where, error *err);

/* Key and value as the user wrote them; checks key and type. `where` stands in messages. */
status recipe_set_key(recipe *r, const char *key, value v, const char *where, error *err);

/* What is wrong with a key that nobody knows, and the nearest known one; NULL: it is known. */
const char *recipe_unknown_key(arena *a, const char *key);

/* "key=value"; a leading + or ++ (Hydra) is taken too. */
status recipe_override(recipe *r, const char *assignment, const char *where, error *err);

status recipe_read_yaml(recipe *r, const char *path, error *err);
status recipe_parse_yaml(recipe *r, const char *name, const char *data, size_t n, error *err);

void recipe_note(recipe *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An option that sets no knob was read, under this name and with this value (NULL: it stands
 * alone); a later value replaces an earlier one, and null takes the option back. */
void recipe_ignore(recipe *r, const struct idle_option *o, const char *name, const char *text,
                   const char *where);

/* Fills a knob that nobody has set. Returns whether it did. */
bool recipe_fill(recipe *r, knob_id k, value v, origin from, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

bool recipe_fill_list(recipe *r, knob_id k, value v, origin from, const char *format, va_list args);

/* Nobody has set or filled it: it is derived again, or gets its default. */
void recipe_open(recipe *r, knob_id k);

/* A knob as another recipe has it, with origin and reason; or its value alone, as a wish. */
static inline void recipe_take(recipe *r, const recipe *from, knob_id k)
{
    r->knob[k] = from->knob[k];
}
static inline void recipe_keep(recipe *r, const recipe *from, knob_id k, const char *why)
{
    recipe_set(r, k, from->knob[k].v, why);
}

/* Gives one knob, or every knob, that is still open its default (moefold.system says whose). */
void recipe_fill_default(recipe *r, knob_id k);
void recipe_fill_defaults(recipe *r);

/* The recipe before what follows and the defaults filled it: as people and the model have it. */
void recipe_reopen(recipe *out, const recipe *resolved);

/* What knobs imply for one another whatever model and layout are: what null asks for, the habits of
 * Megatron-LM and -Bridge, the precision recipe, recompute, graphs. */
void recipe_derive(recipe *r);

/* Of that what replaces the model's own: a score of groups that Megatron does not have. */
void recipe_follow_target(recipe *r);

/* Opens the layout string of the pipeline; was there one? It said how many stages there are:
 * another PP, where nobody sets VPP, keeps as many. */
bool recipe_open_layout(recipe *r);
void recipe_keep_stages(recipe *r, int64_t stages);

/* ---- the machine: cluster.gpu is a shipped name or the path of a hardware file. */

/* Reads that file, if it is one and has not been read. ERR_INPUT: it is missing or wrong. */
status recipe_read_machine(recipe *r, error *err);

/* NULL: cluster.gpu is open, or a word that nobody knows. */
const gpu *recipe_gpu(const recipe *r);

/* Does it name files to train on? */
bool recipe_names_data(const recipe *r);
/* Files for training, validation or test alone? */
bool recipe_names_separate(const recipe *r);

bool recipe_on_cpu(const recipe *r); /* cpu, local, or a file that says so */

/* A word for a knob with a path, as it was written in a file of `folder` ("": on the command line):
 * paths become paths from the current folder. */
value recipe_located(recipe *r, knob_id k, value v, const char *folder);

/* The other way: paths from the folder of the file that the recipe will be written to. */
void recipe_relocate(recipe *r, const char *file);

/* ---- who wanted a setting, and for people: how files write it, and the reason. */
static inline origin recipe_from(const recipe *r, knob_id k)
{
    return r->knob[k].from;
}
const char *recipe_shown(const recipe *r, knob_id k, arena *a);

/* The setting, where its value lies outside of what the knob allows, and the nearest that does not;
 * NULL: it is within. */
const setting *recipe_out_of_range(const recipe *r, knob_id k, arena *a, value *near);

/* Would this override change anything? Null takes back what a person said; of what the model says
 * it takes only what may be none. */
bool recipe_changes(const recipe *r, knob_id k, value v);

bool recipe_agrees(const recipe *r, const alias_use *use); /* alias and knob have one value */
static inline bool recipe_by_user(const recipe *r, knob_id k)
{
    return r->knob[k].from == FROM_USER;
}
static inline const char *recipe_why(const recipe *r, knob_id k)
{
    return r->knob[k].why;
}

/* ---- reading. An open or null knob reads as 0, 0.0, false, NULL. */
static inline bool recipe_given(const recipe *r, knob_id k)
{
    return r->knob[k].from != FROM_NOTHING && r->knob[k].v.kind != V_NULL;
}
static inline int64_t recipe_int(const recipe *r, knob_id k)
{
    return r->knob[k].v.kind == V_INT ? r->knob[k].v.whole : 0;
}
static inline bool recipe_on(const recipe *r, knob_id k)
{
    return r->knob[k].v.kind == V_BOOL && r->knob[k].v.flag;
}
/* A knob as it was written and where that came from: for messages and repairs. */
static inline const setting *recipe_setting(const recipe *r, knob_id k)
{
    return &r->knob[k];
}
bool recipe_is_lm(const recipe *r); /* moefold.system=megatron-lm */
double recipe_real(const recipe *r, knob_id k);
const char *recipe_word(const recipe *r, knob_id k);
bool recipe_is(const recipe *r, knob_id k, const char *word);
bool recipe_has(const recipe *r, knob_id k, const char *word); /* in a list, or the one value */
int recipe_count(const recipe *r, knob_id k); /* items of a list; 1 for one value */
value recipe_item(const recipe *r, knob_id k, int i);

#endif
