/* measure.c - GEMMs and attention by size, and the order in which all is measured. */
#include "measure/bench/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/bench/microbench.h"
#include "backend/comm/agree.h"

/* ---- GEMMs: one of a layer's forms, or the three of them together */

static timed_op added(timed_op t, measured_form f)
{
    if (f == FORM_WEIGHT) t.o.flags |= OVERWRITE;
    return t;
}

static int of_forms(timed_op *list, const timed_op *all, measured_form f)
{
    if (f == FORM_ALL) {
        memcpy(list, all, 3 * sizeof *list);
        return 3;
    }
    list[0] = added(all[f < FORM_WEIGHT ? f : FORM_WEIGHT], f);
    return 1;
}

/* Result of side squared, sums of `depth`. */
static double gemms(microbench *j, double side, double depth, measured_form f)
{
    int64_t s = (int64_t)side, d = (int64_t)depth;
    const timed_op all[] = {gemm_op(OP_GEMM, s, s, d), gemm_op(OP_GEMM_D, s, d, s),
                            gemm_op(OP_GEMM_W, d, s, s)};
    timed_op list[3];
    return microbench_flops(j, list, of_forms(list, all, f));
}

static double by_side(microbench *j, double side, measured_form f)
{
    return gemms(j, side, (double)j->scale->depth, f);
}

static double by_depth(microbench *j, double depth, measured_form f)
{
    return gemms(j, (double)j->scale->side, depth, f);
}

static double experts(microbench *j, double rows, measured_form f)
{
    int64_t n = (int64_t)rows, side = j->scale->expert_side;
    const timed_op all[] = {grouped_op(j, OP_GROUPED, n, side, side),
                            grouped_op(j, OP_GROUPED_D, n, side, side),
                            grouped_op(j, OP_GROUPED_W, n, side, side)};
    timed_op list[3];
    return microbench_flops(j, list, of_forms(list, all, f));
}

static double experts_by_depth(microbench *j, double depth, measured_form f)
{
    (void)f;
    timed_op t =
        grouped_op(j, OP_GROUPED, j->scale->usual_rows, j->scale->expert_side, (int64_t)depth);
    return microbench_flops(j, &t, 1);
}

/* ---- the same in FP8 */

static double narrow_gemms(microbench *j, double side, double depth, measured_form f)
{
    int64_t s = (int64_t)side, d = (int64_t)depth;
    timed_op t = f == FORM_FORWARD ? narrow_op(OP_QGEMM, s, s, d)
                 : f == FORM_DATA  ? narrow_op(OP_QGEMM_D, s, d, s)
                                   : added(narrow_op(OP_QGEMM_W, d, s, s), f);
    return microbench_flops(j, &t, 1);
}

static double narrow_by_side(microbench *j, double side, measured_form f)
{
    return narrow_gemms(j, side, (double)j->scale->depth, f);
}

static double narrow_by_depth(microbench *j, double depth, measured_form f)
{
    return narrow_gemms(j, (double)j->scale->side, depth, f);
}

static double narrow_experts(microbench *j, double rows, measured_form f)
{
    const op_kind kind = (op_kind)(OP_QGROUPED + (f < FORM_WEIGHT ? (int)f : FORM_WEIGHT));
    int64_t side = j->scale->expert_side;
    timed_op t = added(narrow_grouped_op(j, kind, (int64_t)rows, side, side), f);
    return microbench_flops(j, &t, 1);
}

static double narrow_experts_by_depth(microbench *j, double depth, measured_form f)
{
    (void)f;
    timed_op t = narrow_grouped_op(j, OP_QGROUPED, j->scale->usual_rows, j->scale->expert_side,
                                   (int64_t)depth);
    return microbench_flops(j, &t, 1);
}

/* ---- attention: forward, backward, or both */

static double by_length(microbench *j, double length, measured_form f)
{
    int64_t d = j->scale->head;
    timed_op t = attention_op(j, (int64_t)length, d, d, f == FORM_DATA);
    return microbench_flops(j, &t, 1);
}

static double by_head(microbench *j, double size, measured_form f)
{
    (void)f;
    int64_t s = j->scale->usual_length, d = (int64_t)size;
    timed_op list[] = {attention_op(j, s, d, d, false), attention_op(j, s, d, d, true)};
    return microbench_flops(j, list, COUNT(list));
}

static double by_bytes(microbench *j, double bytes, measured_form f)
{
    (void)f;
    return measure_memory(j, bytes);
}

