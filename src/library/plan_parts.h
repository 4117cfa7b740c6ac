/* plan_parts.h - what the files that make a plan share. */
#ifndef LIBRARY_PLAN_PARTS_H
#define LIBRARY_PLAN_PARTS_H

#include "library/plan.h"

/* A search that is under way when a walk's time is up may go on for so long. Walks count the
 * processor's seconds, so that other jobs on the machine change no answer. */
static const double WALK_GRACE_SECONDS = 2;

/* plan_words.c: from words to a job. */
status plan_prepare(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err);

/* Parts of the answer; NULL: there is no such claim. */
void plan_answer_first(first_answer *out, const plan_answer *p, arena *a);
const claim_answer *plan_claim_answer(const plan_answer *p, arena *a);
const against_answer *plan_against_answer(const plan_answer *p, arena *a);

/* plan_bring_up.c: refuses a folder that holds anything; writes the recipes, after reasons are
 * found. */
status plan_bring_up_folder(const char *folder, error *err);

/* plan_fewest.c: sets `fewest`; looks no longer than about that many seconds. */
void plan_find_fewest(plan_answer *p, const search_options *o, double seconds, arena *a);

/* plan_rounder.c: sets `rounder`, in about that many seconds of the processor. */
void plan_find_rounder(plan_answer *p, const search_options *o, double seconds);

/* plan_miss.c: finds the nearest miss, in about that many seconds. */
void plan_find_miss(plan_answer *p, const search_options *o, double seconds);

/* plan_refuse.c: what cannot be planned, and what to change. plan_refuses sets `refused` where
 * rules stand against every layout; plan_why_none sets `err`. */
bool plan_refuses(plan_answer *p, const search_options *o, arena *a);
status plan_why_none(const plan_answer *p, const search_options *o, arena *a, error *err);

/* plan_reasons.c: ERR_RULE, and result->never, where a pin is nothing that the target can run. */
status plan_refuse_target(plan_answer *p, arena *a, error *err);
void plan_find_reasons(plan_answer *p, arena *a); /* sets `reasons` */

status plan_make_bring_up(plan_answer *p, const char *folder, arena *a, error *err);

/* For moves of layouts of the plan. */
static inline variant_job plan_variants(const plan_answer *p, try_depth depth)
{
    return (variant_job){p->result,
                         {.given = p->given, .hw = p->hw, .o = &p->prices, .depth = depth}};
}

#endif
