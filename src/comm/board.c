/* board.c - rooms where messages wait for their partners. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/board.h"
#include "comm/state.h"

typedef struct room {
    comm_group group;
    int64_t first, n;   /* rank of the first member; members */
    uint64_t *next;     /* [n]: number of each member's next collective */
    message *open;      /* collectives that not all have started: the first arrival of each */
    message *unmatched; /* sends and receives, in the order of their start */
    struct room *following;
} room;

typedef struct board {
    pthread_mutex_t lock;
    room *rooms;
    int n, open_seats;
} board;

struct seat {
    board *b;
    int64_t rank, size;       /* as messages to people name it */
    pthread_cond_t changed;   /* one of this rank's messages is done */
    const members *groups;    /* [GROUP_COUNT] */
    room *rooms[GROUP_COUNT]; /* NULL: not a member */
    message **all;            /* [n]: a collective by places, for whoever moves it */
};

static void stop(const seat *s, const message *m, const char *why)
{
    fprintf(stderr, "moefold: rank %lld of %lld: %s %s (group %s): %s; the job ends\n",
            (long long)s->rank, (long long)s->size, m->what, m->name ? m->name : "",
            comm_group_name(m->group), why);
    _exit(ERR_MACHINE);
}

/* ---- seats */

static void seat_init(seat *s, board *b, int rank, int n)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    *s = (seat){.b = b, .rank = rank, .size = n};
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool board_open(seat **out, int n)
{
    board *b = calloc(1, sizeof *b);
    if (!b) return false;
    pthread_mutex_init(&b->lock, NULL);
    for (int i = 0; i < n; i++) {
        seat *s = malloc(sizeof *s);
        message **all = calloc((size_t)n, sizeof *all);
        if (!s || !all) return false; /* at the start of a program that then ends */
        seat_init(s, b, i, n);
        s->all = all;
        out[i] = s;
    }
    b->n = b->open_seats = n;
    return true;
}

void board_rename(seat *s, int64_t rank, int64_t size)
{
    s->rank = rank;
    s->size = size;
}

