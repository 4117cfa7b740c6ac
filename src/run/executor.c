/* executor.c - binding a program to memory and kernels, and running it.
 *
 * I1  An operation of the compute stream is done when its kernel returns. A message starts where it
 *     stands and is done at the WAIT for its event, which the program has put before whatever needs
 *     it: waits for operations of the compute stream find nothing to do.
 *     On this machine a copy to the host is done when it returns, too: the host's pool lies behind
 *     the arena.
 * I2  Between operations the message library is given a chance to move on. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/maths.h"
#include "program/target.h"
#include "run/executor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NO_REQUEST = -1 };

typedef struct bound_op {
    const kernel *row; /* NULL: a message or a wait */
    void *state;
    op_types types;
} bound_op;

typedef struct bound_segment {
    const segment *seg;
    bound_op *ops[2];   /* [n_ops] */
    cost_kind *kind[2]; /* [n_ops]; NULL: nobody asked for times */
    int n_events[2];
} bound_segment;

struct executor {
    const program *p;
    comm *c;
    comm *own; /* of a rank that is alone */
    unsigned char *arena, *workspace;
    size_t bytes;
    bound_segment *segments; /* as p->segments */
    struct bound_item {
        const bound_segment *seg;
        int64_t *place; /* [n_bufs] */
    } * items[PART_COUNT];
    int *requests; /* by event, of the list that runs */
    int *across;   /* by event of the program */
    int n_requests;
    bool joined;                           /* communicators are open */
    timing *times;                         /* NULL: nobody asked */
    double last;                           /* when the operation before ended */
    cost_kind *request_kind, *across_kind; /* of the messages in those */
    cost_kind message_kind;                /* of the last message that was started */
    arena *memory;
};

/* ---- binding */

static status type_is_run(const segment *seg, const op *o, int id, error *err)
{
    if (id < 0) return OK;
    dtype t = seg->bufs[id].type;
    if (t == DTYPE_F32 || t == DTYPE_BF16 || t == DTYPE_I32 || t == DTYPE_F64) return OK;
    return error_set(err, ERR_MACHINE,
                     "operation %s (%s): %s of %s is not computed on CPUs; repair: "
                     "mixed_precision=bf16_mixed",
                     o->name, op_infos[o->kind].name, dtype_name(t), seg->bufs[id].name);
}

static status types_are_run(const segment *seg, const op *o, error *err)
{
    status s = OK;
    for (int i = 0; i < OP_IN_MAX && !s; i++) s = type_is_run(seg, o, o->in[i], err);
    for (int i = 0; i < OP_OUT_MAX && !s; i++) s = type_is_run(seg, o, o->out[i], err);
    return s;
}

static status bind_op(bound_op *b, const segment *seg, const op *o, bool plain, error *err)
{
    int n_rows;
    const kernel *rows = kernels_cpu(&n_rows);
    b->types = seg_op_types(seg, o);
    const kernel *k = kernel_pick(rows, n_rows, o, &b->types, plain);
    if (!k)
        return error_set(err, ERR_MACHINE, "operation %s (%s): no kernel on this machine", o->name,
                         op_infos[o->kind].name);
    assert(kernel_workspace_of(k, o, &b->types) <= workspace_bytes(target_row_cpu(), seg, o));
    status s = k->prepare ? k->prepare(o, &b->types, &b->state, err) : OK;
    if (!s) b->row = k;
    return s;
}

static status bind_ops(executor *e, bound_segment *b, int phase, bool plain, error *err)
{
    const segment *seg = b->seg;
    b->ops[phase] = ARENA_ARRAY(e->memory, bound_op, seg->n_ops[phase] + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        if (!(o->flags & ACROSS) && o->event > b->n_events[phase]) b->n_events[phase] = o->event;
        status s = op_is_comm(o->kind) ? comm_can(o, err) : types_are_run(seg, o, err);
        if (s) return s;
        if (op_is_comm(o->kind) || o->kind == OP_WAIT) continue;
        s = bind_op(&b->ops[phase][i], seg, o, plain, err);
        if (s) return s;
    }
    return OK;
}

static void release_ops(executor *e)
{
    for (int i = 0; e->segments && i < e->p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; e->segments[i].ops[phase] && k < e->p->segments[i]->n_ops[phase]; k++) {
                bound_op *b = &e->segments[i].ops[phase][k];
                if (b->row && b->row->release) b->row->release(b->state);
            }
}

