/* wider.c - sums in a wider format than messages have.
 *
 * An operation of MPI's own would round after each addition, and in an order of the library's. So
 * a reduce-scatter sends every member its blocks of all (an all-to-all) and this rank adds what it
 * got once all of it is there (adder.h). An all-reduce does that with blocks of N / P, and then
 * sends its block of the sum to all. Blocks are padded where P does not divide N.
 *
 * I1  The second part of an all-reduce begins at a time of this rank's own, so collective calls in
 *     it would meet others in another order on another rank. It is made of sends and receives, with
 *     a tag of the message's own: its number in the group among such sums.
 * I2  A rank that waits for any message moves all sums on: whoever it waits for may wait for its
 *     block.
 * I3  Memory is kept for the next message: after the first steps nothing is allocated. */
#include "comm/mpi/wider.h"

#include <stdlib.h>

#include "base/maths.h"

/* One piece of memory. A reduce-scatter has blocks; an all-reduce requests[2 P] and, where it is
 * padded, a list of its own, too. */
typedef struct wider_room {
    struct wider_room *next; /* free ones */
    size_t room;
    bool first_part;
    MPI_Request *requests;
    char *blocks; /* [P][block] of all members */
    char *list;   /* [P][block] that is summed; y itself where it is not padded */
    int64_t block;
    int tag;
} wider_room;

enum { ALIGN = 64 };

static void check(const message *m, const char *call, int code)
{
    if (code) mpi_stop(m, call, code);
}

/* The smallest free one that is large enough; else a free one grows. */
static wider_room *take_room(state *s, const message *m, size_t bytes)
{
    wider_room **best = NULL;
    for (wider_room **p = &s->rooms; *p; p = &(*p)->next) {
        bool fits = (*p)->room >= bytes;
        if (!best || (fits && ((*best)->room < bytes || (*p)->room < (*best)->room))) best = p;
    }
    wider_room *r = best ? *best : NULL;
    if (r) *best = r->next;
    if (r && r->room >= bytes) return r;
    free(r);
    r = malloc(bytes);
    if (!r) mpi_stop(m, "a sum", 0);
    r->room = bytes;
    return r;
}

static int members_of_message(const state *s, const message *m)
{
    return (int)s->groups[m->group].n;
}

static int place_of_message(const state *s, const message *m)
{
    return (int)s->groups[m->group].place;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t block_bytes(const message *m, const wider_room *r)
{
    return (size_t)dtype_bytes(m->type, r->block);
}

static wider_room *lay_out(state *s, message *m, int64_t block, int requests, bool padded)
{
    size_t head = aligned(sizeof(wider_room));
    size_t asked = aligned((size_t)requests * sizeof(MPI_Request));
    size_t all = aligned((size_t)members_of_message(s, m) * (size_t)dtype_bytes(m->type, block));
    wider_room *r = take_room(s, m, head + asked + all + (padded ? all : 0));
    char *at = (char *)r + head;
    r->requests = (MPI_Request *)(void *)at;
    r->blocks = at + asked;
    r->list = padded ? r->blocks + all : m->y;
    r->block = block;
    r->first_part = requests > 0;
    m->memory = r;
    return r;
}

static void send_blocks(state *s, message *m, const void *from, MPI_Comm among)
{
    wider_room *r = m->memory;
    cut_type t = cut_typed(s, m, r->block);
    check(m, "MPI_Ialltoall",
          MPI_Ialltoall(from, t.count, t.type, r->blocks, t.count, t.type, among, REQUEST(m, 0)));
    cut_release(&t);
}

void wider_reduce_scatter(state *s, message *m, MPI_Comm among)
{
    lay_out(s, m, m->n, 0, false);
    send_blocks(s, m, m->x, among);
}

void wider_all_reduce(state *s, message *m, MPI_Comm among)
{
    int members_n = members_of_message(s, m);
    int64_t block = ceil_div(m->n, members_n);
    bool padded = block * members_n != m->n;
    wider_room *r = lay_out(s, m, block, 2 * members_n, padded);
    r->tag = s->most_tag - (int)(s->wider_sums[m->group]++ % WIDER_TAGS); /* I1 */
    if (padded) {
        size_t whole = (size_t)members_n * block_bytes(m, r), filled = message_bytes(m);
        memcpy(r->list, m->y, filled);
        memset(r->list + filled, 0, whole - filled);
    }
    send_blocks(s, m, r->list, among);
    message **last = &s->summing;
    while (*last) last = &(*last)->summing;
    *last = m;
}

static void add_blocks(const state *s, const message *m, char *to)
{
    const wider_room *r = m->memory;
    size_t each = block_bytes(m, r);
    adder total;
    for (int64_t i = 0; i < r->block; i += ADDER_BLOCK) {
        int64_t n = r->block - i < ADDER_BLOCK ? r->block - i : ADDER_BLOCK;
        int64_t at = dtype_bytes(m->type, i);
        for (int p = 0; p < members_of_message(s, m); p++)
            adder_add(&total, m->type, r->blocks + (size_t)p * each + at, n, p == 0);
        adder_take(&total, m->type, to + at, n);
    }
}

static void start_second_part(const state *s, message *m)
{
    wider_room *r = m->memory;
    int members_n = members_of_message(s, m), place = place_of_message(s, m);
    size_t each = block_bytes(m, r);
    char *own = r->list + (size_t)place * each;
    MPI_Comm among = s->comms[m->group];
    add_blocks(s, m, own);
    cut_type t = cut_typed(s, m, r->block);
    for (int p = 0; p < members_n; p++) {
        MPI_Request *of = &r->requests[2 * p];
        of[0] = of[1] = MPI_REQUEST_NULL;
        if (p == place) continue;
        check(m, "MPI_Irecv",
              MPI_Irecv(r->list + (size_t)p * each, t.count, t.type, p, r->tag, among, &of[0]));
        check(m, "MPI_Isend", MPI_Isend(own, t.count, t.type, p, r->tag, among, &of[1]));
    }
    cut_release(&t);
    r->first_part = false;
}

void wider_go_on(state *s) /* I2 */
{
    for (message **p = &s->summing; *p;) {
        message *m = *p;
        int there = 0;
        check(m, "MPI_Test", MPI_Test(REQUEST(m, 0), &there, MPI_STATUS_IGNORE));
        if (!there) {
            p = &m->summing;
            continue;
        }
        *p = m->summing;
        start_second_part(s, m);
    }
}

bool wider_is_under_way(const state *s, message *m)
{
    wider_room *r = m->memory;
    int all = 1;
    if (!r || m->kind != MESSAGE_ALL_REDUCE) return false;
    if (r->first_part) return true;
    check(m, "MPI_Testall",
          MPI_Testall(2 * members_of_message(s, m), r->requests, &all, MPI_STATUSES_IGNORE));
    return !all;
}

void wider_end(state *s, message *m)
{
    wider_room *r = m->memory;
    if (m->kind == MESSAGE_REDUCE_SCATTER)
        add_blocks(s, m, m->y);
    else if (r->list != m->y)
        memcpy(m->y, r->list, message_bytes(m));
    r->next = s->rooms; /* I3 */
    s->rooms = r;
    m->memory = NULL;
}

void wider_close(state *s)
{
    for (wider_room *r = s->rooms, *after; r; r = after) {
        after = r->next;
        free(r);
    }
    s->rooms = NULL;
}
