/* plan_refuse.c - a request that no layout can meet: what stands in the way, and what would do.
 *
 * Rules that read nothing that is searched are found before the search and named all at once, each
 * with a repair. Where sizes and pins leave no layout at all, the rules are asked about recipes in
 * which the rest is filled. */
#include <string.h>

#include "base/clock.h"
#include "config/appended.h"
#include "config/job_of.h"
#include "library/plan_parts.h"

enum { PINS_MOST = 8 };

/* The first error of one rule. */
static const violation *error_of(const violations *v, const char *id)
{
    for (int i = 0; i < v->n_errors; i++)
        if (strcmp(v->list[i].rule->id, id) == 0) return &v->list[i];
    return NULL;
}

static bool by_words(const recipe *r, knob_id k)
{
    return r->knob[k].from == FROM_USER && text_equal(r->knob[k].why, PLAN_BY_WORDS);
}

static bool changes_pin(const recipe *given, const edit *e)
{
    return e->k != K_COUNT && by_words(given, e->k);
}

/* ---- repairs */

/* A search of the job that asks no more than whether there is a layout: one that fits, or that the
 * rules allow. */
static bool search_quickly(search_result *out, const recipe *asked, const search_options *o,
                           arena *a)
{
    enum { SECONDS = 2 };
    search_options quick = *o;
    error err = {{0}};
    quick.only_fit = true;
    quick.until = clock_seconds() + SECONDS;
    return search_run(out, asked, &quick, a, &err) == OK || out->never.n > 0;
}

static bool some_layout(const recipe *r, const search_options *o, arena *a)
{
    search_result *there = ARENA_NEW(a, search_result);
    return search_quickly(there, r, o, a) && there->counts.legal > 0;
}

/* With these edits, does the rule allow layouts, and no other rule forbid all? */
static bool repairs(const plan_answer *p, const search_options *o, const violation *v, edits e,
                    arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    search_result *there = ARENA_NEW(a, search_result);
    if (!rules_apply(r, p->given, e, a) || !search_quickly(there, r, o, a)) return false;
    for (int i = 0; i < there->never.n; i++) {
        const rule *left = there->never.list[i].rule;
        if (left == v->rule || !error_of(&p->result->never, left->id)) return false;
    }
    return there->never.n || there->counts.legal > 0;
}

/* The first repair that does, of what was pinned before others; as words for this command. */
static const char *repair_of(const plan_answer *p, const search_options *o, const violation *v,
                             arena *a)
{
    for (int of_pins = 1; of_pins >= 0; of_pins--)
        for (int i = 0; i < v->n_repairs; i++)
            if (changes_pin(p->given, &v->repairs[i].list[0]) == of_pins &&
                repairs(p, o, v, v->repairs[i], a))
                return words_text(recipe_appended(p->given, edits_words(v->repairs[i], a), a), a);
    return NULL;
}

static status say(error *err, const plan_answer *p, const search_options *o, const violation *v,
                  arena *a)
{
    const char *repair = repair_of(p, o, v, a);
    return error_set(err, ERR_RULE, "there is no valid layout: %s%s%s", v->message,
                     repair ? "; a repair: " : "", repair ? repair : "");
}

/* ---- rules that no layout can satisfy, or that every layout breaks that fits */

/* The rules that stood against what the search found, each at the first layout that broke it. */
static void list_breaks(violations *out, const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    out->list = ARENA_ARRAY(a, violation, r->n_breaks + 1);
    for (int i = 0; i < r->n_breaks; i++) {
        recipe *one = ARENA_NEW(a, recipe);
        setup *s = ARENA_NEW(a, setup);
        error err = {{0}};
        violations v;
        search_recipe(one, p->result, p->given, &r->breaks[i].c);
        if (setup_init(s, one, a, &err)) continue;
        rules_check(&v, s, false, a);
        const violation *bad = error_of(&v, r->breaks[i].rule->id);
        if (bad) out->list[out->n++] = *bad;
    }
    out->n_errors = out->n;
}

bool plan_refuses(plan_answer *p, const search_options *o, arena *a)
{
    const search_result *r = p->result;
    refusal *x = &p->refused;
    *x = (refusal){.by = r->never, .always = r->never.n > 0};
    if (!x->always && !r->n_best && r->complete) list_breaks(&x->by, p, a);
    const char **repairs = ARENA_ARRAY(a, const char *, x->by.n);
    for (int i = 0; i < x->by.n; i++) repairs[i] = repair_of(p, o, &x->by.list[i], a);
    x->repairs = repairs;
    return x->by.n > 0;
}

const char *plan_refusal_text(const refusal *x, arena *a)
{
    textbuf t = text_init(a);
    text_add(&t, "there is no valid layout: %s",
             x->always ? "these rules are broken by every layout"
                       : "every layout that fits breaks one of these rules");
    for (int i = 0; i < x->by.n; i++) {
        const violation *v = &x->by.list[i];
        text_add(&t, "\n    error %s: %s%s%s", v->rule->id, v->message,
                 x->repairs[i] ? "; a repair: " : "", x->repairs[i] ? x->repairs[i] : "");
    }
    return t.s;
}

/* ---- no layout is legal */

/* Two ways to fill what is open: everything as small as it can be, and with parts of everything. */
static void fill_open(recipe *r, bool parts)
{
    static const struct {
        knob_id k;
        int64_t n;
    } sizes[] = {{K_EP, 8}, {K_PP, 2}, {K_VPP, 2}};
    for (size_t i = 0; parts && i < sizeof sizes / sizeof sizes[0]; i++)
        if (r->knob[sizes[i].k].from != FROM_USER)
            recipe_set(r, sizes[i].k, value_of_int(sizes[i].n), "an example");
    if (!recipe_is(r, K_RECOMPUTE, "full")) return;
    if (r->knob[K_RECOMPUTE_METHOD].from != FROM_USER)
        recipe_set(r, K_RECOMPUTE_METHOD, value_of_text("uniform"), "an example");
    if (r->knob[K_RECOMPUTE_LAYERS].from != FROM_USER)
        recipe_set(r, K_RECOMPUTE_LAYERS, value_of_int(1), "an example");
}

