/* edit.h - a knob and what it is set to, typed: a change of a recipe until it is printed.
 *
 * What rules repair is read once (edit_read), and keeps the spelling in which it is printed.
 *
 * Tables of changes are written with the macros: EDITS(SET_WORD(DISPATCHER, ALLTOALL),
 * SET_NULL(FLEX)). Where two edits of a list name one knob, the later one holds. */
#ifndef CONFIG_EDIT_H
#define CONFIG_EDIT_H

#include "config/recipe.h"
#include "job/job.h"

typedef enum edit_kind {
    EDIT_NULL,
    EDIT_FLAG,
    EDIT_INT,
    EDIT_REAL,
    EDIT_WORD,
    EDIT_WORDS, /* a list */
    EDIT_DOUBLE,
    EDIT_HALVE, /* of what a job has: edits_resolve */
    EDIT_READ   /* from words */
} edit_kind;

typedef struct edit {
    knob_id k;
    edit_kind kind;
    union {
        bool flag;
        int64_t whole;
        double real;
        int word; /* J_... */
        struct {
            const signed char *word; /* J_... */
            size_t n;
        } words;
        struct {
            value v;
            const char *key;  /* another key of the knob, or an option without one (k is K_COUNT) */
            const char *text; /* "key=value" */
        } read;
    };
} edit;

typedef struct edits {
    const edit *list;
    size_t n;
} edits;

#define AN_EDIT(k, kind, ...)                                                                      \
    {                                                                                              \
        k, kind,                                                                                   \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define SET_NULL(K)     AN_EDIT(K_##K, EDIT_NULL, 0)
#define SET_FLAG(K, on) AN_EDIT(K_##K, EDIT_FLAG, .flag = on)
#define SET_INT(K, n)   AN_EDIT(K_##K, EDIT_INT, .whole = n)
#define SET_REAL(K, x)  AN_EDIT(K_##K, EDIT_REAL, .real = x)
#define SET_WORD(K, W)  AN_EDIT(K_##K, EDIT_WORD, .word = J_##K##_##W)
#define SET_WORDS(K, ...)                                                                          \
    AN_EDIT(K_##K, EDIT_WORDS, .words.word = (const signed char[]){__VA_ARGS__},                   \
            .words.n = sizeof(const signed char[]){__VA_ARGS__})
#define SET_EMPTY(K) AN_EDIT(K_##K, EDIT_WORDS, .words.word = NULL)
#define TWICE(K)     AN_EDIT(K_##K, EDIT_DOUBLE, 0)
#define HALF(K)      AN_EDIT(K_##K, EDIT_HALVE, 0)
#define EDITS(...)                                                                                 \
    {                                                                                              \
        (const edit[]){__VA_ARGS__}, sizeof(const edit[]){__VA_ARGS__} / sizeof(edit)              \
    }
#define NO_EDITS                                                                                   \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

/* With numbers in place of TWICE and HALF; what is not set counts as 1. False: a number cannot be
 * halved. Memory comes from `a`. */
bool edits_resolve(edits *out, edits e, const job *j, arena *a);

/* Sets them in a recipe that is not resolved, with a reason. False: a knob does not take its
 * value. */
bool edits_apply(recipe *r, edits e, const char *why);

/* As a command line takes them: "key=value key=value". */
const char *edits_text(edits e, arena *a);

/* One each, ending with NULL. */
const char *const *edits_words(edits e, arena *a);

/* Of "key=value". False: the knob does not take it. */
bool edit_read(edit *out, const char *assignment, arena *a);

/* The same, in an arena that lives longer. */
edits edits_kept(edits e, arena *a);

/* Both, one after the other. */
edits edits_join(edits first, edits then, arena *a);

bool edits_name(edits e, knob_id k);

/* Does one of them set what this one does, to the same value? */
bool edits_have(edits e, const edit *x, arena *a);

/* As sets, of which each sets a thing once: with one more, in the place of an earlier one; without
 * the i-th; with those of `more` that are not there yet (false: one has another value there). */
edits edits_put(edits set, edit one, arena *a);
edits edits_without(edits set, size_t i, arena *a);
bool edits_add(edits *set, edits more, arena *a);

/* Leaves out what can be left out, the last first, as long as `enough` says so of what stays. */
edits edits_thin(edits set, bool (*enough)(void *with, edits set), void *with, arena *a);

/* Has the job this value already? Not of lists, numbers with a fraction, TWICE and HALF. */
bool edit_holds(const edit *e, const job *j);

#endif
