/* next.c - which trial is worth its time.
 *
 * Candidates are all combinations of microbatch, recompute and dispatcher on top of the best trial,
 * and single changes of the layout and of overlap. What each is expected to take, and how sure that
 * is, follows from its price and from the trials (expect.h).
 *
 * I1  The next trial is the one with the largest expected gain: by how much it is expected to be
 *     faster than the best, over all that it may take. A candidate much like a trial that was not
 *     fast gains nothing, one as fast in price but far from all trials may.
 * I2  It ends where the largest expected gain is not worth a trial: WORTH at the trial FEW, half
 *     as much two trials before, twice as much two trials later. It also ends after IN_VAIN trials
 *     in a row that did not lower the best time by LITTLE: then prices and trials disagree about
 *     what is left. (bench/tune_machines.c: 0.003 throughout missed the best by more than 3 % on 7
 *     of 80 quiet machines, 0.0015 throughout on 4 and took up to 14 trials; now 1, up to 10.)
 * I3  Candidates that cost the same to nine digits are one program: only the first is tried.
 * I4  The start comes first. Where it does not fit, the fastest that fits does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "measure/tune/expect.h"
#include "plan/moves.h"

static const double WORTH = 0.0015, LITTLE = 0.01; /* I2 */
static const double CLEARLY_LESS = 0.85;           /* memory than one that lacked it */
static const double ALIKE = 0.015;                 /* as fast, if measured again */
static const double SUSPECT = 1.10; /* what may fail like another is taken as slower */

enum { CANDIDATES = 2048, FEW = 6, IN_VAIN = 5 };

typedef struct candidate {
    const char *change;
    double priced;
    expectation then;
    double gain; /* expected; where nothing was measured, the less it takes the larger */
    int64_t peak_bytes;
} candidate;

typedef struct choosing {
    const tune *t;
    const trial *best;
    const char *base; /* the change that candidates start from */
    candidate *list;
    int n;
    expectations *known;
    int64_t lacking; /* bytes that were too much; 0: none were */
    try_budget budget;
    arena *a, *scratch;
} choosing;

/* ---- the best */

const trial *tune_best(const tune *t)
{
    const trial *best = NULL;
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        if (x->end == TRIAL_MEASURED && (!best || x->step_s < best->step_s)) best = x;
    }
    return best;
}

const trial *tune_pick(const tune *t)
{
    const trial *best = tune_best(t), *pick = NULL;
    double least = 0;
    for (int i = 0; i < t->n; i++)
        if (t->trials[i].rounds && (!pick || t->trials[i].step_s < pick->step_s))
            pick = &t->trials[i];
    if (pick && pick->step_s <= best->step_s * (1 + ALIKE)) return pick;
    pick = best;
    arena *a = arena_create();
    for (int i = 0; best && i < t->n; i++) {
        const trial *x = &t->trials[i];
        try_result p;
        if (x->end != TRIAL_MEASURED || x->step_s > best->step_s * (1 + ALIKE)) continue;
        if (!tune_price_of(t, x->change, &p, a)) continue;
        if (least == 0 || p.p.step_s < least) pick = x, least = p.p.step_s;
    }
    arena_destroy(a);
    return pick;
}

/* ---- what fails */

static int words_apart(const char *x, const char *y)
{
    int n = 0;
    for (const char *p = x; *p;) {
        size_t length = strcspn(p, " ");
        bool found = false;
        for (const char *q = y; *q && !found;) {
            size_t other = strcspn(q, " ");
            found = other == length && strncmp(p, q, length) == 0;
            q += other + (q[other] == ' ');
        }
        n += !found;
        p += length + (p[length] == ' ');
    }
    return n;
}

/* ---- candidates */

static bool tried(const choosing *c, const char *change)
{
    for (int i = 0; i < c->t->n; i++)
        if (strcmp(c->t->trials[i].change, change) == 0) return true;
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->list[i].change, change) == 0) return true;
    return false;
}

/* I3 */
static bool same_program(const choosing *c, double seconds, int64_t bytes)
{
    for (int i = 0; i < c->t->n; i++)
        if (fabs(expect_priced(c->known, i) - seconds) <= 1e-9 * seconds &&
            c->t->trials[i].peak_bytes == bytes)
            return true;
    for (int i = 0; i < c->n; i++)
        if (fabs(c->list[i].priced - seconds) <= 1e-9 * seconds && c->list[i].peak_bytes == bytes)
            return true;
    return false;
}

