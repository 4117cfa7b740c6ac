/* join.h - how a command that computes becomes one rank of a job. */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include "cli/cli.h"
#include "backend/comm/comm.h"

/* `--ranks N`, outside a job: N ranks of this machine are to be started. Puts the cluster that they
 * will have into the recipe, so that it can be checked before, and N into *n; 0: this process
 * computes. ERR_INPUT: `ranks` is no number. */
status cli_read_ranks(const char *ranks, int argc, char **argv, recipe *r, int *n, error *err);

/* Opens the job that this process is in, or one of its own where the world is one rank. Ranks with
 * different recipes or programs are refused, all with the same message. Collective. */
status cli_open(comm **out, const setup *s, arena *a, error *err);

/* The same, and makes its groups. The setup stays in place until comm_close. */
status cli_join(comm **out, const setup *s, arena *a, error *err);

/* Is this rank 0 of its job, as far as the launcher tells, or alone? */
bool cli_speaks(void);

/* Errors before cli_join come to every rank or to some, and ranks cannot ask one another yet: those
 * that are not rank 0 wait here some seconds, in which the launcher ends them if rank 0 leaves. So
 * what all would say stands there once. */
void cli_let_first_speak(void);

/* Prints such an error, with the rank where it is not 0; returns the exit code. */
int cli_fail_alone(const char *name, status s, const error *err);

/* cli_refuse on a rank: rank 0 prints warnings for all. */
bool cli_rank_refuses(const char *name, const setup *s, arena *a);

#endif
