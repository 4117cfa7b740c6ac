/* state.h - what the parts of an audit share. */
#ifndef PREDICT_AUDIT_STATE_H
#define PREDICT_AUDIT_STATE_H

#include "predict/audit/audit.h"

/* The groups of one kind, as lists. */
typedef struct group_table {
    bool used;
    int64_t n, n_groups;
    int64_t *ranks;    /* [n_groups][n], ascending */
    int32_t *group_of; /* [world]; -1: in none */
    int32_t *place;    /* [world] */
} group_table;

typedef struct audit_state {
    const setup *s;
    const audit_options *o;
    arena *a;
    audit_book *book;
    audit_result *out;
    audit_class *classes;
    int n_classes, classes_room;
    int32_t *class_of; /* [world] */
    int32_t *known;    /* [world]: class of a rank that was built; -1 */
    group_table groups[GROUP_COUNT];
    int **ids; /* [n_classes][n_lanes]: equal numbers, equal messages in the same order; 0: none */
    struct pair_seen {
        int lane, a, b; /* ids that disagree */
        int fault;      /* -1: not among those that are named */
    } * seen;
    int n_seen, seen_room;
    int64_t replayed_ops; /* of kinds of ranks */
} audit_state;

/* classes.c: builds programs and says which ranks are alike. */
void classes_make(audit_state *t);

/* groups.c: tables of the groups that messages name, and what each class says in each lane. */
void tables_make(audit_state *t);
const int64_t *group_at(const group_table *g, int64_t rank); /* its [n] members */
int64_t lane_count(const audit_state *t, int class_id, int lane);
int64_t group_partner(const group_table *g, int64_t rank, int64_t step);

/* match.c: every collective over its group, every send with its receive. */
void match_all(audit_state *t);

int lane_opposite(const audit_state *t, int lane); /* -1: nobody has it */

/* simulate.c: does anybody wait for ever? */
void simulate_all(audit_state *t);

/* traffic.c: bytes over links. */
void traffic_all(audit_state *t);

/* races.c: conflicting accesses of a new kind of ranks; of the rank that is asked for. */
void races_of_kind(audit_state *t, const program *p);
void races_of_rank(audit_state *t, int64_t rank);

/* faults.c */
audit_fault *fault_add(audit_state *t, fault_kind kind, int64_t rank, int64_t peer,
                       const char *name); /* NULL: counted only */

#endif
