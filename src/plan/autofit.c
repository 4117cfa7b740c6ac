/* autofit.c - what is tried, in which order.
 *
 * I1  A set has one assignment a key: a later one replaces an earlier one.
 * I2  Every set that is returned was applied, checked and summed; without any one of its overrides
 *     it breaks a rule or does not fit.
 * I3  A try costs 2 to 10 ms for hundreds of layers; there are at most about two hundred. */
#include "plan/autofit.h"

#include <string.h>

#include "base/clock.h"
#include "config/target.h"
#include "plan/against.h"

enum { SET_MAX = 256, DOUBLINGS_MOST = 3, WORLD_MOST = 16384 };

typedef struct autofit_set {
    const char *list[SET_MAX + 1]; /* ends with NULL */
    int n;
} autofit_set;

typedef struct autofit_run {
    const recipe *given;
    const hardware *hw;
    arena *a;
    int64_t world;
    autofit_set start;  /* what the rules ask for */
    autofit_set packed; /* that in a packed step; empty where there is none */
    fit now;            /* of the last try that was legal */
    int64_t least;
    double work; /* of the processor, when the search ends */
    bool late;   /* it ended before its end */
} autofit_run;

/* ---- sets */

static bool same_key(const char *x, const char *y)
{
    size_t n = strcspn(x, "=");
    return n == strcspn(y, "=") && strncmp(x, y, n) == 0;
}

static void put(autofit_run *m, autofit_set *s, const char *assignment)
{
    int i = 0;
    while (i < s->n && !same_key(s->list[i], assignment)) i++; /* I1 */
    if (i == SET_MAX) return;
    s->list[i] = arena_copy(m->a, assignment, strlen(assignment));
    if (i == s->n) s->list[++s->n] = NULL;
}

/* Words between spaces. */
static void put_words(autofit_run *m, autofit_set *s, const char *words)
{
    char *copy = arena_copy(m->a, words, strlen(words)), *rest = NULL;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) put(m, s, w);
}

static autofit_set without(const autofit_set *s, int at)
{
    autofit_set x = *s;
    memmove(&x.list[at], &x.list[at + 1], sizeof x.list[0] * (size_t)(x.n - at));
    x.n--;
    return x;
}

/* ---- one try */

typedef enum outcome { UNREADABLE, BREAKS_RULE, NO_ROOM, FITS } outcome;

static bool resolve(const autofit_run *m, const autofit_set *set, setup *s, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    error err;
    return rules_apply(r, m->given, set->list, a) && !setup_init(s, r, a, &err) && s->possible &&
           !s->pipe.why_not;
}

static outcome look(autofit_run *m, const autofit_set *set)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    violations broken;
    fit f;
    outcome out = UNREADABLE;
    if (resolve(m, set, s, a) && s->lay.world == m->world) {
        rules_check(&broken, s, false, a);
        out = BREAKS_RULE;
        if (!broken.n_errors) {
            fit_of(&f, s, &broken, m->hw, a);
            out = f.why_not ? BREAKS_RULE : f.fits ? FITS : NO_ROOM;
        }
    }
    if (out >= NO_ROOM) {
        m->now = f;
        if (!m->least || f.peak_bytes < m->least) m->least = f.peak_bytes;
    }
    arena_destroy(a);
    return out;
}

/* The same, with what the rules ask for beside it. */
static outcome look_with_rules(autofit_run *m, autofit_set *set)
{
    outcome out = look(m, set);
    if (out != BREAKS_RULE) return out;
    recipe *r = ARENA_NEW(m->a, recipe);
    const char *const *more;
    if (!rules_apply(r, m->given, set->list, m->a) || !rules_fix(r, m->a, &more)) return out;
    for (; *more; more++) put(m, set, *more);
    return look(m, set);
}

static bool take(autofit_run *m, const autofit_set *set, autofit_set *out)
{
    *out = *set;
    for (bool dropped = true; dropped;) { /* I2 */
        dropped = false;
        for (int i = out->n - 1; i >= 0; i--) {
            autofit_set less = without(out, i);
            if (look(m, &less) != FITS) continue;
            *out = less;
            dropped = true;
        }
    }
    return look(m, out) == FITS;
}

/* ---- recompute */

#define NO_FULL " model.recompute_method=null model.recompute_num_layers=null"
#define FULL                                                                                       \
    "model.recompute_granularity=full model.recompute_method=uniform "                             \
    "model.recompute_num_layers=1 model.recompute_modules=null"

static const char *module_words(autofit_run *m, const char *const *modules, int n)
{
    textbuf t = text_init(m->a);
    text_add(&t, "model.recompute_granularity=selective model.recompute_modules=[");
    for (int i = 0; i < n; i++) text_add(&t, "%s%s", i ? "," : "", modules[i]);
    text_add(&t, "]" NO_FULL);
    return t.s;
}

static bool has(const char *const *list, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (text_equal(list[i], word)) return true;
    return false;
}

