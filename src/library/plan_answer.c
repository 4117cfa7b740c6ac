/* plan_answer.c - what programs read of a plan. */
#include <math.h>

#include "answer/price.h"
#include "library/plan_parts.h"
#include "predict/not_priced.h"
#include "config/export.h"
#include "config/job_of.h"

/* ---- beside the rows */

/* As --out would write it into the current folder. */
static const char *winner_of(const plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    textbuf t = text_init(a);
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    recipe_relocate(r, "recipe.yaml");
    export_yaml(r, false, &t);
    return t.s;
}

/* Of the knobs that the recipe sets: those that are searched all the same, or the others. */
static const value_answer *kept_of(int *n, const plan_answer *p, bool opened, arena *a)
{
    value_answer *list = ARENA_ARRAY(a, value_answer, K_COUNT);
    *n = 0;
    for (knob_id k = 0; k < K_COUNT; k++)
        if (plan_was_set(p, k) && plan_was_opened(p, k) == opened)
            list[(*n)++] = (value_answer){knobs[k].key, answer_value(p->set->knob[k].v)};
    return list;
}

static const offload_answer *offload_of(const plan_answer *p, arena *a)
{
    const activation_offload *x = &p->offload;
    if (!x->tried_any) return NULL;
    offload_answer *out = ARENA_NEW(a, offload_answer);
    row_answer *row = ARENA_NEW(a, row_answer);
    found f = {.c = x->v.c, .step_s = x->p.step_s, .peak_bytes = x->p.peak_bytes};
    f.dp = p->world / (x->v.c.tp * x->v.c.cp * x->v.c.pp);
    f.micros = recipe_int(p->given, K_GBS) / (f.dp * x->v.c.mbs);
    *row = *answer_rows(&f, 1, a);
    if (x->p.step_s <= 0) row->step_s = NAN; /* a giant that misses */
    *out = (offload_answer){x->modules, x->p.fits, x->helps, x->p.host_bytes, x->tried, row};
    return out;
}

static const bring_up_answer *bring_up_of(const plan_answer *p, arena *a)
{
    bring_up_answer *list = ARENA_ARRAY(a, bring_up_answer, p->bring_up.n);
    for (int i = 0; i < p->bring_up.n; i++) {
        const bring_up_step *x = &p->bring_up.list[i];
        tried_answer *tried = x->skipped ? NULL : ARENA_NEW(a, tried_answer);
        if (tried)
            *tried = (tried_answer){x->p.step_s, x->p.tokens_per_s_per_gpu, x->p.peak_bytes,
                                    x->p.usable, x->p.fits};
        list[i] = (bring_up_answer){x->name,    x->what,  x->skipped,     x->file,
                                    x->changed, x->added, x->added_rules, tried};
    }
    return list;
}

static const why_answer *why_of(const plan_answer *p, arena *a)
{
    why_answer *list = ARENA_ARRAY(a, why_answer, p->reasons.n);
    for (int i = 0; i < p->reasons.n; i++) {
        const plan_other *o = &p->reasons.list[i];
        list[i] = (why_answer){.choice = o->topic,
                               .instead = o->name,
                               .rule = o->rule,
                               .step_s = o->priced ? o->p.step_s : NAN,
                               .peak_bytes = o->priced ? o->p.peak_bytes : FIELD_NONE,
                               .fits = o->priced ? o->p.fits : MAYBE_UNKNOWN,
                               .why_not = o->left};
    }
    return list;
}

/* ---- the answer */

static const char *model_of(const plan_answer *p)
{
    const char *name = recipe_word(p->given, K_MODEL);
    return name ? name : p->given->name;
}

/* Where there is no layout: what stands against every one, or why none was found. */
static json_t *json_none(const plan_answer *p, const char *why_not, arena *a)
{
    bool refused = p->end == PLAN_REFUSED;
    no_plan_answer x = {
        .complete = p->complete, .model = model_of(p), .gpus = p->world, .gpu = p->hw->name};
    x.why_not = refused ? NULL : why_not;
    if (refused) x.violations = answer_violations(&x.n_violations, &p->refused.by, a);
    return answer_json(no_plan_answer, &x);
}

