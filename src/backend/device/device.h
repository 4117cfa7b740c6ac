/* device.h - where a program runs: memory, streams, events, launches, messages.
 *
 * A device is a table of functions with a state of its own. The executor binds a program to one and
 * then only enqueues; nothing else in the program knows which device it is.
 *
 *     cpu       Calls are finished when they return; only messages run beside them.
 *     cuda      A GPU (cuda.h), where its object was built.
 *
 * A test build has emulated ones, too (tests/emulated): `deferred`, `peers` and `null`.
 *
 * D1  Memory has four spaces, each one allocation. STATE (weights, gradients, optimizer) never
 *     moves. WORK (saved activations, boundaries, buffers of the step, temporaries) may be given
 *     back and taken again with another size: its content is lost then. HOST is pinned memory of
 *     the host (the offload pool) that kernels of copies can address; KEPT is the same, and never
 *     moves (the optimizer's state on the host). An address is a space and an offset.
 * D2  A stream runs in the order of the calls, each operation when the one before it is complete;
 *     streams know nothing of each other but what waits say. There is one for each op_stream.
 * D3  An event is a point in a stream. `record` moves it to the stream's end as it is now; a wait
 *     is for the record that was made last before the wait was called. An event that was never
 *     recorded is complete.
 * D4  The host runs ahead. It waits where it reads, writes, fills, syncs or settles.
 * D5  A rank that waits for other ranks in the control plane of comm settles first (comm_settles):
 *     what it has enqueued must come to its end while it waits there. On a GPU streams run by
 *     themselves and there is nothing to do.
 * D6  Nothing is allocated between device_events and device_close, but by take and stamps.
 * D7  A stamp is the time at which a stream passes a point. Stamps stand in a table that is made
 *     before the step; taking one costs the stream a write and the host a call, waits for nothing
 *     and changes no order. Only who wants times takes them: one behind an operation gives its end
 *     on its stream, and the start of the next one where that was put before the stamp had passed;
 *     else that one wants a stamp of its own before it. They are read when they have passed, by
 *     number, as seconds since an origin that all streams share.
 *
 * One thread uses a device: the rank's. The header is C; .cu files include it, too. */
#ifndef BACKEND_DEVICE_DEVICE_H
#define BACKEND_DEVICE_DEVICE_H

#include "base/planted.h"
#include "backend/comm/comm.h"
#include "backend/kernels/kernels.h"
#include "backend/kernels/lt_use.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum device_space {
    SPACE_STATE,
    SPACE_WORK,
    SPACE_HOST,
    SPACE_KEPT,
    SPACE_COUNT
} device_space;

/* Is it pinned memory of the host? */
static inline bool space_is_host(int s)
{
    return s == SPACE_HOST || s == SPACE_KEPT;
}

typedef struct device_address {
    device_space space;
    int64_t offset;
} device_address;

typedef struct device device;

/* What a device is opened with. Paths may be NULL or "": none. */
typedef struct device_options {
    const char *name;  /* "cpu", "cuda"; some take a word behind it: "cuda:FOLDER" */
    const char *cudnn; /* folder of the cuDNN that attention uses, unless the name has one */

    /* Files of cuBLASLt's algorithms: the run's, which is written, too; that of the run it goes on
     * from; the machine's, from `bench`. */
    const char *run_algorithms, *earlier_algorithms, *tuned_algorithms;
    bool tunes; /* times algorithms, and writes the best to the machine's file */
} device_options;

/* What a program's messages are: for ranks that move them by themselves. */
typedef struct device_traffic {
    int64_t sent[STREAM_COUNT]; /* bytes of the largest message that a stream sends */
    int64_t step[STREAM_COUNT]; /* of sends and receives, by the stream of the sends: how many
                                 * places on they go; 0: there are none */
    comm_use use;
} device_traffic;

