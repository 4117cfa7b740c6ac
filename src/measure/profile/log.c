/* log.c - logs of Megatron-LM and Megatron-Bridge: the iteration line, the memory report, timers.
 *
 * I1  The step is the median of the later half of the iterations: the first ones compile, allocate
 *     and measure algorithms.
 * I2  Of timers the last block counts, and of a timer the slowest rank.
 * I3  A log is taken if it has an iteration line, or says that memory ran out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "measure/profile/readers.h"

enum { LINE = 4096 };

typedef struct reading {
    profile_log *l;
    arena *a;
    double *steps; /* seconds, [n_iterations] */
    int64_t room;
    bool timers;          /* the lines of a block of timers follow */
    int64_t n_lines, odd; /* bytes that no text has */
} reading;

/* ---- one line */

/* The number behind a key; false: there is none. */
static bool number_after(const char *line, const char *key, double *out)
{
    const char *p = strstr(line, key);
    if (!p) return false;
    p += strlen(key);
    char *end;
    double x = strtod(p, &end);
    if (end == p || !isfinite(x)) return false;
    *out = x;
    return true;
}

static void take_iteration(reading *r, const char *line)
{
    profile_log *l = r->l;
    double x, ms = 0;
    if (!strstr(line, "iteration")) return;
    if (!number_after(line, "elapsed time per iteration (ms):", &ms)) return;
    if (!(ms > 0) || ms > 1e12) return;
    ARENA_GROW(r->a, r->steps, l->n_iterations, r->room);
    r->steps[l->n_iterations++] = ms * 1e-3;
    r->timers = false;
    if (number_after(line, "throughput per GPU (TFLOP/s/GPU):", &x)) l->tflops = x;
    if (number_after(line, "global batch size:", &x) && x > 0 && x < 1e12)
        l->global_batch = (int64_t)x;
    if (number_after(line, "lm loss:", &x)) l->loss = x;
    if (number_after(line, "number of skipped iterations:", &x) && x >= 0 && x < 1e9)
        l->skipped_iterations += (int64_t)x;
    if (number_after(line, "number of nan iterations:", &x) && x >= 0 && x < 1e9)
        l->nan_iterations += (int64_t)x;
}

static void take_most(const char *line, const char *key, double unit, int64_t *most)
{
    double x;
    if (!number_after(line, key, &x) || x < 0 || x > 1e9) return;
    if (x * unit > (double)*most) *most = (int64_t)(x * unit);
}

static void take_memory(profile_log *l, const char *line)
{
    if (strstr(line, "memory (MB)")) { /* Megatron-LM: MiB */
        take_most(line, "max allocated:", 1 << 20, &l->max_allocated);
        take_most(line, "max reserved:", 1 << 20, &l->max_reserved);
    }
    take_most(line, "mem-max-allocated-gigabytes:", 1e9, &l->max_allocated);
    take_most(line, "mem-max-reserved-gigabytes:", 1e9, &l->max_reserved);
}

static log_timer *timer_of(reading *r, const char *name, size_t n)
{
    profile_log *l = r->l;
    for (int i = 0; i < l->n_timers; i++)
        if (strlen(l->timers[i].name) == n && strncmp(l->timers[i].name, name, n) == 0)
            return &l->timers[i];
    if (l->n_timers == LOG_TIMERS) return NULL;
    log_timer *t = &l->timers[l->n_timers++];
    *t = (log_timer){.name = arena_copy(r->a, name, n)};
    return t;
}

/* "    forward-compute ......: (12.3, 14.5)", or one number, or "rank  0: 12.3" below a name. */
static void take_timer(reading *r, const char *line)
{
    const char *name = line + strspn(line, " \t0123456789:");
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz-_");
    const char *colon = strchr(name + n, ':');
    if (!n || !colon || strspn(name + n, " .") != (size_t)(colon - name - (ptrdiff_t)n)) {
        r->timers = strspn(line, " \t\r") == strlen(line) || strstr(line, "rank") != NULL;
        return;
    }
    double x[2];
    char *end;
    const char *p = colon + 1 + strspn(colon + 1, " (");
    x[0] = x[1] = strtod(p, &end);
    if (end == p) return;
    p = end + strspn(end, " ,");
    double second = strtod(p, &end);
    if (end != p) x[1] = second;
    bool good = isfinite(x[0]) && isfinite(x[1]) && x[0] >= 0 && x[1] >= 0 && x[1] < 1e12;
    log_timer *t = good ? timer_of(r, name, n) : NULL;
    if (t) t->min = x[0] * 1e-3, t->max = x[1] * 1e-3;
}

/* What launchers write before a line: "[default0]:", "[rank3]: ", "3: ", a date in brackets. */
static const char *behind_tags(const char *line)
{
    for (;;) {
        const char *p = line + strspn(line, " \t");
        size_t n = strcspn(p, "]");
        if (*p == '[' && p[n] && n < 40)
            p += n + 1;
        else if (p[n = strspn(p, "0123456789")] == ':' && n)
            p += n;
        else
            return line;
        line = p + (*p == ':');
    }
}

