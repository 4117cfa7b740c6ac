/* late.c - see late.h. One lock for all ranks of the process: it is a device for tests. */
#define _GNU_SOURCE
#include "emulated/late.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TASKS = 256 };

typedef struct late_stream {
    late *of;
    op_stream s;
    pthread_t thread;
    bool runs;
    pthread_cond_t more, less; /* tasks, for the thread; room, for the host */
    late_task *ring;           /* the n-th at ring[n % TASKS] */
    uint64_t put, done, random;
} late_stream;

struct late {
    device *d;
    void (*run)(device *d, op_stream s, late_task *t);
    bool ends;
    late_stream streams[STREAM_COUNT];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER; /* of records */

/* ---- the thread of a stream */

static void pause_a_little(late_stream *q)
{
    q->random ^= q->random << 13;
    q->random ^= q->random >> 7;
    q->random ^= q->random << 17;
    if (q->random % 8 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(q->random / 8 % 300) * 1000}, NULL);
    else if (q->random % 8 < 3)
        sched_yield();
}

/* Under the lock, which is given up while a task runs. */
static void do_task(late_stream *q, late_task *t)
{
    if (t->kind == LATE_WAIT) {
        while (t->event->passed < t->record) pthread_cond_wait(&passed, &lock);
        return;
    }
    if (t->kind == LATE_RECORD) {
        if (t->event->passed < t->record) t->event->passed = t->record;
        pthread_cond_broadcast(&passed);
        return;
    }
    pthread_mutex_unlock(&lock);
    pause_a_little(q);
    q->of->run(q->of->d, q->s, t);
    pthread_mutex_lock(&lock);
}

static void *stream_thread(void *with)
{
    late_stream *q = with;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (q->done == q->put && !q->of->ends) pthread_cond_wait(&q->more, &lock);
        if (q->done == q->put) break;
        do_task(q, &q->ring[q->done % TASKS]);
        q->done++;
        pthread_cond_signal(&q->less);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- opening and closing */

late *late_open(device *d, uint64_t seed, void (*run)(device *d, op_stream s, late_task *t))
{
    late *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->d = d;
    l->run = run;
    for (int s = 0; s < STREAM_COUNT; s++) {
        late_stream *q = &l->streams[s];
        q->of = l;
        q->s = (op_stream)s;
        pthread_cond_init(&q->more, NULL);
        pthread_cond_init(&q->less, NULL);
        q->random = (seed + 1) * 0x9e3779b97f4a7c15u + (uint64_t)s * 0xbf58476d1ce4e5b9u;
    }
    return l;
}

void late_close(late *l)
{
    if (!l) return;
    pthread_mutex_lock(&lock);
    l->ends = true;
    for (int s = 0; s < STREAM_COUNT; s++) pthread_cond_signal(&l->streams[s].more);
    pthread_mutex_unlock(&lock);
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (l->streams[s].runs) pthread_join(l->streams[s].thread, NULL);
        pthread_cond_destroy(&l->streams[s].more);
        pthread_cond_destroy(&l->streams[s].less);
        free(l->streams[s].ring);
    }
    free(l);
}

/* Threads are started when there is something to do. */
static void start(late_stream *q)
{
    static const char why[] = "device peers: no thread or no memory for a late stream";
    q->ring = calloc(TASKS, sizeof *q->ring);
    q->runs = q->ring && pthread_create(&q->thread, NULL, stream_thread, q) == 0;
    if (!q->runs) comm_abort(q->of->d->c, ERR_MACHINE, why);
}

/* ---- what the host does */

/* Under the lock. */
static late_task *next_entry(late_stream *q)
{
    if (!q->runs) start(q);
    while (q->put - q->done == TASKS) pthread_cond_wait(&q->less, &lock); /* I2 */
    return &q->ring[q->put % TASKS];
}

static void entered(late_stream *q)
{
    q->put++;
    pthread_cond_signal(&q->more);
}

void late_put(late *l, op_stream s, const late_task *t)
{
    late_stream *q = &l->streams[s];
    pthread_mutex_lock(&lock);
    late_task *to = next_entry(q);
    *to = *t;
    to->call.in = to->in;
    to->call.out = to->out;
    entered(q);
    pthread_mutex_unlock(&lock);
}

static void put_event(late *l, op_stream s, late_event *e, late_kind kind)
{
    late_stream *q = &l->streams[s];
    pthread_mutex_lock(&lock);
    late_task *to = next_entry(q);
    if (kind == LATE_RECORD) e->put++;
    to->kind = kind; /* I1 */
    to->event = e;
    to->record = e->put;
    entered(q);
    pthread_mutex_unlock(&lock);
}

void late_record(late *l, op_stream s, late_event *e)
{
    put_event(l, s, e, LATE_RECORD);
}

void late_wait(late *l, op_stream s, late_event *e)
{
    put_event(l, s, e, LATE_WAIT);
}

bool late_is_past(const late_event *e)
{
    pthread_mutex_lock(&lock);
    bool past = e->passed >= e->put;
    pthread_mutex_unlock(&lock);
    return past;
}

void late_until(const late_event *e)
{
    pthread_mutex_lock(&lock);
    const uint64_t last = e->put;
    while (e->passed < last) pthread_cond_wait(&passed, &lock);
    pthread_mutex_unlock(&lock);
}

void late_until_stream(late *l, op_stream s)
{
    late_stream *q = &l->streams[s];
    pthread_mutex_lock(&lock);
    const uint64_t last = q->put;
    while (q->done < last) pthread_cond_wait(&q->less, &lock);
    pthread_mutex_unlock(&lock);
}

void late_until_all(late *l)
{
    for (int s = 0; s < STREAM_COUNT; s++) late_until_stream(l, (op_stream)s);
}
