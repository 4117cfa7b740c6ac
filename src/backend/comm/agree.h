/* agree.h - one outcome for all ranks: between two collectives no rank leaves alone.
 *
 * Both are collective over the world; with `c` NULL there is one rank, and they change nothing. */
#ifndef BACKEND_COMM_AGREE_H
#define BACKEND_COMM_AGREE_H

#include "backend/comm/comm.h"

/* OK where every rank brings OK; else all return the status of the lowest rank that failed, with
 * its message, which says so. */
status ranks_agree(comm *c, status mine, error *err);

/* What rank 0 brings, on all. */
status ranks_follow(comm *c, status mine, error *err);

#endif
