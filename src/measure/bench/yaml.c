/* yaml.c - a measured machine as a hardware description, every number with its origin.
 *
 * The peak is the best rate of any GEMM; efficiencies are parts of it. What a GPU has and a CPU
 * does not (narrow numbers, launches, fused kernels) is written as what costs nothing. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "measure/bench/measure.h"

typedef struct writer {
    FILE *f;
    const measured *m;
    double peak;
    char date[MEASURED_DAY];
} writer;

/* ---- the parts of a line */

/* Efficiencies of a curve of rates: parts of `best`. */
static void put_steep(writer *w, const char *key, const curve *rates, double best, const char *by,
                      double steepest)
{
    curve c = *rates;
    for (int i = 0; i < c.n; i++) c.y[i] /= best;
    measured_cut(&c, steepest);
    fprintf(w->f, "%s: {", key);
    for (int i = 0; i < c.n; i++) fprintf(w->f, "%s%.0f: %.4g", i ? ", " : "", c.x[i], c.y[i]);
    fprintf(w->f, "}  # measured %s: by %s\n", w->date, by);
}

static void put_curve(writer *w, const char *key, const curve *c, double best, const char *by)
{
    put_steep(w, key, c, best, by, MEASURED_BY_SIZE);
}

static void put(writer *w, const char *key, double x, const char *how)
{
    fprintf(w->f, "%s: %.6g  # measured %s: %s\n", key, x, w->date, how);
}

static void put_none(writer *w, const char *key, double x, const char *why)
{
    fprintf(w->f, "%s: %.6g  # %s\n", key, x, why);
}

static double memory_of(int name, const measured *m)
{
    double pages = (double)sysconf(name), each = (double)sysconf(_SC_PAGESIZE);
    return floor(pages * each / m->ranks);
}

/* ---- sections */

static void put_peaks(writer *w)
{
    static const char *const keys[] = {"fp32", "bf16", "fp8", "fp4"};
    fprintf(w->f, "peak:\n");
    for (int i = 0; i < 4; i++) {
        fprintf(w->f, "  %s: %.6g", keys[i], w->peak);
        if (i)
            fprintf(w->f, "  # kernels always compute in FP32\n");
        else
            fprintf(w->f, "  # measured %s: the fastest GEMM below, FLOP/s\n", w->date);
    }
}

static void put_memory(writer *w)
{
    const measured *m = w->m;
    double best = measured_best(&m->memory);
    double all = memory_of(_SC_PHYS_PAGES, m);
    fprintf(w->f, "memory:\n");
    fprintf(w->f, "  visible: %.0f  # the host's, %s of %d\n", all, "for each rank", m->ranks);
    put(w, "  bandwidth", best, "sums, norms, activations, head split and join, RoPE");
    put_curve(w, "  efficiency", &m->memory, best, "bytes of such an operation");
}

static void put_links(writer *w)
{
    static const char *const levels[] = {"node", "domain", "across"};
    const measured *m = w->m;
    bool alone = m->ranks == 1;
    curve c = alone ? m->copy : measured_messages(m);
    double best = measured_best(&c);
    for (int i = 0; i < 3; i++) {
        fprintf(w->f, "%s:\n", levels[i]);
        if (i < 2) put_none(w, "  gpus", 1024, "one machine for any number of ranks");
        if (alone)
            put_none(w, "  latency", 1e-6, "one rank sends nothing");
        else
            put(w, "  latency", m->latency, "the fastest message");
        put(w, "  bandwidth", best, alone ? "copies" : "MPI in shared memory, best of all sizes");
        put_curve(w, "  efficiency", &c, best,
                  alone ? "bytes" : "bytes of shift, all-gather, reduce-scatter, all-to-all");
    }
}

static void put_host(writer *w)
{
    const measured *m = w->m;
    double launch = m->launch > 1e-8 ? m->launch : 1e-8;
    fprintf(w->f, "host:\n");
    put(w, "  bandwidth", measured_best(&m->copy), "copies; the host is the device");
    put(w, "  adam", m->adam, "elements/s, measured with 4,194,304");
    put(w, "  launch", launch, "from one operation to the next");
    put_none(w, "  graph_launch", launch, "there are no graphs");
    put_none(w, "  sync", 1e-8, "token counts are on the host");
    fprintf(w->f, "device:\n");
    put(w, "  least", m->least, "smallest operation (sum of one number)");
    put_none(w, "  message_share", 1, "the computing core moves messages");
    put_none(w, "  fusion", 1, "operations move exactly their operands");
    put_none(w, "  unfused", 1, "there are no unfused variants");
}

/* Rates are those of three GEMMs whose sums have different lengths; the price puts the depth on
 * each by itself, so here it is taken out. */
static curve without_depth(const measured *m, const curve *c, double depth, bool experts)
{
    curve out = *c;
    double deep = 1 + depth / (double)m->scale->depth;
    for (int i = 0; i < c->n; i++)
        out.y[i] *= experts ? (2 * deep + 1 + depth / c->x[i]) / 3 : deep;
    return out;
}

