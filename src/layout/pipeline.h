/* pipeline.h - which layers, embedding, loss and prediction module each stage holds.
 *
 * Stage i of the list is chunk i / PP of pipeline rank i % PP. Sources, by precedence: a layout
 * string; counts for the first and last rank; embedding and loss accounted as layers; an even
 * split. */
#ifndef LAYOUT_PIPELINE_H
#define LAYOUT_PIPELINE_H

#include "config/job_of.h"

typedef struct stage {
    int64_t first_layer, n_layers;
    bool embedding, loss; /* loss: final norm, head and cross entropy */
    int64_t n_mtp;
} stage;

typedef struct pipeline {
    int64_t pp, vpp;
    stage *stages;       /* [vpp * pp] */
    const char *why_not; /* NULL, or why the sizes allow no such split (a rule reports it) */
} pipeline;

/* Resolves what is open: VPP from a layout string or from layers per virtual stage; where
 * nothing was said and layers do not divide by PP * VPP, a recipe takes the accounted split
 * where that divides, else a balanced layout string (a Megatron-LM argument list takes neither).
 * ERR_INPUT: a layout string that cannot be read. */
status pipeline_derive(resolving *d, error *err);

/* From a resolved job; memory comes from `a`. A split that sizes forbid sets `why_not` and leaves
 * `stages` empty; a layout string that cannot be read is ERR_INPUT. */
status pipeline_init(pipeline *p, const job *j, arena *a, error *err);

/* Layers over `n_stages` stages with E and L (and m before L) each counting as one layer, larger
 * stages first; as short as repetition makes it: "Et|(tt|)*30L". With more stages than layers
 * the last ones but one stay empty. */
const char *pipeline_balanced(arena *a, int64_t n_layers, int64_t n_mtp, int64_t n_stages);

/* The stages as a layout string, repetitions folded. */
const char *pipeline_text(arena *a, const pipeline *p);

/* A layout string unfolded into one text a stage ("Et", "tt", ...). Commas and blanks mean
 * nothing. ERR_INPUT with the column for a strange letter, unbalanced parentheses or too many
 * inside each other, a repetition that is zero or too large. */
enum { STAGES_MAX = 65536, STAGE_LETTERS_MAX = 1 << 20, LAYOUT_DEPTH_MAX = 16 };
status pipeline_parse(arena *a, const char *layout, const char ***stages, int *n_stages,
                      error *err);

#endif
