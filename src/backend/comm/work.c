/* work.c - long work of the host: what it is called, and how long it may take.
 *
 * I1  A rank that is at shared work gives up before those that wait for it, so that the one who
 *     knows the reason says it; they are there for the case that it cannot (it is stopped, or the
 *     kernel holds it). */
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

status work_open(comm *c, error *err)
{
    double seconds = 60 * (double)c->s->j.host_timeout;
    status st = comm_seconds("MOEFOLD_HOST_TIMEOUT_SECONDS", knobs[K_HOST_TIMEOUT].key, seconds,
                             &seconds, err);
    if (st) return st;
    c->host_timeout = seconds;
    return planted_slow ? planted_slow(c, err) : OK;
}

/* ---- at it */

static void be_at(comm *c, comm_work w)
{
    atomic_store_explicit(&c->watch.work_since, watch_now(), memory_order_relaxed);
    atomic_store_explicit(&c->watch.work, (int)w, memory_order_release);
}

comm_work comm_work_begin(comm *c, comm_work w)
{
    comm_work before = (comm_work)atomic_load_explicit(&c->watch.work, memory_order_relaxed);
    be_at(c, w);
    if (planted_work) planted_work(c, w);
    return before;
}

void comm_work_end(comm *c, comm_work before)
{
    be_at(c, before);
}
