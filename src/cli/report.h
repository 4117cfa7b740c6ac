/* report.h - data of the report's page (docs/REPORT.md). */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "answer/answer.h"
#include "cli/cli.h"
#include "predict/price.h"
#include "report/schedule.h"

/* A recipe that can be priced. */
typedef struct report_job {
    const recipe *given; /* before setup_init */
    const char *words;   /* that name it on a command line */
    const setup *s;
    const hardware *hw;
    const violations *found;
    const price_options *o;
    const char *why_not; /* no program can be built of it */
    double seconds;      /* that searches and comparisons may take; 0: there are none */
    bool winner;         /* of a search: single changes are all that is compared */
} report_job;

/* Everything about one recipe; `fits` is set. The caller gives it back. */
json_t *report_json(const report_job *j, bool *fits, arena *a);

const page_schedule_answer *report_schedule_answer(const report_schedule *x, arena *a);

/* report_layout.c: both rank grids, stages, knobs. */
const page_layout_answer *report_layout_answer(const setup *s, arena *a);
const page_stage_answer *report_stages_answer(int *n, const setup *s, arena *a);
const char *const *const *report_knobs_answer(const setup *s, arena *a);

/* report_copies.c: what the page's buttons copy. */
const page_copies_answer *report_copies_answer(const recipe *given, const setup *s, arena *a);

/* report_compare.c: single changes, the ladder, and the front of its job. */
const page_compared_answer *report_comparisons(const report_job *j, const price *p, arena *a);

#endif
