/* path.c - moves between two recipes.
 *
 * I1  A move copies settings as people made them (unset ones too), so that what is derived from
 *     them is derived again.
 * I2  Every stop is priced as a whole program. */
#include "plan/path.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "predict/try.h"

enum { TOGETHER_MOST = 3 };
_Static_assert((int)PATH_MOVES == (int)AX_NONE, "a move is an axis");

/* Other keys for a knob go with it: they would set it again. */
static void forget_aliases(recipe *r, knob_id k)
{
    int n = 0;
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob != k) r->aliases[n++] = r->aliases[i];
    r->n_aliases = n;
}

void path_copy(recipe *r, const recipe *from, knob_id k)
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

/* ---- one stop */

typedef struct walk {
    const path_ends *e;
    const setup *from, *to; /* resolved */
    recipe *now;
    price at;
    int errors; /* rules that are broken where one stands */
    arena *a;
} walk;

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

static bool same_knob(const walk *w, knob_id k)
{
    return path_same(k, w->from->r.knob[k].v, w->to->r.knob[k].v);
}

static bool differs(const walk *w, int m)
{
    for (const axis_knob *x = axis_knobs; x->k != K_COUNT; x++)
        if ((int)x->axis == m && !same_knob(w, x->k)) return true;
    return false;
}

static void make(recipe *r, const recipe *to, unsigned set)
{
    for (const axis_knob *x = axis_knobs; x->k != K_COUNT; x++)
        if (set >> x->axis & 1) recipe_take(r, to, x->k); /* I1 */
}

/* ---- the walk */

typedef struct stop {
    unsigned set;
    int errors;
    price p;
} stop;

static bool try_set(stop *best, const walk *w, unsigned set, bool must_fit)
{
    const path_ends *e = w->e;
    arena_place mark = arena_mark(w->a);
    recipe *r = ARENA_NEW(w->a, recipe);
    try_result t;
    *r = *w->now;
    make(r, e->to, set);
    bool good =
        try_recipe(&t, r, &(try_job){NULL, e->hw, e->o, NULL, TRY_PRICE, w->errors, 0}, w->a);
    arena_release(w->a, mark);
    if (!good || (must_fit && !t.fits)) return false;
    if (!best->set || t.p.step_s < best->p.step_s)
        *best = (stop){set, t.found.n_errors, t.p}; /* I2 */
    return true;
}

static bool is_late(const walk *w)
{
    return w->e->until > 0 && clock_seconds() >= w->e->until;
}

/* The best stop that takes as few moves as possible: one that gains, of one move or two; else the
 * least loss; three moves only where fewer lead nowhere. Every move that is left together leads to
 * the end, whatever it is. */
static stop next_stop(const walk *w, unsigned left)
{
    stop best = {0};
    int n = __builtin_popcount(left);
    for (int size = 1; size <= TOGETHER_MOST && size < n; size++) {
        bool gains = best.set && best.p.step_s < w->at.step_s;
        if (gains || (best.set && size > 2) || is_late(w)) break;
        stop tried = {0};
        for (unsigned set = 1; set <= left && !is_late(w); set++)
            if (!(set & ~left) && __builtin_popcount(set) == size) try_set(&tried, w, set, true);
        if (!best.set || (tried.set && tried.p.step_s < w->at.step_s)) best = tried;
    }
    if (!best.set) try_set(&best, w, left, false);
    return best;
}

static const char *names_of(unsigned set, arena *a)
{
    textbuf t = text_init(a);
    for (int m = 0; m < PATH_MOVES; m++)
        if (set >> m & 1) text_add(&t, "%s%s", t.n ? " and " : "", axis_words((axis_id)m));
    return t.s;
}

static const char *words_of(const walk *w, unsigned set)
{
    textbuf t = text_init(w->a);
    for (const axis_knob *x = axis_knobs; x->k != K_COUNT; x++)
        if (set >> x->axis & 1 && !same_knob(w, x->k))
            text_add(&t, "%s%s=%s", t.n ? " " : "", knobs[x->k].key,
                     recipe_shown(&w->to->r, x->k, w->a));
    return t.s;
}

static void take(path_step *out, walk *w, const stop *s)
{
    *out = (path_step){.names = names_of(s->set, w->a), .words = words_of(w, s->set)};
    out->gain = w->at.step_s / s->p.step_s - 1;
    out->p = s->p;
    out->n_kinds = price_moved(out->kinds, &w->at, &s->p);
    make(w->now, w->e->to, s->set);
    w->at = s->p;
    w->errors = s->errors;
}

static bool opened(walk *w, arena *a)
{
    error err = {{0}};
    setup *from = ARENA_NEW(a, setup), *to = ARENA_NEW(a, setup);
    w->from = from;
    w->to = to;
    w->now = ARENA_NEW(a, recipe);
    *w->now = *w->e->from;
    if (setup_init(from, w->e->from, a, &err) || setup_init(to, w->e->to, a, &err)) return false;
    violations found;
    rules_check(&found, from, false, a);
    w->errors = found.n_errors;
    return true;
}

int price_path(path_step out[PATH_MOVES], const path_ends *e, const price *first, arena *a)
{
    walk w = {.e = e, .at = *first, .a = a};
    unsigned left = 0;
    int n = 0;
    if (!opened(&w, a)) return 0;
    for (int m = 0; m < PATH_MOVES; m++)
        if (differs(&w, m)) left |= 1u << m;
    while (left) {
        stop s = next_stop(&w, left);
        if (!s.set) break;
        take(&out[n++], &w, &s);
        left &= ~s.set;
    }
    return n;
}
