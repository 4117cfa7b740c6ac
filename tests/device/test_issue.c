/* test_issue.c - queues before the streams of a device (issue.h): what stands behind a
 * message waits for the record that it was put for, not for a later one of the same event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/hooks_testing.h"
#include "backend/device/issue.h"
#include "backend/device/log.h"

/* ---- a device that writes down what it is given, and partners that come when they are told */

enum { SLOTS = 8192, EVENTS = 4 };

static struct {
    int64_t launched[STREAM_COUNT];
    int64_t kept[SLOTS];           /* of each event: launches of its stream before the record */
    int64_t awaited[STREAM_COUNT]; /* what the last wait of a stream was for */
    bool partners_are_there;
    members who;
    int64_t ranks[2];
} seen;

static void hook_wait(device *d, op_stream s, int slot)
{
    (void)d;
    seen.awaited[s] = seen.kept[slot];
}

static void hook_record(device *d, op_stream s, int slot)
{
    (void)d;
    assert_true(slot >= 0 && slot < issue_slots(EVENTS));
    seen.kept[slot] = seen.launched[s];
}

static void hook_launch(device *d, op_stream s, kernel_call *c, uint32_t number)
{
    (void)d, (void)c, (void)number;
    seen.launched[s]++;
}

static void hook_replay(device *d, int graph, const op *o, uint32_t number)
{
    (void)d, (void)o, (void)number;
    seen.launched[STREAM_COMPUTE] += 100 * (graph + 1);
}

static void hook_point(device *d, issue_point p)
{
    (void)d, (void)p;
}

static void hook_await(device *d, op_stream s, int64_t rank, issue_point theirs)
{
    (void)d, (void)s, (void)rank, (void)theirs;
}

static const issue_hooks hooks = {.wait = hook_wait,
                                  .record = hook_record,
                                  .launch = hook_launch,
                                  .replay = hook_replay,
                                  .point = hook_point,
                                  .await = hook_await,
                                  HOOKS_THAT_DO_NOTHING};

static const members *group(const comm *c, comm_group g)
{
    (void)c, (void)g;
    return &seen.who;
}

static bool is_delayed(const comm *c)
{
    (void)c;
    return false;
}

/* All notes are mine. */
static int meet(comm *c, const op *o, const comm_note *n)
{
    (void)c, (void)o;
    for (int i = 0; i < 2 && !n->last; i++)
        memcpy((char *)n->all + (size_t)i * n->bytes, n->mine, n->bytes);
    return 0;
}

static bool test(comm *c, int request)
{
    (void)c, (void)request;
    return seen.partners_are_there;
}

static void wait(comm *c, int request)
{
    (void)c, (void)request;
}

static int wait_any(comm *c, const int *requests, int n)
{
    (void)c, (void)requests, (void)n;
    seen.partners_are_there = true;
    return 0;
}

static const device_calls calls = {.group = group,
                                   .is_delayed = is_delayed,
                                   .meet = meet,
                                   .test = test,
                                   .wait = wait,
                                   .wait_any = wait_any};

static device *opened(void)
{
    error err;
    device *d = calloc(1, sizeof *d);
    memset(&seen, 0, sizeof seen);
    seen.who = (members){.n = 2, .ranks = seen.ranks};
    seen.ranks[1] = 1;
    assert_int_equal(log_open(d, &err), OK);
    assert_int_equal(issue_open(d, &hooks, &calls, &err), OK);
    assert_int_equal(issue_events(d, EVENTS, &err), OK);
    assert_true(issue_slots(EVENTS) <= SLOTS);
    return d;
}

static void closed(device *d)
{
    issue_close(d);
    log_close(d);
    free(d);
}

static const op kernel_op = {.kind = OP_ADD, .stream = STREAM_COMPUTE, .name = "a kernel"};
static const op message_op = {
    .kind = OP_ALL_GATHER, .group = GROUP_WORLD, .stream = STREAM_DP, .name = "m", .dim = {8}};

static void compute(device *d, int n)
{
    void *in[OP_IN_MAX] = {0}, *out[OP_OUT_MAX] = {0};
    for (int i = 0; i < n; i++) {
        kernel_call c = {.o = &kernel_op, .in = in, .out = out};
        issue_launch(d, STREAM_COMPUTE, &c);
    }
}

static void message(device *d)
{
    static char x[64];
    void *in[OP_IN_MAX] = {x}, *out[OP_OUT_MAX] = {x};
    issue_message(d, STREAM_DP, &message_op, in, out);
}

/* ---- what is asked */

static void a_wait_in_a_queue_is_for_its_own_record(void **state)
{
    (void)state;
    device *d = opened();
    message(d); /* holds the stream */
    compute(d, 3);
    issue_record(d, STREAM_COMPUTE, 1);
    issue_wait(d, STREAM_DP, 1);
    compute(d, 4);
    issue_record(d, STREAM_COMPUTE, 1);
    assert_int_equal(seen.awaited[STREAM_DP], 0);
    issue_until_stream(d, STREAM_DP);
    assert_int_equal(seen.awaited[STREAM_DP], 3);
    assert_int_equal(seen.kept[issue_slot(d, 1)], 7);
    issue_wait(d, STREAM_DP, 1); /* at once, for the last one */
    assert_int_equal(seen.awaited[STREAM_DP], 7);
    closed(d);
}

/* More records than there are events, none twice in use; then all are free again. */
static void events_are_used_again(void **state)
{
    (void)state;
    device *d = opened();
    for (int round = 0; round < 20; round++) {
        seen.partners_are_there = false;
        message(d);
        for (int i = 0; i < 300; i++) {
            compute(d, 1);
            issue_record(d, STREAM_COMPUTE, i % EVENTS);
            issue_wait(d, STREAM_DP, i % EVENTS);
        }
        issue_until_stream(d, STREAM_DP);
        assert_int_equal(seen.awaited[STREAM_DP], 300 * (round + 1));
    }
    closed(d);
}

static void without_messages_events_stay_where_they_are(void **state)
{
    (void)state;
    device *d = opened();
    for (int i = 0; i < 100; i++) {
        compute(d, 1);
        issue_record(d, STREAM_COMPUTE, i % EVENTS);
        issue_wait(d, STREAM_DP, i % EVENTS);
        assert_int_equal(issue_slot(d, i % EVENTS), i % EVENTS);
        assert_int_equal(seen.awaited[STREAM_DP], i + 1);
    }
    closed(d);
}

static void a_graph_comes_behind_what_its_stream_waits_for(void **state)
{
    (void)state;
    device *d = opened();
    message(d);
    issue_record(d, STREAM_DP, 2);
    issue_wait(d, STREAM_COMPUTE, 2);
    issue_replay(d, 0, &kernel_op);
    compute(d, 1);
    issue_replay(d, 1, &kernel_op);
    assert_int_equal(seen.launched[STREAM_COMPUTE], 0);
    issue_all(d);
    assert_int_equal(seen.launched[STREAM_COMPUTE], 301);
    issue_replay(d, 0, &kernel_op); /* at once */
    assert_int_equal(seen.launched[STREAM_COMPUTE], 401);
    closed(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_in_a_queue_is_for_its_own_record),
        cmocka_unit_test(events_are_used_again),
        cmocka_unit_test(without_messages_events_stay_where_they_are),
        cmocka_unit_test(a_graph_comes_behind_what_its_stream_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
