/* price.h - a predicted step as an answer. */
#ifndef ANSWER_PRICE_H
#define ANSWER_PRICE_H

#include "answer/answer.h"
#include "predict/price.h"

/* What follows from the price alone: without changes, repairs, other routings and violations. */
void answer_price(price_answer *out, const price *p, const price_job *j, arena *a);

/* Of `rank`, which holds that. */
const price_memory_answer *answer_price_memory(const price *p, const reported *held, int64_t rank,
                                               arena *a);

/* Does our own program run on a GPU? Then where its times are from is said. */
bool answer_has_times(const job *j, const hardware *hw);

/* Are times of our own program on this GPU estimates, because nobody has measured it, or because
 * its GEMMs are reference kernels (target_by_reference), which `bench` does not measure? */
bool answer_estimates_times(const job *j, const hardware *hw);
const times_answer *answer_times(const job *j, const hardware *hw, arena *a); /* NULL: others run */

/* How far the step may be off; NULL: not known of that hardware. */
const priced_band_answer *answer_band(const price *p, const price_job *j, arena *a);

/* NULL: no two ranks share experts. */
const routing_answer *answer_routing(const price *p, const price_options *o, arena *a);
bool answer_overflows(const price *p); /* the fullest rank's routed buffers are too small */

#endif
