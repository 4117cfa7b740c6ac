/* report.c - who is slow, and what messages cost.
 *
 * All ranks leave a step together, so the time of a step says nothing about a rank: what counts is
 * its time without waiting for messages. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/loop/state.h"

static const double slow = 1.3; /* times the median */

/* Streams that are told together. */
static const struct {
    const char *name;
    op_stream first, last;
} stream_rows[] = {
    {"compute", STREAM_COMPUTE, STREAM_COMPUTE},
    {"layers", STREAM_COMM, STREAM_COMM},
    {"stages", STREAM_SEND_FORWARD, STREAM_RECV_BACKWARD},
    {"replicas", STREAM_DP, STREAM_DP},
    {"copies", STREAM_COPY, STREAM_COPY_BACK},
    {"control", STREAM_HOST, STREAM_HOST},
};

/* ---- slow ranks */

void trainer_count(trainer *t, double seconds, double waited)
{
    t->busy += seconds - waited;
    t->busy_steps++;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void trainer_compare(trainer *t)
{
    int64_t n = comm_size(t->c), slowest = 0;
    arena *scratch = arena_create();
    double mine = t->busy_steps ? t->busy / (double)t->busy_steps : 0;
    double *all = ARENA_ARRAY(scratch, double, n), *sorted = ARENA_ARRAY(scratch, double, n);
    comm_collect(t->c, GROUP_WORLD, &mine, sizeof mine, all);
    for (int64_t r = 1; r < n; r++)
        if (all[r] > all[slowest]) slowest = r;
    memcpy(sorted, all, sizeof *all * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    double median = sorted[(n - 1) / 2];
    if (n > 1 && all[slowest] > slow * median)
        trainer_say(t, stderr,
                    arena_text(scratch,
                               "rank %lld of %lld is slow: %.3g s a step, the others %.3g s "
                               "(without waiting for communication)",
                               (long long)slowest, (long long)n, all[slowest], median));
    arena_destroy(scratch);
    t->compared = clock_seconds();
    t->busy = 0;
    t->busy_steps = 0;
}

/* ---- traffic */

/* What has come since `from`, a step; of each number the largest of all ranks. */
static comm_stats since(trainer *t, const comm_stats *from, int64_t steps)
{
    enum { N = sizeof(comm_stats) / sizeof(double) };
    _Static_assert(sizeof(comm_stats) == N * sizeof(double), "a comm_stats is all doubles");
    comm_stats now = *comm_statistics(t->c);
    double a[N], b[N];
    memcpy(a, &now, sizeof a);
    memcpy(b, from, sizeof b);
    for (int i = 0; i < N; i++) a[i] = (a[i] - b[i]) / (double)(steps > 0 ? steps : 1);
    comm_max(t->c, GROUP_WORLD, a, N);
    memcpy(&now, a, sizeof now);
    return now;
}

/* Where ranks move messages by themselves the host waits for others to come to them, while the
 * device goes on: that is not what a step is exposed to. */
static void print_streams(trainer *t, const comm_stats *s, arena *a)
{
    bool by_device = executor_transport(t->e) != NULL;
    trainer_say(t, stderr, "communication of a step, on the rank that has the most");
    trainer_say(t, stderr,
                by_device ? "  stream      messages host waits ms"
                          : "  stream      messages   exposed ms");
    for (size_t i = 0; i < sizeof stream_rows / sizeof stream_rows[0]; i++) {
        double messages = 0, exposed = 0;
        for (int k = (int)stream_rows[i].first; k <= (int)stream_rows[i].last; k++) {
            messages += s->messages[k];
            exposed += s->exposed[k];
        }
        if (messages > 0)
            trainer_say(t, stderr,
                        arena_text(a, "  %-10s %9.1f %12.3f", stream_rows[i].name, messages,
                                   1000 * exposed));
    }
}

static void print_groups(trainer *t, const comm_stats *s, arena *a)
{
    trainer_say(t, stderr, "  group           in the node    in the NVLink domain          across");
    for (int g = 0; g < GROUP_COUNT; g++) {
        const double *b = s->bytes[g];
        if (b[LEVEL_NODE] + b[LEVEL_DOMAIN] + b[LEVEL_ACROSS] <= 0) continue;
        trainer_say(t, stderr,
                    arena_text(a, "  %-10s %16s %23s %15s", comm_group_name((comm_group)g),
                               text_bytes(a, (int64_t)b[LEVEL_NODE]),
                               text_bytes(a, (int64_t)b[LEVEL_DOMAIN]),
                               text_bytes(a, (int64_t)b[LEVEL_ACROSS])));
    }
}

static void print_traffic(trainer *t, const comm_stats *s)
{
    arena *scratch = arena_create();
    print_streams(t, s, scratch);
    print_groups(t, s, scratch);
    arena_destroy(scratch);
}

void trainer_traffic_line(trainer *t)
{
    if (comm_size(t->c) == 1 || t->s->j.timing_level < 1) return;
    comm_stats s = since(t, &t->reported, t->reported_steps);
    print_traffic(t, &s);
    t->reported = *comm_statistics(t->c);
    t->reported_steps = 0;
}

void trainer_traffic(trainer *t, train_summary *sum, int64_t steps)
{
    if (comm_size(t->c) == 1 || steps < 1) return;
    sum->traffic = since(t, &(comm_stats){0}, steps);
    print_traffic(t, &sum->traffic);
}
