/* watch.c - who waits too long, and what a rank says when it is told to end.
 *
 * One thread of the process looks at all its ranks a few times a second. It calls nothing of a
 * message library: it says what is known and ends the process, which mpirun and srun take as the
 * end of the job (they tell the other ranks by SIGTERM).
 *
 * I1  A forked process has none of its parent's threads and ranks: it is watched anew, and never
 *     waits for a lock that a thread held which it does not have.
 * I2  What the job ends for is looked at again just before: a message that came, or work that was
 *     done, while the line was written ends nothing. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/comm/line.h"
#include "backend/comm/state.h"

/* A call of the library that waits for other ranks and is no message: MPI's start and end. */
static struct {
    atomic_llong since; /* nanoseconds; 0: none */
    const char *what;
    double timeout; /* seconds */
} call;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t added;
    comm *list;
    bool runs, forks; /* `forks`: what I1 needs is in place */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .added = PTHREAD_COND_INITIALIZER};

static comm *_Atomic told;        /* the rank of this process */
static struct sigaction previous; /* of SIGTERM */

long long watch_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

void watch_begin(comm *c, const message *m)
{
    atomic_store_explicit(&c->watch.what, m->what, memory_order_relaxed);
    atomic_store_explicit(&c->watch.name, m->name, memory_order_relaxed);
    atomic_store_explicit(&c->watch.group, (int)m->group, memory_order_relaxed);
    atomic_store_explicit(&c->watch.since, watch_now(), memory_order_release);
}

void watch_message(comm *c)
{
    if (atomic_load_explicit(&c->watch.work, memory_order_relaxed) != WORK_NONE)
        atomic_store_explicit(&c->watch.work_since, watch_now(), memory_order_relaxed);
}

void watch_end(comm *c)
{
    watch_message(c);
    atomic_store_explicit(&c->watch.since, 0, memory_order_release);
}

/* ---- the thread */

/* I2 */
static void end_unless(bool changed, line *l)
{
    line_put(l, "; the job ends");
    if (changed) return;
    line_say(l);
    _exit(ERR_MACHINE);
}

static void look_at_wait(comm *c, long long since, long long now)
{
    double waited = 1e-9 * (double)(now - since);
    comm_work w = watch_work(c);
    if (waited <= work_patience(c, w)) return;
    line l = {.n = 0};
    line_rank(&l, c);
    line_put(&l, "no answer for ");
    line_number(&l, (long long)waited);
    line_put(&l, " s in ");
    line_operation(&l, c);
    end_unless(atomic_load(&c->watch.since) != since || watch_work(c) != w, &l);
}

static void look_at_work(comm *c, comm_work w, long long now)
{
    long long since = atomic_load_explicit(&c->watch.work_since, memory_order_acquire);
    double worked = 1e-9 * (double)(now - since);
    if (worked <= work_limit(c, w)) return;
    line l = {.n = 0};
    line_rank(&l, c);
    line_put(&l, "has been ");
    line_put(&l, work_rows[w].doing);
    line_put(&l, " for ");
    line_number(&l, (long long)worked);
    line_put(&l, " s (");
    line_put(&l, knobs[work_rows[w].shared ? K_HOST_TIMEOUT : K_DIST_TIMEOUT].key);
    line_put(&l, " is the limit)");
    end_unless(atomic_load(&c->watch.since) || watch_work(c) != w ||
                   atomic_load(&c->watch.work_since) != since,
               &l);
}

/* Has it moved, or nothing to do, since `since`? While the host is at long work of its own, it may
 * be what would move it. */
static bool device_moves(comm *c, uint64_t *progress)
{
    bool busy = false;
    *progress = c->watch.device.progress(c->watch.device.with, &busy);
    return !busy || *progress != c->watch.device_progress || watch_work(c) != WORK_NONE;
}

static void put_device(line *l, comm *c, const char *before)
{
    char text[2048];
    uint64_t progress;
    if (!c->watch.device.progress || device_moves(c, &progress)) return;
    c->watch.device.text(c->watch.device.with, text, sizeof text);
    line_put(l, before);
    line_put(l, text);
}

static void look_at_device(comm *c, long long now)
{
    uint64_t progress;
    if (device_moves(c, &progress)) {
        c->watch.device_since = now;
        c->watch.device_progress = progress;
        return;
    }
    double stood = 1e-9 * (double)(now - c->watch.device_since);
    if (stood <= c->timeout) return;
    line l = {.n = 0};
    line_rank(&l, c);
    line_put(&l, "no operation has ended on the device for ");
    line_number(&l, (long long)stood);
    line_put(&l, " s");
    put_device(&l, c, ": ");
    end_unless(device_moves(c, &progress), &l);
}

static void look(comm *c)
{
    if (c->watch.device.progress) look_at_device(c, watch_now());
    if (c->size == 1) return; /* nobody else waits for it */
    long long now = watch_now(),
              since = atomic_load_explicit(&c->watch.since, memory_order_acquire);
    comm_work w = watch_work(c);
    if (since)
        look_at_wait(c, since, now);
    else if (w)
        look_at_work(c, w, now);
}

