/* test_device.c - what every device must do: spaces, streams in order, events, messages in streams.
 *
 * Work is a kernel that notes when it ran; random lists of work, records and waits are run on each
 * device, and what ran when is compared with what the list allows. */
#include <stdatomic.h>
#include <time.h>

#include "comm/running.h"
#include "backend/device/device.h"

static device *opened(const char *name, comm *c)
{
    device *d = NULL;
    error err = {{0}};
    if (device_open(&d, &(device_options){.name = name}, c, &err)) fail_msg("%s", err.text);
    return d;
}

static comm *alone(void)
{
    comm *c;
    error err = {{0}};
    if (comm_open_self(&c, &err)) fail_msg("%s", err.text);
    return c;
}

static const char *const devices[] = {"cpu", "deferred:1", "deferred:2", "peers", "peers:late=3"};
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

/* ---- names */

static void a_name_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"abacus",     "cpu:1",           "deferred",
                                        "deferred:x", "deferred:1,deaf", "deferred:1,deaf=99"};
    for (int i = 0; i < 6; i++) {
        device *d = NULL;
        error err = {{0}};
        assert_int_equal(device_open(&d, &(device_options){.name = names[i]}, NULL, &err),
                         ERR_MACHINE);
        assert_null(d);
        if (!strstr(err.text, names[i])) fail_msg("%s is not named: %s", names[i], err.text);
    }
}

/* ---- memory */

static void spaces_hold_what_is_written(void **state)
{
    (void)state;
    enum { BYTES = 10000 };
    comm *c = alone();
    for (int i = 0; i < N_DEVICES; i++) {
        device *d = opened(devices[i], c);
        const device_table *t = d->table;
        unsigned char out[BYTES], in[BYTES];
        error err;
        for (int k = 0; k < BYTES; k++) in[k] = (unsigned char)(k * 7);
        for (int s = 0; s < SPACE_COUNT; s++) {
            device_address at = {(device_space)s, 64};
            assert_int_equal(t->take(d, (device_space)s, BYTES + 64, &err), OK);
            t->read(d, out, at, BYTES);
            for (int k = 0; k < BYTES; k++) assert_int_equal(out[k], 0);
            t->write(d, at, in, BYTES);
            t->fill(d, (device_address){(device_space)s, 64 + 100}, 9, 50);
        }
        void *first = t->pointer(d, (device_address){SPACE_STATE, 0});
        assert_int_equal(t->take(d, SPACE_WORK, 3 * BYTES, &err), OK);
        assert_ptr_equal(t->pointer(d, (device_address){SPACE_STATE, 0}), first);
        t->copy(d, STREAM_COPY, (device_address){SPACE_WORK, 8}, (device_address){SPACE_STATE, 64},
                BYTES);
        t->sync(d);
        t->read(d, out, (device_address){SPACE_WORK, 8}, BYTES);
        for (int k = 0; k < BYTES; k++) assert_int_equal(out[k], k >= 100 && k < 150 ? 9 : in[k]);
        device_close(d);
    }
    comm_close(c);
}

static void memory_that_is_not_there_is_refused(void **state)
{
    (void)state;
    device *d = opened("cpu", NULL);
    error err = {{0}};
    assert_int_equal(d->table->take(d, SPACE_WORK, (int64_t)1 << 60, &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "cannot allocate"));
    device_close(d);
}

/* ---- order */

enum { WORK_MAX = 6000, STREAMS = 4, EVENTS = 5 };

typedef struct history {
    int ran[WORK_MAX]; /* when; 0: not yet */
    atomic_int n;      /* streams of `peers` are threads */
} history;

static void note(const kernel_call *c)
{
    history *h = c->out[0];
    h->ran[c->o->dim[0]] = atomic_fetch_add(&h->n, 1) + 1;
}

static const kernel noting = {.name = "note", .launch = note};

typedef struct listing {
    uint64_t x;
    op ops[WORK_MAX];
    int n;
    int last[STREAMS];           /* the work at the end of each stream, or -1 */
    int event[EVENTS];           /* the work that each event stands for, or -1 */
    int needs[WORK_MAX][EVENTS]; /* what had to run before, or -1 */
    int waits[STREAMS][EVENTS];  /* of a stream, for its next work */
} listing;

