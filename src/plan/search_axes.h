/* search_axes.h - which axes of a search a knob, and so a rule, depends on.
 *
 * A rule that is broken by one layout is broken by every layout that agrees with it on the axes
 * that the rule's condition reads. So what one layout has shown excludes many, and a rule that
 * reads nothing that is searched is broken by all or by none. */
#ifndef PLAN_SEARCH_AXES_H
#define PLAN_SEARCH_AXES_H

#include "rules/rules.h"
#include "plan/search_choice.h"

enum {
    ON_PRECISION = 1 << 0,
    ON_TP = 1 << 1,
    ON_CP = 1 << 2,
    ON_KIND = 1 << 3,
    ON_MBS = 1 << 4,
    ON_TP_OVERLAP = 1 << 5,
    ON_EP = 1 << 6,
    ON_ETP = 1 << 7,
    ON_TO = 1 << 8,
    ON_PP = 1 << 9,
    ON_VPP = 1 << 10,
    ON_SPLIT = 1 << 11,
    ON_OVERLAP = 1 << 12,
    ON_DROP = 1 << 13,
    ON_OFFLOAD = 1 << 14,
    ON_GRAPHS = 1 << 15,
    AXES = 16,
    /* what the loops have decided, level by level (search_parts.h) */
    AXES_NODE = ON_PRECISION | ON_TP | ON_CP | ON_KIND | ON_MBS | ON_TP_OVERLAP,
    AXES_EXPERTS = AXES_NODE | ON_EP | ON_ETP | ON_TO,
    AXES_STAGES = AXES_EXPERTS | ON_PP | ON_VPP | ON_SPLIT,
    AXES_ALL = (1 << AXES) - 1
};

/* The choice's value on each axis. */
void choice_values(int64_t v[AXES], const choice *c);

/* Axes on which the value of a knob depends in what choice_patch makes. A pinned knob that the
 * search keeps as it is depends on none. */
void axes_of_knobs(unsigned of[K_COUNT], choice_maker *m);

/* Axes that pins leave one value. */
unsigned axes_closed(const unsigned of[K_COUNT]);

/* Axes that a rule's condition reads, by those of the knobs; AXES_ALL where that is not known.
 * `strange` (may be NULL): the first word of the condition that the tables here do not have. */
unsigned axes_of_rule(const rule *r, const unsigned of[K_COUNT], const char **strange);

#endif
