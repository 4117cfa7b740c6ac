/* flex_group.h - the members of a flex dispatch, and the nodes or NVLink domains they lie in.
 *
 * The group's ranks follow one another, so a domain is a run of members. A token goes to a domain
 * once, to the member there that has the sender's place in its own domain (modulo members): the
 * rail; senders in the domain itself need none. */
#ifndef OP_FLEX_GROUP_H
#define OP_FLEX_GROUP_H

#include "op/op.h"

typedef struct flex_group {
    int64_t E, ep, etp, place; /* experts of all; members = ep * etp; this one */
    int64_t shift, span;       /* where member 0 lies in the first domain; ranks of a domain */
} flex_group;

/* A run of members: first .. end-1. */
typedef struct flex_run {
    int64_t first, end;
} flex_run;

/* The sizes that describe the group stand first, alike in all kinds of flex that have them. */
static inline flex_group flex_group_of(const op *o)
{
    const int64_t *d = o->dim;
    return (flex_group){.E = d[DIM_FLEX_COUNT_E],
                        .ep = d[DIM_FLEX_COUNT_EP],
                        .etp = d[DIM_FLEX_COUNT_ETP],
                        .place = d[DIM_FLEX_COUNT_PLACE],
                        .shift = d[DIM_FLEX_COUNT_SHIFT],
                        .span = d[DIM_FLEX_COUNT_SPAN]};
}

static inline int64_t flex_members(const flex_group *g)
{
    return g->ep * g->etp;
}

static inline int64_t flex_domain(const flex_group *g, int64_t member)
{
    return (g->shift + member) / g->span;
}

static inline int64_t flex_domains(const flex_group *g)
{
    return flex_domain(g, flex_members(g) - 1) + 1;
}

static inline flex_run flex_run_of(const flex_group *g, int64_t domain)
{
    flex_run r = {domain * g->span - g->shift, (domain + 1) * g->span - g->shift};
    if (r.first < 0) r.first = 0;
    if (r.end > flex_members(g)) r.end = flex_members(g);
    return r;
}

static inline flex_run flex_own(const flex_group *g)
{
    return flex_run_of(g, flex_domain(g, g->place));
}

/* Members of the largest domain. */
static inline int64_t flex_widest(const flex_group *g)
{
    int64_t most = 0;
    for (int64_t d = 0; d < flex_domains(g); d++) {
        flex_run r = flex_run_of(g, d);
        if (r.end - r.first > most) most = r.end - r.first;
    }
    return most;
}

/* Who takes the rows of `source` to a domain. */
static inline int64_t flex_rail(const flex_group *g, int64_t source, int64_t domain)
{
    int64_t own = flex_domain(g, source);
    flex_run there = flex_run_of(g, domain);
    if (own == domain) return source;
    return there.first + (source - flex_run_of(g, own).first) % (there.end - there.first);
}

#endif
