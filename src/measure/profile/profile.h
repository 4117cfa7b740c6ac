/* profile.h - what other programs measured, told in our kinds of operations and causes of waiting.
 *
 * A file is a PyTorch-profiler trace, an Nsight Systems export (SQLite), or a log of Megatron.
 * profile_read tells them apart by their first bytes. A trace or an export becomes a list of
 * kernels, of the host's calls that launched them, and of the operations (ranges) in which the host
 * was; profile_explain gives every instant of the device to a kind of operation or to a cause:
 *
 * I1  busy + idle = span: an instant is of the compute kernels that run (in equal parts), else of
 *     the communication that runs alone (exposed), else of the cause of the gap.
 * I2  What no row of names.def names, and gaps that nothing in the file explains, are not
 *     explained: their names and seconds are kept, and count against `explained`.
 *
 * Times are seconds from the first event. Everything lives in the arena that was given. */
#ifndef MEASURE_PROFILE_PROFILE_H
#define MEASURE_PROFILE_PROFILE_H

#include "base/arena.h"
#include "predict/price.h"

/* Kinds of prices, and what they have no kind for. */
enum { KIND_OPTIMIZER = COST_KINDS, KIND_UNKNOWN, PROFILE_KINDS };
const char *profile_kind_name(int kind);  /* a key of JSON */
const char *profile_kind_title(int kind); /* as people say it */
static inline bool profile_is_message(int kind)
{
    return kind >= COST_TP && kind <= COST_COPY;
}

/* Why the device stands still. */
#define PROFILE_CAUSES_TABLE(X)                                                                    \
    X(LAUNCH, "launches", "host: inside operations and launches")                                  \
    X(BETWEEN, "between", "host: between operations (Python)")                                     \
    X(SYNC, "synchronisation", "host: restarts after waiting for the GPU")                         \
    X(DATA, "data", "host: reads data")                                                            \
    X(AFTER, "after", "host: after the last kernel")                                               \
    X(QUEUE, "queue", "between kernels that were queued")                                          \
    X(PROFILER, "profiler", "the profiler itself")                                                 \
    X(BUBBLE, "bubble", "pipeline: waits for another stage")                                       \
    X(UNKNOWN, "unknown", "idle without a cause in the file")
typedef enum idle_cause {
#define CAUSE_ENUM(id, name, title) CAUSE_##id,
    PROFILE_CAUSES_TABLE(CAUSE_ENUM)
#undef CAUSE_ENUM
        CAUSE_COUNT
} idle_cause;
const char *profile_cause_name(idle_cause c);
const char *profile_cause_title(idle_cause c);

/* ---- what a trace holds */

typedef struct profile_kernel {
    int name, group; /* of `names`; the group's description of a collective, -1: none */
    int device, stream;
    int64_t correlation; /* -1: none */
    double start, end;
} profile_kernel;

/* A call of the host into the driver. */
typedef struct profile_call {
    int name;
    int64_t thread, correlation;
    double start, end;
} profile_call;

/* An operation of the host; calls and other ranges lie inside of it. */
typedef struct profile_range {
    int name;
    bool frame; /* an annotation of the user: says where, but is no work of the host's */
    int64_t thread;
    double start, end;
} profile_range;

typedef struct profile_spend { /* what the profiler itself did */
    double start, end;
} profile_spend;

typedef struct profile_events {
    arena *a;
    const char **names;
    int64_t n_names, names_room;
    int32_t *slots; /* of the hash of names */
    int64_t n_slots;
    profile_kernel *kernels;
    int64_t n_kernels, kernels_room;
    profile_call *calls;
    int64_t n_calls, calls_room;
    profile_range *ranges;
    int64_t n_ranges, ranges_room;
    profile_spend *spends;
    int64_t n_spends, spends_room;
    int64_t n_steps; /* that the file marks; 0: none */
    double base;     /* of the file's clock, in its own unit */
    bool has_base;
} profile_events;

int profile_intern(profile_events *e, const char *name);

/* ---- what a log holds */

typedef struct log_timer {
    const char *name;
    double min, max; /* seconds */
} log_timer;

enum { LOG_TIMERS = 64 };

typedef struct profile_log {
    int64_t n_iterations; /* lines that were read */
    int64_t n_kept;       /* of which the step is the median */
    double step_s, least_s, most_s;
    double tflops;        /* of the last line; 0: not said */
    int64_t global_batch; /* 0: not said */
    double loss;          /* NAN: not said */
    int64_t nan_iterations, skipped_iterations;
    int64_t max_allocated, max_reserved; /* bytes; 0: not said */
    const char *out_of_memory;           /* the line that says so, or NULL */
    log_timer timers[LOG_TIMERS];
    int n_timers;
} profile_log;

/* ---- a file, explained */

typedef enum profile_source { SOURCE_TORCH, SOURCE_NSIGHT, SOURCE_LOG } profile_source;

typedef struct profile_unknown { /* a kernel that no row names */
    const char *name, *op;
    int64_t n;
    double seconds;
} profile_unknown;

enum { UNKNOWN_MAX = 16 };

typedef struct profile {
    profile_source source;
    const char *gpu;              /* as the file names it; NULL: it does not */
    double span;                  /* seconds, of all steps */
    double steps;                 /* in it */
    bool marked;                  /* the file tells the steps apart */
    double busy[PROFILE_KINDS];   /* of messages what is exposed */
    double hidden[PROFILE_KINDS]; /* messages beside compute */
    double summed[PROFILE_KINDS]; /* of all kernels: those that run at once count twice */
    int64_t kernels[PROFILE_KINDS];
    double idle[CAUSE_COUNT];
    double waited[PROFILE_KINDS]; /* of idle by the host: until it had launched such a kernel */
    double mixed;     /* a log's forward and backward, whose kinds it does not tell apart */
    double explained; /* part of the span */
    int64_t n_kernels, n_launches, n_devices, n_syncs;
    int64_t gemms_alone; /* GEMMs whose operation is not known */
    profile_unknown unknown[UNKNOWN_MAX];
    int n_unknown;
    int64_t peak_bytes; /* reserved, where the file says; else 0 */
    profile_log log;
} profile;

const char *profile_source_name(profile_source s);

/* ERR_INPUT: what the file is instead, or where it ends too early. `steps` 0: as the file marks
 * them, else 1. */
status profile_read(profile *out, const char *path, int64_t steps, arena *a, error *err);
/* The same of a text; not for SQLite. */
status profile_parse(profile *out, const char *name, const char *data, size_t n, arena *a,
                     error *err);

/* The device's time of these events. */
void profile_explain(profile *out, profile_events *e, arena *a);

/* A row of names.def for a kernel: `ops` are the operations around its launch, the outermost
 * first. */
int profile_kind_of(const char *kernel, const char *group, const char *const *ops, int n_ops);
bool profile_is_gemm(const char *kernel);

/* What was measured, in the form of a price: the wall is found as a price's is. Memory that the
 * file does not tell is the predicted one. */
void profile_as_price(price *out, const profile *p, const price *predicted, arena *a);

#endif
