/* executor.c - memory of a program, and enqueueing it.
 *
 * I1  Nothing here rests on an operation being done when its call returns: the program's waits say
 *     what must be. Event 0 of a list is the compute stream at its start.
 * I2  Regions up to the optimizer's are SPACE_STATE, which an overflow rerun keeps, as it keeps
 *     SPACE_KEPT. Buffers of the step are not kept: whoever writes them (tables, batches) writes
 *     them again. */
#include "train/executor/executor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "backend/device/cuda.h"
#include "backend/device/log.h"
#include "backend/device/rendezvous.h"
#include "ir/target.h"
#include "train/executor/executor_state.h"

/* ---- memory */

/* What the device's kernels want beside the buffers of a program that was not planned for them. */
static int64_t unplanned_bytes(const executor *e)
{
    int64_t most = 0;
    const program *p = e->p;
    const target_row *own = e->d->table->target();
    for (int i = 0; i < p->n_segments && target_row_of(p->s) != own; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p->segments[i]->n_ops[phase]; k++) {
                const segment *seg = p->segments[i];
                int64_t n = workspace_bytes(own, seg, &seg->ops[phase][k]);
                if (n > most) most = n;
            }
    return most;
}

device_address executor_address(const executor *e, int64_t place)
{
    const int64_t bytes[] = {e->state_bytes, e->work_bytes, e->host_bytes};
    int s = SPACE_STATE;
    for (; s < SPACE_KEPT && place >= bytes[s]; s++) place -= bytes[s];
    return (device_address){(device_space)s, place};
}

static status take_work(executor *e, error *err)
{
    const device_table *table = e->d->table;
    int64_t outside_arena = unplanned_bytes(e), end = round_up(e->work_bytes, WORKSPACE_ALIGN);
    int64_t own = e->p->offset[REGION_TEMP] + e->p->workspace_offset - e->state_bytes;
    e->guard_at = add_sat(end, outside_arena);
    TRY(table->take(e->d, SPACE_WORK, add_sat(e->guard_at, e->guard), err));
    TRY(table->take(e->d, SPACE_HOST, e->host_bytes, err));
    device_address at = {SPACE_WORK, outside_arena ? end : own};
    e->unplanned = outside_arena > 0;
    e->workspace = outside_arena || e->p->workspace_bytes ? table->pointer(e->d, at) : NULL;
    return OK;
}

static void measure(executor *e, const program *p)
{
    e->p = p;
    e->state_bytes = p->offset[REGION_SAVED];
    e->work_bytes = p->arena_bytes - e->state_bytes;
    e->host_bytes = program_kept(p) - p->arena_bytes;
}

/* ---- opening */

/* Algorithms that `bench` tuned for this machine's GPU, unless the job names a file; "": none. */
static const char *tuned_file(const job *j, arena *a)
{
    cuda_gpu found;
    error ignored;
    if (j->cublaslt) return text_equal(j->cublaslt, "none") ? "" : j->cublaslt;
    return device_cuda_look(&found, &ignored) ? "" : device_cuda_tuned(&found, a);
}

/* The device of the options or the environment has what its name says; the job's has its files. */
static status open_device(executor *e, const char *asked, error *err)
{
    static const char file[] = "cublaslt.txt";
    const job *j = &e->p->s->j;
    const char *word = asked ? asked : getenv("MOEFOLD_DEVICE");
    arena *a = arena_create();
    device_options o = {.name = word && *word ? word : "cpu"};
    if (!(word && *word) && j->device == J_DEVICE_CUDA)
        o = (device_options){
            .name = "cuda",
            .cudnn = j->cudnn_path,
            .run_algorithms = j->save ? arena_text(a, "%s/%s", j->save, file) : NULL,
            .earlier_algorithms = j->load ? arena_text(a, "%s/%s", j->load, file) : NULL,
            .tuned_algorithms = tuned_file(j, a)};
    status s = device_open(&e->d, &o, e->c, err);
    arena_destroy(a);
    return s;
}

static status open_alone(executor *e, error *err)
{
    status s = comm_open_self(&e->own, err);
    if (!s) s = comm_groups(e->own, e->p->s, err);
    e->c = e->d->c = e->own;
    return s;
}

status executor_open(executor **out, const program *p, comm *c, executor_options o, error *err)
{
    executor *e = calloc(1, sizeof *e);
    if (!e) return error_set(err, ERR_MACHINE, "cannot allocate the executor: out of host memory");
    e->c = c;
    e->plain = o.plain;
    e->guard = o.guard;
    measure(e, p);
    status s = open_device(e, o.device, err);
    if (!s) s = e->d->table->take(e->d, SPACE_STATE, e->state_bytes, err);
    if (!s) s = e->d->table->take(e->d, SPACE_KEPT, p->kept.bytes, err);
    if (!s) s = take_work(e, err);
    if (!s) s = executor_bind(e, err);
    if (!s && planted_executor) s = planted_executor(&e->planted, err);
    if (!s && !c) s = open_alone(e, err);
    if (s) {
        executor_close(e);
        return s;
    }
    device_attach(e->d, e->c);
    *out = e;
    return OK;
}

