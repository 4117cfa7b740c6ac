/* differences.c - knobs that differ, and the path between two recipes.
 *
 * I1  A change copies settings as people made them, unset ones too, so that what follows from them
 *     is derived again. All changes made, the one recipe is the other.
 * I2  Every stop breaks no more rules than the worse of the two ends, and is priced as a whole
 *     program. Changes that are not possible alone are made together.
 * I3  The parts along the path add up to the difference of the ends.
 * I4  The path goes by near stops. A change that matters only before or after another one (the kind
 *     of CP, where CP goes to 1) would else be charged with what the other takes back. */
#include "plan/differences.h"

#include <math.h>
#include <string.h>

#include "predict/audit/audit.h"

enum { CLUSTER = PATH_MOVES, SINGLE, TOGETHER_MOST = 3 };

enum { LOOK = 1000 };          /* of the budget, for rules alone */
static const double FAR = 0.1; /* of the step; of another distance */

typedef struct change_set {
    const char *name;
    knob_id knobs[32];
    int n;
} change_set;

typedef struct walk {
    const diff_job *j;
    differences *out;
    arena *a;
    change_set *sets;
    int n_sets;
    bool *made; /* by set */
    recipe *now;
    price at;
    int errors; /* that a stop may have */
} walk;

/* ---- ends */

static status open_end(diff_end *e, const recipe *given, const diff_job *j, arena *a, error *err)
{
    *e = (diff_end){.given = given, .s = ARENA_NEW(a, setup), .hw = ARENA_NEW(a, hardware)};
    TRY(setup_init(e->s, given, a, err));
    TRY(j->machine(e->hw, e->s, a, err));
    rules_check(&e->found, e->s, false, a);
    rules_prove(&e->found, e->s, false, a);
    e->why_not = audit_not_known(e->s, a);
    if (!e->why_not) e->why_not = audit_why_not_of(e->s, &e->found, a);
    if (!e->why_not) price_setup(&e->p, e->s, e->hw, j->o, a);
    return OK;
}

/* The same model may have two names: a preset, and its config.json. */
static status same_model(const differences *d, error *err)
{
    const setup *x = d->a.s, *y = d->b.s;
    const char *p = x->j.model, *q = y->j.model;
    param_totals n = param_count(&x->params), m = param_count(&y->params);
    if (text_equal(p, q) || (n.total == m.total && n.active == m.active)) return OK;
    return error_set(err, ERR_INPUT,
                     "recipes of different models: %s is of %s, %s of %s; repair: compare recipes "
                     "of one model",
                     x->r.name, p ? p : "a model of its own", y->r.name,
                     q ? q : "a model of its own");
}

/* ---- knobs */

static bool by_person(const recipe *r, knob_id k)
{
    return recipe_from(r, k) == FROM_USER || recipe_from(r, k) == FROM_MODEL;
}

static void find_knobs(differences *d, arena *a)
{
    d->knobs = ARENA_ARRAY(a, diff_knob, K_COUNT);
    for (knob_id k = 0; k < K_COUNT; k++) {
        value x = d->a.s->r.knob[k].v, y = d->b.s->r.knob[k].v;
        if (path_same(k, x, y)) continue;
        bool made = by_person(d->a.given, k) || by_person(d->b.given, k);
        d->knobs[d->n_knobs++] = (diff_knob){k, x, y, made};
    }
}

static int set_of(knob_id k)
{
    if (k == K_GPU || k == K_N_GPUS || k == K_GPUS_PER_NODE || k == K_NVLINK) return CLUSTER;
    axis_id m = axis_of(k);
    return m != AX_NONE ? (int)m : SINGLE + (int)k;
}