/* The modules that the recipe makes again; -1: whole layers. */
static int modules_of(const autofit_run *m, const autofit_set *set, const char **out, int room)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    int n = 0;
    if (resolve(m, set, s, a)) {
        if (s->j.recompute == J_RECOMPUTE_FULL) n = -1;
        bool some = s->j.recompute == J_RECOMPUTE_SELECTIVE;
        for (int i = 0; some && i < s->j.recompute_modules.n && n < room; i++) {
            const char *w = recipe_item(&s->r, K_RECOMPUTE_MODULES, i).text;
            out[n++] = arena_copy(m->a, w, strlen(w));
        }
    }
    arena_destroy(a);
    return n;
}

static void leave_out(const char **list, int *n, const char *word)
{
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (!text_equal(list[i], word)) list[kept++] = list[i];
    *n = kept;
}

/* One module more a rung, the cheapest for its bytes first. `rung` is left at the highest legal
 * one. */
static bool climb(autofit_run *m, const autofit_set *base, autofit_set *rung)
{
    static const char *const order[] = {"layernorm",      "moe_act", "mla_up_proj", "gdn_norm_out",
                                        "shared_experts", "mlp",     "moe"};
    enum { ROOM = 24 };
    const char *have[ROOM];
    *rung = *base;
    outcome out = look(m, base);
    int n = modules_of(m, base, have, ROOM - 8);
    int64_t peak = out >= NO_ROOM ? m->now.peak_bytes : INT64_MAX;
    for (size_t i = 0; n >= 0 && i < sizeof order / sizeof order[0]; i++) {
        const char *next[ROOM];
        int n_next = n;
        if (has(have, n, order[i])) continue;
        memcpy(next, have, sizeof next);
        if (text_equal(order[i], "moe")) {
            leave_out(next, &n_next, "moe_act");
            leave_out(next, &n_next, "shared_experts");
        }
        next[n_next++] = order[i];
        autofit_set set = *base;
        put_words(m, &set, module_words(m, next, n_next));
        out = look(m, &set);
        if (out < NO_ROOM || m->now.peak_bytes >= peak) continue;
        peak = m->now.peak_bytes;
        *rung = set;
        memcpy(have, next, sizeof next);
        n = n_next;
        if (out == FITS) return true;
    }
    return false;
}

/* A rung holds what the cheaper ones below it brought: what is not needed goes, the dearest
 * first. */
static void thin(autofit_run *m, const autofit_set *base, autofit_set *rung)
{
    enum { ROOM = 24 };
    const char *have[ROOM];
    int n = modules_of(m, rung, have, ROOM);
    for (int i = n - 1; i >= 0 && n > 1; i--) {
        const char *fewer[ROOM];
        int n_fewer = n;
        memcpy(fewer, have, sizeof fewer);
        leave_out(fewer, &n_fewer, have[i]);
        autofit_set set = *base;
        put_words(m, &set, module_words(m, fewer, n_fewer));
        if (look(m, &set) != FITS) continue;
        *rung = set;
        memcpy(have, fewer, sizeof fewer);
        n = n_fewer;
    }
}

static bool by_recompute(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    autofit_set rung;
    if (climb(m, base, &rung)) {
        thin(m, base, &rung);
        return take(m, &rung, out);
    }
    autofit_set full = *base;
    put_words(m, &full, FULL);
    return look_with_rules(m, &full) == FITS && take(m, &full, out);
}

/* ---- packed steps */

/* Costs nothing, so that where it is legal all else is tried on top of it. */
static bool by_packing(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    autofit_set set = *base;
    put(m, &set, arena_text(m->a, "%s=true", knobs[K_PACK_STEP].key));
    outcome how = look(m, &set);
    if (how == NO_ROOM) m->packed = set;
    return how == FITS && take(m, &set, out);
}

static const autofit_set *packed_or(const autofit_run *m, const autofit_set *base)
{
    return m->packed.n ? &m->packed : base;
}

static bool by_packed_recompute(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    return by_recompute(m, packed_or(m, base), out);
}

/* ---- sequence chunks */

/* What is recomputed of MLPs and experts, in parts: for our own programs. */
static bool by_chunks(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    enum { CHUNKS_MOST = 16 };
    setup *s = ARENA_NEW(m->a, setup);
    base = packed_or(m, base);
    if (!resolve(m, base, s, m->a) || !job_is_ours(&s->j)) return false;
    for (int64_t n = 2; n <= CHUNKS_MOST; n *= 2) {
        autofit_set set = *base;
        if (n <= s->j.sequence_chunks) continue;
        put(m, &set, arena_text(m->a, "%s=%lld", knobs[K_SEQUENCE_CHUNKS].key, (long long)n));
        if (by_recompute(m, &set, out)) return true;
    }
    return false;
}

/* ---- offload */

#define ACTIVATIONS(list)                                                                          \
    "model.fine_grained_activation_offloading=true model.offload_modules=[" list "]"
#define OPTIMIZER                                                                                  \
    "optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true"

