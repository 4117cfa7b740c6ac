/* step_packing.h - one place for every buffer of a step, where the step is one microbatch.
 *
 * Ordinarily regions stand behind one another: gradients, what forward saves, temporaries, workspace.
 * Where a step is one microbatch on one stage of one rank, and all of it runs on the compute stream,
 * every buffer has a first and a last operation in one list, and needs its place only between them:
 *
 * - a saved buffer is free behind its last reader, not behind its layer's backward;
 * - a temporary and the workspace of an operation lie wherever nothing lives;
 * - a gradient that its first writer writes whole (schedule/first_writers.c) does not exist before:
 *   until then its place holds others.
 *
 * Nothing is computed otherwise, so nothing takes longer. What is traded away: with a second
 * microbatch gradients live from the first on, and places would be worth little more than those of
 * the regions. */
#ifndef PROGRAM_MEMORY_STEP_PACKING_H
#define PROGRAM_MEMORY_STEP_PACKING_H

#include "program/program.h"

/* Does the recipe ask for it, of a program that can have it? Before items are there. */
bool step_packs(const setup *s);

/* Gives items of PART_STEP their places. Items, and offsets of regions up to REGION_SAVED, are
 * there. Returns false, and leaves everything as it is, where some operation runs beside others.
 * Fills bytes[REGION_SAVED], which begins where it always does, and saved_live: what no packing
 * beside these gradients could end below. */
bool step_packing(program *p, arena *a);

#endif
