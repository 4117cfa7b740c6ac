/* main.c - the table of commands. With PLANNER_ALONE that of a program without training: rows of
 * commands that compute are not there, and what they need is neither compiled nor linked. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/help.h"
#ifdef PLANNER_ALONE
#include "cli/join.h"
#include "cli/runtime.h"

const char cli_absent[] = "train|eval|tune|bench|parity|convert";

static void begin_computing(char **argv)
{
    (void)argv;
}

bool cli_speaks(void)
{
    return true; /* it is never one of several ranks */
}

status cli_can_run(const setup *s, arena *a, error *err)
{
    (void)s;
    (void)a;
    return error_set(err, ERR_INPUT,
                     "%s=moefold: this is the planner alone, without a runtime to start; repair: "
                     "%s=megatron, or `make`, which builds training, too",
                     knobs[K_TARGET].key, knobs[K_TARGET].key);
}
#else
#include "cli/ranks_job.h"
#include "backend/comm/comm.h"

const char cli_absent[] = "";

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

static void begin_computing(char **argv)
{
    calm_threads(argv);
    job_guard();
    comm_crashes();
}
#endif

static const command table[] = {
    {"plan",
     "MODEL --gpus 256xH100 [--seq TOKENS] [--gbs N] [--pin key=value ...] [--against RECIPE] "
     "[--out FILE] [--json]",
     "find the best layouts of a model on a cluster, with memory, time and reasons", false,
     command_plan},
    {"check", "RECIPE [key=value ...] [--all-ranks] [--rank R] [--fix] [--json]",
     "report every broken rule of a recipe with its repair, its layout, and whether it fits", false,
     command_check},
    {"show", "RECIPE [key=value ...] [--rank R] [--params] [--as SYSTEM] [--json]",
     "show every knob with its reason, what a rank does, or the recipe for another system", false,
     command_show},
    {"price", "RECIPE [key=value ...] [--stack NAME] [--routing SKEW|FILE] [--trace FILE] [--json]",
     "predict memory, step time and bottleneck, and the gain of single knob changes", false,
     command_price},
    {"report", "RECIPE [PROFILE]|PLAN|RUN|TUNING|DIFFERENCE [key=value ...] -o page.html",
     "write an HTML page: the answer first, then schedule, memory, times, ranks and knobs", false,
     command_report},
    {"diff", "RECIPE|RUN RECIPE|RUN [key=value ...] [--tolerance PERCENT] [--json]",
     "compare two recipes or runs: knobs, time, memory, the effect of each change, noise", false,
     command_diff},
    {"trace", "TRACE TRACE [-o FILE] [--top N] [--json]",
     "put two traces on one time axis, and print the operations that differ most", false,
     command_trace},
    {"profile", "RECIPE FILE [key=value ...] [--without optimizer] [--steps N] [--why] [--json]",
     "explain a PyTorch or Nsight profile or a Megatron log, and compare it with the prediction",
     false, command_profile},
#ifndef PLANNER_ALONE
    {"train",
     "RECIPE [key=value ...] [--ranks N] [--run DIR] [--trace FILE] [--json] [--threads N]",
     "train on this machine, in exactly the memory that `show --memory` prints", true,
     command_train},
    {"eval", "CHECKPOINT|MODEL|RECIPE [--data PREFIX ...] [key=value ...] [--ranks N] [--json]",
     "loss and perplexity of weights over the tokens of files, in any layout", true, command_eval},
    {"tune",
     "RECIPE [--minutes N] [--pin key=value ...] [--dir DIR] [--next | --tell LOG] [--json]",
     "try recipes on this machine, or on a remote cluster, until no faster one is predicted", false,
     command_tune},
    {"bench",
     "[--device cuda [RECIPE]] [--out FILE] [--ranks N [--as-threads]] [--seconds S] "
     "[--json]",
     "measure this machine and write a hardware file for `price`, `plan` and `train`", true,
     command_bench},
#endif
    {"launch", "RECIPE [key=value ...] [--as SYSTEM] [--requeue] [--time TIME] [--out FILE]",
     "write the Slurm script that trains a recipe on its cluster, with Megatron or our runtime",
     false, command_launch},
#ifndef PLANNER_ALONE
    {"parity", "DIR [key=value ...] [--ranks N] [--plain] [--json]",
     "check the numerics against a reference case: loss, logits, gradients, loss curve", true,
     command_parity},
    {"convert", "SRC DST [--to hf|moefold] [--dtype float32|bfloat16]",
     "convert weights between Hugging Face files and checkpoints", false, command_convert},
#endif
    {"knobs", "[PATTERN] [--markdown] [--json]", "list the knobs: keys, flags, defaults, meaning",
     false, command_knobs},
    {"completion", "bash|zsh", "print a completion script for bash or zsh", false,
     command_completion},
    {"man", "", "print the manual page (roff)", false, command_man},
    {"help", "[COMMAND|json [--schema]]",
     "print this list, the help of a command, or what --json prints", false, command_help},
};
enum { N_COMMANDS = sizeof table / sizeof table[0] };

const command *command_table(int *n)
{
    *n = N_COMMANDS;
    return table;
}

/* What was printed and could not be written is a failure, whatever the command says. */
static int written(int code)
{
    if (json_missing())
        fprintf(stderr, "moefold: the JSON that was printed lacks a part: %s\n", json_missing());
    if (json_missing() && !code) code = ERR_MACHINE;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "moefold: the standard output could not be written: %s\n", file_why());
    return code ? code : ERR_MACHINE;
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a file over `ulimit -f` is a failed write, which is reported */
    if (argc < 2) {
        help_print_all(stderr);
        return ERR_INPUT;
    }
    error err = {{0}};
    if (words_are_text(argc, argv, &err)) {
        fprintf(stderr, "moefold: %s\n", err.text);
        return ERR_INPUT;
    }
    const char *name = argv[1];
    if (text_in("--help|-h", '|', name)) {
        help_print_all(stdout);
        return written(OK);
    }
    if (strcmp(name, "--version") == 0) {
        printf("moefold %s\n", cli_version);
        return written(OK);
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(table[i].name, name) != 0) continue;
        if (table[i].computes) begin_computing(argv);
        return written(table[i].run(argc - 1, argv + 1));
    }
    return command_unknown(name);
}
