/* facts.h - what must be the same on all ranks before they start: recipe, program, data.
 *
 * Collective over the world. */
#ifndef TRAIN_LOOP_FACTS_H
#define TRAIN_LOOP_FACTS_H

#include "backend/comm/comm.h"

typedef struct fact {
    const char *name;   /* "recipe" */
    const char *text;   /* lines, or one */
    const char *repair; /* what a person does about a difference */
} fact;

/* ERR_INPUT on all ranks: names the first fact that differs, the ranks where it does, and the first
 * line that is different. Memory comes from `a`. */
status facts_agree(comm *c, const fact *facts, int n, arena *a, error *err);

/* Those of every run: the program's own file and the resolved recipe. */
status facts_start(comm *c, const setup *s, arena *a, error *err);

#endif