/* Knobs of one meaning change together, those that were left open on one side too (I1). */
static void find_sets(walk *w)
{
    const differences *d = w->out;
    int ids[K_COUNT];
    w->sets = ARENA_ARRAY(w->a, change_set, K_COUNT);
    for (int i = 0; i < d->n_knobs; i++) {
        int id = set_of(d->knobs[i].k), at = 0;
        while (at < w->n_sets && ids[at] != id) at++;
        if (!d->knobs[i].made || at < w->n_sets) continue;
        ids[w->n_sets] = id;
        change_set *s = &w->sets[w->n_sets++];
        s->name = id == CLUSTER          ? "cluster"
                  : id < (int)PATH_MOVES ? axis_words((axis_id)id)
                                         : knobs[d->knobs[i].k].key;
        for (knob_id k = 0; k < K_COUNT && s->n < 32; k++)
            if (set_of(k) == id) s->knobs[s->n++] = k;
    }
    w->made = ARENA_ARRAY(w->a, bool, w->n_sets + 1);
}

/* ---- stops */

static void make(recipe *r, const recipe *to, const change_set *s)
{
    for (int i = 0; i < s->n; i++) path_copy(r, to, s->knobs[i]);
    for (int i = 0; i < s->n; i++)
        if (s->knobs[i] == K_GPU) r->machine = to->machine;
}

static bool spent(const walk *w)
{
    return w->j->budget && (w->j->budget->left_out || w->j->budget->left < 0);
}

/* False: it cannot be built, or breaks more rules (I2). */
static bool price_stop(price *out, const walk *w, const recipe *r)
{
    arena *scratch = arena_create();
    hardware *hw = ARENA_NEW(scratch, hardware);
    recipe *own = ARENA_NEW(scratch, recipe);
    try_result t;
    error err = {{0}};
    *own = *r;
    if (w->j->budget) w->j->budget->left -= LOOK;
    bool good = try_recipe(&t, own, &(try_job){.errors = w->errors}, scratch) &&
                !w->j->machine(hw, t.s, scratch, &err);
    good = good && try_affords(w->j->budget, t.s);
    if (good) price_setup(out, t.s, hw, w->j->o, scratch);
    if (good) out->evidence = NULL;
    arena_destroy(scratch);
    return good;
}

/* A stop that could come next. */
typedef struct candidate {
    int chosen[TOGETHER_MOST + 1]; /* sets, then -1 */
    bool found;
    price p;
} candidate;

static void try_candidate(candidate *best, const walk *w, const int *chosen)
{
    recipe *r = ARENA_RAW(w->a, recipe, 1);
    price p;
    *r = *w->now;
    for (int i = 0; chosen[i] >= 0; i++) make(r, w->j->b, &w->sets[chosen[i]]);
    if (!price_stop(&p, w, r)) return;
    double now = w->at.step_s;
    if (best->found && fabs(p.step_s - now) >= fabs(best->p.step_s - now)) return;
    memcpy(best->chosen, chosen, sizeof best->chosen);
    best->p = p;
    best->found = true;
}

/* Every choice of so many sets that are left. */
static void try_sets(candidate *best, const walk *w, int size, int from, int *chosen)
{
    int n = 0;
    while (chosen[n] >= 0) n++;
    if (n == size) {
        try_candidate(best, w, chosen);
        return;
    }
    for (int i = from; i < w->n_sets && !spent(w); i++) {
        if (w->made[i]) continue;
        chosen[n] = i;
        chosen[n + 1] = -1;
        try_sets(best, w, size, i + 1, chosen);
        chosen[n] = -1;
    }
}

static int sets_left(const walk *w)
{
    int n = 0;
    for (int i = 0; i < w->n_sets; i++) n += !w->made[i];
    return n;
}

/* All that are left lead to the end, whatever it is. */
static void choose_all(const walk *w, int *chosen, price *p)
{
    int n = 0;
    for (int i = 0; i < w->n_sets; i++)
        if (!w->made[i]) chosen[n++] = i;
    chosen[n] = -1;
    *p = w->out->b.p;
    p->evidence = NULL;
}