status executor_rework(executor *e, const program *p, error *err)
{
    if (p->offset[REGION_SAVED] != e->state_bytes)
        return error_set(err, ERR_MACHINE,
                         "the program that continues has %lld bytes of state, not %lld",
                         (long long)p->offset[REGION_SAVED], (long long)e->state_bytes);
    e->d->table->sync(e->d);
    if (e->joined && e->d->table->leave) e->d->table->leave(e->d);
    executor_unbind(e);
    measure(e, p);
    e->joined = false;
    TRY(take_work(e, err));
    return executor_bind(e, err);
}

void executor_settle(executor *e)
{
    e->d->table->sync(e->d);
    if (e->c && comm_size(e->c) > 1) comm_barrier(e->c, GROUP_WORLD);
}

void executor_close(executor *e)
{
    if (!e) return;
    if (e->d) e->d->table->sync(e->d);
    if (e->c) device_detach(e->c);
    executor_unbind(e);
    device_close(e->d);
    if (e->own) comm_close(e->own);
    free(e);
}

bool executor_runs_ahead(const executor *e)
{
    return e->d->runs_ahead;
}

int64_t executor_outside_arena(executor *e)
{
    return e->d->table->outside_arena(e->d);
}

int executor_gemms(const executor *e, lt_use *list, int room)
{
    return e->d->table->gemms ? e->d->table->gemms(e->d, list, room) : 0;
}

const char *executor_device(const executor *e)
{
    return e->d->table->name;
}

const char *executor_transport(const executor *e)
{
    return e->joined && e->d->table->transport ? e->d->table->transport(e->d) : NULL;
}

/* ---- running */

static void put_op(executor *e, const bound_item *it, const op *o, const bound_op *b, void *work)
{
    const device_table *table = e->d->table;
    if (o->kind == OP_WAIT) {
        table->wait(e->d, o->stream, b->event);
        return;
    }
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    for (int n = 0; n < OP_IN_MAX; n++) in[n] = o->in[n] < 0 ? NULL : it->at[o->in[n]];
    for (int n = 0; n < OP_OUT_MAX; n++) out[n] = o->out[n] < 0 ? NULL : it->at[o->out[n]];
    if (b->row && e->first && executor_met(e, o, b)) {
        /* its kernels are loaded */
    } else if (b->row)
        table->launch(e->d, o->stream,
                      &(kernel_call){.row = b->row,
                                     .o = o,
                                     .types = &b->types,
                                     .in = in,
                                     .out = out,
                                     .workspace = work,
                                     .state = b->state});
    else
        table->message(e->d, o->stream, o, in, out);
    if (b->event != NO_EVENT) table->record(e->d, o->stream, b->event);
}

static void add_traffic(const executor *e, const segment *seg, const op *o, device_traffic *t)
{
    if (!op_is_comm(o->kind)) return;
    op_types types = seg_op_types(seg, o);
    int64_t bytes = rendezvous_sent(o, &types, comm_members(e->c, o->group));
    bool gives = op_is(o->kind, GIVES), takes = op_is(o->kind, TAKES);
    comm_use_add(&t->use, o);
    if (bytes > t->sent[o->stream]) t->sent[o->stream] = bytes;
    if (gives || takes)
        t->step[op_stream_channel(o->stream)] =
            gives ? o->dim[DIM_MESSAGE_STEP] : -o->dim[DIM_MESSAGE_STEP];
}

/* Collective, as running is. Where it is done at the first item all ranks have opened theirs: none
 * leaves alone between the two. */
static void join(executor *e)
{
    device_traffic t = {.sent = {0}};
    for (int i = 0; i < e->p->n_segments; i++) {
        const segment *seg = e->p->segments[i];
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < seg->n_ops[phase]; k++)
                add_traffic(e, seg, &seg->ops[phase][k], &t);
    }
    comm_streams(e->c, &t.use);
    error err = {{0}};
    if (e->d->table->join && e->d->table->join(e->d, &t, &err))
        comm_abort(e->c, ERR_MACHINE, err.text);
    e->joined = true;
}

void executor_begin_item(executor *e, item_part part, int64_t i)
{
    const bound_item *it = &e->items[part][i];
    e->d->place = &it->place;
    if (it->seg->starts[e->p->items[part].list[i].phase])
        e->d->table->record(e->d, STREAM_COMPUTE, 0); /* I1 */
    if (e->clock) op_clock_item(e, part);
}