static uint64_t below(listing *l, uint64_t n)
{
    l->x ^= l->x << 13;
    l->x ^= l->x >> 7;
    l->x ^= l->x << 17;
    return l->x % n;
}

static void launch(device *d, listing *l, int stream, history *h)
{
    static const op_types none;
    op *o = &l->ops[l->n];
    void *in[OP_IN_MAX] = {NULL}, *out[OP_OUT_MAX] = {h};
    *o = (op){.dim = {l->n}};
    d->table->launch(d, (op_stream)stream,
                     &(kernel_call){.row = &noting, .o = o, .types = &none, .in = in, .out = out});
    for (int e = 0; e < EVENTS; e++) {
        l->needs[l->n][e] = l->waits[stream][e];
        l->waits[stream][e] = -1;
    }
    l->last[stream] = l->n++;
}

/* Streams 0 .. of the device, the compute stream first. */
static void put_some(device *d, listing *l, history *h, int n)
{
    memset(l->last, -1, sizeof l->last);
    memset(l->event, -1, sizeof l->event);
    memset(l->waits, -1, sizeof l->waits);
    while (l->n < n) {
        int stream = (int)below(l, STREAMS), e = (int)below(l, EVENTS);
        switch (below(l, 4)) {
        case 0:
            d->table->record(d, (op_stream)stream, e);
            l->event[e] = l->last[stream];
            break;
        case 1:
            d->table->wait(d, (op_stream)stream, e);
            if (l->event[e] > l->waits[stream][e]) l->waits[stream][e] = l->event[e];
            break;
        default:
            launch(d, l, stream, h);
        }
    }
}

static void check_order(const listing *l, const history *h)
{
    for (int i = 0; i < l->n; i++) {
        assert_true(h->ran[i] > 0);
        for (int e = 0; e < EVENTS; e++)
            if (l->needs[i][e] >= 0) assert_true(h->ran[l->needs[i][e]] < h->ran[i]);
    }
}

static bool in_order(const history *h, int n)
{
    for (int i = 0; i < n; i++)
        if (h->ran[i] != i + 1) return false;
    return true;
}

static void random_lists_run_as_their_waits_allow(void **state)
{
    (void)state;
    comm *c = alone();
    listing *l = malloc(sizeof *l);
    history *h = malloc(sizeof *h);
    int others = 0;
    for (int seed = 0; seed < 60; seed++) {
        char name[32];
        error err;
        snprintf(name, sizeof name, seed ? "deferred:%d" : "cpu", seed);
        device *d = opened(name, c);
        memset(l, 0, sizeof *l);
        memset(h, 0, sizeof *h);
        l->x = 88172645463325252u + (uint64_t)seed;
        assert_int_equal(d->table->events(d, EVENTS, &err), OK);
        put_some(d, l, h, seed % 10 ? 300 : WORK_MAX); /* more than queues hold */
        d->table->settle(d);
        check_order(l, h);
        if (seed == 0) assert_true(in_order(h, l->n));
        others += !in_order(h, l->n);
        d->table->sync(d);
        device_close(d);
    }
    assert_true(others > 50);
    free(l);
    free(h);
    comm_close(c);
}

/* ---- events */

static void an_event_is_the_record_before_the_wait(void **state)
{
    (void)state;
    comm *c = alone();
    device *d = opened("deferred:3", c);
    history h = {.n = 0};
    listing *l = calloc(1, sizeof *l);
    error err;
    memset(l->waits, -1, sizeof l->waits);
    assert_int_equal(d->table->events(d, 2, &err), OK);
    assert_true(d->table->is_complete(d, 0)); /* never recorded */
    d->table->wait_here(d, 0);
    launch(d, l, 0, &h);
    d->table->record(d, STREAM_COMPUTE, 0);
    d->table->wait(d, (op_stream)1, 0);
    launch(d, l, 0, &h); /* moves the event: the wait above is for the first work only */
    d->table->record(d, STREAM_COMPUTE, 0);
    launch(d, l, 1, &h);
    d->table->record(d, (op_stream)1, 1);
    d->table->wait_here(d, 1);
    assert_true(h.ran[0] > 0 && h.ran[2] > h.ran[0]);
    assert_true(d->table->is_complete(d, 1));
    d->table->wait_here(d, 0);
    assert_true(h.ran[1] > 0);
    device_close(d);
    comm_close(c);
    free(l);
}

