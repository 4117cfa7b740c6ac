/* members.h - the groups that communication names, and a rank's place in them.
 *
 * Operations name a group of this list, never ranks. Members are listed as Megatron lists them
 * (layout.h), so a place is the same number on every rank's list. */
#ifndef LAYOUT_MEMBERS_H
#define LAYOUT_MEMBERS_H

#include "layout/setup.h"

typedef enum comm_group {
    GROUP_NONE,
    GROUP_WORLD,
    GROUP_TP,
    GROUP_CP,
    GROUP_CP_INNER, /* runs of the CP list: heads are exchanged in it (a2a+p2p) */
    GROUP_CP_OUTER, /* every inner-th of the CP list: the ring around those */
    GROUP_PP,
    GROUP_DP_CP,
    GROUP_TP_CP,
    GROUP_TP_DP_CP,
    GROUP_ETP,
    GROUP_EP,
    GROUP_EDP,
    GROUP_TP_EP,     /* ETP x EP: all ranks that hold experts of one replica */
    GROUP_EMBEDDING, /* of a PP group: the stages with a copy of the word table */
    GROUP_COUNT
} comm_group;

const char *comm_group_name(comm_group g);

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

/* How many members, and the place of a rank, without a list. */
int64_t group_width(const setup *s, comm_group g);
int64_t group_rank(const setup *s, comm_group g, const rank_at *at);

/* Has this stage a copy of the word table: embedding, tied head or prediction module. */
bool stage_has_words(const setup *s, const stage *st);

#endif