/* Who is not in a job yet, or no more, knows of itself what the launcher has told it. */
static void look_at_call(long long now)
{
    long long since = atomic_load_explicit(&call.since, memory_order_acquire);
    if (!since || 1e-9 * (double)(now - since) <= call.timeout) return;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMIX_RANK");
    line l = {.n = 0};
    line_put(&l, "moefold: rank ");
    line_put(&l, rank ? rank : "?");
    line_put(&l, ": no answer for ");
    line_number(&l, (now - since) / 1000000000);
    line_put(&l, " s in ");
    line_put(&l, call.what);
    line_put(&l, "; the job ends");
    line_say(&l);
    _exit(ERR_MACHINE);
}

static double shortest_timeout(void)
{
    double t = atomic_load(&call.since) && call.timeout < 5 ? call.timeout : 5;
    for (comm *c = watch.list; c; c = c->watch.next) {
        if (c->timeout < t) t = c->timeout;
        if (c->host_timeout < t) t = c->host_timeout;
    }
    return t;
}

static void *watch_thread(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&watch.lock);
    for (;;) {
        while (!watch.list && !atomic_load(&call.since))
            pthread_cond_wait(&watch.added, &watch.lock);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        long long step = (long long)(shortest_timeout() * 1e8) + until.tv_nsec;
        until.tv_sec += (time_t)(step / 1000000000);
        until.tv_nsec = (long)(step % 1000000000);
        pthread_cond_timedwait(&watch.added, &watch.lock, &until);
        for (comm *c = watch.list; c; c = c->watch.next) look(c);
        look_at_call(watch_now());
    }
    return NULL;
}

/* I1 */
static void before_fork(void)
{
    pthread_mutex_lock(&watch.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&watch.lock);
}

static void in_child(void)
{
    for (comm *c = watch.list; c; c = c->watch.next) c->watch.listed = false;
    watch.list = NULL;
    watch.runs = false;
    atomic_store(&call.since, 0);
    watch.added = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&watch.lock);
}

static void start_thread(void)
{
    if (!watch.forks) watch.forks = pthread_atfork(before_fork, after_fork, in_child) == 0;
    sigset_t all, before; /* signals belong to the threads that run ranks */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    watch.runs = pthread_create(&thread, NULL, watch_thread, NULL) == 0;
    if (watch.runs) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!watch.runs)
        fprintf(stderr, "moefold: cannot start the watchdog thread: a job that hangs will not end "
                        "on its own\n");
}

void watch_call(const char *what, double timeout)
{
    pthread_mutex_lock(&watch.lock);
    call.what = what;
    call.timeout = timeout;
    atomic_store_explicit(&call.since, what ? watch_now() : 0, memory_order_release);
    if (!watch.runs) start_thread();
    pthread_cond_signal(&watch.added);
    pthread_mutex_unlock(&watch.lock);
}

static void add_locked(comm *c)
{
    if (!c->watch.listed) {
        c->watch.next = watch.list;
        watch.list = c;
        c->watch.listed = true;
    }
    if (!watch.runs) start_thread();
    pthread_cond_signal(&watch.added);
}

void watch_add(comm *c)
{
    pthread_mutex_lock(&watch.lock);
    add_locked(c);
    pthread_mutex_unlock(&watch.lock);
}

void comm_watches(comm *c, const comm_device *w)
{
    pthread_mutex_lock(&watch.lock);
    c->watch.device = w ? *w : (comm_device){0};
    c->watch.device_since = watch_now();
    c->watch.device_progress = 0;
    if (w) add_locked(c);
    pthread_mutex_unlock(&watch.lock);
}

void watch_remove(comm *c)
{
    if (atomic_load(&told) == c) {
        sigaction(SIGTERM, &previous, NULL);
        atomic_store(&told, NULL);
    }
    pthread_mutex_lock(&watch.lock);
    comm **p = &watch.list;
    while (*p && *p != c) p = &(*p)->watch.next;
    if (*p) *p = c->watch.next;
    c->watch.listed = false;
    pthread_mutex_unlock(&watch.lock);
}

/* ---- SIGTERM */

void comm_told_to_end(void)
{
    comm *c = atomic_load(&told);
    if (!c) return;
    line l = {.n = 0};
    line_rank(&l, c);
    line_put(&l, "told to end (SIGTERM) ");
    line_doing(&l, c);
    line_say(&l);
}

static void on_term(int number)
{
    (void)number;
    comm_told_to_end();
    _exit(ERR_MACHINE);
}

void watch_signals(comm *c)
{
    struct sigaction action = {.sa_handler = on_term};
    sigemptyset(&action.sa_mask);
    atomic_store(&told, c);
    sigaction(SIGTERM, NULL, &previous);
    if (previous.sa_handler == SIG_DFL) sigaction(SIGTERM, &action, NULL);
}
