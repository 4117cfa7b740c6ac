/* cp_kind.h - how a layer's queries meet the keys of other CP ranks, for every room.
 *
 * cp_kinds.def has a row a kind; others ask for traits and name none. */
#ifndef JOB_CP_KIND_H
#define JOB_CP_KIND_H

#include <stddef.h>

#include "job/job.h"

typedef enum cp_kind {
#define CP_KIND(id, ...) CP_##id,
#include "job/cp_kinds.def"
    CP_KINDS
} cp_kind;

typedef struct cp_traits {
    const char *name, *title;
    signed char word; /* J_CP_COMM_ */
    bool heads;       /* an all-to-all brings whole sequences of some heads */
    bool ring;        /* keys and values go around; with heads: around groups that have those */
    bool gather;      /* everybody's are gathered */
    bool latent;      /* what goes around is MLA's latent (moefold.mla_latent_ring) */
    bool whole;       /* a rank has all keys of its part of the heads, which CP divides */
    bool levels;      /* it has two: model.hierarchical_context_parallel_sizes */
    bool sinks;       /* attention sinks may be added */
    bool windows;     /* so may sliding windows */
} cp_traits;

extern const cp_traits cp_kinds[CP_KINDS];

/* Of a layer with this word (J_CP_COMM_); one that nobody knows is a ring. */
const cp_traits *cp_kind_of(const job *j, int word);

/* Is there one of model.cp_comm_type's words whose kind has this trait, or has not? `trait` is its
 * place in cp_traits. */
bool cp_some(job_words words, size_t trait, bool has);

#endif
