/* flex.cu - the flex dispatcher's tables: a token goes to each domain once, and inside it to each
 * member that has one of its experts.
 *
 * F1  Rows arrive at a rail by source, token. A source's rows that do not all find room stay at
 *     home, all of them: so the number of rows that a rail passes on is still a sum of counts.
 * F2  Inside a domain rows past the room of what is sent, then of what arrives, stay where they
 *     are, from the last member, the last rail on.
 * F3  A member is asked for once by a token, however many of its experts are wanted. */
#include "backend/cuda/kernels/order.cuh"
#include "backend/cuda/kernels/tables.cuh"

/* The members' arithmetic is the program's own, compiled for both sides. */
extern "C" {
#include "op/op.h"
#define inline __host__ __device__ inline
#include "op/flex_group.h"
#undef inline
}

enum { MEMBERS_MOST = 4096 };

/* ---- counting */

struct choices {
    flex_group g;
    const int32_t *ids; /* [T][K] */
    const float *keep;  /* [T][K], or missing */
    int64_t n_t, k;
    /* Does a token have an expert on a member of the run? */
    __device__ bool goes(int64_t t, flex_run run) const
    {
        const int64_t each = g.E / g.ep;
        bool found = false;
        for (int64_t i = t * k; i < (t + 1) * k; i++) {
            const int64_t first = ids[i] / each * g.etp;
            const bool meets = first < run.end && first + g.etp > run.first;
            found |= meets && (!keep || keep[i] != 0);
        }
        return found;
    }
    /* Domains come first, then members. */
    __device__ flex_run column(int64_t j, int64_t domains) const
    {
        if (j < domains) return flex_run_of(&g, j);
        flex_run one = {j - domains, j - domains + 1};
        return one;
    }
};

static __global__ void count_columns_kernel(choices c, int64_t domains, int32_t *counts)
{
    const flex_run run = c.column(blockIdx.x, domains);
    const int64_t n = number_own(
        c.n_t, [&](int64_t t) { return c.goes(t, run); }, [](int64_t, int64_t) {});
    if (threadIdx.x == 0) counts[blockIdx.x] = (int32_t)n;
}

/* A block a domain: rows in the order domain, token. */
static __global__ void number_rows_kernel(choices c, int64_t domains, const int32_t *counts,
                                          int32_t *rows)
{
    const int64_t d = blockIdx.x;
    const flex_run run = c.column(d, domains);
    int64_t start = 0;
    for (int64_t i = 0; i < d; i++) start += counts[i];
    number_own(
        c.n_t, [&](int64_t t) { return c.goes(t, run); },
        [&](int64_t t, int64_t number) { rows[t * domains + d] = (int32_t)(start + number); });
}

static void flex_count(const kernel_call *c)
{
    const op_flex_count o = op_flex_count_of(c);
    const choices x = {flex_group_of(c->o), o.ids, o.keep, o.T, o.K};
    const int64_t members = flex_members(&x.g), domains = flex_domains(&x.g);
    count_columns_kernel<<<(unsigned)(domains + members), BLOCK, 0, stream_of(c)>>>(x, domains,
                                                                                    o.counts);
    if (!o.rows) return;
    for_each(c, o.T * domains, [=] __device__(int64_t i) { o.rows[i] = -1; });
    number_rows_kernel<<<(unsigned)domains, BLOCK, 0, stream_of(c)>>>(x, domains, o.counts, o.rows);
}

/* ---- the plan */

/* The operands of FLEX_PLAN, and what every member knows of all of them. */
struct flex_plan : op_flex_plan {
    flex_group g;
    int64_t domains, members;
    __device__ int64_t to_domain(int64_t source, int64_t d) const
    {
        return counts[source * (domains + members) + d];
    }
    __device__ int64_t to_member(int64_t source, int64_t m) const
    {
        return counts[source * (domains + members) + domains + m];
    }
    /* Where the rows of `source` begin at its rail in a domain; -1: they find no room (F1). With
     * one domain there is no first hop. */
    __device__ int64_t block_start(int64_t source, int64_t d) const
    {
        const int64_t rail = flex_rail(&g, source, d);
        int64_t start = 0;
        if (domains <= 1) return 0;
        for (int64_t s = 0; s <= source; s++) {
            if (flex_rail(&g, s, d) != rail) continue;
            const bool fits = start + to_domain(s, d) <= ROOM1;
            if (s == source) return fits ? start : -1;
            if (fits) start += to_domain(s, d);
        }
        return 0;
    }
};