static bool by_offload(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    static const char *const ways[] = {
        ACTIVATIONS("expert_fc1,moe_act"),
        ACTIVATIONS("expert_fc1,moe_act,core_attn,attn_proj"),
        OPTIMIZER,
        OPTIMIZER " " ACTIVATIONS("expert_fc1,moe_act,core_attn,attn_proj"),
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        autofit_set set = *base;
        put_words(m, &set, ways[i]);
        outcome got = look_with_rules(m, &set);
        if (got == FITS) return take(m, &set, out);
        if (got == NO_ROOM && strstr(ways[i], "optimizer") && by_recompute(m, &set, out))
            return true;
    }
    return false;
}

/* ---- parallel sizes */

static const knob_id sizes[] = {K_EP, K_PP, K_TP, K_CP};
enum { SIZES = 4 };

/* Sizes times powers of two; the split over stages is derived again where PP moves. */
static autofit_set resized(autofit_run *m, const autofit_set *base, const setup *s,
                           const int times[SIZES])
{
    autofit_set set = *base;
    for (int i = 0; i < SIZES; i++)
        if (times[i])
            put(m, &set,
                arena_text(m->a, "%s=%lld", knobs[sizes[i]].key,
                           (long long)(recipe_int(&s->r, sizes[i]) << times[i])));
    put(m, &set, arena_text(m->a, "%s=%lld", knobs[K_N_GPUS].key, (long long)m->world));
    if (!times[1]) return set;
    static const knob_id split[] = {K_PP_LAYOUT,    K_VPP,         K_LAYERS_PER_VSTAGE,
                                    K_FIRST_LAYERS, K_LAST_LAYERS, K_ACCOUNT_EMBEDDING,
                                    K_ACCOUNT_LOSS};
    for (size_t i = 0; i < sizeof split / sizeof split[0]; i++)
        put(m, &set, arena_text(m->a, "%s=null", knobs[split[i]].key));
    return set;
}

static bool by_sizes(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    setup *s = ARENA_NEW(m->a, setup);
    if (!resolve(m, base, s, m->a)) return false;
    for (int total = 1; total <= DOUBLINGS_MOST; total++)
        for (int code = 0; code < 1 << (2 * SIZES); code++) {
            int times[SIZES], sum = 0;
            for (int i = 0; i < SIZES; i++) sum += times[i] = code >> (2 * i) & 3;
            if (sum != total) continue;
            autofit_set set = resized(m, base, s, times);
            outcome got = look(m, &set);
            if (got == FITS) return take(m, &set, out);
            if (got == NO_ROOM && by_recompute(m, &set, out)) return true;
        }
    return false;
}

/* ---- the search */

/* The job of a recipe on `world` GPUs: what a search decides is open. */
static bool wanted_of(const autofit_run *m, const autofit_set *base, int64_t world, recipe *wanted,
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
        if (recipe_given(&s->r, kept[i]))
            recipe_set(wanted, kept[i], s->r.knob[kept[i]].v, "as it is");
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

static bool by_search(autofit_run *m, const autofit_set *base, autofit_set *out)
{
    arena *a = arena_create();
    recipe *wanted = ARENA_NEW(a, recipe), *to = ARENA_NEW(a, recipe);
    search_result *res = ARENA_NEW(a, search_result);
    autofit_set set = *base;
    bool any = wanted_of(m, base, m->world, wanted, a) && search_job(res, m, wanted, m->work, a) &&
               res->n_best > 0;
    m->late = !any && !res->complete;
    if (any) {
        search_recipe(to, res, wanted, &res->best[0].c);
        for (int k = 0; k < K_COUNT; k++)
            if (path_decides((knob_id)k))
                put(m, &set, arena_text(m->a, "%s=%s", knobs[k].key, value_text(a, to->knob[k].v)));
        /* as they were searched for */
        static const knob_id others[] = {K_N_GPUS, K_GBS, K_PRECISION_AWARE};
        for (int i = 0; i < 3; i++)
            put(m, &set,
                arena_text(m->a, "%s=%s", knobs[others[i]].key,
                           value_text(a, to->knob[others[i]].v)));
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
    for (; *rules; rules++) put(&m, &m.start, *rules);
    setup *s = ARENA_NEW(a, setup);
    if (resolve(&m, &m.start, s, a)) m.world = s->lay.world;
    return m;
}

void autofit_memory(autofit *out, const recipe *given, const char *const *rules, const hardware *hw,
                    double seconds, arena *a)
{
    autofit_run m = open_autofit(given, rules, hw, a);
    m.work = clock_work() + seconds;
    autofit_set set;
    *out = (autofit){.gpus = m.world, .usable_bytes = hw->usable};
    static bool (*const ways[])(autofit_run *, const autofit_set *, autofit_set *) = {
        by_packing, by_packed_recompute, by_chunks, by_offload, by_sizes, by_search};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && m.world && !out->done; i++)
        out->done = ways[i](&m, &m.start, &set);
    out->least_bytes = m.least;
    out->late = m.late;
    if (!out->done) return;
    const char **list = ARENA_ARRAY(a, const char *, set.n + 1);
    memcpy(list, set.list, sizeof *list * (size_t)set.n);
    out->overrides = list;
    out->after = m.now;
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
