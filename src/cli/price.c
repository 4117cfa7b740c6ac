/* price.c - `moefold price`: memory, time, the wall, and what one change would bring. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predict/audit/audit.h"
#include "base/waiting.h"
#include "answer/price.h"
#include "cli/price_trace.h"
#include "cli/routing.h"
#include "cli/verdict.h"
#include "plan/changes.h"
#include "predict/not_priced.h"
#include "measure/profile/fixes.h"
#include "train/executor/timing.h"

enum { CHANGES = 10 };

/* So long other knobs are tried. */
enum { CHANGES_SECONDS = 3 };

typedef struct priced {
    const setup *s;
    const hardware *hw;
    const price_options *o;
    violations found;
    const char *why_not; /* no program can be built, and why */
    price p;
    price_change changes[CHANGES];
    int n_changes;
    try_budget budget;              /* of changes */
    profile_fix repairs[FIXES_MAX]; /* of a pipeline bubble: what fits and gains */
    int n_repairs;
    not_priced left_out[NOT_PRICED_MAX];
    int n_left_out;
    other_routing other;
    trace_words trace;
    trace_written traced;
    int64_t rank;    /* whose memory is shown: the fullest, or --rank */
    reported memory; /* of that rank */
} priced;

/* ---- for programs */

/* Where no program can be built: what stands in the way. */
static void print_json_none(const priced *q, arena *a)
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
    cli_json_print(answer_json(no_price_answer, &x));
}

static void print_json(const priced *q, arena *a)
{
    wall_repair_answer repairs[FIXES_MAX];
    price_answer x;
    answer_price(&x, &q->p, &(price_job){q->s, q->hw, q->o}, a);
    x.memory = answer_price_memory(&q->p, &q->memory, q->rank, a);
    for (int i = 0; i < q->n_repairs; i++)
        repairs[i] = (wall_repair_answer){&q->repairs[i].change, q->repairs[i].what};
    x.times = cli_times_answer(&q->s->j, q->hw, a);
    x.other = cli_other_answer(&q->other, a);
    x.wall_repairs = repairs;
    x.n_wall_repairs = q->n_repairs;
    x.changes = q->changes;
    x.n_changes = q->n_changes;
    x.changes_left = q->budget.left_out;
    x.violations = answer_violations(&x.n_violations, &q->found, a);
    if (q->trace.path) x.trace = cli_trace_answer(&q->traced, q->trace.path, a);
    cli_json_print(answer_json(price_answer, &x));
}

/* ---- for people */

static void print_memory(const priced *q, arena *a)
{
    const price *p = &q->p;
    fit f = {.peak_bytes = p->peak_bytes,
             .usable_bytes = p->usable,
             .fits = p->fits,
             .fullest = p->fullest,
             .graph_pools = p->graph_pools,
             .memory = q->memory,
             .megatron = p->megatron,
             .saved_live = p->saved_live,
             .host_bytes = p->host_bytes,
             .on_host = p->on_host};
    memcpy(f.bytes, p->bytes, sizeof f.bytes);
    cli_print("Memory", "%s%s\n\n", p->fits ? "" : "DOES NOT FIT: ", cli_fit_text(&f, a));
    if (q->rank != p->fullest)
        printf("         of rank %lld: %s\n\n", (long long)q->rank, text_bytes(a, q->memory.peak));
    cli_print_regions(&f, a);
}

