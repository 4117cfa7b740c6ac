/* microbenchmark.h - what the files of the measurement share. Internal to src/measure/bench*.c. */
#ifndef MEASURE_BENCH_MICROBENCH_H
#define MEASURE_BENCH_MICROBENCH_H

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

typedef struct microbench {
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
} microbench;

/* Whole numbers that an operation reads. */
typedef enum microbench_table {
    JIG_NONE,
    JIG_OFFSETS, /* of as many experts as `table_n` says, with `table_each` rows */
    JIG_ROWS,    /* of pairs of a token and an expert, table_each experts in turn */
    JIG_IDS,     /* below table_n */
    JIG_BLOCKS,  /* F64 blocks of an update over table_n elements */
} microbench_table;

/* An operation with the sizes of its tensors, in elements. Numbers are those of the scale but where
 * the operation or a bit of `wide` says FP32. */
typedef struct timed_op {
    op o;
    int64_t in[JIG_TENSORS], out[JIG_TENSORS];
    unsigned wide_in, wide_out;
    microbench_table table;
    int64_t table_n, table_each;
    op_types types; /* set by the microbenchmark */
} timed_op;

/* Sizes of all tensors by their shapes in ops.def, but of those that `without` names (NULL:
 * all are there); where sizes do not tell they have the first one's elements. */
void timed_op_sizes(timed_op *t, const char *without);

/* The same with its row and, for each call, its tensors. */
typedef struct bound {
    const timed_op *t;
    kernel_call call;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} microbench_bound;

/* Picks and prepares the row; ERR_MACHINE: the device has none for it. */
status microbench_bind(microbench *j, timed_op *t, microbench_bound *b);
void microbench_tensors(microbench *j, const timed_op *t, void **in, void **out);

/* Typical seconds of an operation beside the other ranks' same. Collective. */
double microbench_time(microbench *j, timed_op *t);

/* Seconds of the host for putting one into a stream. */
double microbench_host(microbench *j, timed_op *t);

/* The same for one that graphs hold: `each` of them, and what a replay takes beside those. */
typedef struct microbench_graph {
    double each, replay;
} microbench_graph;

/* The device has graphs. */
microbench_graph microbench_host_graph(microbench *j, timed_op *t);

/* Bytes that the price counts for an operation that memory binds. */
double microbench_bytes(const timed_op *t);

/* Places: pools of inputs and of outputs, what lies behind them. */
device_address microbench_in(const microbench *j), microbench_out(const microbench *j),
    microbench_room(const microbench *j), microbench_tables(const microbench *j);

/* Takes the pools and fills them with small numbers, none the same as the next. */
status microbench_take(microbench *j, error *err);

/* All ranks have come here; sums are means over ranks. */
void microbench_barrier(const microbench *j);
double microbench_mean(const microbench *j, double x);

/* Waits for what was put on both streams of copies. */
void microbench_copies_end(const microbench *j);

/* One more measurement is done. */
void microbench_step(microbench *j);

/* What counts of the n times of one operation; sorts them. */
double microbench_typical(const microbench *j, int n);

/* Point i of a curve: the best rate of all rounds. */
void microbench_point(curve *c, int i, double x, double y);

/* Seconds that all programs, and that this one's ranks, have computed so far. Collective. */
typedef struct microbench_load {
    double when, all, own;
} microbench_load;
microbench_load microbench_load_now(const microbench *j);

/* Adds operations up: FLOPs over seconds of all. */
double microbench_flops(microbench *j, timed_op *list, int n);

/* gemms.c: GEMMs and attention. */
timed_op gemm_op(op_kind kind, int64_t m, int64_t n, int64_t k);
timed_op grouped_op(const microbench *j, op_kind kind, int64_t rows, int64_t n, int64_t k);
timed_op narrow_op(op_kind kind, int64_t m, int64_t n, int64_t k);
timed_op narrow_grouped_op(const microbench *j, op_kind kind, int64_t rows, int64_t n, int64_t k);
timed_op attention_op(const microbench *j, int64_t s, int64_t d, int64_t dv, bool backward);
void measure_variants(microbench *j, measured *m);
enum { MEASURED_VARIANTS = 6 };

/* layers.c: what is measured once, or by bytes. */
enum { MEASURED_PASSES = 8, MEASURED_COPIES = 1 }; /* operations of a point */
double measure_memory(microbench *j, double bytes);
double measure_copies(microbench *j, double bytes);
enum { MEASURED_ONCE = 6 };
void measure_once(microbench *j, measured *m);

/* narrow.c: operands of FP8 in blocks. Is the type of tensor i of an operation said there? It is
 * the type then. */
bool narrow_type(op_kind k, bool in, int i, dtype *type);

/* kinds.c: every kind of operation by itself, launches, graphs, copies. Of GPUs. */
int measure_kinds_count(void);
void measure_kinds(microbench *j, measured *m);
void measure_graphs(microbench *j, measured *m);

/* messages.c. Before the first message on a device's streams its ranks meet, and behind the last
 * one; both are collective. */
void measure_messages_join(microbench *j, measured *m);
void measure_messages_leave(microbench *j);
int measure_messages_count(const microbench *j);
void measure_messages(microbench *j, measured *m);
void measure_messages_end(measured *m);

#endif
