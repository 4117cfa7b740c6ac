/* search_space.h - which values each knob of a search may take. */
#ifndef PLAN_SEARCH_SPACE_H
#define PLAN_SEARCH_SPACE_H

#include "plan/cards.h"
#include "plan/moves.h"

/* No world has more divisors, and no model more sets of modules: five of three that
 * cover one another (MOE), any of the others; and full. */
enum { AXIS_MAX = 256, DROPS_MAX = (5 << (DROP_MODULES - 3)) + 1 };

/* A step of more microbatches is not looked at. */
enum { SPACE_MBS_MOST = MOVE_MBS_MOST, SPACE_MICROS_MOST = 8192 };

typedef struct axis_list {
    int64_t v[AXIS_MAX];
    int n;
} axis_list;

typedef struct space {
    choice_maker *m;
    const job *asked;  /* what the recipe says; null where it is open */
    char family;       /* of GPUs: only what was published on it is looked at; 0: everything is */
    const char *stack; /* with containers of this generation or older ones; NULL: with any */
    int64_t world, seq, gbs;
    axis_list tp, cp, mbs, ep, etp, pp;
    unsigned drops[DROPS_MAX]; /* fewer modules first; DROP_FULL last */
    int n_drops;
    graph_scope widest; /* of those that a layout may have */
    int largest;        /* the set of most modules but DROP_FULL; -1: there is none */
    struct pp_split {
        int64_t pp, vpp;
        int split;
        bool rare;
    } * splits; /* those of a PP stand together */
    int n_splits, room;
    struct pp_splits {
        int first, n;   /* in the list */
        int many[2][2]; /* [rare][VPP > 1] */
    } of_pp[AXIS_MAX];
} space;

/* `stack`: the generation of containers that is priced, NULL: what the recipe says. */
void space_init(space *s, choice_maker *m, bool published, const char *stack);

/* Structural rules, level by level; what is not looked at here the rule table sees. */
bool space_dense_ok(const space *s, const choice *c);   /* precision, TP, CP, microbatch */
bool space_kind_ok(const space *s, const choice *c);    /* and CP kind, TP overlap */
bool space_experts_ok(const space *s, const choice *c); /* EP, ETP, dispatcher */
bool space_stages_ok(const space *s, const choice *c);  /* PP, VPP */
bool space_overlap_ok(const space *s, const choice *c); /* overlap */
bool space_inner_ok(const space *s, const choice *c);   /* recompute, offload, graphs, overlap */

/* Is its ETP one that seldom is the best? What is rare is looked at last, when bounds exclude most
 * of it: other ETP than 1 and TP, long schedules of stages. */
bool space_etp_is_rare(const choice *c);

/* Does the dispatcher of these experts keep its shapes, so that a graph of the whole step can hold
 * it? Which backend flex has follows the width of EP x ETP. */
bool space_captures_step(const space *s, const choice *c);

#endif
