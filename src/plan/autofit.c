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
#include "rules/overrides.h"

enum { DOUBLINGS_MOST = 3, WORLD_MOST = 16384 };

typedef struct autofit_run {
    const recipe *given;
    const hardware *hw;
    arena *a;
    int64_t world;
    overrides start;  /* what the rules ask for */
    overrides packed; /* that in a packed step; empty where there is none */
    int64_t peak;     /* of the last try that was legal */
    int64_t least;
    double work; /* of the processor, when the search ends */
    bool late;   /* it ended before its end */
} autofit_run;

/* ---- sets */

static void put_edits(autofit_run *m, overrides *s, edits e)
{
    for (size_t i = 0; i < e.n; i++)
        overrides_put(s, edits_text((edits){&e.list[i], 1}, m->a), m->a);
}

static void put_int(autofit_run *m, overrides *s, knob_id k, int64_t n)
{
    put_edits(m, s, (edits){&(edit){k, EDIT_INT, {.whole = n}}, 1});
}

/* ---- one try */

typedef enum outcome { UNREADABLE, BREAKS_RULE, NO_ROOM, FITS } outcome;

static bool resolve(const autofit_run *m, const overrides *set, setup *s, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    error err;
    return rules_apply(r, m->given, set->list, a) && !setup_init(s, r, a, &err) && s->possible &&
           !s->pipe.why_not;
}

static outcome look(autofit_run *m, const overrides *set)
{
    arena *a = arena_create();
    const try_job asked = {.given = m->given, .hw = m->hw, .depth = TRY_FIT, .world = m->world};
    try_result t;
    outcome out = !try_words(&t, set->list, &asked, a) ? (t.s ? BREAKS_RULE : UNREADABLE)
                  : t.fits                             ? FITS
                                                       : NO_ROOM;
    if (out >= NO_ROOM) {
        m->peak = t.peak_bytes;
        if (!m->least || m->peak < m->least) m->least = m->peak;
    }
    arena_destroy(a);
    return out;
}

/* The same, with what the rules ask for beside it. */
static outcome look_with_rules(autofit_run *m, overrides *set)
{
    outcome out = look(m, set);
    if (out != BREAKS_RULE) return out;
    recipe *r = ARENA_NEW(m->a, recipe);
    const char *const *more;
    if (!rules_apply(r, m->given, set->list, m->a) || !rules_fix(r, m->a, &more)) return out;
    overrides_put_all(set, more, m->a);
    return look(m, set);
}

static bool fits(void *with, const overrides *set)
{
    return look(with, set) == FITS;
}

static bool take(autofit_run *m, const overrides *set, overrides *out)
{
    *out = *set;
    overrides_thin(out, fits, m); /* I1 */
    return look(m, out) == FITS;
}

/* ---- recompute */

/* Modules that are made again: J_RECOMPUTE_MODULES_..., in the order of the recipe. */
enum { MODULES_MAX = 24 };
typedef struct module_list {
    signed char word[MODULES_MAX];
    int n; /* -1: whole layers */
} module_list;

static void put_modules(autofit_run *m, overrides *s, const module_list *x)
{
    const edit list[] = {
        SET_WORD(RECOMPUTE, SELECTIVE),
        {K_RECOMPUTE_MODULES, EDIT_WORDS, {.words = {x->word, (size_t)x->n}}},
        SET_NULL(RECOMPUTE_METHOD),
        SET_NULL(RECOMPUTE_LAYERS),
    };
    put_edits(m, s, (edits){list, sizeof list / sizeof list[0]});
}

static bool has(const module_list *x, int word)
{
    return x->n > 0 && memchr(x->word, word, (size_t)x->n);
}

