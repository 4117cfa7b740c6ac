/* judgement.h - what is advised where several choices are legal.
 *
 * One place: derivations, the warnings of `check`, the choices of `plan` and the offers of `price`
 * all read it, so that none of them advises against another. It knows platforms and counts of
 * copies; seconds come from prices. All take a resolved recipe, unless they say otherwise. */
#ifndef CONFIG_JUDGEMENT_H
#define CONFIG_JUDGEMENT_H

#include "job/dispatcher.h"

/* The backend of the flex dispatcher on this platform; `why` may be NULL. Needs cluster.gpu. */
const dispatcher *judge_flex(const job *j, const char **why);

/* The same for an EP group (ETP included) of so many ranks. */
const dispatcher *judge_flex_over(const gpu *g, int64_t ranks, const char **why);

/* Can the flex dispatcher with that backend serve this EP group at all? */
bool judge_flex_serves(const job *j);

/* The dispatcher that is tried first: flex where it serves, otherwise alltoall. */
const dispatcher *judge_dispatcher(const job *j);

/* NVLink domains over which an EP group (ETP included) spreads. */
int64_t judge_ep_domains(const job *j);

/* Copies of a token that a dispatcher that gathers, or alltoall, sends over the slowest link of
 * its group, in the mean: to other NVLink domains where it spreads over several, else to other
 * ranks. */
double judge_copies(const job *j, bool gathers);

/* Does Megatron-Bridge leave model.moe_shared_expert_overlap on? It turns it off under flex. */
bool judge_shared_overlap_stays(const job *j);

#endif
