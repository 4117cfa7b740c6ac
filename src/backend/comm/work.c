/* work.c - long work of the host: what it is called, and how long it may take.
 *
 * I1  A rank that is at shared work gives up before those that wait for it, so that the one who
 *     knows the reason says it; they are there for the case that it cannot (it is stopped, or the
 *     kernel holds it). */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/comm/state.h"

const work_row work_rows[WORK_COUNT] = {
    [WORK_NONE] = {"", "", false},
    [WORK_START] = {"start", "starting (program, data, weights)", true},
    [WORK_BUILD] = {"build", "building its program", true},
    [WORK_LOAD] = {"load", "loading weights", true},
    [WORK_SAVE] = {"save", "saving a checkpoint", true},
    [WORK_READ] = {"read", "reading data", false},
    [WORK_WRITE] = {"write", "writing a file", false},
};

/* ---- limits */

double work_limit(const comm *c, comm_work w)
{
    return work_rows[w].shared ? c->host_timeout : 0.9 * c->timeout;
}

double work_patience(const comm *c, comm_work w)
{
    return work_rows[w].shared ? c->host_timeout + c->timeout : c->timeout; /* I1 */
}

/* "save:1:5" */
static status read_slow(comm *c, error *err)
{
    const char *word = getenv("MOEFOLD_SLOW");
    c->slow = (comm_slow){WORK_NONE, 0};
    if (!word) return OK;
    char name[16] = "", *end = NULL;
    size_t n = strcspn(word, ":");
    comm_work w = WORK_START;
    long rank = -1;
    double seconds = -1;
    if (n < sizeof name) memcpy(name, word, n);
    while (w < WORK_COUNT && strcmp(work_rows[w].name, name) != 0) w++;
    if (word[n]) rank = strtol(word + n + 1, &end, 10);
    if (end && *end == ':') seconds = strtod(end + 1, &end);
    if (w == WORK_COUNT || rank < 0 || !(seconds >= 0 && seconds < 1e6) || *end)
        return error_set(err, ERR_INPUT,
                         "MOEFOLD_SLOW=%s in the environment is not WORK:RANK:SECONDS, such as "
                         "save:1:5; unset it",
                         word);
    if (rank == c->rank) c->slow = (comm_slow){w, seconds};
    return OK;
}

status work_open(comm *c, error *err)
{
    double seconds = 60 * (double)c->s->j.host_timeout;
    status st = comm_seconds("MOEFOLD_HOST_TIMEOUT_SECONDS", knobs[K_HOST_TIMEOUT].key, seconds,
                             &seconds, err);
    if (st) return st;
    c->host_timeout = seconds;
    return read_slow(c, err);
}

/* ---- at it */

static void sleep_where_asked(comm *c, comm_work w)
{
    if (w == WORK_NONE || c->slow.work != w) return;
    c->slow.work = WORK_NONE;
    double s = c->slow.seconds;
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&t, &t) != 0) continue; /* a signal is no reason to be quick */
}

static void be_at(comm *c, comm_work w)
{
    atomic_store_explicit(&c->watch.work_since, watch_now(), memory_order_relaxed);
    atomic_store_explicit(&c->watch.work, (int)w, memory_order_release);
}

comm_work comm_work_begin(comm *c, comm_work w)
{
    comm_work before = (comm_work)atomic_load_explicit(&c->watch.work, memory_order_relaxed);
    be_at(c, w);
    sleep_where_asked(c, w);
    return before;
}

void comm_work_end(comm *c, comm_work before)
{
    be_at(c, before);
}
