/* ranks.h - `--ranks N`: the same command again, as N ranks of this machine under mpirun.
 *
 * Open MPI binds ranks to cores with hwloc itself, so there is no code of ours for that: with no
 * more ranks than cores each rank gets its share of the cores and as many threads; with more ranks
 * than cores none is bound, each has one thread, and a rank that waits gives its core to others
 * (mpi_yield_when_idle: without it a message takes 100 ms instead of less than one). */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <stdbool.h>

/* argv[0] is the command's name; `--ranks N` is left out of what is passed on, cluster.n_gpus and
 * cluster.gpus_per_node become n where the command line does not set them. Says what it starts.
 * Told to stop, ranks of `train` save and leave; told again, or another command's, they end at once
 * (ranks_job.h).
 * Returns the exit code of the job; a rank that was killed makes it 3. */
int cli_run_ranks(int argc, char **argv, int n);

/* Was this process told to end while it waited for such a job? */
bool cli_ranks_ended(void);

#endif