static void close_seat(void *state)
{
    seat *s = state;
    board *b = s->b;
    pthread_mutex_lock(&b->lock);
    bool last = --b->open_seats == 0;
    pthread_mutex_unlock(&b->lock);
    pthread_cond_destroy(&s->changed);
    free(s->all);
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

static room *find_room(board *b, comm_group g, const members *who)
{
    for (room *r = b->rooms; r; r = r->following)
        if (r->group == g && r->first == who->ranks[0] && r->n == who->n) return r;
    room *r = malloc(sizeof *r);
    uint64_t *next = calloc((size_t)who->n, sizeof *next);
    if (!r || !next) {
        free(r);
        free(next);
        return NULL;
    }
    *r = (room){
        .group = g, .first = who->ranks[0], .n = who->n, .next = next, .following = b->rooms};
    b->rooms = r;
    return r;
}

static status enter_rooms(void *state, const members *groups, bool stamped, error *err)
{
    (void)stamped; /* the time of the last start is always known here */
    seat *s = state;
    s->groups = groups;
    status st = OK;
    pthread_mutex_lock(&s->b->lock);
    for (int g = 0; g < GROUP_COUNT && !st; g++) {
        /* A seat of its own in a larger job enters the rooms where it is alone. */
        if (groups[g].n < 1 || groups[g].n > s->b->n) continue;
        s->rooms[g] = find_room(s->b, (comm_group)g, &groups[g]);
        if (!s->rooms[g]) st = error_set(err, ERR_MACHINE, "no memory for groups of ranks");
    }
    pthread_mutex_unlock(&s->b->lock);
    return st;
}

/* ---- matching */

static void finish(message *m, double last_start)
{
    seat *s = m->seat; /* the message is the owner's again once it is done */
    m->last_start = last_start;
    atomic_store_explicit(&m->done, true, memory_order_release);
    pthread_cond_signal(&s->changed);
}

static void append(message **list, message *m)
{
    while (*list) list = &(*list)->next;
    m->next = NULL;
    *list = m;
}

/* Joins the meeting of this number, or opens it. Returns its first arrival, out of the room's list,
 * when all are there; else NULL. */
static message *join(room *r, message *m)
{
    m->sequence = r->next[m->place]++;
    message **list = &r->open;
    while (*list && (*list)->sequence != m->sequence) list = &(*list)->next;
    message *first = *list;
    if (!first) {
        first = m;
        append(list, m);
    } else {
        m->with = first->with;
        first->with = m;
    }
    if (++first->arrived < r->n) return NULL;
    *list = first->next;
    return first;
}

static void start_collective(seat *s, room *r, message *m)
{
    char text[320];
    pthread_mutex_lock(&s->b->lock);
    message *first = join(r, m);
    pthread_mutex_unlock(&s->b->lock);
    if (!first) return;
    for (message *p = first; p; p = p->with) s->all[p->place] = p;
    if (board_move(s->all, r->n, text, sizeof text)) stop(s, m, text);
    pthread_mutex_lock(&s->b->lock);
    for (int64_t p = 0; p < r->n; p++) finish(s->all[p], m->started);
    pthread_mutex_unlock(&s->b->lock);
}

static int64_t partner(const room *r, const message *m)
{
    return ((m->place + m->step) % r->n + r->n) % r->n;
}

static bool are_pair(const room *r, const message *a, const message *b)
{
    return a->kind != b->kind && a->tag == b->tag && partner(r, a) == b->place &&
           partner(r, b) == a->place;
}

static void start_pair(seat *s, room *r, message *m)
{
    pthread_mutex_lock(&s->b->lock);
    message **list = &r->unmatched;
    while (*list && !are_pair(r, *list, m)) list = &(*list)->next;
    message *other = *list;
    if (other)
        *list = other->next;
    else
        append(list, m);
    pthread_mutex_unlock(&s->b->lock);
    if (!other) return;
    if (other->n != m->n || other->type != m->type) {
        char text[160];
        snprintf(text, sizeof text,
                 "%lld %s sent or expected here, %lld %s on rank %d of the group (tag %lld)",
                 (long long)m->n, dtype_name(m->type), (long long)other->n, dtype_name(other->type),
                 (int)other->place, (long long)m->tag);
        stop(s, m, text);
    }
    const message *from = m->kind == MESSAGE_SEND ? m : other;
    const message *to = m->kind == MESSAGE_SEND ? other : m;
    if (m->n) memmove(to->y, from->x, message_bytes(m));
    double now = m->started;
    pthread_mutex_lock(&s->b->lock);
    finish(other, now);
    finish(m, now);
    pthread_mutex_unlock(&s->b->lock);
}

static void start(void *state, message *m)
{
    seat *s = state;
    room *r = s->rooms[m->group];
    m->seat = s;
    m->place = s->groups[m->group].place;
    if (!r) stop(s, m, "this rank is not in the group");
    if (m->kind == MESSAGE_SEND || m->kind == MESSAGE_RECV)
        start_pair(s, r, m);
    else
        start_collective(s, r, m);
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
    seat *s = state;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 100 * 1000 * 1000;
    if (until.tv_nsec >= 1000 * 1000 * 1000) {
        until.tv_nsec -= 1000 * 1000 * 1000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&s->b->lock);
    if (!test(state, m)) pthread_cond_timedwait(&s->changed, &s->b->lock, &until);
    pthread_mutex_unlock(&s->b->lock);
}

static void stop_process(void *state, int code)
{
    (void)state;
    _exit(code);
}

const backend board_backend = {.name = "threads",
                               .groups = enter_rooms,
                               .start = start,
                               .test = test,
                               .progress = progress,
                               .rest = rest,
                               .abort = stop_process,
                               .close = close_seat};
