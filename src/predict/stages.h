/* stages.h - the items of all pipeline ranks played against each other. Internal to src/predict. */
#ifndef PREDICT_STAGES_H
#define PREDICT_STAGES_H

#include "predict/price.h"

/* What a pipeline rank did in a step. */
typedef struct stage_time {
    double end;            /* of the step's items */
    double finish, gather; /* what follows before and after the optimizer */
    double busy[COST_KINDS], exposed[COST_KINDS];
    double host, bubble; /* bubble: the other side had not even sent */
    double slowed;       /* as in played */
} stage_time;

typedef struct stage_simulation {
    const cost_model *c;
    program *const *programs; /* [pp] */
    const watcher *watch;     /* NULL: nobody */
} stage_simulation;

/* out[pp]. False: a circle of waits (the audit names it). */
bool simulate_stages(stage_time *out, const stage_simulation *simulation, arena *a);

#endif
