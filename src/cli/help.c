/* help.c - help pages: usage, options, three examples each.
 *
 * I1  Options stand in one place, the command that reads them. Who else needs them runs the command
 *     with --help, and the page that would be printed is collected instead. */
#include "cli/help.h"
#include "answer/answer.h"

#include <moefold.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 100, COLUMN = 26, COMMANDS_MAX = 64 };

const char cli_version[] = MOEFOLD_VERSION;

const char help_recipe[] =
    "RECIPE is a YAML file (- for standard input), a preset model (moefold show --presets), a name "
    "on the Hugging Face hub, a config.json or its folder, or REVISION:path in git. key=value sets "
    "a knob (moefold knobs); short words: tp=8 or TP8, cp, ep, pp, vpp, etp, mbs, gbs, seq=128K. "
    "Megatron-LM flags work, too.";

static const struct page {
    const char *command;
    help_example examples[HELP_EXAMPLES];
} pages[] = {
    {"plan",
     {{"The best layouts of DeepSeek-V3 on 256 H100 at 4K, and why",
       "moefold plan deepseek-v3 --gpus 256xH100 --seq 4K"},
      {"With TP 1 and a batch of 1,024 samples, the winner written as a recipe",
       "moefold plan qwen3-30b-a3b --gpus 16xH100 --seq 4K --gbs 1K --pin tp=1 --out best.yaml"},
      {"How your recipe ranks, and which changes lead from it to the winner",
       "moefold plan --against recipes/qwen3-30b-4k-h100.yaml"}}},
    {"check",
     {{"Every problem of a recipe in one run, with repairs",
       "moefold check recipes/dsv3-128k-h100.yaml"},
      {"The overrides that repair a recipe",
       "moefold check recipes/dsv3-4k-h100.yaml ep=128 --fix"},
      {"Build the program of every rank and match every message",
       "moefold check recipes/qwen3-30b-4k-h100.yaml --all-ranks"}}},
    {"show",
     {{"Every knob that is not at its default, with the reason",
       "moefold show recipes/dsv3-128k-h100.yaml"},
      {"The recipe as Megatron-LM's argument list",
       "moefold show recipes/qwen3-30b-4k-h100.yaml --as megatron-lm"},
      {"Where the memory of rank 3 goes", "moefold show tiny tp=2 pp=2 --rank 3 --memory"}}},
    {"price",
     {{"Memory, time and bottleneck of a recipe, and the gain of single changes",
       "moefold price recipes/dsv3-128k-h100.yaml"},
      {"The same recipe on other GPUs",
       "moefold price recipes/qwen3-30b-4k-h100.yaml --gpus 16xH200"},
      {"The predicted timeline of every operation, for ui.perfetto.dev",
       "moefold price recipes/qwen3-30b-4k-h100.yaml --trace predicted.json.gz"}}},
    {"report",
     {{"A recipe as one page: schedule, memory, times, ranks, knobs",
       "moefold report recipes/dsv3-128k-h100.yaml -o page.html"},
      {"On other GPUs, without comparisons",
       "moefold report recipes/qwen3-30b-4k-h100.yaml --gpus 16xH200 --brief -o page.html"},
      {"A plan: its rows, speed against headroom, reasons",
       "moefold plan tiny --gpus 8xH100 --seq 4K --json >p.json && moefold report p.json -o "
       "page.html"}}},
    {"diff",
     {{"What differs between two recipes, and what each change costs",
       "moefold diff recipes/dsv3-128k-h100.yaml recipes/dsv3-128k-h100-tp.yaml --tolerance 100"},
      {"Overrides apply to both sides",
       "moefold diff deepseek-v3 deepseek-v3 ep=64 --gpus 256xH200"},
      {"For CI: two recipes must agree within 2 %",
       "moefold diff recipes/qwen3-30b-4k-h100.yaml recipes/qwen3-30b-4k-h100.yaml --tolerance 2 "
       "--json"}}},
    {"trace",
     {{"What a larger microbatch does to every operation",
       "for m in 1 2; do moefold price tiny mbs=$m --trace $m.json >$m.txt; done; moefold trace "
       "1.json 2.json"},
      {"Both on one time axis, for ui.perfetto.dev",
       "moefold price tiny --trace a.json >a.txt && moefold trace a.json a.json -o both.json.gz"},
      {"The three that differ most, as JSON",
       "moefold price tiny --trace a.json >a.txt && moefold trace a.json a.json --top 3 --json"}}},
    {"profile",
     {{"A PyTorch-profiler trace of a step without its optimizer",
       "moefold profile tiny tests/data/profile/megatron-8x4k.json.gz --without optimizer"},
      {"A log of Megatron: iteration lines, memory, timers",
       "moefold profile recipes/qwen3-30b-4k-h100.yaml tests/data/profile/megatron.log"},
      {"Nsight Systems: export it first (nsys export --type sqlite)",
       "moefold profile recipes/qwen3-30b-4k-h100.yaml tests/data/profile/nsight.sqlite "
       "--json"}}},
    {"train",
     {{"Train a small model on this machine's CPUs",
       "moefold train tiny seq=64 gbs=4 train.train_iters=3"},
      {"On two ranks with TP 2 (starts mpirun)",
       "moefold train tiny cluster.gpu=cpu tp=2 seq=64 gbs=4 train.train_iters=3 --ranks 2"},
      {"Keep the run as a folder, for `diff` and `report`",
       "moefold train tiny seq=64 gbs=4 train.train_iters=6 --run run && moefold report run -o "
       "run.html"}}},
    {"eval",
     {{"A checkpoint over the validation data that it was trained with",
       "moefold train tiny seq=64 gbs=4 train.train_iters=3 checkpoint.save=kept && moefold eval "
       "kept"},
      {"Over the tokens of a file", "moefold eval kept --data tests/data/megatron-data/a-u16"},
      {"In another layout, as JSON",
       "moefold eval kept --data tests/data/megatron-data/a-u16 tp=2 --ranks 2 --json"}}},
    {"tune",
     {{"Start at microbatch size 1 and find the fastest recipe that fits, on one thread",
       "moefold tune tiny cluster.gpu=cpu seq=64 gbs=4 mbs=1 --threads 1 --steps 3 --dir tuned"},
      {"The same folder again: continues, or prints the result",
       "moefold tune tiny cluster.gpu=cpu seq=64 gbs=4 mbs=1 --threads 1 --steps 3 --dir tuned "
       "--json"},
      {"For a remote cluster: the next trial as recipe, Megatron command and batch script",
       "moefold tune recipes/qwen3-30b-4k-h100.yaml --dir cluster --next"}}},
    {"bench",
     {{"Measure this machine: writes hardware/local.yaml", "moefold bench"},
      {"Measure the GPU: writes hardware/h200-measured.yaml, named after the GPU",
       "moefold bench --device cuda"},
      {"Tune cuBLASLt's algorithms for a recipe: writes hardware/h200-cublaslt.txt",
       "moefold bench --device cuda qwen3-30b-a3b model.num_layers=4 cluster.n_gpus=1"}}},
    {"launch",
     {{"The batch script of Megatron-LM for a recipe",
       "moefold launch recipes/dsv3-128k-h100.yaml"},
      {"That of Megatron-Bridge, into a file",
       "moefold launch recipes/dsv3-128k-h100.yaml --as megatron-bridge --out job.sh"},
      {"That of our own runtime, with a time limit of four hours",
       "moefold launch tiny --gpus 16xcpu train.train_iters=100 --time 4:00:00"}}},
    {"parity",
     {{"Compare loss, logits, gradients and loss curve with Hugging Face",
       "moefold parity tests/data/golden/qwen3-moe-tiny"},
      {"The same with TP 2 on two ranks",
       "moefold parity tests/data/golden/qwen3-moe-tiny tp=2 --ranks 2"},
      {"With the plain C kernels, as JSON",
       "moefold parity tests/data/golden/mixtral-tiny --plain --json"}}},
    {"convert",
     {{"A Hugging Face folder to a checkpoint",
       "moefold convert tests/data/golden/qwen3-moe-tiny ckpt"},
      {"A checkpoint to a Hugging Face folder", "moefold convert ckpt hf"},
      {"In BF16", "moefold convert ckpt hf16 --to hf --dtype bfloat16"}}},
    {"knobs",
     {{"Every knob about recompute", "moefold knobs recompute"},
      {"The knob behind a short word", "moefold knobs vpp"},
      {"All of them, as JSON", "moefold knobs --json"}}},
    {"completion",
     {{"For this shell (bash)", "source <(moefold completion bash)"},
      {"For every bash session",
       "moefold completion bash > ~/.local/share/bash-completion/completions/moefold"},
      {"For zsh, in a folder of fpath", "moefold completion zsh > ~/.zfunc/_moefold"}}},
    {"man",
     {{"Read it", "moefold man | man -l -"},
      {"Install it", "moefold man > ~/.local/share/man/man1/moefold.1"},
      {"As plain text", "moefold man | groff -man -Tutf8 | less -R"}}},
    {"help",
     {{"All commands", "moefold help"},
      {"One command", "moefold help plan"},
      {"The same", "moefold plan --help"}}},
};

