/* agree.c - collected statuses, and the message of the one that counts. */
#include "backend/comm/agree.h"

#include <inttypes.h>

#include "base/arena.h"

static status take_over(comm *c, int64_t rank, status s, error *err)
{
    comm_broadcast(c, GROUP_WORLD, rank, err->text, sizeof err->text);
    return s;
}

status ranks_agree(comm *c, status mine, error *err)
{
    if (!c || comm_size(c) == 1) return mine;
    arena *a = arena_create();
    int64_t n = comm_size(c), first = 0;
    status *all = ARENA_ARRAY(a, status, n), s;
    comm_collect(c, GROUP_WORLD, &mine, sizeof mine, all);
    while (first < n && !all[first]) first++;
    s = first < n ? all[first] : OK;
    arena_destroy(a);
    if (!s) return OK;
    if (first == comm_rank(c)) error_prefix(err, s, "rank %" PRId64, first);
    return take_over(c, first, s, err);
}

status ranks_follow(comm *c, status mine, error *err)
{
    if (!c || comm_size(c) == 1) return mine;
    comm_broadcast(c, GROUP_WORLD, 0, &mine, sizeof mine);
    return mine ? take_over(c, 0, mine, err) : OK;
}
