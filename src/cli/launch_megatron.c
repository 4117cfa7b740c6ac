/* launch_megatron.c - the batch script that trains a recipe with Megatron-LM or Megatron-Bridge.
 *
 * One torchrun on each node; they meet at the first node, and torch numbers them in the order of
 * their names. A node that fails ends all, and no node's processes are bound to the cores of one
 * task. */
#include <inttypes.h>
#include <string.h>

#include "cli/launch.h"
#include "cli/show.h"

#define SRUN "srun --kill-on-bad-exit=1 --cpu-bind=none \"${container[@]}\" "

const char *slurm_job_name(const char *name, arena *a)
{
    char *out = arena_text(a, "%s", name);
    for (char *p = out; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *p))
            *p = '-';
    return out;
}

void slurm_put_head(textbuf *t, const slurm_job *j)
{
    text_add(t, "#!/bin/bash\n# %s\n# Time limit: %s.\n", j->summary, j->why_time);
    text_add(t, "#SBATCH --job-name=%s\n", j->name);
    text_add(t, "#SBATCH --nodes=%" PRId64 "\n", j->nodes);
    if (j->tasks) text_add(t, "#SBATCH --ntasks=%" PRId64 "\n", j->tasks);
    text_add(t, "#SBATCH --ntasks-per-node=%" PRId64 "\n", j->tasks_per_node);
    if (j->gpus_per_node) text_add(t, "#SBATCH --gpus-per-node=%" PRId64 "\n", j->gpus_per_node);
    text_add(t, "#SBATCH --exclusive\n");
    text_add(t, "#SBATCH --time=%s\n", j->time);
    text_add(t, "#SBATCH --output=%s\n", j->log);
    text_add(t, "# To fill in where the cluster asks for it (remove one #):\n"
                "##SBATCH --partition=PARTITION\n"
                "##SBATCH --account=ACCOUNT\n");
}

/* Everything between the head and the command. */
static void put_surroundings(textbuf *t, const char *system, const char *folder)
{
    text_add(t,
             "set -euo pipefail\n\n"
             "# To fill in where %s comes in a container (needs Slurm's pyxis):\n"
             "# container=(--container-image=IMAGE --container-mounts=DATA:DATA)\n"
             "container=()\n"
             "# What the recipe does not hold: data, tokenizer, checkpoints. The last one wins.\n"
             "extra=()\n"
             "cd \"${%s:-.}\" # the folder of %s\n\n"
             "nodes=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
             "export PET_RDZV_BACKEND=c10d PET_RDZV_ID=$SLURM_JOB_ID\n"
             "export PET_RDZV_ENDPOINT=${nodes%%%%[[:space:]]*}:29500 # the first node\n\n",
             system, folder, system);
}

/* Lines of overrides as words of one command, comments behind it. */
static void put_overrides(textbuf *t, const char *lines)
{
    textbuf comments = text_init(t->a);
    for (const char *p = lines; *p;) {
        size_t n = strcspn(p, "\n");
        if (*p == '#')
            text_add(&comments, "%.*s\n", (int)n, p);
        else
            text_add(t, " \\\n%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    text_add(t, " \\\n\"${extra[@]}\"\n%s", comments.n ? comments.s : "");
}

static void put_bridge(textbuf *t, const recipe *r, const char *overrides)
{
    const export_nodes n = export_nodes_of(r);
    const char *name = export_bridge_recipe(r, t->a);
    if (name)
        text_add(t, "recipe=%s # the overrides below set what differs\n", name);
    else
        text_add(t, "recipe=${RECIPE:?the name of a recipe of Megatron-Bridge for this model}\n");
    text_add(t,
             SRUN "torchrun --nnodes %" PRId64 " --nproc-per-node %" PRId64
                  " scripts/training/run_recipe.py \\\n--recipe \"$recipe\" --mode pretrain",
             n.nodes, n.gpus);
    put_overrides(t, overrides);
}

status launch_megatron(textbuf *out, const megatron_job *m, error *err)
{
    arena *a = out->a;
    bool lm = m->system == MEGATRON_LM;
    const char *title = lm ? "Megatron-LM" : "Megatron-Bridge";
    const export_nodes n = export_nodes_of(&m->s->r);
    textbuf body = text_init(a);
    const export_words w = {
        .command = m->command, .system = m->system, .launcher = SRUN, .more = "\"${extra[@]}\""};
    slurm_job j = m->j;
    TRY(cli_export(&body, m->given, m->s, &w, err));
    j.nodes = n.nodes;
    j.tasks_per_node = 1;
    j.gpus_per_node = n.gpus;
    j.summary = arena_text(a, "Trains with %s on %" PRId64 " GPU%s; submit it with sbatch.", title,
                           n.nodes * n.gpus, n.nodes * n.gpus == 1 ? "" : "s");
    slurm_put_head(out, &j);
    put_surroundings(out, title, lm ? "MEGATRON" : "BRIDGE");
    if (lm)
        text_put(out, body.s, body.n);
    else
        put_bridge(out, &m->s->r, body.s);
    return OK;
}
