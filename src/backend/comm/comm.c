/* comm.c - what all backends share: the table of messages, waiting, opening and closing. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/comm/shm.h"
#include "backend/comm/state.h"

enum { SUM_BYTES = 1 << 16 };

/* ---- opening and closing */

comm *comm_make(const backend *b, void *state, int64_t rank, int64_t size)
{
    arena *a = arena_create();
    comm *c = ARENA_NEW(a, comm);
    plane p = {b, state};
    *c = (comm){.control = p, .data = p, .alone = p, .a = a};
    c->rank = rank;
    c->size = size;
    c->local = size;
    c->messages = calloc(COMM_REQUESTS_MAX, sizeof *c->messages);
    if (!c->messages) {
        fprintf(stderr, "moefold: no memory for the table of messages\n");
        exit(ERR_MACHINE);
    }
    for (int i = 0; i < COMM_REQUESTS_MAX; i++) c->messages[i].next_free = i + 1;
    return c;
}

status comm_open_threads(comm **out, int n, error *err)
{
    if (n < 1 || n > 4096)
        return error_set(err, ERR_INPUT, "%d ranks as threads: the number must be from 1 to 4096",
                         n);
    shm_slot **shm_slots = calloc((size_t)n, sizeof *shm_slots);
    if (!shm_slots || !shm_transport_open(shm_slots, n)) {
        free(shm_slots);
        return error_set(err, ERR_MACHINE, "no memory for %d ranks as threads", n);
    }
    for (int i = 0; i < n; i++) out[i] = comm_make(&shm_backend, shm_slots[i], i, n);
    free(shm_slots);
    return OK;
}

status comm_open_self(comm **out, error *err)
{
    return comm_open_threads(out, 1, err);
}

static bool has_library(const comm *c)
{
    return c->alone.state != c->data.state;
}

void comm_close(comm *c)
{
    if (!c) return;
    bool of_mpi = has_library(c);
    crash_forget(c);
    watch_remove(c);
    if (of_mpi) watch_call("MPI_Finalize", c->timeout > 0 ? c->timeout : MPI_SECONDS);
    if (of_mpi) c->alone.b->close(c->alone.state);
    c->data.b->close(c->data.state);
    if (of_mpi) watch_call("the end of the process, after MPI_Finalize", MPI_SECONDS);
    free(c->messages);
    arena_destroy(c->a);
}

int64_t comm_local(const comm *c)
{
    return c->local;
}

int64_t comm_rank(const comm *c)
{
    return c->rank;
}

int64_t comm_size(const comm *c)
{
    return c->size;
}

int64_t comm_members(const comm *c, comm_group g)
{
    return c->groups[g].n;
}

const members *comm_group_of(const comm *c, comm_group g)
{
    return &c->groups[g];
}

bool comm_is_delayed(const comm *c)
{
    return c->delay.on;
}

bool comm_shares_process(const comm *c)
{
    return !has_library(c);
}

/* Tests cannot wait a minute, which is the least that the knob takes. */
status comm_seconds(const char *variable, const char *key, double otherwise, double *seconds,
                    error *err)
{
    const char *word = getenv(variable);
    *seconds = otherwise;
    if (!word) return OK;
    char *end;
    double given = strtod(word, &end);
    if (end == word || *end || !isfinite(given) || given <= 0)
        return error_set(
            err, ERR_INPUT,
            "%s=%s in the environment is not a number of seconds above 0; unset it to use %s",
            variable, word, key);
    *seconds = given;
    return OK;
}

status comm_timeout(double otherwise, double *seconds, error *err)
{
    return comm_seconds("MOEFOLD_TIMEOUT_SECONDS", knobs[K_DIST_TIMEOUT].key, otherwise, seconds,
                        err);
}

static status make_groups(comm *c, error *err)
{
    bool of_mpi = has_library(c);
    if (of_mpi) watch_call("MPI_Comm_create_group", c->timeout);
    c->open = (comm_use){{{false}}};
    status st = c->control.b->groups(c->control.state, c->groups, c->delay.on, err);
    if (!st && of_mpi) st = c->alone.b->groups(c->alone.state, c->groups, c->delay.on, err);
    if (of_mpi) watch_call(NULL, 0);
    return st;
}

