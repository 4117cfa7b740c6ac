/* iteration_line.c - lines of a run as text and as JSON.
 *
 * I1  The fields, their order and their widths are Megatron-Bridge's: each loss that is not
 *     negative is shown (a NaN is not), optional fields stand where Megatron puts them.
 * I2  A NaN is printed as Python prints it, without a sign. */
#include "answer/answer.h"
#include "train/loop/iteration_line.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"

enum { METRICS_BYTES_MAX = INT_MAX };

/* ---- text */

typedef struct line {
    char *s;
    size_t n, room;
} line;

static line line_init(char *out, size_t room)
{
    if (room > 0) out[0] = 0;
    return (line){out, 0, room};
}

__attribute__((format(printf, 2, 3))) static void add(line *t, const char *format, ...)
{
    if (t->n >= t->room) return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->s + t->n, t->room - t->n, format, args);
    va_end(args);
    if (n > 0) t->n += (size_t)n;
    if (t->n > t->room) t->n = t->room; /* cut */
}

static double unsigned_nan(double x)
{
    return isnan(x) ? (double)NAN : x; /* I2 */
}

static void format_time(char *out, size_t room, time_t when)
{
    struct tm local;
    if (!localtime_r(&when, &local) || !strftime(out, room, "%Y-%m-%d %H:%M:%S", &local))
        snprintf(out, room, "?");
}

static void add_progress(line *t, const iteration_line *it)
{
    char when[32];
    format_time(when, sizeof when, it->when);
    add(t, " [%s] iteration %8" PRId64 "/%8" PRId64 " |", when, it->iteration, it->train_iters);
    add(t, " consumed samples: %12" PRId64 " |", it->consumed_samples);
    if (it->skipped_samples > 0) add(t, " skipped samples: %12" PRId64 " |", it->skipped_samples);
    add(t, " elapsed time per iteration (ms): %.1f |", it->seconds * 1000);
    if (it->has & LINE_THROUGHPUT)
        add(t, " throughput per GPU (TFLOP/s/GPU): %.1f |", unsigned_nan(it->tflops));
}

static void add_losses(line *t, const iteration_line *it)
{
    add(t, " learning rate: %.6E |", it->lr);
    add(t, " global batch size: %5" PRId64 " |", it->global_batch);
    for (int i = 0; i < it->n_losses; i++)
        if (it->losses[i].value >= 0) /* I1 */
            add(t, " %s: %.6E |", it->losses[i].name, it->losses[i].value);
}

static void add_state(line *t, const iteration_line *it)
{
    add(t, " loss scale: %.1f |", it->loss_scale);
    if (it->has & LINE_NORM) add(t, " grad norm: %.3f |", unsigned_nan(it->norm));
    if (it->has & LINE_ZEROS) add(t, " num zeros: %" PRId64 " |", it->zeros);
    if (it->has & LINE_PARAMS_NORM) add(t, " params norm: %.3f |", unsigned_nan(it->params_norm));
    if (it->has & LINE_MAX_LOGIT)
        add(t, " max attention logit: %.3f |", unsigned_nan(it->max_logit));
    add(t, " number of skipped iterations: %3" PRId64 " |", it->skipped);
    add(t, " number of nan iterations: %3" PRId64 " |", it->nan);
}

void iteration_line_print(char *out, size_t room, const iteration_line *it)
{
    line t = line_init(out, room);
    add_progress(&t, it);
    add_losses(&t, it);
    add_state(&t, it);
}

void step_time_print(char *out, size_t room, const iteration_line *it)
{
    line t = line_init(out, room);
    add(&t, "Step Time : %.2fs GPU utilization: %.1fMODEL_TFLOP/s/GPU", it->seconds,
        unsigned_nan(it->tflops));
}

double iteration_tflops(double flops_per_token, int64_t tokens, double seconds, int64_t gpus)
{
    double chip_seconds = seconds * (double)gpus;
    return chip_seconds > 0 ? flops_per_token * (double)tokens / chip_seconds / 1e12 : 0;
}

/* Megatron cuts the exponent at 20, so that a first validation is not Inf. */
static double perplexity(double loss)
{
    return exp(loss < 20 ? loss : 20);
}

