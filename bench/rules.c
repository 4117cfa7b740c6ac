/* rules.c - how long the rules alone take, and the search for a fix: DeepSeek-V3 on 1,024 GPUs,
 * valid and with mistakes. Reading and resolving the recipe stands beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/models/models.h"
#include "rules/rules.h"

enum { RUNS = 301 };

static const char *const valid[] = {"moefold.model=deepseek-v3",
                                    "cluster.n_gpus=1024",
                                    "model.tensor_model_parallel_size=2",
                                    "model.pipeline_model_parallel_size=8",
                                    "model.expert_model_parallel_size=64",
                                    "model.pipeline_model_parallel_layout=Et|(tt|)*30mL",
                                    "model.mtp_num_layers=1",
                                    "train.global_batch_size=16384",
                                    NULL};
static const char *const mistakes[] = {"model.context_parallel_size=3",
                                       "comm_overlap.delay_wgrad_compute=true",
                                       "model.moe_flex_dispatcher_backend=deepep",
                                       "model.recompute_granularity=full",
                                       "train.global_batch_size=7",
                                       NULL};

typedef struct bench {
    arena *a;
    recipe r;
    setup s;
    violations found;
    edits fix;
} bench;

static void must(status st, const error *err)
{
    if (!st) return;
    fprintf(stderr, "%s\n", err->text);
    exit(EXIT_FAILURE);
}

static void resolve(bench *b)
{
    error err = {""};
    must(setup_init(&b->s, &b->r, b->a, &err), &err);
}

static void check(bench *b)
{
    rules_check(&b->found, &b->s, false, b->a);
}

static void fix(bench *b)
{
    if (!rules_fix(&b->r, b->a, &b->fix)) exit(EXIT_FAILURE);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a run takes from the arena is given back, so that each begins alike. */
static void measure(bench *b, const char *name, void (*work)(bench *b))
{
    static double took[RUNS];
    for (int i = 0; i < RUNS; i++) {
        arena_place mark = arena_mark(b->a);
        double start = now_us();
        work(b);
        took[i] = now_us() - start;
        arena_release(b->a, mark);
    }
    qsort(took, RUNS, sizeof took[0], by_size);
    printf("    %-24s median %8.1f us, fastest %8.1f us\n", name, took[RUNS / 2], took[0]);
}

static void run(const char *title, const char *const *more)
{
    bench *b = malloc(sizeof *b);
    if (!b) exit(EXIT_FAILURE);
    b->a = arena_create();
    error err = {""};
    recipe_init(&b->r, b->a, "bench");
    for (const char *const *p = valid; *p; p++)
        must(recipe_override(&b->r, *p, "bench", &err), &err);
    for (const char *const *p = more; *p; p++)
        must(recipe_override(&b->r, *p, "bench", &err), &err);
    must(model_fill(&b->r, &err), &err);
    resolve(b);
    check(b);
    int n;
    rules_table(&n);
    printf("  %s: %d rules, %d errors\n", title, n, b->found.n_errors);
    measure(b, "rules_check", check);
    measure(b, "rules_fix", fix);
    measure(b, "setup_init", resolve);
    arena_destroy(b->a);
    free(b);
}

int main(void)
{
    static const char *const nothing[] = {NULL};
    printf("DeepSeek-V3 on 1,024 GPUs, of %d runs\n", RUNS);
    run("valid", nothing);
    run("with five mistakes", mistakes);
    return 0;
}
