/* messages.c - messages between all ranks, by size.
 *
 * Bytes are those that a rank sends to others by definition (comm.h), whatever the library does.
 *
 * I1  On a CPU comm moves messages: one is started and waited for at once, so its whole time is
 *     seen.
 * I2  A device that runs ahead moves them on its streams, from its memory to its memory. The host
 *     puts several into the stream before it waits, as it is ahead in a step: what it takes to
 *     learn that a stream is through is no part of a message. What ranks do to meet is one, as in a
 *     run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "backend/device/rendezvous.h"
#include "measure/bench/microbench.h"

enum { LATENCIES = 2 };

static const struct {
    const char *name;
    op_kind kind;
} kinds[MEASURED_MESSAGES] = {
    [MEASURED_SHIFT] = {"shift", OP_SHIFT},
    [MEASURED_GATHER] = {"all-gather", OP_ALL_GATHER},
    [MEASURED_REDUCE] = {"reduce-scatter", OP_REDUCE_SCATTER},
    [MEASURED_ALL_TO_ALL] = {"all-to-all", OP_ALL_TO_ALL},
    [MEASURED_EXCHANGE] = {"exchange", OP_EXCHANGE},
};

const char *measured_message_name(measured_message m)
{
    return kinds[m].name;
}

static int points(const microbench *j)
{
    const int n = j->scale->messages.n;
    return j->o->rows && j->o->rows < n ? j->o->rows : n;
}

int measure_messages_count(const microbench *j)
{
    return j->ranks > 1 ? LATENCIES + MEASURED_MESSAGES * points(j) : 0;
}

/* `bytes` leave this rank; n floats go to each other member, or round the ring. */
static op message_of(const microbench *j, measured_message m, double bytes)
{
    op o = {.kind = kinds[m].kind, .group = GROUP_WORLD, .stream = STREAM_COMM};
    int32_t others = (int32_t)(m == MEASURED_SHIFT ? 1 : j->ranks - 1);
    int32_t n = (int32_t)(bytes / 4) / others;
    if (n < 1) n = 1;
    o.name = "bench";
    o.out[OUT_REDUCE_SCATTER_left] = -1;
    o.dim[DIM_MESSAGE_N] = n;
    if (op_is(o.kind, STEPPED)) o.dim[DIM_MESSAGE_STEP] = 1;
    if (op_is(o.kind, BY_TABLE))
        o.dim[DIM_EXCHANGE_ROOM] = (int64_t)n * j->ranks, o.dim[DIM_EXCHANGE_W] = 1;
    return o;
}

/* Of an exchange of rows of one float: where they start and how many they are, of what goes and of
 * what comes. */
static void write_table(microbench *j, const op *o)
{
    const int32_t ranks = (int32_t)j->ranks, n = (int32_t)o->dim[DIM_EXCHANGE_ROOM] / ranks;
    for (int32_t i = 0; i < 4 * ranks && op_is(o->kind, BY_TABLE); i++) {
        device_address at = microbench_tables(j);
        int32_t x = i / ranks % 2 ? n : i % ranks * n;
        at.offset += i * (int64_t)sizeof x;
        j->d->table->write(j->d, at, &x, sizeof x);
    }
}

static comm_use stream_used(void)
{
    comm_use use = {{{false}}};
    use.on[GROUP_WORLD][STREAM_COMM] = true;
    return use;
}

/* ---- the device's way */

