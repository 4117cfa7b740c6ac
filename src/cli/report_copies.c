/* report_copies.c - what the buttons of the report's page copy: the recipe, and its arguments for
 * Megatron-LM. */
#include "cli/report.h"
#include "config/export.h"

/* NULL, and why not: it would not run there. */
static const char *megatron_of(const char **why_not, const recipe *given, const setup *s, arena *a)
{
    export_gap gaps[EXPORT_GAPS_MAX];
    recipe *there = ARENA_NEW(a, recipe);
    setup *made = ARENA_NEW(a, setup);
    violations *found = ARENA_NEW(a, violations);
    error err;
    *there = *given;
    if (export_follow(there, &s->r, MEGATRON_LM) < K_COUNT) {
        if (setup_init(made, there, a, &err)) made = NULL;
        if (made) s = made;
    }
    rules_check(found, s, true, a);
    if (export_gaps(&s->r, MEGATRON_LM, gaps, a))
        *why_not = arena_text(a, "%s: %s", knobs[gaps[0].knob].key, gaps[0].why);
    else if (found->n_errors)
        *why_not = arena_text(a, "%s: %s", found->list[0].rule->id, found->list[0].message);
    if (*why_not) return NULL;
    textbuf out = text_init(a);
    export_megatron_lm(&s->r, &out);
    return out.s;
}

const page_copies_answer *report_copies_answer(const recipe *given, const setup *s, arena *a)
{
    page_copies_answer *x = ARENA_NEW(a, page_copies_answer);
    textbuf out = text_init(a);
    export_yaml(&s->r, false, &out);
    *x = (page_copies_answer){.recipe = out.s};
    x->megatron = megatron_of(&x->megatron_why_not, given, s, a);
    return x;
}
