/* call.h - one rule at work on one setup; for this folder only. */
#ifndef RULES_CALL_H
#define RULES_CALL_H

#include "rules/rules.h"

typedef struct rule_call {
    const setup *s;
    const rule *rule;
    violations *out;
    int room;    /* of out->list */
    bool silent; /* repairs only: a search reads no messages */
    arena *a;
} rule_call;

/* Adds a violation with this message. It is the last of out->list until the next is added. */
violation *rule_report(rule_call *call, const char *message);

/* Adds an alternative: n assignments, "ID=value" or "key=value". One that changes nothing, or is
 * there already, is left out. */
void rule_repair(rule_call *call, violation *v, const char *const *assignments, int n);

/* The same from a template of a row; none where one of its quantities does not exist here. */
void rule_alternative(rule_call *call, violation *v, const char *template);

/* A row of the table is broken: its templates (rules.h) become message and alternatives. */
void rule_report_row(rule_call *call);

/* Every rule up to this severity; `silent` leaves messages empty. */
void rules_check_until(violations *out, const setup *s, bool exporting, severity last, bool silent,
                       arena *a);

/* Rules that may be broken several times, or whose repairs depend on how. */
void visit_values(rule_call *call);
void visit_aliases(rule_call *call);
void visit_lost_copies(rule_call *call);
void visit_split(rule_call *call);
void visit_target(rule_call *call);
void visit_defaults(rule_call *call);

#endif
