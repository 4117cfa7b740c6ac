/* shm.c - matches messages between ranks that are threads: a message waits in its communicator's
 * room until all its partners have posted theirs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/comm/shm.h"
#include "backend/comm/state.h"

/* A message with what the board knows of it; on its seat, at the message's index. */
typedef struct ticket {
    message *m;
    struct shm_slot *shm_slot;
    int64_t place;
    uint64_t sequence;
    int64_t arrived;     /* of the first to arrive: how many have */
    struct ticket *with; /* others of the same meeting */
    struct ticket *next; /* in the room's lists */
} ticket;

typedef struct room {
    comm_group group;
    op_stream channel;
    int64_t first, n;  /* rank of the first member; members */
    uint64_t *next;    /* [n]: number of each member's next collective */
    ticket *open;      /* collectives that not all have started: the first arrival of each */
    ticket *unmatched; /* sends and receives, in the order of their start */
    struct room *following;
} room;

typedef struct shm_transport {
    pthread_mutex_t lock;
    room *rooms;
    int n, open_shm_slots;
} shm_transport;

struct shm_slot {
    shm_transport *b;
    int64_t rank, size;                     /* as messages to people name it */
    pthread_cond_t changed;                 /* one of this rank's messages is done */
    uint64_t finished, seen;                /* how many; and when this rank last rested */
    const members *groups;                  /* [GROUP_COUNT] */
    room *rooms[GROUP_COUNT][STREAM_COUNT]; /* by channel; NULL: not a member, or not open */
    ticket *tickets;                        /* [COMM_REQUESTS_MAX] */
    message **all;                          /* [n]: a collective by places, for whoever moves it */
    ticket **of_all;
};

static void stop(const shm_slot *s, const message *m, const char *why)
{
    fprintf(stderr, "moefold: rank %lld of %lld: %s %s (group %s): %s; the job ends\n",
            (long long)s->rank, (long long)s->size, m->what, m->name ? m->name : "",
            comm_group_name(m->group), why);
    _exit(ERR_MACHINE);
}

/* ---- seats */

static void shm_slot_init(shm_slot *s, shm_transport *b, int rank, int n)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    *s = (shm_slot){.b = b, .rank = rank, .size = n};
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool shm_transport_open(shm_slot **out, int n)
{
    shm_transport *b = calloc(1, sizeof *b);
    if (!b) return false;
    pthread_mutex_init(&b->lock, NULL);
    for (int i = 0; i < n; i++) {
        shm_slot *s = malloc(sizeof *s);
        if (!s) return false; /* at the start of a program that then ends */
        shm_slot_init(s, b, i, n);
        s->all = calloc((size_t)n, sizeof(message *));
        s->of_all = calloc((size_t)n, sizeof(ticket *));
        s->tickets = calloc(COMM_REQUESTS_MAX, sizeof(ticket));
        if (!s->all || !s->of_all || !s->tickets) return false;
        out[i] = s;
    }
    b->n = b->open_shm_slots = n;
    return true;
}

void shm_transport_rename(shm_slot *s, int64_t rank, int64_t size)
{
    s->rank = rank;
    s->size = size;
}

