/* executor_bind.c - kernels, events and addresses of every operation, found once.
 *
 * I1  Events of the device: those of a list first, the same for all lists, since a wait is for the
 *     last record before it; then those of the program. Only what is waited for is recorded. */
#include <assert.h>
#include <pthread.h>

#include "base/maths.h"
#include "ir/target.h"
#include "train/executor/executor_state.h"

/* ---- kernels */

/* A format that no kernel takes, or sizes. */
static status no_kernel(const device_table *table, const op *o, const op_types *t, error *err)
{
    const char *format = NULL;
    for (int i = 0; i < OP_IN_MAX + OP_OUT_MAX; i++) {
        dtype d = i < OP_IN_MAX ? t->in[i] : t->out[i - OP_IN_MAX];
        if (d != DTYPE_F32 && d != DTYPE_BF16 && d != DTYPE_I32) format = dtype_name(d);
    }
    return error_set(err, ERR_MACHINE, "operation %s (%s): %s%sdevice %s has no kernel for it%s",
                     o->name, op_infos[o->kind].name, format ? format : "", format ? ": " : "",
                     table->name, format ? "; repair: mixed_precision=bf16_mixed" : "");
}

/* Ranks that are threads meet libraries that have just been opened: one after another. */
static status prepare(const kernel *k, const op *o, bound_op *b, error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!k->prepare) return OK;
    pthread_mutex_lock(&lock);
    status s = k->prepare(o, &b->types, &b->state, err);
    pthread_mutex_unlock(&lock);
    return s;
}

static status bind_row(const executor *e, bound_op *b, const segment *seg, const op *o, error *err)
{
    int n_rows;
    const device_table *table = e->d->table;
    const kernel *rows = table->rows(&n_rows);
    b->types = seg_op_types(seg, o);
    const kernel *k = kernel_pick(rows, n_rows, o, &b->types, e->plain);
    if (!k) return no_kernel(table, o, &b->types, err);
    assert(kernel_workspace_of(k, o, &b->types) <= workspace_bytes(table->target(), seg, o));
    if (e->c) comm_where(e->c, "preparing", o->name);
    TRY(prepare(k, o, b, err));
    b->row = k;
    return OK;
}

static status bind_op(const executor *e, bound_op *b, const segment *seg, const op *o, error *err)
{
    b->event = NO_EVENT;
    if (o->kind == OP_WAIT) return OK;
    if (op_is_comm(o->kind)) return comm_can(o, err);
    return bind_row(e, b, seg, o, err);
}

/* ---- events */

static int event_of(const executor *e, const op *o) /* I1 */
{
    int64_t event = o->kind == OP_WAIT ? o->dim[DIM_WAIT_EVENT] : o->event;
    return (int)event + (o->flags & ACROSS ? e->n_list_events : 0);
}

static void count_events(executor *e)
{
    e->n_list_events = 1;
    for (int i = 0; i < e->p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < e->p->segments[i]->n_ops[phase]; k++) {
                const op *o = &e->p->segments[i]->ops[phase][k];
                if (!(o->flags & ACROSS) && o->event >= e->n_list_events)
                    e->n_list_events = o->event + 1;
            }
    e->n_events = e->n_list_events + e->p->n_events + 1;
}

/* A wait names its event; an operation before it is to record it. */
static void bind_events(const executor *e, bound_segment *b, int phase, bool *awaited)
{
    const op *ops = b->seg->ops[phase];
    for (int i = 0; i < e->n_list_events; i++) awaited[i] = false;
    for (int k = b->seg->n_ops[phase] - 1; k >= 0; k--) {
        int event = event_of(e, &ops[k]);
        bool wait = ops[k].kind == OP_WAIT;
        if (wait) awaited[event] = true;
        if (wait || (awaited[event] && event > 0)) b->ops[phase][k].event = event;
    }
    b->starts[phase] = awaited[0];
}

/* ---- segments and items */

