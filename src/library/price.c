/* price.c - what a recipe's step takes, and what one change would bring. */
#include "library/price.h"

#include <math.h>
#include <string.h>

#include "answer/price.h"
#include "base/waiting.h"
#include "library/check.h"
#include "predict/audit/audit.h"
#include "predict/machine.h"

/* So long other knobs are tried. */
enum { CHANGES_SECONDS = 3 };

int price_word_options(word_option out[WORD_OPTIONS_MAX], price_words *w)
{
    const word_option options[] = {
        {"--why", NULL, "add every change, what limits the step, and routing", &w->why, NULL},
        {"--everything", NULL, "add all figures of memory and time", &w->everything, NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &w->json, NULL},
        {"--stack", "NAME", "container generation; unset: the newest in the hardware file", NULL,
         &w->stack},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &w->routed},
        {"--headroom", HEADROOM_WORD, HEADROOM_HELP, NULL, &w->headroom},
        {"--trace", "FILE",
         "write the predicted timeline of every operation (Chrome/Perfetto JSON; gzip if the name "
         "ends in .gz)",
         NULL, &w->trace.path},
        {"--rank", "R,...",
         "show the memory of this rank (unset: the fullest); with --trace: write these ranks "
         "(unset: the first of each pipeline stage)",
         NULL, &w->trace.ranks},
        {"--whole-step", NULL,
         "with --trace: write the whole step instead of a window of the steady state",
         &w->trace.whole, NULL},
    };
    memcpy(out, options, sizeof options);
    return sizeof options / sizeof options[0];
}

/* Memory of the fullest rank, or of the one that is asked for. */
static status see_rank(priced *q, arena *a, error *err)
{
    q->rank = q->p.fullest;
    q->memory = q->p.memory;
    if (!q->trace->ranks || q->trace->path) return OK;
    TRY(word_rank(q->trace->ranks, q->s, &q->rank, err));
    program *p = ARENA_NEW(a, program);
    program_build(p, q->s, q->rank, a);
    program_size size = program_size_of(p);
    fit f = {0};
    fit_see(&f, q->s, &size);
    q->memory = f.memory;
    memcpy(q->p.bytes, f.bytes, sizeof f.bytes);
    q->p.arena_bytes = f.arena_bytes;
    q->p.graph_pools = f.graph_pools;
    q->p.saved_live = f.saved_live;
    q->p.host_bytes = f.host_bytes;
    q->p.on_host.state = f.on_host.state;
    return OK;
}

/* What the guides do about a bubble, as far as it fits and gains. */
static void find_repairs(priced *q, const change_job *asked, arena *a)
{
    profile_fix all[FIXES_MAX];
    int n = profile_fixes(all, WALL_BUBBLE, COST_OTHER, asked, a);
    for (int i = 0; i < n; i++)
        if (all[i].change.words && all[i].change.fits && all[i].change.gain > 0.005)
            q->repairs[q->n_repairs++] = all[i];
}

status price_ready(priced *q, const recipe *r, const char *routed, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    hardware *hw = ARENA_NEW(a, hardware);
    q->s = s;
    q->hw = hw;
    TRY(setup_init(s, r, a, err));
    TRY(machine_of_setup(hw, s, a, err));
    TRY(hardware_has_stack(hw, q->o.stack ? q->o.stack : recipe_word(&s->r, K_STACK), err));
    TRY(words_routing(&q->o, routed, s, a, err));
    setup_states(s, a);
    rules_check(&q->found, s, false, a);
    rules_prove(&q->found, s, false, a);
    q->why_not = audit_not_known(s, a);
    if (q->why_not) return error_set(err, ERR_RULE, "%s: %s", s->r.name, q->why_not);
    q->why_not = audit_why_not_of(s, &q->found, a);
    if (!q->why_not) return OK;
    return error_set(err, ERR_RULE, "%s: no program can be built: %s (moefold check lists repairs)",
                     s->r.name, q->why_not);
}

