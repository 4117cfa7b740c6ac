/* target.h - which runtime a recipe is for (moefold.target), and which knobs that runtime cannot
 * run.
 *
 * The targets are megatron and moefold (our own). Unset, it is megatron for a GPU and moefold for
 * cpu and local. Rules, the search, the changes that `price` offers and the exports all ask here,
 * so that no two of them disagree. Our knobs that change neither results nor speed in Megatron
 * (prices, buffers, emulated links) are not reported as unsupported. */
#ifndef RECIPE_TARGET_H
#define RECIPE_TARGET_H

#include "recipe/recipe.h"

typedef enum target { TARGET_MEGATRON, TARGET_MOEFOLD } target;

/* Also of a recipe that is not resolved yet. A word that is out of range reads as megatron. */
target target_of(const recipe *r);

/* Are narrow products of this recipe, MXFP8 or NVFP4, none that its GPU has? Ours are then
 * reference kernels, for numerics; Megatron has none. */
bool target_by_reference(const recipe *r);

/* Fills moefold.target, with the reason. */
void target_derive(recipe *r);

/* Something that Megatron-LM and Megatron-Bridge have no word for. */
typedef struct target_gap {
    knob_id knob;
    const char *why;     /* "Megatron's ring carries expanded keys and values" */
    const char *instead; /* overrides, "key=value key=value": the nearest that Megatron has */
    bool (*asked)(const recipe *resolved);
} target_gap;

/* The i-th gap that this resolved recipe meets in Megatron, whatever its target; NULL: no more. */
const target_gap *target_gap_of(const recipe *resolved, int i);

/* The i-th knob by which this resolved recipe asks for what our own runtime does not do yet,
 * whatever its target; K_COUNT: no more. */
knob_id target_not_yet(const recipe *resolved, int i);
/* Its value that asks for nothing. */
const char *target_without(knob_id not_yet);

/* Has tp_comm_overlap an effect? Megatron turns it off where it meets MLA (rule
 * tp-overlap-without-mla). */
bool target_overlaps_tp(const recipe *r);

/* May this knob be on for the recipe's target at all? For searches, before anything is resolved. */
bool target_has(const recipe *r, knob_id k);

#endif
