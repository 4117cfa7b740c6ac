/* measure.h - what this machine's kernels and messages reach, measured as a run would use them.
 *
 * Kernels are those that a run binds, with the threads that a rank has; tensors are taken one after
 * another from a pool larger than caches, since in a step they come back only after many others.
 * With several ranks all of them measure the same thing at the same time: cores, caches and memory
 * are shared, and what a rank reaches beside busy neighbours is what counts.
 *
 * Machines are shared: all is measured in three rounds, of the times of a window the lowest tenth
 * counts (where there are more threads than cores: the mean), with several ranks the mean of
 * theirs, and of the rounds the best. */
#ifndef MEASURE_BENCH_MEASURE_H
#define MEASURE_BENCH_MEASURE_H

#include "backend/comm/comm.h"
#include "hardware/hardware.h"
#include "op/op.h"
#include "measure/bench/scale.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* A layer's GEMMs: its three forms together, or one of them. The gradient of a weight is written
 * by the first microbatch of a step and added to by the others. */
typedef enum measured_form {
    FORM_FORWARD,
    FORM_DATA,
    FORM_WEIGHT,
    FORM_ADDED,
    FORM_COUNT,
    FORM_ALL = FORM_COUNT
} measured_form;

/* Messages that are measured, each over all ranks. */
typedef enum measured_message {
    MEASURED_SHIFT,
    MEASURED_GATHER,
    MEASURED_REDUCE,
    MEASURED_ALL_TO_ALL,
    MEASURED_EXCHANGE,
    MEASURED_MESSAGES
} measured_message;

const char *measured_message_name(measured_message m);

typedef struct measured {
    const measure_scale *scale;
    int ranks, threads; /* threads of a rank */
    double others;      /* part of the cores that other programs took meanwhile */
    /* FLOP/s, forward and gradients together where not said otherwise: */
    curve gemm;         /* by the side of the result, sums of the scale's depth */
    curve deep;         /* by the length of the sums, result of the scale's side squared */
    curve grouped;      /* by rows of an expert */
    curve attention[2]; /* by length, forward and backward; heads of the scale's size */
    curve heads;        /* attention by size of a head */
    double head;        /* GEMM with the vocabulary, loss and gradient in one */
    double linear;      /* delta rule */
    /* where the scale has forms: those above are forward only */
    curve gemm_form[FORM_COUNT], grouped_form[FORM_COUNT], grouped_deep;
    /* the same of FP8 in blocks, and by the length of sums, forward */
    curve narrow[FORM_COUNT], narrow_deep, narrow_experts[FORM_COUNT], narrow_experts_deep;
    char gpu[128];               /* its name by the driver, */
    char device[32];             /* and the device's here */
    int64_t gpu_total, gpu_free; /* bytes */
    double sinks;                /* attention with sinks over attention without */
    double unequal[2]; /* attention of unequal heads over that of equal ones, forward, backward */
    double kind[OP_COUNT];       /* bytes/s of an operation that memory binds; 0: not measured */
    double kind_bytes[OP_COUNT]; /* and of how many bytes */
    double host[LAUNCH_KINDS];   /* seconds of the host to put an operation into a stream */
    double graph_launch;         /* the same for a kernel of a graph that is replayed, */
    double replay;               /* and for a replay beside its kernels; 0: there are no graphs */
    double wait;                 /* seconds from a small operation's end to the host's next step */
    double to_device, to_host;   /* bytes/s of copies with pinned memory */
    double both_ways;            /* of both at once, together */
    /* bytes/s, by bytes of an operation: */
    curve memory; /* the mix of a layer */
    curve copy;
    double adam;    /* elements/s that the optimizer updates */
    double least;   /* seconds of the smallest operation */
    double launch;  /* seconds from one operation to the next */
    double latency; /* seconds of the smallest message; 0: one rank */
    /* bytes/s that a rank sends, by bytes of a message, without the latency: */
    curve message[MEASURED_MESSAGES];
    char transport[160]; /* how a device's messages travel, in words */
    int devices;         /* on which the ranks are: fewer than ranks where they share one */
} measured;

/* Says how far it is: `done` of `total` measurements. */
typedef void (*measure_says)(void *who, int done, int total);

typedef struct measure_options {
    double seconds; /* in all, about; large operations are run twice at least */
    int threads;    /* of this rank */
    int rows;       /* at most so many points of a curve, 0: all; for tests */
    const struct device_options *device; /* NULL: cpu */
    struct device *on;          /* an open one instead, which stays the caller's; for tests */
    const measure_scale *scale; /* NULL: a CPU's */
    bool messages;              /* messages alone, on the device's streams as a run has them */
    measure_says says;
    void *who;
} measure_options;

/* `c` has its groups, or is NULL where the rank is alone. Collective over the world. ERR_MACHINE:
 * no memory. */
status measure_machine(measured *out, comm *c, const measure_options *o, error *err);

/* The highest value of a curve; of all GEMMs. */
double measured_best(const curve *c);
double measured_peak(const measured *m);

/* Parts as a hardware file may have them: noise that grows faster than sizes is cut, and so is what
 * no machine reaches. By the side of a result work grows with the square. */
#define MEASURED_BY_SIDE 1.9
#define MEASURED_BY_SIZE 1.0
void measured_cut(curve *parts, double steepest);

/* Length of the sums at which half of the speed is reached: rate = limit K / (K + depth). */
double measured_depth(const curve *by_depth);

/* What files say of themselves: the day, "2026-11-16", and whose numbers others are,
 * "hardware/h200.yaml". */
enum { MEASURED_DAY = 16 };
void measured_day(char out[MEASURED_DAY]);
const char *measured_base(const hardware *base, arena *a);

/* Messages of all kinds but exchanges: bytes over seconds. */
curve measured_messages(const measured *m);

/* Writes hardware/NAME.yaml as hardware_read takes it, whole or not at all. The GPU's: what one GPU
 * does not show is that of `base`, the shipped file. */
status measured_write(const measured *m, const char *path, error *err);
status measured_write_gpu(const measured *m, const hardware *base, const char *path, error *err);

/* The same of messages alone: links inside a node, the rest is that of `base`. */
status measured_write_links(const measured *m, const hardware *base, const char *path, error *err);

#endif
