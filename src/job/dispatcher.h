/* dispatcher.h - what a job's dispatcher is and can, for every room.
 *
 * dispatchers.def has a row for each, and is where one is added. Others ask for traits
 * (dispatcher_of(j)->flex) and name none. Where one rank has all experts nothing is dispatched
 * (ir/build/moe_local.c), whatever a job names. */
#ifndef JOB_DISPATCHER_H
#define JOB_DISPATCHER_H

#include "hardware/hardware.h"
#include "job/job.h"

typedef enum dispatcher_id {
#define DISPATCHER(id, ...) DISPATCHER_##id,
#include "job/dispatchers.def"
    DISPATCHERS
} dispatcher_id;

/* Platforms that differ in which backend of flex is advised. */
typedef enum flex_platform {
    NVLINK_SPANS_NODES,
    BLACKWELL_NODE, /* the EP group is inside a node of Blackwell GPUs */
    OTHER_NODES,
    FLEX_PLATFORMS
} flex_platform;

typedef struct dispatcher {
    const char *name, *title;
    signed char word, backend; /* J_DISPATCHER_, and under flex J_FLEX_ */
    dispatch_kind rates;       /* of a hardware file, that prices take */
    bool flex;                 /* tokens go to domains and are fanned out there, by a library */
    bool unbuilt;              /* which we do not have */
    bool over_nvlink;          /* such a domain is an NVLink domain, and holds EP; else a node */
    bool needs_peers;          /* does not run where one rank has all experts, */
    bool node_only;            /* nor where NVLink spans several nodes */
    bool gathers;              /* all tokens go to all ranks */
    bool gathers_map;          /* and before a dispatch everybody's routing map */
    bool host_waits;           /* for its counts, where rows of experts vary */
    bool sorts_all;            /* what arrives by experts, also where one rank has them all */
    bool unpadded;             /* does not pad experts' rows to their capacity */
    bool rank_capacity;        /* a capacity may be set for a rank instead of each expert */
    bool fixed_shapes;         /* and with that a graph of the whole iteration can hold it */
    bool ep_overlap;           /* runs beside another microbatch: combined 1F1B */
    bool shared_overlap;       /* and beside the shared expert, under Megatron-Bridge, too */
    bool norm_recompute;       /* norms may be recomputed beside a graph of the router */
    int full_sms;              /* fill Blackwell's links, and are more than it takes by itself; */
    double few_rate, few_row;  /* with those: part of the rate, times the seconds of a row */
    const char *fits[FLEX_PLATFORMS]; /* why it is the backend there; NULL: another is */
} dispatcher;

extern const dispatcher dispatchers[DISPATCHERS];

/* A word that nobody knows is laid out as alltoall, a backend as DeepEP. */
const dispatcher *dispatcher_of(const job *j);
const dispatcher *dispatcher_by(int word, int flex); /* J_DISPATCHER_, J_FLEX_ */
const dispatcher *dispatcher_of_backend(int flex);

/* Multiprocessors to give it on this GPU; 0: its default is best. */
int64_t dispatcher_full_sms(const dispatcher *d, const gpu *g);

#endif
