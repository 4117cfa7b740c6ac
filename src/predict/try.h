/* try.h - a recipe with something changed: may it be, does it fit, what does it take?
 *
 * The one answer for whatever changes a recipe: repairs, changes of a knob, paths between recipes,
 * ladders, what makes a recipe fit, tuning, the alternatives of a plan. */
#ifndef PREDICT_TRY_H
#define PREDICT_TRY_H

#include "config/edit.h"
#include "predict/fit.h"
#include "predict/price.h"

/* How much is asked; each asks for those before it, too. */
typedef enum try_depth {
    TRY_RULES,
    TRY_FIT,
    TRY_FITTING, /* the price of what fits */
    TRY_PRICE
} try_depth;

typedef struct try_job {
    const recipe *given; /* before setup_init; try_recipe does not read it */
    const hardware *hw;
    const price_options *o; /* may be NULL */
    try_depth depth;
    int errors;    /* that it may have, as the recipe before has them */
    int64_t world; /* GPUs that it must have; 0: any */
} try_job;

typedef struct try_result {
    setup *s;         /* NULL: it cannot be read, or there is no such layout */
    violations found; /* of s */
    bool legal;       /* not more errors than it may have, and a program can be built */
    int64_t peak_bytes, usable_bytes; /* TRY_FIT and more, where it is legal */
    int64_t host_bytes;
    bool fits, priced;
    price p;
} try_result;

/* Is it legal? Numbers alone outlive `a`: `evidence` of the price is NULL. */
bool try_recipe(try_result *out, recipe *r, const try_job *j, arena *a);

/* The same of `given` with edits, or with overrides as rules write them (ends with NULL). */
bool try_edits(try_result *out, edits e, const try_job *j, arena *a);
bool try_words(try_result *out, const char *const *words, const try_job *j, arena *a);

/* How many errors a recipe has as it is. */
int try_errors(const recipe *given);

#endif
