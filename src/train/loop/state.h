/* state.h - what the files of the trainer share. Internal to src/train/loop*.c. */
#ifndef TRAIN_LOOP_STATE_H
#define TRAIN_LOOP_STATE_H

#include "train/data/batch.h"
#include "train/executor/step.h"
#include "train/checkpoint/checkpoint.h"
#include "train/data/index.h"
#include "train/data/source.h"
#include "train/loop/event_file.h"
#include "train/loop/iteration_line.h"
#include "train/executor/arrays.h"
#include "train/loop/progress.h"
#include "train/loop/schedule.h"
#include "train/executor/timing.h"
#include "report/alive.h"
#include "train/loop/trainer.h"

enum { STEPS_KEPT = 4096 }; /* times of steps, for the run's summary */

/* What the system counts: seconds in which the rank's thread could run and others had the cores;
 * seconds of all cores in which this process ran, and in which anybody did; bytes of the process in
 * memory. `at` is when. */
typedef struct system_count {
    double at, waited, used, busy;
    int64_t resident, most_resident;
} system_count;

/* Before the program is built and memory taken; at the end of the first step, of the last. */
enum { COUNT_START, COUNT_FIRST, COUNT_END, COUNT_MOMENTS };

enum { ALIVE_POINTS = 400 }; /* of a step: what is alive in each part of it */

/* Of the last steps: seconds to put one; calls of the last one. */
enum { HOST_STEPS = 256 };
typedef struct host_times {
    double seconds[HOST_STEPS];
    int64_t n;
    executor_calls so_far, last;
} host_times;

typedef struct trainer {
    const setup *given;
    const setup *s;        /* the given one, or one with larger routed buffers */
    int64_t planned_bytes; /* of the given one's arena */
    comm *c;
    const train_options *o;
    arena *a;
    program *p;
    executor *e;
    optimizer opt;
    schedule rates;
    data_source *data;
    checkpoint_state at;                       /* counters */
    int64_t train_iters, gbs, first_iteration; /* the last: done when the run began */
    int32_t *tokens, *labels, *positions;      /* [B][seq] of a microbatch */
    float *mask;
    step_report report;       /* of the last step */
    int64_t skipped_in_a_row; /* steps without an update, up to the last */
    bool stale;               /* weights of other ranks' slices are from before the last update */
    const char *loaded_from;  /* whose weights they are, in words; NULL: drawn */
    int64_t loaded_iteration; /* of that checkpoint; -1: none */
    const char *config;       /* text of config.json, for checkpoints */
    checkpoint_saving *save;  /* is being written beside the steps; NULL: none is */
    checkpoint_note saved;    /* the line for it */
    checkpoint_lock *lock;    /* of the folder of checkpoints, rank 0's; NULL: none */
    int64_t saves_failed;     /* in a row */
    double save_again;        /* clock: when one that failed is made again; 0: none failed */
    log_interval interval;
    progress bar;
    metrics_file metrics;
    tracing *tracing;         /* NULL: nobody asked */
    const trace *traced;      /* of all ranks, once it is written; rank 0's */
    event_file shm_transport; /* TensorBoard's, rank 0's; closed where nobody asked */
    double started, compared; /* clock */
    double loaded;            /* clock: the batch of the step was there */
    double busy;              /* seconds of steps without waiting for others, since `compared` */
    int64_t busy_steps;
    struct predicted *predicted; /* NULL: nothing is predicted, */
    const char *unpredicted;     /* and this is said about it; NULL: nothing is */
    int64_t outside_arena;       /* bytes of the device that are of no arena; -1: not known */
    double *routed; /* [layers][experts] of the run so far, of this rank; NULL: nobody asked */
    int64_t routed_steps;
    double *step_seconds; /* [STEPS_KEPT] of the last steps; NULL: no folder of the run */
    double *step_delays;  /* [STEPS_KEPT] of them: without a core that others had */
    double delayed;       /* before the step that runs now */
    int delay_file;       /* system_delay_open */
    int64_t steps_timed;
    system_count counted[COUNT_MOMENTS]; /* what the system counts of this process */
    memory_point *alive; /* [ALIVE_POINTS] of the last traced step; NULL: no folder, or no trace */
    double alive_s;      /* its seconds */
    comm_stats reported; /* what has been printed of the traffic */
    int64_t reported_steps;
    host_times host;
} trainer;

/* What a step gives, the same on all ranks. */
typedef struct step_losses {
    named_loss list[LOSSES_MAX];
    int n;
    double sums[SUM_COUNT];
    step_result result; /* was it taken? */
} step_losses;

bool trainer_asked(void); /* has a signal told this process to leave? */

/* Rank 0 prints a line; the others do not. */
void trainer_say(trainer *t, FILE *to, const char *text);

/* Everything before the first step. Collective. */
status trainer_open_all(trainer *t, error *err);

/* open.c: the files that the recipe names. */
status trainer_files(const trainer *t, data_options *o, error *err);

/* Program, executor and addresses of a setup. Not collective. */
status trainer_open(trainer *t, const setup *s, error *err);

/* Forward, backward and update of one global batch; losses. Collective, like all below. */
status trainer_step(trainer *t, step_losses *out, error *err);

/* Samples of a set, from this one on. */
typedef struct sample_span {
    int64_t first, n;
} sample_span;

/* Mean loss over the tokens of samples, whatever the batch: the last one is filled up with samples
 * without loss. Its sums are those of all. Runs whole steps, backward included, whose gradients
 * nobody uses: slower than it must be, and the same for every layout. */
