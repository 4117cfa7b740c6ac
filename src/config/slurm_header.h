/* slurm_header.h - the #SBATCH lines at the top of a batch script. */
#ifndef CONFIG_SLURM_HEADER_H
#define CONFIG_SLURM_HEADER_H

#include <stdint.h>

#include "config/shell.h"

/* What the lines say; 0: nothing. */
typedef struct slurm_header {
    int64_t nodes, tasks, tasks_per_node, gpus, gpus_per_node, gpus_per_task, cpus_per_task;
    const char *gpu; /* the type in --gres=gpu:h100:8, as written; NULL: none */
} slurm_header;

/* sbatch reads such lines up to the first command. */
slurm_header slurm_header_read(arena *a, const char *data, size_t n);

/* GPUs of a node, or 0: from what is said of nodes, tasks and all GPUs. */
int64_t slurm_gpus_per_node(const slurm_header *h);

enum { SLURM_VARIABLES_MAX = 16 };

/* The variables that Slurm sets in such a job: at most `most` into `out`; returns how many. */
int slurm_variables(arena *a, const slurm_header *h, shell_set *out, int most);

#endif
