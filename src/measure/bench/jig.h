/* jig.h - what the files of the measurement share. Internal to src/measure/bench*.c. */
#ifndef MEASURE_BENCH_JIG_H
#define MEASURE_BENCH_JIG_H

#include "backend/device/device.h"
#include "ir/segment.h"
#include "measure/bench/measure.h"
#include "measure/bench/scale.h"

enum {
    JIG_TENSORS = 7,
    ROOM_TABLE = 1 << 20, /* bytes: of the whole numbers of one operation, */
    ROOM_BLOCKS = 4096,   /* and of the F64 blocks of an update */
    ROOM_TIMES = 20000,   /* times of one operation at most */
};

typedef struct jig {
    comm *c; /* NULL: alone */
    device *d;
    const measure_scale *scale;
    int64_t ranks;
    bool crowded;          /* more threads than cores */
    double window;         /* seconds of one measurement */
    double *times;         /* of one operation */
    int64_t in_at, out_at; /* bytes: where the next tensor is taken from a pool */
    int done, total;
    status st; /* the first thing that failed: nothing is run after it */
    error *err;
    const measure_options *o;
} jig;

/* Whole numbers that an operation reads. */
typedef enum jig_table {
    JIG_NONE,
    JIG_OFFSETS, /* of as many experts as `table_n` says, with `table_each` rows */
    JIG_ROWS,    /* of pairs of a token and an expert, table_each experts in turn */
    JIG_IDS,     /* below table_n */
    JIG_BLOCKS,  /* F64 blocks of an update over table_n elements */
} jig_table;

/* An operation with the sizes of its tensors, in elements. Numbers are those of the scale but where
 * the operation or a bit of `wide` says FP32. */
typedef struct timed_op {
    op o;
    int64_t in[JIG_TENSORS], out[JIG_TENSORS];
    unsigned wide_in, wide_out;
    jig_table table;
    int64_t table_n, table_each;
    op_types types; /* set by the jig */
} timed_op;

/* The same with its row and, for each call, its tensors. */
typedef struct bound {
    const timed_op *t;
    kernel_call call;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} jig_bound;

/* Picks and prepares the row; ERR_MACHINE: the device has none for it. */
status jig_bind(jig *j, timed_op *t, jig_bound *b);
void jig_tensors(jig *j, const timed_op *t, void **in, void **out);

/* Typical seconds of an operation beside the other ranks' same. Collective. */
double jig_time(jig *j, timed_op *t);

/* Seconds of the host for putting one into a stream. */
double jig_host(jig *j, timed_op *t);

/* The same for one that graphs hold: `each` of them, and what a replay takes beside those. */
typedef struct jig_graph {
    double each, replay;
} jig_graph;

/* The device has graphs. */
jig_graph jig_host_graph(jig *j, timed_op *t);

/* Bytes that the price counts for an operation that memory binds. */
double jig_bytes(const timed_op *t);

/* Places: pools of inputs and of outputs, what lies behind them. */
device_address jig_in(const jig *j), jig_out(const jig *j), jig_room(const jig *j),
    jig_tables(const jig *j);

/* Takes the pools and fills them with small numbers, none the same as the next. */
status jig_take(jig *j, error *err);

/* All ranks have come here; sums are means over ranks. */
void jig_barrier(const jig *j);
double jig_mean(const jig *j, double x);

/* Waits for what was put on both streams of copies. */
void jig_copies_end(const jig *j);

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

/* products.c: products and attention. */
timed_op product_op(op_kind kind, int64_t m, int64_t n, int64_t k);
timed_op grouped_op(const jig *j, op_kind kind, int64_t rows, int64_t n, int64_t k);
timed_op narrow_op(op_kind kind, int64_t m, int64_t n, int64_t k);
timed_op narrow_grouped_op(const jig *j, op_kind kind, int64_t rows, int64_t n, int64_t k);
timed_op attention_op(const jig *j, int64_t s, int64_t d, int64_t dv, bool backward);
void measure_variants(jig *j, measured *m);
enum { MEASURED_VARIANTS = 6 };

/* layers.c: what is measured once, or by bytes. */
enum { MEASURED_PASSES = 8, MEASURED_COPIES = 1 }; /* operations of a point */
double measure_memory(jig *j, double bytes);
double measure_copies(jig *j, double bytes);
enum { MEASURED_ONCE = 6 };
void measure_once(jig *j, measured *m);

/* narrow.c: operands and passes of FP8 in blocks. Is the type of tensor i of an operation said
 * there? It is the type then. */
bool narrow_type(op_kind k, bool in, int i, dtype *type);
int measure_narrow_count(void);
void measure_narrow(jig *j, measured *m);

/* kinds.c: every kind of operation by itself, launches, graphs, copies. Of GPUs. */
int measure_kinds_count(void);
void measure_kinds(jig *j, measured *m);
void measure_graphs(jig *j, measured *m);

/* messages.c. Before the first message on a device's streams its ranks meet, and behind the last
 * one; both are collective. */
void measure_messages_join(jig *j, measured *m);
void measure_messages_leave(jig *j);
int measure_messages_count(const jig *j);
void measure_messages(jig *j, measured *m);
void measure_messages_end(measured *m);

#endif
