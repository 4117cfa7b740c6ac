/* tracing.c - the trace of a run: which steps are traced and what is kept of them, stamps as
 * operations, the ranks' traces as one, the file; memory over a traced step. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/comm/agree.h"
#include "base/clock.h"
#include "base/file.h"
#include "predict/described.h"
#include "predict/trace/pack.h"
#include "predict/trace/receives.h"
#include "train/executor/executor_times.h"
#include "train/loop/state.h"
#include "train/loop/tracing.h"

/* How many messages went to or came from a rank with a tag. */
typedef struct message_count {
    int64_t peer, tag, n;
    bool sends;
} message_count;

/* A traced step as the executor saw it: 32 bytes an operation. It is told in words when the run is
 * over (I4). */
typedef struct kept_step {
    const program *p;
    op_times *rows;
    int64_t n;
    double origin, begun; /* clock */
    step_clock at;
} kept_step;

struct tracing {
    tracing_job j;
    arena *a;     /* of the job */
    arena *steps; /* of what is traced now, given back with each window */
    arena_place steps_begin;
    trace own;    /* of this rank; seconds are of this host's clock */
    double begun; /* clock: the first traced step, */
    double ended; /* and the last one's end */
    kept_step *kept;
    int64_t n_steps, kept_room, last;
    bool (*leaves_out)(int64_t iteration); /* as a test build may; NULL in a release */
    bool on;
    double step_begun;
    double compute_end; /* clock: what compute did last */
    message_count *counts;
    int64_t n_counts, counts_room;
    const trace_op **awaited[2]; /* [events] of the list, of the program: what was put last */
    int n_awaited[2];
    trace merged;
};

/* ---- stamps of a step as operations and waits of a trace */

/* Shorter waits are the calls themselves: they count as idle. */
static const double least_wait = 1e-6;

static void forget(tracing *t, int which)
{
    for (int i = 0; i < t->n_awaited[which]; i++) t->awaited[which][i] = NULL;
}

static bool is_message(const op *o)
{
    return (op_is(o->kind, GIVES) || op_is(o->kind, TAKES)) && o->group == GROUP_PP;
}

/* I2 */
static void number_message(tracing *t, const program *p, const op *o, trace_op *out)
{
    int64_t pp = p->s->pipe.pp, to = (p->at.pp + o->dim[DIM_MESSAGE_STEP] % pp + pp) % pp;
    bool sends = op_is(o->kind, GIVES);
    out->message = sends ? TRACE_SENDS : TRACE_RECEIVES;
    out->peer = described_at_stage(p->s, p->at.rank, to);
    out->tag = o->dim[DIM_MESSAGE_TAG];
    message_count *c = NULL;
    for (int64_t i = 0; i < t->n_counts && !c; i++) {
        message_count *x = &t->counts[i];
        if (x->peer == out->peer && x->tag == out->tag && x->sends == sends) c = x;
    }
    if (!c) {
        ARENA_GROW(t->steps, t->counts, t->n_counts, t->counts_room);
        c = &t->counts[t->n_counts++];
        *c = (message_count){out->peer, out->tag, 0, sends};
    }
    out->number = c->n++;
}

/* What an event stands for: of the program where an operation is ACROSS lists, else of its list. */
static const trace_op **awaited_at(tracing *t, const op *o, int64_t event)
{
    int which = (o->flags & ACROSS) != 0;
    if (event >= t->n_awaited[which]) {
        int n = (int)event + 64;
        const trace_op **larger = ARENA_ARRAY(t->a, const trace_op *, n);
        for (int i = 0; i < t->n_awaited[which]; i++) larger[i] = t->awaited[which][i];
        t->awaited[which] = larger;
        t->n_awaited[which] = n;
    }
    return &t->awaited[which][event];
}

/* Of a wait: for whom, and what that costs. */
static void describe_wait(tracing *t, const op *o, trace_op *out)
{
    const trace_op *for_it = *awaited_at(t, o, o->dim[DIM_WAIT_EVENT]);
    bool beside = for_it && for_it->stream != (int)STREAM_COMPUTE;
    out->what = TRACE_WAIT;
    out->name = for_it ? for_it->name : "";
    out->phase = out->group = NULL;
    out->bytes = -1;
    out->kind = "waiting for another stream";
    if (o->stream == STREAM_COMPUTE && beside)
        out->kind = arena_text(t->steps, "%s, exposed", for_it->kind);
    if (for_it && for_it->message == TRACE_RECEIVES) {
        out->peer = for_it->peer;
        out->tag = for_it->tag;
        out->number = for_it->number;
        out->awaits = true;
    }
}

