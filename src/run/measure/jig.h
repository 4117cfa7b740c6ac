/* jig.h - what the files of the measurement share. Internal to src/run/measure*.c. */
#ifndef RUN_MEASURE_JIG_H
#define RUN_MEASURE_JIG_H

#include "kernels/kernels.h"
#include "run/measure/measure.h"

enum {
    JIG_TENSORS = 7,
    ROOM_FLOATS = 1 << 25, /* of a pool: 128 MiB, more than caches hold */
    ROOM_TABLE = 1 << 18,
    ROOM_WORKSPACE = 1 << 26,
    ROOM_TIMES = 20000, /* runs of one operation at most */
};

typedef struct jig {
    comm *c; /* NULL: alone */
    int64_t ranks;
    bool crowded;          /* more threads than cores */
    double window;         /* seconds of one measurement */
    float *in, *out;       /* pools; only `out` is written */
    int32_t *table;        /* whole numbers of one operation */
    void *room;            /* workspace */
    double *times;         /* of one operation */
    int64_t in_at, out_at; /* where the next tensor is taken */
    int done, total;
    const measure_options *o;
} jig;

/* An operation with the sizes of its tensors, in elements. */
typedef struct timed_op {
    op o;
    int64_t in[JIG_TENSORS], out[JIG_TENSORS];
    int table; /* the input that is the jig's table; -1: none */
    double bytes;
} timed_op;

/* Typical seconds of an operation beside the other ranks' same. Collective. */
double jig_time(jig *j, timed_op *t);

/* All ranks have come here; sums are means over ranks. */
void jig_barrier(const jig *j);
double jig_mean(const jig *j, double x);

/* One more measurement is done. */
void jig_step(jig *j);

/* What counts of the n times of one operation; sorts them. */
double jig_typical(const jig *j, int n);

/* Point i of a curve: the best rate of all rounds. */
void jig_point(curve *c, int i, double x, double y);

/* Seconds that all programs, and that this one's ranks, have computed so far. Collective. */
typedef struct jig_load {
    double when, all, own;
} jig_load;
jig_load jig_load_now(const jig *j);

/* Adds operations up: FLOPs over seconds of all. */
double jig_flops(jig *j, timed_op *list, int n);

/* layers.c: what is measured once, or by bytes. */
extern const int measured_passes, measured_copies; /* operations of a point */
double measure_memory(jig *j, double bytes);
double measure_copies(jig *j, double bytes);
enum { MEASURED_ONCE = 6 };
void measure_once(jig *j, measured *m);

/* messages.c */
int measure_messages_count(const jig *j);
void measure_messages(jig *j, measured *m);
void measure_messages_end(measured *m);

enum { MEASURE_ROUNDS = 3 };

#endif
