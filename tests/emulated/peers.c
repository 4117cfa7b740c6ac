/* peers.c - a CPU whose ranks, threads of one process, move their messages by themselves.
 *
 * Queues and meetings are those of a GPU (issue.h, rendezvous.h). What is issued is done
 * when the call returns, so a point in a stream has passed when it is there; with "peers:us=200"
 * every operation takes so many microseconds, and streams are behind the host as on a GPU
 * (paced.h). With "peers:late=7" streams are threads that run what they are given some time later,
 * with pauses from that seed (late.h): what waits do not order goes wrong. With "peers:staged"
 * ranks do as if they could not reach each other's memory; "peers:staged,us=200" is both. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/comm/adder.h"
#include "backend/device/calls.h"
#include "backend/device/host.h"
#include "emulated/emulated.h"
#include "emulated/late.h"
#include "emulated/paced.h"
#include "ir/target.h"

/* Events of late streams. */
typedef struct late_points {
    late_event at[STREAM_COUNT][GROUP_COUNT][POINT_COUNT], marks[STREAM_COUNT];
    late_event *events; /* [issue_slots(n)] */
} late_points;

/* Points of a rank, which it writes before the ranks meet. Others may come to the wait for its last
 * DONE when it has closed its device: whoever leaves last gives them back. */
typedef struct rank_points {
    atomic_int users;
    paced pace;
    late_points late;
} rank_points;

typedef struct card {
    unsigned char *memory[SPACE_COUNT];
    unsigned char *windows[STREAM_COUNT];
    rank_points *points;
} card;

typedef struct peers_device {
    host_device *host; /* memory and stamps; its queues stay empty */
    bool staged;
    unsigned char *windows[STREAM_COUNT];
    card *cards; /* [n_cards], by rank; after join */
    int64_t n_cards;
    int32_t table[STREAM_COUNT][4 * PEERS_MAX];
    rank_points *points;
    uint64_t seed; /* of late streams */
    late *late;    /* NULL: what is issued is done when the call returns */
} peers_device;

/* Functions of host.c find their state in d->state: it is that of the host part. */
static peers_device *peers_of(const device *d)
{
    return ((host_device *)d->state)->owner;
}

/* ---- hooks */

static paced *pace_of(const device *d)
{
    return &peers_of(d)->points->pace;
}

static late *late_of(const device *d)
{
    return peers_of(d)->late;
}

static void hook_wait(device *d, op_stream s, int slot)
{
    if (late_of(d)) late_wait(late_of(d), s, &peers_of(d)->points->late.events[slot]);
    paced_behind(pace_of(d), s, pace_of(d)->events[slot]);
}

static void hook_record(device *d, op_stream s, int slot)
{
    if (late_of(d)) late_record(late_of(d), s, &peers_of(d)->points->late.events[slot]);
    pace_of(d)->events[slot] = pace_of(d)->end[s];
}

static void finished(device *d, op_stream s)
{
    if (late_of(d))
        late_put(late_of(d), s, &(late_task){.kind = LATE_END});
    else
        log_finish(d, s);
}

static void hook_launch(device *d, op_stream s, kernel_call *c, uint32_t number)
{
    (void)number;
    double from = clock_seconds();
    c->stream = NULL;
    if (peers_of(d)->host->capturing) {
        host_keep(d, s, c);
    } else if (late_of(d)) {
        late_task t = {.kind = LATE_LAUNCH, .call = *c};
        memcpy(t.in, c->in, sizeof t.in);
        memcpy(t.out, c->out, sizeof t.out);
        late_put(late_of(d), s, &t);
    } else {
        c->row->launch(c);
        paced_launch(pace_of(d), s, from, 1);
    }
    finished(d, s);
}

static void hook_replay(device *d, int graph, const op *o, uint32_t number)
{
    (void)o, (void)number;
    double from = clock_seconds();
    if (late_of(d))
        late_put(late_of(d), STREAM_COMPUTE, &(late_task){.kind = LATE_REPLAY, .number = graph});
    else
        paced_launch(pace_of(d), STREAM_COMPUTE, from, host_run_graph(d, graph));
    finished(d, STREAM_COMPUTE);
}

static void hook_stamp(device *d, op_stream s, int stamp)
{
    if (late_of(d)) {
        late_put(late_of(d), s, &(late_task){.kind = LATE_STAMP, .number = stamp});
        return;
    }
    host_stamp_now(d, s, stamp);
    host_stamp *at = &peers_of(d)->host->stamps[stamp];
    if (at->at < pace_of(d)->end[s]) at->at = pace_of(d)->end[s];
}

