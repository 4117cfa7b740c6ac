/* price_trace.c - `price --trace`: the predicted timeline as a file. */
#include "library/price_trace.h"

#include <string.h>

#include "library/words.h"

status trace_words_check(const trace_words *w, error *err)
{
    if (w->path || !w->whole) return OK;
    return error_set(err, ERR_INPUT, "--whole-step is for --trace FILE, which is not given");
}

/* "0,8,16": each once. */
static status read_ranks(timeline_options *o, const char *words, const setup *s, arena *a,
                         error *err)
{
    size_t room = strlen(words) + 1;
    int64_t *list = ARENA_ARRAY(a, int64_t, room), n = 0;
    for (const char *p = words; p;) {
        size_t length = strcspn(p, ",");
        int64_t rank;
        TRY(word_rank(arena_copy(a, p, length), s, &rank, err));
        for (int64_t i = 0; i < n; i++)
            if (list[i] == rank)
                return error_set(err, ERR_INPUT,
                                 "--rank %s: rank %lld is named twice; repair: name it once", words,
                                 (long long)rank);
        list[n++] = rank;
        p = p[length] ? p + length + 1 : NULL;
    }
    o->ranks = list;
    o->n_ranks = n;
    return OK;
}

static void count(trace_written *out, const trace *t, arena *a)
{
    trace_sum *sums;
    *out = (trace_written){.from = t->from, .span = t->span, .step = t->step, .ranks = t->n_ranks};
    out->streams = trace_sums(t, &sums, a);
    out->messages = trace_match(t, a).matched;
    for (int64_t i = 0; i < t->n; i++)
        if (t->ops[i].what == TRACE_WAIT)
            out->waits++;
        else
            out->operations++;
}

status price_trace_write(trace_written *out, const trace_words *w, const price_job *j, error *err)
{
    arena *a = arena_create();
    timeline_options o = {.whole = w->whole};
    trace t;
    price p;
    status st = w->ranks ? read_ranks(&o, w->ranks, j->s, a, err) : OK;
    if (!st) {
        price_timeline(&t, &p, j, &o, a);
        count(out, &t, a);
        st = trace_write(&t, w->path, err);
    }
    arena_destroy(a);
    return st;
}

const trace_file_answer *price_trace_answer(const trace_written *t, const char *path, arena *a)
{
    trace_file_answer *x = ARENA_NEW(a, trace_file_answer);
    *x = (trace_file_answer){path,       t->operations, t->waits, t->messages,
                             t->streams, t->ranks,      t->from,  t->span};
    return x;
}