/* As a run does before its first item: whoever fails ends the job, since others wait for it. */
void measure_messages_join(microbench *j, measured *m)
{
    const scale_list *sizes = &j->scale->messages;
    device_traffic t = {.use = stream_used()};
    error err = {{0}};
    for (int k = 0; k < MEASURED_MESSAGES; k++) {
        op o = message_of(j, (measured_message)k, sizes->x[sizes->n - 1]);
        op_types types = {.in_elements = {[IN_MESSAGE_x] = o.dim[DIM_EXCHANGE_ROOM]}};
        int64_t bytes = rendezvous_sent(&o, &types, j->ranks);
        if (bytes > t.sent[STREAM_COMM]) t.sent[STREAM_COMM] = bytes;
    }
    comm_streams(j->c, &t.use);
    if (j->d->table->join && j->d->table->join(j->d, &t, &err)) {
        error_prefix(&err, ERR_MACHINE, "bench: messages between %d ranks of device %s",
                     (int)j->ranks, j->d->table->name);
        comm_abort(j->c, ERR_MACHINE, err.text);
    }
    device_attach(j->d, j->c);
    const char *how = j->d->table->transport ? j->d->table->transport(j->d) : NULL;
    const char *own = comm_shares_process(j->c) ? "threads of one process" : "MPI";
    snprintf(m->transport, sizeof m->transport, "%s", how ? how : own);
}

void measure_messages_leave(microbench *j)
{
    j->d->table->sync(j->d);
    device_detach(j->c);
    if (j->d->table->leave) j->d->table->leave(j->d);
}

/* ---- times */

/* Seconds of a message, of n in a row. */
static double some(microbench *j, const op *o, int n)
{
    const device_table *t = j->d->table;
    void *in[OP_IN_MAX] = {t->pointer(j->d, microbench_in(j)),
                           t->pointer(j->d, microbench_tables(j))};
    void *out[OP_OUT_MAX] = {t->pointer(j->d, microbench_out(j))};
    double start = clock_seconds();
    if (j->o->messages) { /* I2 */
        for (int i = 0; i < n; i++) t->message(j->d, o->stream, o, in, out);
        t->record(j->d, o->stream, 0);
        t->wait_here(j->d, 0);
    } else {
        comm_wait(j->c, comm_start(j->c, o, in, out)); /* I1 */
    }
    return (clock_seconds() - start) / n;
}

/* In a row, of messages that take so long: as many as take a millisecond and a half. */
static int in_a_row(const microbench *j, double seconds)
{
    enum { MOST = 64 };
    double n = 1.5e-3 / seconds;
    return !j->o->messages || n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

/* Every rank sends as often: how often follows from the slowest rank's first times. */
static double seconds_of(microbench *j, const op *o)
{
    enum { FIRST = 3 };
    double first = 0;
    write_table(j, o);
    microbench_barrier(j);
    for (int i = 0; i < FIRST; i++) first = some(j, o, 1);
    comm_max(j->c, GROUP_WORLD, &first, 1);
    if (first < 1e-7) first = 1e-7;
    int row = in_a_row(j, first);
    double wanted = j->window / (first * row);
    int n = wanted < FIRST ? FIRST : wanted > ROOM_TIMES ? ROOM_TIMES : (int)wanted;
    microbench_barrier(j);
    for (int i = 0; i < n; i++) j->times[i] = some(j, o, row);
    microbench_step(j);
    return microbench_mean(j, microbench_typical(j, n));
}

/* One round: until all are over, the curves have messages a second. */
void measure_messages(microbench *j, measured *m)
{
    const double *sizes = j->scale->messages.x;
    comm_use use = stream_used();
    comm_streams(j->c, &use);
    op smallest = message_of(j, MEASURED_SHIFT, 4);
    seconds_of(j, &smallest); /* the library opens its ways */
    double latency = seconds_of(j, &smallest);
    for (int k = 0; k < MEASURED_MESSAGES; k++)
        for (int i = 0; i < points(j); i++) {
            op o = message_of(j, (measured_message)k, sizes[i]);
            double t = seconds_of(j, &o);
            microbench_point(&m->message[k], i, sizes[i], 1 / t);
            latency = fmin(latency, t);
        }
    if (!(m->latency > 0 && m->latency < latency)) m->latency = latency;
}

/* The latency is the least that any message took; it is no part of the rates. */
void measure_messages_end(measured *m)
{
    for (int k = 0; k < MEASURED_MESSAGES; k++)
        for (int i = 0; i < m->message[k].n; i++) {
            double t = 1 / m->message[k].y[i], moving = fmax(t - m->latency, 0.5 * t);
            m->message[k].y[i] = m->message[k].x[i] / moving;
        }
}
