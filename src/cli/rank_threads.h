/* rank_threads.h - `--ranks N --as-threads`: the ranks of a run as threads of this process. */
#ifndef CLI_RANK_THREADS_H
#define CLI_RANK_THREADS_H

#include "layout/setup.h"
#include "config/recipe.h"
#include "train/loop/trainer.h"

/* May n ranks be threads with this recipe? CUDA graphs and threads that share a context do not go
 * together: one rank captures while others launch (a run ended there with SIGSEGV). */
status cli_threads_can_run(const setup *s, int n, error *err);

/* Runs n ranks, `function` with with[i] in a thread each, until all have ended. */
void cli_rank_threads(comm *const *comms, int n, void *(*function)(void *), void *const *with);

/* Trains `r`, which is for n ranks and has been checked. Prints what goes wrong; returns the exit
 * code. */
int cli_train_threads(const char *name, const recipe *r, const train_options *o, int n,
                      train_summary *sum);

#endif