static void hook_move(device *d, op_stream s, const issue_copy *list, int n)
{
    for (int i = 0; i < n; i++)
        if (late_of(d))
            late_put(late_of(d), s, &(late_task){.kind = LATE_COPY, .copy = list[i]});
        else
            memmove(list[i].to, list[i].from, (size_t)list[i].bytes);
}

static void hook_copy(device *d, op_stream s, device_address to, device_address from, int64_t n)
{
    const issue_copy c = {host_pointer(d, to), host_pointer(d, from), n};
    hook_move(d, s, &c, 1);
}

static const int32_t *hook_fetch(device *d, op_stream s, const void *from, int64_t n)
{
    int32_t *to = peers_of(d)->table[s];
    hook_move(d, s, &(issue_copy){to, from, n * (int64_t)sizeof *to}, 1);
    return to;
}

static void hook_mark(device *d, op_stream s)
{
    if (late_of(d)) late_record(late_of(d), s, &peers_of(d)->points->late.marks[s]);
    pace_of(d)->marks[s] = pace_of(d)->end[s];
}

static bool hook_passed(device *d, op_stream s)
{
    if (late_of(d)) return late_is_past(&peers_of(d)->points->late.marks[s]);
    return paced_is_past(pace_of(d)->marks[s]);
}

static void hook_point(device *d, issue_point p)
{
    late_event *at = &peers_of(d)->points->late.at[p.stream][p.group][p.kind];
    if (late_of(d)) late_record(late_of(d), p.stream, at);
    pace_of(d)->points[p.stream][p.group][p.kind] = pace_of(d)->end[p.stream];
}

static void hook_await(device *d, op_stream s, int64_t rank, issue_point theirs)
{
    rank_points *other = peers_of(d)->cards[rank].points;
    if (late_of(d))
        late_wait(late_of(d), s, &other->late.at[theirs.stream][theirs.group][theirs.kind]);
    paced_behind(pace_of(d), s, other->pace.points[theirs.stream][theirs.group][theirs.kind]);
}

static device_address hook_locate(const device *d, const void *at)
{
    const host_device *h = d->state;
    const unsigned char *p = at;
    for (int slack = 0; slack < 2; slack++) /* what is empty may lie at an end */
        for (int s = 0; s < SPACE_COUNT; s++)
            if (h->memory[s] && p >= h->memory[s] && p < h->memory[s] + h->bytes[s] + slack)
                return (device_address){(device_space)s, p - h->memory[s]};
    device_comm_calls.fail(d->c, "a message buffer lies outside the device's memory");
    return (device_address){SPACE_COUNT, 0};
}

static bool hook_staged(const device *d)
{
    return peers_of(d)->staged;
}

static void hook_stage(device *d, op_stream s, const void *from, int64_t bytes)
{
    const issue_copy c = {peers_of(d)->windows[s], from, bytes};
    if (bytes) hook_move(d, s, &c, 1);
}

static bool hook_by_library(const device *d)
{
    (void)d;
    return false;
}

static void *hook_peer(const device *d, int64_t rank, device_address at)
{
    if (at.space == (device_space)SPACE_WINDOW) return peers_of(d)->cards[rank].windows[at.offset];
    const bool own = rank == comm_rank(d->c);
    return own ? host_pointer(d, at) : peers_of(d)->cards[rank].memory[at.space] + at.offset;
}

static void add_now(const issue_sum *x)
{
    adder a;
    for (int64_t i = 0, n; i < x->n; i += n) {
        int64_t skip = dtype_bytes(x->type, i);
        n = x->n - i < ADDER_BLOCK ? x->n - i : ADDER_BLOCK;
        for (int q = 0; q < x->n_from; q++)
            adder_add(&a, x->type, (const char *)x->from[q] + skip, n, q == 0);
        for (int q = 0; q < x->n_to; q++) adder_take(&a, x->type, (char *)x->to[q] + skip, n);
    }
}

static void hook_sum(device *d, op_stream s, const issue_sum *x)
{
    if (late_of(d))
        late_put(late_of(d), s, &(late_task){.kind = LATE_SUM, .sum = *x});
    else
        add_now(x);
}

static void hook_end(device *d, op_stream s, const op *o, uint32_t number)
{
    (void)o, (void)number;
    finished(d, s);
}

