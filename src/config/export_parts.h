/* export_parts.h - what the exports share. */
#ifndef CONFIG_EXPORT_PARTS_H
#define CONFIG_EXPORT_PARTS_H

#include "config/recipe.h"

/* Steps of a run whose length the recipe leaves open: long enough to measure. */
enum { EXPORT_ITERS = 100 };

/* Transformer Engine from 2.10 on offloads weights, too, unless this is 1: Megatron stops. */
#define EXPORT_OFFLOAD_VARIABLE "NVTE_CPU_OFFLOAD_V1"

/* Unless this is 0, Megatron stops where Transformer Engine captures graphs beside expandable
 * segments: NCCL would register addresses that move. */
#define EXPORT_REGISTER_VARIABLE "NCCL_GRAPH_REGISTER"
bool export_wants_register(const recipe *r);

/* Does the knob say anything in this recipe? MLA's ranks say nothing without MLA. What a user
 * set always counts: it is for the other system to complain. */
bool export_matters(const recipe *r, knob_id k);

/* The value as other systems have it: a sliding window of w tokens is [w-1,0] there, and YaRN is a
 * kind of position embedding without MLA. */
value export_value(const recipe *r, knob_id k, arena *a);

/* Which knobs differ from Megatron-LM's defaults and have no flag that tells it? True: none. */
bool export_lm_says(const recipe *resolved, bool *unsaid, arena *a);

/* Comments on what Megatron does otherwise under the same name. */
void export_remarks(const recipe *r, textbuf *out);

/* Adds a word, in single quotes where a shell would change it. */
void export_shell_word(textbuf *t, const char *word);

/* Does every reader of YAML and Hydra's overrides take the bare word as text? */
bool export_is_word(arena *a, const char *s);

/* A number that whole-number parsers take too: 1000000, not 1e+06; 0.1 stays 0.1. */
void export_number(textbuf *t, value v);

#endif