typedef struct device_table {
    const char *name; /* "cpu" */

    /* `word` is what follows the name and a colon, or "". Fills d->state. */
    status (*open)(device *d, const char *word, const device_options *o, error *err);
    void (*close)(device *d); /* with nothing under way; frees memory that is still taken */

    /* Rows of its kernels, as kernels_cpu gives them, and the target whose formula says what
     * workspace they want, whatever target a program was planned for. */
    const kernel *(*rows)(int *n);
    const struct target_row *(*target)(void);

    /* Takes a space anew, all zeros; what it had is given back before. Nothing is under way.
     * ERR_MACHINE: no memory (the text names the bytes and the system's reason). */
    status (*take)(device *d, device_space s, int64_t bytes, error *err);

    /* Bytes in use on the device that are of no space: context, code and libraries of this process,
     * and what other processes have. -1: the device does not know. */
    int64_t (*outside_arena)(device *d);

    /* The pointer that kernels and messages get. Valid until the space is taken again. */
    void *(*pointer)(const device *d, device_address at);

    /* The same for the host, where the host can address this memory; else NULL. Whoever uses it has
     * called sync. */
    void *(*map)(const device *d, device_address at);

    /* Blocking, behind everything that was put into the compute stream. */
    void (*read)(device *d, void *to, device_address from, int64_t bytes);
    void (*write)(device *d, device_address to, const void *from, int64_t bytes);
    void (*fill)(device *d, device_address to, int byte, int64_t bytes);

    /* Sets bit i % 8 of map[i / 8] for every byte i, from `at` on, that is not `byte`; the other
     * bits stay. Blocking, like the three above. For tests of memory: may take some of its own. */
    void (*differ)(device *d, device_address at, int byte, int64_t bytes, unsigned char *map);

    /* On a stream, between any two spaces. */
    void (*copy)(device *d, op_stream s, device_address to, device_address from, int64_t bytes);

    /* Events 0 .. n-1, none recorded. */
    status (*events)(device *d, int n, error *err);
    void (*record)(device *d, op_stream s, int event);
    void (*wait)(device *d, op_stream s, int event); /* the stream waits */
    void (*wait_here)(device *d, int event);         /* the host waits */
    bool (*is_complete)(device *d, int event);

    /* Puts a kernel into a stream. The device fills in c->stream; what `c` and its lists of
     * addresses are stored in may go when the call returns, operation, types and state stay. */
    void (*launch)(device *d, op_stream s, kernel_call *c);

    /* Puts a message into a stream: when its turn comes, comm starts it there (comm_start says what
     * may go). */
    void (*message)(device *d, op_stream s, const op *o, void *const *in, void *const *out);

    /* Where ranks move messages by themselves: tells them where this one's memory lies, and opens
     * theirs. Collective over all ranks of comm, before the first message and after STATE or WORK
     * was taken anew; `leave`, which every rank calls before it takes one of them anew, closes what
     * join opened, and returns when all have. Both may be NULL. */
    status (*join)(device *d, const device_traffic *t, error *err);
    void (*leave)(device *d);

    /* How messages travel, in words: "CUDA IPC"; after join. NULL: comm moves them. */
    const char *(*transport)(const device *d);

    /* Stamps 0 .. n-1, none taken (D7). Nothing is under way. */
    status (*stamps)(device *d, int n, error *err);

    /* From here on seconds are counted. Returns the host's clock (clock_seconds) at that moment, by
     * which ranks and the host's own work are lined up. Called with nothing under way, before the
     * first stamp of a step: a GPU's times are exact to a microsecond for some seconds only. */
    double (*stamp_origin)(device *d);

    /* Puts a stamp into a stream; one that was taken before is overwritten. */
    void (*stamp)(device *d, op_stream s, int stamp);

    /* Seconds since the origin. The host waits until the stamp has passed: it never does behind a
     * sync. */
    double (*stamp_read)(device *d, int stamp);

    /* Has a stamp that was put passed? True where that is not known. Waits for nothing. NULL: it
     * never is. */
    bool (*stamp_passed)(device *d, int stamp);

    /* Of a device that does not run ahead, NULL elsewhere: between two operations whose times are
     * read off the host's clock, `now`. Have stamps behind messages passed? */
    void (*look)(device *d, double now);

    /* Graphs 0 .. n-1, none captured; those from before are gone. NULL where a device has none, as
     * the next three. */
    status (*graphs)(device *d, int n, error *err);

    /* What is launched on the compute stream between the two is not run but kept, with operations,
     * types, states and addresses. Nothing else is put meanwhile. `captured` says how many kernels
     * it is. */
    void (*capture)(device *d, int graph);
    int (*captured)(device *d, int graph);

    /* Puts all of it into the compute stream; `o` is for people, and stays. */
    void (*replay)(device *d, int graph, const op *o);

    /* The host waits until everything is complete. */
    void (*sync)(device *d);

    /* D5. */
    void (*settle)(device *d);

    /* GEMMs for which a library chose an algorithm since the device was opened, at most `room`;
     * returns how many there are. NULL: the device has no such library. */
    int (*gemms)(const device *d, lt_use *list, int room);
} device_table;

/* Where in the program operations stand that are put next: for people. */
typedef struct device_place {
    const char *segment; /* "embedding" */
    int64_t layer[2];    /* the first one's number; of operations of the backward [1]; -1: none */
    int64_t micro[2];    /* -1: none */
} device_place;

struct device {
    const device_table *table;
    const device_place
        *place;             /* stays in place while what is put there is under way; may be NULL */
    struct device_log *log; /* what streams are at (log.h) */
    bool runs_ahead;     /* streams move by themselves or late: what does not end is watched for */
    comm *c;             /* whose messages it starts; set before the first one */
    struct issue *issue; /* queues before its streams (issue.h), or NULL */
    void *state;
};

/* ERR_MACHINE: there is no such device here. The options may go when it returns. */
status device_open(device **out, const device_options *o, comm *c, error *err);
void device_close(device *d);

/* From here on `c`, whose messages the device starts, has it settle before the small calls (D5),
 * and watches it where it runs ahead; until it is detached. */
void device_attach(device *d, comm *c);
void device_detach(comm *c);

/* Is it the name of one, words after a colon apart? */
bool device_is_named(const char *name);

extern const device_table device_cpu;

/* Of a test build: the emulated device of this name, whose length is n, or NULL; and what a device
 * that was opened, log and all, is to meet (log.h). */
PLANTED const device_table *planted_device(const char *name, size_t n);
PLANTED status planted_faults(device *d, error *err);

#ifdef __cplusplus
}
#endif

#endif