/* In the thread of a late stream. */
static void run_late(device *d, op_stream s, late_task *t)
{
    if (t->kind == LATE_LAUNCH) t->call.row->launch(&t->call);
    if (t->kind == LATE_REPLAY) host_run_graph(d, t->number);
    if (t->kind == LATE_COPY) memmove(t->copy.to, t->copy.from, (size_t)t->copy.bytes);
    if (t->kind == LATE_SUM) add_now(&t->sum);
    if (t->kind == LATE_STAMP) host_stamp_now(d, s, t->number);
    if (t->kind == LATE_END) log_finish(d, s);
}

static const issue_hooks hooks = {.wait = hook_wait,
                                  .record = hook_record,
                                  .launch = hook_launch,
                                  .replay = hook_replay,
                                  .copy = hook_copy,
                                  .stamp = hook_stamp,
                                  .staged = hook_staged,
                                  .stage = hook_stage,
                                  .by_library = hook_by_library,
                                  .fetch = hook_fetch,
                                  .mark = hook_mark,
                                  .passed = hook_passed,
                                  .point = hook_point,
                                  .await = hook_await,
                                  .locate = hook_locate,
                                  .peer = hook_peer,
                                  .move = hook_move,
                                  .sum = hook_sum,
                                  .end = hook_end};

/* ---- the table's */

static void release(rank_points *x)
{
    if (x && atomic_fetch_sub(&x->users, 1) == 1) free(x);
}

static void release_cards(peers_device *p)
{
    for (int64_t r = 0; r < p->n_cards; r++) release(p->cards[r].points);
    free(p->cards);
    p->cards = NULL;
    p->n_cards = 0;
}

static void close_peers(device *d)
{
    peers_device *p = peers_of(d);
    issue_close(d);
    late_close(p->late);
    free(p->points->late.events);
    host_close(d);
    for (int s = 0; s < STREAM_COUNT; s++) free(p->windows[s]);
    paced_close(&p->points->pace);
    release_cards(p);
    release(p->points);
    free(p);
}

/* "", "staged", "us=200", "late=7"; or "staged," before one of the last two. */
static bool read_words(peers_device *p, const char *words)
{
    static const char staged[] = "staged", pace[] = "us=", seed[] = "late=";
    if (strncmp(words, staged, strlen(staged)) == 0) {
        p->staged = true;
        words += strlen(staged);
        words += *words == ',';
    }
    char *end;
    if (strncmp(words, seed, strlen(seed)) == 0) {
        p->seed = 1 + strtoull(words + strlen(seed), &end, 10);
        return end != words + strlen(seed) && !*end;
    }
    if (strncmp(words, pace, strlen(pace)) != 0) return !*words;
    long us = strtol(words + strlen(pace), &end, 10);
    p->points->pace.seconds = 1e-6 * (double)us;
    return us > 0 && us <= 1000000 && !*end;
}

static status open_peers(device *d, const char *words, const device_options *o, error *err)
{
    (void)o;
    peers_device *p = calloc(1, sizeof *p);
    if (p) p->points = calloc(1, sizeof *p->points);
    if (!p || !p->points) {
        free(p);
        return error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
    }
    atomic_init(&p->points->users, 1);
    status s = read_words(p, words) ? host_open(d, NULL, err)
                                    : error_set(err, ERR_MACHINE,
                                                "device peers:%s; repair: peers, peers:staged, "
                                                "peers:us=200, peers:late=7 or "
                                                "peers:staged,us=200",
                                                words);
    if (s) {
        free(p->points);
        free(p);
        return s;
    }
    p->host = d->state;
    p->host->owner = p;
    d->runs_ahead = true;
    s = issue_open(d, &hooks, &device_comm_calls, err);
    if (!s && p->seed && !(p->late = late_open(d, p->seed, run_late)))
        s = error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
    if (s) close_peers(d);
    return s;
}

static status take_windows(peers_device *p, const int64_t *sent, error *err)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        free(p->windows[s]);
        p->windows[s] = malloc((size_t)sent[s] + 1);
        if (!p->windows[s]) return error_set(err, ERR_MACHINE, "no host memory for windows");
    }
    return OK;
}

