/* autofit.c - what is tried, in which order.
 *
 * I1  Every set that is returned was applied, checked and summed; without any one of its overrides
 *     it breaks a rule or does not fit.
 * I2  A try costs 2 to 10 ms for hundreds of layers; there are at most about two hundred. */
#include "plan/autofit.h"

#include <string.h>

#include "base/clock.h"
#include "config/job_of.h"
#include "config/target.h"
#include "ir/segment.h"
#include "plan/against.h"
#include "plan/moves.h"
#include "predict/try.h"

enum { DOUBLINGS_MOST = 3, WORLD_MOST = 16384 };

typedef struct autofit_run {
    const recipe *given;
    const hardware *hw;
    arena *a;
    int64_t world;
    edits start;  /* what the rules ask for */
    edits packed; /* that in a packed step; empty where there is none */
    int64_t peak; /* of the last try that was legal */
    int64_t least;
    double work; /* of the processor, when the search ends */
    bool late;   /* it ended before its end */
} autofit_run;

/* ---- sets */

static edits with(autofit_run *m, edits set, edits e)
{
    for (size_t i = 0; i < e.n; i++) set = edits_put(set, e.list[i], m->a);
    return set;
}

static edits with_int(autofit_run *m, edits set, knob_id k, int64_t n)
{
    return edits_put(set, (edit){k, EDIT_INT, {.whole = n}}, m->a);
}

/* ---- one try */

typedef enum outcome { UNREADABLE, BREAKS_RULE, NO_ROOM, FITS } outcome;

static bool resolve(const autofit_run *m, edits set, setup *s, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    error err;
    return rules_apply(r, m->given, set, a) && !setup_init(s, r, a, &err) && s->possible &&
           !s->pipe.why_not;
}

static outcome look(autofit_run *m, edits set)
{
    arena *a = arena_create();
    const try_job asked = {.given = m->given, .hw = m->hw, .depth = TRY_FIT, .world = m->world};
    try_result t;
    outcome out = !try_edits(&t, set, &asked, a) ? (t.s ? BREAKS_RULE : UNREADABLE)
                  : t.fits                       ? FITS
                                                 : NO_ROOM;
    if (out >= NO_ROOM) {
        m->peak = t.peak_bytes;
        if (!m->least || m->peak < m->least) m->least = m->peak;
    }
    arena_destroy(a);
    return out;
}

/* The same, with what the rules ask for beside it. */
static outcome look_with_rules(autofit_run *m, edits *set)
{
    outcome out = look(m, *set);
    if (out != BREAKS_RULE) return out;
    recipe *r = ARENA_NEW(m->a, recipe);
    edits more;
    if (!rules_apply(r, m->given, *set, m->a) || !rules_fix(r, m->a, &more)) return out;
    *set = with(m, *set, more);
    return look(m, *set);
}

static bool fits(void *with, edits set)
{
    return look(with, set) == FITS;
}

static bool take(autofit_run *m, edits set, edits *out)
{
    *out = edits_thin(set, fits, m, m->a); /* I1 */
    return look(m, *out) == FITS;
}

/* ---- recompute */

/* Modules that are made again: J_RECOMPUTE_MODULES_..., in the order of the recipe. */
enum { MODULES_MAX = 24 };
typedef struct module_list {
    signed char word[MODULES_MAX];
    int n; /* -1: whole layers */
} module_list;

static edits with_modules(autofit_run *m, edits set, const module_list *x)
{
    const edit list[] = {
        SET_WORD(RECOMPUTE, SELECTIVE),
        {K_RECOMPUTE_MODULES, EDIT_WORDS, {.words = {x->word, (size_t)x->n}}},
        SET_NULL(RECOMPUTE_METHOD),
        SET_NULL(RECOMPUTE_LAYERS),
    };
    return with(m, set, edits_kept((edits){list, sizeof list / sizeof list[0]}, m->a));
}

static bool has(const module_list *x, int word)
{
    return x->n > 0 && memchr(x->word, word, (size_t)x->n);
}

static module_list modules_of(const autofit_run *m, edits set)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    module_list x = {.n = 0};
    if (resolve(m, set, s, a)) {
        if (s->j.recompute == J_RECOMPUTE_FULL) x.n = -1;
        bool some = s->j.recompute == J_RECOMPUTE_SELECTIVE;
        for (int i = 0; some && i < s->j.recompute_modules.n && x.n < MODULES_MAX - 8; i++)
            x.word[x.n++] = s->j.recompute_modules.item[i];
    }
    arena_destroy(a);
    return x;
}

static void leave_out(module_list *x, int word)
{
    int kept = 0;
    for (int i = 0; i < x->n; i++)
        if (x->word[i] != word) x->word[kept++] = x->word[i];
    x->n = kept;
}

/* One module more a rung, the cheapest for its bytes first. `rung` is left at the highest legal
 * one. */
