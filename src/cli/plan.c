/* plan.c - `moefold plan`: what to run on a cluster, and why. */
#include "config/models/models.h"
#include "cli/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/routing.h"
#include "cli/verdict.h"

static void print_found(const plan_answer *p, arena *a)
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
    if (p->compared) plan_print_against(p, a);
    plan_print_bring_up(p);
    if (p->out) printf("\nWritten to %s: moefold check %s\n", p->out, p->out);
}

static void print_nothing(const plan_answer *p, arena *a)
{
    plan_print_miss(p, a);
    if (p->compared) plan_print_against(p, a);
}

static void print_refused(const refusal *x)
{
    fprintf(stderr, "moefold plan: there is no valid layout: %s\n",
            x->always ? "these rules are broken by every layout"
                      : "every layout that fits breaks one of these rules");
    for (int i = 0; i < x->by.n; i++) {
        const violation *v = &x->by.list[i];
        fprintf(stderr, "    error %s: %s%s%s\n", v->rule->id, v->message,
                x->repairs[i] ? "; a repair: " : "", x->repairs[i] ? x->repairs[i] : "");
    }
}

/* ---- the command */

/* Is there a word for the recipe? Without one, the job is that of --against. */
static bool names_recipe(int argc, char **argv, const plan_words *w)
{
    for (int i = 1; i < argc; i++) {
        bool named = strcmp(argv[i], "-") == 0 || model_is_named(argv[i]) || file_exists(argv[i]);
        if (named && argv[i] != w->against && strcmp(argv[i - 1], "--out") != 0) return true;
    }
    return false;
}

/* Where only --against names a recipe, it is the recipe. */
static int with_recipe(int n, char **words, plan_words *w)
{
    for (int i = 1; i < n; i++) {
        if (strncmp(words[i], "--against=", 10) == 0) w->against = words[i] + 10;
        if (strcmp(words[i], "--against") == 0 && i + 1 < n) w->against = words[i + 1];
    }
    if (w->against && !names_recipe(n, words, w)) words[n++] = (char *)(uintptr_t)w->against;
    return n;
}

int command_plan(int argc, char **argv)
{
    plan_words w = {0};
    bool done = false;
    const char *pin = NULL; /* plan_take_pins reads them */
    const cli_option options[] = {
        {"--gpus", "NxGPU",
         "GPU count and type, as in 256xH100; local or 4xlocal: ranks of this machine", NULL,
         &w.gpus},
        {"--seq", "TOKENS", "sequence length", NULL, &w.seq},
        {"--gbs", "N",
         "global batch size in samples; unset: about 8 M tokens, as a multiple of a divisor of the "
         "GPU count",
         NULL, &w.gbs},
        {"--pin", "KEY=VALUE", "keep a knob at this value instead of searching it; may be repeated",
         NULL, &pin},
        {"--against", "RECIPE",
         "show how a recipe ranks, and which changes lead from it to the winner", NULL, &w.against},
        {"--out", "FILE", "write the winner as a recipe", NULL, &w.out},
        {"--bring-up", "DIR", "write one recipe per bring-up step, from a plain one to the winner",
         NULL, &w.bring_up},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &w.routed},
        {"--headroom", HEADROOM_WORD, HEADROOM_HELP, NULL, &w.headroom},
        {"--precision", "any", "search precisions, too; unset: the platform's default", NULL,
         &w.precision},
        {"--search", "all|published",
         "search only features that published runs on such GPUs have, or all; unset: published",
         NULL, &w.space},
        {"--seconds", "N", "end every search after N seconds with the best so far; unset: 60", NULL,
         &w.seconds},
        {"--stack", "NAME", "container generation, by its name in hardware/*.yaml", NULL, &w.stack},
        {"--more", NULL, "also search for headroom, activation offload and the smallest cluster",
         &w.more, NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &w.json, NULL},
    };
    arena *a = arena_create();
    char **words = ARENA_ARRAY(a, char *, argc + 2);
    recipe *r = ARENA_NEW(a, recipe);
    plan_answer *p = ARENA_NEW(a, plan_answer);
    error err = {{0}};
    int n = 0;
    *p = (plan_answer){0};
    status st = plan_take_pins(argc, argv, words, &n, &w.pin_all, &err);
    n = with_recipe(n, words, &w);
    const cli_words own = {"plan", n, words, options, sizeof options / sizeof options[0]};
    if (!st) st = cli_read_how(a, &own, r, &w.how, &done, &err);
    if (!st && !done && w.bring_up) st = plan_bring_up_folder(w.bring_up, &err);
    if (!st && !done) st = cli_headroom(r, w.headroom, &err);
    if (!st && !done) cli_stack(r, w.stack);
    if (!st && !done) st = plan_prepare(p, r, &w, a, &err);
    if (!st && !done) st = plan_run(p, a, &err);
    int code = st ? cli_fail("plan", st, &err) : done || p->end == PLAN_FOUND ? OK : ERR_RULE;
    bool answered = !done && (!st || p->end == PLAN_LATE);
    if (answered && p->end == PLAN_REFUSED) print_refused(&p->refused);
    if (answered && w.json)
        cli_json_print(plan_json(p, err.text, a));
    else if (answered && p->end != PLAN_REFUSED && p->end != PLAN_LATE)
        (p->end == PLAN_FOUND ? print_found : print_nothing)(p, a);
    arena_destroy(a);
    return code;
}
