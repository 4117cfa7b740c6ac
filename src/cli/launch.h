/* launch.h - batch scripts. Internal to src/cli. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "cli/cli.h"

/* The head of a script for Slurm. */
typedef struct slurm_job {
    const char *name, *log;
    const char *time, *why_time;
    const char *summary;                                 /* the first comment */
    int64_t nodes, tasks, tasks_per_node, gpus_per_node; /* tasks 0: nodes x tasks_per_node */
} slurm_job;

/* The interpreter and the lines of sbatch; what no recipe knows (partition, account) stands
 * commented out, to be filled in. */
void slurm_put_head(textbuf *t, const slurm_job *j);

/* A name for a job, of letters that Slurm and file systems take. */
const char *slurm_job_name(const char *name, arena *a);

/* The script that trains a recipe with Megatron-LM or Megatron-Bridge: `given` before `s` was made
 * of it. `j` has name, log, time and why_time. ERR_RULE: it would not run there; `command` has said
 * why on the standard error, and `out` is as it was. */
typedef struct megatron_job {
    const recipe *given;
    const setup *s;
    knob_system system;
    const char *command;
    slurm_job j;
} megatron_job;
status launch_megatron(textbuf *out, const megatron_job *m, error *err);

#endif
