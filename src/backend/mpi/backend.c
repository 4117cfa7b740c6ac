/* backend.c - messages over Open MPI: the shared object moefold-mpi.so.
 *
 * I1  Every group has a communicator for the control plane, and one for each channel in use, made
 *     in one order on every rank; so collectives of different groups or streams never meet,
 *     whatever their order.
 * I2  All calls come from the thread that opened it (MPI_THREAD_FUNNELED).
 * I3  It calls nothing of the program (message.h; it has copies of dtype.c and adder.c), and
 *     allocates only for a message that is too large for MPI's counts, for exchanges that are
 *     checked, and for the first sums of BF16 and FP16 (wider.c).
 * I4  MPI ends a job where more rows arrive than a table has, but takes fewer in silence. So the
 *     members of the first CHECKED exchanges of a group tell each other how many they send: every
 *     table of some steps, and later steps lose no time by it.
 *
 * Tags: shifts have 0; sends and receives 2 tag + 1, and the stamp of their start one more. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/mpi/cut.h"
#include "backend/mpi/wider.h"

static state the;

enum { CHECKED = 512 }; /* I4 */

static int place_on(const message *m, int64_t step)
{
    int64_t n = the.groups[m->group].n, place = the.groups[m->group].place;
    return (int)(((place + step) % n + n) % n);
}

/* ---- faults */

void mpi_stop(const message *m, const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "no memory";
    int n;
    if (code) MPI_Error_string(code, text, &n);
    fprintf(stderr, "moefold: rank %d of %d: %s in %s %s (group %s): %s; the job ends\n", the.rank,
            the.size, call, m ? m->what : "the start", m && m->name ? m->name : "",
            m ? m->group_name : "world", text);
    MPI_Abort(MPI_COMM_WORLD, ERR_MACHINE);
    _exit(ERR_MACHINE);
}

