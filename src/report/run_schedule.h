/* run_schedule.h - a step of a run as a picture, in the form of the predicted one. */
#ifndef REPORT_RUN_SCHEDULE_H
#define REPORT_RUN_SCHEDULE_H

#include "report/schedule.h"
#include "predict/trace/trace.h"

/* The last step of a run's trace: units of the first rank of every stage. Of `out` stages and step
 * are set. False: the trace has no rank of some stage, or no step. Memory comes from `a`. */
bool run_schedule(report_schedule *out, const trace *t, const setup *s, arena *a);

#endif
