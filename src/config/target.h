/* target.h - which runtime a recipe is for (moefold.target), and which knobs that runtime cannot
 * run.
 *
 * The targets are megatron and moefold (our own). Unset, it is megatron for a GPU and moefold for
 * cpu and local. Rules, the search, the changes that `price` offers and the exports all ask here,
 * so that no two of them disagree. Our knobs that change neither results nor speed in Megatron
 * (prices, buffers, emulated links) are not reported as unsupported. */
#ifndef CONFIG_TARGET_H
#define CONFIG_TARGET_H

#include "config/recipe.h"
#include "job/cp_kind.h"

typedef enum target { TARGET_MEGATRON, TARGET_MOEFOLD } target;

/* Also of a recipe that is not resolved yet. A word that is out of range reads as megatron. */
target target_of(const recipe *r);

/* Are narrow products of this recipe, MXFP8 or NVFP4, none that its GPU has? Ours are then
 * reference kernels, for numerics; Megatron has none. */
bool target_by_reference(const job *j);

/* Fills moefold.target, with the reason. */
void target_derive(recipe *r);

/* Something that Megatron-LM and Megatron-Bridge have no word for. */
typedef struct target_gap {
    knob_id knob;
    const char *why;     /* "Megatron's ring carries expanded keys and values" */
    const char *instead; /* overrides, "key=value key=value": the nearest that Megatron has */
    bool (*asked)(const job *j);
} target_gap;

/* The i-th gap that this job meets in Megatron, whatever its target; NULL: no more. */
const target_gap *target_gap_of(const job *j, int i);

/* What our own runtime does not run: a knob with another value than its only one (knobs.def), or an
 * option of Megatron without a knob that would change weights, data or what runs. */
typedef struct target_lack {
    const char *name;    /* "model.mtp_detach_heads", "--fim-data" */
    const char *text;    /* its value; NULL: it stands alone */
    const char *where;   /* who says so */
    const char *instead; /* the value with which it asks for nothing */
    bool asked;          /* by a person or the model; else it is a default of Megatron */
} target_lack;

/* The i-th lack that this resolved recipe meets, whatever its target; false: no more. */
bool target_lack_of(const recipe *resolved, int i, target_lack *out, arena *a);

/* Has tp_comm_overlap an effect? Megatron turns it off where it meets MLA (rule
 * tp-overlap-without-mla). */
bool target_overlaps_tp(const job *j);

/* May this knob be on for the job's target at all? For searches. */
bool target_has(const job *j, knob_id k);

/* Does it have this kind of CP, for the job's attention? */
bool target_has_cp(const job *j, const cp_traits *k);

#endif
