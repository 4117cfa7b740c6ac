/* check.c - `moefold check`: valid, and does it fit? Every violation with its repair, layout and
 * bytes. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/waiting.h"
#include "cli/check_audit.h"
#include "cli/routing.h"
#include "cli/verdict.h"
#include "plan/repairs.h"
#include "train/executor/timing.h"
#include "plan/autofit.h"

/* What was asked, and what was found. */
typedef struct checked {
    const setup *s;
    violations found;
    fit memory;
    const char *const *fix;
    bool fixable;
    autofit autofitted;        /* where memory had to be */
    const audit_result *audit; /* NULL: not asked for */
    double seconds;            /* of the audit */
    int64_t rank;              /* to be shown; -1: none */
} checked;

static void print_json(const checked *c, arena *a)
{
    const setup *s = c->s;
    bool laid_out = s->possible && !s->pipe.why_not;
    int64_t fullest = laid_out ? cli_fullest_stage(s, &c->memory) : 0;
    check_answer x = {.ok = c->found.n_errors == 0,
                      .fit = answer_fit(&c->memory, a),
                      .recipe = s->r.name,
                      .fix = c->fix,
                      .fixable = c->fixable,
                      .notes = answer_texts(s->r.notes, s->r.n_notes, a),
                      .model = answer_model(s, a),
                      .layout = answer_layout(s, a),
                      .memory = laid_out ? answer_memory(s, fullest, &c->memory, a) : NULL};
    x.violations = answer_violations(&x.n_violations, &c->found, a);
    audited_answer audited = {0};
    if (c->audit) {
        audited = (audited_answer){.audit_why_not = c->audit->why_not};
        audited.audit = cli_audit_answer(s, c->audit, &c->memory, c->seconds, c->rank, a);
        x.audited = &audited;
    }
    cli_json_print(answer_json(check_answer, &x));
}

/* The warning that weights, gradients and optimizer alone do not fit; NULL: there is none. Its
 * repair is what makes the recipe fit. */
static violation *of_state(const violations *found)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].rule->number == RULE_state_fits_the_gpu) return &found->list[i];
    return NULL;
}

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
        printf("           %s %s", k ? "or:     " : "repair: ", words_text(v->repairs[k], a));
        const char *cost = repair_text(&v->prices[k], a);
        if (cost) printf("\n                    (%s)", cost);
        printf("\n");
    }
    if (v->n_repairs || !v->n_tried || v->rule->severity == NOTE) return;
    printf("           no repair was found; each of these leaves it or breaks another rule:\n");
    for (int k = 0; k < v->n_tried; k++)
        printf("                    %s\n", words_text(v->tried[k], a));
}

static void print_violations(const checked *c, arena *a)
{
    const violations *found = &c->found;
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        severity kind = v->rule->severity;
        printf("  %s%-8s%s %s\n           %s\n", colour_on(stdout, cli_colour(kind)),
               severity_name(kind), colour_off(stdout), v->rule->id, v->message);
        print_repair(v, a);
        if (v == of_state(found) && !v->n_repairs)
            printf("           no repair was found: %s\n", nothing_text(c, a));
    }
    if (found->n) printf("\n");
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
    const char *word = broken ? "NOT VALID" : cli_too_large(f) ? "DOES NOT FIT" : "valid";
    colour_print(stdout, broken || cli_too_large(f) ? COLOUR_ERROR : COLOUR_OK, word);
    if (!broken && cli_too_large(f)) printf(": %s; no rule is broken", cli_fit_text(f, a));
    print_counts(&c->found);
    if (broken && cli_too_large(f)) printf("; and it DOES NOT FIT: %s", cli_fit_text(f, a));
    if (!f->why_not && f->fits)
        printf("%s: %s", broken ? "; it fits" : ", fits", cli_fit_text(f, a));
    if (f->why_not && !broken) printf(", memory unknown: %s", f->why_not);
    printf("\n\n");
}

static void print_text(const checked *c, arena *a)
{
    const setup *s = c->s;
    const violations *found = &c->found;
    print_verdict(c, a);
    print_violations(c, a);
    if (cli_print_notes(&s->r, "  ", false)) printf("\n");
    cli_print_model(s, a);
    cli_print_layout(s, a);
    cli_print_stages(s, a);
    if (s->possible && !s->pipe.why_not) {
        cli_print_memory(s, cli_fullest_stage(s, &c->memory), a);
        cli_print_fit(s, &c->memory, a);
    }
    if (c->audit) cli_print_audit(s, c->audit, &c->memory, c->seconds, a);
    if (c->audit && c->rank >= 0) cli_print_audit_rank(s, c->audit, c->rank, a);
    bool broken = found->n_errors > 0, large = cli_too_large(&c->memory);
    if (broken || large)
        printf("`--fix` prints the smallest set of overrides that makes the recipe %s.\n",
               !broken                      ? "fit"
               : large || c->memory.why_not ? "valid and fit"
                                            : "valid");
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
    return c->fixable && !c->found.n_errors && !cli_too_large(&c->memory) ? OK : ERR_RULE;
}

