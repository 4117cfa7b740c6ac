/* rank_threads.h - `--ranks N --as-threads`: the ranks of a run as threads of this process. */
#ifndef CLI_RANK_THREADS_H
#define CLI_RANK_THREADS_H

#include "recipe/recipe.h"
#include "run/trainer/trainer.h"

/* Trains `r`, which is for n ranks and has been checked. Prints what goes wrong; returns the exit
 * code. */
int cli_train_threads(const recipe *r, const train_options *o, int n, train_summary *sum);

#endif
