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

typedef struct dispatcher {
    const char *name, *title;
    signed char word, backend; /* J_DISPATCHER_, and under flex J_FLEX_ */
    dispatch_kind rates;       /* of a hardware file, that prices take */
    bool flex;                 /* tokens go to domains and are fanned out there, by a library */
    bool over_nvlink;          /* such a domain is an NVLink domain, else a node */
    bool gathers;              /* all tokens go to all ranks */
    bool gathers_map;          /* and before a dispatch everybody's routing map */
    bool fixed_shapes;         /* a graph of the whole iteration can hold it */
    bool few_sms;              /* takes fewer multiprocessors than fill Blackwell's links */
    bool ep_overlap;           /* runs beside another microbatch: combined 1F1B */
    bool shared_overlap;       /* and beside the shared expert, under Megatron-Bridge, too */
    bool norm_recompute;       /* norms may be recomputed beside a graph of the router */
} dispatcher;

extern const dispatcher dispatchers[DISPATCHERS];

/* A word that nobody knows is laid out as alltoall, a backend as DeepEP. */
const dispatcher *dispatcher_of(const job *j);
const dispatcher *dispatcher_of_backend(int flex); /* J_FLEX_ */

#endif
