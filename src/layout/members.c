/* members.c - groups as lists of ranks. */
#include "layout/members.h"

typedef struct named {
    const char *name;
    group_kind kind; /* without axes: made here */
} named;

enum {
    TP = 1 << AXIS_TP,
    CP = 1 << AXIS_CP,
    EP = 1 << AXIS_EP,
    DP = 1 << AXIS_DP,
    PP = 1 << AXIS_PP
};

#define DENSE(axes_)                                                                               \
    {                                                                                              \
        .grid = GRID_DENSE, .axes = axes_                                                          \
    }
#define EXPERT(axes_)                                                                              \
    {                                                                                              \
        .grid = GRID_EXPERT, .axes = axes_                                                         \
    }

static const named table[GROUP_COUNT] = {
    [GROUP_NONE] = {"none", DENSE(0)},
    [GROUP_WORLD] = {"world", DENSE(TP | CP | DP | PP)},
    [GROUP_TP] = {"tp", DENSE(TP)},
    [GROUP_CP] = {"cp", DENSE(CP)},
    [GROUP_CP_INNER] = {"cp.inner", DENSE(0)},
    [GROUP_CP_OUTER] = {"cp.outer", DENSE(0)},
    [GROUP_PP] = {"pp", DENSE(PP)},
    [GROUP_DP_CP] = {"dp-cp", DENSE(DP | CP)},
    [GROUP_TP_CP] = {"tp-cp", DENSE(TP | CP)},
    [GROUP_TP_DP_CP] = {"tp-dp-cp", DENSE(TP | DP | CP)},
    [GROUP_ETP] = {"etp", EXPERT(TP)},
    [GROUP_EP] = {"ep", EXPERT(EP)},
    [GROUP_EDP] = {"edp", EXPERT(DP)},
    [GROUP_TP_EP] = {"etp-ep", EXPERT(TP | EP)},
    [GROUP_EMBEDDING] = {"embedding", DENSE(0)},
};

const char *comm_group_name(comm_group g)
{
    return table[g].name;
}

rank_at rank_coordinates(const layout *l, int64_t rank)
{
    return (rank_at){.rank = rank,
                     .tp = layout_coordinate(l, GRID_DENSE, AXIS_TP, rank),
                     .cp = layout_coordinate(l, GRID_DENSE, AXIS_CP, rank),
                     .dp = layout_coordinate(l, GRID_DENSE, AXIS_DP, rank),
                     .pp = layout_coordinate(l, GRID_DENSE, AXIS_PP, rank),
                     .etp = layout_coordinate(l, GRID_EXPERT, AXIS_TP, rank),
                     .ep = layout_coordinate(l, GRID_EXPERT, AXIS_EP, rank),
                     .edp = layout_coordinate(l, GRID_EXPERT, AXIS_DP, rank)};
}

const group_kind *comm_group_kind(comm_group g)
{
    return table[g].kind.axes ? &table[g].kind : NULL;
}

/* Ranks of the inner level of hierarchical context parallel. */
static int64_t inner_size(const setup *s)
{
    const job_numbers *levels = &s->j.cp_levels;
    return levels->n < 1 || levels->item[0] < 1 ? 1 : levels->item[0];
}

bool stage_has_words(const setup *s, const stage *st)
{
    return st->embedding || st->n_mtp > 0 || (st->loss && s->m.tied);
}

static bool rank_has_words(const setup *s, int64_t pp_rank)
{
    for (int64_t c = 0; c < s->pipe.vpp; c++)
        if (stage_has_words(s, &s->pipe.stages[c * s->pipe.pp + pp_rank])) return true;
    return false;
}

static int64_t words_before(const setup *s, int64_t pp_rank)
{
    int64_t n = 0;
    for (int64_t p = 0; p < pp_rank; p++) n += rank_has_words(s, p);
    return n;
}

int64_t group_width(const setup *s, comm_group g)
{
    const group_kind *k = comm_group_kind(g);
    switch (g) {
    case GROUP_CP_INNER:
        return inner_size(s);
    case GROUP_CP_OUTER:
        return s->lay.cp / inner_size(s);
    case GROUP_EMBEDDING:
        return words_before(s, s->lay.pp);
    default:
        return k ? group_size(&s->lay, k) : 1;
    }
}

int64_t group_rank(const setup *s, comm_group g, const rank_at *at)
{
    const group_kind *k = comm_group_kind(g);
    int64_t place = 0;
    switch (g) {
    case GROUP_CP_INNER:
        return at->cp % inner_size(s);
    case GROUP_CP_OUTER:
        return at->cp / inner_size(s);
    case GROUP_EMBEDDING:
        return words_before(s, at->pp);
    default:
        if (k) group_of(&s->lay, k, at->rank, &place);
        return place;
    }
}

static members of_kind(const setup *s, const group_kind *k, int64_t rank, arena *a)
{
    members m = {.n = group_size(&s->lay, k)};
    m.ranks = ARENA_ARRAY(a, int64_t, m.n);
    group_ranks(&s->lay, k, group_of(&s->lay, k, rank, &m.place), m.ranks);
    return m;
}

/* Every step-th member of a list, from `first` on. */
static members part_of(const members *all, int64_t first, int64_t step, int64_t n, arena *a)
{
    members m = {.n = n, .ranks = ARENA_ARRAY(a, int64_t, n)};
    for (int64_t i = 0; i < n; i++) {
        m.ranks[i] = all->ranks[first + i * step];
        if (m.ranks[i] == all->ranks[all->place]) m.place = i;
    }
    return m;
}

static members with_words(const setup *s, const members *pp, arena *a)
{
    members m = {.ranks = ARENA_ARRAY(a, int64_t, pp->n)};
    bool in = false;
    for (int64_t p = 0; p < pp->n; p++) {
        if (!rank_has_words(s, p)) continue;
        if (p == pp->place) {
            m.place = m.n;
            in = true;
        }
        m.ranks[m.n++] = pp->ranks[p];
    }
    if (!in) m.n = 0;
    return m;
}

members members_of(const setup *s, comm_group g, int64_t rank, arena *a)
{
    const group_kind *k = comm_group_kind(g);
    if (k) return of_kind(s, k, rank, a);
    if (g == GROUP_EMBEDDING) {
        members pp = of_kind(s, comm_group_kind(GROUP_PP), rank, a);
        return with_words(s, &pp, a);
    }
    members cp = of_kind(s, comm_group_kind(GROUP_CP), rank, a);
    int64_t inner = inner_size(s);
    if (g == GROUP_CP_INNER) return part_of(&cp, cp.place / inner * inner, 1, inner, a);
    return part_of(&cp, cp.place % inner, inner, cp.n / inner, a);
}
