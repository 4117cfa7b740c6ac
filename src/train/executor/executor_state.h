/* executor_state.h - an executor from inside: what binding leaves for running. */
#ifndef TRAIN_EXECUTOR_EXECUTOR_STATE_H
#define TRAIN_EXECUTOR_EXECUTOR_STATE_H

#include "train/executor/executor.h"

enum { NO_EVENT = -1 };

typedef struct bound_op {
    const kernel *row; /* NULL: a message or a wait */
    void *state;
    op_types types;
    int event; /* of the device: to be recorded after it; of a wait, to wait for */
} bound_op;

typedef struct bound_segment {
    const segment *seg;
    bound_op *ops[2];   /* [n_ops] */
    cost_kind *kind[2]; /* [n_ops]; NULL: nobody asked for times */
    bool starts[2];     /* event 0, the start of the list, is waited for */
} bound_segment;

typedef struct bound_item {
    const bound_segment *seg;
    void **at;          /* [n_bufs] */
    void **work;        /* [n_ops] workspace of each operation; NULL: the executor's */
    device_place place; /* for people */
} bound_item;

struct executor {
    const program *p;
    device *d;
    comm *c;
    comm *own; /* of a rank that is alone */
    bool plain;
    int64_t guard, guard_at; /* bytes, and their offset in SPACE_WORK */
    void *workspace;
    bool unplanned;          /* the workspace is beside the plan: for kernels of another target */
    int64_t state_bytes;     /* places before this are of SPACE_STATE, */
    int64_t work_bytes;      /* so many that follow of SPACE_WORK, */
    int64_t host_bytes;      /* so many of SPACE_HOST, the rest of SPACE_KEPT */
    bound_segment *segments; /* as p->segments */
    bound_item *items[PART_COUNT];
    int n_events; /* events of the device: those of a list, then those of the program */
    int n_list_events;
    executor_planted planted;     /* NULL in a release */
    bool joined;                  /* communicators are open */
    timing *times;                /* NULL: nobody asked */
    cost_kind *event_kind;        /* [n_events]: of the messages that were recorded there */
    struct op_clock *clock;       /* NULL: no operation is stamped */
    struct graph_plan *graphs;    /* NULL: every operation is put by itself */
    struct first_launches *first; /* NULL: every operation is launched */
    int64_t put, replayed;        /* operations and graphs so far */
    arena *memory;                /* of what is bound */
};

/* Binds operations, events and addresses of e->p. The spaces have been taken. */
status executor_bind(executor *e, error *err);
void executor_unbind(executor *e);

/* One operation of an item; the first is preceded by what begins the item. */
void executor_begin_item(executor *e, item_part part, int64_t i);
void executor_put_op(executor *e, item_part part, int64_t i, int k);

/* ---- the launches before the first step (executor_first.c), while there is a list of them */

typedef struct first_launches first_launches;

/* Was one like it launched before? Where not, it is listed. */
bool executor_met(executor *e, const op *o, const bound_op *b);

/* ---- graphs (executor_graphs.c) */

/* Which stretches of a step are captured. ERR_RULE: they cannot be. */
status executor_graphs(executor *e, error *err);

/* Puts a step with its graphs; false: it has none, or is put without them. */
bool executor_graphs_run(executor *e);

/* ---- stamps (executor_times.c), where there is a clock */

typedef struct op_clock op_clock;

void op_clock_follow(const executor *e);
void op_clock_item(executor *e, item_part part);
void op_clock_start(executor *e, item_part part, int64_t i, int k, op_stream s);
void op_clock_end(executor *e, item_part part, const bound_item *it, int phase, int k);

device_address executor_address(const executor *e, int64_t place);

#endif