static const bound_segment *bound_of(const executor *e, const segment *seg)
{
    for (int i = 0; i < e->p->n_segments; i++)
        if (e->segments[i].seg == seg) return &e->segments[i];
    return NULL;
}

static status bind_segments(executor *e, bool plain, error *err)
{
    const program *p = e->p;
    int events = 0;
    e->segments = ARENA_ARRAY(e->memory, bound_segment, p->n_segments);
    for (int i = 0; i < p->n_segments; i++) {
        e->segments[i].seg = p->segments[i];
        for (int phase = 0; phase < 2; phase++) {
            status s = bind_ops(e, &e->segments[i], phase, plain, err);
            if (s) return s;
            int n = e->segments[i].n_events[phase];
            if (n > events) events = n;
        }
    }
    e->requests = ARENA_ARRAY(e->memory, int, events + 1);
    e->n_requests = events + 1;
    e->across = ARENA_ARRAY(e->memory, int, p->n_events + 1);
    for (int i = 0; i <= p->n_events; i++) e->across[i] = NO_REQUEST;
    return OK;
}

static void bind_items(executor *e)
{
    for (int part = 0; part < PART_COUNT; part++) {
        const item_list *l = &e->p->items[part];
        e->items[part] = arena_take(e->memory, sizeof *e->items[part] * (size_t)l->n);
        for (int64_t i = 0; i < l->n; i++) {
            int n = l->list[i].seg->n_bufs;
            e->items[part][i].seg = bound_of(e, l->list[i].seg);
            e->items[part][i].place = ARENA_ARRAY(e->memory, int64_t, n + 1);
            for (int id = 0; id < n; id++)
                e->items[part][i].place[id] = program_place(e->p, &l->list[i], id);
        }
    }
}

static void bind_kinds(executor *e, bound_segment *b, int phase, const cost_model *cost)
{
    const segment *seg = b->seg;
    b->kind[phase] = ARENA_ARRAY(e->memory, cost_kind, seg->n_ops[phase] + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++)
        b->kind[phase][i] = cost_of(cost, seg, &seg->ops[phase][i]).kind;
}

void executor_time(executor *e, timing *t, const cost_model *cost)
{
    e->times = t;
    e->request_kind = ARENA_ARRAY(e->memory, cost_kind, e->n_requests);
    e->across_kind = ARENA_ARRAY(e->memory, cost_kind, e->p->n_events + 1);
    e->message_kind = COST_OTHER;
    for (int i = 0; i < e->p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++) bind_kinds(e, &e->segments[i], phase, cost);
}

/* What the CPU's kernels want beside the buffers of a program that was not planned for them. */
static int64_t unplanned_bytes(const program *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->n_segments && target_row_of(p->s) != target_row_cpu(); i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p->segments[i]->n_ops[phase]; k++) {
                const segment *seg = p->segments[i];
                int64_t n = workspace_bytes(target_row_cpu(), seg, &seg->ops[phase][k]);
                if (n > most) most = n;
            }
    return most;
}

static status take_arena(executor *e, error *err)
{
    int64_t planned = e->p->arena_bytes + e->p->host_bytes + e->p->staging_bytes;
    int64_t beside = unplanned_bytes(e->p);
    planned = round_up(planned, WORKSPACE_ALIGN);
    e->bytes = (size_t)add_sat(planned, beside);
    e->arena = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->arena != MAP_FAILED) {
        int64_t own = e->p->offset[REGION_TEMP] + e->p->workspace_offset;
        e->workspace = e->arena + (beside ? planned : own);
        return OK;
    }
    e->arena = NULL;
    return error_set(err, ERR_MACHINE, "cannot allocate %s for the planned arena: %s",
                     text_bytes(e->memory, (int64_t)e->bytes), strerror(errno));
}

status executor_open(executor **out, const program *p, comm *c, bool plain, error *err)
{
    executor *e = calloc(1, sizeof *e);
    if (!e) return error_set(err, ERR_MACHINE, "cannot allocate the executor: out of host memory");
    e->p = p;
    e->c = c;
    e->memory = arena_create();
    status s = take_arena(e, err);
    if (!s) s = bind_segments(e, plain, err);
    if (!s && !c) s = comm_open_self(&e->own, err);
    if (!s && !c) s = comm_groups(e->own, p->s, err);
    if (s) {
        executor_close(e);
        return s;
    }
    if (!c) e->c = e->own;
    bind_items(e);
    *out = e;
    return OK;
}

