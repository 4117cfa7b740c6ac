/* step_packing.h - one place for every buffer of a step, where a rank is all of the pipeline.
 *
 * Ordinarily regions stand behind one another: gradients, what forward saves, temporaries,
 * workspace. Where the pipeline has one stage, a microbatch's forward and backward are one list of
 * operations behind another's, and a buffer needs its place only between its first operation and
 * its last:
 *
 * - a saved buffer is free behind its last reader, not behind its layer's backward;
 * - a temporary and the workspace of an operation lie wherever nothing lives;
 * - where the step is one microbatch, a gradient that its first writer writes whole
 *   (assembly/first_writers.c) does not exist before: until then its place holds others.
 *
 * Nothing is computed otherwise, so nothing takes longer. All microbatches have the same places.
 * What a message or a copy touches has its place for the whole list that it is in: waits inside of
 * lists were found by places of regions (schedule/waits.c), and lists wait for each other
 * anyway. */
#ifndef IR_MEMORY_STEP_PACKING_H
#define IR_MEMORY_STEP_PACKING_H

#include "ir/program.h"

/* Does the recipe ask for it, of a program that can have it? Before items are there. */
bool step_packs(const setup *s);

/* Gives items of PART_STEP their places. Items, and offsets of regions up to REGION_SAVED, are
 * there. False, and nothing is changed: there are too many buffers to compare. Fills
 * bytes[REGION_SAVED], which begins where it always does, and saved_live: what no packing beside
 * these gradients could end below. */
bool step_packing(program *p, arena *a);

#endif
