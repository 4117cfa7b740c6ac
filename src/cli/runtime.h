/* runtime.h - what our own runtime can run: `train` asks before it starts, and `launch` before it
 * writes a script that would only fail on the cluster. */
#ifndef CLI_RUNTIME_H
#define CLI_RUNTIME_H

#include "cli/cli.h"
#include "backend/comm/comm.h"

/* ERR_RULE: the knob that it cannot run, and the repair. */
status cli_can_run(const setup *s, arena *a, error *err);

/* Without a GPU a recipe that names none is for the CPUs of this machine; `says`: that is said. */
void cli_derive_here(recipe *r, bool says);

/* `train` and `parity` run programs of our own: moefold.device=auto becomes cuda where there is a
 * GPU to use, and a recipe for a GPU gets moefold.target=moefold, before it is resolved; that is
 * said. */
void cli_own_target(recipe *r, bool says);

/* The GPU and its driver, or the matrix library of the CPU: what computes, in a line. */
const char *cli_runs_on(const setup *s, arena *a);

/* ERR_RULE: the ranks that run on this machine (those of the job `c`, which all of its ranks ask
 * together; NULL: all of the setup) need more memory than it, or its GPU, has free. `given` is the
 * recipe before setup_init. A program can be built of the setup. */
status cli_fits_here(const setup *s, const recipe *given, comm *c, arena *a, error *err);

#endif
