/* visits.c - rules that may be broken several times, or whose repairs depend on how.
 *
 * I1  What people wrote stands in these messages and repairs as it is, never as a template.
 * I2  The split keeps still where another rule has named the reason already. */
#include <inttypes.h>
#include <string.h>

#include "config/models/models.h"
#include "config/target.h"
#include "rules/call.h"
#include "rules/words.h"

static void repair_one(rule_call *call, violation *v, const char *key, const char *text)
{
    const char *assignment = arena_text(call->a, "%s=%s", key, text);
    rule_repair(call, v, &assignment, 1);
}

/* ---- values out of range */

/* Without these there is no model: null is no repair. */
static bool needed(knob_id k)
{
    return k == K_LAYERS || k == K_HIDDEN || k == K_HEADS || k == K_VOCAB;
}

static bool is_parallel_size(knob_id k)
{
    for (int i = 0; i < N_SIZES; i++)
        if (near_knobs[i] == k) return true;
    return false;
}

/* The largest there is was never meant by one that is larger still. */
static bool is_size(knob_id k)
{
    return is_parallel_size(k) || k == K_N_GPUS || k == K_VPP || k == K_MBS || k == K_GBS;
}

/* Lists with an entry a layer cannot survive another number of layers. */
static void repair_value(rule_call *call, violation *v, knob_id k, const char *text)
{
    const setup *s = call->s;
    const struct {
        knob_id k;
        bool listed;
    } lists[] = {{K_MOE_FREQ, LISTED(MOE_FREQ)},
                 {K_LINEAR_FREQ, LISTED(LINEAR_FREQ)},
                 {K_WINDOW_SKIP, LISTED(WINDOW_SKIP)},
                 {K_CP_COMM, LISTED(CP_COMM)}};
    enum { N_LISTS = sizeof lists / sizeof lists[0] };
    const char *assignments[1 + N_LISTS] = {arena_text(call->a, "%s=%s", knobs[k].key, text)};
    int n = 1;
    for (int i = 0; k == K_LAYERS && i < N_LISTS; i++)
        if (lists[i].listed && recipe_by_user(&s->r, lists[i].k))
            assignments[n++] = arena_text(call->a, "%s=null", knobs[lists[i].k].key);
    rule_repair(call, v, assignments, n);
}

/* The bound of a parallel size need not go with the rest (TP 1 where the batch is for TP 32): the
 * nearest sizes that do. */
static void repair_sizes(rule_call *call, violation *found)
{
    const char *assignments[N_SIZES];
    near_layout nearest;
    int n = 0;
    if (!near_layouts(call->s, &nearest, 1)) return;
    for (int i = 0; i < N_SIZES; i++)
        if (near_layout_changes(call->s, &nearest, i))
            assignments[n++] =
                arena_text(call->a, "%s=%" PRId64, knobs[near_knobs[i]].key, nearest.size[i]);
    if (n) rule_repair(call, found, assignments, n);
}

/* A word that resembles none of those allowed (bf16 for fp32 or fp64) is no slip of the pen: then
 * our default is a better guess than the nearest spelling. */
static value guess(rule_call *call, knob_id k, value v, value near)
{
    if (knobs[k].kind != ENUM || v.kind != V_TEXT) return near;
    value ours = knob_default(call->a, k, MOEFOLD);
    bool slip = near.kind == V_TEXT && 2 * text_distance(v.text, near.text) < (int)strlen(v.text);
    return slip || ours.kind != V_TEXT ? near : ours;
}

/* What was meant by a word that is no slip of the pen. */
static void repair_meant(rule_call *call, violation *found, knob_id k, value v)
{
    static const struct {
        knob_id k;
        const char *words, *repair;
    } meant[] = {
#define MEANT(knob, words, repair) {K_##knob, words, repair},
#include "rules/meant.def"
#undef MEANT
    };
    for (size_t i = 0; v.kind == V_TEXT && i < sizeof meant / sizeof meant[0]; i++)
        if (meant[i].k == k && text_in(meant[i].words, '|', v.text))
            rule_alternative(call, found, meant[i].repair);
}

static void report_value(rule_call *call, knob_id k, value v, value near)
{
    const char *key = knobs[k].key;
    violation *found = rule_report(
        call, arena_text(call->a, "%s=%.300s is not allowed; %s %s", key, value_text(call->a, v),
                         knobs[k].kind == ENUM ? "one of" : "the range is", knobs[k].allowed));
    value own;
    repair_meant(call, found, k, v);
    if (model_has_own(&call->s->r, k, call->a, &own))
        repair_value(call, found, k, value_text(call->a, own));
    near = guess(call, k, v, near);
    bool far = is_size(k) && v.kind == V_INT && v.whole > 0;
    if (far) repair_value(call, found, k, "null");
    if (near.kind != V_NULL) repair_value(call, found, k, value_text(call->a, near));
    if (is_parallel_size(k)) repair_sizes(call, found);
    if (!needed(k)) repair_value(call, found, k, "null");
}

