/* explain.c - every instant of the device: of kernels by their kinds, of gaps by their causes.
 *
 * I1  Kinds add up to the time in which anything ran, causes to the rest of the span.
 * I2  A gap is the next kernel's: until its launch has returned the host was late, and what its
 *     thread did meanwhile is the cause. A kernel that had been launched before the gap began waits
 *     for the device itself, which takes microseconds; longer gaps have no cause in the file. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "measure/profile/launched.h"
#include "measure/profile/spans.h"

static const double QUEUED = 100e-6; /* I2 */

enum { CACHE = 1 << 14 };

typedef struct kind_cache {
    uint64_t key;
    int kind;
} kind_cache;

typedef struct explaining {
    profile *p;
    profile_events *e;
    launched l;
    int *kinds;        /* [n_kernels] */
    int64_t *launches; /* [n_kernels] number of the call, -1: none */
    spans works, syncs, reads, spends;
    double first, last; /* of everything */
    kind_cache *cache;
    double *seconds; /* [n_names] of kernels that no row names */
    int64_t *times;  /* [n_names] */
    int *around;     /* [n_names] operation that launched one, or -1 */
    arena *a;
} explaining;

/* ---- kinds */

static int kind_of(explaining *x, const profile_kernel *k, const profile_call *c)
{
    int ops[OPS_MAX], n = c ? launched_ops(&x->l, c, ops) : 0;
    uint64_t key = ((uint64_t)(unsigned)k->name << 32 | (unsigned)k->group) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < n; i++) key = (key ^ (unsigned)(ops[i] + 1)) * 0x100000001b3u;
    kind_cache *slot = &x->cache[(key ^ key >> 29) & (CACHE - 1)];
    const char *kernel = x->e->names[k->name];
    if (n == 0 && profile_is_gemm(kernel)) x->p->gemms_alone++;
    if (slot->key != key) {
        const char *names[OPS_MAX];
        for (int i = 0; i < n; i++) names[i] = x->e->names[ops[i]];
        const char *group = k->group < 0 ? NULL : x->e->names[k->group];
        *slot = (kind_cache){key, profile_kind_of(kernel, group, names, n)};
    }
    if (slot->kind == KIND_UNKNOWN) {
        x->seconds[k->name] += k->end - k->start;
        x->times[k->name]++;
        x->around[k->name] = n ? ops[n - 1] : -1;
    }
    return slot->kind;
}

/* Kernels of the device that has most of them. */
static void keep_device(profile_events *e, profile *p)
{
    enum { DEVICES = 64 };
    double busy[DEVICES] = {0};
    int most = 0;
    for (int64_t i = 0; i < e->n_kernels; i++)
        busy[e->kernels[i].device & (DEVICES - 1)] += e->kernels[i].end - e->kernels[i].start;
    for (int d = 0; d < DEVICES; d++) {
        p->n_devices += busy[d] > 0;
        if (busy[d] > busy[most]) most = d;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_kernels; i++)
        if ((e->kernels[i].device & (DEVICES - 1)) == most) e->kernels[n++] = e->kernels[i];
    e->n_kernels = n;
}

