/* gpu.h - the GPU of this machine, for commands that run programs: is there one, can it be used, is
 * there room. Everything is asked and said before anything starts. */
#ifndef CLI_GPU_H
#define CLI_GPU_H

#include "cli/cli.h"

/* Nothing for a program that does not go to a GPU. ERR_RULE: it has more than one rank.
 * ERR_MACHINE: no GPU that can be used, or a cuDNN that was named and cannot be used. */
status gpu_can_run(const setup *s, error *err);

/* ERR_RULE: `need` bytes do not fit into what is free; the text has the missing bytes and the
 * memory ladder of the recipe. */
status gpu_fits(const setup *s, const recipe *given, int64_t need, arena *a, error *err);

#endif
