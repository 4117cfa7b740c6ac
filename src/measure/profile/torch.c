/* torch.c - traces of the PyTorch profiler: Chrome's events as Kineto writes them.
 *
 * I1  Events come in any order and are kept only if they say something: kernels, copies and fills
 *     of the device, calls into the driver, operations, the user's annotations, the profiler's own
 *     work. Python's stack frames, flows and counters are read past.
 * I2  ts and dur are microseconds. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "measure/profile/readers.h"
#include "measure/profile/scan.h"

enum { WORD = 64 };

typedef struct event {
    char phase, cat[WORD];
    int name, group;
    bool named, timed, lasts;
    double ts, dur;
    int64_t pid, tid, correlation, stream, device;
    double reserved; /* bytes, of a memory event */
} event;

typedef struct reader {
    scan c;
    profile *p;
    profile_events *e;
    bool found, ours;
} reader;

/* ---- one event */

static void read_word(scan *c, char out[WORD])
{
    if (scan_peek(c) != SCAN_STRING) {
        scan_skip(c);
        return;
    }
    if (!scan_string(c)) return;
    size_t n = strlen(c->text) < WORD ? strlen(c->text) : WORD - 1;
    memcpy(out, c->text, n);
    out[n] = 0;
}

static double number_or(scan *c, double other)
{
    double x = other;
    if (scan_peek(c) == SCAN_NUMBER)
        scan_number(c, &x);
    else
        scan_skip(c);
    return isfinite(x) && fabs(x) < 1e18 ? x : other;
}

/* Processes and threads have numbers, or names. */
static int64_t read_id(reader *r)
{
    if (scan_peek(&r->c) != SCAN_STRING) return (int64_t)number_or(&r->c, -1);
    return scan_string(&r->c) ? -2 - profile_intern(r->e, r->c.text) : -1;
}

static void read_args(reader *r, event *v)
{
    scan *c = &r->c;
    int64_t n = 0;
    if (scan_peek(c) != SCAN_OBJECT) {
        scan_skip(c);
        return;
    }
    scan_enter(c, '{');
    while (scan_key(c, &n)) {
        if (strcmp(c->text, "correlation") == 0) {
            v->correlation = (int64_t)number_or(c, -1);
        } else if (strcmp(c->text, "stream") == 0) {
            v->stream = (int64_t)number_or(c, 0);
        } else if (strcmp(c->text, "device") == 0) {
            v->device = (int64_t)number_or(c, 0);
        } else if (strcmp(c->text, "Total Reserved") == 0) {
            v->reserved = number_or(c, 0);
        } else if (strcmp(c->text, "Process Group Description") == 0) {
            char word[WORD] = "";
            read_word(c, word);
            if (*word) v->group = profile_intern(r->e, word);
        } else {
            scan_skip(c);
        }
    }
}

static void read_event(reader *r, event *v)
{
    scan *c = &r->c;
    char word[WORD];
    int64_t n = 0;
    *v = (event){.group = -1, .correlation = -1};
    if (scan_peek(c) != SCAN_OBJECT) {
        scan_skip(c);
        return;
    }
    scan_enter(c, '{');
    while (scan_key(c, &n)) {
        if (strcmp(c->text, "ph") == 0) {
            word[0] = 0;
            read_word(c, word);
            v->phase = word[0];
        } else if (strcmp(c->text, "cat") == 0) {
            read_word(c, v->cat);
        } else if (strcmp(c->text, "name") == 0) {
            v->named = scan_peek(c) == SCAN_STRING;
            if (!v->named)
                scan_skip(c);
            else if (scan_string(c))
                v->name = profile_intern(r->e, c->text);
        } else if (strcmp(c->text, "ts") == 0) {
            v->ts = number_or(c, NAN);
        } else if (strcmp(c->text, "dur") == 0) {
            v->dur = number_or(c, NAN);
            v->lasts = true;
        } else if (strcmp(c->text, "pid") == 0) {
            v->pid = read_id(r);
        } else if (strcmp(c->text, "tid") == 0) {
            v->tid = read_id(r);
        } else if (strcmp(c->text, "args") == 0) {
            read_args(r, v);
        } else {
            scan_skip(c);
        }
    }
}

/* ---- which are kept (I1) */

