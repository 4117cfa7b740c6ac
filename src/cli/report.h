/* report.h - data of the report's page (docs/REPORT.md). */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/cli.h"
#include "predict/price.h"
#include "report/schedule.h"

/* A recipe that can be priced. */
typedef struct report_job {
    const recipe *given; /* before setup_init */
    const setup *s;
    const hardware *hw;
    const violations *found;
    const price_options *o;
    double seconds; /* that searches and comparisons may take; 0: there are none */
} report_job;

/* Everything about one recipe; `fits` is set. The caller gives it back. */
json_t *report_json(const report_job *j, bool *fits, arena *a);

json_t *report_json_schedule(const report_schedule *x);

/* report_layout.c: both rank grids, stages, knobs. */
json_t *report_json_layout(const setup *s);
json_t *report_json_stages(const setup *s);
json_t *report_json_knobs(const setup *s, arena *a);

/* report_compare.c: the ladder, single changes, and the front of its job. */
void report_add_comparisons(json_t *o, const report_job *j, const price *p, arena *a);

#endif
