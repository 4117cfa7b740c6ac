/* outside_arena.c - reports device memory outside the arena: context, code and libraries.
 *
 * It is not planned, so it is measured: after the first step, when every kernel has run once, and
 * again at the end. Nothing allocates in a step, so a difference is a leak of a library, or another
 * process on the same GPU; either is reported. CPUs cannot tell, so nothing is reported there. */
#include <inttypes.h>

#include "answer/answer.h"
#include "train/loop/state.h"

/* The most of all ranks; -1: not known. */
static int64_t most(trainer *t)
{
    double mine = (double)executor_outside_arena(t->e);
    if (mine >= 0) comm_max(t->c, GROUP_WORLD, &mine, 1);
    return (int64_t)mine;
}

static status event(trainer *t, int64_t now, error *err)
{
    const memory_event x = {"memory", t->at.iteration, t->p->arena_bytes, now,
                            now - t->outside_arena};
    return trainer_event(t, answer_json(memory_event, &x), err);
}

status trainer_outside_arena_first(trainer *t, error *err)
{
    t->outside_arena = most(t);
    if (t->outside_arena < 0) return OK;
    trainer_say(t, t->o->json ? stderr : stdout,
                arena_text(t->a,
                           "[Rank 0] (after 1 iterations) memory outside the arena on %s: %s "
                           "(context, code, libraries, other processes)",
                           executor_device(t->e), text_bytes(t->a, t->outside_arena)));
    return event(t, t->outside_arena, err);
}

status trainer_outside_arena_last(trainer *t, error *err)
{
    if (t->outside_arena < 0) return OK;
    int64_t now = most(t), grown = now - t->outside_arena;
    const char *how = grown <= 0
                          ? "no more than after the first step"
                          : arena_text(t->a,
                                       "%s more than after the first step; moefold allocates "
                                       "nothing in a step, so a library or another process did",
                                       text_bytes(t->a, grown));
    trainer_say(t, stderr,
                arena_text(t->a, "memory outside the arena on %s at the end: %s, %s",
                           executor_device(t->e), text_bytes(t->a, now), how));
    return event(t, now, err);
}