static status price_it(priced *q, const recipe *r, const char *routed, arena *a, error *err)
{
    status ready = price_ready(q, r, routed, a, err);
    const setup *s = q->s;
    const hardware *hw = q->hw;
    const price_options *o = &q->o;
    if (!ready || q->why_not) advise(&q->found, r, s, NULL, a);
    if (ready) return ready;
    q->n_left_out = price_leaves_out(q->left_out, &s->r, a);
    waiting_begin("price", "simulating the step", WAITING_ABOUT, CHANGES_SECONDS + 1);
    const price_job asked = {s, hw, o};
    change_job changed = {.given = r, .now = &q->p, .hw = hw, .o = o};
    price_setup(&q->p, s, hw, o, a);
    price_other_routing(&q->other, r, &asked);
    status st = q->trace->path ? price_trace_write(&q->traced, q->trace, &asked, err) : OK;
    q->budget.left = TRY_SECONDS(CHANGES_SECONDS);
    if (!st && q->p.wall == WALL_BUBBLE) find_repairs(q, &changed, a);
    changed.budget = &q->budget;
    if (!st) q->n_changes = price_changes(q->changes, PRICED_CHANGES, &changed, a);
    waiting_end();
    return st ? st : see_rank(q, a, err);
}

status price_run(priced *out, recipe *r, const price_words *w, arena *a, error *err)
{
    *out = (priced){.trace = &w->trace, .o.stack = w->stack};
    TRY(trace_words_check(&w->trace, err));
    TRY(words_headroom(r, w->headroom, err));
    words_stack(r, w->stack);
    TRY(words_routing_room(r, w->routed, a, err));
    TRY(price_it(out, r, w->routed, a, err));
    out->bad = out->found.n_errors || !out->p.fits;
    return OK;
}

/* ---- as an answer */

/* Where no program can be built: what stands in the way. */
static json_t *json_none(const priced *q, arena *a)
{
    no_price_answer x = {.recipe = q->s->r.name,
                         .gpu = q->hw->name,
                         .why_not = q->why_not,
                         .step_s = NAN,
                         .tokens_per_s_per_gpu = NAN,
                         .tflops_per_gpu = NAN,
                         .mfu_bf16 = NAN,
                         .mfu_precision = NAN,
                         .peak_bytes = FIELD_NONE,
                         .usable_bytes = FIELD_NONE,
                         .fits = MAYBE_UNKNOWN,
                         .fullest_rank = FIELD_NONE};
    x.violations = answer_violations(&x.n_violations, &q->found, a);
    return answer_json(no_price_answer, &x);
}

const price_answer *price_answer_of(const priced *q, arena *a)
{
    wall_repair_answer *repairs = ARENA_ARRAY(a, wall_repair_answer, FIXES_MAX);
    price_answer *x = ARENA_NEW(a, price_answer);
    answer_price(x, &q->p, &(price_job){q->s, q->hw, &q->o}, a);
    x->memory = answer_price_memory(&q->p, &q->memory, q->rank, a);
    for (int i = 0; i < q->n_repairs; i++)
        repairs[i] = (wall_repair_answer){&q->repairs[i].change, q->repairs[i].what};
    x->times = answer_times(&q->s->j, q->hw, a);
    x->other = other_routing_answer_of(&q->other, a);
    x->wall_repairs = repairs;
    x->n_wall_repairs = q->n_repairs;
    x->changes = q->changes;
    x->n_changes = q->n_changes;
    x->changes_left = q->budget.left_out;
    x->violations = answer_violations(&x->n_violations, &q->found, a);
    if (q->trace->path) x->trace = price_trace_answer(&q->traced, q->trace->path, a);
    return x;
}

json_t *price_json(const priced *q, arena *a)
{
    return q->why_not ? json_none(q, a) : answer_json(price_answer, price_answer_of(q, a));
}
