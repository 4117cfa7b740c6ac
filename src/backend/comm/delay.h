/* delay.h - moefold.comm_delay: the links that are emulated.
 *
 *     node=2us+100GB/s across=5us+10GB/s    by how far a message goes: node, domain, across
 *     5us+10GB/s                            every link
 *
 * A link has a latency (ns, us, ms, s) and a bandwidth (B/s, KB/s, MB/s, GB/s, TB/s, powers of
 * ten), with + between them; one of the two may be missing. Levels that are not named have no
 * delay; a level that is named twice takes the last. */
#ifndef BACKEND_COMM_DELAY_H
#define BACKEND_COMM_DELAY_H

#include <stdbool.h>

#include "base/status.h"
#include "backend/comm/comm.h"

typedef struct comm_link {
    double latency;   /* seconds */
    double bandwidth; /* bytes a second; 0: without bound */
} comm_link;

typedef struct comm_delay {
    bool on;
    comm_link link[LEVEL_COUNT]; /* LEVEL_SELF never has one */
} comm_delay;

/* NULL or an empty text: no delay. `out` changes only on success. */
status comm_delay_parse(const char *text, comm_delay *out, error *err);

/* How long such a message holds the link, without latency. */
static inline double comm_link_busy(const comm_link *l, double bytes)
{
    return l->bandwidth > 0 ? bytes / l->bandwidth : 0;
}

#endif