static void add_rule(line *t, size_t n)
{
    for (size_t i = 0; i < n; i++) add(t, "-");
}

void validation_print(char *out, size_t room, const char *name, const named_loss *losses,
                      int n_losses)
{
    char text[LINE_BYTES];
    line middle = line_init(text, sizeof text), t = line_init(out, room);
    add(&middle, " validation loss at %s | ", name);
    for (int i = 0; i < n_losses; i++) {
        double loss = unsigned_nan(losses[i].value);
        add(&middle, "%s value: %.6E | ", losses[i].name, loss);
        add(&middle, "%s PPL: %.6E | ", losses[i].name, perplexity(loss));
    }
    size_t width = strlen(text) + 1;
    add_rule(&t, width);
    add(&t, "\n%s\n", text);
    add_rule(&t, width);
}

void saving_print(char *out, size_t room, const checkpoint_note *c)
{
    line t = line_init(out, room);
    add(&t, "saving checkpoint at iteration %7" PRId64 " to %s in %s format", c->iteration,
        c->folder, c->format);
}

void saved_print(char *out, size_t room, const checkpoint_note *c)
{
    line t = line_init(out, room);
    add(&t,
        "  successfully saved checkpoint from iteration %7" PRId64 " to %s [ t 1/%" PRId64
        ", p 1/%" PRId64 " ]",
        c->iteration, c->folder, c->tp, c->pp);
}

void loaded_print(char *out, size_t room, const checkpoint_note *c)
{
    line t = line_init(out, room);
    add(&t,
        "  successfully loaded checkpoint from %s [ t 1/%" PRId64 ", p 1/%" PRId64
        " ] at iteration %" PRId64,
        c->folder, c->tp, c->pp, c->iteration);
}

void memory_print(char *out, size_t room, int64_t iterations, int64_t bytes, int64_t peak)
{
    line t = line_init(out, room);
    add(&t,
        "[Rank 0] (after %" PRId64 " iterations) memory (GB) | mem-allocated-gigabytes: %.5g"
        " | mem-max-allocated-gigabytes: %.5g",
        iterations, (double)bytes / 1e9, (double)peak / 1e9);
}

/* ---- intervals */

static named_loss *find_loss(log_interval *t, const char *name)
{
    for (int i = 0; i < t->n_losses; i++)
        if (strcmp(t->sums[i].name, name) == 0) return &t->sums[i];
    if (t->n_losses == LOSSES_MAX) return NULL;
    t->sums[t->n_losses] = (named_loss){name, 0};
    return &t->sums[t->n_losses++];
}

void log_interval_add(log_interval *t, const named_loss *losses, int n_losses, bool skipped,
                      double seconds)
{
    bool nan = false;
    for (int i = 0; i < n_losses; i++) {
        named_loss *sum = find_loss(t, losses[i].name);
        if (!skipped && sum) sum->value += losses[i].value;
        nan = nan || (skipped && !isfinite(losses[i].value));
    }
    t->iterations++;
    t->advanced += !skipped;
    t->skipped += skipped;
    t->nan += nan;
    t->seconds += seconds;
}

void log_interval_close(log_interval *t, iteration_line *it)
{
    double advanced = t->advanced > 0 ? (double)t->advanced : (double)NAN; /* no loss, not 0 */
    for (int i = 0; i < t->n_losses; i++)
        it->losses[i] = (named_loss){t->sums[i].name, t->sums[i].value / advanced};
    it->n_losses = t->n_losses;
    it->seconds = t->seconds / (t->iterations > 0 ? (double)t->iterations : 1);
    it->skipped = t->skipped;
    it->nan = t->nan;
    *t = (log_interval){0};
}

/* ---- JSON */