static void visit_values_from(rule_call *call, bool derived)
{
    const recipe *r = &call->s->r;
    for (knob_id k = 0; k < K_COUNT; k++) {
        value near;
        if ((recipe_from(r, k) == FROM_DERIVED) != derived) continue;
        const setting *wrong = recipe_out_of_range(r, k, call->a, &near);
        if (wrong) report_value(call, k, wrong->v, near);
    }
}

/* A derived value mostly follows from one that is out of range itself: that one is named. */
void visit_values(rule_call *call)
{
    int before = call->out->n;
    visit_values_from(call, false);
    if (call->out->n == before) visit_values_from(call, true);
}

/* ---- two names of one knob */

void visit_aliases(rule_call *call)
{
    const recipe *r = &call->s->r;
    for (int i = 0; i < r->n_aliases; i++) {
        const alias_use *use = &r->aliases[i];
        if (use->instead || recipe_agrees(r, use)) continue;
        const char *key = knobs[use->knob].key, *theirs = value_text(call->a, use->v);
        const char *ours = recipe_shown(r, use->knob, call->a);
        violation *v = rule_report(
            call,
            arena_text(call->a, "%s=%.300s (%s) and %s=%.300s (%s) are one knob and must agree",
                       use->key, theirs, use->why, key, ours, recipe_why(r, use->knob)));
        repair_one(call, v, use->key, ours);
        repair_one(call, v, key, theirs);
    }
}

void visit_lost_copies(rule_call *call)
{
    const recipe *r = &call->s->r;
    for (int i = 0; i < r->n_aliases; i++) {
        const alias_use *use = &r->aliases[i];
        if (!use->instead) continue;
        violation *v = rule_report(
            call, arena_text(call->a, "%s=%.300s (%s) has no effect: Megatron-Bridge takes %.300s",
                             use->key, value_text(call->a, use->v), use->why, use->instead));
        repair_one(call, v, use->key, recipe_shown(r, use->knob, call->a));
    }
}

/* ---- what the target has no word for */

enum { GAP_WORDS_MAX = 4 };

static void repair_words(rule_call *call, violation *v, const char *words)
{
    const char *list[GAP_WORDS_MAX];
    int n = 0;
    for (const char *p = words; *p && n < GAP_WORDS_MAX; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        list[n++] = arena_copy(call->a, p, len);
        p += len;
    }
    rule_repair(call, v, list, n);
}

static const char *said(const target_lack *l, arena *a)
{
    return text_visible(a, l->text ? arena_text(a, "%s=%.200s", l->name, l->text) : l->name);
}

static void visit_lacks(rule_call *call)
{
    target_lack l;
    for (int i = 0; target_lack_of(&call->s->r, i, &l, call->a); i++) {
        if (!l.asked) continue;
        violation *v =
            rule_report(call, arena_text(call->a, "%s (%s): `train` does not support this",
                                         said(&l, call->a), l.where));
        repair_one(call, v, l.name, l.instead);
    }
}

/* Megatron's dropout of 0.1, where nobody has named another. */
void visit_defaults(rule_call *call)
{
    target_lack l;
    textbuf said_all = text_init(call->a);
    const char *list[GAP_WORDS_MAX], *where = NULL;
    int n = 0;
    if (!job_is_ours(&call->s->j)) return;
    for (int i = 0; n < GAP_WORDS_MAX && target_lack_of(&call->s->r, i, &l, call->a); i++) {
        if (l.asked) continue;
        text_add(&said_all, "%s%s", n ? ", " : "", said(&l, call->a));
        where = l.where;
        list[n++] = arena_text(call->a, "%s=%s", l.name, l.instead);
    }
    if (!n) return;
    violation *v =
        rule_report(call, arena_text(call->a, "%s (%s): `train` does not support this; it runs %s",
                                     said_all.s, where, n > 1 ? "without" : list[0]));
    rule_repair(call, v, list, n);
}

void visit_target(rule_call *call)
{
    const setup *s = call->s;
    if (OURS) visit_lacks(call);
    if (!IS(TARGET, MEGATRON)) return;
    const target_gap *g;
    for (int i = 0; (g = target_gap_of(&s->j, i)); i++) {
        const char *key = knobs[K_TARGET].key;
        violation *v = rule_report(
            call, arena_text(call->a, "%s=%s (%s) cannot run in Megatron (%s=megatron; %s): %s",
                             knobs[g->knob].key, recipe_shown(&s->r, g->knob, call->a),
                             recipe_why(&s->r, g->knob), key, recipe_why(&s->r, K_TARGET), g->why));
        repair_words(call, v, g->instead);
        repair_one(call, v, key, "moefold");
    }
}

/* ---- the split of layers into stages */

static const knob_id split_knobs[] = {K_PP_LAYOUT,         K_FIRST_LAYERS, K_LAST_LAYERS,
                                      K_ACCOUNT_EMBEDDING, K_ACCOUNT_LOSS, K_LAYERS_PER_VSTAGE};
enum { N_SPLIT = sizeof split_knobs / sizeof split_knobs[0], ALTERNATIVE_MAX = N_SPLIT + 3 };

