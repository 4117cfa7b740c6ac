/* changes.c - single changes of a recipe, each checked by the rules and priced.
 *
 * Of each row of moves.def; what does not differ from the recipe, cannot be laid out or
 * breaks a rule is left out. A change that swaps parallel sizes keeps the number of GPUs.
 *
 * I1  No change is offered that `check` would warn of, where it does not warn of the recipe as it
 *     is: the repair of that warning is made part of the change, or the change is left out.
 * I2  GPUs and batch stay as they are: a repair that moves them is not taken. */
#include "plan/changes.h"

#include <stdio.h>
#include <string.h>

#include "config/job_of.h"

/* ---- one change */

typedef struct changing {
    const change_job *j;
    const setup *before;
    violations found;    /* by it */
    const recipe *given; /* with GPUs and batch as they are */
    bool has_split;      /* it says how layers are split over stages */
    arena *a;
} changing;

/* Edits, a repair, and what leaves the rest of the job as it is. */
typedef struct change {
    edits own, repair, job;
} change;

static bool differs(const changing *w, const setup *after)
{
    for (int k = 0; k < K_COUNT; k++)
        if (!job_same(&w->before->j, &after->j, (knob_id)k)) return true;
    return false;
}

static bool names(const change *c, knob_id k)
{
    return edits_name(c->own, k) || edits_name(c->repair, k) || edits_name(c->job, k);
}

static edits all_of(const change *c, arena *a)
{
    return edits_join(edits_join(c->own, c->repair, a), c->job, a);
}

/* A change of stages leaves the split to be derived again. */
static bool moves_stages(const change *c)
{
    return names(c, K_PP) || names(c, K_VPP);
}

static bool warned_before(const changing *w, const rule *r)
{
    for (int i = 0; i < w->found.n; i++)
        if (w->found.list[i].rule == r) return true;
    return false;
}

/* A warning that the recipe as it is does not draw, or NULL. */
static const violation *new_warning(const changing *w, const violations *found)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].rule->severity == WARNING && !warned_before(w, found->list[i].rule))
            return &found->list[i];
    return NULL;
}

/* The recipe after the change. False: nothing changes, or it breaks a rule. */
static bool changed(try_result *out, const changing *w, const change *c)
{
    recipe *r = ARENA_NEW(w->a, recipe);
    *r = *w->given;
    r->a = w->a;
    bool strung = moves_stages(c) && recipe_open_layout(r);
    if (!edits_apply(r, all_of(c, w->a), "change")) return false;
    if (strung) recipe_keep_stages(r, w->before->pipe.pp * w->before->pipe.vpp);
    return try_recipe(out, r, &(try_job){.world = w->before->lay.world}, w->a) &&
           differs(w, out->s);
}

static void add(edits *to, edit e, arena *a)
{
    *to = edits_join(*to, (edits){&e, 1}, a);
}

/* The change as the recipe's owner must write it: a split that the recipe sets goes, and the stages
 * that were priced are named. */
static void add_split(const changing *w, change *c)
{
    try_result t;
    if (!w->has_split || !moves_stages(c) || !changed(&t, w, c)) return;
    const pipeline *pipe = &t.s->pipe;
    add(&c->own, (edit)SET_NULL(PP_LAYOUT), w->a);
    if (pipe->vpp > 1 && !names(c, K_VPP)) add(&c->own, (edit)SET_INT(VPP, pipe->vpp), w->a);
}

/* Sizes from which GPUs and batch follow leave them as they were priced. */
static void add_job(const changing *w, change *c)
{
    static const knob_id kept[] = {K_N_GPUS, K_GBS};
    recipe *r = ARENA_NEW(w->a, recipe);
    setup *s = ARENA_NEW(w->a, setup);
    error err = {{0}};
    *r = *w->j->given;
    r->a = w->a;
    if (!edits_apply(r, all_of(c, w->a), "change") || setup_init(s, r, w->a, &err)) return;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        edit was = {kept[i], EDIT_INT, {.whole = job_int(&w->before->j, kept[i])}};
        if (!names(c, kept[i]) && !job_same(&s->j, &w->before->j, kept[i])) add(&c->job, was, w->a);
    }
}

/* I1, I2. What the repair sets stands once. It may take back the change itself: then it differs
 * from nothing. False: there is none. */