void comm_use_add(comm_use *u, const op *o)
{
    if (op_is_comm(o->kind)) u->on[o->group][o->stream] = true;
}

void comm_streams(comm *c, const comm_use *use)
{
    bool of_mpi = has_library(c);
    error err;
    for (int g = 0; g < GROUP_COUNT; g++)
        for (int k = 0; k < STREAM_COUNT; k++)
            if (use->on[g][k]) c->open.on[g][op_stream_channel((op_stream)k)] = true;
    if (of_mpi) watch_call("MPI_Comm_create_group", c->timeout);
    status st = c->data.b->channels(c->data.state, &c->open, &err);
    if (!st && of_mpi) st = c->alone.b->channels(c->alone.state, &c->open, &err);
    if (of_mpi) watch_call(NULL, 0);
    if (st) comm_abort(c, (int)st, err.text);
}

status comm_groups(comm *c, const setup *s, error *err)
{
    if (!s->possible || s->lay.world != c->size)
        return error_set(err, ERR_RULE,
                         "cluster.n_gpus=%lld, but the job has %lld rank%s; repair: start %lld, or "
                         "set cluster.n_gpus=%lld and parallel sizes that fit it",
                         (long long)s->j.n_gpus, (long long)c->size, c->size > 1 ? "s" : "",
                         (long long)s->j.n_gpus, (long long)c->size);
    bool again = c->s != NULL;
    c->s = s;
    status st = comm_delay_parse(s->j.comm_delay, &c->delay, err);
    double timeout = 0;
    if (!st) st = comm_timeout(60 * (double)s->j.dist_timeout, &timeout, err);
    if (!st) st = work_open(c, err);
    if (st) return st;
    c->timeout = timeout;
    int64_t most = 1;
    for (int g = GROUP_WORLD; g < GROUP_COUNT; g++) {
        c->groups[g] = members_of(s, (comm_group)g, c->rank, c->a);
        if (c->groups[g].n > most) most = c->groups[g].n;
    }
    comm_levels(c);
    c->collected_room = SUM_BYTES / (int64_t)sizeof(double);
    if (c->collected_room < most) c->collected_room = most;
    c->collected = ARENA_ARRAY(c->a, double, c->collected_room);
    st = make_groups(c, err);
    if (!st && c->size > 1 && !again) watch_add(c);
    return st;
}

/* ---- the table */

message *comm_take(comm *c, message_kind kind, comm_group g, const char *what)
{
    int i = c->first_free;
    if (i >= COMM_REQUESTS_MAX) {
        char text[160];
        snprintf(text, sizeof text, "%s: %d messages are in flight, which is the limit", what,
                 COMM_REQUESTS_MAX);
        comm_abort(c, ERR_MACHINE, text);
    }
    message *m = &c->messages[i];
    c->first_free = m->next_free;
    memset(m, 0, sizeof *m);
    m->index = i;
    m->kind = kind;
    m->group = g;
    m->group_name = comm_group_name(g);
    m->what = what;
    m->before = c->newest;
    if (c->newest)
        c->newest->after = m;
    else
        c->oldest = m;
    c->newest = m;
    return m;
}

static void give_back(comm *c, message *m)
{
    if (m->before)
        m->before->after = m->after;
    else
        c->oldest = m->after;
    if (m->after)
        m->after->before = m->before;
    else
        c->newest = m->before;
    m->next_free = c->first_free;
    c->first_free = (int)(m - c->messages);
}

/* ---- under way */

static bool is_alone(const comm *c, const message *m)
{
    return c->groups[m->group].n == 1;
}

static const plane *plane_of(const comm *c, const message *m)
{
    if (is_alone(c, m)) return &c->alone;
    return m->stream == STREAM_HOST ? &c->control : &c->data;
}

void comm_begin(comm *c, message *m)
{
    const plane *p = plane_of(c, m);
    m->begun = true;
    comm_count(c, m);
    p->b->start(p->state, m);
}

static bool moved(comm *c, message *m)
{
    if (atomic_load_explicit(&m->done, memory_order_acquire)) return true;
    const plane *p = plane_of(c, m);
    return is_alone(c, m) ? false : p->b->test(p->state, m);
}

