/* fix.c - the smallest set of overrides that makes a recipe valid.
 *
 * Each violation brings alternatives. First a descent: take the first error, apply the first of
 * its alternatives that leaves fewer errors (or else the best that leads somewhere new), look
 * again, until none is left; where it ends in a corner, what people set is opened again and the
 * descent goes on from there. What the set does not need is dropped. If more than one override
 * remains, a smaller set is looked for, one size after the other, among the repairs of all errors
 * and among single knobs that could be opened again.
 *
 * I1  A set that is returned was applied to the recipe and checked, and so was each of its parts
 *     without one override: that is not valid.
 * I2  A look costs about 0.1 ms, more where a pipeline has thousands of stages; LOOKS_MAX bounds
 *     what the search for a smaller set may spend. */
#include "config/models/models.h"
#include "rules/rules.h"

#include <string.h>

#include "rules/call.h"
#include "rules/words.h"

enum { STEPS_MAX = 80, LOOKS_MAX = 60, SMALL_MAX = 4, STAGES_A_LOOK = 1024 };

typedef struct fix_search {
    const recipe *given;
    arena *keep;   /* of edits */
    int looks;     /* so far */
    int looks_end; /* of the search for a smaller set */
} fix_search;

/* A recipe with a set applied, and its errors. */
typedef struct look {
    arena *scratch;
    bool readable;
    violations found;
} look;

/* ---- looking */

/* Of a recipe whose model was filled in: what a person wrote. */
static recipe *without_model(const recipe *given, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    *r = *given;
    for (int k = 0; k < K_COUNT; k++)
        if (recipe_from(r, (knob_id)k) == FROM_MODEL) recipe_open(r, (knob_id)k);
    return r;
}

/* The knobs before the cluster's are the model's: a repair of one may change what model_fill makes
 * of the others. */
bool rules_apply(recipe *out, const recipe *given, edits e, arena *a)
{
    bool refill = false;
    for (size_t i = 0; i < e.n; i++) refill = refill || e.list[i].k < K_GPU;
    *out = refill ? *without_model(given, a) : *given;
    out->a = a;
    error err;
    return edits_apply(out, e, RULES_WHY) && (!refill || !model_fill(out, &err));
}

static void look_at(fix_search *q, edits set, look *out)
{
    arena *a = out->scratch;
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err;
    out->readable = rules_apply(r, q->given, set, a) && !setup_init(s, r, a, &err);
    if (out->readable) rules_check_until(&out->found, s, false, ERROR, true, a);
    q->looks += out->readable ? 1 + (int)(rule_stages(s) / STAGES_A_LOOK) : 1; /* I2 */
}

/* How many errors are left; more than any number where it cannot be read. */
static int errors_left(const look *l)
{
    return l->readable ? l->found.n : INT32_MAX;
}

static int errors_with(fix_search *q, edits set)
{
    look l = {.scratch = arena_create()};
    look_at(q, set, &l);
    int n = errors_left(&l);
    arena_destroy(l.scratch);
    return n;
}

/* ---- the descent */

typedef struct descent {
    look here, there; /* `there` is tried; an accepted try becomes `here` */
    edits seen[STEPS_MAX];
    int n_seen;
} descent;

/* The order of edits means nothing. */
static bool same_set(edits x, edits y, arena *a)
{
    for (size_t i = 0; i < x.n && x.n == y.n; i++)
        if (!edits_have(y, &x.list[i], a)) return false;
    return x.n == y.n;
}

static bool seen_before(const descent *d, edits set, arena *a)
{
    for (int i = 0; i < d->n_seen; i++)
        if (same_set(d->seen[i], set, a)) return true;
    return false;
}

static void look_there(fix_search *q, descent *d, edits set)
{
    arena_destroy(d->there.scratch);
    d->there = (look){.scratch = arena_create()};
    look_at(q, set, &d->there);
}

static void accept(descent *d, edits *set, edits next)
{
    look swap = d->here;
    d->here = d->there;
    d->there = swap;
    *set = next;
    d->seen[d->n_seen++] = next;
}

static edits put_all(edits set, edits more, arena *a)
{
    more = edits_kept(more, a);
    for (size_t i = 0; i < more.n; i++) set = edits_put(set, more.list[i], a);
    return set;
}

/* One repair of one violation. True: `set` went on. */
static bool step_by(fix_search *q, descent *d, edits *set, const violation *v)
{
    edits next, best = NO_EDITS;
    int errors = errors_left(&d->here), fewest = INT32_MAX;
    for (int i = 0; i < v->n_repairs; i++) {
        next = put_all(*set, v->repairs[i], q->keep);
        if (seen_before(d, next, q->keep)) continue;
        look_there(q, d, next);
        int left = errors_left(&d->there);
        if (left < errors) {
            accept(d, set, next);
            return true;
        }
        if (left >= fewest) continue;
        fewest = left;
        best = next;
    }
    if (fewest == INT32_MAX) return false;
    look_there(q, d, best);
    accept(d, set, best);
    return true;
}

