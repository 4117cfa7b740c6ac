/* races.c - conflicting accesses inside ranks, as a part of the audit (order_check.h).
 *
 * Replaying a program takes longer than matching its messages, which are few. So the audit of all
 * ranks replays kinds of ranks until OPS_ALL operations are spent: all of small programs. A rank
 * that is asked for is replayed whatever the others are, up to OPS_ONE. */
#include <inttypes.h>

#include "predict/audit/order_check.h"
#include "predict/audit/state.h"

enum { OPS_ALL = 1 << 16, OPS_ONE = 1 << 24 };

static void replay(audit_state *t, const program *p)
{
    arena *scratch = arena_create();
    order_report r;
    const order_map *m = order_map_make(p, scratch);
    order_check(&r, m, scratch);
    const char *text = order_text(&r, t->a);
    if (text) {
        audit_fault *f =
            fault_add(t, FAULT_RACE, p->at.rank, p->at.rank, r.first[r.first[1].o != NULL].o->name);
        if (f) f->text = arena_text(t->a, "rank %" PRId64 ": %s", p->at.rank, text);
        if (f) f->times = r.unordered + r.unfinished;
    }
    arena_destroy(scratch);
}

void races_of_kind(audit_state *t, const program *p)
{
    int64_t n = order_ops(p);
    if (n > t->out->most_ops) t->out->most_ops = n;
    if (t->replayed_ops + n > OPS_ALL) return;
    t->replayed_ops += n;
    t->out->replayed++;
    replay(t, p);
}

void races_of_rank(audit_state *t, int64_t rank)
{
    arena *scratch = arena_create();
    program *p = ARENA_NEW(scratch, program);
    program_build(p, t->s, rank, scratch);
    t->out->replayed_ops = order_ops(p);
    t->out->replayed_rank = t->out->replayed_ops <= OPS_ONE;
    if (t->out->replayed_rank) replay(t, p);
    arena_destroy(scratch);
}
