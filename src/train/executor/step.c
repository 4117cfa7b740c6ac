/* step.c - giving, launching, reading. */
#include "train/executor/step.h"

#include <string.h>

void step_table(executor *e, const program *p, const optimizer *o)
{
    executor_write(e, executor_step_place(p, STEP_TABLE), o->table.rows, p->step_bytes[STEP_TABLE]);
}

void step_give(executor *e, const double given[GIVEN_COUNT])
{
    memcpy(executor_staging(e, STEP_GIVEN), given, sizeof *given * GIVEN_COUNT);
}

void step_run_begin(executor *e)
{
    executor_part(e, PART_BEGIN);
    executor_part(e, PART_STEP);
}

void step_run_update(executor *e, const program *p)
{
    executor_part(e, PART_UPDATE);
    if (!p->gathers_late) executor_part(e, PART_GATHER);
}

void step_run_end(executor *e, const program *p, step_end end)
{
    executor_part(e, PART_FINISH);
    executor_part(e, PART_REPORT);
    if (end == STEP_UPDATES) step_run_update(e, p);
}

static const void *fetched(const executor *e, const program *p, step_buffer which)
{
    return p->step_bytes[which] > 0 ? executor_fetched(e, which) : NULL;
}

step_report step_report_of(const executor *e, const program *p)
{
    return (step_report){.sums = fetched(e, p, STEP_SUMS),
                         .verdict = fetched(e, p, STEP_VERDICT),
                         .rows = fetched(e, p, STEP_OVERFLOW),
                         .loads = fetched(e, p, STEP_LOAD),
                         .n_layers = p->s->m.n_layers + p->s->m.n_mtp};
}
