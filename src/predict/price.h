/* price.h - what a recipe costs on its cluster: memory, time, and the wall that binds.
 *
 * The programs of all pipeline ranks are built (ranks of a stage are alike), every operation is
 * priced, lists are played over their streams, and the items of all stages are played against each
 * other. Memory is that of the fullest rank, exactly as a run would take it, and what a framework
 * needs beside it. */
#ifndef PREDICT_PRICE_H
#define PREDICT_PRICE_H

#include "predict/allocated.h"
#include "predict/cost.h"
#include "predict/watch.h"

/* How a list moves the state between lists (simulate.c, I4): seconds from when the device or the
 * host were done with what was before to when they are done with it. */
typedef struct simulation_pace {
    double device; /* from the device to the device */
    double late;   /* from the host to the device */
    double host;   /* from the host to the host: launching */
    double back;   /* from the device to the host, which reads counts; long ago: it does not */
    double slowed; /* what hidden messages take of the chip, beside all that */
} simulation_pace;

/* Seconds of each of many such lists in a row. */
double pace_seconds(const simulation_pace *p);

/* Of one list and the next as one. */
simulation_pace pace_join(const simulation_pace *first, const simulation_pace *next);

/* A list of operations, played once. */
typedef struct simulated {
    double seconds;             /* from its first operation to the end of all its streams */
    double busy[COST_KINDS];    /* of each kind, hidden or not */
    double exposed[COST_KINDS]; /* the compute stream waited for messages of that kind */
    double host;                /* it waited for the host */
    double slowed;              /* hidden messages took their share of the chip */
    simulation_pace pace;
} simulated;

void simulate_list(simulated *out, const cost_model *c, const segment *seg, int phase,
                   arena *scratch);

/* A lane runs in order: a stream, and of messages inside layers one for each kind where Megatron
 * runs. */
enum { PLAY_LANES = STREAM_COUNT + COST_KINDS };
int simulation_lane(const cost_model *c, const op *o);

/* The same in two steps, for lists that are played more than once: what each operation costs; and
 * how that plays under the model's graphs, with or without the host's launches. */
typedef struct simulation_options {
    const op_cost *costs;
    bool launching;
    const watcher *watch; /* told of operations and waits, from the list's start on; or NULL */
} simulation_options;
void simulation_costs(op_cost *costs, const cost_model *c, const segment *seg, int phase);
void simulate_with(simulated *out, const cost_model *c, const segment *seg, int phase,
                   simulation_options as, arena *scratch);

typedef enum wall {
    WALL_MEMORY,
    WALL_COMMUNICATION,
    WALL_COMPUTE,
    WALL_HOST,
    WALL_BUBBLE, /* stages wait for one another */
    WALL_COUNT
} wall;
const char *wall_name(wall w);

typedef struct price {
    double step_s, tokens_per_s_per_gpu, tflops_per_gpu, mfu_bf16, mfu_precision;
    /* of the slowest pipeline rank, a step: */
    double time[COST_KINDS];    /* busy */
    double exposed[COST_KINDS]; /* messages and copies that nothing hid */
    double host, bubble, optimizer;
    update_copies update; /* of the rank whose optimizer takes longest, which has it */
    double slowed;        /* compute that hidden communication slows down */
    double rest;     /* ends of lists in which only messages run, and gathers behind the step */
    int64_t slowest; /* pipeline rank */
    /* of the fullest rank: */
    int64_t fullest; /* rank */
    int64_t bytes[REGION_COUNT];
    int64_t arena_bytes; /* of our own program */
    int64_t graph_pools; /* pools of CUDA graphs */
    reported memory;     /* as in fit.h */
    bool megatron;
    int64_t peak_bytes, usable;
    int64_t saved_live; /* of its saved bytes: most that live at once */
    int64_t host_bytes; /* activations on the host, beside all that */
    host_need on_host;
    bool fits;
    /* of routed buffers, where ranks share experts; 0: no layer is routed */
    double skew, worst_skew; /* load of the fullest rank over the mean: mean layer, worst layer */
    int64_t worst_layer;     /* -1: all are alike */
    double room;             /* what they hold, over the balanced load */
    bool room_is_planned;    /* by us; Megatron's are as large as their load */
    wall wall;
    const char *evidence; /* one sentence with the numbers */
} price;

/* The wall and its evidence, by the times and the memory that are set: predicted or measured. */
void price_see_wall(price *p, arena *a);

/* The step in parts that add up to it: every kind of cost (of messages and copies what is exposed),
 * then what is in no kind. */
typedef struct step_part {
    const char *name, *title; /* a key of JSON, and as people say it */
    double seconds;
    double hidden; /* messages and copies beside compute: not in the step */
} step_part;

enum { STEP_PARTS = COST_KINDS + 5 };
void price_parts(step_part out[STEP_PARTS], const price *p);

typedef struct price_options {
    const char *stack;
    double skew;            /* 0: as the recipe has it */
    const routing *routing; /* recorded, and fits the model: instead of a skew */
} price_options;

/* Sets the skew that layers have in the mean. `o` may be NULL. */
void price_skew(cost_model *c, const price_options *o);

/* The setup is possible, and a program can be built for it, valid or not. */
void price_setup(price *out, const setup *s, const hardware *hw, const price_options *o, arena *a);

/* What is priced, for whoever watches. */
typedef struct price_job {
    const setup *s;
    const hardware *hw;
    const price_options *o; /* may be NULL */
} price_job;

/* The programs that were built and when their lists ended, [pp] each. */
typedef struct price_step {
    program **programs;
    double *end;    /* of the step's lists and of those before the optimizer */
    double all_end; /* of every stage: the optimizer starts */
    double optimizer, step_s;
} price_step;

/* The same price, with a watcher (or NULL) that is told of every list and operation. */
void price_watched(price *out, price_step *step, const price_job *j, const watcher *w, arena *a);

#endif