static void describe(diff_change *c, const walk *w, const int *chosen)
{
    textbuf names = text_init(w->a), words = text_init(w->a);
    const differences *d = w->out;
    for (int i = 0; chosen[i] >= 0; i++) {
        const change_set *s = &w->sets[chosen[i]];
        text_add(&names, "%s%s", names.n ? " and " : "", s->name);
        for (int k = 0; k < d->n_knobs; k++) {
            bool here = false;
            for (int m = 0; m < s->n; m++) here = here || s->knobs[m] == d->knobs[k].k;
            if (here)
                text_add(&words, "%s%s=%s", words.n ? " " : "", knobs[d->knobs[k].k].key,
                         value_text(w->a, d->knobs[k].to));
        }
    }
    c->names = names.s;
    c->words = words.s;
}

static void price_alone(diff_change *c, const walk *w, const int *chosen)
{
    recipe *r = ARENA_RAW(w->a, recipe, 1);
    price p;
    if (spent(w)) return;
    *r = *w->j->a;
    for (int i = 0; chosen[i] >= 0; i++) make(r, w->j->b, &w->sets[chosen[i]]);
    c->alone = price_stop(&p, w, r);
    if (!c->alone) return;
    c->alone_seconds = p.step_s - w->out->a.p.step_s;
    c->alone_bytes = p.peak_bytes - w->out->a.p.peak_bytes;
}

static void take(walk *w, const int *chosen, const price *p)
{
    diff_change *c = &w->out->changes[w->out->n_changes++];
    describe(c, w, chosen);
    c->p = *p;
    c->seconds = p->step_s - w->at.step_s; /* I3 */
    c->bytes = p->peak_bytes - w->at.peak_bytes;
    c->n_kinds = price_moved(c->kinds, &w->at, p);
    price_alone(c, w, chosen);
    for (int i = 0; chosen[i] >= 0; i++) {
        make(w->now, w->j->b, &w->sets[chosen[i]]);
        w->made[chosen[i]] = true;
    }
    w->at = *p;
}

static double distance(const candidate *c, const walk *w)
{
    return fabs(c->p.step_s - w->at.step_s);
}

/* The stop nearest to where one stands (I4): of one change; of two where one alone is not possible,
 * or leads far away and two do not; of three where nothing else is possible. */
static bool next_stop(candidate *best, const walk *w)
{
    *best = (candidate){0};
    for (int size = 1; size <= TOGETHER_MOST && size < sets_left(w); size++) {
        bool far = best->found && distance(best, w) > FAR * w->at.step_s;
        if (best->found && !(far && size == 2)) break;
        candidate next = {0};
        int chosen[TOGETHER_MOST + 2] = {-1};
        try_sets(&next, w, size, 0, chosen);
        if (!best->found || (next.found && distance(&next, w) < FAR * distance(best, w)))
            *best = next;
    }
    return best->found;
}

static void walk_path(walk *w)
{
    int all[K_COUNT + 1];
    w->out->changes = ARENA_ARRAY(w->a, diff_change, w->n_sets + 1);
    w->now = ARENA_RAW(w->a, recipe, 1);
    *w->now = *w->j->a;
    w->at = w->out->a.p;
    while (sets_left(w)) {
        candidate next;
        if (next_stop(&next, w)) {
            take(w, next.chosen, &next.p);
            continue;
        }
        choose_all(w, all, &next.p);
        take(w, all, &next.p);
    }
}

status differences_find(differences *out, const diff_job *j, arena *a, error *err)
{
    *out = (differences){0};
    TRY(open_end(&out->a, j->a, j, a, err));
    TRY(open_end(&out->b, j->b, j, a, err));
    TRY(same_model(out, err));
    find_knobs(out, a);
    if (out->a.why_not || out->b.why_not) return OK;
    walk w = {.j = j, .out = out, .a = a};
    int x = out->a.found.n_errors, y = out->b.found.n_errors;
    w.errors = x > y ? x : y;
    find_sets(&w);
    walk_path(&w);
    return OK;
}