static void put_gemms(writer *w)
{
    static const char *const keys[] = {"fp32", "bf16", "fp8", "fp4"};
    double depth = measured_depth(&w->m->deep);
    curve dense = without_depth(w->m, &w->m->gemm, depth, false);
    curve grouped = without_depth(w->m, &w->m->grouped, depth, true);
    fprintf(w->f, "products:\n");
    for (int i = 0; i < 4; i++) {
        fprintf(w->f, "  %s:\n", keys[i]);
        put(w, "    depth", depth, "K of 32 to 2,048, M = N = 512");
        put_steep(w, "    efficiency", &dense, w->peak, "M = N, with K = 512", MEASURED_BY_SIDE);
    }
    fprintf(w->f, "grouped:\n");
    put_none(w, "  tile", 1, "no padding to tiles");
    for (int i = 0; i < 4; i++) {
        fprintf(w->f, "  ");
        put_curve(w, keys[i], &grouped, w->peak, "rows per expert, 8 experts of 512 x 512");
    }
}

static void put_attention(writer *w)
{
    const measured *m = w->m;
    double usual = m->heads.n ? m->heads.y[0] : 1;
    for (int i = 0; i < m->heads.n; i++)
        if (m->heads.x[i] == (double)m->scale->head) usual = m->heads.y[i];
    fprintf(w->f, "attention:\n");
    put_curve(w, "  forward", &m->attention[0], w->peak, "sequence length, 8 heads of 64");
    put_curve(w, "  backward", &m->attention[1], w->peak, "sequence length, 8 heads of 64");
    put_curve(w, "  head", &m->heads, usual, "head size, at sequence length 1,024");
    put(w, "  sinks", 1, "a sink costs nothing on CPUs");
    put(w, "  linear", m->linear / w->peak, "delta rule, 8 heads of 64, sequence length 1,024");
    fprintf(w->f, "head:\n");
    put(w, "  efficiency", m->head / w->peak, "512 tokens, hidden size 512, vocabulary of 8,192");
    put_none(w, "  logit_bytes", 1e-3, "included in the efficiency");
}

/* The price takes one rate for exchanges of all sizes: that of the size nearest to a microbatch's.
 */
static double exchange_part(const measured *m)
{
    const double usual = 1 << 20;
    if (m->ranks == 1) return 1;
    curve c = measured_messages(m);
    const curve *x = &m->message[MEASURED_EXCHANGE];
    int at = 0;
    for (int i = 0; i < x->n; i++)
        if (x->x[i] <= usual) at = i;
    return fmin(x->y[at] / measured_best(&c), 1.5);
}

static void put_rest(writer *w)
{
    static const char *const scalings[] = {"delayed", "tensorwise", "blockwise", "mxfp8", "nvfp4"};
#define DISPATCH_NAME(id, name) name,
    static const char *const dispatchers[] = {DISPATCH_RATES(DISPATCH_NAME)};
#undef DISPATCH_NAME
    static const char *const launches[] = {
        "product", "grouped",         "attention",   "head",     "router", "router_unfused",
        "routing", "routing_unfused", "elementwise", "quantise", "message"};
    double rate = exchange_part(w->m);
    fprintf(w->f, "quantise:  # no FP8 casts: kernels compute in FP32\n");
    for (int i = 0; i < 5; i++) fprintf(w->f, "  %s: {rate: 1, bytes: 1e-6}\n", scalings[i]);
    fprintf(w->f, "dispatch:  # measured %s: all-to-all of 1 MiB relative to the best message\n",
            w->date);
    for (int i = 0; i < DISPATCH_KINDS; i++)
        fprintf(w->f, "  %s: {inside: %.4g, across: %.4g, copies: 1}\n", dispatchers[i], rate,
                rate);
    fprintf(w->f, "launches:  # one operation is one kernel\n");
    for (int i = 0; i < 11; i++) fprintf(w->f, "  %s: 1\n", launches[i]);
    fprintf(w->f, "stacks: {any: {device: 1, host: 1}}  # there is only one\n");
}

static void put_all(writer *w)
{
    const measured *m = w->m;
    fprintf(w->f,
            "# This machine as %d rank%s of %d thread%s%s, measured by `moefold bench` on %s.\n",
            m->ranks, m->ranks > 1 ? "s" : "", m->threads, m->threads > 1 ? "s" : "",
            m->ranks > 1 ? ", all busy" : "", w->date);
    fprintf(w->f, "# Meanwhile other programs took %.0f %% of the cores.\n", 100 * m->others);
    fprintf(w->f, "name: local\narchitecture: cpu\n");
    put_peaks(w);
    put_memory(w);
    put_links(w);
    put_host(w);
    put_gemms(w);
    put_attention(w);
    put_rest(w);
}

status measured_write(const measured *m, const char *path, error *err)
{
    writer w = {.m = m, .peak = measured_peak(m)};
    measured_day(w.date);
    char *text = NULL;
    size_t n = 0;
    w.f = open_memstream(&text, &n);
    if (w.f) put_all(&w);
    bool bad = !w.f || ferror(w.f);
    if (w.f) bad = fclose(w.f) != 0 || bad;
    status s = bad ? error_set(err, ERR_MACHINE, "%s: no memory to write it", path)
                   : file_write(path, text, n, err);
    free(text);
    return s;
}