static bool climb(autofit_run *m, edits base, edits *rung)
{
    *rung = base;
    outcome out = look(m, base);
    module_list have = modules_of(m, base);
    int64_t peak = out >= NO_ROOM ? m->peak : INT64_MAX;
    for (unsigned i = 1; have.n >= 0 && drop_rung(i) != DROP_FULL; i++) {
        module_list next = have;
        const drop_module *more = drop_modules;
        while (more->rung != i) more++;
        if (has(&have, more->listed)) continue;
        for (int k = 0; k < DROP_MODULES; k++)
            if (more->covers & drop_modules[k].drop) leave_out(&next, drop_modules[k].listed);
        next.word[next.n++] = (signed char)more->listed;
        edits set = with_modules(m, base, &next);
        out = look(m, set);
        if (out < NO_ROOM || m->peak >= peak) continue;
        peak = m->peak;
        *rung = set;
        have = next;
        if (out == FITS) return true;
    }
    return false;
}

/* A rung holds what the cheaper ones below it brought: what is not needed goes, the dearest
 * first. */
static void thin(autofit_run *m, edits base, edits *rung)
{
    module_list have = modules_of(m, *rung);
    for (int i = have.n - 1; i >= 0 && have.n > 1; i--) {
        module_list fewer = have;
        leave_out(&fewer, have.word[i]);
        edits set = with_modules(m, base, &fewer);
        if (look(m, set) != FITS) continue;
        *rung = set;
        have = fewer;
    }
}

static bool by_recompute(autofit_run *m, edits base, edits *out)
{
    edits rung;
    if (climb(m, base, &rung)) {
        thin(m, base, &rung);
        return take(m, rung, out);
    }
    edits set = with(m, base, moves[MOVE_FULL_RECOMPUTE].e);
    return look_with_rules(m, &set) == FITS && take(m, set, out);
}

/* ---- packed steps */

/* Costs nothing, so that where it is legal all else is tried on top of it. */
static bool by_packing(autofit_run *m, edits base, edits *out)
{
    edits set = edits_put(base, (edit)SET_FLAG(PACK_STEP, true), m->a);
    outcome how = look(m, set);
    if (how == NO_ROOM) m->packed = set;
    return how == FITS && take(m, set, out);
}

static edits packed_or(const autofit_run *m, edits base)
{
    return m->packed.n ? m->packed : base;
}

static bool by_packed_recompute(autofit_run *m, edits base, edits *out)
{
    return by_recompute(m, packed_or(m, base), out);
}

/* ---- sequence chunks */

/* What is recomputed of MLPs and experts, in parts: for our own programs. */
static bool by_chunks(autofit_run *m, edits base, edits *out)
{
    enum { CHUNKS_MOST = 16 };
    setup *s = ARENA_NEW(m->a, setup);
    base = packed_or(m, base);
    if (!resolve(m, base, s, m->a) || !job_is_ours(&s->j)) return false;
    for (int64_t n = 2; n <= CHUNKS_MOST; n *= 2) {
        if (n <= s->j.sequence_chunks) continue;
        if (by_recompute(m, with_int(m, base, K_SEQUENCE_CHUNKS, n), out)) return true;
    }
    return false;
}

/* ---- offload */

static bool by_offload(autofit_run *m, edits base, edits *out)
{
    static const move_id ways[] = {MOVE_EXPERTS_ON_HOST, MOVE_LAYERS_ON_HOST, MOVE_OPT_ON_HOST,
                                   MOVE_ALL_ON_HOST};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        edits e = moves[ways[i]].e, set = with(m, base, e);
        outcome got = look_with_rules(m, &set);
        if (got == FITS) return take(m, set, out);
        if (got == NO_ROOM && edits_name(e, K_OPT_OFFLOAD) && by_recompute(m, set, out))
            return true;
    }
    return false;
}

/* ---- parallel sizes */

static const knob_id sizes[] = {K_EP, K_PP, K_TP, K_CP};
enum { SIZES = 4 };

static const edits split =
    EDITS(SET_NULL(PP_LAYOUT), SET_NULL(VPP), SET_NULL(LAYERS_PER_VSTAGE), SET_NULL(FIRST_LAYERS),
          SET_NULL(LAST_LAYERS), SET_NULL(ACCOUNT_EMBEDDING), SET_NULL(ACCOUNT_LOSS));

/* Sizes times powers of two; the split over stages is derived again where PP moves. */
static edits resized(autofit_run *m, edits set, const setup *s, const int times[SIZES])
{
    for (int i = 0; i < SIZES; i++)
        if (times[i]) set = with_int(m, set, sizes[i], job_int(&s->j, sizes[i]) << times[i]);
    set = with_int(m, set, K_N_GPUS, m->world);
    return times[1] ? with(m, set, split) : set;
}