/* Rows add up to the step; small ones are in the last. */
static void print_time(const price *p, arena *a)
{
    cli_print("Time", "of a step: %s; pipeline rank %lld computes the most:\n\n",
              text_seconds(a, p->step_s), (long long)p->slowest);
    step_part parts[STEP_PARTS];
    price_parts(parts, p);
    double step = p->step_s, least = step * 5e-5, small = 0;
    for (int i = 0; i < STEP_PARTS; i++) {
        const step_part *x = &parts[i];
        if (x->seconds < least && x->hidden < least) {
            small += x->seconds;
            continue;
        }
        bool message = i >= COST_TP && i <= COST_COPY;
        printf("         %-36s %10.4g s %6.1f %%",
               message ? arena_text(a, "%s, exposed", x->title) : x->title, x->seconds,
               100 * x->seconds / step);
        if (x->hidden >= least) printf("   and %.4g s hidden", x->hidden);
        printf("\n");
    }
    printf("         %-36s %10.4g s %6.1f %%\n", "rest", small, 100 * small / step);
    printf("         %-36s %10.4g s %6.1f %%\n\n", "step", step, 100.0);
}

static void print_wall(const priced *q)
{
    cli_print("Wall", "%s: %s\n", wall_name(q->p.wall), q->p.evidence);
    for (int i = 0; i < q->n_repairs; i++) {
        const profile_fix *f = &q->repairs[i];
        printf("         %s %s (%s: %+.1f %% tokens/s)\n",
               i ? "or:     " : "repair: ", f->change.words, f->what, 100 * f->change.gain);
    }
    printf("\n");
}

static void print_changes(const priced *q, arena *a)
{
    if (q->budget.left_out)
        cli_print("Changes", "%d were not priced: steps of so many microbatches take too long\n\n",
                  q->budget.left_out);
    if (!q->n_changes) return;
    cli_print("Changes", "of one knob that matter most, by predicted gain (! does not fit):\n\n"
                         "            gain       step       memory\n");
    for (int i = 0; i < q->n_changes; i++) {
        const price_change *c = &q->changes[i];
        printf("         %+6.1f %% %8.4g s %12s%s  %s\n", 100 * c->gain, c->step_s,
               text_bytes(a, c->peak_bytes), c->fits ? " " : "!", c->words);
    }
    printf("\n");
}

static void print_text(const priced *q, arena *a)
{
    const price *p = &q->p;
    printf("%s on %lld x %s: %s tokens/s/GPU, %.*f TFLOP/s/GPU, MFU %.1f %%", q->s->r.name,
           (long long)q->s->lay.world, q->hw->name,
           text_grouped(a, (int64_t)(p->tokens_per_s_per_gpu + 0.5)),
           cli_tflops_digits(p->tflops_per_gpu), p->tflops_per_gpu, 100 * p->mfu_bf16);
    printf(p->mfu_precision == p->mfu_bf16 ? "\n\n" : " of BF16, %.1f %% of its precision\n\n",
           100 * p->mfu_precision);
    for (int i = 0; i < q->found.n; i++)
        if (q->found.list[i].rule->severity == ERROR)
            printf("  breaks a rule: %s: %s\n\n", q->found.list[i].rule->id,
                   q->found.list[i].message);
    cli_print_times(&q->s->j, q->hw);
    print_memory(q, a);
    print_time(p, a);
    const char *routed = cli_routing_text(p, q->o, a);
    const char *other = cli_other_text(&q->other, a);
    if (routed) cli_print("Routing", "%s\n%s", routed, other ? "" : "\n");
    if (other) cli_print(routed ? "" : "Routing", "%s\n\n", other);
    print_wall(q);
    cli_print_not_priced(q->left_out, q->n_left_out);
    if (cli_print_notes(&q->s->r, "Note     ", false)) printf("\n");
    print_changes(q, a);
    if (q->trace.path) cli_print_trace(&q->traced, q->trace.path, a);
}

/* ---- the command */

