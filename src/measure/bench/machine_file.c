/* machine_file.c - what was measured as a hardware file, every number with its origin.
 *
 * A CPU's file has all that it shows; what a GPU has and a CPU does not (narrow numbers, launches,
 * fused kernels) is written as what costs nothing. One GPU shows its own kernels, memory and host:
 * peaks, links to others and what only other numbers need are those of the shipped file of that
 * GPU. Ranks of a device show links alone: all else is that of another file, what one rank measured
 * of the same GPU or the shipped one.
 *
 * I1  Efficiencies are parts: of the file's peak, of the best rate of any size.
 * I2  The price adds the smallest kernel's time to each operation of a GPU, so it is taken off
 *     here.
 * I3  The length of sums counts by itself (depth), so it is taken out of curves.
 * I4  What is read back must not grow faster than sizes (measured_cut). */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "measure/bench/measure.h"

/* ---- curves (I4) */

static curve parts_of(const curve *rates, double peak, double steepest)
{
    curve c = *rates;
    for (int i = 0; i < c.n; i++) c.y[i] = rates->y[i] / peak;
    measured_cut(&c, steepest);
    return c;
}

/* Rates as if sums had no end: they are of `sum`, or where that is 0 of the point's size (I3). */
static curve without_depth(const curve *rates, double depth, double sum)
{
    curve c = *rates;
    for (int i = 0; i < c.n; i++) c.y[i] *= 1 + depth / (sum > 0 ? sum : c.x[i]);
    return c;
}

/* Bytes a second beside the smallest kernel (I2). */
static double without_least(double bytes, double rate, double least)
{
    double t = bytes / rate;
    return bytes / fmax(t - least, 0.2 * t);
}

/* Attention, delta rule and head, against one peak. */
static void set_attention(hardware *h, const measured *m, double peak)
{
    double usual = m->heads.n ? m->heads.y[0] : 1;
    for (int i = 0; i < m->heads.n; i++)
        if (m->heads.x[i] == (double)m->scale->head) usual = m->heads.y[i];
    for (int i = 0; i < 2; i++)
        h->attention[i] = parts_of(&m->attention[i], peak, MEASURED_BY_SIZE);
    h->attention_head = parts_of(&m->heads, usual, MEASURED_BY_SIZE);
    h->linear_attention = m->linear / peak;
    h->head = m->head / peak;
    h->logit_bytes = 1e-3;
}

/* Links of several ranks: the bandwidth is the best rate of any size. */
static link_level links_of(const measured *m)
{
    curve c = measured_messages(m);
    const double best = measured_best(&c);
    return (link_level){.latency = m->latency,
                        .bandwidth = best,
                        .efficiency = parts_of(&c, best, MEASURED_BY_SIZE)};
}

/* ---- a CPU */

/* Experts' rates are those of three GEMMs, of which one sums over rows. */
static curve without_depth_of_three(const measured *m, double depth)
{
    curve c = m->grouped;
    double deep = 1 + depth / (double)m->scale->depth;
    for (int i = 0; i < c.n; i++) c.y[i] *= (2 * deep + 1 + depth / c.x[i]) / 3;
    return c;
}

/* The price takes one rate for exchanges of all sizes: that of the size nearest to a microbatch's.
 */
static double exchange_part(const measured *m, double best)
{
    const double usual = 1 << 20;
    const curve *x = &m->message[MEASURED_EXCHANGE];
    int at = 0;
    for (int i = 0; i < x->n; i++)
        if (x->x[i] <= usual) at = i;
    return fmin(x->y[at] / best, 1.5);
}

static hardware cpu_of(const measured *m)
{
    const double peak = measured_peak(m), memory = measured_best(&m->memory);
    const double copy = measured_best(&m->copy), depth = measured_depth(&m->deep);
    const double pages = (double)sysconf(_SC_PHYS_PAGES), page = (double)sysconf(_SC_PAGESIZE);
    const double launch = fmax(m->launch, 1e-8); /* seconds */
    const bool alone = m->ranks == 1;
    const link_level none = {.latency = 1e-6,
                             .bandwidth = copy,
                             .efficiency = parts_of(&m->copy, copy, MEASURED_BY_SIZE)};
    const link_level links = alone ? none : links_of(m);
    const double exchange = alone ? 1 : exchange_part(m, links.bandwidth);
    hardware h = {.name = "local",
                  .arch = ARCH_CPU,
                  .memory = (int64_t)floor(pages * page / m->ranks),
                  .memory_bandwidth = memory,
                  .memory_efficiency = parts_of(&m->memory, memory, MEASURED_BY_SIZE),
                  .gpus_per_node = 1024,
                  .nvlink_domain = 1024,
                  .node = links,
                  .domain = links,
                  .across = links,
                  .host_bandwidth = copy,
                  .host_adam = m->adam,
                  .launch = launch,
                  .graph_launch = launch,
                  .sync = 1e-8,
                  .least = m->least,
                  .message_share = 1,
                  .fusion = 1,
                  .unfused = 1,
                  .tile = 1,
                  .attention_sinks = 1,
                  .stacks = {{.name = "any", .device = 1, .host = 1}},
                  .n_stacks = 1};
    curve dense = without_depth(&m->gemm, depth, (double)m->scale->depth);
    curve experts = without_depth_of_three(m, depth);
    for (int i = 0; i < NUMBER_COUNT; i++) {
        h.peak[i] = peak;
        h.depth[i] = depth;
        h.gemm[i] = parts_of(&dense, peak, MEASURED_BY_SIDE);
        h.grouped[i] = parts_of(&experts, peak, MEASURED_BY_SIZE);
    }
    for (int i = 0; i < SCALING_COUNT; i++) {
        h.narrow_rate[i] = 1;
        h.narrow_bytes[i] = 1e-6;
    }
    for (int i = 0; i < DISPATCH_KINDS; i++) {
        h.dispatch[i][0] = h.dispatch[i][1] = exchange;
        h.dispatch_copies[i] = 1;
    }
    for (int i = 0; i < LAUNCH_KINDS; i++) h.launches[i] = 1;
    h.launches[LAUNCH_EXPERT] = h.launches[LAUNCH_EXPERT_NARROW] = h.launches[LAUNCH_RULE] = 0;
    set_attention(&h, m, peak);
    return h;
}

