/* variant.h - a layout that a search found, with moves made on it: what a plan holds beside it.
 *
 * Edits of what a search decides change the layout, and what the search sets with it follows
 * (levels of CP, chunks of a stage, what a graph of the whole step needs). An axis of several words
 * (overlap, dispatcher, recompute, graphs) is set anew by an edit of one of its knobs. Other edits
 * stand beside the layout. */
#ifndef PLAN_VARIANT_H
#define PLAN_VARIANT_H

#include "plan/moves.h"
#include "plan/search.h"
#include "predict/try.h"

typedef struct variant {
    choice c;
    edits beside;
} variant;

/* Variants of what was searched for t.given. */
typedef struct variant_job {
    search_result *r;
    try_job t;
} variant_job;

/* False: there is no such layout. Memory comes from `a`. */
bool variant_edit(variant *out, const variant *from, const variant_job *j, edits e, arena *a);

/* As a person would write it. False: a knob does not take its value. */
bool variant_recipe(recipe *out, const variant *v, const variant_job *j, arena *a);

/* Tries `from` with edits. False, with `s` of the result NULL: there is no such layout, it is
 * `from` itself, or what a person pinned would change. */
bool variant_try(try_result *out, variant *to, const variant *from, const variant_job *j, edits e,
                 arena *a);

#endif