static trace_op describe(tracing *t, const program *p, const op_times *x, double from)
{
    const item *it = &p->items[x->part].list[x->item];
    const op *o = &it->seg->ops[it->phase][x->op];
    trace_op out = described(p, it, o, cost_kind_of_op(o));
    bool offload = x->part == PART_UPDATE && cost_kind_of_op(o) == COST_COPY;
    if (!part_is_simulated(x->part) && !offload) out.kind = "optimizer";
    out.rank = p->at.rank;
    out.stream = (int)o->stream;
    out.start = from + x->start;
    out.end = from + x->end;
    out.seconds = out.end - out.start;
    if (o->kind == OP_WAIT) {
        describe_wait(t, o, &out);
        return out;
    }
    if (is_message(o)) number_message(t, p, o, &out);
    return out;
}

/* Compute stood without waiting for a stream: the host had not launched the operation yet. */
static void add_gap(tracing *t, const trace_op *next)
{
    trace_op wait = *next;
    wait.what = TRACE_WAIT;
    wait.kind = "waiting for kernel launches";
    wait.phase = wait.group = NULL;
    wait.bytes = -1;
    wait.message = TRACE_NO_MESSAGE;
    wait.start = t->compute_end;
    wait.end = next->start;
    wait.seconds = wait.end - wait.start;
    wait.awaits = false;
    if (wait.seconds >= least_wait) trace_add(&t->own, wait);
    t->compute_end = next->end;
}

static void add_row(tracing *t, const program *p, const op_times *x, double from)
{
    const item *it = &p->items[x->part].list[x->item];
    const op *o = &it->seg->ops[it->phase][x->op];
    if (x->op == 0) forget(t, 0);
    trace_op out = describe(t, p, x, from);
    if (o->kind != OP_WAIT && (o->event || (o->flags & ACROSS))) {
        trace_op *kept = ARENA_NEW(t->steps, trace_op);
        *kept = out;
        *awaited_at(t, o, o->event) = kept;
    }
    if (out.what == TRACE_WAIT && out.end - out.start < least_wait) return;
    if (o->stream == STREAM_COMPUTE) add_gap(t, &out);
    trace_add(&t->own, out);
}

static void add_batch(tracing *t, const kept_step *k)
{
    trace_op loading = {.name = "batch", .kind = "reading data", .rank = k->p->at.rank};
    loading.what = TRACE_WAIT;
    loading.micro = loading.layer = loading.bytes = -1;
    loading.start = k->begun;
    loading.end = k->at.loaded;
    loading.seconds = k->at.loaded - k->begun;
    trace_add(&t->own, loading);
}

/* All kept steps as operations of t->own, by this host's clock. */
static void describe_all(tracing *t)
{
    forget(t, 0);
    forget(t, 1);
    for (int64_t i = 0; i < t->n_steps; i++) {
        const kept_step *k = &t->kept[i];
        t->compute_end = k->at.loaded;
        for (int64_t x = 0; x < k->n; x++) add_row(t, k->p, &k->rows[x], k->origin);
        add_batch(t, k);
    }
}

/* ---- the ranks' traces as one, on rank 0's clock */

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
    describe_all(t);
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

/* ---- which steps are traced, and what is kept of them */

status trace_steps_read(trace_steps *out, const char *word, error *err)
{
    char *end;
    bool digits = word[strspn(word, "0123456789-")] == 0 && strlen(word) < 24;
    int64_t first = strtoll(word, &end, 10), last = first;
    bool whole = digits && end != word && (!*end || (*end == '-' && end[1] && end[1] != '-'));
    if (whole && *end) last = strtoll(end + 1, &end, 10);
    whole = whole && !*end;
    if (!whole || first < 1 || last < first)
        return error_set(err, ERR_INPUT,
                         "--trace-steps %s: steps are counted from 1; repair: --trace-steps 7 or "
                         "--trace-steps 7-9",
                         word);
    if (last - first >= TRACE_STEPS_MAX)
        return error_set(
            err, ERR_INPUT,
            "--trace-steps %s: more than %d steps; repair: trace fewer, such as %" PRId64
            "-%" PRId64,
            word, (int)TRACE_STEPS_MAX, first, first + 1);
    *out = (trace_steps){first, last};
    return OK;
}