static void keep(reader *r, const event *v, double start, double end)
{
    profile_events *e = r->e;
    const char *cat = v->cat, *name = e->names[v->name];
    int64_t thread = (int64_t)((uint64_t)v->pid << 32 ^ (uint64_t)v->tid);
    if (text_in("kernel|Kernel|gpu_memcpy|gpu_memset|Memcpy|Memset", '|', cat)) {
        profile_kernel k = {.name = v->name, .group = v->group, .correlation = v->correlation};
        k.device = (int)(v->device & 0xffff);
        k.stream = (int)(v->stream & 0xffff);
        k.start = start;
        k.end = end;
        events_kernel(e, k);
    } else if (text_in("cuda_runtime|cuda_driver|Runtime", '|', cat)) {
        events_call(e, (profile_call){v->name, thread, v->correlation, start, end});
    } else if (text_starts(name, "ProfilerStep#") && strcmp(cat, "gpu_user_annotation") != 0) {
        e->n_steps++;
    } else if (text_in("cpu_op|Operator|user_annotation", '|', cat)) {
        bool frame = strcmp(cat, "user_annotation") == 0;
        events_range(e, (profile_range){v->name, frame, thread, start, end});
    } else if (strcmp(cat, "overhead") == 0 && strcmp(name, "Command Buffer Full") != 0) {
        ARENA_GROW(e->a, e->spends, e->n_spends, e->spends_room);
        e->spends[e->n_spends++] = (profile_spend){start, end};
    }
}

static void take_event(reader *r)
{
    event v;
    read_event(r, &v);
    profile_events *e = r->e;
    if (r->c.s) return;
    if (v.reserved > (double)r->p->peak_bytes) r->p->peak_bytes = (int64_t)v.reserved;
    bool good = v.phase == 'X' && v.named && v.lasts && isfinite(v.ts) && v.dur >= 0;
    if (!good) return;
    if (!e->has_base) e->base = v.ts;
    e->has_base = true;
    double start = (v.ts - e->base) * 1e-6; /* I2 */
    keep(r, &v, start, start + v.dur * 1e-6);
    if (e->n_kernels + e->n_calls + e->n_ranges > EVENTS_MAX)
        r->c.s = error_set(r->c.err, ERR_INPUT,
                           "%s: more than %d million events; repair: profile "
                           "fewer steps",
                           r->c.name, EVENTS_MAX >> 20);
}

static void take_events(reader *r)
{
    int64_t n = 0;
    r->found = true;
    if (!scan_enter(&r->c, '[')) return;
    while (scan_element(&r->c, &n)) take_event(r);
}

/* ---- the file */

/* The first GPU of "deviceProperties". */
static void take_devices(reader *r)
{
    scan *c = &r->c;
    int64_t n = 0, k = 0;
    if (scan_peek(c) != SCAN_ARRAY) {
        scan_skip(c);
        return;
    }
    scan_enter(c, '[');
    while (scan_element(c, &n)) {
        if (scan_peek(c) != SCAN_OBJECT) {
            scan_skip(c);
            continue;
        }
        scan_enter(c, '{');
        for (k = 0; scan_key(c, &k);) {
            char word[WORD] = "";
            bool name = strcmp(c->text, "name") == 0;
            if (name)
                read_word(c, word);
            else
                scan_skip(c);
            if (name && !r->p->gpu)
                r->p->gpu = arena_text(r->e->a, "%s", text_visible(r->e->a, word));
        }
    }
}

static void take_head(reader *r)
{
    int64_t n = 0;
    if (!scan_enter(&r->c, '{')) return;
    while (scan_key(&r->c, &n)) {
        if (strcmp(r->c.text, "traceEvents") == 0) {
            take_events(r);
        } else if (strcmp(r->c.text, "deviceProperties") == 0) {
            take_devices(r);
        } else {
            if (strcmp(r->c.text, "otherData") == 0) r->ours = true;
            scan_skip(&r->c);
        }
    }
}

status torch_read(profile *out, profile_events *e, const profile_file *f, error *err)
{
    reader r = {.p = out, .e = e};
    r.c = (scan){.b = f->b, .name = f->name, .err = err};
    out->source = SOURCE_TORCH;
    if (scan_peek(&r.c) == SCAN_ARRAY)
        take_events(&r); /* the list alone is a Chrome trace, too */
    else
        take_head(&r);
    if (r.c.s) return r.c.s;
    if (!r.found)
        return error_set(err, ERR_INPUT,
                         "%s: JSON without a list traceEvents: not a trace; repair: name a file of "
                         "torch.profiler's export_chrome_trace",
                         f->name);
    if (!e->n_kernels && r.ours)
        return error_set(err, ERR_INPUT,
                         "%s: a trace without GPU kernels; repair: compare traces of moefold with "
                         "`moefold trace A B`",
                         f->name);
    if (!e->n_kernels)
        return error_set(err, ERR_INPUT,
                         "%s: the trace has no GPU kernels (events of category kernel); repair: "
                         "profile with ProfilerActivity.CUDA",
                         f->name);
    return OK;
}