status trainer_evaluate(trainer *t, data_split which, sample_span span, step_losses *out,
                        error *err);

/* Of `eval`: all of the set for validation. */
status trainer_evaluation(trainer *t, train_summary *sum, error *err);

/* A routed buffer was too small: names it, and makes the program again with larger ones, or stops
 * where moefold.on_overflow asks for that. */
status trainer_grow(trainer *t, error *err);

/* Routed buffers as large as the run that is resumed has found that they must be. */
status trainer_grow_as_before(trainer *t, error *err);

/* Weights of other ranks' slices are up to date after it. */
void trainer_gather(trainer *t);

/* announce.c: what the run is, before its first step; on the standard error, and as an event. */
status trainer_announce(trainer *t, error *err);
json_t *trainer_start_json(const trainer *t);

/* Weights from a checkpoint, from files, or drawn; counters. */
status trainer_start(trainer *t, error *err);

/* touched.c: instead of training, two steps over memory that is filled with patterns, and what they
 * touched of what was planned. ERR_RULE: something else. */
status trainer_touched(trainer *t, error *err);

/* The arrays of this rank, as a checkpoint takes them. Not collective. */
typedef struct lent_checkpoint {
    checkpoint c;
    array_loan loans[3];
} lent_checkpoint;
status trainer_lend(const trainer *t, bool moments, lent_checkpoint *l,
                    error *err); /* collective */
void trainer_return(lent_checkpoint *l, array_end how);

/* Before the first step: can it be saved where checkpoint.save says, and by no other job? */
status trainer_save_open(trainer *t, error *err);
void trainer_save_close(trainer *t); /* other jobs may save there now; not collective */

/* Writes a checkpoint, or begins to where checkpoint.async_save is on; one that was begun ends
 * first. One that fails is reported and made again, the last one at once: moefold.save_limit of
 * them in a row are an error. */
status trainer_save(trainer *t, bool last, error *err);
status trainer_save_finish(trainer *t, error *err);
const char *trainer_last_good(const trainer *t); /* where to go back to, in words; not collective */
bool trainer_save_again(const trainer *t); /* is it time? Not collective: rank 0's clock counts */

/* lines.c: what is said after steps. */
status trainer_line(trainer *t, const step_result *r, double lr, error *err);
void trainer_memory_line(trainer *t, int64_t steps);
status trainer_validation_line(trainer *t, error *err);

/* validation.skip_train: eval_iters batches of validation and of test data, and no step. */
status trainer_skip_train(trainer *t, error *err);

/* One object of docs/JSON.md, which goes with it: on the standard output where JSON is asked for,
 * and into the file of metrics. Collective. */
status trainer_event(trainer *t, json_t *event, error *err);

/* tensorboard.c: the same numbers as scalars, where logger.tensorboard_dir asks for them.
 * Collective. */
status trainer_board_open(trainer *t, error *err); /* before the first step */
status trainer_board_line(trainer *t, const iteration_line *it, error *err);
status trainer_board_validation(trainer *t, const step_losses *losses, error *err);
status trainer_board_close(trainer *t, status st, error *err); /* `st`: how the run ended */

/* lines.c: who is slow, and what messages cost. */
void trainer_count(trainer *t, double seconds, double waited); /* one step; not collective */
void trainer_compare(trainer *t);
void trainer_traffic_line(trainer *t); /* since the last one */
void trainer_traffic(trainer *t, train_summary *sum, int64_t steps);

/* routing.c: loads of experts, where --save-routing asks for them. */
status trainer_routing_open(trainer *t, error *err); /* before the first step */
void trainer_routing_step(trainer *t);               /* one step; not collective */
status trainer_routing_save(trainer *t, error *err); /* of all steps so far */

/* machine.c: memory of the device that is not planned, after the first step and at the end.
 * Collective. */
status trainer_outside_arena_first(trainer *t, error *err);
status trainer_outside_arena_last(trainer *t, error *err);

/* machine.c: what the host takes to put a step; not collective, and at the end, which is. */
void trainer_host_note(trainer *t, double seconds);
status trainer_host_line(trainer *t, error *err);

/* machine.c: algorithms that a library chose for GEMMs; before the first step. */
status trainer_gemms(trainer *t, error *err);

/* predict.c: predicted beside measured. The first and the last are collective. */
status trainer_predict(trainer *t, error *err);        /* before the first step */
status trainer_predict_attach(trainer *t, error *err); /* a new executor */
void trainer_predict_begin(trainer *t);                /* of a step */
void trainer_predict_step(trainer *t, double seconds);
void trainer_predict_table(trainer *t);

/* tracing.c: --trace. Collective. */
status trainer_trace_open(trainer *t, error *err); /* before the first step */
status trainer_trace_write(trainer *t, error *err);

/* machine.c: what the system counts of this process and thread, now. Where it does not, zeros. */
system_count system_count_now(void);

/* The first member alone, often, by a file that is opened once by its thread; -1: there is none. */
int system_delay_open(void);
double system_delay(int file);

/* run_folder.c: --run. Collective, but for the two of a step. */
status trainer_folder_open(trainer *t, error *err); /* before metrics are opened */
void trainer_folder_begin(trainer *t);
void trainer_folder_step(trainer *t, double seconds);
status trainer_folder_close(trainer *t, train_summary *sum, status st, error *err);

#endif
