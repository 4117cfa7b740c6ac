/* try.h - a recipe with something changed: may it be, does it fit, what does it take?
 *
 * The one answer for whatever changes a recipe: repairs, changes of a knob, paths between recipes,
 * ladders, what makes a recipe fit, tuning, the alternatives of a plan. */
#ifndef PREDICT_TRY_H
#define PREDICT_TRY_H

#include "config/edit.h"
#include "predict/price.h"
#include "rules/rules.h"

/* How much is asked; each asks for those before it, too. */
typedef enum try_depth {
    TRY_RULES,
    TRY_FIT,
    TRY_FITTING, /* the price of what fits */
    TRY_PRICE
} try_depth;

/* What is priced is counted, so that no answer depends on the speed of a machine. */
typedef struct try_budget {
    int64_t left; /* of what try_affords takes */
    int left_out; /* how many were not priced */
} try_budget;

/* About what one core of a server prices in so many seconds. */
#define TRY_SECONDS(seconds) ((int64_t)(3.5e6 * (seconds)))

/* Takes what pricing this setup costs. False, and one more is left out: there is not so much. A
 * budget of NULL has no end. */
bool try_affords(try_budget *b, const setup *s);

/* The description of what a setup runs on. */
typedef status (*machine_of)(hardware *h, const setup *s, arena *a, error *err);

typedef struct try_job {
    const recipe *given; /* before setup_init; try_recipe does not read it */
    const hardware *hw;
    const price_options *o; /* may be NULL */
    try_budget *budget;     /* may be NULL */
    try_depth depth;
    int errors;         /* that it may have, as the recipe before has them */
    int64_t world;      /* GPUs that it must have; 0: any */
    machine_of machine; /* instead of `hw`, where recipes are of several; NULL: `hw` */
} try_job;

typedef struct try_result {
    setup *s;         /* NULL: it cannot be read, or there is no such layout */
    violations found; /* of s */
    bool legal;       /* not more errors than it may have, and a program can be built */
    int64_t peak_bytes, usable_bytes; /* TRY_FIT and more, where it is legal */
    int64_t host_bytes;
    bool fits, priced; /* the latter: the budget was enough */
    price p;
} try_result;

/* Is it legal? Numbers alone outlive `a`: `evidence` of the price is NULL. */
bool try_recipe(try_result *out, recipe *r, const try_job *j, arena *a);

/* What is asked beyond TRY_RULES of a setup for which a program can be built: `s` and `found` are
 * there, `machine` is not asked. */
void try_more(try_result *out, const try_job *j, arena *a);

/* try_recipe of `given` with edits. */
bool try_edits(try_result *out, edits e, const try_job *j, arena *a);

/* How many errors a recipe has as it is. */
int try_errors(const recipe *given);

#endif
