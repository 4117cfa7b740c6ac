/* change.c - changes of the start recipe, and their prices.
 *
 * I1  A change names each knob once, in the order of the knob table, and only knobs whose value is
 *     another one than the start's: two ways to one recipe have one text. */
#include <string.h>

#include "base/text.h"
#include "predict/try.h"
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
        if (!recipe_by_user(r, k)) continue;
        const char *now = recipe_shown(r, k, a);
        if (recipe_by_user(t->start, k) && text_equal(now, recipe_shown(t->start, k, a))) continue;
        if (t->pinned[k] || (!axis_decides(k) && k != K_MBS)) return NULL;
        text_add(&text, "%s%s=%s", text.n ? " " : "", knobs[k].key, now);
    }
    return text.n ? text.s : "";
}

bool tune_price_within(const tune *t, const char *change, try_result *out, try_budget *budget,
                       arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    const try_job asked = {.hw = &t->hw, .budget = budget, .depth = TRY_PRICE};
    return tune_recipe(t, change, r, a) && try_recipe(out, r, &asked, a) && out->priced;
}

bool tune_price_of(const tune *t, const char *change, try_result *out, arena *a)
{
    return tune_price_within(t, change, out, NULL, a);
}