static __device__ void plan_hop1(const flex_plan &p, int32_t *table)
{
    const int64_t n = p.members, own = p.g.place, home = flex_domain(&p.g, own);
    for (int64_t i = threadIdx.x; i < 2 * n; i += BLOCK) table[i] = 0;
    __syncthreads();
    for (int64_t d = threadIdx.x; d < p.domains; d += BLOCK) {
        const int64_t rail = flex_rail(&p.g, own, d);
        int64_t start = 0;
        for (int64_t e = 0; e < d; e++) start += p.to_domain(own, e);
        table[SEND_START * n + rail] = (int32_t)start;
        table[SEND_ROWS * n + rail] = p.block_start(own, d) < 0 ? 0 : (int32_t)p.to_domain(own, d);
    }
    for (int64_t s = threadIdx.x; s < n; s += BLOCK) {
        const int64_t at = flex_rail(&p.g, s, home) == own ? p.block_start(s, home) : -1;
        table[RECV_START * n + s] = at < 0 ? 0 : (int32_t)at;
        table[RECV_ROWS * n + s] = at < 0 ? 0 : (int32_t)p.to_domain(s, home);
    }
    __syncthreads();
    end_table(table, n);
}

/* pairs[n][n]: rows from each rail of this domain to each member of it; `fits` [P] is shared. */
static __device__ void count_pairs(const flex_plan &p, flex_run run, bool *fits, int32_t *pairs)
{
    const int64_t n = run.end - run.first, d = flex_domain(&p.g, run.first);
    for (int64_t s = threadIdx.x; s < p.members; s += BLOCK) fits[s] = p.block_start(s, d) >= 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n * n; i += BLOCK) {
        const int64_t rail = run.first + i / n, m = run.first + i % n;
        int64_t sum = 0;
        for (int64_t s = 0; s < p.members; s++)
            if (fits[s] && flex_rail(&p.g, s, d) == rail) sum += p.to_member(s, m);
        pairs[i] = (int32_t)sum;
    }
    __syncthreads();
}

/* Cuts n numbers, every step-th, so that their sum is at most `room`: the last ones (F2). */
static __device__ void cut_sum(int32_t *x, int64_t n, int64_t step, int64_t room)
{
    for (int64_t i = 0; i < n; i++) {
        if (x[i * step] > room) x[i * step] = (int32_t)room;
        room -= x[i * step];
    }
}

static __device__ void plan_hop2(const flex_plan &p, flex_run run, int32_t *pairs, int32_t *table)
{
    const int64_t all = p.members, n = run.end - run.first, own = p.g.place - run.first;
    for (int64_t i = threadIdx.x; i < 4 * all; i += BLOCK) table[i] = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) cut_sum(pairs + i * n, n, 1, p.SEND);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) cut_sum(pairs + i, n, n, p.ROOM2);
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t sent = 0, got = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t m = run.first + i;
            table[SEND_START * all + m] = (int32_t)sent;
            table[SEND_ROWS * all + m] = pairs[own * n + i];
            table[RECV_START * all + m] = (int32_t)got;
            table[RECV_ROWS * all + m] = pairs[i * n + own];
            sent += pairs[own * n + i];
            got += pairs[i * n + own];
        }
    }
    __syncthreads();
    end_table(table, all);
}