static bool by_sizes(autofit_run *m, edits base, edits *out)
{
    setup *s = ARENA_NEW(m->a, setup);
    if (!resolve(m, base, s, m->a)) return false;
    for (int total = 1; total <= DOUBLINGS_MOST; total++)
        for (int code = 0; code < 1 << (2 * SIZES); code++) {
            int times[SIZES], sum = 0;
            for (int i = 0; i < SIZES; i++) sum += times[i] = code >> (2 * i) & 3;
            if (sum != total) continue;
            edits set = resized(m, base, s, times);
            outcome got = look(m, set);
            if (got == FITS) return take(m, set, out);
            if (got == NO_ROOM && by_recompute(m, set, out)) return true;
        }
    return false;
}

/* ---- the search */

/* The job of a recipe on `world` GPUs: what a search decides is open. */
static bool wanted_of(const autofit_run *m, edits base, int64_t world, recipe *wanted, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err;
    if (!rules_apply(r, m->given, base, a) || setup_init(s, r, a, &err)) return false;
    against_open(wanted, r);
    static const knob_id kept[] = {K_GPU, K_SEQ, K_GBS,
                                   K_PRECISION}; /* which a search may choose */
    for (int i = 0; i < 4; i++)
        if (job_has(&s->j, kept[i])) recipe_keep(wanted, &s->r, kept[i], "as it is");
    recipe_set(wanted, K_N_GPUS, value_of_int(world), "as it is");
    return true;
}

static bool search_job(search_result *res, const autofit_run *m, const recipe *wanted, double work,
                       arena *a)
{
    error err;
    search_options o = {.hw = m->hw, .only_fit = true, .best = 1, .work = work};
    return !search_run(res, wanted, &o, a, &err);
}

static bool by_search(autofit_run *m, edits base, edits *out)
{
    arena *a = arena_create();
    recipe *wanted = ARENA_NEW(a, recipe), *to = ARENA_NEW(a, recipe);
    search_result *res = ARENA_NEW(a, search_result);
    edits set = base;
    bool any = wanted_of(m, base, m->world, wanted, a) && search_job(res, m, wanted, m->work, a) &&
               res->n_best > 0;
    m->late = !any && !res->complete;
    if (any) {
        search_recipe(to, res, wanted, &res->best[0].c);
        /* what it decides, then these as they were searched for */
        static const knob_id others[] = {K_N_GPUS, K_GBS, K_PRECISION_AWARE};
        for (int k = 0; k < K_COUNT + 3; k++) {
            knob_id x = k < K_COUNT ? (knob_id)k : others[k - K_COUNT];
            edit e;
            if ((k < K_COUNT && !axis_decides(x)) ||
                !edit_read(&e, arena_text(m->a, "%s=%s", knobs[x].key, recipe_shown(to, x, m->a)),
                           m->a))
                continue;
            set = edits_put(set, e, m->a);
        }
    } else if (res->has_miss && (!m->least || res->miss.peak_bytes < m->least)) {
        m->least = res->miss.peak_bytes;
    }
    arena_destroy(a);
    if (!any) return false;
    m->late = true; /* unless what was found can be said in overrides */
    return look_with_rules(m, &set) == FITS && take(m, set, out);
}

/* ---- all of it */

static autofit_run open_autofit(const recipe *given, edits rules, const hardware *hw, arena *a)
{
    autofit_run m = {.given = given, .hw = hw, .start = rules, .a = a};
    setup *s = ARENA_NEW(a, setup);
    if (resolve(&m, m.start, s, a)) m.world = s->lay.world;
    return m;
}

void autofit_memory(autofit *out, const recipe *given, edits rules, const hardware *hw,
                    double seconds, arena *a)
{
    autofit_run m = open_autofit(given, rules, hw, a);
    m.work = clock_work() + seconds;
    edits set;
    *out = (autofit){.gpus = m.world, .usable_bytes = hw->usable};
    static bool (*const ways[])(autofit_run *, edits, edits *) = {
        by_packing, by_packed_recompute, by_chunks, by_offload, by_sizes, by_search};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && m.world && !out->done; i++)
        out->done = ways[i](&m, m.start, &set);
    out->least_bytes = m.least;
    out->late = m.late;
    if (out->done) out->e = set;
}

void autofit_more_gpus(autofit *out, const recipe *given, edits rules, const hardware *hw,
                       double seconds, arena *a)
{
    autofit_run m = open_autofit(given, rules, hw, a);
    double work = clock_work() + seconds;
    for (int64_t n = m.world * 2; m.world && n <= WORLD_MOST && clock_work() < work; n *= 2) {
        arena *own = arena_create();
        recipe *wanted = ARENA_NEW(own, recipe);
        search_result *res = ARENA_NEW(own, search_result);
        if (wanted_of(&m, m.start, n, wanted, own) && search_job(res, &m, wanted, work, own) &&
            res->n_best > 0)
            out->enough_gpus = n;
        arena_destroy(own);
        if (out->enough_gpus) return;
    }
}
