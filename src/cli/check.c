/* check.c - `moefold check`: the verdict, every violation with its repair, layout and bytes. */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "cli/check_audit.h"
#include "price/repairs.h"

static json_t *json_notes(const recipe *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n_notes; i++) json_array_append_new(list, json_string(r->notes[i]));
    return list;
}

/* What was asked, and what was found. */
typedef struct checked {
    const setup *s;
    violations found;
    const char *const *fix;
    bool fixable;
    const audit_result *audit; /* NULL: not asked for */
    double seconds;            /* of the audit */
    int64_t rank;              /* to be shown; -1: none */
} checked;

static void print_json(const checked *c)
{
    const setup *s = c->s;
    json_t *o = json_object();
    json_object_set_new(o, "ok", json_boolean(c->found.n_errors == 0));
    json_object_set_new(o, "recipe", json_string(s->r.name));
    json_object_set_new(o, "violations", cli_json_violations(&c->found));
    json_object_set_new(o, "fix", cli_json_texts(c->fix));
    json_object_set_new(o, "fixable", json_boolean(c->fixable));
    json_object_set_new(o, "notes", json_notes(&s->r));
    json_object_set_new(o, "model", cli_json_model(s));
    json_object_set_new(o, "layout", cli_json_layout(s));
    json_object_set_new(o, "memory", cli_json_memory(s));
    if (c->audit) {
        json_object_set_new(o, "audit", cli_json_audit(c->audit, c->seconds, c->rank));
        if (c->audit->why_not)
            json_object_set_new(o, "audit_why_not", json_string(c->audit->why_not));
    }
    cli_json_print(o);
}

static void print_repair(const violation *v, arena *a)
{
    for (int k = 0; k < v->n_repairs; k++) {
        printf("           %s", k ? "or:     " : "repair: ");
        for (const char *const *p = v->repairs[k]; *p; p++) printf(" %s", cli_quoted(a, *p));
        const char *cost = repair_text(&v->prices[k], a);
        if (cost) printf("\n                    (%s)", cost);
        printf("\n");
    }
}

static void print_violations(const violations *found, arena *a)
{
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        severity kind = v->rule->severity;
        printf("  %s%-8s%s %s\n           %s\n", colour_on(stdout, cli_colour(kind)),
               severity_name(kind), colour_off(stdout), v->rule->id, v->message);
        print_repair(v, a);
    }
    if (found->n) printf("\n");
}

static void print_verdict(const setup *s, const violations *found)
{
    int counts[3] = {0};
    for (int i = 0; i < found->n; i++) counts[found->list[i].rule->severity]++;
    printf("%s: %s%s%s", s->r.name, colour_on(stdout, counts[ERROR] ? COLOUR_ERROR : COLOUR_OK),
           counts[ERROR] ? "NOT VALID" : "valid", colour_off(stdout));
    static const char *const names[][2] = {
        {"error", "errors"}, {"warning", "warnings"}, {"note", "notes"}};
    for (int k = 0; k < 3; k++)
        if (counts[k]) printf(", %d %s", counts[k], names[k][counts[k] > 1]);
    printf("\n\n");
}

static void print_text(const checked *c, arena *a)
{
    const setup *s = c->s;
    const violations *found = &c->found;
    print_verdict(s, found);
    print_violations(found, a);
    for (int i = 0; i < s->r.n_notes; i++) printf("  %s\n", s->r.notes[i]);
    if (s->r.n_notes) printf("\n");
    cli_print_model(s, a);
    cli_print_layout(s, a);
    cli_print_stages(s, a);
    if (s->possible && !s->pipe.why_not) {
        state_bytes b;
        cli_print_memory(s, setup_fullest(s, &b), a);
    }
    if (c->audit) cli_print_audit(s, c->audit, c->seconds, a);
    if (c->audit && c->rank >= 0) cli_print_audit_rank(s, c->audit, c->rank, a);
    if (found->n_errors)
        printf("`--fix` prints the smallest set of overrides that makes it valid.\n");
}

/* Only the overrides, one a line, so that they can be pasted or piped. */
static int print_fix(const char *name, const char *const *fix, bool fixable, arena *a)
{
    if (!fixable) {
        fprintf(stderr, "moefold check: %s: no set of repairs was found that makes it valid\n",
                name);
        return ERR_RULE;
    }
    for (; *fix; fix++) printf("%s\n", cli_quoted(a, *fix));
    return OK;
}

typedef struct check_options {
    bool json, fix, all_ranks;
    const char *rank;
} check_options;

static status audit_ranks(checked *c, const check_options *o, arena *a, error *err)
{
    if (!o->all_ranks && !o->rank) return OK;
    status st = o->rank ? cli_rank(o->rank, c->s, &c->rank, err) : OK;
    if (st) return st;
    audit_result *r = ARENA_NEW(a, audit_result);
    double start = clock_seconds();
    st = audit_run(r, c->s, NULL, a, err);
    c->seconds = clock_seconds() - start;
    c->audit = r;
    return st;
}

static int check(const recipe *r, const setup *s, const check_options *o, arena *a)
{
    static const char *const none[] = {NULL};
    checked c = {.s = s, .fix = none, .rank = -1};
    error err = {{0}};
    rules_check(&c.found, s, false, a);
    cli_price_advice(&c.found, r, s, a);
    c.fixable = c.found.n_errors == 0 || ((o->json || o->fix) && rules_fix(r, a, &c.fix));
    if (o->fix && !o->json) {
        int failed = print_fix(r->name, c.fix, c.fixable, a);
        return failed || c.found.n_errors ? ERR_RULE : OK;
    }
    status st = audit_ranks(&c, o, a, &err);
    if (st) return cli_fail("check", st, &err);
    if (o->json)
        print_json(&c);
    else
        print_text(&c, a);
    bool bad = c.found.n_errors || (c.audit && !c.audit->ok);
    return bad ? ERR_RULE : OK;
}

int command_check(int argc, char **argv)
{
    bool done = false;
    check_options o = {0};
    const cli_option options[] = {
        {"--all-ranks", NULL, "build the program of every rank and hold them against each other",
         &o.all_ranks, NULL},
        {"--rank", "R", "the same, and what rank R holds and sends", NULL, &o.rank},
        {"--json", NULL, "print for programs (docs/JSON.md)", &o.json, NULL},
        {"--fix", NULL, "print the smallest set of overrides that makes the recipe valid", &o.fix,
         NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    status st = cli_read(a, "check", argc, argv, options, 4, r, &done, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    int code = OK;
    if (st)
        code = cli_fail("check", st, &err);
    else if (!done)
        code = check(r, s, &o, a);
    arena_destroy(a);
    return code;
}
