/* members.h - a rank's place in the groups that communication names (comm_group.h).
 *
 * Members are listed as Megatron lists them (layout.h), so a place is the same number on every
 * rank's list. */
#ifndef LAYOUT_MEMBERS_H
#define LAYOUT_MEMBERS_H

#include "op/comm_group.h"
#include "layout/setup.h"

/* Coordinates of a rank on both grids. */
typedef struct rank_at {
    int64_t rank, tp, cp, dp, pp, etp, ep, edp;
} rank_at;

rank_at rank_coordinates(const layout *l, int64_t rank);

typedef struct members {
    int64_t n, place; /* n 0: the rank is in no such group (GROUP_EMBEDDING only) */
    int64_t *ranks;   /* [n] */
} members;

members members_of(const setup *s, comm_group g, int64_t rank, arena *a);

/* The axes in which its members differ; NULL: those do not say it (GROUP_CP_INNER, ...). */
const group_kind *comm_group_kind(comm_group g);

/* How many members, and the place of a rank, without a list. */
int64_t group_width(const setup *s, comm_group g);
int64_t group_rank(const setup *s, comm_group g, const rank_at *at);

/* Has this stage a copy of the word table: embedding, tied head or prediction module. */
bool stage_has_words(const setup *s, const stage *st);

#endif