static bool add_repair(change *c, const violation *v, arena *a)
{
    int i = 0;
    while (i < v->n_repairs &&
           (edits_name(v->repairs[i], K_GBS) || edits_name(v->repairs[i], K_N_GPUS)))
        i++;
    if (i == v->n_repairs) return false;
    edits all = c->own;
    c->own = (edits)NO_EDITS;
    for (size_t k = 0; k < all.n; k++)
        if (!edits_name(v->repairs[i], all.list[k].k)) add(&c->own, all.list[k], a);
    c->repair = v->repairs[i];
    return true;
}

static bool priced(price_change *out, const changing *w, change *c)
{
    try_result t;
    add_split(w, c);
    bool good = changed(&t, w, c);
    const violation *warning = good ? new_warning(w, &t.found) : NULL;
    if (warning)
        good = add_repair(c, warning, w->a) && changed(&t, w, c) && !new_warning(w, &t.found);
    if (!good || !try_affords(w->j->budget, t.s)) return false;
    try_more(&t, &(try_job){.hw = w->j->hw, .o = w->j->o, .depth = TRY_PRICE}, w->a);
    add_job(w, c);
    *out = (price_change){.words = edits_text(all_of(c, w->a), w->a),
                          .gain = t.p.tokens_per_s_per_gpu / w->j->now->tokens_per_s_per_gpu - 1,
                          .step_s = t.p.step_s,
                          .peak_bytes = t.p.peak_bytes,
                          .fits = t.p.fits};
    return true;
}

/* ---- the list */

enum { WORDS_MAX = 1024 };

static double size_of(const price_change *c)
{
    return c->gain < 0 ? -c->gain : c->gain;
}

/* What fits and gains comes first, then what would gain, then what loses least memory's worth. */
static bool before(const price_change *a, const price_change *b)
{
    bool good_a = a->gain > 0 && a->fits, good_b = b->gain > 0 && b->fits;
    if (good_a != good_b) return good_a;
    if (good_a) return a->gain > b->gain;
    return size_of(a) > size_of(b);
}

static int insert(price_change *out, int n, int room, const price_change *c)
{
    if (n == room && !before(c, &out[n - 1])) return n;
    int at = n < room ? n++ : room - 1;
    for (; at > 0 && before(c, &out[at - 1]); at--) out[at] = out[at - 1];
    out[at] = *c;
    return n;
}

static int consider(price_change *out, int n, int room, const changing *w, edits e)
{
    price_change c;
    char kept[WORDS_MAX];
    arena_place mark = arena_mark(w->a);
    bool good = priced(&c, w, &(change){.own = e});
    if (good) snprintf(kept, sizeof kept, "%s", c.words);
    arena_release(w->a, mark);
    if (!good) return n;
    c.words = arena_text(w->a, "%s", kept);
    return insert(out, n, room, &c);
}

/* False: the recipe cannot be laid out. */
static bool start(changing *w, const change_job *j, arena *a)
{
    error err = {{0}};
    setup *s = ARENA_NEW(a, setup);
    recipe *whole = ARENA_NEW(a, recipe);
    *whole = *j->given;
    if (setup_init(s, j->given, a, &err) || !s->possible) return false;
    /* what is derived from the world and the batch must not move with the sizes */
    recipe_set(whole, K_N_GPUS, value_of_int(s->lay.world), "as it is");
    recipe_keep(whole, &s->r, K_GBS, "as it is");
    job asked;
    job_of(&asked, j->given);
    *w = (changing){
        .j = j, .before = s, .given = whole, .has_split = job_has(&asked, K_PP_LAYOUT), .a = a};
    rules_check(&w->found, s, false, a);
    return true;
}

int price_changes(price_change *out, int room, const change_job *j, arena *a)
{
    changing w;
    if (room < 1 || !start(&w, j, a)) return 0;
    int n = 0;
    for (move_id m = 0; m < MOVES; m++) {
        edits e;
        if (moves[m].by & CHANGED && move_edits(&e, m, &w.before->j, a))
            n = consider(out, n, room, &w, e);
    }
    return n;
}

int price_these(price_change *out, const move_id *list, int n, const change_job *j, arena *a)
{
    changing w;
    int found = 0;
    if (!start(&w, j, a)) return 0;
    for (int i = 0; i < n; i++) {
        edits e;
        out[i] = (price_change){0};
        if (list[i] < MOVES && move_edits(&e, list[i], &w.before->j, a))
            found += consider(&out[i], 0, 1, &w, e);
    }
    return found;
}