json_t *iteration_line_json(const iteration_line *it)
{
    char when[32];
    loss_answer losses[LOSSES_MAX];
    const throughput_answer throughput = {it->tflops, it->tokens_per_second};
    const norm_answer norm = {it->norm};
    const params_norm_answer params = {it->params_norm};
    const max_logit_answer logit = {it->max_logit};
    format_time(when, sizeof when, it->when);
    for (int i = 0; i < it->n_losses; i++)
        losses[i] = (loss_answer){it->losses[i].name, it->losses[i].value};
    const iteration_event x = {.event = "iteration",
                               .time = when,
                               .iteration = it->iteration,
                               .train_iters = it->train_iters,
                               .consumed_samples = it->consumed_samples,
                               .skipped_samples = it->skipped_samples,
                               .elapsed_ms = it->seconds * 1000,
                               .learning_rate = it->lr,
                               .global_batch_size = it->global_batch,
                               .losses = losses,
                               .n_losses = it->n_losses,
                               .loss_scale = it->loss_scale,
                               .skipped_iterations = it->skipped,
                               .nan_iterations = it->nan,
                               .throughput = it->has & LINE_THROUGHPUT ? &throughput : NULL,
                               .norm = it->has & LINE_NORM ? &norm : NULL,
                               .zeros = it->has & LINE_ZEROS ? it->zeros : FIELD_NONE,
                               .params_norm = it->has & LINE_PARAMS_NORM ? &params : NULL,
                               .max_logit = it->has & LINE_MAX_LOGIT ? &logit : NULL};
    return answer_json(iteration_event, &x);
}

json_t *validation_json(int64_t at, const char *set, const named_loss *losses, int n_losses)
{
    loss_answer means[LOSSES_MAX], perplexities[LOSSES_MAX];
    for (int i = 0; i < n_losses; i++) {
        means[i] = (loss_answer){losses[i].name, losses[i].value};
        perplexities[i] = (loss_answer){losses[i].name, perplexity(losses[i].value)};
    }
    const validation_event x = {"validation", at, means, n_losses, perplexities, n_losses, set};
    return answer_json(validation_event, &x);
}

json_t *saved_json(const checkpoint_note *c)
{
    const checkpoint_event x = {"checkpoint", c->iteration, c->folder};
    return answer_json(checkpoint_event, &x);
}

/* ---- metrics file */

/* A line of an iteration that is made again. */
static bool is_repeated(const char *text, size_t n, int64_t after)
{
    json_t *o = json_loadb(text, n, 0, NULL);
    bool repeated = json_integer_value(json_object_get(o, "iteration")) > after;
    json_decref(o);
    return repeated;
}

/* Only a plain file has lines to take out. */
static status cut_metrics(const char *path, int64_t after, error *err)
{
    struct stat info;
    char *text;
    size_t n;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return OK;
    arena *a = arena_create();
    textbuf kept = text_init(a);
    status s = file_read(a, path, METRICS_BYTES_MAX, &text, &n, err);
    for (const char *p = s ? NULL : text, *end;
         p && (end = memchr(p, '\n', n - (size_t)(p - text))); p = end + 1)
        if (!is_repeated(p, (size_t)(end - p), after)) text_put(&kept, p, (size_t)(end - p) + 1);
    if (!s && kept.n != n) s = file_write(path, kept.s, kept.n, err);
    arena_destroy(a);
    return s;
}

status metrics_open(metrics_file *m, const char *path, int64_t after, error *err)
{
    if (after > 0) TRY(cut_metrics(path, after, err));
    FILE *file = fopen(path, after > 0 ? "a" : "w");
    if (!file) return error_set(err, ERR_INPUT, "%s: cannot write metrics: %s", path, file_why());
    *m = (metrics_file){file, path};
    return OK;
}

status metrics_write(metrics_file *m, json_t *object, error *err)
{
    arena *a = arena_create();
    const char *text;
    status s = json_print(a, m->path, object, JSON_COMPACT, &text, err);
    bool bad = !s && (fprintf(m->file, "%s\n", text) < 0 || fflush(m->file) == EOF);
    arena_destroy(a);
    json_decref(object);
    if (!bad) return s;
    return error_set(err, ERR_MACHINE, "%s: cannot write metrics: %s", m->path, file_why());
}

status metrics_close(metrics_file *m, error *err)
{
    if (!m->file) return OK;
    bool bad = fclose(m->file) == EOF;
    const char *path = m->path;
    *m = (metrics_file){0};
    if (!bad) return OK;
    return error_set(err, ERR_MACHINE, "%s: cannot write metrics: %s", path, file_why());
}
