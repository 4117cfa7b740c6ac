/* plain_moe_flex.c - the flex dispatcher's tables: a token goes to each domain once, and inside it
 * to each member that has one of its experts.
 *
 * Every member knows how many tokens of every member go to each domain and to each member.
 *
 * F1  Rows arrive at a rail by source, token. A source's rows that do not all find room stay at
 *     home, all of them: so the number of rows that a rail passes on is still a sum of counts.
 * F2  Inside a domain rows past the room of what is sent, then of what arrives, stay where they
 *     are, from the last member, the last rail on.
 * F3  A member is asked for once by a token, however many of its experts are wanted. */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

#include <string.h>

#include "op/flex_group.h"

/* Marks, with `stamp`, the members that have an expert of one token, of those in a run. */
static void mark_members(const flex_group *g, flex_run run, int64_t expert, int32_t stamp,
                         int32_t *marks /* [P] */)
{
    int64_t first = expert / (g->E / g->ep) * g->etp;
    for (int64_t m = first; m < first + g->etp; m++)
        if (m >= run.first && m < run.end) marks[m] = stamp;
}

/* Adds a token to the members and domains that it goes to. */
static void count_token(const flex_group *g, const int32_t *marks, int32_t stamp, int32_t *counts)
{
    int64_t P = flex_members(g), D = flex_domains(g), last = -1;
    for (int64_t m = 0; m < P; m++) {
        if (marks[m] != stamp) continue;
        counts[D + m]++; /* F3 */
        counts[flex_domain(g, m)] += flex_domain(g, m) != last;
        last = flex_domain(g, m);
    }
}

/* rows[t][d] is 1 where token t goes to domain d: to rows in the order domain, token. */
static void number_rows(int32_t *rows /* [T][D] */, int64_t T, int64_t D)
{
    int32_t next = 0;
    for (int64_t d = 0; d < D; d++)
        for (int64_t t = 0; t < T; t++) rows[t * D + d] = rows[t * D + d] ? next++ : -1;
}

static void plain_flex_count(const op *o, void *const *in, void *const *out)
{
    const op_flex_count a = op_flex_count_of(o, in, out);
    flex_group g = flex_group_of(o);
    int64_t P = flex_members(&g), D = flex_domains(&g);
    int32_t marks[EXPERTS_MAX] = {0}; /* [P] */
    memset(a.counts, 0, (size_t)(D + P) * sizeof *a.counts);
    for (int64_t t = 0; t < a.T; t++) {
        int32_t stamp = (int32_t)t + 1;
        for (int64_t i = t * a.K; i < (t + 1) * a.K; i++)
            if (!a.keep || a.keep[i] != 0)
                mark_members(&g, (flex_run){0, P}, a.ids[i], stamp, marks);
        count_token(&g, marks, stamp, a.counts);
        for (int64_t d = 0; a.rows && d < D; d++) a.rows[t * D + d] = 0;
        for (int64_t m = 0; a.rows && m < P; m++)
            if (marks[m] == stamp) a.rows[t * D + flex_domain(&g, m)] = 1;
    }
    if (a.rows) number_rows(a.rows, a.T, D);
}

/* ---- the plan */

typedef struct flex_plan {
    flex_group g;
    const int32_t *counts; /* [P][D+P] */
    int64_t D, P, room1, send, room2;
} flex_plan;

static flex_plan flex_plan_of(const op *o, const int32_t *counts)
{
    flex_plan p = {.g = flex_group_of(o), .counts = counts};
    p.D = flex_domains(&p.g);
    p.P = flex_members(&p.g);
    p.room1 = o->dim[DIM_FLEX_PLAN_ROOM1];
    p.send = o->dim[DIM_FLEX_PLAN_SEND];
    p.room2 = o->dim[DIM_FLEX_PLAN_ROOM2];
    return p;
}

static int64_t to_domain(const flex_plan *p, int64_t source, int64_t d)
{
    return p->counts[source * (p->D + p->P) + d];
}

static int64_t to_member(const flex_plan *p, int64_t source, int64_t m)
{
    return p->counts[source * (p->D + p->P) + p->D + m];
}

/* Where the rows of `source` begin at its rail in a domain; -1: they find no room (F1). With one
 * domain there is no first hop. */
static int64_t block_start(const flex_plan *p, int64_t source, int64_t d)
{
    int64_t rail = flex_rail(&p->g, source, d), start = 0;
    for (int64_t s = 0; p->D > 1; s++) {
        if (flex_rail(&p->g, s, d) != rail) continue;
        bool fits = start + to_domain(p, s, d) <= p->room1;
        if (s == source) return fits ? start : -1;
        if (fits) start += to_domain(p, s, d);
    }
    return 0;
}

static void plan_hop1(const flex_plan *p, int32_t *table /* [6][P] */)
{
    int64_t P = p->P, own = p->g.place, start = 0;
    memset(table, 0, (size_t)(TABLE_ROWS * P) * sizeof *table);
    for (int64_t d = 0; d < p->D; d++) {
        int64_t rail = flex_rail(&p->g, own, d), rows = to_domain(p, own, d);
        table[SEND_START * P + rail] = (int32_t)start;
        table[SEND_ROWS * P + rail] = block_start(p, own, d) < 0 ? 0 : (int32_t)rows;
        start += rows;
    }
    int64_t d = flex_domain(&p->g, own);
    for (int64_t s = 0; s < P; s++) {
        int64_t at = flex_rail(&p->g, s, d) == own ? block_start(p, s, d) : -1;
        table[RECV_START * P + s] = at < 0 ? 0 : (int32_t)at;
        table[RECV_ROWS * P + s] = at < 0 ? 0 : (int32_t)to_domain(p, s, d);
    }
    table_end(table, P);
}

