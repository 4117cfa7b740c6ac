/* plan.h - what the files of `moefold plan` share. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "answer/rows.h"
#include "cli/cli.h"
#include "cli/routing.h"
#include "library/plan.h"

/* plan_screen.c: the first screen, where something fits and where nothing does; the list. */
void plan_screen(const plan_answer *p, arena *a);
void plan_screen_miss(const plan_answer *p, arena *a);
void plan_screen_rows(const plan_answer *p, arena *a);

void plan_print(const plan_answer *p, arena *a);      /* the table, the front */
void plan_print_kept(const plan_answer *p, arena *a); /* what a file sets: kept, searched */
void plan_print_miss(const plan_answer *p, arena *a); /* nothing fits */
const char *plan_knobs_text(const plan_answer *p, const choice *c, arena *a); /* after sizes */

/* plan_more.c: what is said beside the list. */
void plan_print_fewest(const plan_answer *p, arena *a); /* where nothing fits */
void plan_say_fewest(const plan_answer *p, arena *a);   /* in the explanation */
void plan_print_rounder(const plan_answer *p);
void plan_say_offload(const plan_answer *p, arena *a);   /* in the explanation */
void plan_print_offload(const plan_answer *p, arena *a); /* where nothing fits */
void plan_print_bring_up(const plan_answer *p);

/* plan_first.c: why the first is before a faster row, over which routings it stays first, and what
 * it sets beyond its row. */
void plan_print_first(const plan_answer *p, arena *a);

/* The first beside the fastest published run of this model, length and GPU. */
void plan_print_claim(const plan_answer *p, arena *a);

/* plan_explain.c, in the order of thought; plan_rows.c, the rest of the list. */
void plan_explain(const plan_answer *p, arena *a);
void plan_explain_rows(const plan_answer *p, arena *a);

/* plan_against.c: a recipe beside its plan. */
void plan_print_against(const plan_answer *p, arena *a);

#endif
