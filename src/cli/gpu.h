/* gpu.h - the GPU of this machine, for commands that run programs: is there one, can it be used, is
 * there room. Everything is asked and said before anything starts. */
#ifndef CLI_GPU_H
#define CLI_GPU_H

#include "cli/cli.h"
#include "backend/comm/comm.h"

/* Nothing for a program that does not go to a GPU. ERR_RULE: more ranks than a node has.
 * ERR_MACHINE: no GPU that can be used, or a cuDNN that was named and cannot be used. */
status gpu_can_run(const setup *s, error *err);

typedef struct gpu_need {
    int64_t bytes; /* of the arenas of all ranks */
    comm *c;       /* whose ranks say which GPU they have; NULL: all ranks share this machine's */
} gpu_need;

/* ERR_RULE: what the ranks of one GPU need does not fit into it; for one rank the text has the
 * missing bytes and the memory ladder of the recipe. Collective over `c`. */
status gpu_fits(const setup *s, const recipe *given, gpu_need need, arena *a, error *err);

#endif