static double copies_by_bytes(microbench *j, double bytes, measured_form f)
{
    (void)f;
    return measure_copies(j, bytes);
}

/* ---- all of it */

typedef struct series {
    double (*rate)(microbench *j, double x, measured_form f);
    const scale_list *x;
    int ops; /* operations of a point */
    curve *to;
    measured_form form;
} series;

enum { SERIES_MAX = 32 };

static int list_series(series *out, const measure_scale *z, measured *m)
{
    int n = 0, ops = z->forms ? 1 : 3;
    measured_form f = z->forms ? FORM_FORWARD : FORM_ALL;
    out[n++] = (series){by_side, &z->sides, ops, &m->gemm, f};
    out[n++] = (series){by_depth, &z->depths, ops, &m->deep, f};
    out[n++] = (series){experts, &z->expert_rows, ops, &m->grouped, f};
    for (int i = FORM_DATA; z->forms && i <= FORM_ADDED; i++) {
        out[n++] = (series){by_side, &z->sides, 1, &m->gemm_form[i], (measured_form)i};
        out[n++] = (series){experts, &z->expert_rows, 1, &m->grouped_form[i], (measured_form)i};
    }
    out[n++] = (series){experts_by_depth, &z->expert_depths, 1, &m->grouped_deep, FORM_FORWARD};
    for (int i = FORM_FORWARD; z->forms && i <= FORM_ADDED; i++) {
        const measured_form own = (measured_form)i;
        out[n++] = (series){narrow_by_side, &z->narrow_sides, 1, &m->narrow[i], own};
        out[n++] = (series){narrow_experts, &z->narrow_rows, 1, &m->narrow_experts[i], own};
    }
    out[n++] = (series){narrow_by_depth, &z->narrow_depths, 1, &m->narrow_deep, FORM_FORWARD};
    out[n++] = (series){narrow_experts_by_depth, &z->narrow_expert_depths, 1,
                        &m->narrow_experts_deep, FORM_FORWARD};
    out[n++] = (series){by_length, &z->lengths, 1, &m->attention[0], FORM_FORWARD};
    out[n++] = (series){by_length, &z->lengths, 1, &m->attention[1], FORM_DATA};
    out[n++] = (series){by_head, &z->head_sizes, 2, &m->heads, FORM_ALL};
    out[n++] = (series){by_bytes, &z->passes, MEASURED_PASSES, &m->memory, FORM_ALL};
    out[n++] = (series){copies_by_bytes, &z->passes, MEASURED_COPIES, &m->copy, FORM_ALL};
    return n;
}

static int points_of(const microbench *j, const series *s)
{
    return j->o->rows && s->x->n > j->o->rows ? j->o->rows : s->x->n;
}

static int add_up(const microbench *j, const series *list, int n)
{
    int sum = measure_messages_count(j);
    if (j->o->messages) return sum * j->scale->rounds;
    sum += MEASURED_ONCE;
    for (int i = 0; i < n; i++) sum += points_of(j, &list[i]) * list[i].ops;
    if (j->scale->forms) sum += measure_kinds_count() + MEASURED_VARIANTS;
    return sum * j->scale->rounds;
}

static void measure_kernels(microbench *j, measured *m, const series *list, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < points_of(j, &list[i]); k++) {
            double x = list[i].x->x[k];
            microbench_point(list[i].to, k, x, list[i].rate(j, x, list[i].form));
        }
    measure_once(j, m);
    if (!j->scale->forms) return;
    measure_kinds(j, m);
    measure_variants(j, m);
}

static void measure_all(microbench *j, measured *m)
{
    series list[SERIES_MAX];
    int n = list_series(list, j->scale, m);
    j->total = add_up(j, list, n);
    j->window = j->o->seconds / j->total;
    for (int round = 0; round < j->scale->rounds && !j->st; round++) {
        if (!j->o->messages) measure_kernels(j, m, list, n);
        if (j->ranks > 1) measure_messages(j, m);
    }
    measure_messages_end(m);
}

static double others_since(const microbench *j, const microbench_load *before)
{
    microbench_load now = microbench_load_now(j);
    double all = now.all - before->all, own = now.own - before->own;
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), time = now.when - before->when;
    return all > own ? (all - own) / (cores * time) : 0;
}

