/* job_of.h - from words to the typed job. */
#ifndef CONFIG_JOB_OF_H
#define CONFIG_JOB_OF_H

#include "job/job.h"
#include "config/recipe.h"

/* The job that a resolved recipe describes. Lists are taken from the recipe's arena; texts stay
 * the recipe's. */
void job_of(job *j, const recipe *r);

/* One knob of it, after that knob was set in a resolved recipe. */
void job_take(job *j, const recipe *r, knob_id k);

/* Do both say the same of a knob? Words that nobody knows are the same. */
bool job_same(const job *a, const job *b, knob_id k);

#endif
