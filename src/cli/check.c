/* check.c - `moefold check`: valid, and does it fit? Every violation with its repair, layout and
 * bytes. */
#include <stdio.h>
#include <string.h>

#include "cli/check_audit.h"
#include "cli/routing.h"
#include "cli/screen.h"
#include "cli/screen_price.h"
#include "cli/verdict.h"
#include "plan/repairs.h"

/* What was tried where no repair does. */
static const char *nothing_text(const checked *c, arena *a)
{
    const autofit *m = &c->autofitted;
    if (!m->gpus) return "found no set of repairs that makes the recipe valid";
    textbuf t = text_init(a);
    text_add(&t, "%s fits on %lld %s: no recompute, offload or parallel sizes",
             m->late ? "nothing that was found in time" : "nothing", (long long)m->gpus,
             recipe_word(&c->s->r, K_GPU));
    if (m->least_bytes)
        text_add(&t, "; the smallest layout found needs %s of %s usable on its fullest rank",
                 text_bytes(a, m->least_bytes), text_bytes(a, m->usable_bytes));
    if (m->enough_gpus)
        text_add(&t, "; it fits on %lld (moefold plan finds the layout)",
                 (long long)m->enough_gpus);
    return t.s;
}

static void print_repair(const violation *v, arena *a)
{
    for (int k = 0; k < v->n_repairs; k++) {
        printf("           %s %s",
               k ? "or:     " : "repair: ", words_text(violation_words(v, k, a), a));
        const char *cost = repair_text(&v->prices[k], a);
        if (cost) printf("\n                    (%s)", cost);
        printf("\n");
    }
    if (v->n_repairs || !v->n_tried || v->rule->severity == NOTE) return;
    printf("           no repair was found; each of these leaves it or breaks another rule:\n");
    for (int k = 0; k < v->n_tried; k++)
        printf("                    %s\n", words_text(edits_words(v->tried[k], a), a));
}

/* Those of `least` and worse. */
static void print_violations(const checked *c, severity least, arena *a)
{
    const violations *found = &c->found;
    int n = 0;
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        severity kind = v->rule->severity;
        if (kind > least) continue;
        n++;
        printf("  %s%-8s%s %s\n           %s\n", colour_on(stdout, cli_colour(kind)),
               severity_name(kind), colour_off(stdout), v->rule->id, v->message);
        print_repair(v, a);
        if (v == check_of_state(found) && !v->n_repairs)
            printf("           no repair was found: %s\n", nothing_text(c, a));
    }
    if (n) printf("\n");
}

static void print_counts(const violations *found)
{
    int counts[3] = {0};
    for (int i = 0; i < found->n; i++) counts[found->list[i].rule->severity]++;
    static const char *const names[][2] = {
        {"error", "errors"}, {"warning", "warnings"}, {"note", "notes"}};
    for (int k = 0; k < 3; k++)
        if (counts[k]) printf(", %d %s", counts[k], names[k][counts[k] > 1]);
}

/* The first line: rules, then memory. */
static void print_verdict(const checked *c, arena *a)
{
    const fit *f = &c->memory;
    bool broken = c->found.n_errors > 0;
    printf("%s: ", c->s->r.name);
    const char *word = broken ? "NOT VALID" : fit_too_large(f) ? "DOES NOT FIT" : "valid";
    colour_print(stdout, broken || fit_too_large(f) ? COLOUR_ERROR : COLOUR_OK, word);
    if (!broken && fit_too_large(f)) printf(": %s; no rule is broken", cli_fit_text(f, a));
    print_counts(&c->found);
    if (broken && fit_too_large(f)) printf("; and it DOES NOT FIT: %s", cli_fit_text(f, a));
    if (!f->why_not && f->fits)
        printf("%s: %s", broken ? "; it fits" : ", fits", cli_fit_text(f, a));
    if (f->why_not && !broken) printf(", memory unknown: %s", f->why_not);
    printf("\n\n");
}

/* What is asked, and how its sizes divide the ranks: "TP 1  CP 32  EP 32  PP 8  VPP 4  DP 1". */
static void say_layout(const setup *s, arena *a)
{
    const layout *l = &s->lay;
    screen_line("JOB", "%s, %s tokens, %s, global batch %s", s->m.name,
                text_grouped(a, recipe_int(&s->r, K_SEQ)),
                screen_devices(recipe_on_cpu(&s->r), l->world, recipe_word(&s->r, K_GPU), a),
                text_grouped(a, recipe_int(&s->r, K_GBS)));
    screen_line("LAYOUT", "TP %lld  CP %lld  EP %lld  ETP %lld  PP %lld  VPP %lld  DP %lld",
                (long long)l->tp, (long long)l->cp, (long long)l->ep, (long long)l->etp,
                (long long)l->pp, (long long)s->pipe.vpp, (long long)l->dp);
}

