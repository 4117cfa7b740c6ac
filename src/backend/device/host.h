/* host.h - devices that compute on this machine's CPU: memory, and streams as queues.
 *
 * The CPU (cpu.c) is these functions, and emulated devices of test builds are most of them: one of
 * those differs in when a queue is worked off (host_order). */
#ifndef BACKEND_DEVICE_HOST_H
#define BACKEND_DEVICE_HOST_H

#include "backend/device/log.h"

/* One entry of a stream. */
typedef enum task_kind { TASK_WAIT, TASK_LAUNCH, TASK_MESSAGE, TASK_COPY, TASK_STAMP } task_kind;

typedef struct host_event {
    op_stream stream;
    int64_t end; /* complete when so many tasks of the stream are */
} host_event;

typedef struct task {
    task_kind kind;
    bool done;
    host_event event;        /* WAIT */
    kernel_call call;        /* LAUNCH; of MESSAGE the operation */
    int request;             /* MESSAGE, once it has started */
    int stamp;               /* STAMP */
    uint32_t number;         /* LAUNCH, MESSAGE: in the log */
    device_address to, from; /* COPY */
    int64_t bytes;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} task;

/* Tasks complete .. put-1 are in the queue, the n-th at ring[n % QUEUE_MAX]; those before `started`
 * have begun, or are waits that were fulfilled. */
enum { QUEUE_MAX = 1024 };
typedef struct queue {
    task *ring;
    int64_t complete, started, put;
} queue;

typedef struct host_stamp {
    double at;     /* clock, once it has passed */
    host_event is; /* the end of its task */
} host_stamp;

typedef struct host_graph host_graph; /* graphs.c */

/* How a device that runs ahead works off its queues: the compute stream is one, too, and each
 * begins an entry when all before it are complete. */
typedef struct host_order {
    bool (*step)(device *d); /* one entry, of whichever stream; false: nothing could be done */
    void (*put)(device *d);  /* an entry was put */
} host_order;

typedef struct host_device {
    unsigned char *memory[SPACE_COUNT];
    size_t bytes[SPACE_COUNT];
    queue queues[STREAM_COUNT];
    host_event *events;
    host_stamp *stamps;
    double origin;   /* clock */
    int64_t stamped; /* stamps that are in queues */
    double looked;   /* clock: whether they have passed */
    int64_t waiting; /* tasks that have not started, in all queues */
    int64_t moves;   /* tasks that were started or ended, of any stream: has anything happened? */
    const host_order *order; /* NULL: the CPU's own */
    host_graph *graphs;      /* [n_graphs] */
    int n_graphs;
    host_graph *capturing; /* what is launched goes there; NULL: it runs */
    void *owner;           /* of a device that has this one in it */
} host_device;

/* ---- queues (queues.c) */

status queues_open(host_device *h, error *err);
void queues_close(host_device *h);

/* A free entry at the end of a stream, to be filled in and put. */
task *queue_entry(device *d, op_stream s);
void queue_put(device *d, op_stream s);

/* Works off one entry of one stream; false: nothing was done, in other streams neither. */
bool queue_step(device *d, op_stream s);

/* Begins and ends what can be, in the order of streams. */
void queues_move(device *d);

/* Ends what has come to its end. */
void queues_look(device *d);

bool queues_passed(device *d, host_event e);

/* Works until the event has passed; until everything has begun, or is complete. */
void queues_until(device *d, host_event e);
void queues_begin_all(device *d);
void queues_finish(device *d);

/* ---- the table's (host.c) */

/* The state, all zeros but what is named here. */
status host_open(device *d, const host_order *order, error *err);
void host_close(device *d);
status host_take(device *d, device_space s, int64_t bytes, error *err);
int64_t host_outside_arena(device *d);
void *host_pointer(const device *d, device_address at);

status host_events(device *d, int n, error *err);
void host_record(device *d, op_stream s, int event);
void host_wait(device *d, op_stream s, int event);
void host_wait_here(device *d, int event);
bool host_is_complete(device *d, int event);
void host_launch(device *d, op_stream s, kernel_call *c);
void host_message(device *d, op_stream s, const op *o, void *const *in, void *const *out);
void host_copy(device *d, op_stream s, device_address to, device_address from, int64_t bytes);
status host_graphs(device *d, int n, error *err);
void host_capture(device *d, int graph);
int host_captured(device *d, int graph);
void host_replay(device *d, int graph, const op *o);
int host_run_graph(device *d, int graph);                     /* at once; how many calls */
void host_keep(device *d, op_stream s, const kernel_call *c); /* while capturing */
void host_close_graphs(host_device *h);
status host_stamps(device *d, int n, error *err);
double host_stamp_origin(device *d);
void host_stamp_put(device *d, op_stream s, int stamp);
double host_stamp_read(device *d, int stamp);
bool host_stamp_passed(device *d, int stamp);
void host_look(device *d, double now);
void host_stamp_now(device *d, op_stream s, int stamp); /* passes in the call */
void host_read(device *d, void *to, device_address from, int64_t bytes);
void host_write(device *d, device_address to, const void *from, int64_t bytes);
void host_fill(device *d, device_address to, int byte, int64_t bytes);
void host_differ(device *d, device_address at, int byte, int64_t bytes, unsigned char *map);

/* What tables have in common. */
#define HOST_DEVICE                                                                                \
    .rows = kernels_cpu, .target = target_row_cpu, .take = host_take, .pointer = host_pointer,     \
    .map = host_pointer, .read = host_read, .write = host_write, .fill = host_fill,                \
    .differ = host_differ, .copy = host_copy, .events = host_events, .record = host_record,        \
    .wait_here = host_wait_here, .is_complete = host_is_complete, .launch = host_launch,           \
    .message = host_message, .graphs = host_graphs, .capture = host_capture,                       \
    .captured = host_captured, .replay = host_replay, .stamps = host_stamps,                       \
    .stamp_origin = host_stamp_origin, .stamp = host_stamp_put, .stamp_read = host_stamp_read,     \
    .stamp_passed = host_stamp_passed, .look = host_look, .sync = queues_finish,                   \
    .settle = queues_begin_all

#endif
