/* wider.c - sums in a wider format than messages have.
 *
 * An operation of MPI's own would round after each addition, and in an order of the library's. So
 * a reduce-scatter sends every member its blocks of all (an all-to-all) and this rank adds what it
 * got once all of it is there (adder.h). An all-reduce does that with blocks of N / P, and then
 * gathers the blocks of the sum. Blocks are padded where P does not divide N.
 *
 * I1  Each rank begins the second part of an all-reduce at its own time. It is still a valid
 *     collective call in the same communicator: messages of a stream run one after another, so no
 *     other message begins there before it is complete.
 * I2  A rank that waits for any message advances all its sums, because the rank that it waits for
 *     may be waiting for its block.
 * I3  Memory is kept for the next message: after the first steps nothing is allocated. */
#include "backend/mpi/wider.h"

#include <stdlib.h>

#include "base/maths.h"

/* One piece of memory: blocks, and a list where an all-reduce is padded. */
typedef struct wider_room {
    struct wider_room *next; /* free ones */
    size_t room;
    bool first_part;
    char *blocks; /* [P][block] of all members */
    char *list;   /* all-reduce: [P][block] that is summed; y itself where it is not padded */
    int64_t block;
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

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t block_bytes(const message *m, const wider_room *r)
{
    return (size_t)dtype_bytes(m->type, r->block);
}

static wider_room *lay_out(state *s, message *m, int64_t block, bool padded)
{
    size_t head = aligned(sizeof(wider_room));
    size_t all = aligned((size_t)members_of_message(s, m) * (size_t)dtype_bytes(m->type, block));
    wider_room *r = take_room(s, m, head + all + (padded ? all : 0));
    r->blocks = (char *)r + head;
    r->list = padded ? r->blocks + all : m->y;
    r->block = block;
    r->first_part = m->kind == MESSAGE_ALL_REDUCE;
    mpi_job_of(s, m)->memory = r;
    return r;
}

static void send_blocks(state *s, message *m, const void *from, MPI_Comm among)
{
    mpi_job *j = mpi_job_of(s, m);
    cut_type t = cut_typed(s, m, j->memory->block);
    check(m, "MPI_Ialltoall",
          MPI_Ialltoall(from, t.count, t.type, j->memory->blocks, t.count, t.type, among,
                        &j->request[0]));
    cut_release(&t);
}

void wider_reduce_scatter(state *s, message *m, MPI_Comm among)
{
    lay_out(s, m, m->n, false);
    send_blocks(s, m, m->x, among);
}

void wider_all_reduce(state *s, message *m, MPI_Comm among)
{
    int members_n = members_of_message(s, m);
    int64_t block = ceil_div(m->n, members_n);
    bool padded = block * members_n != m->n;
    wider_room *r = lay_out(s, m, block, padded);
    if (padded) {
        size_t whole = (size_t)members_n * block_bytes(m, r), filled = message_bytes(m);
        memcpy(r->list, m->y, filled);
        memset(r->list + filled, 0, whole - filled);
    }
    send_blocks(s, m, r->list, among);
    message **last = &s->summing;
    while (*last) last = &mpi_job_of(s, *last)->summing;
    *last = m;
}

static void add_blocks(const state *s, const message *m, char *to)
{
    const wider_room *r = mpi_job_of(s, m)->memory;
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
    mpi_job *j = mpi_job_of(s, m);
    wider_room *r = j->memory;
    int place = (int)s->groups[m->group].place;
    add_blocks(s, m, r->list + (size_t)place * block_bytes(m, r));
    cut_type t = cut_typed(s, m, r->block);
    check(m, "MPI_Iallgather",
          MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, r->list, t.count, t.type,
                         comm_of(s, m), &j->request[0])); /* I1 */
    cut_release(&t);
    r->first_part = false;
}

void wider_go_on(state *s) /* I2 */
{
    for (message **p = &s->summing; *p;) {
        message *m = *p;
        mpi_job *j = mpi_job_of(s, m);
        int there = 0;
        check(m, "MPI_Test", MPI_Test(&j->request[0], &there, MPI_STATUS_IGNORE));
        if (!there) {
            p = &j->summing;
            continue;
        }
        *p = j->summing;
        start_second_part(s, m);
    }
}

bool wider_is_summing(const mpi_job *j)
{
    return j->memory && j->memory->first_part;
}

void wider_end(state *s, message *m)
{
    mpi_job *j = mpi_job_of(s, m);
    wider_room *r = j->memory;
    if (m->kind == MESSAGE_REDUCE_SCATTER)
        add_blocks(s, m, m->y);
    else if (r->list != m->y)
        memcpy(m->y, r->list, message_bytes(m));
    r->next = s->rooms; /* I3 */
    s->rooms = r;
    j->memory = NULL;
}

void wider_close(state *s)
{
    for (wider_room *r = s->rooms, *after; r; r = after) {
        after = r->next;
        free(r);
    }
    s->rooms = NULL;
}