/* About how long --fix takes; of a search for a layout that fits, and for one on more GPUs. */
enum { FIX_SECONDS = 5, SEARCH_SECONDS = 20, MORE_SECONDS = 3, QUICK_SECONDS = 1 };

typedef struct check_options {
    bool json, fix, all_ranks;
    const char *rank, *headroom, *routed;
} check_options;

static status audit_ranks(checked *c, const check_options *o, arena *a, error *err)
{
    if (!o->all_ranks && !o->rank) return OK;
    status st = o->rank ? cli_rank(o->rank, c->s, &c->rank, err) : OK;
    if (st) return st;
    audit_result *r = ARENA_NEW(a, audit_result);
    double start = clock_seconds();
    const audit_options options = {.one = c->rank >= 0, .rank = c->rank};
    st = audit_run(r, c->s, &options, a, err);
    c->seconds = clock_seconds() - start;
    c->audit = r;
    return st;
}

/* Rules first, then memory with what they ask for. Without --fix: where a warning needs it, and not
 * for long. */
static status find_fix(checked *c, const recipe *r, const check_options *o, arena *a, error *err)
{
    bool broken = c->found.n_errors > 0, whole = o->json || o->fix;
    c->fixable = !broken && !cli_too_large(&c->memory);
    if (c->fixable || !(whole || of_state(&c->found))) return OK;
    if (broken && !rules_fix(r, a, &c->fix)) return OK;
    recipe *valid = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    violations found;
    fit f;
    hardware hw;
    c->fixable = rules_apply(valid, r, c->fix, a) && !setup_init(s, valid, a, err);
    if (!c->fixable) return OK;
    rules_check(&found, s, false, a);
    TRY(cli_fit(&f, s, &found, a, err));
    if (!cli_too_large(&f)) return OK;
    TRY(timing_machine(&hw, s, a, err));
    autofit_memory(&c->autofitted, r, c->fix, &hw, whole ? SEARCH_SECONDS : QUICK_SECONDS, a);
    c->fixable = c->autofitted.done;
    if (c->fixable) c->fix = c->autofitted.overrides;
    if (!c->fixable && !o->json)
        autofit_more_gpus(&c->autofitted, r, c->fix, &hw, o->fix ? MORE_SECONDS : QUICK_SECONDS, a);
    return OK;
}

/* Rules give repairs for themselves; what must fit is repaired as --fix does. */
static void ready_repairs(checked *c, const recipe *r, arena *a)
{
    violation *state = of_state(&c->found);
    rules_prove(&c->found, c->s, false, a);
    if (state && c->fixable && c->fix[0]) state->repairs[state->n_repairs++] = c->fix;
    cli_advise(&c->found, r, c->s, &c->memory, a);
    c->fix = recipe_appended(r, c->fix, a);
}

static int check(const recipe *r, const setup *s, const check_options *o, arena *a)
{
    static const char *const none[] = {NULL};
    checked c = {.s = s, .fix = none, .rank = -1};
    error err = {{0}};
    bool only_fix = o->fix && !o->json;
    waiting_begin("check", only_fix ? "looking for a repair" : "rules, programs of ranks, messages",
                  only_fix ? WAITING_ABOUT : WAITING_UNKNOWN, FIX_SECONDS);
    rules_check(&c.found, s, false, a);
    status st = cli_fit(&c.memory, s, &c.found, a, &err);
    if (!st) st = find_fix(&c, r, o, a, &err);
    if (!st) ready_repairs(&c, r, a);
    if (!st && !only_fix) st = audit_ranks(&c, o, a, &err);
    waiting_end();
    if (st) return cli_fail("check", st, &err);
    if (only_fix) return print_fix(&c, a);
    if (o->json)
        print_json(&c, a);
    else
        print_text(&c, a);
    bool bad = c.found.n_errors || cli_too_large(&c.memory) || (c.audit && !c.audit->ok);
    return bad ? ERR_RULE : OK;
}

int command_check(int argc, char **argv)
{
    bool done = false;
    check_options o = {0};
    const cli_option options[] = {
        {"--all-ranks", NULL, "build the program of every rank and match their communication",
         &o.all_ranks, NULL},
        {"--rank", "R", "the same, and print what rank R holds and sends", NULL, &o.rank},
        {"--headroom", HEADROOM_WORD, HEADROOM_HELP, NULL, &o.headroom},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &o.routed},
        {"--json", NULL, "print JSON (docs/JSON.md)", &o.json, NULL},
        {"--fix", NULL, "print the smallest set of overrides that makes the recipe valid and fit",
         &o.fix, NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    status st = cli_read(a, &(cli_words){"check", argc, argv, options, 6}, r, &done, &err);
    if (!st && !done) st = cli_headroom(r, o.headroom, &err);
    if (!st && !done) st = cli_routing_room(r, o.routed, a, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    int code = OK;
    if (st)
        code = cli_fail("check", st, &err);
    else if (!done) {
        setup_states(s, a);
        code = check(r, s, &o, a);
    }
    arena_destroy(a);
    return code;
}