/* From `set` on, to one that leaves no error. */
static bool descend(fix_search *q, edits *set)
{
    descent d = {.here = {.scratch = arena_create()}, .there = {.scratch = arena_create()}};
    look_at(q, *set, &d.here);
    d.seen[d.n_seen++] = *set;
    bool stuck = !d.here.readable;
    while (!stuck && errors_left(&d.here) && d.n_seen < STEPS_MAX) {
        stuck = true;
        for (int i = 0; stuck && i < d.here.found.n; i++)
            stuck = !step_by(q, &d, set, &d.here.found.list[i]);
    }
    bool done = !stuck && !errors_left(&d.here);
    arena_destroy(d.here.scratch);
    arena_destroy(d.there.scratch);
    return done;
}

/* What the model has for a knob; null where it has nothing. */
static const char *own_text(fix_search *q, knob_id k)
{
    recipe *r = ARENA_NEW(q->keep, recipe);
    *r = *without_model(q->given, q->keep);
    r->a = q->keep;
    recipe_open(r, k);
    error err;
    return model_fill(r, &err) ? "null" : recipe_shown(r, k, q->keep);
}

/* Opens what a person set: everything but the model, or the model's shape too. */
static void reopen(fix_search *q, edits *set, bool shape_too)
{
    *set = (edits)NO_EDITS;
    for (int k = 0; k < K_COUNT; k++) {
        if (!recipe_by_user(q->given, (knob_id)k) || k == K_MODEL || k == K_DATA_PATH) continue;
        const char *text = k >= K_GPU ? "null" : shape_too ? own_text(q, (knob_id)k) : NULL;
        edit x;
        if (text && edit_read(&x, arena_text(q->keep, "%s=%s", knobs[k].key, text), q->keep))
            *set = edits_put(*set, x, q->keep);
    }
}

/* ---- a smaller set */

static bool leaves_no_error(void *with, edits set)
{
    return errors_with(with, set) == 0;
}

static bool spent(const fix_search *q)
{
    return q->looks >= q->looks_end;
}

/* Sets of up to `limit` overrides: those of the first error, or at the first level of any. */
static bool search(fix_search *q, edits *set, size_t limit, bool first_level)
{
    if (spent(q)) return false;
    look l = {.scratch = arena_create()};
    look_at(q, *set, &l);
    int errors = errors_left(&l);
    bool done = errors == 0;
    for (int v = 0; l.readable && !done && v < (first_level ? errors : 1); v++)
        for (int i = 0; !done && i < l.found.list[v].n_repairs; i++) {
            edits next = put_all(*set, l.found.list[v].repairs[i], q->keep);
            if (next.n > limit || same_set(next, *set, q->keep)) continue;
            done = search(q, &next, limit, false);
            if (done) *set = next;
        }
    arena_destroy(l.scratch);
    return done;
}

/* What a run is made of is not given up to save an override. */
static bool is_essential(int k)
{
    bool size = k == K_GPU || k == K_N_GPUS || k == K_SEQ || k == K_GBS;
    for (int i = 0; i < N_SIZES; i++) size = size || k == (int)near_knobs[i];
    return size || k == K_MODEL || k == K_DATA_PATH;
}

static bool open_one(fix_search *q, edits *set)
{
    for (int k = 0; k < K_COUNT && !spent(q); k++) {
        if (!recipe_by_user(q->given, (knob_id)k) || is_essential(k)) continue;
        edit x;
        edit_read(&x, arena_text(q->keep, "%s=null", knobs[k].key), q->keep);
        *set = edits_put((edits)NO_EDITS, x, q->keep);
        if (!errors_with(q, *set)) return true;
    }
    return false;
}

static bool look_for_smaller(fix_search *q, edits *set)
{
    q->looks_end = q->looks + LOOKS_MAX; /* I2 */
    for (size_t limit = 1; limit < set->n && set->n <= SMALL_MAX; limit++) {
        edits smaller = NO_EDITS;
        if (!search(q, &smaller, limit, true) && !(limit == 1 && open_one(q, &smaller))) continue;
        *set = smaller;
        return true;
    }
    return false;
}

/* ---- all of it */

bool rules_fix(const recipe *given, arena *a, edits *out)
{
    fix_search q = {.given = given, .keep = a};
    edits set = NO_EDITS;
    bool done = descend(&q, &set);
    for (int shape_too = 0; shape_too < 2 && !done; shape_too++) {
        reopen(&q, &set, shape_too);
        done = descend(&q, &set);
    }
    if (!done) return false;
    set = edits_thin(set, leaves_no_error, &q, a);
    if (look_for_smaller(&q, &set)) set = edits_thin(set, leaves_no_error, &q, a);
    *out = set;
    return true;
}
