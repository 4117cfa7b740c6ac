/* trace_read.c - a trace that this program wrote. Others have no operations of ours in them: they
 * are refused by what they lack.
 *
 * I1  What is taken is whole: ranks and streams have names, times are finite and not negative, ends
 *     of messages have their other rank. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/text.h"
#include "predict/trace/trace.h"

enum { STREAMS_MAX = 256 };

typedef struct reader {
    trace *t;
    const char *path;
    size_t at; /* event */
    error *err;
} reader;

static status refuse(const reader *r, const char *why, const char *key)
{
    return error_set(r->err, ERR_INPUT,
                     "%s: traceEvents[%zu]: %s '%s'; repair: write the trace again (moefold price "
                     "--trace FILE)",
                     r->path, r->at, why, key);
}

static const char *copy(const reader *r, json_t *v)
{
    return arena_copy(r->t->a, json_string_value(v), json_string_length(v));
}

/* NULL: not there. */
static const char *word(const reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return json_is_string(v) ? copy(r, v) : NULL;
}

static int64_t whole(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : -1;
}

static status seconds(const reader *r, json_t *o, const char *key, double *out)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) return refuse(r, "there is no number", key);
    *out = json_number_value(v) * 1e-6;
    bool good = isfinite(*out) && *out >= 0 && *out < 1e9;
    return good ? OK : refuse(r, "this is not a time:", key);
}

/* ---- events */

static status take_name(reader *r, json_t *e, int64_t rank, int64_t stream)
{
    trace *t = r->t;
    json_t *name = json_object_get(e, "name");
    const char *text = word(r, json_object_get(e, "args"), "name");
    if (!json_is_string(name) || !text) return OK;
    if (strcmp(json_string_value(name), "process_name") == 0) trace_add_rank(t, rank, text);
    if (strcmp(json_string_value(name), "thread_name") == 0) {
        t->streams[stream] = text;
        if (stream >= t->n_streams) t->n_streams = (int)stream + 1;
    }
    return OK;
}

static status take_message(const reader *r, trace_op *o, json_t *args)
{
    const char *m = word(r, args, "message");
    if (!m) return OK;
    o->message = strcmp(m, "send") == 0 ? TRACE_SENDS : TRACE_RECEIVES;
    o->peer = whole(args, "peer");
    o->tag = whole(args, "tag");
    o->number = whole(args, "number");
    if (o->peer < 0 || o->tag < 0 || o->number < 0)
        return refuse(r, "a message without", o->peer < 0 ? "peer" : o->tag < 0 ? "tag" : "number");
    return OK;
}

static status take_op(reader *r, json_t *e, int64_t rank, int64_t stream)
{
    json_t *args = json_object_get(e, "args");
    const char *what = word(r, args, "what"), *name = word(r, e, "name");
    if (!what) return refuse(r, "an operation without args", "what");
    if (!name) return refuse(r, "an operation without", "name");
    bool wait = strcmp(what, "wait") == 0;
    const char *kind = wait ? name : word(r, e, "cat"), *cause = wait ? word(r, args, "for") : NULL;
    trace_op o = {.what = wait ? TRACE_WAIT : TRACE_OPERATION,
                  .name = wait ? cause ? cause : "" : name,
                  .kind = kind ? kind : "",
                  .phase = word(r, args, "phase"),
                  .group = word(r, args, "group"),
                  .rank = rank,
                  .stream = (int)stream,
                  .micro = whole(args, "microbatch"),
                  .layer = whole(args, "layer"),
                  .bytes = whole(args, "bytes")};
    double length = 0;
    TRY(seconds(r, e, "ts", &o.start));
    TRY(seconds(r, e, "dur", &length));
    o.end = o.start + length;
    o.seconds = length;
    if (json_object_get(args, "whole_us")) TRY(seconds(r, args, "whole_us", &o.seconds));
    TRY(take_message(r, &o, args));
    trace_add(r->t, o);
    return OK;
}

static status take_event(reader *r, json_t *e)
{
    const char *phase = json_string_value(json_object_get(e, "ph"));
    if (!phase) return refuse(r, "an event without", "ph");
    int64_t rank = whole(e, "pid"), stream = whole(e, "tid");
    if (rank < 0) return refuse(r, "no rank in", "pid");
    if (stream < 0 || stream >= STREAMS_MAX) return refuse(r, "no stream in", "tid");
    if (strcmp(phase, "M") == 0) return take_name(r, e, rank, stream);
    if (strcmp(phase, "X") == 0) return take_op(r, e, rank, stream);
    return OK; /* flows repeat what operations say */
}

