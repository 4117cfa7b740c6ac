/* gpu_file.c - a measured GPU as a hardware file.
 *
 * One GPU shows its own kernels, memory and host; peaks, links to others and what only other
 * numbers need are those of the shipped file of that GPU. Efficiencies are parts of that file's
 * peaks.
 *
 * I1  The price adds the smallest kernel's time to each operation, so it is taken off here.
 * I2  The length of sums counts by itself (depth), so it is taken out of curves.
 * I3  What is read back must not grow faster than sizes (measured_cut). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "measure/bench/measure.h"

/* ---- curves (I3) */

static curve parts_of(const curve *rates, double peak, double steepest)
{
    curve c = *rates;
    for (int i = 0; i < c.n; i++) c.y[i] = rates->y[i] / peak;
    measured_cut(&c, steepest);
    return c;
}

/* Rates as if sums had no end: they are of `sum`, or where that is 0 of the point's size (I2). */
static curve without_depth(const curve *rates, double depth, double sum)
{
    curve c = *rates;
    for (int i = 0; i < c.n; i++) c.y[i] *= 1 + depth / (sum > 0 ? sum : c.x[i]);
    return c;
}

/* Bytes a second beside the smallest kernel (I1). */
static double without_least(double bytes, double rate, double least)
{
    double t = bytes / rate;
    return bytes / fmax(t - least, 0.2 * t);
}

static void set_memory(hardware *h, const measured *m)
{
    curve c = m->memory;
    for (int i = 0; i < c.n; i++)
        c.y[i] = without_least(c.x[i], c.y[i], m->least) / h->memory_bandwidth;
    measured_cut(&c, MEASURED_BY_SIZE);
    h->memory_efficiency = c;
}

/* A curve that was made here has no logarithms yet. */
static double part_at(const curve *c, double x)
{
    if (x <= c->x[0]) return c->y[0];
    for (int i = 1; i < c->n; i++) {
        if (x > c->x[i]) continue;
        double w = log(x / c->x[i - 1]) / log(c->x[i] / c->x[i - 1]);
        return c->y[i - 1] * pow(c->y[i] / c->y[i - 1], w);
    }
    return c->y[c->n - 1];
}

static void set_kinds(hardware *h, const measured *m)
{
    h->n_kinds = 0;
    for (int k = 0; k < OP_COUNT; k++) {
        if (!(m->kind[k] > 0)) continue;
        double bytes = m->kind_bytes[k], own = without_least(bytes, m->kind[k], m->least);
        double all = h->memory_bandwidth * part_at(&h->memory_efficiency, bytes);
        h->kinds[h->n_kinds++] = (kind_part){op_infos[k].name, fmin(own / all, 4)};
    }
}

static void set_gemms(hardware *h, const measured *m)
{
    const measure_scale *z = m->scale;
    double peak = h->peak[NUMBER_BF16], depth = measured_depth(&m->deep);
    double experts = measured_depth(&m->grouped_deep), side = (double)z->expert_side;
    h->depth[NUMBER_BF16] = depth;
    h->grouped_depth = experts;
    h->tile = 1;
    for (int f = FORM_FORWARD; f < FORM_COUNT; f++) {
        curve dense = without_depth(f ? &m->gemm_form[f] : &m->gemm, depth, (double)z->depth);
        curve own = without_depth(f ? &m->grouped_form[f] : &m->grouped, experts,
                                  f < FORM_WEIGHT ? side : 0);
        *(f ? &h->gemm_gradient[NUMBER_BF16][f - 1] : &h->gemm[NUMBER_BF16]) =
            parts_of(&dense, peak, MEASURED_BY_SIDE);
        *(f ? &h->grouped_gradient[f - 1] : &h->grouped[NUMBER_BF16]) =
            parts_of(&own, peak, MEASURED_BY_SIZE);
    }
}