void executor_put_op(executor *e, item_part part, int64_t i, int k)
{
    const bound_item *it = &e->items[part][i];
    int phase = e->p->items[part].list[i].phase;
    const segment *seg = it->seg->seg;
    const op *o = &seg->ops[phase][k];
    comm_where(e->c, seg->name, o->name);
    if (e->clock) op_clock_start(e, part, i, k, o->stream);
    put_op(e, it, o, &it->seg->ops[phase][k], it->work ? it->work[k] : e->workspace);
    e->put += o->kind != OP_WAIT;
    if (e->planted && o->kind != OP_WAIT) e->planted(o->name);
    if (e->clock) op_clock_end(e, part, it, phase, k);
}

static void put_item(executor *e, item_part part, int64_t i)
{
    const item *it = &e->p->items[part].list[i];
    executor_begin_item(e, part, i);
    for (int k = 0; k < it->seg->n_ops[it->phase]; k++) executor_put_op(e, part, i, k);
}

void executor_item(executor *e, item_part part, int64_t i)
{
    if (!e->joined) join(e);
    put_item(e, part, i);
}

void executor_part(executor *e, item_part part)
{
    if (!e->joined) join(e);
    if (part == PART_STEP && executor_graphs_run(e)) return;
    for (int64_t i = 0; i < e->p->items[part].n; i++) put_item(e, part, i);
}

/* ---- memory, from outside */

/* Bytes from this place on that lie in one space. */
static int64_t together(const executor *e, int64_t place, int64_t bytes)
{
    const int64_t sizes[] = {e->state_bytes, e->work_bytes, e->host_bytes};
    int64_t end = 0;
    for (int i = 0; i < 3; i++) {
        end += sizes[i];
        if (place < end) return bytes < end - place ? bytes : end - place;
    }
    return bytes;
}

void executor_read(executor *e, void *to, int64_t place, int64_t bytes)
{
    unsigned char *at = to;
    e->d->table->sync(e->d);
    for (int64_t n; bytes > 0; at += n, place += n, bytes -= n) {
        n = together(e, place, bytes);
        e->d->table->read(e->d, at, executor_address(e, place), n);
    }
}

void executor_write(executor *e, int64_t place, const void *from, int64_t bytes)
{
    const unsigned char *at = from;
    e->d->table->sync(e->d);
    for (int64_t n; bytes > 0; at += n, place += n, bytes -= n) {
        n = together(e, place, bytes);
        e->d->table->write(e->d, executor_address(e, place), at, n);
    }
}

void executor_fill(executor *e, int64_t place, int64_t bytes, unsigned char byte)
{
    e->d->table->sync(e->d);
    for (int64_t n; bytes > 0; place += n, bytes -= n) {
        n = together(e, place, bytes);
        e->d->table->fill(e->d, executor_address(e, place), byte, n);
    }
}

void executor_differ(executor *e, int64_t place, int64_t bytes, unsigned char byte,
                     unsigned char *map)
{
    e->d->table->sync(e->d);
    for (int64_t n; bytes > 0; place += n, bytes -= n, map += n / 8) {
        assert(place % 8 == 0);
        n = together(e, place, bytes);
        e->d->table->differ(e->d, executor_address(e, place), byte, n, map);
    }
}

void executor_zero_optimizer(executor *e)
{
    const program *p = e->p;
    executor_fill(e, p->offset[REGION_OPTIMIZER], p->optimizer_bytes, 0);
    executor_fill(e, program_kept(p), p->kept.gradients, 0);
}

void executor_guard_fill(executor *e, unsigned char byte)
{
    e->d->table->sync(e->d);
    e->d->table->fill(e->d, (device_address){SPACE_WORK, e->guard_at}, byte, e->guard);
}

int64_t executor_guard_touched(executor *e, unsigned char byte)
{
    unsigned char block[4096];
    int64_t touched = 0;
    e->d->table->sync(e->d);
    for (int64_t at = 0, n; at < e->guard; at += n) {
        n = e->guard - at < (int64_t)sizeof block ? e->guard - at : (int64_t)sizeof block;
        e->d->table->read(e->d, block, (device_address){SPACE_WORK, e->guard_at + at}, n);
        for (int64_t i = 0; i < n; i++) touched += block[i] != byte;
    }
    return touched;
}

void *executor_map(executor *e, int64_t place)
{
    e->d->table->sync(e->d);
    return e->d->table->map(e->d, executor_address(e, place));
}

int64_t executor_step_place(const program *p, step_buffer which)
{
    return p->offset[REGION_STEP] + p->step_offset[which];
}

const void *executor_fetched(const executor *e, step_buffer which)
{
    if (e->clock) op_clock_follow(e);
    e->d->table->sync(e->d);
    return executor_staging(e, which);
}

void *executor_staging(const executor *e, step_buffer which)
{
    return e->d->table->map(e->d, executor_address(e, program_staging(e->p, which)));
}
