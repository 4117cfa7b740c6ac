/* main.c - the table of commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define VERSION "0.1.0"

/* Idle threads of OpenMP spin by default: on a machine that others use too a step is then many
 * times slower. The library reads its settings when it is loaded, so a command that computes starts
 * itself once more with them; whoever has set them is left alone. */
static void calm_threads(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("GOMP_SPINCOUNT", "2000", 1);
    execv("/proc/self/exe", argv); /* where that fails, we go on as we are */
}

static const command table[] = {
    {"plan",
     "MODEL --gpus 256xH100 --seq N [--gbs N] [--pin key=value ...] [--against RECIPE] [--out "
     "FILE] [--json]",
     "the best layouts of a model on a cluster, memory and time of each, and why", false,
     command_plan},
    {"check", "RECIPE [key=value ...] [--all-ranks] [--rank R] [--fix] [--json]",
     "everything that is wrong with a recipe, how to repair it, and what it costs on a rank", false,
     command_check},
    {"show", "RECIPE [key=value ...] [--rank R] [--params] [--as SYSTEM] [--json]",
     "every knob with its reason; what a rank does; the recipe for another system", false,
     command_show},
    {"price", "RECIPE [key=value ...] [--stack NAME] [--routing SKEW|FILE] [--json]",
     "predicted memory, time and wall, and what one changed knob would bring", false,
     command_price},
    {"train", "RECIPE [key=value ...] [--ranks N] [--json] [--metrics FILE] [--threads N]",
     "train on this machine, with exactly the plan that `show --memory` prints", true,
     command_train},
    {"bench", "[--out FILE] [--ranks N] [--seconds S] [--json]",
     "measure this machine, and describe it for `price`, `plan` and `train`", true, command_bench},
    {"launch", "RECIPE [key=value ...] --slurm [--time TIME] [--out FILE]",
     "the batch script that trains the recipe on its cluster", false, command_launch},
    {"parity", "DIR [key=value ...] [--ranks N] [--plain] [--json]",
     "our numbers beside a reference case: loss, logits, gradients, curve", true, command_parity},
    {"convert", "SRC DST [--to hf|moefold] [--dtype float32|bfloat16]",
     "weights between Hugging Face files and our checkpoints", false, command_convert},
    {"knobs", "[PATTERN] [--markdown] [--json]", "the knobs: keys, flags, defaults, meaning", false,
     command_knobs},
};

const command *command_table(int *n)
{
    *n = sizeof table / sizeof table[0];
    return table;
}

static void print_usage(FILE *out)
{
    fputs("moefold plans, proves and runs long-context Mixture-of-Experts training.\n\n", out);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        fprintf(out, "  moefold %-6s %s\n                 %s\n", table[i].name, table[i].usage,
                table[i].summary);
    fputs("\nRECIPE is a YAML file, a preset model (moefold show --presets) or a folder with a "
          "config.json.\n"
          "Start with: moefold check deepseek-v3 model.expert_model_parallel_size=64\n",
          out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return ERR_INPUT;
    }
    const char *name = argv[1];
    if (text_in("help|--help|-h", '|', name)) {
        print_usage(stdout);
        return OK;
    }
    if (strcmp(name, "--version") == 0) {
        puts("moefold " VERSION);
        return OK;
    }
    const char *names[sizeof table / sizeof table[0]];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, name) == 0) {
            if (table[i].computes) calm_threads(argv);
            return table[i].run(argc - 1, argv + 1);
        }
        names[i] = table[i].name;
    }
    const char *near = text_nearest(name, names, sizeof table / sizeof table[0]);
    fprintf(stderr, "moefold: unknown command '%s'%s%s; `moefold help` lists them\n", name,
            near ? "; did you mean " : "", near ? near : "");
    return ERR_INPUT;
}