void executor_close(executor *e)
{
    if (!e) return;
    release_ops(e);
    if (e->own) comm_close(e->own);
    if (e->arena) munmap(e->arena, e->bytes);
    arena_destroy(e->memory);
    free(e);
}

/* ---- running */

static void wait_for(executor *e, int *request)
{
    if (*request == NO_REQUEST) return;
    comm_wait(e->c, *request);
    *request = NO_REQUEST;
}

static void run_op(executor *e, const struct bound_item *it, int phase, int k)
{
    const op *o = &it->seg->seg->ops[phase][k];
    bool across = (o->flags & ACROSS) != 0;
    if (o->kind == OP_WAIT) { /* I1 */
        int64_t event = o->dim[DIM_WAIT_EVENT];
        wait_for(e, across ? &e->across[event] : &e->requests[event]);
        return;
    }
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    for (int n = 0; n < OP_IN_MAX; n++)
        in[n] = o->in[n] < 0 ? NULL : e->arena + it->place[o->in[n]];
    for (int n = 0; n < OP_OUT_MAX; n++)
        out[n] = o->out[n] < 0 ? NULL : e->arena + it->place[o->out[n]];
    if (!op_is_comm(o->kind)) {
        const bound_op *b = &it->seg->ops[phase][k];
        b->row->launch(&(kernel_call){.row = b->row,
                                      .o = o,
                                      .types = &b->types,
                                      .in = in,
                                      .out = out,
                                      .workspace = e->workspace,
                                      .state = b->state});
        return;
    }
    int *request = across ? &e->across[o->event] : &e->requests[o->event];
    assert(*request == NO_REQUEST);
    *request = comm_start(e->c, o, in, out);
}

/* ---- times */

static void add_time(executor *e, cost_kind k)
{
    double now = clock_seconds();
    timing_add(e->times, k, now - e->last);
    e->last = now;
}

/* The operation has returned: its time is its own, or that of the message it waited for. */
static void time_op(executor *e, const struct bound_item *it, int phase, int k)
{
    const op *o = &it->seg->seg->ops[phase][k];
    cost_kind kind = it->seg->kind[phase][k];
    cost_kind *kinds = o->flags & ACROSS ? e->across_kind : e->request_kind;
    if (o->kind == OP_WAIT) {
        kind = kinds[o->dim[DIM_WAIT_EVENT]];
    } else if (op_is_comm(o->kind)) {
        kinds[o->event] = kind;
        e->message_kind = kind;
    }
    add_time(e, kind);
}

/* Collective, as running is. Where it is done at the first item all ranks have opened theirs: none
 * leaves alone between the two. */
static void join(executor *e)
{
    comm_use use = {{{false}}};
    for (int i = 0; i < e->p->n_segments; i++) {
        const segment *seg = e->p->segments[i];
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < seg->n_ops[phase]; k++) comm_use_add(&use, &seg->ops[phase][k]);
    }
    comm_streams(e->c, &use);
    e->joined = true;
}

void executor_item(executor *e, item_part part, int64_t i)
{
    if (!e->joined) join(e);
    const struct bound_item *it = &e->items[part][i];
    int phase = e->p->items[part].list[i].phase;
    const segment *seg = it->seg->seg;
    for (int n = 0; n <= it->seg->n_events[phase]; n++) e->requests[n] = NO_REQUEST;
    bool timed = e->times && part_is_played(part);
    if (timed) e->last = clock_seconds();
    for (int k = 0; k < seg->n_ops[phase]; k++) {
        comm_where(e->c, seg->name, seg->ops[phase][k].name);
        run_op(e, it, phase, k);
        if (timed) time_op(e, it, phase, k);
        comm_progress(e->c); /* I2 */
        if (timed && comm_size(e->c) > 1) add_time(e, e->message_kind);
    }
}

void executor_part(executor *e, item_part part)
{
    for (int64_t i = 0; i < e->p->items[part].n; i++) executor_item(e, part, i);
}

/* ---- addresses */

void *executor_region(const executor *e, region r)
{
    return e->arena + e->p->offset[r];
}

void *executor_step_buffer(const executor *e, step_buffer which)
{
    return e->arena + e->p->offset[REGION_STEP] + e->p->step_offset[which];
}

void *executor_staging(const executor *e, step_buffer which)
{
    return e->arena + program_staging(e->p, which);
}

void executor_fill(executor *e, unsigned char pattern)
{
    memset(e->arena, pattern, e->bytes);
}

unsigned char *executor_arena(const executor *e)
{
    return e->arena;
}
