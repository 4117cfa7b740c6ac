/* loads.h - how uneven the experts' loads are that a recipe is priced with.
 *
 * Balance may be forced (model.moe_router_force_load_balancing, or Megatron's random logits): then
 * all EP ranks have the mean load. Else routing is natural, and the fullest EP rank has
 * moefold.routing_skew times the mean: all wait for it, and its routed tensors are as much larger.
 *
 * Unset, the skew is that of published pairs (loads.c) where Megatron runs. Our own runs are priced
 * as balanced unless somebody says otherwise: no published pair is of ours, `train --save-routing`
 * measures what a run really has, and ranks that share a machine's cores do not wait for the
 * fullest as GPUs do. Their routed buffers are planned: moefold.moe_buffer_factor is their
 * capacity, not a load, and stays 1.5 (1 where balance is exact), whatever the skew. */
#ifndef CONFIG_LOADS_H
#define CONFIG_LOADS_H

#include "config/recipe.h"
#include "job/job.h"

/* Is balance forced, exactly or by random logits? */
bool loads_forced(const job *j);

/* What fills the two knobs where nobody set them, and why; `room` reads moefold.routing_skew. */
double loads_skew(const job *j, const char **why);
double loads_room(const job *j, const char **why);

/* The load of the fullest EP rank over the mean that a resolved recipe is priced with. */
double loads_priced(const job *j);

/* moe_expert_rank_capacity_factor that holds the fullest EP rank: Megatron runs a step that
 * overflows it again, without CUDA graphs. 1.5 as published runs have it; a tenth beyond the skew
 * of natural routing, in quarters. The skew is the recipe's, or what it would be. */
double loads_rank_capacity(const job *j);

/* Does Megatron run it on GPUs, so that routed tensors are as large as the load? */
bool loads_by_megatron(const job *j);

/* The knob that holds a skew which was asked for or recorded; K_COUNT: none does. */
knob_id loads_knob(const job *j);

/* A skew that was asked for or recorded. Where balance is forced the recipe still trains as it
 * says: memory alone is that of the skew. */
void loads_set(recipe *r, double skew, const char *why);

#endif
