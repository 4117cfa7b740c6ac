/* price.c - `moefold price`: memory, time, the wall, and what one change would bring. */
#include <stdio.h>
#include <string.h>

#include "cli/routing.h"
#include "cli/screen.h"
#include "cli/screen_price.h"
#include "cli/verdict.h"
#include "library/price.h"

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
static void print_time(const price *p, bool cpu, arena *a)
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
        bool starts = cpu && text_equal(x->name, "host");
        printf("         %-36s %10.4g s %6.1f %%",
               message  ? arena_text(a, "%s, exposed", x->title)
               : starts ? "waiting for operations to start"
                        : x->title,
               x->seconds, 100 * x->seconds / step);
        if (x->hidden >= least) printf("   and %.4g s hidden", x->hidden);
        printf("\n");
    }
    printf("         %-36s %10.4g s %6.1f %%\n", "rest", small, 100 * small / step);
    printf("         %-36s %10.4g s %6.1f %%\n\n", "step", step, 100.0);
}

static void print_wall(const priced *q, arena *a)
{
    cli_print("Wall", "%s: %s\n", wall_name(q->p.wall),
              screen_evidence(a, q->p.evidence, q->hw->arch == ARCH_CPU));
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

static void print_trace(const trace_written *t, const char *path, arena *a)
{
    cli_print("Trace",
              "%s: %s operations and %s waits on %s streams of %s ranks, %s messages between "
              "stages;\n         %s of the step from %s on (open it with ui.perfetto.dev)\n\n",
              path, text_grouped(a, t->operations), text_grouped(a, t->waits),
              text_grouped(a, t->streams), text_grouped(a, t->ranks), text_grouped(a, t->messages),
              text_seconds(a, t->span), text_seconds(a, t->from));
}

static void print_routing(const priced *q, arena *a)
{
    const char *routed = cli_routing_text(&q->p, &q->o, a);
    const char *other = cli_other_text(&q->other, a);
    if (routed) cli_print("Routing", "%s\n%s", routed, other ? "" : "\n");
    if (other) cli_print(routed ? "" : "Routing", "%s\n\n", other);
}

/* What the screen has no room for: all of it, or the reasons alone. */
static void print_text(const priced *q, bool all, arena *a)
{
    const price *p = &q->p;
    bool cpu = q->hw->arch == ARCH_CPU;
    if (!all) {
        print_routing(q, a);
        print_wall(q, a);
        cli_print_not_priced(q->left_out, q->n_left_out);
        cli_print_notes(&q->s->r, "Note     ", true);
        print_changes(q, a);
        return;
    }
    printf("%s on %lld x %s: %s tokens/s/%s, %.*f TFLOP/s/%s, MFU %.1f %%", q->s->r.name,
           (long long)q->s->lay.world, q->hw->name,
           text_grouped(a, (int64_t)(p->tokens_per_s_per_gpu + 0.5)), screen_device(cpu),
           cli_tflops_digits(p->tflops_per_gpu), p->tflops_per_gpu, screen_device(cpu),
           100 * p->mfu_bf16);
    printf(p->mfu_precision == p->mfu_bf16 ? "\n\n" : " of BF16, %.1f %% of its precision\n\n",
           100 * p->mfu_precision);
    for (int i = 0; i < q->found.n; i++)
        if (q->found.list[i].rule->severity == ERROR)
            printf("  breaks a rule: %s: %s\n\n", q->found.list[i].rule->id,
                   q->found.list[i].message);
    cli_print_times(&q->s->j, q->hw, a);
    print_memory(q, a);
    print_time(p, cpu, a);
    print_routing(q, a);
    print_wall(q, a);
    cli_print_not_priced(q->left_out, q->n_left_out);
    if (cli_print_notes(&q->s->r, "Note     ", false)) printf("\n");
    print_changes(q, a);
}

static void print_screen(const priced *q, const price_words *w, arena *a)
{
    screen_head(q->s, q->hw, a);
    screen_of_price(price_answer_of(q, a), cli_estimate_text(&q->s->j, q->hw, a), q->s->lay.world,
                    q->hw->arch == ARCH_CPU, a);
    const char *routed = q->p.skew <= 0 ? cli_routing_text(&q->p, &q->o, a) : NULL;
    if (routed) screen_line("ROUTING", "%s", routed);
    for (int i = 0; i < q->n_left_out; i++)
        screen_line(i ? "" : "UNPRICED", "%s=%s (the price assumes: %s)", q->left_out[i].key,
                    q->left_out[i].value, q->left_out[i].assumed);
    if (!w->why && !w->everything)
        screen_line("NEXT",
                    "--why: every change and what limits the step  --everything: all figures  "
                    "moefold check: what the rules say");
    if (w->why || w->everything) {
        printf("\n");
        screen_hold();
        print_text(q, w->everything, a);
        screen_release();
    }
    if (q->trace->path) print_trace(&q->traced, q->trace->path, a);
}

int command_price(int argc, char **argv)
{
    bool done = false;
    price_words w = {0};
    cli_option options[WORD_OPTIONS_MAX];
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    priced *q = ARENA_NEW(a, priced);
    error err = {{0}};
    const cli_words words = {"price", argc, argv, options, price_word_options(options, &w)};
    status st = cli_read(a, &words, r, &done, &err);
    if (!st && !done) st = price_run(q, r, &w, a, &err);
    int code = st ? cli_fail("price", st, &err) : q->bad ? ERR_RULE : OK;
    if (w.json && !done && (!st || q->why_not)) cli_json_print(price_json(q, a));
    if (!st && !done && !w.json) print_screen(q, &w, a);
    arena_destroy(a);
    return code;
}
