/* messages.c - messages between all ranks, by size.
 *
 * A message is started and waited for at once, so its whole time is seen. Bytes are those that a
 * rank sends to others by definition (comm.h), whatever the library does. */
#include <math.h>

#include "base/clock.h"
#include "run/measure/jig.h"

static const double sizes[] = {256, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

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

static int points(const jig *j)
{
    return j->o->rows && j->o->rows < COUNT(sizes) ? j->o->rows : COUNT(sizes);
}

int measure_messages_count(const jig *j)
{
    return j->ranks > 1 ? LATENCIES + MEASURED_MESSAGES * points(j) : 0;
}

/* `bytes` leave this rank; n floats go to each other member, or round the ring. */
static op message_of(jig *j, measured_message m, double bytes)
{
    op o = {.kind = kinds[m].kind, .group = GROUP_WORLD, .stream = STREAM_COMM};
    int32_t others = (int32_t)(m == MEASURED_SHIFT ? 1 : j->ranks - 1);
    int32_t n = (int32_t)(bytes / 4) / others, ranks = (int32_t)j->ranks;
    int32_t *table = j->d->table->map(j->d, jig_tables(j));
    if (n < 1) n = 1;
    o.name = "bench";
    o.out[OUT_REDUCE_SCATTER_left] = -1;
    o.dim[DIM_MESSAGE_N] = n;
    if (o.kind == OP_SHIFT) o.dim[DIM_SHIFT_STEP] = 1;
    if (o.kind == OP_EXCHANGE)
        o.dim[DIM_EXCHANGE_ROOM] = (int64_t)n * ranks, o.dim[DIM_EXCHANGE_W] = 1;
    for (int32_t r = 0; r < ranks; r++) { /* of an exchange of rows of one float */
        table[r] = table[2 * ranks + r] = r * n;
        table[ranks + r] = table[3 * ranks + r] = n;
    }
    return o;
}

static void open_stream(const jig *j)
{
    comm_use use = {{{false}}};
    use.on[GROUP_WORLD][STREAM_COMM] = true;
    comm_streams(j->c, &use);
}

static double one(jig *j, const op *o)
{
    const device_table *t = j->d->table;
    void *in[OP_IN_MAX] = {t->map(j->d, jig_in(j)), t->map(j->d, jig_tables(j))};
    void *out[OP_OUT_MAX] = {t->map(j->d, jig_out(j))};
    double start = clock_seconds();
    comm_wait(j->c, comm_start(j->c, o, in, out));
    return clock_seconds() - start;
}

/* Every rank sends as often: how often follows from the slowest rank's first times. */
static double seconds_of(jig *j, const op *o)
{
    enum { FIRST = 3 };
    double first = 0;
    jig_barrier(j);
    for (int i = 0; i < FIRST; i++) first = one(j, o);
    comm_max(j->c, GROUP_WORLD, &first, 1);
    double wanted = j->window / (first > 1e-7 ? first : 1e-7);
    int n = wanted < FIRST ? FIRST : wanted > ROOM_TIMES ? ROOM_TIMES : (int)wanted;
    jig_barrier(j);
    for (int i = 0; i < n; i++) j->times[i] = one(j, o);
    jig_step(j);
    return jig_mean(j, jig_typical(j, n));
}

/* One round: until all are over, the curves have messages a second. */
void measure_messages(jig *j, measured *m)
{
    open_stream(j);
    op smallest = message_of(j, MEASURED_SHIFT, 4);
    seconds_of(j, &smallest); /* the library opens its ways */
    double latency = seconds_of(j, &smallest);
    for (int k = 0; k < MEASURED_MESSAGES; k++)
        for (int i = 0; i < points(j); i++) {
            op o = message_of(j, (measured_message)k, sizes[i]);
            double t = seconds_of(j, &o);
            jig_point(&m->message[k], i, sizes[i], 1 / t);
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
