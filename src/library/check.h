/* check.h - is a recipe valid, and does it fit? */
#ifndef LIBRARY_CHECK_H
#define LIBRARY_CHECK_H

#include "answer/audit.h"
#include "library/word_routing.h"
#include "library/words.h"
#include "plan/autofit.h"

typedef struct check_words {
    bool json, fix, all_ranks, why, everything;
    const char *rank, *headroom, *routed;
} check_words;

/* Options of `moefold check`; returns how many. */
int check_options(word_option out[WORD_OPTIONS_MAX], check_words *w);

/* What was asked, and what was found. */
typedef struct checked {
    check_words w;
    const setup *s;
    violations found;
    fit memory;
    edits repair;           /* what makes it valid and fit */
    const char *const *fix; /* the same in words for the command at hand */
    bool fixable;
    autofit autofitted;        /* where memory had to be */
    const audit_result *audit; /* NULL: not asked for */
    double seconds;            /* of the audit */
    int64_t rank;              /* to be shown; -1: none */
    bool bad;                  /* a rule is broken, it does not fit, or ranks do not agree */
} checked;

/* `r` is what words_read made of the words. With `whole` repairs are looked for as long as --fix
 * may take, else where a warning needs one, and not for long. */
status check_run(checked *out, recipe *r, const check_words *w, bool whole, arena *a, error *err);

json_t *check_json(const checked *c, arena *a);

/* The warning that weights, gradients and optimizer alone do not fit; NULL: there is none. Its
 * repair is what makes the recipe fit. */
violation *check_of_state(const violations *found);

/* What the recipe needs beside what its hardware description has. ERR_INPUT: there is no such
 * description. `found`: what rules_check says of it. */
status fit_asked(fit *out, const setup *s, const violations *found, arena *a, error *err);

/* No verdict is no reason to refuse. */
static inline bool fit_too_large(const fit *f)
{
    return !f->why_not && !f->fits;
}

/* advice.c: repairs that were proved (rules_prove) become what a person is shown: with what they
 * lead to where the machine is known, as words for this command line. `own`: the fit of s, or
 * NULL. */
void advise(violations *found, const recipe *given, const setup *s, const fit *own, arena *a);

#endif