static status join(device *d, const device_traffic *t, error *err)
{
    peers_device *p = peers_of(d);
    card mine;
    status st = take_windows(p, t->sent, err);
    if (st) return st;
    memcpy(mine.memory, p->host->memory, sizeof mine.memory);
    memcpy(mine.windows, p->windows, sizeof mine.windows);
    mine.points = p->points;
    if (!comm_shares_process(d->c))
        return error_set(
            err, ERR_MACHINE,
            "device peers: its ranks are threads of one process; repair: --as-threads");
    release_cards(p);
    p->cards = calloc((size_t)comm_size(d->c), sizeof *p->cards);
    if (!p->cards) return error_set(err, ERR_MACHINE, "no host memory for the ranks' cards");
    comm_collect(d->c, GROUP_WORLD, &mine, sizeof mine, p->cards);
    p->n_cards = comm_size(d->c);
    for (int64_t r = 0; r < p->n_cards; r++) atomic_fetch_add(&p->cards[r].points->users, 1);
    comm_barrier(d->c, GROUP_WORLD); /* nobody is gone before all have counted */
    return OK;
}

static void leave(device *d)
{
    comm_barrier(d->c, GROUP_WORLD);
}

static const char *transport(const device *d)
{
    return peers_of(d)->staged ? "shared memory" : "threads of one process";
}

/* ---- behind the streams */

static void meet_compute(device *d)
{
    issue_until_stream(d, STREAM_COMPUTE);
    if (late_of(d)) late_until_stream(late_of(d), STREAM_COMPUTE);
    paced_until(pace_of(d)->end[STREAM_COMPUTE]);
}

static void read_peers(device *d, void *to, device_address from, int64_t bytes)
{
    meet_compute(d);
    host_read(d, to, from, bytes);
}

static void write_peers(device *d, device_address to, const void *from, int64_t bytes)
{
    meet_compute(d);
    host_write(d, to, from, bytes);
}

static void fill_peers(device *d, device_address to, int byte, int64_t bytes)
{
    meet_compute(d);
    host_fill(d, to, byte, bytes);
}

static void differ_peers(device *d, device_address at, int byte, int64_t bytes, unsigned char *map)
{
    meet_compute(d);
    host_differ(d, at, byte, bytes, map);
}

static double stamp_read(device *d, int stamp)
{
    issue_all(d);
    if (late_of(d)) late_until_all(late_of(d));
    return host_stamp_read(d, stamp);
}

static status events(device *d, int n, error *err)
{
    peers_device *p = peers_of(d);
    status s = paced_events(&p->points->pace, issue_slots(n), err);
    if (p->late) late_until_all(p->late);
    free(p->points->late.events);
    p->points->late.events = calloc((size_t)issue_slots(n), sizeof *p->points->late.events);
    if (!s && !p->points->late.events) s = error_set(err, ERR_MACHINE, "no host memory for events");
    return s ? s : issue_events(d, n, err);
}

static void wait_here(device *d, int event)
{
    issue_until_recorded(d, event);
    if (late_of(d)) late_until(&peers_of(d)->points->late.events[issue_slot(d, event)]);
    paced_until(pace_of(d)->events[issue_slot(d, event)]);
}

static bool is_complete(device *d, int event)
{
    if (!issue_recorded(d, event)) return false;
    const int slot = issue_slot(d, event);
    if (late_of(d)) return late_is_past(&peers_of(d)->points->late.events[slot]);
    return paced_is_past(pace_of(d)->events[slot]);
}

static void sync_all(device *d)
{
    issue_all(d);
    if (late_of(d)) late_until_all(late_of(d));
    paced_until_all(pace_of(d));
}

static void capture(device *d, int graph)
{
    issue_all(d);
    host_capture(d, graph);
}

const device_table device_peers = {.name = "peers",
                                   .open = open_peers,
                                   .close = close_peers,
                                   .rows = kernels_cpu,
                                   .target = target_row_cpu,
                                   .take = host_take,
                                   .outside_arena = host_outside_arena,
                                   .pointer = host_pointer,
                                   .map = host_pointer,
                                   .read = read_peers,
                                   .write = write_peers,
                                   .fill = fill_peers,
                                   .differ = differ_peers,
                                   .copy = issue_copying,
                                   .events = events,
                                   .record = issue_record,
                                   .wait = issue_wait,
                                   .wait_here = wait_here,
                                   .is_complete = is_complete,
                                   .launch = issue_launch,
                                   .message = issue_message,
                                   .join = join,
                                   .leave = leave,
                                   .transport = transport,
                                   .graphs = host_graphs,
                                   .capture = capture,
                                   .captured = host_captured,
                                   .replay = issue_replay,
                                   .stamps = host_stamps,
                                   .stamp_origin = host_stamp_origin,
                                   .stamp = issue_stamp,
                                   .stamp_read = stamp_read,
                                   .sync = sync_all,
                                   .settle = issue_all};
