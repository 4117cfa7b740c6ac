/* ranks_job.h - mpirun while it runs: who tells the job to stop, and who ends with whom.
 *
 * I1  A request to stop (base/stop.h) reaches the ranks as one SIGUSR1 from this process, whether
 *     it came to this process or to mpirun. mpirun has SIGTERM, SIGINT and SIGHUP blocked: it would
 *     pass them on and kill the ranks odls_base_sigkill_timeout later, in the middle of a save. So
 *     they stay pending there, and this process looks for them. (A second SIGTERM to mpirun itself
 *     cannot be told from the first; SIGINT after SIGTERM can.) SIGUSR1 and SIGUSR2 mpirun passes
 *     on by itself.
 * I2  A rank gets its signal once it catches it, so none is ended by it while it starts.
 * I3  The second request kills the ranks; mpirun cleans up. The third kills mpirun.
 * I4  Ranks end when this process is gone (they look for it) and when mpirun is (the kernel tells).
 * I5  A rank that is still there long after another has ended ends the job.
 * I6  An mpirun that is still there when its ranks are not is killed: 5 s after an end that was
 *     asked for, 60 s after any other. Open MPI 4.1 may lock itself out in PMIx_server_finalize
 *     when ranks are killed while they connect to it. */
#ifndef CLI_RANKS_JOB_H
#define CLI_RANKS_JOB_H

#include <stdbool.h>

/* Runs words[] (ends with NULL), which starts n ranks, and waits for it. `saves`: its
 * ranks save and leave when they are told to; otherwise the first request ends them. Returns the
 * exit code. */
int job_run(char *const *words, int n, bool saves);

/* Was a job of this process told to stop? */
bool job_was_told(void);

/* In a rank of such a job: I4. Nothing elsewhere. */
void job_guard(void);

#endif
