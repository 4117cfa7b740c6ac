/* check.c - `moefold check`: the verdict, every violation with its repair, layout and bytes. */
#include <stdio.h>

#include "cli/cli.h"

static json_t *json_list(const char *const *list)
{
    json_t *out = json_array();
    for (; list && *list; list++) json_array_append_new(out, json_string(*list));
    return out;
}

static json_t *json_violations(const violations *found)
{
    json_t *list = json_array();
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        json_t *alternatives = json_array();
        for (int k = 1; k < v->n_repairs; k++)
            json_array_append_new(alternatives, json_list(v->repairs[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "rule", v->rule->id,
                                              "severity", severity_name(v->rule->severity),
                                              "message", v->message, "repair",
                                              json_list(v->n_repairs ? v->repairs[0] : NULL),
                                              "alternatives", alternatives));
    }
    return list;
}

static json_t *json_notes(const recipe *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n_notes; i++) json_array_append_new(list, json_string(r->notes[i]));
    return list;
}

static void print_json(const setup *s, const violations *found, const char *const *fix,
                       bool fixable)
{
    json_t *o = json_object();
    json_object_set_new(o, "ok", json_boolean(found->n_errors == 0));
    json_object_set_new(o, "recipe", json_string(s->r.name));
    json_object_set_new(o, "violations", json_violations(found));
    json_object_set_new(o, "fix", json_list(fix));
    json_object_set_new(o, "fixable", json_boolean(fixable));
    json_object_set_new(o, "notes", json_notes(&s->r));
    json_object_set_new(o, "model", cli_json_model(s));
    json_object_set_new(o, "layout", cli_json_layout(s));
    json_object_set_new(o, "memory", cli_json_memory(s));
    cli_json_print(o);
}

static void print_repair(const violation *v, arena *a)
{
    for (int k = 0; k < v->n_repairs; k++) {
        printf("           %s", k ? "or:     " : "repair: ");
        for (const char *const *p = v->repairs[k]; *p; p++) printf(" %s", cli_quoted(a, *p));
        printf("\n");
    }
}

static void print_violations(const violations *found, arena *a)
{
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        printf("  %-8s %s\n           %s\n", severity_name(v->rule->severity), v->rule->id,
               v->message);
        print_repair(v, a);
    }
    if (found->n) printf("\n");
}

static void print_verdict(const setup *s, const violations *found)
{
    int counts[3] = {0};
    for (int i = 0; i < found->n; i++) counts[found->list[i].rule->severity]++;
    printf("%s: %s", s->r.name, counts[ERROR] ? "NOT VALID" : "valid");
    static const char *const names[][2] = {
        {"error", "errors"}, {"warning", "warnings"}, {"note", "notes"}};
    for (int k = 0; k < 3; k++)
        if (counts[k]) printf(", %d %s", counts[k], names[k][counts[k] > 1]);
    printf("\n\n");
}

static void print_text(const setup *s, const violations *found, arena *a)
{
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

int command_check(int argc, char **argv)
{
    bool json = false, fix = false, done = false;
    const cli_option options[] = {
        {"--json", NULL, "print for programs (docs/JSON.md)", &json, NULL},
        {"--fix", NULL, "print the smallest set of overrides that makes the recipe valid", &fix,
         NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    status st = cli_read(a, "check", argc, argv, options, 2, r, &done, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    int code = OK;
    if (st) {
        code = cli_fail("check", st, &err);
    } else if (!done) {
        violations found;
        rules_check(&found, s, false, a);
        const char *const none[] = {NULL};
        const char *const *set = none;
        bool fixable = found.n_errors == 0 || ((json || fix) && rules_fix(r, a, &set));
        code = found.n_errors ? ERR_RULE : OK;
        if (json)
            print_json(s, &found, set, fixable);
        else if (fix)
            code = print_fix(r->name, set, fixable, a) ? ERR_RULE : code;
        else
            print_text(s, &found, a);
    }
    arena_destroy(a);
    return code;
}