/* Messages alone need room for the largest of them, and no workspace. */
static measure_scale only_messages(const measure_scale *z)
{
    measure_scale y = *z;
    y.pool = 2 * (int64_t)z->messages.x[z->messages.n - 1];
    y.workspace = 0;
    return y;
}

static status take_pools(microbench *j, error *err)
{
    status s = microbench_take(j, err);
    if (!s || !j->o->messages) return s;
    error why = *err;
    return error_set(err, s,
                     "bench: %d ranks need %lld MiB each for messages: %.900s; repair: use fewer "
                     "ranks (--ranks), or a device that no other program uses",
                     (int)j->ranks, (long long)(2 * j->scale->pool >> 20), why.text);
}

/* A rank that is alone has a world of its own, for the device. */
static status measure_on(measured *m, comm *c, comm *world, const measure_options *o, error *err)
{
    microbench j = {.c = c, .ranks = c ? comm_size(c) : 1, .scale = o->scale, .o = o, .err = err};
    j.crowded = j.ranks * o->threads > sysconf(_SC_NPROCESSORS_ONLN);
    if (!j.scale) j.scale = &measure_scale_cpu;
    m->scale = j.scale;
    measure_scale less = only_messages(j.scale);
    if (o->messages) j.scale = &less;
    m->ranks = (int)j.ranks;
    m->threads = o->threads;
    static const device_options cpu = {.name = "cpu"};
    j.d = o->on;
    status s = j.d ? OK : device_open(&j.d, o->device ? o->device : &cpu, world, err);
    if (!s) s = take_pools(&j, err);
    s = ranks_agree(c, s, err);
    const bool joins = !s && c && o->messages;
    if (joins) measure_messages_join(&j, m);
    if (!s) {
        microbench_load before = microbench_load_now(&j);
        measure_all(&j, m);
        m->others = others_since(&j, &before);
        s = j.st;
    }
    if (joins) measure_messages_leave(&j);
    free(j.times);
    if (!o->on) device_close(j.d);
    return s;
}

status measure_machine(measured *out, comm *c, const measure_options *o, error *err)
{
    measured m = {0};
    comm *own = NULL;
    status s = c ? OK : comm_open_self(&own, err);
    kernels_threads(o->threads);
    if (!s) s = measure_on(&m, c, c ? c : own, o, err);
    if (own) comm_close(own);
    if (!s) *out = m;
    return s;
}

/* ---- what follows from it */

double measured_best(const curve *c)
{
    double best = 0;
    for (int i = 0; i < c->n; i++)
        if (c->y[i] > best) best = c->y[i];
    return best;
}

void measured_cut(curve *c, double steepest)
{
    for (int i = 0; i < c->n; i++) {
        c->y[i] = fmin(fmax(c->y[i], 1e-6), 1.5);
        if (i) c->y[i] = fmin(c->y[i], c->y[i - 1] * pow(c->x[i] / c->x[i - 1], steepest));
    }
}

curve measured_messages(const measured *m)
{
    curve c = {.n = m->message[0].n};
    for (int i = 0; i < c.n; i++) {
        double slowness = 0;
        c.x[i] = m->message[0].x[i];
        for (int k = 0; k < MEASURED_EXCHANGE; k++) slowness += 1 / m->message[k].y[i];
        c.y[i] = MEASURED_EXCHANGE / slowness;
    }
    return c;
}

double measured_peak(const measured *m)
{
    const curve *all[] = {&m->gemm, &m->deep, &m->grouped, &m->attention[0], &m->attention[1]};
    double best = 0;
    for (int i = 0; i < COUNT(all); i++) {
        double own = measured_best(all[i]);
        if (own > best) best = own;
    }
    return best;
}

void measured_day(char out[MEASURED_DAY])
{
    time_t now = time(NULL);
    struct tm day;
    localtime_r(&now, &day);
    strftime(out, MEASURED_DAY, "%Y-%m-%d", &day);
}

const char *measured_base(const hardware *base, arena *a)
{
    const char *slash = strrchr(base->path, '/');
    return arena_text(a, "hardware/%s", slash ? slash + 1 : base->path);
}

/* 1 / rate is a line over 1 / K: least squares. */
double measured_depth(const curve *c)
{
    double n = c->n, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < c->n; i++) {
        double x = 1 / c->x[i], y = 1 / c->y[i];
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx), limit = (sy - slope * sx) / n;
    double depth = slope / limit;
    return n > 1 && depth > 1 && depth < 1e6 ? depth : 1;
}
