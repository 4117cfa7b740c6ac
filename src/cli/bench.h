/* bench.h - what the files of `moefold bench` share. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "answer/answer.h"
#include "cli/cli.h"
#include "backend/device/cuda.h"
#include "hardware/hardware.h"
#include "layout/setup.h"
#include "measure/bench/measure.h"
#include "train/loop/progress.h"

typedef struct bench {
    arena *a;
    const char *out; /* path of the description for one rank; ranks: theirs */
    double seconds;  /* of one measurement of the machine */
    int ranks;       /* measure these alone; 0: the usual numbers of them */
    bool json, as_threads;
    const char *device; /* "cpu", "cuda" */
    const char *file;   /* "local.yaml": what it is called where nobody says */
    cuda_gpu gpu;       /* of cuda */
    hardware base;      /* the shipped file of that GPU; of several ranks, see bench_ranks.c */
    const char *tuned;  /* where algorithms of GEMMs go; "": nowhere */
    progress bar;
} bench;

/* The GPU of --device cuda, its shipped description, and what its file is called. ERR_MACHINE: none
 * can be used, and why. */
status bench_find_gpu(bench *b, error *err);

/* b->out, or the usual folder for b->file: can it be written? */
status bench_find_place(bench *b, error *err);

/* What measuring and printing share. */
int bench_cores(int ranks);                          /* threads of a rank of so many */
void bench_progress(void *who, int done, int total); /* of a progress */
void bench_print_curve(bench *b, const char *name, const curve *c, const char *unit);
const value_answer *bench_messages_answer(int *n, const measured *m, arena *a);
void bench_warn_of_others(const measured *m);

/* bench_ranks.c. Several ranks of a device that is no CPU: their messages are measured, and b->base
 * has the rest. */
bool bench_on_gpu(const bench *b);
bool bench_by_device(const bench *b);

/* A layout of n ranks; any does. */
status bench_setup(bench *b, int n, setup **out, error *err);

/* b->base for several ranks, and what their file is called before their number is added. */
status bench_find_base(bench *b, error *err);

/* One rank of a job; writes the file. Collective. Then the same as b->ranks threads. */
status bench_messages(bench *b, comm *c, error *err);
status bench_threads(bench *b, error *err);

/* bench_gemms.c. The device that tunes GEMMs into b->tuned. */
device_options bench_tuning_device(const bench *b);

/* What the tuning of this process gained, a line for each GEMM; and for programs. */
void bench_print_gemms(const bench *b, const char *of);
const product_answer *bench_products(int *n, const bench *b);

/* `moefold bench --device cuda RECIPE`: tunes the GEMMs of a recipe. */
status bench_recipe(bench *b, const cli_words *w, bool *done, error *err);

#endif
