/* audit.h - the fake process group: the programs of all ranks, matched against each other without
 * running any.
 *
 * Proved, or a fault is named: every send has its receive with the same bytes in the same order;
 * the members of every group start the same collectives in the same order with the same sizes; no
 * deadlock; inside ranks, as far as they are replayed, conflicting accesses are in order. Counted:
 * bytes that each rank holds, and sends over each kind of link.
 * docs/AUDIT.md says by which arguments.
 *
 * Ranks that are alike are built once: programs are built for some ranks of each pipeline stage,
 * and where those differ, for all that might. */
#ifndef PREDICT_AUDIT_AUDIT_H
#define PREDICT_AUDIT_AUDIT_H

#include "predict/audit/trace.h"
#include "base/status.h"
#include "rules/rules.h"

/* How far a message goes: inside the node; else inside the NVLink domain; else across. */

/* "node", "domain", "across" */
const char *audit_link_name(link_kind k);

typedef enum fault_kind {
    FAULT_ORDER,    /* the same messages in another order */
    FAULT_SIZE,     /* other bytes */
    FAULT_KIND,     /* another operation, layer or microbatch */
    FAULT_MISSING,  /* a member, a receive or a send is not there */
    FAULT_DEADLOCK, /* ranks that wait for each other, or for what never comes */
    FAULT_EVENT,    /* a message takes the event of one that is still under way */
    FAULT_RACE,     /* accesses of a rank to the same memory in no order */
    FAULT_COUNT
} fault_kind;

/* "order", "size", ... */
const char *fault_kind_name(fault_kind k);

typedef struct audit_fault {
    fault_kind kind;
    int64_t rank, peer; /* whose message is wrong, and one that it disagrees with */
    const char *name;   /* the operation's */
    const char *text;   /* for people: ranks, operation, bytes, what was expected */
    int64_t times;      /* other groups have the same fault: this one is the first */
} audit_fault;

/* What a rank sends in a step, by group. EXCHANGE: as uniform routing would have it. */
typedef struct audit_traffic {
    int64_t messages[GROUP_COUNT]; /* of groups with more than one member */
    double bytes[GROUP_COUNT][LINK_KINDS];
} audit_traffic;

/* Ranks with the same messages and the same bytes. */
typedef struct audit_class {
    int64_t rank, pp; /* the first; its pipeline rank */
    int64_t n;        /* how many are like it */
    audit_trace trace;
    int64_t bytes[REGION_COUNT], arena_bytes;
    int64_t host_bytes; /* activations on the host */
    int64_t alive;      /* (chunk, microbatch) pairs held at once, at most */
    bool gathers_late;  /* the last part runs at the end of training, not in every step */
} audit_class;

typedef struct audit_options {
    bool every;   /* build every rank, sharing nothing */
    bool one;     /* replay the accesses of ... */
    int64_t rank; /* ... this rank, however many they are */
    /* For tests: may alter the trace of a rank (trace_own_part) before anything is matched. */
    void (*plant)(void *with, int64_t rank, audit_book *book, audit_trace *trace);
    void *with;
} audit_options;

enum {
    AUDIT_FAULTS_MAX = 32,     /* that are named; all are counted */
    AUDIT_RANKS_MAX = 1 << 17, /* of a layout */
};

typedef struct audit_result {
    int64_t ranks, built; /* built: programs */
    bool ok;
    const char *why_not; /* no program can be built; then nothing else is set */
    const audit_class *classes;
    int n_classes;
    const int32_t *class_of; /* [ranks] */
    const audit_class *fullest;
    audit_fault *faults; /* [n_faults] */
    int n_faults;
    int64_t n_all_faults;
    int64_t messages;                            /* of all ranks in a step */
    double link_bytes[LINK_KINDS];               /* of all ranks in a step */
    double most[LINK_KINDS];                     /* of one rank */
    int64_t most_rank[LINK_KINDS];               /* which */
    double group_bytes[GROUP_COUNT][LINK_KINDS]; /* of all ranks */
    int64_t actors;       /* ranks that had to be played to look for deadlocks */
    bool simulated;       /* false: other faults come first, and playing them would take too long */
    int replayed;         /* kinds whose accesses were checked for order; the others are too long */
    int64_t most_ops;     /* operations of the longest program */
    bool replayed_rank;   /* options.one: that rank's were checked */
    int64_t replayed_ops; /* of that rank */
    const struct audit_state *state; /* for audit_rank_traffic */
} audit_result;

/* What of a recipe that may break no rule has no model here (FSDP, optimizers but adam), with its
 * repair; NULL: nothing. */
const char *audit_not_known(const setup *s, arena *a);

/* Why no program can be built of this setup; NULL: it can. */
const char *audit_why_not(const setup *s, arena *a);
/* The same where the rules were checked before; the text may be one of `found`. */
const char *audit_why_not_of(const setup *s, const violations *found, arena *a);

/* OK also when faults are found, or no program can be built (`why_not`). Memory comes from `a`. */
status audit_run(audit_result *out, const setup *s, const audit_options *o, arena *a, error *err);

/* What one rank sends. Of a result without `why_not`. */
audit_traffic audit_rank_traffic(const audit_result *r, int64_t rank);

#endif
