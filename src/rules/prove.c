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
#include "rules/overrides.h"

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

static bool look(proving *q, const overrides *words, violations *after, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err;
    q->looks++;
    if (!rules_apply(r, q->given, words->list, a) || setup_init(s, r, a, &err)) return false;
    rules_check_until(after, s, q->exporting, q->of->rule->severity, true, a);
    return true;
}

/* Another model, GPU or system is another job (I2). */
static bool is_for_another(const char *const *words)
{
    static const knob_id purpose[] = {K_MODEL, K_GPU, K_SYSTEM, K_TARGET};
    for (; *words; words++)
        for (size_t i = 0; i < sizeof purpose / sizeof purpose[0]; i++) {
            size_t n = strlen(knobs[purpose[i]].key);
            if (strncmp(*words, knobs[purpose[i]].key, n) == 0 && (*words)[n] == '=') return true;
        }
    return false;
}

/* Does it repair, with at most `depth` others beside it? Those are added. */
static bool repairs(proving *q, overrides *words, int depth)
{
    const rule *own = q->of->rule;
    if (q->looks >= LOOKS_MAX) return false; /* I3 */
    arena *a = arena_create();
    violations after = {0};
    bool good = look(q, words, &after, a) && times(&after, own) < times(q->before, own);
    const violation *other = good ? new_one(q, &after, own->severity) : NULL;
    good = good && !other;
    for (int i = 0; other && depth && !good && i < other->n_repairs; i++) {
        overrides more = *words;
        good = !is_for_another(other->repairs[i]) &&
               overrides_add(&more, other->repairs[i], q->keep) && repairs(q, &more, depth - 1);
        if (good) *words = more;
    }
    arena_destroy(a);
    return good;
}

static bool sets(const overrides *words, const char *assignment)
{
    for (int i = 0; i < words->n; i++)
        if (text_equal(words->list[i], assignment)) return true;
    return false;
}

/* Is one of the first n repairs a part of it? */
static bool is_needless(const violation *v, int n, const overrides *words)
{
    for (int i = 0; i < n; i++) {
        const char *const *p = v->repairs[i];
        while (*p && sets(words, *p)) p++;
        if (!*p) return true;
    }
    return false;
}

/* Where a recipe cannot be repaired rule by rule: what makes all of it valid. */
static bool repair_all(const proving *q, overrides *words)
{
    const char *const *all;
    bool stops = q->of->rule->severity == ERROR && !q->exporting;
    return stops && rules_fix(q->given, q->keep, &all) && overrides_add(words, all, q->keep) &&
           words->n;
}

static void keep(proving *q, violation *v, const overrides *words)
{
    const char **list = ARENA_ARRAY(q->keep, const char *, words->n + 1);
    memcpy(list, words->list, sizeof *list * (size_t)(words->n + 1));
    v->repairs[v->n_repairs++] = list;
}

static void prove_one(proving *q, violation *v)
{
    overrides words = {.n = 0};
    v->n_tried = v->n_repairs;
    memcpy(v->tried, v->repairs, sizeof v->tried);
    v->n_repairs = 0;
    for (int i = 0; i < v->n_tried; i++) {
        words.n = q->looks = 0;
        if (!overrides_add(&words, v->tried[i], q->keep) ||
            !repairs(q, &words, depth_of[v->rule->severity]))
            continue;
        if (!is_needless(v, v->n_repairs, &words)) keep(q, v, &words);
    }
    words.n = 0;
    if (!v->n_repairs && repair_all(q, &words)) keep(q, v, &words);
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