static status broken_rules(violations *v, const plan_answer *p, bool parts, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    recipe *r = ARENA_NEW(a, recipe);
    *r = *p->given;
    int first = p->result->maker ? p->result->maker->precisions[0] : J_PRECISION_NULL;
    const char *precision = job_word(K_PRECISION, first);
    if (precision) recipe_set(r, K_PRECISION, value_of_text(precision), "the platform's");
    fill_open(r, parts);
    TRY(setup_init(s, r, a, err));
    rules_check(v, s, false, a);
    return OK;
}

/* The first rule that is broken however the rest is filled: it is what was asked that breaks it.
 * Whether sizes divide the GPUs and the batch is another question. */
static const violation *always_broken(const violations *small, const violations *parts)
{
    for (int i = 0; i < small->n_errors; i++) {
        const char *id = small->list[i].rule->id;
        bool sizes = strncmp(id, "world-divides", 13) == 0 || strcmp(id, "batch-divides") == 0;
        if (!sizes && error_of(parts, id)) return &small->list[i];
    }
    return NULL;
}

/* Pins of which one alone, left out, would leave layouts. */
static const char *to_leave_out(const plan_answer *p, const search_options *o, arena *a)
{
    textbuf t = text_init(a);
    recipe *r = ARENA_NEW(a, recipe);
    int seen = 0;
    for (int k = 0; k < K_COUNT && seen < PINS_MOST; k++) {
        const setting *x = &p->given->knob[k];
        if (!by_words(p->given, (knob_id)k)) continue;
        *r = *p->given;
        r->knob[k] = (setting){.from = FROM_NOTHING};
        seen++;
        if (!axis_decides((knob_id)k) || !some_layout(r, o, a)) continue;
        text_add(&t, "%s%s=%s", t.n ? ", " : "", knobs[k].key, value_text(a, x->v));
    }
    return t.n ? t.s : NULL;
}

/* A length near the wanted one that can be laid out. */
static int64_t near_length(const plan_answer *p, const search_options *o, arena *a)
{
    int64_t seq = recipe_int(p->given, K_SEQ);
    recipe *r = ARENA_NEW(a, recipe);
    for (int64_t unit = 128; unit >= 8; unit /= 4)
        for (int up = 0; up < 2; up++) {
            int64_t other = (seq / unit + up) * unit;
            *r = *p->given;
            recipe_set(r, K_SEQ, value_of_int(other), "a length nearby");
            if (other > 0 && other != seq && some_layout(r, o, a)) return other;
        }
    return 0;
}

static status say_sizes(const plan_answer *p, const search_options *o, arena *a, error *err)
{
    int64_t near = near_length(p, o, a);
    const char *wish =
        near ? arena_text(a, "--seq %lld works", (long long)near)
             : "other numbers of GPUs or samples (--gpus, --gbs) with more factors of two may work";
    return error_set(err, ERR_RULE,
                     "there is no valid layout: no sizes divide %lld GPUs, a sequence of %lld and "
                     "a batch of %lld with the heads and experts of %s at once; %s",
                     (long long)p->world, (long long)recipe_int(p->given, K_SEQ),
                     (long long)recipe_int(p->given, K_GBS), p->given->name, wish);
}

status plan_why_none(const plan_answer *p, const search_options *o, arena *a, error *err)
{
    violations small = {0}, parts = {0};
    if (broken_rules(&small, p, false, a, err) || broken_rules(&parts, p, true, a, err))
        return ERR_RULE;
    const violation *why = always_broken(&small, &parts);
    if (why) return say(err, p, o, why, a);
    const violation *first = small.n_errors ? &small.list[0] : NULL;
    const char *pins = to_leave_out(p, o, a);
    if (!pins) return first ? say(err, p, o, first, a) : say_sizes(p, o, a, err);
    return error_set(err, ERR_RULE,
                     "there is no valid layout: the pinned knobs exclude every layout%s%s; leave "
                     "one of these pins out: %s",
                     first ? ": " : "", first ? first->message : "", pins);
}

/* ---- what was pinned, and is not in the winner */

/* Lists of modules are sets. */
static bool same_set(value x, value y)
{
    if (x.kind != V_LIST || y.kind != V_LIST || x.list.n != y.list.n) return value_equal(x, y);
    for (int i = 0; i < x.list.n; i++) {
        bool there = false;
        for (int k = 0; k < y.list.n; k++)
            there = there || value_equal(x.list.items[i], y.list.items[k]);
        if (!there) return false;
    }
    return true;
}

static bool is_kept(const setting *pin, const setting *winner, knob_id k)
{
    bool set = k == K_RECOMPUTE_MODULES || k == K_GRAPH_MODULES;
    return set ? same_set(pin->v, winner->v) : value_equal(pin->v, winner->v);
}

const char *plan_lost_pins(const plan_answer *p, arena *a)
{
    textbuf t = text_init(a);
    recipe *r = ARENA_NEW(a, recipe);
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    for (int k = 0; k < K_COUNT; k++) {
        const setting *x = &p->given->knob[k];
        if (x->from != FROM_USER || is_kept(x, &r->knob[k], (knob_id)k)) continue;
        text_add(&t, "%s%s=%s (the first has %s)", t.n ? ", " : "", knobs[k].key,
                 value_text(a, x->v), value_text(a, r->knob[k].v));
    }
    return t.n ? t.s : NULL;
}