/* With an emulated link, older messages take their turn on it first. */
bool comm_passed(comm *c, message *m)
{
    if (!c->delay.on) return moved(c, m);
    for (message *p = c->oldest; p; p = p->after) {
        if (p->begun && !p->admitted && moved(c, p)) comm_admit(c, p);
        if (p == m) break;
    }
    return m->admitted && clock_seconds() >= m->ready;
}

static bool complete(comm *c, message *m)
{
    stream_move(c);
    return m->begun && comm_passed(c, m);
}

/* When the emulated link lets the next message pass, of those that it held at `since`. Nobody else
 * wakes a rank for that, whichever message it waits for: what passes may let another one begin. */
static double next_ready(const comm *c, double since)
{
    double next = INFINITY;
    for (const message *p = c->oldest; p; p = p->after)
        if (p->admitted && p->ready > since && p->ready < next) next = p->ready;
    return next;
}

/* `since`: before the last look at what is complete. */
static void rest(comm *c, message *waited_for, int tries, double since)
{
    message *m = waited_for->begun ? waited_for : c->streams[waited_for->stream].first;
    double next = next_ready(c, since);
    if (next < INFINITY) {
        /* A message that others may complete is not to be seen late. */
        const long most = m->admitted ? 500 * 1000 : 50 * 1000;
        double left = next - clock_seconds();
        long wanted = left > 1 ? most : (long)(left * 1e9);
        struct timespec t = {0, wanted < 0 ? 0 : wanted < most ? wanted : most};
        nanosleep(&t, NULL);
        c->data.b->progress(c->data.state);
        return;
    }
    if (is_alone(c, m) && !c->queued) {
        char text[200];
        snprintf(text, sizeof text, "%s %s (group %s) waits for this rank itself", m->what,
                 m->name ? m->name : "", comm_group_name(m->group));
        comm_abort(c, ERR_MACHINE, text);
    }
    c->data.b->rest(c->data.state, m, tries);
}

void comm_finish(comm *c, message *m)
{
    if (!complete(c, m)) {
        double from = clock_seconds(), since = from;
        watch_begin(c, m);
        for (int tries = 0; !complete(c, m); tries += tries < 1000000) {
            rest(c, m, tries, since);
            since = clock_seconds();
        }
        watch_end(c);
        c->stats.exposed[m->stream] += clock_seconds() - from;
    } else {
        watch_message(c);
    }
    stream_leave(c, m);
    give_back(c, m);
}

bool comm_test(comm *c, int request)
{
    return complete(c, &c->messages[request]);
}

void comm_wait(comm *c, int request)
{
    comm_finish(c, &c->messages[request]);
}

static int any_complete(comm *c, const int *requests, int n)
{
    for (int i = 0; i < n; i++)
        if (complete(c, &c->messages[requests[i]])) return i;
    return -1;
}

int comm_wait_any(comm *c, const int *requests, int n)
{
    int i = any_complete(c, requests, n);
    if (i >= 0) return i;
    message *m = &c->messages[requests[0]];
    double from = clock_seconds(), since = from;
    watch_begin(c, m);
    for (int tries = 0; (i = any_complete(c, requests, n)) < 0; tries += tries < 1000000) {
        rest(c, m, tries, since);
        since = clock_seconds();
    }
    watch_end(c);
    c->stats.exposed[m->stream] += clock_seconds() - from;
    return i;
}

void comm_progress(comm *c)
{
    if (!c->oldest) return;
    c->data.b->progress(c->data.state);
    if (c->delay.on)
        complete(c, c->newest);
    else
        stream_move(c);
}

/* ---- what it cost, and where it is */

const comm_stats *comm_statistics(const comm *c)
{
    return &c->stats;
}

void comm_statistics_clear(comm *c)
{
    c->stats = (comm_stats){0};
}

void comm_where(comm *c, const char *what, const char *detail)
{
    atomic_store_explicit(&c->watch.where, what, memory_order_relaxed);
    atomic_store_explicit(&c->watch.detail, detail, memory_order_relaxed);
}

void comm_abort(comm *c, int code, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "moefold: rank %lld of %lld: %s; the job ends\n", (long long)c->rank,
            (long long)c->size, why);
    c->data.b->abort(c->data.state, code);
    _exit(code);
}