/* ---- stamps */

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(const kernel_call *c)
{
    note(c);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static const kernel napping = {.name = "nap", .launch = nap};

static void launch_nap(device *d, op *o, int stream, history *h)
{
    static const op_types none;
    void *in[OP_IN_MAX] = {NULL}, *out[OP_OUT_MAX] = {h};
    d->table->launch(d, (op_stream)stream,
                     &(kernel_call){.row = &napping, .o = o, .types = &none, .in = in, .out = out});
}

/* Work of 2 ms on two streams, of which one waits for the other; a stamp before and behind each.
 * Taken stamps hold up nobody and change no order. */
static void stamps_stand_where_their_stream_was(void **state)
{
    (void)state;
    enum { NAPS = 6 };
    comm *c = alone();
    for (int i = 0; i < N_DEVICES; i++) {
        device *d = opened(devices[i], c);
        const device_table *t = d->table;
        history h = {.n = 0};
        op ops[NAPS];
        double at[2 * NAPS];
        error err;
        assert_int_equal(t->events(d, 1, &err), OK);
        assert_int_equal(t->stamps(d, 2 * NAPS, &err), OK);
        double before = clock_now(), began = t->stamp_origin(d), after = clock_now();
        assert_true(began >= before && began <= after);
        for (int k = 0; k < NAPS; k++) {
            int stream = k % 2;
            ops[k] = (op){.dim = {k}};
            if (k == 3) t->wait(d, (op_stream)stream, 0);
            t->stamp(d, (op_stream)stream, 2 * k);
            launch_nap(d, &ops[k], stream, &h);
            t->stamp(d, (op_stream)stream, 2 * k + 1);
            if (k == 2) t->record(d, (op_stream)stream, 0);
        }
        for (int k = 0; k < 2 * NAPS; k++) at[k] = t->stamp_read(d, k);
        double end = clock_now() - began;
        for (int k = 0; k < NAPS; k++) {
            assert_true(at[2 * k + 1] - at[2 * k] >= 0.002 && at[2 * k + 1] <= end);
            if (k >= 2) assert_true(at[2 * k] >= at[2 * k - 3]); /* of the same stream */
        }
        assert_true(at[2 * 3] >= at[2 * 2 + 1]); /* the wait */
        t->stamp(d, STREAM_COMPUTE, 0);          /* again: the last one counts */
        assert_true(t->stamp_read(d, 0) >= at[2 * NAPS - 2]);
        t->sync(d);
        device_close(d);
    }
    comm_close(c);
}

/* ---- messages */

enum { N = 5 };

static void gather(device *d, op *o, op_stream s, float *x, float *y)
{
    void *in[OP_IN_MAX] = {x}, *out[OP_OUT_MAX] = {y};
    *o = (op){.kind = OP_ALL_GATHER, .group = GROUP_TP, .stream = s, .name = "test", .dim = {N}};
    d->table->message(d, s, o, in, out);
}

enum { LONG = 9, CHAINS = 2 };
typedef float chain[LONG + 1][2 * N];

/* A chain over three streams in which every message carries what the one before brought; then the
 * compute stream reads. Odd ranks begin other chains first. */
static void check_chain(comm *c, result *r, const char *name)
{
    static const op_stream streams[CHAINS][2] = {{STREAM_COMM, STREAM_DP},
                                                 {STREAM_SEND_FORWARD, STREAM_SEND_BACKWARD}};
    device *d = NULL;
    error err = {{0}};
    op ops[CHAINS][LONG];
    const device_traffic none = {.sent = {0}};
    if (device_open(&d, &(device_options){.name = name}, c, &err) ||
        d->table->events(d, CHAINS * LONG, &err) || d->table->stamps(d, 2 * CHAINS * LONG, &err) ||
        d->table->take(d, SPACE_WORK, CHAINS * sizeof(chain), &err) ||
        (d->table->join && d->table->join(d, &none, &err))) {
        snprintf(r->text, sizeof r->text, "%.200s", err.text);
        return;
    }
    chain *y = d->table->pointer(d, (device_address){SPACE_WORK, 0});
    for (int k = 0; k < CHAINS; k++)
        for (int i = 0; i < 2 * N; i++) y[k][0][i] = (float)(k + 1);
    for (int i = 0; i < LONG; i++)
        for (int m = 0; m < CHAINS; m++) {
            int k = (m + (int)comm_rank(c)) % CHAINS;
            op_stream s = streams[k][i % 2];
            if (i) d->table->wait(d, s, k * LONG + i - 1);
            d->table->stamp(d, s, 2 * (k * LONG + i));
            gather(d, &ops[k][i], s, y[k][i], y[k][i + 1]);
            d->table->record(d, s, k * LONG + i);
            d->table->stamp(d, s, 2 * (k * LONG + i) + 1);
        }
    for (int k = 0; k < CHAINS; k++) d->table->wait_here(d, k * LONG + LONG - 1);
    for (int k = 0; k < CHAINS; k++)
        for (int i = 0; i < 2 * N; i++)
            EXPECT(r, y[k][LONG][i] == (float)(k + 1), "%s: chain %d, element %d is %g", name, k, i,
                   (double)y[k][LONG][i]);
    for (int n = 2; n < CHAINS * LONG; n++)
        if (n % LONG > 1)
            EXPECT(r, d->table->stamp_read(d, 2 * n + 1) >= d->table->stamp_read(d, 2 * n - 3),
                   "%s: message %d ends before the one before it in its stream", name, n);
    d->table->sync(d);
    device_close(d);
}

static void check_messages(comm *c, const setup *s, result *r)
{
    (void)s;
    for (int i = 0; i < N_DEVICES; i++) check_chain(c, r, devices[i]);
    check_chain(c, r, comm_rank(c) % 2 ? "cpu" : "deferred:4");
}

static void messages_of_streams_wait_for_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) on_threads(4, LAYOUT_OF_4, check_messages);
    on_threads(4, LAYOUT_OF_4 "moefold.comm_delay=1us+1GB/s", check_messages);
}

