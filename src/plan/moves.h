/* moves.h - changes of a recipe by name: one table for all who try some. */
#ifndef PLAN_MOVES_H
#define PLAN_MOVES_H

#include "config/edit.h"

/* The largest micro batch that is offered and searched. Twice as much gains 0.6 to 1.5 % of models
 * below a billion weights on B200 to GB300, and a plan would meet a fifth to a quarter more
 * layouts. */
enum { MOVE_MBS_MOST = 16 };

typedef enum move_id {
#define MOVE(id, ...) MOVE_##id,
#include "plan/moves.def"
    MOVES
} move_id;

/* Choices of a plan's winner, each held beside what else it could be (instead.h). */
typedef enum why_topic {
    WHY_MEMORY,
    WHY_PIPELINE,
    WHY_EXPERTS,
    WHY_CONTEXT,
    WHY_DISPATCHER,
    WHY_OVERLAP,
    WHY_GRAPHS,
    WHY_PRECISION,
    WHY_TOPICS
} why_topic;

enum { CHANGED = 1, TUNED = 2 };
#define WHY(topic) (4u << WHY_##topic)

typedef struct move {
    unsigned by; /* CHANGED, TUNED, WHY */
    edits e;
} move;

extern const move moves[MOVES];

/* The edits for this job, with numbers. False: they are none for it. */
bool move_edits(edits *out, move_id m, const job *j, arena *a);

/* Recompute of these modules and no others: DROP_ bits of ir/segment.h. */
edits move_recompute(unsigned drop, arena *a);

/* So many quarters of the optimizer on the host. */
edits move_optimizer(int quarters, arena *a);

#endif
