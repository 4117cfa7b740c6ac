/* export.h - a recipe for Megatron-LM and Megatron-Bridge, and as a recipe file.
 *
 * The first two take a resolved recipe: every knob has its value, derived ones included, so
 * that the result means the same there. What the other system cannot be told is a gap: the caller
 * asks for gaps first and writes nothing where there is one. What makes no difference to the
 * training (checkpoint retention, logging) stands in comments at the end. */
#ifndef CONFIG_EXPORT_H
#define CONFIG_EXPORT_H

#include "config/recipe.h"

/* A command of Megatron-LM: torchrun, the script, and flags, one a line with a backslash before
 * each line end. Written are flags whose value differs from that system's default, and those
 * without which it does not start (tokenizer, run length, interval of validation). megatron_parse
 * reads it back. */
void export_megatron_lm(const recipe *resolved, textbuf *out);

/* The same with `launcher` right before torchrun ("srun ") and `more` behind the last flag. */
void export_megatron_lm_by(const recipe *resolved, const char *launcher, const char *more,
                           textbuf *out);

/* The nodes that torchrun is told, all alike: where the last one would not be full, each has fewer
 * processes. {0, 0}: the number of GPUs is not known. */
typedef struct export_nodes {
    int64_t nodes, gpus; /* the latter of one node */
} export_nodes;
export_nodes export_nodes_of(const recipe *resolved);

/* The recipe of Megatron-Bridge that has this model (a preset): NAME_pretrain_config; NULL: none is
 * known here. */
const char *export_bridge_recipe(const recipe *resolved, arena *a);

/* A knob whose value the other system cannot be told. */
typedef struct export_gap {
    knob_id knob;
    const char *why;
    const char *instead; /* overrides, "key=value key=value": the nearest that can be told */
} export_gap;

enum { EXPORT_GAPS_MAX = 64 };

/* All gaps of a resolved recipe in that system (MEGATRON_LM or MEGATRON_BRIDGE); texts live in `a`.
 * Returns how many, at most EXPORT_GAPS_MAX. */
int export_gaps(const recipe *resolved, knob_system system, export_gap *out, arena *a);

/* Megatron-LM refuses a default of Megatron-Bridge (the cross entropy of Transformer Engine). Where
 * nobody set that knob, `given` gets what Megatron-LM takes, as derived; a setup has to be made of
 * it again, because memory is another. Returns the knob, or K_COUNT: nothing changed. What a person
 * set is a gap. */
knob_id export_follow(recipe *given, const recipe *resolved, knob_system system);

/* Overrides of Megatron-Bridge, one a line, quoted for a shell where that is needed: those
 * whose value differs from our default or from that system's. recipe_override reads them back
 * (without the shell's quotes). A knob that has copies in several sections there is written to
 * each that counts. */
void export_bridge(const recipe *resolved, textbuf *out);

/* A file for recipe_read_yaml: what the user and the model set, and cluster.gpu. What was derived
 * stands in comments with its reason: reading the file derives it again, and it is no choice of
 * the user's, which rules would hold against him. With `all`, everything is written as a setting:
 * the record of a run. */
void export_yaml(const recipe *given, bool all, textbuf *out);

#endif
