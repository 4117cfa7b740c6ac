/* tracing_merge.c - the ranks' traces as one, on rank 0's clock. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "predict/described.h"
#include "train/loop/tracing_state.h"
#include "predict/trace/pack.h"
#include "predict/trace/receives.h"

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* I3. What this host's clock is ahead of rank 0's. */
static double clock_ahead(comm *c, arena *a)
{
    enum { ROUNDS = 15, NAME = 64 };
    int64_t n = comm_size(c);
    char host[NAME] = {0}, *hosts = ARENA_ARRAY(a, char, n *NAME);
    double *all = ARENA_ARRAY(a, double, n), ahead[ROUNDS];
    bool apart = false;
    gethostname(host, sizeof host - 1);
    comm_collect(c, GROUP_WORLD, host, sizeof host, hosts);
    for (int64_t r = 1; r < n; r++) apart = apart || strcmp(hosts, hosts + r * NAME) != 0;
    if (!apart) return 0;
    for (int i = 0; i < ROUNDS; i++) {
        comm_barrier(c, GROUP_WORLD);
        double now = clock_seconds();
        comm_collect(c, GROUP_WORLD, &now, sizeof now, all);
        ahead[i] = now - all[0];
    }
    qsort(ahead, ROUNDS, sizeof ahead[0], by_size);
    bool same = strcmp(hosts, host) == 0;
    return same ? 0 : ahead[ROUNDS / 2];
}

static void shift(trace *t, double by)
{
    for (int64_t i = 0; i < t->n; i++) {
        t->ops[i].start = fmax(0, t->ops[i].start + by);
        t->ops[i].end = fmax(0, t->ops[i].end + by);
    }
}

/* Every rank's in turn goes to all; rank 0 keeps it. */
static void join_all(tracing *t, comm *c)
{
    for (int64_t r = 0; r < comm_size(c); r++) {
        arena *scratch = arena_create();
        size_t n = 0;
        char *mine = r == comm_rank(c) ? trace_pack(&t->own, &n, scratch) : NULL;
        comm_broadcast(c, GROUP_WORLD, r, &n, sizeof n);
        if (!mine) mine = ARENA_ARRAY(scratch, char, n);
        comm_broadcast(c, GROUP_WORLD, r, mine, n);
        if (comm_rank(c) == 0) {
            trace part;
            trace_unpack(&part, mine, t->a);
            trace_join(&t->merged, &part, 0, "");
        }
        arena_destroy(scratch);
    }
}

static void name_all(trace *t, const tracing_job *j, const setup *s, arena *a)
{
    t->recipe = s->r.name;
    t->machine = j->machine ? j->machine : "";
    t->streams = ARENA_ARRAY(a, const char *, STREAM_COUNT);
    t->n_streams = STREAM_COUNT;
    for (int i = 0; i < STREAM_COUNT; i++) t->streams[i] = op_stream_names[i];
}

const trace *tracing_merge(tracing *t, const setup *s, comm *c)
{
    arena *scratch = arena_create();
    trace *all = &t->merged;
    trace_init(all, "measured", t->a);
    double none = t->n_steps == 0;
    comm_sum(c, GROUP_WORLD, &none, 1);
    if (none > 0) {
        arena_destroy(scratch);
        return all;
    }
    tracing_describe(t);
    double ahead = clock_ahead(c, scratch), ends[2] = {-(t->begun - ahead), t->ended - ahead};
    comm_max(c, GROUP_WORLD, ends, 2);
    arena_destroy(scratch);
    trace_add_rank(&t->own, comm_rank(c), described_rank(s, comm_rank(c), t->steps));
    shift(&t->own, ends[0] - ahead);
    name_all(&t->own, &t->j, s, t->steps);
    join_all(t, c);
    arena_destroy(t->steps);
    t->steps = NULL;
    name_all(all, &t->j, s, t->a);
    all->span = ends[0] + ends[1];
    all->steps = t->n_steps;
    all->first_step = t->last - t->n_steps + 1;
    all->step = all->span / (double)t->n_steps;
    trace_split_receives(all);
    trace_sort(all);
    return all;
}
