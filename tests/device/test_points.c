/* test_points.c - points of messages (issue.h): a rank that comes late to its wait for
 * another's point waits for that message's, though the other has had messages of other groups in
 * the same stream since. On a GPU that other processes share a point is an event between processes,
 * which must not be recorded again before all have put their waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/hooks_testing.h"
#include "backend/device/rendezvous.h"

/* ---- ranks whose hosts move when they are told */

enum { RANKS = 3 };

/* Rank 0 is in two groups of two: TP with rank 1, CP with rank 2. */
static int64_t of_tp[] = {0, 1}, of_cp[] = {0, 2};

typedef struct host {
    device d;
    int64_t rank;
    members groups[GROUP_COUNT];
    rendezvous m;
    char notes[2 * sizeof(note)];
    int at; /* the message that it is at, by its number */
    /* Points of a stream and a group: the message whose point was recorded last. */
    int recorded[STREAM_COUNT][GROUP_COUNT][POINT_COUNT];
    int n_awaits, wrong;
} host;

static host hosts[RANKS];
static int arrived[GROUP_COUNT][2]; /* at the first and the second meeting of a message */

static host *host_of(const device *d)
{
    return &hosts[(const host *)(const void *)d - hosts];
}

static void hook_point(device *d, issue_point p)
{
    host_of(d)->recorded[p.stream][p.group][p.kind] = host_of(d)->at;
}

static void hook_await(device *d, op_stream s, int64_t rank, issue_point theirs)
{
    (void)s;
    host *h = host_of(d);
    h->n_awaits++;
    h->wrong += hosts[rank].recorded[theirs.stream][theirs.group][theirs.kind] != h->at;
}

static const issue_hooks hooks = {.point = hook_point, .await = hook_await, HOOKS_THAT_DO_NOTHING};

/* A communicator is its host here. */
static const members *group(const comm *c, comm_group g)
{
    return &((const host *)(const void *)c)->groups[g];
}

static bool is_delayed(const comm *c)
{
    (void)c;
    return false;
}

/* A request is its group and which meeting. All notes are alike. */
static int meet(comm *c, const op *o, const comm_note *n)
{
    (void)c;
    for (int i = 0; i < 2 && !n->last; i++)
        memcpy((char *)n->all + (size_t)i * n->bytes, n->mine, n->bytes);
    arrived[o->group][n->last]++;
    return 2 * (int)o->group + n->last;
}

static bool test(comm *c, int request)
{
    (void)c;
    return arrived[request / 2][request % 2] % 2 == 0;
}

static void wait(comm *c, int request)
{
    (void)c, (void)request;
}

static const device_calls calls = {
    .group = group, .is_delayed = is_delayed, .meet = meet, .test = test, .wait = wait};

/* ---- the order of the hosts */

static void open_hosts(void)
{
    memset(hosts, 0, sizeof hosts);
    memset(arrived, 0, sizeof arrived);
    for (int r = 0; r < RANKS; r++) {
        host *h = &hosts[r];
        h->rank = r;
        h->d.c = (comm *)(void *)h;
        h->m.all = h->notes;
        h->groups[GROUP_TP] = (members){.ranks = of_tp, .n = 2, .place = r == 1};
        h->groups[GROUP_CP] = (members){.ranks = of_cp, .n = 2, .place = r == 2};
    }
}

/* Moves a host on in a message; true: it has left it. */
static bool moves(int rank, comm_group g, int message)
{
    static char data[64];
    op o = {.kind = OP_ALL_GATHER, .group = g, .stream = STREAM_COMM, .name = "x", .dim = {4}};
    void *in[OP_IN_MAX] = {data}, *out[OP_OUT_MAX] = {data};
    const rendezvous_op x = {&o, in, out, 0};
    hosts[rank].at = message;
    return rendezvous_step(&hosts[rank].d, &hooks, &calls, &hosts[rank].m, STREAM_COMM, &x);
}

static void a_late_wait_is_for_its_own_message(void **state)
{
    (void)state;
    open_hosts();
    assert_false(moves(0, GROUP_CP, 1));
    assert_false(moves(2, GROUP_CP, 1)); /* has moved its share, and meets for the second time */
    assert_true(moves(0, GROUP_CP, 1));  /* leaves: rank 2 has not seen that yet */
    assert_false(moves(0, GROUP_TP, 2));
    assert_false(moves(1, GROUP_TP, 2));
    assert_true(moves(0, GROUP_TP, 2)); /* its points of this stream are those of message 2 now */
    assert_true(moves(2, GROUP_CP, 1));
    assert_true(moves(1, GROUP_TP, 2));
    for (int r = 0; r < RANKS; r++) assert_int_equal(hosts[r].wrong, 0);
    assert_int_equal(hosts[0].n_awaits, 4);
    assert_int_equal(hosts[2].n_awaits, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_late_wait_is_for_its_own_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