json_t *plan_json(const plan_answer *p, const char *why_not, arena *a)
{
    if (p->end == PLAN_REFUSED || p->end == PLAN_LATE) return json_none(p, why_not, a);
    static const char *const defaults[PLAN_DEFAULTS] = {[PLAN_PUBLISHED] = "published",
                                                        [PLAN_FP8_WEIGHTS] = "fp8_weights",
                                                        [PLAN_PRECISION] = "precision"};
    const search_result *r = p->result;
    const search_counts *n = &r->counts;
    const char *left[PLAN_DEFAULTS + 1] = {NULL};
    int n_left = 0;
    for (int i = 0; i < PLAN_DEFAULTS; i++)
        if (p->left[i]) left[n_left++] = defaults[i];
    judged_answer judged = {n->legal,  n->state,  n->saved, n->slow,   n->simulated,
                            n->summed, n->fitted, n->rules, n->seconds};
    chunks_answer chunks = {p->ways.chunks, p->ways.without_s > 0 ? p->ways.without_s : NAN};
    fewer_answer fewer = {p->rounder.gpus, p->rounder.step_s, p->rounder.before_s};
    fewest_answer fewest = {.gpus = p->fewest.gpus,
                            .global_batch_size = p->fewest.gbs,
                            .exact = p->fewest.exact,
                            .layout = answer_rows(&p->fewest.f, p->fewest.gpus > 0, a)};
    miss_answer miss = {.exact = p->miss_exact};
    bool missed = !r->n_best && r->has_miss;
    if (missed) miss.row = answer_rows(&r->miss, 1, a);
    job given;
    job_of(&given, p->given);
    not_priced left_out[NOT_PRICED_MAX];
    planned_answer x = {.fits = r->n_best > 0,
                        .complete = p->complete,
                        .model = model_of(p),
                        .gpus = p->world,
                        .gpu = p->hw->name,
                        .times = answer_times(&given, p->hw, a),
                        .seq_length = given.seq,
                        .global_batch_size = given.gbs,
                        .usable_bytes = p->hw->usable,
                        .search = p->published ? "published" : "all",
                        .left = left,
                        .chunks = p->ways.chunks ? &chunks : NULL,
                        .best = answer_rows(r->best, r->n_best, a),
                        .n_best = r->n_best,
                        .other = other_routing_answer_of(&p->other, a),
                        .front = answer_rows(r->front, r->n_front, a),
                        .n_front = r->n_front,
                        .ladder = answer_rows(r->ladder, r->n_ladder, a),
                        .n_ladder = r->n_ladder,
                        .judged = &judged,
                        .miss = missed ? &miss : NULL,
                        .fewest_gpus = p->fewest.gpus ? p->fewest.gpus : FIELD_NONE,
                        .fewest = p->fewest.gpus ? &fewest : NULL,
                        .fewer = p->rounder.gpus ? &fewer : NULL,
                        .activation_offload = offload_of(p, a),
                        .not_priced = left_out,
                        .n_not_priced = price_leaves_out(left_out, p->given, a),
                        .bring_up = p->bring_up.folder ? bring_up_of(p, a) : NULL,
                        .n_bring_up = p->bring_up.n,
                        .against = p->compared ? plan_against_answer(p, a) : NULL};
    x.kept = kept_of(&x.n_kept, p, false, a);
    x.searched = kept_of(&x.n_searched, p, true, a);
    first_answer first;
    routed_answer routed;
    if (r->n_best) {
        first = (first_answer){.recipe = winner_of(p, a), .claim = plan_claim_answer(p, a)};
        plan_answer_first(&first, p, a);
        x.first = &first;
        x.pins_lost = plan_lost_pins(p, a);
        x.why = why_of(p, a);
        x.n_why = p->reasons.n;
        x.warnings = answer_violations(&x.n_warnings, &p->reasons.warnings, a);
    }
    if (r->n_best && r->best[0].priced) {
        routed.routing = answer_routing(&r->best[0].exact, &p->prices, a);
        x.routed = &routed;
    }
    return answer_json(planned_answer, &x);
}
