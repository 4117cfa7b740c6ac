/* rules.h - may it be? One table of rules; every violation at once, each with its repair.
 *
 * A row (rules_*.def) has an id, a severity, where it applies, the numbers of the rules of
 * Megatron-Core (V..) and Megatron-Bridge (B..) that it stands for, a condition, a message and
 * repairs. A new rule is a new row.
 *
 * A rule does what the pinned version of the system does that the recipe is for (moefold.system).
 * ERROR: it stops there, hangs or trains wrong. WARNING: it is turned off there, or runs as nobody
 * wants. NOTE: it has no effect there, or is good to know.
 *
 * In messages {ID} is a knob's value, {ID:key} its key, {=ID} both, {ID:why} where the value came
 * from, and {word} a quantity (quantities.def). A repair is a list of alternatives separated by
 * " | ", best first, each a list of ID=value that become edits. An alternative with a quantity
 * that does not exist here is left out, and so is an assignment that changes nothing. */
#ifndef RULES_RULES_H
#define RULES_RULES_H

#include "config/edit.h"
#include "layout/setup.h"

typedef enum severity { ERROR, WARNING, NOTE } severity;

/* ON_GPU: binds GPU recipes and exports to the other systems, not a run on CPUs. */
typedef enum rule_scope { ANYWHERE, ON_GPU } rule_scope;

/* Those that may be broken several times, then a row of the tables each. */
typedef enum rule_number {
    RULE_value_in_range,
    RULE_aliases_agree,
    RULE_copy_without_effect,
    RULE_pipeline_split,
    RULE_target_can_run,
    RULE_default_is_left_out,
#define R(id, ...) RULE_##id,
#include "rules/rules_all.def"
#undef R
    RULE_COUNT
} rule_number;

struct rule_call;

typedef struct rule {
    rule_number number;
    const char *id; /* stable, with dashes: "ep-overlap-needs-vpp" */
    severity severity;
    rule_scope scope;
    const char *source;
    bool (*broken)(const setup *s);        /* a row of a table, or ... */
    void (*visit)(struct rule_call *call); /* ... a rule that may be broken several times */
    const char *message, *repair;
    const char *reads; /* the condition as C has it, words replaced: which knobs it reads */
} rule;

enum { REPAIRS_MAX = 6 };

/* What a repair leads to (src/plan/repairs.c fills it in). */
typedef struct repair_price {
    bool valid;  /* no error is left: the bytes below are set, but for recipes without a program */
    bool priced; /* that of a warning: and these three */
    double gain; /* tokens a second and GPU after it over before, minus one */
    double step_s, before_s;
    int64_t peak_bytes, usable_bytes;
    bool fits, fitted; /* then; and the recipe as it is, as far as that is known */
} repair_price;

typedef struct violation {
    const rule *rule;
    const char *message;
    edits repairs[REPAIRS_MAX]; /* alternatives, best first */
    int n_repairs;
    edits tried[REPAIRS_MAX]; /* those that rules_prove was given */
    int n_tried;
    repair_price prices[REPAIRS_MAX];
    const char *const *words[REPAIRS_MAX]; /* of repairs, for the command at hand; NULL: as edits */
} violation;

typedef struct violations {
    violation *list; /* sorted by severity, then by the order of the table */
    int n, n_errors;
} violations;

const rule *rules_table(int *n);

/* Every rule against this setup. `exporting`: rules ON_GPU apply whatever the cluster is. */
void rules_check(violations *out, const setup *s, bool exporting, arena *a);

/* Applies every repair and looks again. Those stay that repair and break no other rule, with what
 * that takes beside them; where none does, an error gets what makes the whole recipe valid, if
 * there is such a set. What a person sees has been through this. `found`: what rules_check says of
 * s. */
void rules_prove(violations *found, const setup *s, bool exporting, arena *a);

/* The errors alone, without messages and repairs: which rules, at most `most`; returns how many.
 * `left_out` (may be NULL): rows of the table that are not looked at. */
int rules_errors(const rule *out[], int most, const setup *s, const bool *left_out, arena *a);

/* The smallest set of edits found that leaves no error: empty when there is nothing to repair. None
 * of them can be left out. Returns false when no set was found. `given` as for setup_init; the
 * edits are for the recipe as people wrote it, before model_fill. */
bool rules_fix(const recipe *given, arena *a, edits *out);

/* Does the model allow this size (TP, CP, PP, EP or ETP) by itself? Searches ask before a
 * layout. */
bool rules_allow_size(const setup *s, knob_id k, int64_t size);

/* Why a repair is set. */
#define RULES_WHY "repair"

/* The recipe with edits as people wrote it, and the model filled in again where they speak of it.
 * Returns false where a knob does not take its value. */
bool rules_apply(recipe *out, const recipe *given, edits e, arena *a);

const char *severity_name(severity s);

/* The k-th repair as words that a command line takes, ending with NULL. */
const char *const *violation_words(const violation *v, int k, arena *a);

#endif