static int by_start(const void *a, const void *b)
{
    const profile_kernel *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static void find_kinds(explaining *x)
{
    profile_events *e = x->e;
    for (int64_t i = 0; i < e->n_kernels; i++) {
        const profile_kernel *k = &e->kernels[i];
        const profile_call *c = launched_by(&x->l, k->correlation);
        int kind = x->kinds[i] = kind_of(x, k, c);
        x->launches[i] = c ? c - e->calls : -1;
        x->p->kernels[kind]++;
        x->p->summed[kind] += k->end - k->start;
        x->p->n_launches += c != NULL;
    }
    x->p->n_kernels = e->n_kernels;
}

/* ---- what runs at each instant */

typedef struct edge {
    double at;
    int kind;
    int by; /* 1 starts, -1 ends */
    bool message;
} edge;

static int by_edge(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->by - y->by;
}

/* An instant of `dt`: [kind][0] counts compute, [1] messages. */
static void share(profile *p, int running[PROFILE_KINDS][2], double dt)
{
    int n[2] = {0};
    for (int k = 0; k < PROFILE_KINDS; k++)
        for (int m = 0; m < 2; m++) n[m] += running[k][m];
    int of = n[0] ? 0 : 1;
    for (int k = 0; k < PROFILE_KINDS; k++) {
        if (n[of] && running[k][of]) p->busy[k] += dt * running[k][of] / n[of];
        if (n[0] && running[k][1]) p->hidden[k] += dt;
    }
}

static void find_busy(explaining *x)
{
    const profile_events *e = x->e;
    edge *edges = ARENA_ARRAY(x->a, edge, 2 * e->n_kernels);
    for (int64_t i = 0; i < e->n_kernels; i++) {
        const profile_kernel *k = &e->kernels[i];
        int kind = x->kinds[i];
        bool message = profile_is_message(kind) || text_starts(e->names[k->name], "nccl");
        edges[2 * i] = (edge){k->start, kind, 1, message};
        edges[2 * i + 1] = (edge){k->end, kind, -1, message};
    }
    qsort(edges, (size_t)(2 * e->n_kernels), sizeof *edges, by_edge);
    int running[PROFILE_KINDS][2] = {{0}};
    double at = 0;
    for (int64_t i = 0; i < 2 * e->n_kernels; i++) {
        if (edges[i].at > at && i) share(x->p, running, edges[i].at - at);
        at = edges[i].at;
        running[edges[i].kind][edges[i].message] += edges[i].by;
    }
}

/* ---- why nothing runs */

static void host_gap(explaining *x, const profile_call *c, double from, double to)
{
    double *idle = x->p->idle, left = to - from;
    double own = spans_overlap(&x->spends, 0, from, to);
    idle[CAUSE_PROFILER] += own;
    left -= own;
    if (spans_touch(&x->syncs, c->thread, from, to)) {
        idle[CAUSE_SYNC] += left;
        return;
    }
    double data = spans_overlap(&x->reads, c->thread, from, to);
    double work = spans_overlap(&x->works, c->thread, from, to) - data;
    if (data > left) data = left;
    idle[CAUSE_DATA] += data;
    left -= data;
    if (work > left) work = left;
    if (work < 0) work = 0;
    idle[CAUSE_LAUNCH] += work;
    idle[CAUSE_BETWEEN] += left - work;
}

/* I2 */
static void gap(explaining *x, int64_t kernel, double from, double to)
{
    double *idle = x->p->idle, ready = from;
    const profile_call *c = x->launches[kernel] < 0 ? NULL : &x->e->calls[x->launches[kernel]];
    if (c && c->end > from) {
        ready = c->end < to ? c->end : to;
        host_gap(x, c, from, ready);
        x->p->waited[x->kinds[kernel]] += ready - from;
    }
    double queued = to - ready;
    bool known = queued <= QUEUED && (c || to - from <= QUEUED);
    idle[known ? CAUSE_QUEUE : CAUSE_UNKNOWN] += queued;
}

static void find_gaps(explaining *x)
{
    const profile_events *e = x->e;
    double end = x->first;
    for (int64_t i = 0; i < e->n_kernels; i++) {
        if (e->kernels[i].start > end) gap(x, i, end, e->kernels[i].start);
        if (e->kernels[i].end > end) end = e->kernels[i].end;
    }
    if (x->last > end) x->p->idle[CAUSE_AFTER] += x->last - end;
    x->p->span = (x->last > end ? x->last : end) - x->first;
}

/* ---- the host's side */

static void see(explaining *x, double start, double end)
{
    if (start < x->first) x->first = start;
    if (end > x->last) x->last = end;
}

static bool waits(const char *call)
{
    return strstr(call, "Synchronize") || strcmp(call, "cudaMemcpy") == 0 ||
           strcmp(call, "cuMemcpyDtoH_v2") == 0;
}

static void see_host(explaining *x)
{
    const profile_events *e = x->e;
    for (int64_t i = 0; i < e->n_calls; i++) {
        const profile_call *c = &e->calls[i];
        spans_add(&x->works, c->thread, c->start, c->end);
        see(x, c->start, c->end);
        if (!waits(e->names[c->name])) continue;
        spans_add(&x->syncs, c->thread, c->start, c->end);
        x->p->n_syncs++;
    }
    for (int64_t i = 0; i < e->n_ranges; i++) {
        const profile_range *r = &e->ranges[i];
        if (strstr(e->names[r->name], "DataLoader"))
            spans_add(&x->reads, r->thread, r->start, r->end);
        if (r->frame) continue;
        spans_add(&x->works, r->thread, r->start, r->end);
        see(x, r->start, r->end);
    }
    for (int64_t i = 0; i < e->n_spends; i++)
        spans_add(&x->spends, 0, e->spends[i].start, e->spends[i].end);
    spans_join(&x->works);
    spans_join(&x->syncs);
    spans_join(&x->reads);
    spans_join(&x->spends);
}

/* ---- what is left */

static void name_unknown(explaining *x)
{
    profile *p = x->p;
    for (; p->n_unknown < UNKNOWN_MAX; p->n_unknown++) {
        int64_t most = -1;
        for (int64_t i = 0; i < x->e->n_names; i++)
            if (x->times[i] && (most < 0 || x->seconds[i] > x->seconds[most])) most = i;
        if (most < 0) return;
        int around = x->around[most];
        p->unknown[p->n_unknown] =
            (profile_unknown){x->e->names[most], around < 0 ? NULL : x->e->names[around],
                              x->times[most], x->seconds[most]};
        x->times[most] = 0;
    }
}

void profile_explain(profile *out, profile_events *e, arena *a)
{
    keep_device(e, out);
    qsort(e->kernels, (size_t)e->n_kernels, sizeof *e->kernels, by_start);
    explaining x = {.p = out, .e = e, .a = a};
    x.works.a = x.syncs.a = x.reads.a = x.spends.a = a;
    x.kinds = ARENA_ARRAY(a, int, e->n_kernels);
    x.launches = ARENA_ARRAY(a, int64_t, e->n_kernels);
    x.cache = ARENA_ARRAY(a, kind_cache, CACHE);
    x.seconds = ARENA_ARRAY(a, double, e->n_names + 1);
    x.times = ARENA_ARRAY(a, int64_t, e->n_names + 1);
    x.around = ARENA_ARRAY(a, int, e->n_names + 1);
    x.first = e->kernels[0].start;
    x.last = e->kernels[0].end;
    launched_init(&x.l, e, a);
    see_host(&x);
    find_kinds(&x);
    find_busy(&x);
    find_gaps(&x);
    name_unknown(&x);
    double lost = out->busy[KIND_UNKNOWN] + out->idle[CAUSE_UNKNOWN];
    out->explained = out->span > 0 ? 1 - lost / out->span : 0;
}
