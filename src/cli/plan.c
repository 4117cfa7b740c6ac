/* plan.c - `moefold plan`: what to run on a cluster, and why. */
#include "cli/plan.h"

#include <stdio.h>

#include "cli/routing.h"
#include "cli/screen.h"
#include "cli/verdict.h"

/* All that is known of a plan, in the order in which it is found. */
static void print_everything(const plan_answer *p, arena *a)
{
    plan_print(p, a);
    plan_print_rounder(p);
    plan_explain(p, a);
    const char *routed = cli_routing_text(&p->result->best[0].exact, &p->prices, a);
    const char *other = cli_other_text(&p->other, a);
    if (routed) cli_print("\nRouting", "%s\n", routed);
    if (other) cli_print(routed ? "" : "\nRouting", "%s\n", other);
    not_priced left_out[NOT_PRICED_MAX];
    int n_left_out = price_leaves_out(left_out, p->given, a);
    if (n_left_out) printf("\n");
    cli_print_not_priced(left_out, n_left_out);
}

static void print_found(const plan_answer *p, const plan_words *w, arena *a)
{
    plan_screen(p, a);
    if (w->why || w->everything) printf("\n");
    if (w->why && !w->everything) plan_screen_rows(p, a);
    screen_hold();
    if (w->everything)
        print_everything(p, a);
    else if (w->why) {
        plan_print_kept(p, a);
        plan_print_first(p, a);
        plan_print_claim(p, a);
        plan_explain(p, a);
    }
    if (p->compared) plan_print_against(p, a);
    plan_print_bring_up(p);
    screen_release();
}

static void print_nothing(const plan_answer *p, const plan_words *w, arena *a)
{
    plan_screen_miss(p, a);
    screen_hold();
    if (w->everything || w->why) printf("\n");
    if (w->everything || w->why) plan_print_miss(p, a);
    if (p->compared) plan_print_against(p, a);
    screen_release();
}

int command_plan(int argc, char **argv)
{
    bool done = false;
    plan_words w = {0};
    cli_option options[WORD_OPTIONS_MAX];
    arena *a = arena_create();
    char **words = ARENA_ARRAY(a, char *, argc + 2);
    recipe *r = ARENA_NEW(a, recipe);
    plan_answer *p = ARENA_NEW(a, plan_answer);
    error err = {{0}};
    cli_words own = {"plan", 0, words, options, plan_options(options, &w)};
    status st = plan_ready_words(argc, argv, words, &own.argc, &w, &err);
    if (!st) st = cli_read_how(a, &own, r, &w.how, &done, &err);
    if (!st && !done) st = plan_run(p, r, &w, a, &err);
    int code = st ? cli_fail("plan", st, &err) : done || p->end == PLAN_FOUND ? OK : ERR_RULE;
    bool answered = !done && (!st || p->end == PLAN_LATE);
    if (answered && p->end == PLAN_REFUSED)
        fprintf(stderr, "moefold plan: %s\n", plan_refusal_text(&p->refused, a));
    if (answered && w.json)
        cli_json_print(plan_json(p, err.text, a));
    else if (answered && p->end != PLAN_REFUSED && p->end != PLAN_LATE)
        (p->end == PLAN_FOUND ? print_found : print_nothing)(p, &w, a);
    arena_destroy(a);
    return code;
}
