/* trace_write.c - Chrome's trace events as JSON (docs/TRACE.md).
 *
 * I1  Times are whole nanoseconds, and a length is the difference of two of them: what touches
 *     still touches, and nothing overlaps by rounding.
 * I2  A flow starts and ends at the starts of its two operations, with their category: that is how
 *     both viewers find them. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/text.h"
#include "predict/trace/ends.h"

static void put_text(textbuf *t, const char *s)
{
    text_put(t, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_add(t, "\\%c", c);
        else if (c < 0x20)
            text_add(t, "\\u%04x", c);
        else
            text_put(t, s, 1);
    }
    text_put(t, "\"", 1);
}

static void put_pair(textbuf *t, const char *key, const char *s)
{
    if (!s) return;
    text_add(t, ",\"%s\":", key);
    put_text(t, s);
}

/* ---- times (I1) */

static int64_t nanoseconds(double seconds)
{
    return (int64_t)llround(seconds * 1e9);
}

static void put_time(textbuf *t, const char *key, int64_t ns)
{
    text_add(t, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

/* ---- events */

static void put_head(textbuf *t, const char *phase, const trace_op *o)
{
    text_add(t, ",\n{\"ph\":\"%s\",\"pid\":%lld,\"tid\":%d", phase, (long long)o->rank, o->stream);
}

static void put_number(textbuf *t, const char *key, int64_t n)
{
    if (n >= 0) text_add(t, ",\"%s\":%lld", key, (long long)n);
}

static void put_args(textbuf *t, const trace_op *o)
{
    bool wait = o->what == TRACE_WAIT;
    text_add(t, ",\"args\":{\"what\":\"%s\"", wait ? "wait" : "operation");
    if (wait) put_pair(t, "for", o->name);
    put_number(t, "microbatch", o->micro);
    put_number(t, "layer", o->layer);
    put_number(t, "bytes", o->bytes);
    put_pair(t, "phase", o->phase);
    put_pair(t, "group", o->group);
    if (o->message != TRACE_NO_MESSAGE)
        text_add(t, ",\"message\":\"%s\",\"peer\":%lld,\"tag\":%lld,\"number\":%lld",
                 o->message == TRACE_SENDS ? "send" : "receive", (long long)o->peer,
                 (long long)o->tag, (long long)o->number);
    if (o->seconds > (o->end - o->start) * (1 + 1e-9))
        put_time(t, "whole_us", nanoseconds(o->seconds));
    text_add(t, "}}");
}

static void put_op(textbuf *t, const trace_op *o)
{
    bool wait = o->what == TRACE_WAIT;
    int64_t start = nanoseconds(o->start), end = nanoseconds(o->end);
    put_head(t, "X", o);
    put_time(t, "ts", start);
    put_time(t, "dur", end - start);
    put_pair(t, "name", wait ? o->kind : o->name);
    put_pair(t, "cat", wait ? "wait" : o->kind);
    put_args(t, o);
}

static void put_flow(textbuf *t, const trace *x, const message_end *m)
{
    const trace_op *o = &x->ops[m->op];
    put_head(t, m->receives ? "f" : "s", o);
    put_time(t, "ts", nanoseconds(o->start)); /* I2 */
    text_add(t, ",\"name\":\"message\",\"id\":\"%lld-%lld-%lld-%lld\"", (long long)m->from,
             (long long)m->to, (long long)m->tag, (long long)m->number);
    put_pair(t, "cat", x->ops[m[m->receives ? -1 : 0].op].kind);
    text_add(t, m->receives ? ",\"bp\":\"e\"}" : "}");
}

static void put_flows(textbuf *t, const trace *x, arena *a)
{
    message_end *list;
    int64_t n = message_ends(x, &list, a);
    for (int64_t i = 0; i + 1 < n; i++) {
        if (!message_pair(&list[i], &list[i + 1])) continue;
        put_flow(t, x, &list[i]);
        put_flow(t, x, &list[++i]);
    }
}

static void put_name(textbuf *t, const trace_op *at, const char *what, const char *name)
{
    put_head(t, "M", at);
    text_add(t, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
    put_text(t, name);
    text_add(t, "}}");
    put_head(t, "M", at);
    text_add(t, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%lld}}", what,
             strcmp(what, "thread") == 0 ? (long long)at->stream : (long long)at->rank);
}

static void put_names(textbuf *t, const trace *x)
{
    for (int64_t i = 0; i < x->n_ranks; i++)
        put_name(t, &(trace_op){.rank = x->ranks[i].rank}, "process", x->ranks[i].name);
    for (int64_t i = 0; i < x->n; i++)
        if (!i || x->ops[i].rank != x->ops[i - 1].rank || x->ops[i].stream != x->ops[i - 1].stream)
            put_name(t, &x->ops[i], "thread", x->streams[x->ops[i].stream]);
}

/* The head ends with an event, so that all that follow start with a comma. */
static void put_start(textbuf *t, const trace *x)
{
    text_add(t, "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"moefold\":\"trace\",\"version\":1");
    put_pair(t, "source", x->source);
    put_pair(t, "recipe", x->recipe);
    put_pair(t, "machine", x->machine);
    if (x->steps > 0) {
        put_number(t, "steps", x->steps);
        put_number(t, "first_step", x->first_step);
    }
    text_add(t, ",\"from_s\":%.9f,\"span_s\":%.9f,\"step_s\":%.9f},\n\"traceEvents\":[\n", x->from,
             x->span, x->step);
    text_add(t,
             "{\"ph\":\"M\",\"pid\":%lld,\"tid\":0,\"name\":\"process_labels\",\"args\":"
             "{\"labels\":",
             x->n_ranks ? (long long)x->ranks[0].rank : 0LL);
    put_text(t, x->source);
    text_add(t, "}}");
}

static bool is_packed(const char *path)
{
    size_t n = strlen(path);
    return n >= 3 && strcmp(path + n - 3, ".gz") == 0;
}

status trace_write(const trace *x, const char *path, error *err)
{
    arena *a = arena_create();
    textbuf t = text_init(a);
    put_start(&t, x);
    put_names(&t, x);
    for (int64_t i = 0; i < x->n; i++) put_op(&t, &x->ops[i]);
    put_flows(&t, x, a);
    text_add(&t, "\n]}\n");
    char *data = t.s;
    size_t n = t.n;
    status s = is_packed(path) ? gzip_pack(a, t.s, t.n, &data, &n, err) : OK;
    if (!s) s = file_write(path, data, n, err);
    arena_destroy(a);
    return s;
}