/* Memory of the fullest rank, or of the one that is asked for. */
static status see_rank(priced *q, arena *a, error *err)
{
    q->rank = q->p.fullest;
    q->memory = q->p.memory;
    if (!q->trace.ranks || q->trace.path) return OK;
    TRY(cli_rank(q->trace.ranks, q->s, &q->rank, err));
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

static status price_recipe(priced *q, const recipe *r, const char *routed, price_options *o,
                           arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    hardware *hw = ARENA_NEW(a, hardware);
    q->s = s;
    q->hw = hw;
    q->o = o;
    status st = setup_init(s, r, a, err);
    if (!st) st = timing_machine(hw, s, a, err);
    if (!st) st = hardware_has_stack(hw, o->stack ? o->stack : recipe_word(&s->r, K_STACK), err);
    if (!st) st = cli_routing(o, routed, s, a, err);
    if (st) return st;
    setup_states(s, a);
    rules_check(&q->found, s, false, a);
    rules_prove(&q->found, s, false, a);
    cli_advise(&q->found, r, s, NULL, a);
    const char *not_known = q->why_not = audit_not_known(s, a);
    if (not_known) return error_set(err, ERR_RULE, "%s: %s", s->r.name, not_known);
    const char *why_not = q->why_not = audit_why_not_of(s, &q->found, a);
    if (why_not)
        return error_set(err, ERR_RULE,
                         "%s: no program can be built: %s (moefold check lists repairs)", s->r.name,
                         why_not);
    q->n_left_out = price_leaves_out(q->left_out, &s->r, a);
    waiting_begin("price", "simulating the step", WAITING_ABOUT, CHANGES_SECONDS + 1);
    price_setup(&q->p, s, hw, o, a);
    price_other_routing(&q->other, r, &(price_job){s, hw, o});
    if (q->trace.path) st = cli_price_trace(&q->traced, &q->trace, &(price_job){s, hw, o}, err);
    q->budget.left = TRY_SECONDS(CHANGES_SECONDS);
    change_job asked = {.given = r, .now = &q->p, .hw = hw, .o = o};
    if (!st && q->p.wall == WALL_BUBBLE) find_repairs(q, &asked, a);
    asked.budget = &q->budget;
    if (!st) q->n_changes = price_changes(q->changes, CHANGES, &asked, a);
    waiting_end();
    return st ? st : see_rank(q, a, err);
}

int command_price(int argc, char **argv)
{
    bool json = false, done = false;
    const char *stack = NULL, *routed = NULL, *headroom = NULL;
    trace_words t = {0};
    const cli_option options[] = {
        {"--json", NULL, "print JSON (docs/JSON.md)", &json, NULL},
        {"--stack", "NAME", "container generation; unset: the newest in the hardware file", NULL,
         &stack},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &routed},
        {"--headroom", HEADROOM_WORD, HEADROOM_HELP, NULL, &headroom},
        {"--trace", "FILE",
         "write the predicted timeline of every operation (Chrome/Perfetto JSON; gzip if the name "
         "ends in .gz)",
         NULL, &t.path},
        {"--rank", "R,...",
         "show the memory of this rank (unset: the fullest); with --trace: write these ranks "
         "(unset: the first of each pipeline stage)",
         NULL, &t.ranks},
        {"--whole-step", NULL,
         "with --trace: write the whole step instead of a window of the steady state", &t.whole,
         NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    priced *q = ARENA_NEW(a, priced);
    error err = {{0}};
    status st = cli_read(a, &(cli_words){"price", argc, argv, options, 7}, r, &done, &err);
    if (!st && !done) st = cli_trace_words(&t, &err);
    if (!st && !done) st = cli_headroom(r, headroom, &err);
    if (!st && !done) cli_stack(r, stack);
    if (!st && !done) st = cli_routing_room(r, routed, a, &err);
    *q = (priced){.trace = t};
    price_options o = {.stack = stack};
    if (!st && !done) st = price_recipe(q, r, routed, &o, a, &err);
    bool bad = !st && !done && (q->found.n_errors || !q->p.fits);
    int code = st ? cli_fail("price", st, &err) : bad ? ERR_RULE : OK;
    if (json && q->why_not) print_json_none(q, a);
    if (!st && !done && json) print_json(q, a);
    if (!st && !done && !json) print_text(q, a);
    arena_destroy(a);
    return code;
}
