/* rules.c - the table, and checking a setup against it.
 *
 * I1  A condition is a pure function of the setup and is safe for any sizes. What is out of range
 *     is reported by value-in-range; divisions by it are not judged.
 * I2  Text is made only for rules that are broken. */
#include "rules/rules.h"

#include "rules/call.h"
#include "rules/quantities.h"
#include "rules/rule_ids.h"
#include "rules/words.h"

/* First reading of the tables: one function a condition. */
#define R(id, severity, scope, source, condition, message, repair)                                 \
    static bool broken_##id(const setup *s)                                                        \
    {                                                                                              \
        return condition;                                                                          \
    }
#include "rules/rules_all.def"
#undef R

static const rule table[] = {
    {.number = RULE_value_in_range,
     .id = "value-in-range",
     .severity = ERROR,
     .source = "V72 V75 V83 V86 V114 B4 B8 B83 B114 B129 B134 B144 B149 B190 B206",
     .visit = visit_values},
    {.number = RULE_aliases_agree,
     .id = "aliases-agree",
     .severity = ERROR,
     .source = "V53 V126 B123 B183 B191 B220",
     .visit = visit_aliases},
    {.number = RULE_copy_without_effect,
     .id = "copy-without-effect",
     .severity = NOTE,
     .source = "Bridge CommOverlapConfig.setup, update_config_with_precision_overrides, "
               "ConfigContainer.validate, _validate_and_sync_distributed_optimizer_settings",
     .visit = visit_lost_copies},
    {.number = RULE_pipeline_split,
     .id = "pipeline-split",
     .severity = ERROR,
     .source = "V25 V31 V33 V34 B30 B31 B35-B43",
     .visit = visit_split},
    {.number = RULE_target_can_run,
     .id = "target-can-run",
     .severity = ERROR,
     .source = "ours",
     .visit = visit_target},
    {.number = RULE_default_is_left_out,
     .id = "default-is-left-out",
     .severity = WARNING,
     .source = "ours",
     .visit = visit_defaults},
/* Second reading: the rows. */
#define TEXT_OF(...)  TEXT_OF_(__VA_ARGS__)
#define TEXT_OF_(...) #__VA_ARGS__
#define R(id_, severity_, scope_, source_, condition_, message_, repair_)                          \
    {.number = RULE_##id_,                                                                         \
     .id = ID_##id_,                                                                               \
     .severity = severity_,                                                                        \
     .scope = scope_,                                                                              \
     .source = source_,                                                                            \
     .broken = broken_##id_,                                                                       \
     .message = message_,                                                                          \
     .repair = repair_,                                                                            \
     .reads = TEXT_OF(condition_)},
#include "rules/rules_all.def"
#undef R
};
const rule *rules_table(int *n)
{
    *n = RULE_COUNT;
    return table;
}

void rules_check_until(violations *out, const setup *s, bool exporting, severity last, bool silent,
                       arena *a)
{
    *out = (violations){0};
    int n;
    const rule *list = rules_table(&n);
    rule_call call = {.s = s, .out = out, .silent = silent, .a = a};
    bool on_gpu = exporting || !CPUS;
    for (int level = ERROR; level <= (int)last; level++)
        for (int i = 0; i < n; i++) {
            if ((int)list[i].severity != level || (list[i].scope == ON_GPU && !on_gpu)) continue;
            call.rule = &list[i];
            if (list[i].visit)
                list[i].visit(&call);
            else if (list[i].broken(s))
                rule_report_row(&call);
        }
}

int rules_errors(const rule *out[], int most, const setup *s, const bool *left_out, arena *a)
{
    int n, found = 0;
    const rule *list = rules_table(&n);
    for (int i = 0; i < n && found < most; i++) {
        if (list[i].severity != ERROR || (list[i].scope == ON_GPU && CPUS)) continue;
        if (left_out && left_out[i]) continue;
        violations own = {0};
        rule_call call = {.s = s, .rule = &list[i], .out = &own, .silent = true, .a = a};
        if (list[i].visit) list[i].visit(&call);
        if (own.n || (list[i].broken && list[i].broken(s))) out[found++] = &list[i];
    }
    return found;
}

void rules_check(violations *out, const setup *s, bool exporting, arena *a)
{
    rules_check_until(out, s, exporting, NOTE, false, a);
}

const char *severity_name(severity s)
{
    static const char *const names[] = {"error", "warning", "note"};
    return names[s];
}

const char *const *violation_words(const violation *v, int k, arena *a)
{
    return v->words[k] ? v->words[k] : edits_words(v->repairs[k], a);
}
