/* gathering.h - all-gathers of a few numbers on any group and stream, for tests of their order. */
#ifndef TESTS_COMM_GATHERING_H
#define TESTS_COMM_GATHERING_H

#include "comm/running.h"

enum { N = 5 };

typedef struct gathered {
    float x[N], y[4 * N];
    int request;
} gathered;

static inline void start_gather(comm *c, comm_group g, op_stream stream, float v, gathered *m)
{
    op o = {.kind = OP_ALL_GATHER, .group = g, .stream = stream, .name = "test", .dim = {N}};
    for (int i = 0; i < N; i++) m->x[i] = v;
    for (int i = 0; i < 4 * N; i++) m->y[i] = -1;
    m->request = comm_start(c, &o, (void *[]){m->x}, (void *[]){m->y});
}

/* Is it complete within a while? */
static inline bool completes(comm *c, const gathered *m)
{
    for (int i = 0; i < 200; i++) {
        if (comm_test(c, m->request)) return true;
        comm_progress(c);
        sleep_for(0.0001);
    }
    return false;
}

static inline void end(comm *c, gathered *m, int members_n, float v, result *r)
{
    comm_wait(c, m->request);
    for (int i = 0; i < members_n * N; i++)
        EXPECT(r, m->y[i] == v, "element %d is %g, not %g", i, (double)m->y[i], (double)v);
}

#endif
