/* path.c - the walk between two recipes.
 *
 * I1  A change copies settings as people made them, unset ones too, so that what follows from them
 *     is derived again. All changes made, the one recipe is the other.
 * I2  Every stop is priced as a whole program. */
#include "plan/path.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

enum { TOGETHER_MOST = 3 };
_Static_assert((int)PATH_MOVES == (int)AX_NONE, "a move is an axis");

enum { LOOK = 1000 };          /* of the budget, for rules alone */
static const double FAR = 0.1; /* of the step; of another distance */

/* Other keys for a knob go with it: they would set it again. */
static void forget_aliases(recipe *r, knob_id k)
{
    int n = 0;
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob != k) r->aliases[n++] = r->aliases[i];
    r->n_aliases = n;
}

static void take_knob(recipe *r, const recipe *from, knob_id k)
{
    recipe_take(r, from, k);
    forget_aliases(r, k);
}

void path_open(recipe *r, const char *kept)
{
    for (knob_id k = 0; k < K_COUNT; k++) {
        if (!recipe_by_user(r, k) || !axis_decides(k)) continue;
        if (kept && text_equal(recipe_why(r, k), kept)) continue;
        recipe_open(r, k);
        forget_aliases(r, k);
    }
}

/* ---- what moved */

static void add_moved(moved *out, int *n, moved m, double least)
{
    if (fabs(m.seconds) < least) return;
    int at = (*n)++;
    for (; at > 0 && fabs(out[at - 1].seconds) < fabs(m.seconds); at--) out[at] = out[at - 1];
    out[at] = m;
}

int price_moved(moved out[MOVED_MAX], const price *before, const price *after)
{
    step_part was[STEP_PARTS], is[STEP_PARTS];
    int n = 0;
    price_parts(was, before);
    price_parts(is, after);
    for (int i = 0; i < STEP_PARTS; i++)
        add_moved(out, &n, (moved){is[i].name, is[i].title, is[i].seconds - was[i].seconds},
                  before->step_s / 1000);
    return n;
}

static bool has(value list, value word)
{
    for (int i = 0; i < list.list.n; i++)
        if (value_equal(list.list.items[i], word)) return true;
    return false;
}

bool path_same(knob_id k, value x, value y)
{
    bool modules = k == K_RECOMPUTE_MODULES || k == K_GRAPH_MODULES;
    if (!modules || x.kind != V_LIST || y.kind != V_LIST) return value_equal(x, y);
    for (int i = 0; i < x.list.n; i++)
        if (!has(y, x.list.items[i])) return false;
    return x.list.n == y.list.n;
}

static bool by_person(const recipe *r, knob_id k)
{
    return recipe_from(r, k) == FROM_USER || recipe_from(r, k) == FROM_MODEL;
}

bool path_made(const recipe *x, const recipe *y, knob_id k)
{
    return by_person(x, k) || by_person(y, k);
}

/* ---- changes */

typedef struct change_set {
    const char *name;
    knob_id knobs[32];
    int n;
    bool made; /* on the way so far */
} change_set;

typedef struct walk {
    const path_job *j;
    change_set sets[K_COUNT];
    int n;
    recipe *now;
    price at;
    int errors; /* that a stop may have */
    arena *a;
} walk;

static bool differs(const walk *w, knob_id k)
{
    return !path_same(k, w->j->from.s->r.knob[k].v, w->j->to.s->r.knob[k].v);
}

enum { CLUSTER = AX_NONE, SINGLE };

static int set_of(knob_id k)
{
    if (k == K_GPU || k == K_N_GPUS || k == K_GPUS_PER_NODE || k == K_NVLINK) return CLUSTER;
    axis_id m = axis_of(k);
    return m != AX_NONE ? (int)m : SINGLE + (int)k;
}

/* Knobs of one meaning change together, those that were left open on one side too (I1). */
static void find_sets(walk *w)
{
    int ids[K_COUNT];
    for (knob_id i = 0; i < K_COUNT; i++) {
        int id = set_of(i), at = 0;
        if (!differs(w, i) || !path_made(w->j->from.given, w->j->to.given, i)) continue;
        while (at < w->n && ids[at] != id) at++;
        if (at < w->n) continue;
        ids[w->n] = id;
        change_set *s = &w->sets[w->n++];
        s->name = id == CLUSTER       ? "cluster"
                  : id < (int)AX_NONE ? axis_words((axis_id)id)
                                      : knobs[i].key;
        for (knob_id k = 0; k < K_COUNT && s->n < 32; k++)
            if (set_of(k) == id) s->knobs[s->n++] = k;
    }
}

static void make(recipe *r, const recipe *to, const change_set *s)
{
    for (int i = 0; i < s->n; i++) {
        take_knob(r, to, s->knobs[i]);
        if (s->knobs[i] == K_GPU) r->machine = to->machine;
    }
}

/* ---- one stop */

typedef struct stop {
    int chosen[TOGETHER_MOST + 2]; /* sets, then -1 */
    bool found;
    int errors;
    price p;
} stop;

static bool is_over(const walk *w)
{
    const try_budget *b = w->j->t.budget;
    return (b && (b->left_out || b->left < 0)) ||
           (w->j->until > 0 && clock_seconds() >= w->j->until);
}

