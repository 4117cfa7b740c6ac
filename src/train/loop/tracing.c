/* tracing.c - which steps are traced, and what is kept of them; memory over a traced step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/loop/tracing_state.h"

/* ---- steps */

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

/* ---- memory */

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