/* Notes by their names: whoever wants them asks. */
static void say_notes(const checked *c, arena *a)
{
    textbuf t = text_init(a);
    for (int i = 0; i < c->found.n; i++)
        if (c->found.list[i].rule->severity == NOTE)
            text_add(&t, "%s%s", t.n ? ", " : "", c->found.list[i].rule->id);
    if (c->s->r.n_notes) text_add(&t, "%s%d of what was read", t.n ? ", " : "", c->s->r.n_notes);
    if (t.n) screen_line("NOTES", "%s (--why)", t.s);
}

static void print_fixing(const checked *c)
{
    bool broken = c->found.n_errors > 0, large = fit_too_large(&c->memory);
    if (broken || large)
        printf("`--fix` prints the smallest set of overrides that makes the recipe %s.\n",
               !broken                      ? "fit"
               : large || c->memory.why_not ? "valid and fit"
                                            : "valid");
}

static void print_everything(const checked *c, arena *a)
{
    const setup *s = c->s;
    cli_print_model(s, a);
    cli_print_layout(s, a);
    cli_print_stages(s, a);
    if (s->possible && !s->pipe.why_not) {
        cli_print_memory(s, answer_stage(s, &c->memory), a);
        cli_print_fit(s, &c->memory, a);
    }
}

/* The answer: valid, and does it fit; what is broken, with repairs; where memory goes. */
static void print_screen(const checked *c, arena *a)
{
    const setup *s = c->s;
    const fit *f = &c->memory;
    if (!f->why_not && s->possible) {
        peak_part parts[PEAK_PARTS];
        int n = answer_peak_parts(parts, f, a);
        const host_need *h = &f->on_host;
        screen_memory(parts, n, f->usable_bytes, f->fullest, true, a);
        screen_host(&(host_answer){h->state, h->node, h->memory ? h->memory : FIELD_NONE},
                    f->host_bytes, a);
    }
    if (s->possible) say_layout(s, a);
    if (!c->w.why) say_notes(c, a);
}

static void print_text(const checked *c, arena *a)
{
    const setup *s = c->s;
    bool all = c->w.everything, notes = all || c->w.why;
    screen_hold();
    print_verdict(c, a);
    print_violations(c, notes ? NOTE : WARNING, a);
    if (notes && cli_print_notes(&s->r, "  ", c->w.why)) printf("\n");
    screen_release();
    print_screen(c, a);
    screen_hold();
    if (all || c->audit) printf("\n");
    if (all) print_everything(c, a);
    if (c->audit) cli_print_audit(s, c->audit, &c->memory, c->seconds, all, a);
    if (c->audit && c->rank >= 0) cli_print_audit_rank(s, c->audit, c->rank, a);
    print_fixing(c);
    screen_release();
    if (!c->bad && !all)
        screen_line("NEXT", "moefold price: step time  %s--everything: layout, groups, bytes",
                    c->audit ? "" : "--all-ranks: no deadlock  ");
}

/* Only the overrides, one a line, so that they can be pasted or piped. Where nothing makes it fit:
 * those that the rules ask for. */
static int print_fix(const checked *c, arena *a)
{
    if (!c->fixable) fprintf(stderr, "moefold check: %s: %s\n", c->s->r.name, nothing_text(c, a));
    if (c->fixable && !c->fix[0])
        fprintf(stderr, "moefold check: %s: valid, and it fits: nothing to repair\n", c->s->r.name);
    for (const char *const *p = c->fix; *p; p++)
        printf("%s%s", word_quoted(a, *p), strncmp(*p, "--", 2) == 0 ? " " : "\n");
    return c->fixable && !c->found.n_errors && !fit_too_large(&c->memory) ? OK : ERR_RULE;
}

int command_check(int argc, char **argv)
{
    bool done = false;
    check_words w = {0};
    checked c;
    cli_option options[WORD_OPTIONS_MAX];
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    const cli_words words = {"check", argc, argv, options, check_options(options, &w)};
    status st = cli_read(a, &words, r, &done, &err);
    if (!st && !done) st = check_run(&c, r, &w, w.json || w.fix, a, &err);
    int code = st ? cli_fail("check", st, &err) : !done && c.bad ? ERR_RULE : OK;
    if (!st && !done && w.json)
        cli_json_print(check_json(&c, a));
    else if (!st && !done && w.fix)
        code = print_fix(&c, a);
    else if (!st && !done)
        print_text(&c, a);
    arena_destroy(a);
    return code;
}
