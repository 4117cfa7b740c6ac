/* plan.c - `moefold plan`: what to run on a cluster, and why. */
#include "config/models/models.h"
#include "cli/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/waiting.h"
#include "cli/routing.h"
#include "cli/verdict.h"
#include "config/export.h"
#include "predict/try.h"

/* How long the smallest cluster is looked for, beside a plan and where nothing fits; and the
 * nearest miss. */
static const double EXTRA_SECONDS = 0.4, ALONE_SECONDS = 4, MISS_SECONDS = 2, ROUNDER_SECONDS = 2;

/* ---- the answer */

static status write_recipe(const plan_answer *p, const char *path, arena *a, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    textbuf t = text_init(a);
    recipe_relocate(r, path);
    export_yaml(r, false, &t);
    return file_write(path, t.s, t.n, err);
}

/* The winner on twice as many GPUs: DP doubles. */
static void price_next(plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    try_result t;
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    recipe_set(r, K_N_GPUS, value_of_int(p->world * 2), "--gpus");
    p->has_next =
        try_recipe(&t, r, &(try_job){.hw = p->hw, .o = &p->prices, .depth = TRY_PRICE}, a);
    if (p->has_next) p->next = t.p;
}

/* The winner with the other routing. */
static void see_other(plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    if (setup_init(s, r, a, &err) == OK)
        cli_routing_other(&p->other, r, &(price_job){s, p->hw, &p->prices});
}

static status print_found(plan_answer *p, const plan_words *w, const search_options *o, arena *a,
                          error *err)
{
    waiting_begin("plan", "pricing the reasons", WAITING_ABOUT, w->bring_up ? 10 : 3);
    price_next(p, a);
    plan_find_rounder(p, o, ROUNDER_SECONDS);
    plan_find_reasons(p, a);
    if (w->more) plan_find_fewest(p, o, EXTRA_SECONDS, a);
    if (w->more) plan_try_offload(p, a);
    status st = w->out ? write_recipe(p, w->out, a, err) : OK;
    if (!st && w->bring_up) st = plan_make_bring_up(p, w->bring_up, a, err);
    see_other(p, a);
    waiting_end();
    if (st) return st;
    if (w->json) {
        plan_print_json(p, a);
        return OK;
    }
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
    if (w->out) printf("\nWritten to %s: moefold check %s\n", w->out, w->out);
    return OK;
}

static void print_nothing(plan_answer *p, const plan_words *w, const search_options *o, arena *a)
{
    waiting_begin("plan", "what would fit", WAITING_AT_MOST, MISS_SECONDS + ALONE_SECONDS);
    plan_find_miss(p, o, MISS_SECONDS);
    plan_find_fewest(p, o, ALONE_SECONDS, a);
    plan_try_offload(p, a);
    waiting_end();
    if (w->json) {
        plan_print_json(p, a);
        return;
    }
    plan_print_miss(p, a);
    if (p->compared) plan_print_against(p, a);
}

/* Time was up before anything was found. */
static status too_late(const plan_answer *p, bool json, arena *a, error *err)
{
    const search_counts *n = &p->result->counts;
    status st = error_set(
        err, ERR_RULE,
        "no layout was found in %.3g s; %s layouts are ruled out so far. Give the search more time "
        "(--seconds %.0f), or pin some knobs (--pin key=value)",
        p->limit,
        text_grouped(a, n->state + n->saved + n->slow + n->simulated + n->summed + n->rules),
        10 * p->limit > 60 ? 10 * p->limit : 60);
    if (json) plan_print_json_none(p, NULL, err->text, a);
    return st;
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
    search_options o = {0};
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
    if (!st && !done) {
        waiting_begin("plan", "searching layouts", WAITING_AT_MOST, p->until - clock_seconds());
        st = plan_search(p, &w, &o, a, &err);
        waiting_end();
    }
    bool refused = !done && p->result && plan_refuses(p, &o, w.json, a);
    bool none = !st && !done && !refused && !p->result->n_best;
    bool late = none && !p->complete;
    if (late) st = too_late(p, w.json, a, &err);
    if (none && !late) print_nothing(p, &w, &o, a);
    if (!st && !done && !refused && !none) st = print_found(p, &w, &o, a, &err);
    int code = refused ? ERR_RULE : st ? cli_fail("plan", st, &err) : none ? ERR_RULE : OK;
    arena_destroy(a);
    return code;
}