static module_list modules_of(const autofit_run *m, const overrides *set)
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
static bool climb(autofit_run *m, const overrides *base, overrides *rung)
{
    *rung = *base;
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
        overrides set = *base;
        put_modules(m, &set, &next);
        out = look(m, &set);
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
static void thin(autofit_run *m, const overrides *base, overrides *rung)
{
    module_list have = modules_of(m, rung);
    for (int i = have.n - 1; i >= 0 && have.n > 1; i--) {
        module_list fewer = have;
        leave_out(&fewer, have.word[i]);
        overrides set = *base;
        put_modules(m, &set, &fewer);
        if (look(m, &set) != FITS) continue;
        *rung = set;
        have = fewer;
    }
}

static bool by_recompute(autofit_run *m, const overrides *base, overrides *out)
{
    overrides rung;
    if (climb(m, base, &rung)) {
        thin(m, base, &rung);
        return take(m, &rung, out);
    }
    overrides set = *base;
    put_edits(m, &set, moves[MOVE_FULL_RECOMPUTE].e);
    return look_with_rules(m, &set) == FITS && take(m, &set, out);
}

/* ---- packed steps */

/* Costs nothing, so that where it is legal all else is tried on top of it. */
static bool by_packing(autofit_run *m, const overrides *base, overrides *out)
{
    overrides set = *base;
    put_edits(m, &set, (edits){&(const edit)SET_FLAG(PACK_STEP, true), 1});
    outcome how = look(m, &set);
    if (how == NO_ROOM) m->packed = set;
    return how == FITS && take(m, &set, out);
}

static const overrides *packed_or(const autofit_run *m, const overrides *base)
{
    return m->packed.n ? &m->packed : base;
}

static bool by_packed_recompute(autofit_run *m, const overrides *base, overrides *out)
{
    return by_recompute(m, packed_or(m, base), out);
}

/* ---- sequence chunks */

/* What is recomputed of MLPs and experts, in parts: for our own programs. */
static bool by_chunks(autofit_run *m, const overrides *base, overrides *out)
{
    enum { CHUNKS_MOST = 16 };
    setup *s = ARENA_NEW(m->a, setup);
    base = packed_or(m, base);
    if (!resolve(m, base, s, m->a) || !job_is_ours(&s->j)) return false;
    for (int64_t n = 2; n <= CHUNKS_MOST; n *= 2) {
        overrides set = *base;
        if (n <= s->j.sequence_chunks) continue;
        put_int(m, &set, K_SEQUENCE_CHUNKS, n);
        if (by_recompute(m, &set, out)) return true;
    }
    return false;
}

/* ---- offload */

static bool by_offload(autofit_run *m, const overrides *base, overrides *out)
{
    static const move_id ways[] = {MOVE_EXPERTS_ON_HOST, MOVE_LAYERS_ON_HOST, MOVE_OPT_ON_HOST,
                                   MOVE_ALL_ON_HOST};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        overrides set = *base;
        edits e = moves[ways[i]].e;
        put_edits(m, &set, e);
        outcome got = look_with_rules(m, &set);
        if (got == FITS) return take(m, &set, out);
        if (got == NO_ROOM && edits_name(e, K_OPT_OFFLOAD) && by_recompute(m, &set, out))
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
static overrides resized(autofit_run *m, const overrides *base, const setup *s,
                         const int times[SIZES])
{
    overrides set = *base;
    for (int i = 0; i < SIZES; i++)
        if (times[i]) put_int(m, &set, sizes[i], job_int(&s->j, sizes[i]) << times[i]);
    put_int(m, &set, K_N_GPUS, m->world);
    if (!times[1]) return set;
    put_edits(m, &set, split);
    return set;
}

static bool by_sizes(autofit_run *m, const overrides *base, overrides *out)
{
    setup *s = ARENA_NEW(m->a, setup);
    if (!resolve(m, base, s, m->a)) return false;
    for (int total = 1; total <= DOUBLINGS_MOST; total++)
        for (int code = 0; code < 1 << (2 * SIZES); code++) {
            int times[SIZES], sum = 0;
            for (int i = 0; i < SIZES; i++) sum += times[i] = code >> (2 * i) & 3;
            if (sum != total) continue;
            overrides set = resized(m, base, s, times);
            outcome got = look(m, &set);
            if (got == FITS) return take(m, &set, out);
            if (got == NO_ROOM && by_recompute(m, &set, out)) return true;
        }
    return false;
}

/* ---- the search */

/* The job of a recipe on `world` GPUs: what a search decides is open. */
static bool wanted_of(const autofit_run *m, const overrides *base, int64_t world, recipe *wanted,
                      arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err;
    if (!rules_apply(r, m->given, base->list, a) || setup_init(s, r, a, &err)) return false;
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

static bool by_search(autofit_run *m, const overrides *base, overrides *out)
{
    arena *a = arena_create();
    recipe *wanted = ARENA_NEW(a, recipe), *to = ARENA_NEW(a, recipe);
    search_result *res = ARENA_NEW(a, search_result);
    overrides set = *base;
    bool any = wanted_of(m, base, m->world, wanted, a) && search_job(res, m, wanted, m->work, a) &&
               res->n_best > 0;
    m->late = !any && !res->complete;
    if (any) {
        search_recipe(to, res, wanted, &res->best[0].c);
        for (int k = 0; k < K_COUNT; k++)
            if (axis_decides((knob_id)k))
                overrides_put(&set,
                              arena_text(a, "%s=%s", knobs[k].key, recipe_shown(to, (knob_id)k, a)),
                              m->a);
        /* as they were searched for */
        static const knob_id others[] = {K_N_GPUS, K_GBS, K_PRECISION_AWARE};
        for (int i = 0; i < 3; i++)
            overrides_put(
                &set, arena_text(a, "%s=%s", knobs[others[i]].key, recipe_shown(to, others[i], a)),
                m->a);
    } else if (res->has_miss && (!m->least || res->miss.peak_bytes < m->least)) {
        m->least = res->miss.peak_bytes;
    }
    arena_destroy(a);
    if (!any) return false;
    m->late = true; /* unless what was found can be said in overrides */
    return look_with_rules(m, &set) == FITS && take(m, &set, out);
}

/* ---- all of it */

static autofit_run open_autofit(const recipe *given, const char *const *rules, const hardware *hw,
                                arena *a)
{
    autofit_run m = {.given = given, .hw = hw, .a = a};
    overrides_put_all(&m.start, rules, a);
    setup *s = ARENA_NEW(a, setup);
    if (resolve(&m, &m.start, s, a)) m.world = s->lay.world;
    return m;
}

void autofit_memory(autofit *out, const recipe *given, const char *const *rules, const hardware *hw,
                    double seconds, arena *a)
{
    autofit_run m = open_autofit(given, rules, hw, a);
    m.work = clock_work() + seconds;
    overrides set;
    *out = (autofit){.gpus = m.world, .usable_bytes = hw->usable};
    static bool (*const ways[])(autofit_run *, const overrides *, overrides *) = {
        by_packing, by_packed_recompute, by_chunks, by_offload, by_sizes, by_search};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && m.world && !out->done; i++)
        out->done = ways[i](&m, &m.start, &set);
    out->least_bytes = m.least;
    out->late = m.late;
    if (!out->done) return;
    const char **list = ARENA_ARRAY(a, const char *, set.n + 1);
    memcpy(list, set.list, sizeof *list * (size_t)set.n);
    out->overrides = list;
}

void autofit_more_gpus(autofit *out, const recipe *given, const char *const *rules,
                       const hardware *hw, double seconds, arena *a)
{
    autofit_run m = open_autofit(given, rules, hw, a);
    double work = clock_work() + seconds;
    for (int64_t n = m.world * 2; m.world && n <= WORLD_MOST && clock_work() < work; n *= 2) {
        arena *own = arena_create();
        recipe *wanted = ARENA_NEW(own, recipe);
        search_result *res = ARENA_NEW(own, search_result);
        if (wanted_of(&m, &m.start, n, wanted, own) && search_job(res, &m, wanted, work, own) &&
            res->n_best > 0)
            out->enough_gpus = n;
        arena_destroy(own);
        if (out->enough_gpus) return;
    }
}
