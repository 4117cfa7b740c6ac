/* trainer.h - a training run: data, steps, lines, checkpoints, signals; one call on every rank.
 *
 * The plan is the program: the arena is the one that `show --memory` prints, and nothing is
 * allocated inside a step, unless routed buffers were too small and grow (moefold.on_overflow). A
 * run that is told to stop (base/stop.h), on any of its ranks, finishes its step, writes a
 * checkpoint where it may, and leaves. Resuming is exact: the lines after it are those of a run
 * that was never stopped.
 *
 * Decisions (skip, leave, save, grow) follow from one sum over all ranks in each step, so all ranks
 * decide alike; rank 0 speaks for all. */
#ifndef TRAIN_LOOP_TRAINER_H
#define TRAIN_LOOP_TRAINER_H

#include "backend/comm/comm.h"
#include "ir/program.h"
#include "train/loop/tracing.h"

/* Of `eval`: all of dataset.data_path, or its part for validation. */
typedef enum trainer_evaluates {
    EVALUATE_NOTHING,
    EVALUATE_FILES,
    EVALUATE_VALIDATION
} trainer_evaluates;

typedef struct evaluation {
    const char *weights, *data; /* in words, of the run's arena */
    int64_t iteration;          /* of the checkpoint; -1: weights of a model's folder */
    int64_t samples, tokens;
    double loss, perplexity, seconds; /* the mean over tokens */
} evaluation;

typedef struct train_options {
    bool json;           /* lines for programs instead of Megatron's */
    bool plain;          /* oracle kernels only */
    const char *device;  /* as executor_options has it; NULL: as the recipe says */
    int threads;         /* of this rank; 0: its share of the machine */
    const char *metrics; /* file of JSON lines; NULL: none */
    bool predict; /* print predicted beside measured times at the end, whatever they come from */
    trainer_evaluates evaluate; /* no training: the loss over a set */
    bool touched; /* no training: two steps over patterns, and which bytes they touched */
    const char *save_routing; /* file for the loads of experts (predict/routing.h); NULL: none */
    const char *trace;        /* file for the operations of some steps (tracing.h); NULL: none */
    trace_steps trace_steps;  /* which */
    const char *run;     /* folder of the run (run_folder.c), where metrics, loads and trace lie;
                          * NULL: none */
    const char *machine; /* what computes, in words, for files; NULL: not said */
    double compare;      /* seconds between comparisons of the ranks' times; 0: 60 */
} train_options;

/* What the rank with the largest plan holds. */
typedef struct run_memory {
    int64_t rank, planned;                    /* of its arena, as its recipe is planned */
    int64_t arena, host, bytes[REGION_COUNT]; /* with routed buffers that grew meanwhile */
    /* Of its process, as the system has counted: the most; before anything was taken; at the end of
     * the first and of the last step. */
    int64_t resident, before, first, last;
    int64_t in_process; /* ranks of that process */
} run_memory;

typedef struct train_summary {
    double first_loss, last_loss; /* of steps that were not skipped; NaN: all were */
    int64_t iterations, skipped;
    double seconds, tokens_per_second;
    bool interrupted;     /* by exit_interval, or */
    bool told;            /* by a signal or exit_duration_in_mins, before the last step */
    evaluation evaluated; /* where that was asked for */
    comm_stats traffic;   /* a step; of each number the largest of all ranks */
    /* Where a folder of the run is written: */
    run_memory memory;
    double delay;  /* of a step: seconds without a core that others had, in the mean over ranks */
    double others; /* cores that other programs had in the mean; below 0: nobody counted */
    double step, predicted; /* seconds of one, in the median; 0: there is none */
} train_summary;

/* Trains as the setup says; it is valid, and comm_groups has been called with it. Collective over
 * the world: an error is the same on all ranks, and one of them prints it. Lines go to the standard
 * output, the bar to the standard error. */
status trainer_run(const setup *s, comm *c, const train_options *o, train_summary *summary,
                   arena *a, error *err);

/* Of a test build: before a step runs. `overflow_at` is the place of STEP_OVERFLOW. */
PLANTED void planted_step(executor *e, int64_t overflow_at, int64_t iteration);

#endif