static void close_shm_slot(void *state)
{
    shm_slot *s = state;
    shm_transport *b = s->b;
    pthread_mutex_lock(&b->lock);
    bool last = --b->open_shm_slots == 0;
    pthread_mutex_unlock(&b->lock);
    pthread_cond_destroy(&s->changed);
    free(s->all);
    free(s->of_all);
    free(s->tickets);
    free(s);
    if (!last) return;
    for (room *r = b->rooms, *after; r; r = after) {
        after = r->following;
        free(r->next);
        free(r);
    }
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static room *find_room(shm_transport *b, comm_group g, op_stream channel, const members *who)
{
    for (room *r = b->rooms; r; r = r->following)
        if (r->group == g && r->channel == channel && r->first == who->ranks[0] && r->n == who->n)
            return r;
    room *r = malloc(sizeof *r);
    uint64_t *next = calloc((size_t)who->n, sizeof *next);
    if (!r || !next) {
        free(r);
        free(next);
        return NULL;
    }
    *r = (room){.group = g,
                .channel = channel,
                .first = who->ranks[0],
                .n = who->n,
                .next = next,
                .following = b->rooms};
    b->rooms = r;
    return r;
}

static status enter_rooms(void *state, const comm_use *use, error *err)
{
    shm_slot *s = state;
    status st = OK;
    pthread_mutex_lock(&s->b->lock);
    for (int g = 0; g < GROUP_COUNT; g++) {
        const members *who = &s->groups[g];
        /* A seat of its own in a larger job enters the rooms where it is alone. */
        if (who->n < 1 || who->n > s->b->n) continue;
        for (int k = 0; k < STREAM_COUNT && !st; k++) {
            if (!use->on[g][k]) continue;
            s->rooms[g][k] = find_room(s->b, (comm_group)g, (op_stream)k, who);
            if (!s->rooms[g][k]) st = error_set(err, ERR_MACHINE, "no memory for groups of ranks");
        }
    }
    pthread_mutex_unlock(&s->b->lock);
    return st;
}

static status enter_control(void *state, const members *groups, bool stamped, error *err)
{
    (void)stamped; /* the time of the last start is always known here */
    shm_slot *s = state;
    s->groups = groups;
    comm_use use = {{{false}}};
    for (int g = 0; g < GROUP_COUNT; g++) {
        use.on[g][STREAM_HOST] = true;
        for (int k = 0; k < STREAM_COUNT; k++) s->rooms[g][k] = NULL;
    }
    return enter_rooms(state, &use, err);
}

/* ---- matching */

static void finish(ticket *t, double last_start)
{
    shm_slot *s = t->shm_slot; /* message and ticket are the owner's again once it is done */
    t->m->last_start = last_start;
    atomic_store_explicit(&t->m->done, true, memory_order_release);
    s->finished++;
    pthread_cond_signal(&s->changed);
}

static void append(ticket **list, ticket *t)
{
    while (*list) list = &(*list)->next;
    t->next = NULL;
    *list = t;
}

/* Joins the meeting of this number, or opens it. Returns its first arrival, out of the room's list,
 * when all are there; else NULL. */
static ticket *join(room *r, ticket *t)
{
    t->sequence = r->next[t->place]++;
    ticket **list = &r->open;
    while (*list && (*list)->sequence != t->sequence) list = &(*list)->next;
    ticket *first = *list;
    if (!first) {
        first = t;
        append(list, t);
    } else {
        t->with = first->with;
        first->with = t;
    }
    if (++first->arrived < r->n) return NULL;
    *list = first->next;
    return first;
}

static void start_collective(shm_slot *s, room *r, ticket *t)
{
    char text[320];
    double now = t->m->started;
    pthread_mutex_lock(&s->b->lock);
    ticket *first = join(r, t);
    pthread_mutex_unlock(&s->b->lock);
    if (!first) return;
    for (ticket *p = first; p; p = p->with) {
        s->of_all[p->place] = p;
        s->all[p->place] = p->m;
        if (p->m->started > now) now = p->m->started;
    }
    if (shm_transport_move(s->all, r->n, text, sizeof text)) stop(s, t->m, text);
    pthread_mutex_lock(&s->b->lock);
    for (int64_t p = 0; p < r->n; p++) finish(s->of_all[p], now);
    pthread_mutex_unlock(&s->b->lock);
}

static int64_t partner(const room *r, const ticket *t)
{
    return ((t->place + t->m->step) % r->n + r->n) % r->n;
}

static bool are_pair(const room *r, const ticket *a, const ticket *b)
{
    return a->m->kind != b->m->kind && a->m->tag == b->m->tag && partner(r, a) == b->place &&
           partner(r, b) == a->place;
}

static void check_pair(const shm_slot *s, const message *m, const ticket *other)
{
    const message *o = other->m;
    if (o->n == m->n && o->type == m->type) return;
    char text[160];
    snprintf(text, sizeof text,
             "%lld %s sent or expected here, %lld %s on rank %d of the group (tag %lld)",
             (long long)m->n, dtype_name(m->type), (long long)o->n, dtype_name(o->type),
             (int)other->place, (long long)m->tag);
    stop(s, m, text);
}

static void start_pair(shm_slot *s, room *r, ticket *t)
{
    pthread_mutex_lock(&s->b->lock);
    ticket **list = &r->unmatched;
    while (*list && !are_pair(r, *list, t)) list = &(*list)->next;
    ticket *other = *list;
    if (other)
        *list = other->next;
    else
        append(list, t);
    pthread_mutex_unlock(&s->b->lock);
    if (!other) return;
    message *m = t->m;
    check_pair(s, m, other);
    const message *from = m->kind == MESSAGE_SEND ? m : other->m;
    const message *to = m->kind == MESSAGE_SEND ? other->m : m;
    if (m->n) memmove(to->y, from->x, message_bytes(m));
    double now = m->started > other->m->started ? m->started : other->m->started;
    pthread_mutex_lock(&s->b->lock);
    finish(other, now);
    finish(t, now);
    pthread_mutex_unlock(&s->b->lock);
}

static void start(void *state, message *m)
{
    shm_slot *s = state;
    room *r = s->rooms[m->group][m->channel];
    if (!r) stop(s, m, "this rank is not in the group");
    ticket *t = &s->tickets[m->index];
    *t = (ticket){.m = m, .shm_slot = s, .place = s->groups[m->group].place};
    if (message_is_pair(m))
        start_pair(s, r, t);
    else
        start_collective(s, r, t);
}

static bool test(void *state, message *m)
{
    (void)state;
    return atomic_load_explicit(&m->done, memory_order_acquire);
}

static void progress(void *state)
{
    (void)state; /* whoever completes a message moves it */
}

static void rest(void *state, message *m, int tries)
{
    (void)tries;
    shm_slot *s = state;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 100 * 1000 * 1000;
    if (until.tv_nsec >= 1000 * 1000 * 1000) {
        until.tv_nsec -= 1000 * 1000 * 1000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&s->b->lock);
    /* What was done since the last rest may let another message begin: the caller looks. */
    if (!test(state, m) && s->finished == s->seen)
        pthread_cond_timedwait(&s->changed, &s->b->lock, &until);
    s->seen = s->finished;
    pthread_mutex_unlock(&s->b->lock);
}

static void stop_process(void *state, int code)
{
    (void)state;
    _exit(code);
}

const backend shm_backend = {.name = "threads",
                             .groups = enter_control,
                             .channels = enter_rooms,
                             .start = start,
                             .test = test,
                             .progress = progress,
                             .rest = rest,
                             .abort = stop_process,
                             .close = close_shm_slot};