static status bind_ops(executor *e, bound_segment *b, int phase, bool *awaited, error *err)
{
    const segment *seg = b->seg;
    b->ops[phase] = ARENA_ARRAY(e->memory, bound_op, seg->n_ops[phase] + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++)
        TRY(bind_op(e, &b->ops[phase][i], seg, &seg->ops[phase][i], err));
    bind_events(e, b, phase, awaited);
    return OK;
}

static status bind_segments(executor *e, error *err)
{
    const program *p = e->p;
    count_events(e);
    bool *awaited = ARENA_ARRAY(e->memory, bool, e->n_events);
    for (int i = e->n_list_events; i < e->n_events; i++) awaited[i] = true;
    e->segments = ARENA_ARRAY(e->memory, bound_segment, p->n_segments + 1);
    for (int i = 0; i < p->n_segments; i++) {
        e->segments[i].seg = p->segments[i];
        for (int phase = 0; phase < 2; phase++)
            TRY(bind_ops(e, &e->segments[i], phase, awaited, err));
    }
    return e->d->table->events(e->d, e->n_events, err);
}

static const bound_segment *bound_of(const executor *e, const segment *seg)
{
    for (int i = 0; i < e->p->n_segments; i++)
        if (e->segments[i].seg == seg) return &e->segments[i];
    return NULL;
}

static device_place place_of(const program *p, const item *it)
{
    device_place place = {it->seg->name, {-1, -1}, {-1, -1}};
    bool pair = it->seg->kind == SEGMENT_PAIR, layers = pair || it->seg->kind == SEGMENT_LAYER;
    for (int half = 0; half < 2; half++) {
        const item_at *at = &it->at[pair ? half : 0];
        if (at->chunk < 0) continue;
        place.micro[half] = at->micro;
        if (layers) place.layer[half] = p->chunks[at->chunk].list[at->instance].layer;
    }
    return place;
}

static void *pointer_at(const executor *e, int64_t place)
{
    return place < 0 ? NULL : e->d->table->pointer(e->d, executor_address(e, place));
}

/* Of a packed step each operation has its own. */
static void bind_workspace(const executor *e, bound_item *b, const item *it)
{
    int n = it->seg->n_ops[it->phase];
    if (!it->work || e->unplanned) return;
    b->work = ARENA_ARRAY(e->memory, void *, n + 1);
    for (int k = 0; k < n; k++) b->work[k] = pointer_at(e, it->work[k]);
}

static void bind_items(executor *e)
{
    for (int part = 0; part < PART_COUNT; part++) {
        const item_list *l = &e->p->items[part];
        e->items[part] = ARENA_ARRAY(e->memory, bound_item, l->n + 1);
        for (int64_t i = 0; i < l->n; i++) {
            int n = l->list[i].seg->n_bufs;
            bound_item *it = &e->items[part][i];
            it->seg = bound_of(e, l->list[i].seg);
            it->place = place_of(e->p, &l->list[i]);
            it->at = ARENA_ARRAY(e->memory, void *, n + 1);
            for (int id = 0; id < n; id++)
                it->at[id] = pointer_at(e, program_place(e->p, &l->list[i], id));
            bind_workspace(e, it, &l->list[i]);
        }
    }
}

status executor_bind(executor *e, error *err)
{
    e->memory = arena_create();
    TRY(bind_segments(e, err));
    bind_items(e);
    return executor_graphs(e, err);
}

void executor_unbind(executor *e)
{
    for (int i = 0; e->segments && i < e->p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; e->segments[i].ops[phase] && k < e->p->segments[i]->n_ops[phase]; k++) {
                bound_op *b = &e->segments[i].ops[phase][k];
                if (b->row && b->row->release) b->row->release(b->state);
            }
    if (e->memory) arena_destroy(e->memory);
    e->segments = NULL;
    e->memory = NULL;
    e->graphs = NULL;
    e->times = NULL;
    e->clock = NULL;
}