/* Does a change have a word of a trial that failed, and that the best trial does not have? */
static bool suspect(const choosing *c, const char *change, const char *failed)
{
    int own = words_apart(change, c->base), rest = 0;
    for (const char *p = change; *p;) {
        size_t n = strcspn(p, " ");
        const char *one = arena_copy(c->scratch, p, n);
        if (words_apart(one, c->base) && words_apart(one, failed)) rest++;
        p += n + (p[n] == ' ');
    }
    return rest < own;
}

/* What failed may fail again with whatever made it fail: others come first. */
static double suspicion(const choosing *c, const char *change)
{
    double by = 1;
    for (int i = 0; i < c->t->n; i++) {
        const trial *x = &c->t->trials[i];
        bool failed = x->end == TRIAL_CRASHED || x->end == TRIAL_FAILED || x->end == TRIAL_SLOW;
        if (failed && suspect(c, change, x->change)) by *= SUSPECT;
    }
    return by;
}

static candidate candidate_of(const choosing *c, const char *change, const try_result *p)
{
    candidate x = {.change = arena_text(c->a, "%s", change),
                   .priced = p->p.step_s,
                   .then = expect(c->known, &p->s->r, p->p.step_s),
                   .peak_bytes = p->p.peak_bytes};
    x.then.seconds *= suspicion(c, change);
    x.gain = c->best ? expected_gain(x.then, c->best->step_s) : 1 / x.then.seconds;
    return x;
}

static void consider(choosing *c, edits e)
{
    if (c->n == CANDIDATES) return;
    arena_place mark = arena_mark(c->scratch);
    const char *change = tune_change(c->t, c->base, e, c->scratch);
    try_result p;
    if (change && !tried(c, change) &&
        tune_price_within(c->t, change, &p, &c->budget, c->scratch)) {
        double peak = (double)p.p.peak_bytes, most = CLEARLY_LESS * (double)c->lacking;
        bool too_much = !p.p.fits || (c->lacking && peak > most);
        if (!too_much && !same_program(c, p.p.step_s, p.p.peak_bytes))
            c->list[c->n++] = candidate_of(c, change, &p);
    }
    arena_release(c->scratch, mark);
}

/* Nothing, and the moves that begin with this knob. */
static int list_moves(edits out[MOVES], knob_id k)
{
    int n = 1;
    out[0] = (edits)NO_EDITS;
    for (move_id m = 0; m < MOVES; m++)
        if (moves[m].by & TUNED && moves[m].e.list[0].k == k) out[n++] = moves[m].e;
    return n;
}

static void consider_all(choosing *c)
{
    recipe *r = ARENA_NEW(c->a, recipe);
    setup *s = ARENA_NEW(c->a, setup);
    error err = {{0}};
    if (!tune_recipe(c->t, c->base, r, c->a) || setup_init(s, r, c->a, &err)) return;
    int64_t batch = s->j.gbs;
    edits recompute[MOVES], dispatch[MOVES];
    int n_recompute = list_moves(recompute, K_RECOMPUTE),
        n_dispatch = list_moves(dispatch, K_DISPATCHER);
    for (int64_t m = 0; m <= batch && m <= 4096; m = m ? 2 * m : 1)
        for (int i = 0; i < n_recompute; i++)
            for (int d = 0; d < n_dispatch; d++) {
                edits e = edits_join(recompute[i], dispatch[d], c->a);
                const edit micro = {K_MBS, EDIT_INT, {.whole = m}};
                consider(c, m ? edits_join((edits){&micro, 1}, e, c->a) : e);
            }
    for (move_id m = 0; m < MOVES; m++) {
        edits e;
        knob_id k = moves[m].e.list[0].k;
        if (moves[m].by & TUNED && k != K_RECOMPUTE && k != K_DISPATCHER &&
            move_edits(&e, m, &s->j, c->a))
            consider(c, e);
    }
}

static void see_lacking(choosing *c)
{
    for (int i = 0; i < c->t->n; i++) {
        const trial *x = &c->t->trials[i];
        bool lacked = x->end == TRIAL_NO_MEMORY;
        if (lacked && (!c->lacking || x->peak_bytes < c->lacking)) c->lacking = x->peak_bytes;
    }
}

/* ---- the choice */

/* I4 */
static bool start_first(choosing *c, tune_next *out)
{
    try_result p;
    if (c->t->n || !tune_price_of(c->t, "", &p, c->scratch) || !p.p.fits) return false;
    out->next = (trial){.from = -1, .change = "", .reason = "it is the recipe as given"};
    out->next.peak_bytes = p.p.peak_bytes;
    return true;
}

