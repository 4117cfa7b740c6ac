/* change.c - changes of the start recipe, and their prices.
 *
 * I1  A change names each knob once, in the order of the knob table, and only knobs whose value is
 *     another one than the start's: two ways to one recipe have one text. */
#include <string.h>

#include "predict/audit/audit.h"
#include "base/text.h"
#include "rules/rules.h"
#include "plan/path.h"
#include "measure/tune/tune.h"

/* A change as the folder of trials keeps it. */
static bool apply(recipe *r, const char *words, arena *a)
{
    char *copy = arena_copy(a, words, strlen(words)), *rest = NULL;
    error err = {{0}};
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        if (recipe_override(r, w, "tune", &err)) return false;
    return true;
}

/* The split over stages follows from the sizes, unless somebody set it. */
bool tune_recipe(const tune *t, const char *change, recipe *out, arena *a)
{
    *out = *t->start;
    out->a = a;
    return apply(out, change, a);
}

const char *tune_change(const tune *t, const char *change, edits more, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    if (!tune_recipe(t, change, r, a) || !edits_apply(r, more, "tune")) return NULL;
    textbuf text = text_init(a);
    for (knob_id k = 0; k < K_COUNT; k++) {
        const setting *now = &r->knob[k], *was = &t->start->knob[k];
        if (now->from != FROM_USER) continue;
        bool same = was->from == FROM_USER && value_equal(now->v, was->v);
        if (same) continue;
        if (t->pinned[k] || (!path_decides(k) && k != K_MBS)) return NULL;
        text_add(&text, "%s%s=%s", text.n ? " " : "", knobs[k].key, value_text(a, now->v));
    }
    return text.n ? text.s : "";
}

bool tune_price_of(const tune *t, const char *change, tune_price *out, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    violations found = {0};
    error err = {{0}};
    if (!tune_recipe(t, change, r, a) || setup_init(s, r, a, &err)) return false;
    if (!s->possible || s->pipe.why_not) return false;
    rules_check(&found, s, false, a);
    if (found.n_errors || audit_not_known(s, a) || audit_why_not_of(s, &found, a)) return false;
    out->s = s;
    price_setup(&out->p, s, &t->hw, NULL, a);
    return true;
}