const help_example *help_examples(const char *name)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i].command, name) == 0) return pages[i].examples;
    return NULL;
}

/* ---- printing */

/* Words from column `at` on, in lines of WIDTH that start at `indent`. */
static void print_wrapped(FILE *out, const char *text, int at, int indent)
{
    for (const char *p = text; *p;) {
        int n = (int)strcspn(p, " ");
        if (at > indent && at + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (p != text) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", n, p);
        at += n;
        p += n + (int)strspn(p + n, " ");
    }
    fputc('\n', out);
}

static void print_option(const cli_option *o)
{
    int n =
        printf("  %s%s%s", o->name, o->value_name ? " " : "", o->value_name ? o->value_name : "");
    if (n > COLUMN - 2) {
        printf("\n");
        n = 0;
    }
    printf("%*s", COLUMN - n, "");
    print_wrapped(stdout, o->help, COLUMN, COLUMN);
}

static const command *find(const char *name)
{
    int n;
    const command *commands = command_table(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static struct collector { /* I1 */
    cli_option *list;
    int n, max;
} * collector;

void help_print(const char *name, const cli_option *options, int n_options)
{
    if (collector) {
        for (int i = 0; i < n_options && collector->n < collector->max; i++)
            collector->list[collector->n++] = options[i];
        return;
    }
    const command *c = find(name);
    int n = printf("moefold %s ", name);
    print_wrapped(stdout, c->usage, n, n);
    print_wrapped(stdout, c->summary, 0, 0);
    if (n_options) printf("\nOptions\n");
    for (int i = 0; i < n_options; i++) print_option(&options[i]);
    const help_example *x = help_examples(name);
    printf("\nExamples\n");
    for (int i = 0; x && i < HELP_EXAMPLES; i++) printf("  %s:\n      %s\n", x[i].what, x[i].line);
    if (!strstr(c->usage, "RECIPE") && !strstr(c->usage, "MODEL")) return;
    printf("\n");
    print_wrapped(stdout, help_recipe, 0, 0);
}

int help_options(const command *c, cli_option *out, int max)
{
    struct collector own = {out, 0, max};
    char name[32], ask[] = "--help", *words[] = {name, ask, NULL};
    snprintf(name, sizeof name, "%s", c->name);
    collector = &own;
    c->run(2, words);
    collector = NULL;
    return own.n;
}

void help_print_all(FILE *out)
{
    int n;
    const command *commands = command_table(&n);
    fputs("moefold plans, proves and runs long-context Mixture-of-Experts training.\n\n", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "  moefold %-10s ", commands[i].name);
        print_wrapped(out, commands[i].summary, 21, 21);
    }
    fputs("\n"
          "`moefold COMMAND --help` prints options and examples; `moefold --version` prints the "
          "version.\n",
          out);
    print_wrapped(out, help_recipe, 0, 0);
    if (*cli_absent) {
        fputs("\nThis is the planner alone; `make` builds training, too:", out);
        for (const char *p = cli_absent; *p; p += strcspn(p, "|"), p += *p == '|')
            fprintf(out, " %.*s", (int)strcspn(p, "|"), p);
        fputs("\n", out);
    }
    fputs("\nStart with: moefold check deepseek-v3 ep=64 --gpus 256xH100\n", out);
}

int command_unknown(const char *name)
{
    if (text_in(cli_absent, '|', name)) {
        fprintf(stderr,
                "moefold: '%s' is not here: this is the planner alone; repair: `make` builds "
                "training, too\n",
                name);
        return ERR_INPUT;
    }
    int n;
    const command *commands = command_table(&n);
    const char *names[COMMANDS_MAX];
    for (int i = 0; i < n; i++) names[i] = commands[i].name;
    arena *a = arena_create();
    const char *near = text_meant(a, name, names, n);
    fprintf(stderr, "moefold: unknown command '%s'%s%s; `moefold help` lists them\n", name,
            near ? "; did you mean " : "", near ? near : "");
    arena_destroy(a);
    return ERR_INPUT;
}

/* docs/JSON.md, as far as it is made of tables, or the schema. */
static void print_json_help(bool schema)
{
    arena *a = arena_create();
    textbuf t = text_init(a);
    if (schema) cli_json_print(answer_schema());
    if (!schema) answer_document(&t);
    fputs(t.s, stdout);
    arena_destroy(a);
}

int command_help(int argc, char **argv)
{
    const char *word = NULL;
    bool done = false;
    error err = {{0}};
    bool schema = false;
    const cli_option options[] = {{"--schema", NULL,
                                   "with json: print the JSON Schema of what commands print",
                                   &schema, NULL}};
    status s = cli_read_plain(&(cli_words){"help", argc, argv, options, 1}, &word, &done, &err);
    if (!s && schema && !text_equal(word, "json"))
        s = error_set(&err, ERR_INPUT, "--schema is of JSON; repair: moefold help json --schema");
    if (s) return cli_fail("help", s, &err);
    if (done) return OK;
    if (text_equal(word, "json")) {
        print_json_help(schema);
        return OK;
    }
    if (!word) {
        help_print_all(stdout);
        return OK;
    }
    const command *c = find(word);
    char name[32], ask[] = "--help", *words[] = {name, ask, NULL};
    if (!c) return command_unknown(word);
    snprintf(name, sizeof name, "%s", c->name);
    return c->run(2, words);
}