typedef struct alternative {
    const char *list[ALTERNATIVE_MAX];
    int n;
} alternative;

static void put(alternative *x, arena *a, knob_id k, const char *text)
{
    x->list[x->n++] = arena_text(a, "%s=%s", knobs[k].key, text);
}

static void put_number(alternative *x, arena *a, knob_id k, int64_t n)
{
    put(x, a, k, arena_text(a, "%" PRId64, n));
}

static bool named_elsewhere(rule_call *call)
{
    const setup *s = call->s;
    static const knob_id counts[] = {
        K_LAYERS, K_MTP, K_PP, K_VPP, K_FIRST_LAYERS, K_LAST_LAYERS, K_LAYERS_PER_VSTAGE};
    value near;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (recipe_out_of_range(&s->r, counts[i], call->a, &near)) return true;
    return rule_split_contradicts(s);
}

static bool split_with(recipe *r, const alternative *x)
{
    static const knob_id derived[] = {K_VPP, K_PP_LAYOUT, K_ACCOUNT_EMBEDDING, K_ACCOUNT_LOSS};
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++)
        if (recipe_from(r, derived[i]) <= FROM_DERIVED) recipe_open(r, derived[i]);
    error err;
    for (int i = 0; i < x->n; i++)
        if (recipe_override(r, x->list[i], "repair", &err)) return false;
    job j;
    pipeline p;
    job_of(&j, r);
    if (!job_has(&j, K_VPP)) recipe_open(r, K_VPP);
    if (!job_has(&j, K_PP_LAYOUT)) recipe_open(r, K_PP_LAYOUT);
    return !pipeline_derive(&(resolving){r, &j}, &err) && !pipeline_init(&p, &j, r->a, &err) &&
           !p.why_not;
}

/* Does the pipeline split with these settings? */
static bool splits(rule_call *call, const alternative *x)
{
    arena_place mark = arena_mark(call->a);
    recipe *r = ARENA_NEW(call->a, recipe);
    *r = call->s->r;
    r->a = call->a;
    bool does = split_with(r, x);
    arena_release(call->a, mark);
    return does;
}

/* Takes back what was said of the split. An argument list of Megatron-LM derives none, so it gets
 * a balanced layout string. */
static alternative reopened(rule_call *call, bool chunks_too, int64_t pp)
{
    const setup *s = call->s;
    alternative x = {.n = 0};
    int64_t chunks = !chunks_too && USER(VPP) && I(VPP) > 0 ? I(VPP) : 1;
    int64_t stages = mul_sat(pp, chunks);
    bool balance = LM && stages > 1 && stages <= 4096 && I(LAYERS) > 0 && I(LAYERS) <= 4096 &&
                   I(LAYERS) % stages;
    for (int i = 0; i < N_SPLIT; i++) {
        knob_id k = split_knobs[i];
        if (k == K_PP_LAYOUT && balance)
            put(&x, call->a, k, pipeline_balanced(call->a, I(LAYERS), I(MTP), stages));
        else if (recipe_by_user(&s->r, k))
            put(&x, call->a, k, knobs[k].kind == BOOL ? "false" : "null");
    }
    if (chunks_too) put(&x, call->a, K_VPP, "null");
    if (pp != I(PP)) put_number(&x, call->a, K_PP, pp);
    return x;
}

/* The PP nearest to the one asked for that suits layout, model and world; 0: none. */
static int64_t other_pp(const setup *s)
{
    int64_t x[N_SIZES], asked = I(PP), most = I(LAYERS) + 2;
    sizes_asked(s, x);
    for (int64_t d = asked > most ? asked - most : 1; d < asked + most; d++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            x[PP_] = asked + sign * d;
            if (x[PP_] < 1 || x[PP_] > most || x[PP_] == asked) continue;
            bool world = !USER(N_GPUS) || sizes_fit_world(s, x);
            if (world && size_fits(s, PP_, x[PP_])) return x[PP_];
        }
    return 0;
}

void visit_split(rule_call *call)
{
    const setup *s = call->s;
    if (!s->pipe.why_not || named_elsewhere(call)) return; /* I2 */
    violation *v = rule_report(call, s->pipe.why_not);
    alternative tries[6] = {{.n = 0}};
    int n = 0;
    if (USER(VPP)) put(&tries[n++], call->a, K_VPP, "null");
    if (USER(LAYERS_PER_VSTAGE)) put(&tries[n++], call->a, K_LAYERS_PER_VSTAGE, "null");
    int64_t pp = other_pp(s);
    if (pp) put_number(&tries[n++], call->a, K_PP, pp);
    bool sane = I(PP) <= I(LAYERS) + 2; /* embedding and loss may have stages of their own */
    if (sane) tries[n++] = reopened(call, false, I(PP));
    if (sane) tries[n++] = reopened(call, true, I(PP));
    tries[n++] = reopened(call, true, 1);
    for (int i = 0; i < n; i++)
        if (splits(call, &tries[i])) rule_repair(call, v, tries[i].list, tries[i].n);
}
