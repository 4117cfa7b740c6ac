/* executor_times.h - when operations ran: stamps of the device (device.h, D7), taken while a step
 * is put, and read as they pass while the host waits for the step's report (at the latest behind
 * it).
 *
 * Two readers share them. A trace wants start and end of every operation on its stream. Times by
 * kind want only the ends on the compute stream: the time of an operation is what has passed since
 * the end before it, that of a wait the time its stream stood still, which counts as the message's.
 * Who asks for neither pays nothing.
 *
 *     executor_trace_begin(e, &err);         before the batch of a step is put
 *     step_run_begin(e); ... step_run_end(e, p, end);
 *     times = executor_trace_end(e, &n);     when its report has been read
 *     for (i = 0; i < n; i++) {
 *         const item *it = &p->items[times[i].part].list[times[i].item];
 *         const op *o = &it->seg->ops[it->phase][times[i].op];   stream, kind, name, layer_step
 *     } */
#ifndef TRAIN_EXECUTOR_EXECUTOR_TIMES_H
#define TRAIN_EXECUTOR_EXECUTOR_TIMES_H

#include "train/executor/executor.h"

/* One operation, message, copy or wait that was put, in the order in which they were put. Seconds
 * since `origin` of executor_trace_origin. Of a wait: how long its stream stood. On the CPU a
 * message of a stream begins when the one before it is complete, and ends when the host sees it. */
typedef struct op_times {
    double start, end;
    int64_t item;
    int op;
    item_part part;
} op_times;

/* From here on operations are stamped. Nothing is under way. The first call takes memory for all
 * operations of a step (and the device its stamps), later ones do not. */
status executor_trace_begin(executor *e, error *err);

/* Operations are no longer stamped. Waits until the last stamp has passed. Valid until the next
 * begin, rework or close. A rework (routed buffers that grow) ends a trace, too, and loses it: NULL
 * and 0 then; the step that is run again wants a begin of its own. */
const op_times *executor_trace_end(executor *e, int64_t *n);

/* The clock of this host (clock_seconds) at the origin. */
double executor_trace_origin(const executor *e);

/* ---- times by kind */

/* From now on adds the seconds of every operation in the parts that the price plays to `t`, by the
 * kind that `cost` gives it; a wait counts as its message. `t` stays in place until executor_close
 * or executor_rework. ERR_MACHINE: the device has no memory for stamps. */
status executor_time(executor *e, timing *t, const cost_model *cost, error *err);

/* A step begins, with nothing under way: it is counted from here on. Nothing where nobody asked. */
void executor_time_begin(executor *e);

/* All that was put is added to `t`; waits for it. */
void executor_time_end(executor *e);

#endif
