/* cost_parts.h - what the files of the cost model share. */
#ifndef PREDICT_COST_PARTS_H
#define PREDICT_COST_PARTS_H

#include "predict/cost.h"

/* Fills groups and exchanges. */
void cost_init_links(cost_model *c);

/* Seconds of `bytes` of memory moved by one kernel. */
double cost_memory(const cost_model *c, double bytes);

/* The same of an operation of a kind. */
double cost_memory_of(const cost_model *c, op_kind k, double bytes);

/* Bytes that SQUARES, ADAMW move for `elements` that a rank owns, ZERO and CAST for as many that it
 * holds: of what is on the device. Together they are what cost_of_optimizer counts. */
double cost_update_bytes(const cost_model *c, op_kind k, double elements);

/* Seconds of the host's AdamW. */
double cost_host_update(const cost_model *c, double elements);

/* Seconds of the kernels, without factors of the framework; `quantise` as in op_cost. */
double cost_gemm(const cost_model *c, const segment *seg, const op *o, double *quantise);
double cost_grouped(const cost_model *c, const segment *seg, const op *o, double *quantise);
double cost_attention(const cost_model *c, const segment *seg, const op *o);
double cost_rule(const cost_model *c, const segment *seg, const op *o);
double cost_head(const cost_model *c, const segment *seg, const op *o);

/* What part of one operation of the framework this chunk of the head is; 1 for everything else. */
double cost_chunk(const cost_model *c, const op *o);

double cost_message(const cost_model *c, const segment *seg, const op *o);

/* Seconds over links: of `bytes` of one message of a kind of link; until every member has all
 * members' `bytes`; of all that goes over a kind of link where each member has something for each.
 */
const link_level *cost_level(const cost_model *c, link_kind k);
double cost_over(const cost_model *c, link_kind k, double bytes);
double cost_ring(const cost_model *c, const group_facts *g, double bytes);
double cost_all_to_all_over(const cost_model *c, link_kind k, double bytes);

/* Tokens of a rank and microbatch that a router sees, each of which has rows for its experts. */
double cost_routed_tokens(const setup *s);

/* How full the rank is that has most to do with this operation of a routed layer. */
expert_loads cost_loads(const cost_model *c, const segment *seg, const op *o);

/* Do the GEMMs of this operation run in the recipe's narrow numbers? */
bool cost_is_narrow(const cost_model *c, const op *o);

#endif
