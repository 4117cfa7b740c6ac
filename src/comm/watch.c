/* watch.c - who waits too long, and what a rank says when it is told to end.
 *
 * One thread of the process looks at all its ranks a few times a second. It calls nothing of a
 * message library: it says what is known and ends the process, which mpirun and srun take as the
 * end of the job (they tell the other ranks by SIGTERM).
 *
 * I1  A forked process has none of its parent's threads and ranks: it is watched anew, and never
 *     waits for a lock that a thread held which it does not have. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/state.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t added;
    comm *list;
    bool runs, forks; /* `forks`: what I1 needs is in place */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .added = PTHREAD_COND_INITIALIZER};

static comm *_Atomic told;        /* the rank of this process */
static struct sigaction previous; /* of SIGTERM */

static long long nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

void watch_begin(comm *c, const message *m)
{
    c->watch.what = m->what;
    c->watch.name = m->name;
    c->watch.group = m->group;
    atomic_store_explicit(&c->watch.since, nanoseconds(), memory_order_release);
}

void watch_end(comm *c)
{
    atomic_store_explicit(&c->watch.since, 0, memory_order_release);
}

/* ---- what is said; also in a signal handler, so without stdio */

typedef struct line {
    char text[512];
    size_t n;
} line;

static void put(line *l, const char *s)
{
    while (s && *s && l->n < sizeof l->text) l->text[l->n++] = *s++;
}

static void put_number(line *l, long long v)
{
    char digits[24];
    size_t n = sizeof digits;
    digits[--n] = 0;
    do digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    put(l, digits + n);
}

static void put_rank(line *l, const comm *c)
{
    put(l, "moefold: rank ");
    put_number(l, c->rank);
    put(l, " of ");
    put_number(l, c->size);
    put(l, ": ");
}

static void put_where(line *l, comm *c, const char *before)
{
    const char *where = atomic_load_explicit(&c->watch.where, memory_order_relaxed);
    const char *detail = atomic_load_explicit(&c->watch.detail, memory_order_relaxed);
    if (!where && !detail) return;
    put(l, before);
    put(l, where);
    if (where && detail) put(l, " ");
    put(l, detail);
}

static void put_operation(line *l, comm *c)
{
    put(l, c->watch.what);
    if (c->watch.name) put(l, " ");
    put(l, c->watch.name);
    put(l, " (group ");
    put(l, comm_group_name(c->watch.group));
    put_where(l, c, ", ");
    put(l, ")");
}

static void say(line *l)
{
    if (l->n == sizeof l->text) l->n--;
    l->text[l->n++] = '\n';
    ssize_t written = write(STDERR_FILENO, l->text, l->n);
    (void)written; /* nobody left to tell */
}

/* ---- the thread */

static void look(comm *c, long long now)
{
    long long since = atomic_load_explicit(&c->watch.since, memory_order_acquire);
    if (!since) return;
    double waited = 1e-9 * (double)(now - since);
    if (waited <= c->timeout) return;
    line l = {.n = 0};
    put_rank(&l, c);
    put(&l, "no answer for ");
    put_number(&l, (long long)waited);
    put(&l, " s in ");
    put_operation(&l, c);
    put(&l, "; the job ends");
    say(&l);
    _exit(ERR_MACHINE);
}

static double shortest_timeout(void)
{
    double t = 5;
    for (comm *c = watch.list; c; c = c->watch.next)
        if (c->timeout < t) t = c->timeout;
    return t;
}

static void *watch_thread(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&watch.lock);
    for (;;) {
        while (!watch.list) pthread_cond_wait(&watch.added, &watch.lock);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        long long step = (long long)(shortest_timeout() * 1e8) + until.tv_nsec;
        until.tv_sec += (time_t)(step / 1000000000);
        until.tv_nsec = (long)(step % 1000000000);
        pthread_cond_timedwait(&watch.added, &watch.lock, &until);
        for (comm *c = watch.list; c; c = c->watch.next) look(c, nanoseconds());
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
    watch.list = NULL;
    watch.runs = false;
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
        fprintf(stderr,
                "moefold: no thread can be started to watch the time of messages: a hanging "
                "job will not end by itself\n");
}

void watch_add(comm *c)
{
    pthread_mutex_lock(&watch.lock);
    c->watch.next = watch.list;
    watch.list = c;
    if (!watch.runs) start_thread();
    pthread_cond_signal(&watch.added);
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
    pthread_mutex_unlock(&watch.lock);
}

/* ---- SIGTERM */

void comm_told_to_end(void)
{
    comm *c = atomic_load(&told);
    if (!c) return;
    line l = {.n = 0};
    put_rank(&l, c);
    put(&l, "told to end (SIGTERM) ");
    if (atomic_load_explicit(&c->watch.since, memory_order_acquire)) {
        put(&l, "while it waits in ");
        put_operation(&l, c);
    } else {
        put(&l, "while it computes");
        put_where(&l, c, ": ");
    }
    say(&l);
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
