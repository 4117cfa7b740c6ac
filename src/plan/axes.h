/* axes.h - the knobs that a search decides: which of them mean one thing, and on which of the
 * search's own axes each depends. */
#ifndef PLAN_AXES_H
#define PLAN_AXES_H

#include "config/edit.h"

typedef enum axis_id {
#define AXIS(id, words) AX_##id,
#define PICK(id, ...)   AX_##id,
#include "plan/axes.def"
    AX_NONE
} axis_id;

typedef enum pick_id {
#define PICK(id, ...) PICK_##id,
#include "plan/axes.def"
    PICKS
} pick_id;

/* Axes of a search, in the order of choice_values. */
enum {
    AT_PRECISION,
    AT_TP,
    AT_CP,
    AT_KIND,
    AT_MBS,
    AT_EP,
    AT_ETP,
    AT_TO,
    AT_PP,
    AT_VPP,
    AT_SPLIT,
    AT_OVERLAP,
    AT_DROP,
    AT_OFFLOAD,
    AT_GRAPHS,
    AT_PICKS,
    AXES = AT_PICKS + PICKS,
};

enum {
    ON_PRECISION = 1 << AT_PRECISION,
    ON_TP = 1 << AT_TP,
    ON_CP = 1 << AT_CP,
    ON_KIND = 1 << AT_KIND,
    ON_MBS = 1 << AT_MBS,
    ON_EP = 1 << AT_EP,
    ON_ETP = 1 << AT_ETP,
    ON_TO = 1 << AT_TO,
    ON_PP = 1 << AT_PP,
    ON_VPP = 1 << AT_VPP,
    ON_SPLIT = 1 << AT_SPLIT,
    ON_OVERLAP = 1 << AT_OVERLAP,
    ON_DROP = 1 << AT_DROP,
    ON_OFFLOAD = 1 << AT_OFFLOAD,
    ON_GRAPHS = 1 << AT_GRAPHS,
#define PICK(id, ...) ON_##id = 1 << (AT_PICKS + PICK_##id),
#include "plan/axes.def"
    ON_PICKS = ((1 << PICKS) - 1) << AT_PICKS,
    ON_SIZES = ON_TP | ON_CP | ON_EP | ON_ETP | ON_PP,
    ON_STAGES = ON_PP | ON_VPP | ON_SPLIT,
    /* what the loops have decided, level by level (search_parts.h) */
    AXES_NODE = ON_PRECISION | ON_TP | ON_CP | ON_KIND | ON_MBS | ON_PICKS,
    AXES_EXPERTS = AXES_NODE | ON_EP | ON_ETP | ON_TO,
    AXES_STAGES = AXES_EXPERTS | ON_STAGES,
    AXES_ALL = (1 << AXES) - 1
};

typedef struct axis_knob {
    axis_id axis;
    knob_id k;
    unsigned on; /* ON_ bits */
    bool kept;   /* a person's value stays on every layout */
    bool fixed;  /* of the job or the run: no search decides it */
    bool in_row; /* of a plan's table */
} axis_knob;

/* In the order of the table, knobs of an axis one after the other; ends with K_COUNT. */
extern const axis_knob axis_knobs[];

const char *axis_words(axis_id x);
axis_id axis_of(knob_id k);

/* Is a knob decided by a search: parallel sizes, layout of stages, recompute, dispatcher, overlap,
 * graphs, offload? */
bool axis_decides(knob_id k);
bool axis_in_row(knob_id k); /* does a row of a plan, or a line under it, say it? */

/* The values of a pick, the plain one first. */
extern const edits pick_values[PICKS];

#endif
