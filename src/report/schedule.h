/* schedule.h - a step as a picture: what every pipeline stage does when, and what its fullest rank
 * holds meanwhile. Read off the price's own play (predict/watch.h). */
#ifndef REPORT_SCHEDULE_H
#define REPORT_SCHEDULE_H

#include "predict/price.h"
#include "report/alive.h"

typedef enum unit_kind {
    UNIT_FORWARD,
    UNIT_BACKWARD,
    UNIT_PAIR, /* a forward and a backward beside each other */
    UNIT_KINDS
} unit_kind;

/* A microbatch in a chunk: lists in a row that belong to it. */
typedef struct report_unit {
    unit_kind kind;
    int chunk;
    int64_t micro;
    int with_chunk; /* of a pair: its backward */
    int64_t with_micro;
    double start, end;
} report_unit;

typedef struct report_stage {
    int64_t rank; /* the first of the stage */
    report_unit *units;
    int64_t n, room;
    int64_t left_out; /* units in the middle that were too many to show */
    int64_t left_at;  /* place of the first that follows them */
} report_stage;

typedef struct report_schedule {
    price p;
    price_step step;
    report_stage *stages; /* [pp] */
    int64_t n_stages;
    int64_t fullest;      /* stage */
    memory_point *memory; /* the fullest moment of each of `n_memory` equal parts of the step */
    int64_t n_memory;
    int64_t most_saved; /* the most that was alive at once */
} report_schedule;

enum { UNITS_MAX = 80000, MEMORY_POINTS = 1200 }; /* of all stages together; of a step */

/* The setup can be priced. Memory comes from `a`. */
void report_simulation(report_schedule *out, const price_job *j, arena *a);

#endif