/* Rows wanted by all, whether or not they found room on the way. */
static __device__ void plan_demand(const flex_plan &p, flex_run run, int32_t *demand)
{
    const int64_t d = flex_domain(&p.g, run.first);
    int64_t first = 0, second = 0, third = 0;
    for (int64_t s = 0; s < p.members; s++) {
        third += p.to_member(s, p.g.place);
        if (flex_rail(&p.g, s, d) != p.g.place) continue;
        first += p.to_domain(s, d);
        for (int64_t m = run.first; m < run.end; m++) second += p.to_member(s, m);
    }
    demand[0] = (int32_t)first, demand[1] = (int32_t)p.ROOM1;
    demand[2] = (int32_t)second, demand[3] = (int32_t)p.SEND;
    demand[4] = (int32_t)third, demand[5] = (int32_t)p.ROOM2;
}

static __global__ void plan_kernel(flex_plan p)
{
    __shared__ bool fits[MEMBERS_MOST];
    const flex_run run = flex_own(&p.g);
    if (p.hop1) plan_hop1(p, p.hop1);
    count_pairs(p, run, fits, p.pairs);
    plan_hop2(p, run, p.pairs, p.hop2);
    if (threadIdx.x == 0) plan_demand(p, run, p.demand);
}

static void flex_plan_all(const kernel_call *c)
{
    const flex_group g = flex_group_of(c->o);
    const flex_plan p = {op_flex_plan_of(c), g, flex_domains(&g), flex_members(&g)};
    if (p.kept) /* a domain without room keeps nothing */
        for_each(c, p.T * p.domains, [=] __device__(int64_t i) {
            p.kept[i] = p.block_start(p.g.place, i % p.domains) >= 0 ? p.rows[i] : -1;
        });
    plan_kernel<<<1, BLOCK, 0, stream_of(c)>>>(p);
}

/* ---- from a rail to the members of its domain */

/* The operands of FLEX_FAN; hop1 missing: all rows are filled. */
struct fan : op_flex_fan {
    flex_group g;
    flex_run run;
    int64_t members;
    __device__ bool goes(int64_t row, int64_t member) const
    {
        const int64_t each = g.E / g.ep;
        bool found = false;
        for (int64_t i = 0; i < K; i++) {
            const int64_t expert = (int64_t)meta[row * 2 * K + i], first = expert / each * g.etp;
            found |= expert >= 0 && member >= first && member < first + g.etp;
        }
        return found;
    }
};

/* A block a member. */
static __global__ void fan_kernel(fan f)
{
    const int64_t n = f.run.end - f.run.first, member = f.run.first + blockIdx.x;
    const int64_t start = f.hop2[SEND_START * f.members + member];
    const int64_t most = f.hop2[SEND_ROWS * f.members + member]; /* F2 */
    const int64_t filled = f.hop1 ? rows_received(f.hop1, f.members) : f.ROWS;
    number_own(
        filled, [&](int64_t i) { return f.goes(i, member); },
        [&](int64_t i, int64_t number) {
            if (number < most) f.rows[i * n + blockIdx.x] = (int32_t)(start + number);
        });
}

static void flex_fan(const kernel_call *c)
{
    const flex_group g = flex_group_of(c->o);
    const fan f = {op_flex_fan_of(c), g, flex_own(&g), flex_members(&g)};
    const int64_t n = f.run.end - f.run.first;
    for_each(c, f.ROWS * n, [=] __device__(int64_t i) { f.rows[i] = -1; });
    if (n > 0) fan_kernel<<<(unsigned)n, BLOCK, 0, stream_of(c)>>>(f);
}

static bool members_fit(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) &&
           o->dim[DIM_FLEX_COUNT_EP] * o->dim[DIM_FLEX_COUNT_ETP] <= MEMBERS_MOST;
}

extern "C" cuda_part cuda_flex(void)
{
    static const kernel rows[] = {
        {.kind = OP_FLEX_COUNT, .name = "plain", .accepts = members_fit, .launch = flex_count},
        {.kind = OP_FLEX_PLAN, .name = "plain", .accepts = members_fit, .launch = flex_plan_all},
        {.kind = OP_FLEX_FAN, .name = "plain", .accepts = members_fit, .launch = flex_fan},
    };
    return PART(rows);
}
