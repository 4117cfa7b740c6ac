/* search_axes.h - which axes of a search a knob, and so a rule, depends on.
 *
 * A rule that is broken by one layout is broken by every layout that agrees with it on the axes
 * that the rule's condition reads. So what one layout has shown excludes many, and a rule that
 * reads nothing that is searched is broken by all or by none. */
#ifndef PLAN_SEARCH_AXES_H
#define PLAN_SEARCH_AXES_H

#include "rules/rules.h"
#include "plan/search_choice.h"

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