static void take_line(reading *r, const char *line)
{
    line = behind_tags(line);
    profile_log *l = r->l;
    r->n_lines++;
    if (!l->out_of_memory &&
        (strstr(line, "CUDA out of memory") || strstr(line, "OutOfMemoryError")))
        l->out_of_memory = text_visible(r->a, arena_text(r->a, "%.200s", line));
    if (strstr(line, "time across ranks (ms)")) {
        r->timers = true;
        return;
    }
    take_memory(l, line);
    if (r->timers) take_timer(r, line);
    take_iteration(r, line);
}

/* ---- the file */

static void read_lines(reading *r, bytes *b)
{
    char line[LINE];
    size_t n = 0;
    for (int x = bytes_next(b); x >= 0; x = bytes_next(b)) {
        if (x == 0) r->odd++;
        if (x == '\n') {
            line[n] = 0;
            take_line(r, line);
            n = 0;
        } else if (n + 1 < LINE) {
            line[n++] = (char)(x ? x : '?');
        }
    }
    line[n] = 0;
    if (n) take_line(r, line);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* I1 */
static void find_step(reading *r)
{
    profile_log *l = r->l;
    int64_t first = l->n_iterations / 2, n = l->n_iterations - first;
    l->n_kept = n;
    if (!n) return;
    double *kept = r->steps + first;
    qsort(kept, (size_t)n, sizeof *kept, by_size);
    l->step_s = n % 2 ? kept[n / 2] : (kept[n / 2 - 1] + kept[n / 2]) / 2;
    l->least_s = kept[0];
    l->most_s = kept[n - 1];
}

status log_read(profile *out, const profile_file *f, arena *a, error *err)
{
    profile_log *l = &out->log;
    reading r = {.l = l, .a = a};
    l->loss = NAN;
    out->source = SOURCE_LOG;
    read_lines(&r, f->b);
    TRY(bytes_failed(f->b, err));
    if (!l->n_iterations && !l->out_of_memory && r.odd) /* I3 */
        return error_set(
            err, ERR_INPUT,
            "%s: neither text nor JSON nor SQLite; repair: export an Nsight report (.nsys-rep; "
            "QdstrmImporter makes one from a .qdstrm) with `nsys export --type sqlite`",
            f->name);
    if (!l->n_iterations && !l->out_of_memory)
        return error_set(err, ERR_INPUT,
                         "%s: none of its %lld lines is an iteration line of Megatron (with "
                         "'elapsed time per iteration (ms):'); repair: give a log of Megatron with "
                         "--log-interval 1, a PyTorch-profiler trace or an Nsight SQLite export",
                         f->name, (long long)r.n_lines);
    find_step(&r);
    return OK;
}

/* ---- timers as parts of the step */

static double timer(const profile_log *l, const char *name)
{
    for (int i = 0; i < l->n_timers; i++)
        if (strcmp(l->timers[i].name, name) == 0) return l->timers[i].max; /* I2 */
    return 0;
}

static double timers(const profile_log *l, const char *const *names)
{
    double sum = 0;
    for (; *names; names++) sum += timer(l, *names);
    return sum;
}

static const char *const STAGES[] = {"forward-recv",
                                     "forward-send",
                                     "backward-recv",
                                     "backward-send",
                                     "forward-send-forward-recv",
                                     "forward-send-backward-recv",
                                     "backward-send-forward-recv",
                                     "backward-send-backward-recv",
                                     "forward-backward-send-forward-backward-recv",
                                     NULL};
static const char *const INSIDE[] = {"all-grads-sync",
                                     "grads-reduce-scatter",
                                     "grads-all-reduce",
                                     "layernorm-grads-all-reduce",
                                     "embedding-grads-all-reduce",
                                     NULL}; /* of forward-backward */
static const char *const BEHIND[] = {"params-all-gather", "backward-params-all-reduce", NULL};

void log_explain(profile *out)
{
    const profile_log *l = &out->log;
    out->steps = 1;
    out->marked = true;
    out->span = l->step_s;
    out->peak_bytes = l->max_reserved ? l->max_reserved : l->max_allocated;
    double both = timer(l, "forward-compute") + timer(l, "backward-compute");
    double whole = timer(l, "forward-backward"), data = timer(l, "batch-generator");
    double stages = timers(l, STAGES), inside = timers(l, INSIDE);
    if (stages > 0 && both > 0 && whole > both + inside) stages = whole - both - inside;
    out->mixed = both > 0 ? both : whole - stages - inside;
    if (out->mixed < 0) out->mixed = 0;
    if (data > out->mixed) data = out->mixed;
    out->mixed -= data;
    out->idle[CAUSE_DATA] = data;
    out->idle[CAUSE_BUBBLE] = stages;
    out->busy[COST_DP] = inside + timers(l, BEHIND);
    out->busy[KIND_OPTIMIZER] = timer(l, "optimizer");
    double known = out->mixed + data + stages + out->busy[COST_DP] + out->busy[KIND_OPTIMIZER];
    if (known > out->span) known = out->span; /* timers of different ranks */
    out->idle[CAUSE_UNKNOWN] = out->span - known;
    out->explained = out->span > 0 ? known / out->span : 0;
}