/* pairs[n][n]: rows from each rail of this domain to each member of it. */
static void count_pairs(const flex_plan *p, flex_run run, int32_t *pairs)
{
    int64_t n = run.end - run.first, d = flex_domain(&p->g, run.first);
    memset(pairs, 0, (size_t)(n * n) * sizeof *pairs);
    for (int64_t s = 0; s < p->P; s++) {
        if (block_start(p, s, d) < 0) continue;
        int32_t *row = pairs + (flex_rail(&p->g, s, d) - run.first) * n;
        for (int64_t m = run.first; m < run.end; m++)
            row[m - run.first] += (int32_t)to_member(p, s, m);
    }
}

/* Cuts n numbers, every step-th, so that their sum is at most `room`: the last ones (F2). */
static void cut_sum(int32_t *x, int64_t n, int64_t step, int64_t room)
{
    for (int64_t i = 0; i < n; i++) {
        if (x[i * step] > room) x[i * step] = (int32_t)room;
        room -= x[i * step];
    }
}

static void plan_hop2(const flex_plan *p, flex_run run, int32_t *pairs, int32_t *table)
{
    int64_t P = p->P, n = run.end - run.first, own = p->g.place - run.first, sent = 0, got = 0;
    memset(table, 0, (size_t)(TABLE_ROWS * P) * sizeof *table);
    for (int64_t i = 0; i < n; i++) cut_sum(pairs + i * n, n, 1, p->send);
    for (int64_t i = 0; i < n; i++) cut_sum(pairs + i, n, n, p->room2);
    for (int64_t i = 0; i < n; i++) {
        int64_t m = run.first + i;
        table[SEND_START * P + m] = (int32_t)sent;
        table[SEND_ROWS * P + m] = pairs[own * n + i];
        table[RECV_START * P + m] = (int32_t)got;
        table[RECV_ROWS * P + m] = pairs[i * n + own];
        sent += pairs[own * n + i];
        got += pairs[i * n + own];
    }
    table_end(table, P);
}

/* Rows wanted by all, whether or not they found room on the way. */
static void plan_demand(const flex_plan *p, flex_run run, int32_t *demand /* [3][2] */)
{
    int64_t d = flex_domain(&p->g, run.first), wanted[3] = {0};
    for (int64_t s = 0; s < p->P; s++) {
        wanted[2] += to_member(p, s, p->g.place);
        if (flex_rail(&p->g, s, d) != p->g.place) continue;
        wanted[0] += to_domain(p, s, d);
        for (int64_t m = run.first; m < run.end; m++) wanted[1] += to_member(p, s, m);
    }
    int64_t rooms[] = {p->room1, p->send, p->room2};
    for (int i = 0; i < 3; i++) {
        demand[2 * i] = (int32_t)wanted[i];
        demand[2 * i + 1] = (int32_t)rooms[i];
    }
}

static void plain_flex_plan(const op *o, void *const *in, void *const *out)
{
    const op_flex_plan a = op_flex_plan_of(o, in, out);
    flex_plan p = flex_plan_of(o, a.counts);
    flex_run run = flex_own(&p.g);
    int64_t D = p.D;
    for (int64_t d = 0; a.kept && d < D; d++) {
        bool fits = block_start(&p, p.g.place, d) >= 0;
        for (int64_t t = 0; t < a.T; t++) a.kept[t * D + d] = fits ? a.rows[t * D + d] : -1;
    }
    if (a.hop1) plan_hop1(&p, a.hop1);
    count_pairs(&p, run, a.pairs);
    plan_hop2(&p, run, a.pairs, a.hop2);
    plan_demand(&p, run, a.demand);
}

static void plain_flex_fan(const op *o, void *const *in, void *const *out)
{
    const op_flex_fan a = op_flex_fan_of(o, in, out);
    flex_group g = flex_group_of(o);
    flex_run run = flex_own(&g);
    int64_t P = flex_members(&g), n = run.end - run.first;
    int64_t filled = a.hop1 ? rows_received(a.hop1, P) : a.ROWS;
    int32_t marks[EXPERTS_MAX] = {0}, used[EXPERTS_MAX] = {0}; /* [P] */
    memset(a.rows, -1, (size_t)(a.ROWS * n) * sizeof *a.rows);
    for (int64_t i = 0; i < filled; i++) {
        int32_t stamp = (int32_t)i + 1;
        for (int64_t k = 0; k < a.K; k++) {
            int64_t expert = (int64_t)a.meta[i * 2 * a.K + k];
            if (expert >= 0) mark_members(&g, run, expert, stamp, marks);
        }
        for (int64_t m = run.first; m < run.end; m++) {
            bool goes = marks[m] == stamp && used[m] < a.hop2[SEND_ROWS * P + m]; /* F2 */
            if (goes) a.rows[i * n + m - run.first] = a.hop2[SEND_START * P + m] + used[m]++;
        }
    }
}

static bool members_fit(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_FLEX_COUNT_EP] * o->dim[DIM_FLEX_COUNT_ETP] <= EXPERTS_MAX;
}

kernel_rows plain_moe_flex(void)
{
    static const kernel rows[] = {
        {OP_FLEX_COUNT, "plain", .accepts = members_fit, .run = plain_flex_count},
        {OP_FLEX_PLAN, "plain", .run = plain_flex_plan},
        {OP_FLEX_FAN, "plain", .accepts = members_fit, .run = plain_flex_fan},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
