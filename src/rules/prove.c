/* prove.c - which repairs repair.
 *
 * The repairs of a row are written for its rule alone. Here each is applied to the recipe and every
 * rule is looked at again: what breaks another rule gets a repair of that rule beside it, or goes.
 *
 * I1  A repair that stays leaves its rule broken less often than before, and no error more often;
 *     that of a warning or a note no warning, either.
 * I2  What a repair itself sets, the repairs beside it leave alone, and what the recipe is for.
 * I3  A look costs about 0.1 ms; LOOKS_MAX bounds those of a violation. */
#include <string.h>

#include "rules/call.h"

/* Repairs beside one: a rule of thumb is not worth many. */
static const int depth_of[] = {[ERROR] = 4, [WARNING] = 2, [NOTE] = 1};

enum { LOOKS_MAX = 60 };

typedef struct proving {
    const recipe *given;
    const violations *before;
    const violation *of;
    bool exporting;
    int looks;
    arena *keep; /* of what is found */
} proving;

static int times(const violations *found, const rule *r)
{
    int n = 0;
    for (int i = 0; i < found->n; i++) n += found->list[i].rule == r;
    return n;
}

/* The first violation that the recipe as it is does not have; NULL: none. */
static const violation *new_one(const proving *q, const violations *after, severity most)
{
    for (int i = 0; i < after->n; i++) {
        const rule *r = after->list[i].rule;
        if (r->severity <= most && times(after, r) > times(q->before, r)) return &after->list[i];
    }
    return NULL;
}

static bool look(proving *q, edits e, violations *after, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err;
    q->looks++;
    if (!rules_apply(r, q->given, e, a) || setup_init(s, r, a, &err)) return false;
    rules_check_until(after, s, q->exporting, q->of->rule->severity, true, a);
    return true;
}

/* Another model, GPU or system is another job (I2). */
static bool is_for_another(edits e)
{
    return edits_name(e, K_MODEL) || edits_name(e, K_GPU) || edits_name(e, K_SYSTEM) ||
           edits_name(e, K_TARGET);
}

/* Does it repair, with at most `depth` others beside it? Those are added. */
static bool repairs(proving *q, edits *e, int depth)
{
    const rule *own = q->of->rule;
    if (q->looks >= LOOKS_MAX) return false; /* I3 */
    arena *a = arena_create();
    violations after = {0};
    bool good = look(q, *e, &after, a) && times(&after, own) < times(q->before, own);
    const violation *other = good ? new_one(q, &after, own->severity) : NULL;
    good = good && !other;
    for (int i = 0; other && depth && !good && i < other->n_repairs; i++) {
        edits more = *e;
        good = !is_for_another(other->repairs[i]) &&
               edits_add(&more, edits_kept(other->repairs[i], q->keep), q->keep) &&
               repairs(q, &more, depth - 1);
        if (good) *e = more;
    }
    arena_destroy(a);
    return good;
}

/* Is one of the first n repairs a part of it? */
static bool is_needless(const violation *v, int n, edits e, arena *a)
{
    for (int i = 0; i < n; i++) {
        size_t k = 0;
        while (k < v->repairs[i].n && edits_have(e, &v->repairs[i].list[k], a)) k++;
        if (k == v->repairs[i].n) return true;
    }
    return false;
}

/* Where a recipe cannot be repaired rule by rule: what makes all of it valid. */
static bool repair_all(const proving *q, edits *e)
{
    bool stops = q->of->rule->severity == ERROR && !q->exporting;
    return stops && rules_fix(q->given, q->keep, e) && e->n;
}

static void prove_one(proving *q, violation *v)
{
    edits e = NO_EDITS;
    v->n_tried = v->n_repairs;
    memcpy(v->tried, v->repairs, sizeof v->tried);
    v->n_repairs = 0;
    for (int i = 0; i < v->n_tried; i++) {
        e = (edits)NO_EDITS;
        q->looks = 0;
        if (!edits_add(&e, v->tried[i], q->keep) || !repairs(q, &e, depth_of[v->rule->severity]))
            continue;
        if (!is_needless(v, v->n_repairs, e, q->keep)) v->repairs[v->n_repairs++] = e;
    }
    if (!v->n_repairs && repair_all(q, &e)) v->repairs[v->n_repairs++] = e;
}

void rules_prove(violations *found, const setup *s, bool exporting, arena *a)
{
    recipe *given = ARENA_NEW(a, recipe);
    recipe_reopen(given, &s->r);
    for (int i = 0; i < found->n; i++) {
        proving q = {given, found, &found->list[i], exporting, 0, a};
        prove_one(&q, &found->list[i]);
    }
}