/* The CPU's host is not held up by a wait of a stream that is not its compute stream. */
static void check_host_goes_on(comm *c, const setup *s, result *r)
{
    (void)s;
    device *d = NULL;
    error err = {{0}};
    op ops[2];
    float y[3][2 * N] = {{1, 1, 1, 1, 1}};
    bool first = comm_rank(c) % 2 == 0;
    if (device_open(&d, &(device_options){.name = "cpu"}, c, &err) || d->table->events(d, 2, &err))
        return;
    if (!first) comm_barrier(c, GROUP_WORLD); /* comes only when the others are past the wait */
    gather(d, &ops[0], STREAM_DP, y[0], y[1]);
    d->table->record(d, STREAM_DP, 0);
    d->table->wait(d, STREAM_COMM, 0);
    gather(d, &ops[1], STREAM_COMM, y[1], y[2]);
    d->table->record(d, STREAM_COMM, 1);
    if (first) comm_barrier(c, GROUP_WORLD);
    d->table->wait(d, STREAM_COMPUTE, 1);
    EXPECT(r, y[2][2 * N - 1] == 1, "the last element is %g", (double)y[2][2 * N - 1]);
    d->table->sync(d);
    device_close(d);
}

static void a_wait_of_another_stream_does_not_hold_up_the_host(void **state)
{
    (void)state;
    on_threads(4, LAYOUT_OF_4, check_host_goes_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_is_none_is_refused),
        cmocka_unit_test(spaces_hold_what_is_written),
        cmocka_unit_test(memory_that_is_not_there_is_refused),
        cmocka_unit_test(random_lists_run_as_their_waits_allow),
        cmocka_unit_test(an_event_is_the_record_before_the_wait),
        cmocka_unit_test(stamps_stand_where_their_stream_was),
        cmocka_unit_test(messages_of_streams_wait_for_each_other),
        cmocka_unit_test(a_wait_of_another_stream_does_not_hold_up_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
