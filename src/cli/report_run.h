/* report_run.h - a run's part of the report's page. */
#ifndef CLI_REPORT_RUN_H
#define CLI_REPORT_RUN_H

#include "cli/report.h"
#include "report/run_folder.h"

/* The key "run" of the page's data. ERR_INPUT: a trace or loads that cannot be read. */
status report_json_run(json_t **out, const run_folder *f, const setup *s, arena *a, error *err);

#endif