/* ---- the file */

static status take_head(reader *r, json_t *root)
{
    json_t *head = json_object_get(root, "otherData");
    const char *what = json_string_value(json_object_get(head, "moefold"));
    if (!what || strcmp(what, "trace") != 0)
        return error_set(r->err, ERR_INPUT,
                         "%s: not a trace of moefold (otherData.moefold is not \"trace\"); repair: "
                         "name a file of `moefold price RECIPE --trace FILE` or of `train`",
                         r->path);
    int64_t version = whole(head, "version");
    if (version != 1)
        return error_set(r->err, ERR_INPUT,
                         "%s: otherData.version is %lld, but this program reads version 1; repair: "
                         "write the trace again with this program",
                         r->path, (long long)version);
    const char *source = word(r, head, "source"), *name = word(r, head, "recipe");
    const char *machine = word(r, head, "machine");
    trace *t = r->t;
    t->source = source ? source : "";
    t->recipe = name ? name : "";
    t->machine = machine ? machine : "";
    t->from = json_number_value(json_object_get(head, "from_s"));
    t->span = json_number_value(json_object_get(head, "span_s"));
    t->step = json_number_value(json_object_get(head, "step_s"));
    t->steps = whole(head, "steps");
    t->first_step = whole(head, "first_step");
    if (t->steps < 1 || t->steps > (1 << 20)) t->steps = t->first_step = 0;
    if (!(t->span > 0) || !isfinite(t->span))
        return error_set(r->err, ERR_INPUT,
                         "%s: otherData.span_s is not a length; repair: write the trace again",
                         r->path);
    return OK;
}

static status take_all(reader *r, json_t *root)
{
    json_t *events = json_object_get(root, "traceEvents"), *e;
    TRY(take_head(r, root));
    if (!json_is_array(events))
        return error_set(r->err, ERR_INPUT,
                         "%s: there is no list traceEvents; repair: write the trace again",
                         r->path);
    json_array_foreach(events, r->at, e)
    {
        TRY(take_event(r, e));
    }
    trace *t = r->t;
    for (int64_t i = 0; i < t->n; i++)
        if (t->ops[i].stream >= t->n_streams) t->n_streams = t->ops[i].stream + 1;
    for (int i = 0; i < t->n_streams; i++)
        if (!t->streams[i]) t->streams[i] = arena_text(t->a, "stream %d", i);
    if (t->n) return OK;
    return error_set(r->err, ERR_INPUT, "%s: the trace has no operation; repair: write it again",
                     r->path);
}

/* Where who knew first has said none. */
static status with_repair(status s, const char *repair, arena *a, error *err)
{
    if (strstr(err->text, "repair:")) return s;
    const char *why = arena_text(a, "%s", err->text);
    return error_set(err, s, "%s; repair: %s", why, repair);
}

status trace_parse(trace *t, const char *path, const char *data, size_t n, arena *a, error *err)
{
    trace_init(t, "", a);
    t->streams = ARENA_ARRAY(a, const char *, STREAMS_MAX);
    reader r = {.t = t, .path = path, .err = err};
    char *text = (char *)(uintptr_t)data;
    if (gzip_is(data, n)) {
        gzip_text in = {path, data, n, TRACE_BYTES_MAX};
        status s = gzip_unpack(a, &in, &text, &n, err);
        if (s) return with_repair(s, "write the trace again, of fewer ranks or steps", a, err);
    }
    json_t *root = NULL;
    status s = json_parse(path, text, n, &root, err);
    if (s) {
        return with_repair(s, "it is cut short or not JSON: write the trace again", a, err);
    }
    s = take_all(&r, root);
    json_decref(root);
    if (!s) trace_sort(t);
    return s;
}

status trace_read(trace *t, const char *path, arena *a, error *err)
{
    char *data;
    size_t n;
    status s = file_read(a, path, TRACE_BYTES_MAX, &data, &n, err);
    if (s)
        return with_repair(s, "name a file that `price --trace` or `train --trace` wrote", a, err);
    return trace_parse(t, path, data, n, a, err);
}
