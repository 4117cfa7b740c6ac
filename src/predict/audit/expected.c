/* expected.c - rows of exchanges under uniform routing, by a column of job/dispatchers.def.
 *
 * alltoall sends a row for each expert of a token over EP, then all that arrived over ETP. flex
 * sends a token once to each domain with one of its experts (first hop), and from there once to
 * each member with one (second hop). The way back has the same rows in the other direction. */
#include "predict/audit/expected.h"

#include "ir/build/moe.h"

static int64_t tokens_of(const setup *s)
{
    return s->j.mbs * s->j.seq / s->lay.cp / s->lay.tp;
}

/* Rows that a rank's tokens make: one an expert, no more than capacity lets through. */
static double rows_of(const setup *s)
{
    double rows = (double)tokens_of(s) * (double)s->m.moe->topk;
    double factor = s->j.capacity;
    if (!job_has(&s->j, K_CAPACITY) || factor < 0) return rows;
    return s->j.pad_capacity || factor < 1 ? rows * factor : rows;
}

double expected_chance(double all, double n, int64_t topk)
{
    double none = 1;
    for (int64_t i = 0; i < topk; i++) {
        double left = all - n - (double)i;
        none *= left > 0 ? left / (all - (double)i) : 0;
    }
    return 1 - none;
}

static double chance(const model *m, int64_t n)
{
    return expected_chance((double)m->moe->experts, (double)n, m->moe->topk);
}

/* ---- flex */

static int64_t experts_in(const flex_group *g, flex_run r)
{
    return ((r.end - 1) / g->etp - r.first / g->etp + 1) * (g->E / g->ep);
}

static double first_hop(const setup *s, const flex_group *g, int64_t from, int64_t to)
{
    int64_t domain = flex_domain(g, to);
    if (flex_domain(g, from) == domain || flex_rail(g, from, domain) != to) return 0;
    return (double)tokens_of(s) * chance(&s->m, experts_in(g, flex_run_of(g, domain)));
}

/* Members whose tokens this one fans out in its domain: itself, and those whose rail it is. */
static int64_t sources_of(const flex_group *g, int64_t member)
{
    int64_t own = flex_domain(g, member), sources = 1;
    flex_run here = flex_run_of(g, own);
    int64_t n = here.end - here.first, at = member - here.first;
    for (int64_t d = 0; d < flex_domains(g); d++) {
        flex_run there = flex_run_of(g, d);
        int64_t others = there.end - there.first;
        if (d != own && others > at) sources += (others - at - 1) / n + 1;
    }
    return sources;
}

static double second_hop(const setup *s, const flex_group *g, int64_t from, int64_t to)
{
    if (flex_domain(g, from) != flex_domain(g, to)) return 0;
    return (double)(sources_of(g, from) * tokens_of(s)) * chance(&s->m, g->E / g->ep);
}

static double rows_of_domains(const setup *s, const exchange_shape *x, int64_t from, int64_t to)
{
    rank_at at = rank_coordinates(&s->lay, from);
    flex_group g = flex_group_at(s, &at);
    int64_t to_place = g.place + (to - from); /* the group's ranks follow one another */
    int64_t source = x->back ? to_place : g.place, target = x->back ? g.place : to_place;
    return x->hop == 1 ? first_hop(s, &g, source, target) : second_hop(s, &g, source, target);
}

/* ---- alltoall */

static double rows_of_experts(const setup *s, const exchange_shape *x, int64_t from, int64_t to)
{
    (void)from, (void)to; /* each pair has as many */
    return x->group == GROUP_EP ? rows_of(s) / (double)s->lay.ep : rows_of(s);
}

double exchange_expected(const setup *s, const exchange_shape *x, int64_t from, int64_t to)
{
    static double (*const all[DISPATCHERS])(const setup *, const exchange_shape *, int64_t,
                                            int64_t) = {
#define DISPATCHER(id, name, title, steps, rows, ...) [DISPATCHER_##id] = rows,
#include "job/dispatchers.def"
    };
    return all[dispatcher_of(&s->j) - dispatchers](s, x, from, to);
}

/* The way back is the later part of a table (ops_moe.def). */
exchange_shape exchange_shape_of(const segment *seg, const op *o)
{
    exchange_shape x = {.group = o->group};
    int id = o->in[IN_EXCHANGE_table];
    if (id < 0) return x;
    const buf *table = &seg->bufs[id];
    x.hop = o->role == ROLE_HOP1 ? 1 : o->role == ROLE_HOP2 ? 2 : 0;
    x.back = table->parent >= 0 && table->view_at > 0;
    return x;
}