/* ---- a GPU */

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

static void set_variants(hardware *h, const measured *m)
{
    for (int i = 0; i < 2; i++) h->attention_unequal[i] = m->unequal[i];
    h->attention_sinks = fmin(m->sinks, 1.5);
    h->rule = (rule_rates){.heads = 0}; /* those of a framework */
    for (int i = 0; i < 2; i++) h->attention_wide[i] = 0;
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

static hardware gpu_of(const measured *m, const hardware *base)
{
    hardware h = *base;
    h.memory = m->gpu_total;
    hardware_leave(&h, HEADROOM_DEFAULT);
    set_memory(&h, m);
    set_kinds(&h, m);
    set_gemms(&h, m);
    set_narrow(&h, m);
    set_attention(&h, m, h.peak[NUMBER_BF16]);
    set_variants(&h, m);
    set_host(&h, m);
    h.n_stacks = 1;
    h.stacks[0] = (struct stack){.name = "any", .device = 1, .host = 1};
    return h;
}

/* ---- ranks of a device */

/* What dispatchers reach inside a node is the largest exchange's part of the bandwidth: prices take
 * that for large ones and make it less by the curve for small ones (predict/cost_message.c). */
static hardware links_on(const measured *m, const hardware *base)
{
    hardware h = *base;
    const curve *exchange = &m->message[MEASURED_EXCHANGE];
    h.node = links_of(m);
    for (int k = 0; k < DISPATCH_KINDS; k++)
        h.dispatch[k][0] = fmin(exchange->y[exchange->n - 1] / h.node.bandwidth, 1.5);
    return h;
}

/* ---- where each number is from */

typedef struct why {
    const char *key; /* or its beginning */
    const char *text;
} why;

/* Of a device that has graphs; looked at before the others. */
static const why graph_whys[] = {
    {"host.graph_launch", "host time per kernel of a replayed graph"},
    {"calls.replay", "host time of a graph replay without its kernels, over host.launch"},
};

static const why gpu_whys[] = {
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

static const why alone_whys[] = {
    {"node.latency", "one rank sends nothing"},
    {"domain.latency", "one rank sends nothing"},
    {"across.latency", "one rank sends nothing"},
    {"node.bandwidth", "copies"},
    {"domain.bandwidth", "copies"},
    {"across.bandwidth", "copies"},
    {"node.efficiency", "by bytes"},
    {"domain.efficiency", "by bytes"},
    {"across.efficiency", "by bytes"},
};

static const why cpu_whys[] = {
    {"peak.fp32", "the fastest GEMM below, FLOP/s"},
    {"peak.", "kernels always compute in FP32"},
    {"memory.visible", "the host's, divided by its ranks"},
    {"memory.bandwidth", "sums, norms, activations, head split and join, RoPE"},
    {"memory.efficiency", "by bytes of such an operation"},
    {"node.gpus", "one machine for any number of ranks"},
    {"domain.gpus", "one machine for any number of ranks"},
    {"node.latency", "the fastest message"},
    {"node.bandwidth", "MPI in shared memory, best of all sizes"},
    {"node.efficiency", "by bytes of shift, all-gather, reduce-scatter, all-to-all"},
    {"domain.", "as node"},
    {"across.", "as node"},
    {"host.bandwidth", "copies; the host is the device"},
    {"host.adam", "elements/s that it updates"},
    {"host.launch", "from one operation to the next"},
    {"host.graph_launch", "there are no graphs"},
    {"host.sync", "token counts are on the host"},
    {"device.least", "smallest operation (sum of one number)"},
    {"device.message_share", "the computing core moves messages"},
    {"device.fusion", "operations move exactly their operands"},
    {"device.unfused", "there are no unfused variants"},
    {"products.fp32.depth", "K of 32 to 2,048, M = N = 512"},
    {"products.fp32.efficiency", "by M = N, with K = 512"},
    {"products.", "as fp32"},
    {"grouped.tile", "no padding to tiles"},
    {"grouped.fp32", "by rows per expert, 8 experts of 512 x 512"},
    {"grouped.", "as fp32"},
    {"attention.forward", "by sequence length, 8 heads of 64"},
    {"attention.backward", "by sequence length, 8 heads of 64"},
    {"attention.head", "by head size, at sequence length 1,024"},
    {"attention.sinks", "a sink costs nothing on CPUs"},
    {"attention.linear", "delta rule, 8 heads of 64, sequence length 1,024"},
    {"head.efficiency", "512 tokens, hidden size 512, vocabulary of 8,192"},
    {"head.logit_bytes", "included in the efficiency"},
    {"quantise.", "no FP8 casts: kernels compute in FP32"},
    {"dispatch.", "all-to-all of 1 MiB relative to the best message"},
    {"launches.", "one operation is one kernel"},
};

static const why link_whys[] = {
    {"node.latency", "the fastest message"},
    {"node.bandwidth", "best of all sizes"},
    {"node.efficiency", "by bytes; shift, all-gather, reduce-scatter, all-to-all"},
#define DISPATCH_WHY(id, name)                                                                     \
    {"dispatch." name ".inside", "the largest all-to-all relative to the best message"},
    DISPATCH_RATES(DISPATCH_WHY)
#undef DISPATCH_WHY
};

/* Lists that are looked at one after the other, and whose the other numbers are. */
typedef struct reasons {
    const why *lists[2];
    int n[2];
    const char *base; /* NULL: nobody's */
    arena *a;
} reasons;

static const char *why_of(const void *who, const char *key)
{
    const reasons *r = who;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < r->n[k]; i++)
            if (text_starts(key, r->lists[k][i].key)) return r->lists[k][i].text;
    return r->base ? arena_text(r->a, "as %s", r->base) : NULL;
}

/* ---- files */

static status write_file(const hardware *h, const char *heading, const reasons *r, const char *path,
                         error *err)
{
    const char *text = hardware_text(h, heading, why_of, r, r->a);
    status s = file_write(path, text, strlen(text), err);
    arena_destroy(r->a);
    return s;
}

status measured_write(const measured *m, const char *path, error *err)
{
    char day[MEASURED_DAY];
    arena *a = arena_create();
    measured_day(day);
    const bool alone = m->ranks == 1;
    reasons r = {{alone_whys, cpu_whys}, {alone ? COUNT(alone_whys) : 0, COUNT(cpu_whys)}, NULL, a};
    hardware h = cpu_of(m);
    const char *heading = arena_text(
        a,
        "# This machine as %d rank%s of %d thread%s%s, measured by `moefold bench` on %s.\n"
        "# Meanwhile other programs took %.0f %% of the cores.\n",
        m->ranks, alone ? "" : "s", m->threads, m->threads > 1 ? "s" : "",
        alone ? "" : ", all busy", day, 100 * m->others);
    return write_file(&h, heading, &r, path, err);
}

status measured_write_gpu(const measured *m, const hardware *base, const char *path, error *err)
{
    char day[MEASURED_DAY];
    arena *a = arena_create();
    measured_day(day);
    reasons r = {{graph_whys, gpu_whys},
                 {m->graph_launch > 0 ? COUNT(graph_whys) : 0, COUNT(gpu_whys)},
                 measured_base(base, a),
                 a};
    hardware h = gpu_of(m, base);
    h.measured = day;
    const char *heading = arena_text(
        a,
        "# %s, our own program's kernels at the power limit, measured by `moefold bench --device "
        "%s` on %s.\n"
        "# Links and peaks, which one GPU cannot measure, are taken from %s.\n"
        "# Device copy %.0f GB/s, host to device %.1f GB/s, device to host %.1f GB/s.\n",
        m->gpu, m->device, day, r.base, measured_best(&m->copy) * 1e-9, m->to_device * 1e-9,
        m->to_host * 1e-9);
    return write_file(&h, heading, &r, path, err);
}

static const char *sharing(const measured *m, arena *a)
{
    if (m->devices == 1)
        return "# All ranks share one device: messages are copies inside one memory, not over "
               "NVLink.\n";
    if (m->devices < m->ranks)
        return arena_text(a,
                          "# The ranks share %d devices: some messages are copies inside one "
                          "memory, not over NVLink.\n",
                          m->devices);
    return "";
}

/* `measured` stays as it is: the day of the kernels, or none. The day of the messages is in the
 * heading. */
status measured_write_links(const measured *m, const hardware *base, const char *path, error *err)
{
    char day[MEASURED_DAY];
    arena *a = arena_create();
    measured_day(day);
    reasons r = {{link_whys}, {COUNT(link_whys)}, measured_base(base, a), a};
    hardware h = links_on(m, base);
    const char *heading = arena_text(
        a,
        "# %s, communication between %d ranks, measured by `moefold bench --device %s --ranks %d` "
        "on %s.\n"
        "# Transport: %s.\n"
        "%s# Everything but the links inside a node is taken from %s.\n",
        m->gpu, m->ranks, m->device, m->ranks, day, m->transport, sharing(m, a), r.base);
    return write_file(&h, heading, &r, path, err);
}