/* FP8 in blocks; its scales are in the rates. */
static void set_narrow(hardware *h, const measured *m)
{
    const measure_scale *z = m->scale;
    const double peak = h->peak[NUMBER_FP8], side = (double)z->expert_side;
    if (!(peak > 0) || !m->narrow[FORM_FORWARD].n) return;
    const double depth = measured_depth(&m->narrow_deep);
    const double experts = measured_depth(&m->narrow_experts_deep);
    h->depth[NUMBER_FP8] = depth;
    h->grouped_narrow_depth = experts;
    h->narrow_rate[SCALING_BLOCKWISE] = h->narrow_rate[SCALING_TENSORWISE] = 1;
    for (int f = FORM_FORWARD; f < FORM_COUNT; f++) {
        curve dense = without_depth(&m->narrow[f], depth, (double)z->depth);
        curve own = without_depth(&m->narrow_experts[f], experts, f < FORM_WEIGHT ? side : 0);
        *(f ? &h->gemm_gradient[NUMBER_FP8][f - 1] : &h->gemm[NUMBER_FP8]) =
            parts_of(&dense, peak, MEASURED_BY_SIDE);
        *(f ? &h->grouped_narrow[f - 1] : &h->grouped[NUMBER_FP8]) =
            parts_of(&own, peak, MEASURED_BY_SIZE);
    }
}

static void set_attention(hardware *h, const measured *m)
{
    double peak = h->peak[NUMBER_BF16], usual = m->heads.n ? m->heads.y[0] : 1;
    for (int i = 0; i < m->heads.n; i++)
        if (m->heads.x[i] == (double)m->scale->head) usual = m->heads.y[i];
    for (int i = 0; i < 2; i++)
        h->attention[i] = parts_of(&m->attention[i], peak, MEASURED_BY_SIZE);
    h->attention_head = parts_of(&m->heads, usual, MEASURED_BY_SIZE);
    for (int i = 0; i < 2; i++) h->attention_unequal[i] = m->unequal[i];
    h->attention_sinks = fmin(m->sinks, 1.5);
    h->linear_attention = m->linear / peak;
    h->rule = (rule_rates){.heads = 0}; /* those of a framework */
    for (int i = 0; i < 2; i++) h->attention_wide[i] = 0;
    h->head = m->head / peak;
    h->logit_bytes = 1e-3;
}

static void set_host(hardware *h, const measured *m)
{
    double one = m->host[LAUNCH_ELEMENTWISE];
    h->launch = one;
    h->graph_launch = m->graph_launch > 0 ? m->graph_launch : one;
    for (int phase = 0; phase < 2 && m->graph_launch > 0; phase++)
        h->calls[CALL_REPLAY][phase] = m->replay / one; /* ours is one call, whatever the phase */
    for (int k = 0; k < LAUNCH_KINDS; k++) h->launches[k] = m->host[k] > 0 ? m->host[k] / one : 1;
    h->launches[LAUNCH_ROUTER_UNFUSED] = h->launches[LAUNCH_ROUTER];
    h->launches[LAUNCH_ROUTING_UNFUSED] = h->launches[LAUNCH_ROUTING];
    h->launches[LAUNCH_EXPERT] = h->launches[LAUNCH_EXPERT_NARROW] = 0;
    h->launches[LAUNCH_RULE] = 0; /* as attention */
    h->sync = 1e-8;
    h->step = m->wait;
    h->host_bandwidth = fmin(m->to_device, m->to_host);
    h->host_both = m->both_ways;
    h->host_adam = m->adam;
    h->least = m->least;
    h->fusion = h->unfused = 1;
    h->clock = h->framework = 0;
}

static hardware described(const measured *m, const hardware *base)
{
    hardware h = *base;
    h.memory = m->gpu_total;
    hardware_leave(&h, HEADROOM_DEFAULT);
    set_memory(&h, m);
    set_kinds(&h, m);
    set_gemms(&h, m);
    set_narrow(&h, m);
    set_attention(&h, m);
    set_host(&h, m);
    h.n_stacks = 1;
    h.stacks[0] = (struct stack){.name = "any", .device = 1, .host = 1};
    return h;
}

/* ---- where each number is from */

typedef struct reasons {
    const measured *m;
    const char *base;
    arena *a;
} reasons;

typedef struct why {
    const char *key; /* or its beginning */
    const char *text;
} why;

/* Of a device that has graphs; looked at before the others. */
static const why graph_whys[] = {
    {"host.graph_launch", "host time per kernel of a replayed graph"},
    {"calls.replay", "host time of a graph replay without its kernels, over host.launch"},
};