/* `from` with these sets as the other end has them. False: it cannot be, or breaks more rules. */
static bool price_sets(stop *out, const walk *w, const recipe *from, const int *chosen)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    try_job asked = w->j->t;
    try_result t;
    asked.errors = w->errors;
    asked.depth = TRY_PRICE;
    *r = *from;
    for (int i = 0; chosen[i] >= 0; i++) make(r, w->j->to.given, &w->sets[chosen[i]]);
    if (asked.budget) asked.budget->left -= LOOK;
    bool good = try_recipe(&t, r, &asked, a) && t.priced;
    if (good) *out = (stop){.found = true, .errors = t.found.n_errors, .p = t.p};
    arena_destroy(a);
    return good;
}

/* What makes a stop come later. */
static double distance(const walk *w, const price *p)
{
    return w->j->way == PATH_NEAREST ? fabs(p->step_s - w->at.step_s) : p->step_s;
}

static void consider(stop *best, const walk *w, const int *chosen)
{
    stop s;
    if (!price_sets(&s, w, w->now, chosen)) return;
    if (w->j->way == PATH_FASTEST && !s.p.fits) return;
    if (best->found && distance(w, &s.p) >= distance(w, &best->p)) return;
    *best = s;
    memcpy(best->chosen, chosen, sizeof best->chosen);
}

/* Every choice of so many sets that are left. */
static void consider_sets(stop *best, const walk *w, int size, int from, int *chosen)
{
    int n = 0;
    while (chosen[n] >= 0) n++;
    if (n == size) {
        consider(best, w, chosen);
        return;
    }
    for (int i = from; i < w->n && !is_over(w); i++) {
        if (w->sets[i].made) continue;
        chosen[n] = i;
        chosen[n + 1] = -1;
        consider_sets(best, w, size, i + 1, chosen);
        chosen[n] = -1;
    }
}

static int sets_left(const walk *w)
{
    int n = 0;
    for (int i = 0; i < w->n; i++) n += !w->sets[i].made;
    return n;
}

/* The best stop of as few changes as possible. Two are made at once where one alone is not possible
 * or does not lead there (to what is faster; to what is near) and two do; three where nothing else
 * is possible. */
static bool next_stop(stop *best, const walk *w)
{
    const bool near = w->j->way == PATH_NEAREST;
    *best = (stop){.found = false};
    for (int size = 1; size <= TOGETHER_MOST && size < sets_left(w); size++) {
        bool bad = distance(w, &best->p) > FAR * w->at.step_s;
        if (!near) bad = best->p.step_s >= w->at.step_s;
        if (best->found && !(bad && size == 2)) break;
        stop next = {.found = false};
        int chosen[TOGETHER_MOST + 2] = {-1};
        consider_sets(&next, w, size, 0, chosen);
        bool leads = next.found && (near ? distance(w, &next.p) < FAR * distance(w, &best->p)
                                         : next.p.step_s < w->at.step_s);
        if (!best->found || leads) *best = next;
    }
    return best->found;
}

/* ---- the walk */

static void describe(path_step *c, const walk *w, const int *chosen)
{
    textbuf names = text_init(w->a), words = text_init(w->a);
    for (int i = 0; chosen[i] >= 0; i++) {
        const change_set *s = &w->sets[chosen[i]];
        text_add(&names, "%s%s", names.n ? " and " : "", s->name);
        for (int k = 0; k < s->n; k++)
            if (differs(w, s->knobs[k]))
                text_add(&words, "%s%s=%s", words.n ? " " : "", knobs[s->knobs[k]].key,
                         recipe_shown(&w->j->to.s->r, s->knobs[k], w->a));
    }
    c->names = names.s;
    c->words = words.s;
}

static void take(path_step *c, walk *w, const int *chosen, const stop *s)
{
    stop alone;
    *c = (path_step){.p = s->p,
                     .gain = w->at.step_s / s->p.step_s - 1,
                     .seconds = s->p.step_s - w->at.step_s,
                     .bytes = s->p.peak_bytes - w->at.peak_bytes};
    c->p.evidence = NULL;
    describe(c, w, chosen);
    c->n_kinds = price_moved(c->kinds, &w->at, &s->p);
    const path_end *from = &w->j->from;
    if (w->j->way == PATH_NEAREST && !is_over(w) && price_sets(&alone, w, from->given, chosen)) {
        c->alone = true;
        c->alone_seconds = alone.p.step_s - from->p->step_s;
        c->alone_bytes = alone.p.peak_bytes - from->p->peak_bytes;
    }
    for (int i = 0; chosen[i] >= 0; i++) {
        make(w->now, w->j->to.given, &w->sets[chosen[i]]);
        w->sets[chosen[i]].made = true;
    }
    if (w->j->way == PATH_FASTEST) w->errors = s->errors;
    w->at = s->p;
}

path_step *path_find(int *n, const path_job *j, arena *a)
{
    walk *w = ARENA_NEW(a, walk);
    *w = (walk){.j = j, .now = ARENA_RAW(a, recipe, 1), .at = *j->from.p, .a = a};
    *w->now = *j->from.given;
    w->errors = j->t.errors;
    find_sets(w);
    path_step *out = ARENA_ARRAY(a, path_step, w->n + 1);
    *n = 0;
    while (sets_left(w)) {
        stop s;
        int all[K_COUNT + 1], k = 0;
        if (next_stop(&s, w)) {
            take(&out[(*n)++], w, s.chosen, &s);
            continue;
        }
        /* all that are left lead to the end, whatever it is */
        for (int i = 0; i < w->n; i++)
            if (!w->sets[i].made) all[k++] = i;
        all[k] = -1;
        take(&out[(*n)++], w, all, &(stop){.p = *j->to.p});
    }
    return out;
}
