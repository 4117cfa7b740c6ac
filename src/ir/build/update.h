/* update.h - segments that a step begins and ends with: upload, report, update.
 *
 * All their buffers are fixed ranges of the arena and of the staging on the host. They run once in
 * a step, whatever its microbatches. */
#ifndef IR_BUILD_UPDATE_H
#define IR_BUILD_UPDATE_H

#include "ir/program.h"

/* The batch comes from the host; losses, counters and those gradients that are added to only are
 * zero. */
void build_begin(builder *b, segment *seg, const program *p);

/* What the host gives beside the batch, what this rank adds to the sums of all, the sums in rank
 * order, the verdict, and what the host fetches: sums, verdict, rows of routed buffers, loads of
 * experts. */
void build_report(builder *b, segment *seg, const program *p);

/* Loads become sums over ranks, biases of routers follow them, and AdamW works on what this rank
 * owns. Nothing is written where the verdict says so. */
void build_update(builder *b, segment *seg, const program *p);

/* Some of what the host keeps and updates, in one list; the next begins where it ended. */
typedef struct kept_at {
    int64_t own;        /* element of masters and moments; p->weights.owned: there is no more */
    int64_t ring_depth; /* pieces so far */
    int bucket;
} kept_at;
kept_at kept_start(const program *p);
void build_kept(builder *b, segment *seg, const program *p, kept_at *at);

#endif