/* I1 in words, behind "because": what is expected to be faster, or so uncertain that it may be. */
static const char *reason_of(const choosing *c, const candidate *x)
{
    const trial *b = c->best;
    arena *a = c->a;
    const char *slowest =
        b->evidence ? arena_text(a, "; %s is the wall of trial %d", wall_name(b->wall), b->number)
                    : "";
    const char *takes = arena_text(a, "%s a step (+- %.0f %%)", text_seconds(a, x->then.seconds),
                                   ceil(100 * x->then.band));
    double less = 1 - x->then.seconds / b->step_s;
    if (less > 0)
        return arena_text(a, "it is expected to take %s, %.2g %% less than trial %d%s", takes,
                          100 * less, b->number, slowest);
    return arena_text(
        a, "it is uncertain, and worth measuring: %s expected, %s measured of trial %d%s", takes,
        text_seconds(a, b->step_s), b->number, slowest);
}

static void name_next(choosing *c, tune_next *out, const candidate *x)
{
    const trial *b = c->best;
    const char *reason =
        b ? reason_of(c, x)
          : arena_text(c->a, "%s, and it is the fastest that is predicted to fit",
                       c->t->n ? "no trial was measured yet" : "the recipe as given does not fit");
    out->next = (trial){.number = c->t->n,
                        .from = b ? b->number : -1,
                        .change = x->change,
                        .reason = reason,
                        .expected_s = b ? x->then.seconds : 0,
                        .peak_bytes = x->peak_bytes};
}

/* Measured trials in a row, the last ones, that did not lower the best time by LITTLE. */
static int in_vain(const tune *t)
{
    double best = 0;
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        if (x->end != TRIAL_MEASURED) continue;
        n = best == 0 || x->step_s < best * (1 - LITTLE) ? 0 : n + 1;
        if (best == 0 || x->step_s < best) best = x->step_s;
    }
    return n;
}

/* I2 */
static double worth(const tune *t)
{
    return WORTH * exp2((t->n - FEW) / 2.0);
}

/* Why nothing more is tried, or NULL. */
static const char *why_end(const choosing *c, const candidate *most)
{
    const trial *best = c->best;
    if (!most && best) return "every valid change that fits was tried";
    if (!most) return "no valid recipe fits";
    bool vain = in_vain(c->t) >= IN_VAIN; /* I2 */
    if (!best || (most->gain >= worth(c->t) && !vain)) return NULL;
    if (vain)
        return arena_text(c->a,
                          "the last %d trials gained less than %.0f %%; the most promising "
                          "remaining change is expected at %s a step (+- %.1f %%)",
                          IN_VAIN, 100 * LITTLE, text_seconds(c->a, most->then.seconds),
                          100 * most->then.band);
    return arena_text(c->a,
                      "no untried change is expected to gain %.2f %%: the most promising one is "
                      "expected at %s a step (+- %.1f %%), and the best was measured at %s",
                      100 * worth(c->t), text_seconds(c->a, most->then.seconds),
                      100 * most->then.band, text_seconds(c->a, best->step_s));
}

/* I1 */
static void choose_most(choosing *c, tune_next *out)
{
    const candidate *most = NULL;
    consider_all(c);
    for (int i = 0; i < c->n; i++)
        if (!most || c->list[i].gain > most->gain) most = &c->list[i];
    out->n_left = c->n;
    out->least_s = most ? most->then.seconds : 0;
    out->band = most ? most->then.band : 0;
    out->why = c->t->n < TRIALS_MAX ? why_end(c, most) : "the list of trials is full";
    out->done = out->why != NULL;
    if (!out->done) name_next(c, out, most);
}

void tune_choose(const tune *t, tune_next *out, arena *a)
{
    choosing *c = ARENA_NEW(a, choosing);
    *c = (choosing){.t = t, .best = tune_best(t), .a = a, .scratch = arena_create()};
    *out = (tune_next){.done = false};
    c->base = c->best ? c->best->change : "";
    c->list = ARENA_ARRAY(a, candidate, CANDIDATES);
    c->budget.left = TRY_SECONDS(TUNE_PRICING);
    c->known = expectations_of(t, c->scratch);
    see_lacking(c);
    if (!start_first(c, out)) choose_most(c, out);
    arena_destroy(c->scratch);
}
