/* stop.h - a run that is told to stop.
 *
 * SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP all ask for the same: finish the step, save, leave
 * with 0. Asked a second time the process ends at once, with 3.
 *
 * A rank may hear one request several times: from the process of `--ranks`, from mpirun or srun
 * (its parent), and directly, where a tool signals all processes of a job. So each of these three
 * is counted for itself, and the second request of one of them is the second request. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>

/* The process number of `--ranks`, in the environment of its ranks. */
#define STOP_PARENT "MOEFOLD_RANKS_PARENT"

/* The signals that ask; ends with 0. */
extern const int stop_signals[];

/* From now on signals are requests; those before it end the process, as they do by default. SIGHUP
 * stays ignored where it is (nohup). `launched`: this process is one rank of several, and its
 * parent is mpirun or srun. `says`, which may be NULL, is called in the handler at the first
 * SIGTERM, which is what a launcher sends where another rank has failed. Calling it again changes
 * nothing. */
void stop_watch(bool launched, void (*says)(void));

bool stop_asked(void);

#endif
