/* stop.h - a run that is told to stop.
 *
 * SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP all ask for the same: finish the step, save, leave
 * with STOP_EXIT. Asked a second time the process ends at once, with 3. Slurm sends SIGTERM twice
 * when it preempts a job, within 2 ms: repeats of SIGTERM within 5 s are one request.
 *
 * A rank may hear one request several times: from the process of `--ranks`, from mpirun or srun
 * (its parent), and directly, where a tool signals all processes of a job. So each of these three
 * is counted for itself, and the second request of one of them is the second request. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>

/* The exit code of a run that was told to stop before its last step and has saved what it was to
 * save: started again it goes on. */
enum { STOP_EXIT = 4 };

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

/* The run is over: SIGTERM, which a launcher sends to all ranks when the first leaves with another
 * code than 0, ends nothing any more. */
void stop_over(void);

/* For handlers: is this signal a repeat that does not count? `*first` is 0 at the start, and of one
 * sender of requests. */
bool stop_is_repeat(atomic_llong *first, int number);

#endif
