/* traced.c - the trace of a run: which steps, and the file. */
#include <unistd.h>

#include "base/file.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

static status place_is_writable(const trainer *t, error *err)
{
    const char *path = t->o->trace, *folder = file_folder(t->a, path);
    if (!*path || file_is_folder(path))
        return error_set(err, ERR_INPUT, "--trace %s: %s; repair: name a file", *path ? path : "''",
                         *path ? "is a folder" : "has no name");
    if (access(*folder ? folder : ".", W_OK) == 0) return OK;
    return error_set(err, ERR_MACHINE,
                     "--trace %s: its folder cannot be written to; repair: name another folder",
                     path);
}

/* The last iteration that this run means to do. */
static int64_t end_of(const trainer *t)
{
    int64_t every = t->s->j.exit_interval, end = t->train_iters;
    if (every < 1) return end;
    int64_t next = (t->at.iteration / every + 1) * every;
    return next < end ? next : end;
}

status trainer_trace_open(trainer *t, error *err)
{
    if (!t->o->trace) return OK;
    tracing_job j = {.path = t->o->trace,
                     .steps = t->o->trace_steps,
                     .begun = t->at.iteration,
                     .end = end_of(t),
                     .machine = t->o->machine};
    status s = tracing_open(&t->tracing, &j, t->a, err);
    if (!s && comm_rank(t->c) == 0) s = place_is_writable(t, err);
    return ranks_agree(t->c, s, err);
}

static void say(trainer *t, const trace *x)
{
    int64_t waits = 0;
    for (int64_t i = 0; i < x->n; i++) waits += x->ops[i].what == TRACE_WAIT;
    trace_matches m = trace_match(x, t->a);
    trainer_say(t, stderr,
                arena_text(t->a,
                           "trace %s: %s operations and %s waits of %lld rank%s in steps %lld to "
                           "%lld, %s messages between stages (open it with ui.perfetto.dev)",
                           t->o->trace, text_grouped(t->a, x->n - waits), text_grouped(t->a, waits),
                           (long long)x->n_ranks, x->n_ranks == 1 ? "" : "s",
                           (long long)x->first_step, (long long)(x->first_step + x->steps - 1),
                           text_grouped(t->a, m.matched)));
}

status trainer_trace_write(trainer *t, error *err)
{
    if (!t->tracing) return OK;
    if (t->o->run) {
        t->alive = ARENA_ARRAY(t->a, memory_point, ALIVE_POINTS);
        t->alive_s = tracing_alive(t->tracing, t->alive, ALIVE_POINTS);
    }
    const trace *x = tracing_merge(t->tracing, t->s, t->c);
    status s = OK;
    comm_work before = comm_work_begin(t->c, WORK_WRITE);
    if (comm_rank(t->c) == 0 && x->n) {
        t->traced = x;
        s = trace_write(x, t->o->trace, err);
        if (!s) say(t, x);
    }
    comm_work_end(t->c, before);
    if (comm_rank(t->c) == 0 && !x->n)
        trainer_say(
            t, stderr,
            arena_text(t->a, "--trace %s: not written, because the run ended before a traced step",
                       t->o->trace));
    return ranks_agree(t->c, s, err);
}