static const why whys[] = {
    {"memory.visible", "reported by the driver"},
    {"memory.efficiency", "by bytes; sums, norms, activations, head split and join, RoPE"},
    {"host.bandwidth", "slower direction between pinned memory and the GPU"},
    {"host.both", "both directions at once, sum"},
    {"host.adam", "elements/s that the host updates while copies run"},
    {"host.launch", "host time to launch an elementwise operation"},
    {"host.graph_launch", "there are no graphs"},
    {"host.sync", "the host reads nothing back inside a step"},
    {"host.step", "time until the host sees the end of a step"},
    {"device.least", "smallest kernel (sum of one number)"},
    {"device.fusion", "operations move exactly their operands"},
    {"device.unfused", "there are no unfused variants"},
    {"products.bf16.depth", "K at which half of the rate is reached, forward"},
    {"products.bf16.efficiency", "forward, by M = N"},
    {"products.bf16.data", "data gradient"},
    {"products.bf16.weight", "weight gradient, written in FP32"},
    {"products.bf16.added", "weight gradient, accumulated"},
    {"grouped.tile", "tile losses are in the curves"},
    {"grouped.depth", "as products.bf16.depth, for expert GEMMs"},
    {"grouped.bf16", "forward, by rows per expert"},
    {"grouped.data", "data gradient"},
    {"grouped.weight", "weight gradient, written in FP32"},
    {"grouped.added", "weight gradient, accumulated"},
    {"products.fp8.depth", "K at which half of the rate is reached, forward"},
    {"products.fp8.efficiency", "forward, blockwise scaling, by M = N"},
    {"products.fp8.data", "data gradient"},
    {"products.fp8.weight", "weight gradient, written in FP32"},
    {"products.fp8.added", "weight gradient, accumulated"},
    {"grouped.fp8_depth", "as products.fp8.depth, for expert GEMMs"},
    {"grouped.fp8_data", "data gradient"},
    {"grouped.fp8_weight", "weight gradient, written in FP32"},
    {"grouped.fp8_added", "weight gradient, accumulated"},
    {"grouped.fp8", "forward, blockwise scaling, by rows per expert"},
    {"quantise.blockwise.rate", "the time for scales is in the curves"},
    {"quantise.tensorwise.rate", "as blockwise"},
    {"attention.forward", "by sequence length"},
    {"attention.backward", "by sequence length"},
    {"attention.head", "by head size"},
    {"attention.unequal_forward", "heads of 192/128 relative to 128/128"},
    {"attention.unequal_backward", "the same"},
    {"attention.sinks", "with sinks relative to without"},
    {"attention.linear", "delta rule"},
    {"head.efficiency", "LM head GEMM, loss and gradients together"},
    {"head.logit_bytes", "included in the efficiency"},
    {"launches.expert", "one launch for all experts"},
    {"launches.quantise", "not measured"},
    {"launches.message", "not measured"},
    {"launches", "host time to launch such an operation, relative to an elementwise one"},
    {"kinds", "fraction of memory.efficiency that a kind of operation reaches"},
};

static const char *find_why(const why *list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (text_starts(key, list[i].key)) return list[i].text;
    return NULL;
}

static const char *why_of(const void *who, const char *key)
{
    const reasons *r = who;
    const char *text = NULL;
    if (r->m->graph_launch > 0)
        text = find_why(graph_whys, sizeof graph_whys / sizeof graph_whys[0], key);
    if (!text) text = find_why(whys, sizeof whys / sizeof whys[0], key);
    return text ? text : arena_text(r->a, "as %s", r->base);
}

static const char *heading_of(const measured *m, const char *day, const char *base, arena *a)
{
    return arena_text(
        a,
        "# %s, our own program's kernels at the power limit, measured by `moefold bench --device "
        "%s` on %s.\n"
        "# Links and peaks, which one GPU cannot measure, are taken from %s.\n"
        "# Device copy %.0f GB/s, host to device %.1f GB/s, device to host %.1f GB/s.\n",
        m->gpu, m->device, day, base, measured_best(&m->copy) * 1e-9, m->to_device * 1e-9,
        m->to_host * 1e-9);
}

status measured_write_gpu(const measured *m, const hardware *base, const char *path, error *err)
{
    char day[MEASURED_DAY];
    arena *a = arena_create();
    measured_day(day);
    reasons r = {m, measured_base(base, a), a};
    hardware h = described(m, base);
    h.measured = day;
    const char *text = hardware_text(&h, heading_of(m, day, r.base, a), why_of, &r, a);
    status s = file_write(path, text, strlen(text), err);
    arena_destroy(a);
    return s;
}