#define CALL(m, call)                                                                              \
    do {                                                                                           \
        int code_ = call;                                                                          \
        if (code_) mpi_stop(m, #call, code_);                                                      \
    } while (0)

/* ---- starting */

static void start_gather(message *m, MPI_Comm among)
{
    cut_type t = cut_typed(&the, m, m->n);
    char *own = m->y + (size_t)the.groups[m->group].place * message_bytes(m);
    const void *x = m->x == own ? MPI_IN_PLACE : m->x;
    CALL(m, MPI_Iallgather(x, t.count, t.type, m->y, t.count, t.type, among,
                           &mpi_job_of(&the, m)->request[0]));
    cut_release(&t);
}

static void start_all_to_all(message *m, MPI_Comm among)
{
    cut_type t = cut_typed(&the, m, m->n);
    CALL(m, MPI_Ialltoall(m->x, t.count, t.type, m->y, t.count, t.type, among,
                          &mpi_job_of(&the, m)->request[0]));
    cut_release(&t);
}

static void start_broadcast(message *m, MPI_Comm among)
{
    cut_type t = cut_typed(&the, m, m->n);
    CALL(m,
         MPI_Ibcast(m->y, t.count, t.type, (int)m->step, among, &mpi_job_of(&the, m)->request[0]));
    cut_release(&t);
}

static void start_all_reduce(message *m, MPI_Comm among)
{
    if (adder_is_wider(m->type))
        wider_all_reduce(&the, m, among);
    else if (cut_needed(&the, m, m->n))
        cut_all_reduce(&the, m, among);
    else
        CALL(m, MPI_Iallreduce(MPI_IN_PLACE, m->y, (int)m->n, cut_element(m->type), MPI_SUM, among,
                               &mpi_job_of(&the, m)->request[0]));
}

static void start_reduce_scatter(message *m, MPI_Comm among)
{
    size_t own = (size_t)the.groups[m->group].place * message_bytes(m);
    void *to = m->in_place ? m->y - own : m->y;
    if (adder_is_wider(m->type))
        wider_reduce_scatter(&the, m, among);
    else if (cut_needed(&the, m, m->n))
        cut_reduce_scatter(&the, m, among);
    else
        CALL(m, MPI_Ireduce_scatter_block(m->in_place ? MPI_IN_PLACE : m->x, to, (int)m->n,
                                          cut_element(m->type), MPI_SUM, among,
                                          &mpi_job_of(&the, m)->request[0]));
}

/* MPI puts the sum to the start of x, whichever part of it is this rank's. Pieces of a message that
 * was cut lie where they belong. */
static void end_in_place(message *m)
{
    if (m->y != m->x && !cut_needed(&the, m, m->n)) memcpy(m->y, m->x, message_bytes(m));
}

/* I4. Members start the exchanges of a group in one order, so all check the same ones. */
static void start_check(message *m, MPI_Comm among)
{
    if (the.exchanges[m->group][m->channel]++ >= CHECKED) return;
    size_t n = (size_t)the.groups[m->group].n;
    mpi_job *j = mpi_job_of(&the, m);
    j->heard = malloc(n * sizeof *j->heard);
    if (!j->heard) mpi_stop(m, "a check", 0);
    CALL(m, MPI_Ialltoall(m->table + n, 1, MPI_INT32_T, j->heard, 1, MPI_INT32_T, among,
                          &mpi_job_of(&the, m)->request[1]));
}

static void end_check(message *m)
{
    int64_t n = the.groups[m->group].n, place = the.groups[m->group].place;
    char text[120];
    mpi_job *j = mpi_job_of(&the, m);
    for (int64_t from = 0; from < n; from++) {
        int wanted = m->table[3 * n + from], sent = j->heard[from];
        if (sent == wanted) continue;
        snprintf(text, sizeof text, "rank %d of the group sends %d row%s; rank %d expects %d",
                 (int)from, sent, sent == 1 ? "" : "s", (int)place, wanted);
        mpi_stop(m, text, MPI_ERR_COUNT);
    }
    free(j->heard);
    j->heard = NULL;
}

/* The table is what MPI asks for: displacements and counts in rows. */
static void start_exchange(message *m, MPI_Comm among)
{
    int64_t n = the.groups[m->group].n;
    MPI_Datatype type = cut_row(&the, m->type, m->n);
    CALL(m, MPI_Ialltoallv(m->x, m->table + n, m->table, type, m->y, m->table + 3 * n,
                           m->table + 2 * n, type, among, &mpi_job_of(&the, m)->request[0]));
    start_check(m, among);
}

static void start_shift(message *m, MPI_Comm among)
{
    cut_type t = cut_typed(&the, m, m->n);
    int to = place_on(m, m->step), from = place_on(m, -m->step);
    CALL(m, MPI_Irecv(m->y, t.count, t.type, from, 0, among, &mpi_job_of(&the, m)->request[0]));
    CALL(m, MPI_Isend(m->x, t.count, t.type, to, 0, among, &mpi_job_of(&the, m)->request[1]));
    cut_release(&t);
}

static int tag_of(const message *m)
{
    if (m->tag < 0 || m->tag > (the.most_tag - 2) / 2) mpi_stop(m, "a tag", MPI_ERR_TAG);
    return (int)(2 * m->tag + 1);
}

static void start_send(message *m, MPI_Comm among)
{
    cut_type t = cut_typed(&the, m, m->n);
    int to = place_on(m, m->step), tag = tag_of(m);
    CALL(m, MPI_Isend(m->x, t.count, t.type, to, tag, among, &mpi_job_of(&the, m)->request[0]));
    m->last_start = m->started;
    if (the.stamped)
        CALL(m, MPI_Isend(&m->started, 1, MPI_DOUBLE, to, tag + 1, among,
                          &mpi_job_of(&the, m)->request[1]));
    cut_release(&t);
}

static void start_recv(message *m, MPI_Comm among)
{
    cut_type t = cut_typed(&the, m, m->n);
    int from = place_on(m, m->step), tag = tag_of(m);
    CALL(m, MPI_Irecv(m->y, t.count, t.type, from, tag, among, &mpi_job_of(&the, m)->request[0]));
    if (the.stamped)
        CALL(m, MPI_Irecv(&m->last_start, 1, MPI_DOUBLE, from, tag + 1, among,
                          &mpi_job_of(&the, m)->request[1]));
    cut_release(&t);
}

static void (*const starts[])(message *, MPI_Comm) = {
    [MESSAGE_GATHER] = start_gather,
    [MESSAGE_REDUCE_SCATTER] = start_reduce_scatter,
    [MESSAGE_ALL_REDUCE] = start_all_reduce,
    [MESSAGE_ALL_TO_ALL] = start_all_to_all,
    [MESSAGE_EXCHANGE] = start_exchange,
    [MESSAGE_SHIFT] = start_shift,
    [MESSAGE_BROADCAST] = start_broadcast,
    [MESSAGE_SEND] = start_send,
    [MESSAGE_RECV] = start_recv,
};

static void start(void *unused, message *m)
{
    (void)unused;
    MPI_Comm among = comm_of(&the, m);
    mpi_job *j = mpi_job_of(&the, m);
    *j = (mpi_job){.more = NULL};
    for (int i = 0; i < JOB_REQUESTS; i++) j->request[i] = MPI_REQUEST_NULL;
    starts[m->kind](m, among);
    if (the.stamped && !message_is_pair(m))
        CALL(m, MPI_Iallreduce(&m->started, &m->last_start, 1, MPI_DOUBLE, MPI_MAX, among,
                               &mpi_job_of(&the, m)->request[2]));
}

/* ---- moving on */

static bool test(void *unused, message *m)
{
    (void)unused;
    int all = 0;
    mpi_job *j = mpi_job_of(&the, m);
    if (atomic_load_explicit(&m->done, memory_order_relaxed)) return true;
    wider_go_on(&the);
    CALL(m, MPI_Testall(JOB_REQUESTS, j->request, &all, MPI_STATUSES_IGNORE));
    if (all && j->more) CALL(m, MPI_Testall(j->n_more, j->more, &all, MPI_STATUSES_IGNORE));
    if (!all || wider_is_summing(j)) return false;
    free(j->more);
    j->more = NULL;
    if (j->heard) end_check(m);
    if (j->memory)
        wider_end(&the, m);
    else if (m->in_place && m->n)
        end_in_place(m);
    if (!the.stamped || m->last_start < m->started) m->last_start = m->started;
    atomic_store_explicit(&m->done, true, memory_order_relaxed);
    return true;
}

/* Looking for a message that never comes moves all others on. */
static void progress(void *unused)
{
    (void)unused;
    int there;
    CALL(NULL, MPI_Iprobe(0, 0, the.quiet, &there, MPI_STATUS_IGNORE));
    wider_go_on(&the);
}

/* First gives the core to others, which the message may wait for; then sleeps. */
static void rest(void *unused, message *m, int tries)
{
    (void)unused;
    (void)m;
    if (tries < 64) {
        sched_yield();
        return;
    }
    struct timespec t = {0, tries < 2000 ? 20 * 1000 : 200 * 1000};
    nanosleep(&t, NULL);
}

/* ---- opening and closing */

static MPI_Group members_group(const members *who)
{
    int *ranks = malloc((size_t)who->n * sizeof *ranks);
    if (!ranks) mpi_stop(NULL, "a group", 0);
    for (int64_t i = 0; i < who->n; i++) ranks[i] = (int)who->ranks[i];
    MPI_Group world, part;
    CALL(NULL, MPI_Comm_group(MPI_COMM_WORLD, &world));
    CALL(NULL, MPI_Group_incl(world, (int)who->n, ranks, &part));
    MPI_Group_free(&world);
    free(ranks);
    return part;
}

static void open_comm(int g, int channel)
{
    MPI_Comm *c = &the.comms[g][channel];
    if (the.groups[g].n < 2 || *c != MPI_COMM_NULL) return;
    MPI_Group part = members_group(&the.groups[g]);
    CALL(NULL, MPI_Comm_create_group(MPI_COMM_WORLD, part, channel * GROUP_COUNT + g, c));
    CALL(NULL, MPI_Comm_set_errhandler(*c, MPI_ERRORS_RETURN));
    MPI_Group_free(&part);
    the.exchanges[g][channel] = 0;
}

static void close_comms(void)
{
    for (int g = 0; g < GROUP_COUNT; g++)
        for (int k = 0; k < STREAM_COUNT; k++)
            if (the.comms[g][k] != MPI_COMM_NULL) MPI_Comm_free(&the.comms[g][k]);
}

static status open_groups(void *unused, const members *groups, bool stamped, error *err)
{
    (void)unused;
    (void)err;
    the.groups = groups;
    the.stamped = stamped;
    close_comms();
    for (int g = 0; g < GROUP_COUNT; g++) open_comm(g, STREAM_HOST);
    return OK;
}

static status open_channels(void *unused, const comm_use *use, error *err)
{
    (void)unused;
    (void)err;
    for (int k = 0; k < STREAM_COUNT; k++)
        for (int g = 0; g < GROUP_COUNT; g++)
            if (use->on[g][k]) open_comm(g, k);
    return OK;
}

static void stop_job(void *unused, int code)
{
    (void)unused;
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

static void close_mpi(void *unused)
{
    (void)unused;
    close_comms();
    cut_close(&the);
    wider_close(&the);
    free(the.jobs);
    MPI_Comm_free(&the.quiet);
    MPI_Finalize();
}

static const backend table = {.name = "mpi",
                              .groups = open_groups,
                              .channels = open_channels,
                              .start = start,
                              .test = test,
                              .progress = progress,
                              .rest = rest,
                              .abort = stop_job,
                              .close = close_mpi};

/* Who shares memory with this rank, whoever has started it: srun or mpirun, on one machine or on
 * many. */
static int64_t count_local(void)
{
    MPI_Comm here;
    int n;
    CALL(NULL,
         MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, the.rank, MPI_INFO_NULL, &here));
    CALL(NULL, MPI_Comm_size(here, &n));
    MPI_Comm_free(&here);
    return n;
}

/* Results of Iprobe on this communicator are never anything: nobody sends in it. */
static status init(int64_t most, error *err)
{
    int given, is_set, *tag;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given)) {
        snprintf(err->text, sizeof err->text, "MPI_Init failed");
        return ERR_MACHINE;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &the.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &the.size);
    CALL(NULL, MPI_Comm_dup(MPI_COMM_SELF, &the.quiet));
    CALL(NULL, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &is_set));
    the.most_tag = is_set ? *tag : 32767;
    the.piece = most;
    return OK;
}

status moefold_mpi_open(int version, size_t bytes, int64_t most, mpi_entry *out, error *err);

status moefold_mpi_open(int version, size_t bytes, int64_t most, mpi_entry *out, error *err)
{
    if (version != MPI_ENTRY_VERSION || bytes != sizeof(message)) {
        snprintf(
            err->text, sizeof err->text,
            "MPI: moefold-mpi.so was built for another version of the program; repair: run `make`");
        return ERR_MACHINE;
    }
    for (int g = 0; g < GROUP_COUNT; g++)
        for (int k = 0; k < STREAM_COUNT; k++) the.comms[g][k] = MPI_COMM_NULL;
    the.jobs = calloc(COMM_REQUESTS_MAX, sizeof *the.jobs);
    if (!the.jobs) {
        snprintf(err->text, sizeof err->text, "MPI: no memory for messages");
        return ERR_MACHINE;
    }
    status st = init(most, err);
    if (st) return st;
    *out = (mpi_entry){&table, &the, the.rank, the.size, count_local()};
    return OK;
}