status tracing_open(tracing **out, const tracing_job *j, arena *a, error *err)
{
    const trace_steps *w = &j->steps;
    if (w->first && (w->first <= j->begun || w->last > j->end))
        return error_set(err, ERR_INPUT,
                         "--trace-steps %" PRId64 "-%" PRId64 ": this run does steps %" PRId64
                         " to %" PRId64 "; repair: choose steps among them",
                         w->first, w->last, j->begun + 1, j->end);
    tracing *t = ARENA_NEW(a, tracing);
    t->j = *j;
    t->a = a;
    *out = t;
    return planted_tracing ? planted_tracing(&t->leaves_out, err) : OK;
}

/* I1 */
static bool is_wanted(const tracing *t, int64_t iteration)
{
    const tracing_job *j = &t->j;
    if (t->leaves_out && t->leaves_out(iteration)) return false;
    if (j->steps.first) return iteration >= j->steps.first && iteration <= j->steps.last;
    bool early = iteration == j->begun + 2 || iteration == j->begun + 3;
    return early || iteration > j->end - 2;
}

static void start_window(tracing *t)
{
    if (t->steps)
        arena_release(t->steps, t->steps_begin); /* its pages stay: a step does not meet new ones */
    else
        t->steps_begin = arena_mark(t->steps = arena_create());
    trace_init(&t->own, "measured", t->steps);
    t->n_counts = t->counts_room = t->n_steps = t->kept_room = 0;
    t->counts = NULL;
    t->kept = NULL;
    t->begun = t->step_begun;
}

status tracing_begin(tracing *t, executor *e, int64_t iteration, error *err)
{
    if (!t) return OK;
    t->on = is_wanted(t, iteration);
    if (!t->on) return OK;
    t->step_begun = clock_seconds();
    bool ends = !t->j.steps.first && iteration == t->j.end - 1;
    if (!t->n_steps || iteration > t->last + 1 || ends) start_window(t);
    t->last = iteration;
    return executor_trace_begin(e, err);
}

/* I4 */
void tracing_end(tracing *t, executor *e, const program *p, step_clock at)
{
    int64_t n;
    if (!t || !t->on) return;
    const op_times *rows = executor_trace_end(e, &n);
    ARENA_GROW(t->steps, t->kept, t->n_steps, t->kept_room);
    kept_step *k = &t->kept[t->n_steps++];
    *k = (kept_step){p, NULL, n, executor_trace_origin(e), t->step_begun, at};
    k->rows = ARENA_RAW(t->steps, op_times, n + 1);
    if (n) memcpy(k->rows, rows, (size_t)n * sizeof *rows);
    t->ended = at.ended;
    t->on = false;
}

/* ---- memory over a traced step */

/* The row behind those of the item that begins at `first`. */
static int64_t item_end(const kept_step *k, int64_t first)
{
    int64_t i = first + 1;
    while (i < k->n && k->rows[i].part == k->rows[first].part &&
           k->rows[i].item == k->rows[first].item)
        i++;
    return i;
}

/* An item begins and ends with what compute does for it. */
static void add_alive(alive_list *l, const kept_step *k, int64_t first, int64_t end, arena *a)
{
    const op_times *rows = k->rows;
    const item *it = &k->p->items[rows[first].part].list[rows[first].item];
    double from = k->origin - k->begun, began = -1, ended = 0;
    for (int64_t i = first; i < end; i++) {
        if (it->seg->ops[it->phase][rows[i].op].stream != STREAM_COMPUTE) continue;
        if (began < 0) began = from + rows[i].start;
        ended = from + rows[i].end;
    }
    if (began >= 0) alive_add(l, k->p, it, began, ended, a);
}

double tracing_alive(const tracing *t, memory_point *out, int64_t n)
{
    if (!t || !t->n_steps) return 0;
    const kept_step *k = &t->kept[t->n_steps - 1];
    arena *scratch = arena_create();
    alive_list l = {0};
    double seconds = k->at.ended - k->begun;
    for (int64_t i = 0, end; i < k->n; i = end) {
        end = item_end(k, i);
        if (k->rows[i].part == PART_STEP) add_alive(&l, k, i, end, scratch);
    }
    alive_sample(out, n, &l, seconds);
    arena_destroy(scratch);
    return seconds;
}

/* ---- the file */

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
