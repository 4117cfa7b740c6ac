/* Each rule of the table, broken once and kept once; tests/data/rules.txt has the cases. */
#include "rules/testing.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/file.h"
#include "rules/words.h"

#define CASES "tests/data/rules.txt"

typedef struct one_case {
    const char *id, *base, *overrides;
} one_case;

enum { CASES_MAX = 1024 };
static one_case cases[CASES_MAX];
static int n_cases;
static arena *file_arena;

static char *trimmed(char *s)
{
    while (*s == ' ') s++;
    for (size_t n = strlen(s); n && s[n - 1] == ' '; n--) s[n - 1] = 0;
    return s;
}

static int read_cases(void **state)
{
    (void)state;
    file_arena = arena_create();
    char *data, *rest = NULL;
    size_t n;
    error err;
    if (file_read(file_arena, CASES, 1 << 20, &data, &n, &err)) return -1;
    for (char *line = strtok_r(data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (*line == '#' || !*trimmed(line)) continue;
        char *base = strstr(line, " | "), *overrides = base ? strstr(base + 3, " | ") : NULL;
        if (!overrides || n_cases == CASES_MAX) return -1;
        *base = *overrides = 0;
        cases[n_cases++] = (one_case){trimmed(line), trimmed(base + 3), trimmed(overrides + 3)};
    }
    return 0;
}

static int forget_cases(void **state)
{
    (void)state;
    arena_destroy(file_arena);
    return 0;
}

/* ---- the table */

static void ids_are_unique_words_with_dashes(void **state)
{
    (void)state;
    int n;
    const rule *rules = rules_table(&n);
    assert_true(n >= 120);
    for (int i = 0; i < n; i++) {
        for (const char *p = rules[i].id; *p; p++)
            assert_true(islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '-');
        assert_true(strlen(rules[i].id) < 60);
        assert_true(strlen(rules[i].source) > 0);
        for (int j = 0; j < i; j++) assert_string_not_equal(rules[i].id, rules[j].id);
    }
}

static bool is_knob(const char *word, size_t n)
{
    for (int k = 0; k < K_COUNT; k++)
        if (strlen(knobs[k].id) == n && strncmp(knobs[k].id, word, n) == 0) return true;
    return false;
}

static void check_words(const rule *r, const char *template)
{
    for (const char *p = strchr(template, '{'); p; p = strchr(p + 1, '{')) {
        const char *word = p + 1 + (p[1] == '=');
        size_t n = strcspn(word, ":}");
        char name[64] = {0};
        assert_true(n < sizeof name && word[strcspn(word, "}")] == '}');
        memcpy(name, word, n);
        if (!is_knob(word, n) && !rule_quantity_known(name))
            fail_msg("%s: {%s} is neither a knob nor a quantity", r->id, name);
    }
}

static void check_left_sides(const rule *r)
{
    for (const char *p = r->repair; *p;) {
        size_t n = strcspn(p, " "), left = strcspn(p, "=");
        bool bar = n == 1 && *p == '|', quantity = *p == '{';
        if (!bar && !quantity && (left > n || !is_knob(p, left)))
            fail_msg("%s: the repair '%.*s' sets no knob", r->id, (int)n, p);
        p += n + strspn(p + n, " ");
    }
}

static void texts_name_known_words(void **state)
{
    (void)state;
    int n;
    const rule *rules = rules_table(&n);
    for (int i = 0; i < n; i++) {
        if (rules[i].visit) continue;
        assert_true(strlen(rules[i].message) > 0);
        check_words(&rules[i], rules[i].message);
        check_words(&rules[i], rules[i].repair);
        check_left_sides(&rules[i]);
    }
}

/* ---- the cases */

/* All that is wrong is said, not only the first. */
static int complaints;
#define complain(...) (print_message(__VA_ARGS__), print_message("\n"), complaints++)

static void every_rule_has_a_case(void **state)
{
    (void)state;
    complaints = 0;
    int n;
    const rule *rules = rules_table(&n);
    for (int i = 0; i < n; i++) {
        int found = 0;
        for (int c = 0; c < n_cases; c++) found += strcmp(cases[c].id, rules[i].id) == 0;
        if (!found) complain("%s has no case in %s", rules[i].id, CASES);
    }
    for (int c = 0; c < n_cases; c++) {
        bool known = false;
        for (int i = 0; i < n && !known; i++) known = strcmp(cases[c].id, rules[i].id) == 0;
        if (!known) complain("%s: there is no rule '%s'", CASES, cases[c].id);
    }
    assert_int_equal(complaints, 0);
}

static void base_keeps_the_rule(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x;
        made_good(&x, cases[c].base, "");
        if (times_reported(&x.found, cases[c].id))
            complain("%s is broken by its base, %s: %s", cases[c].id, cases[c].base,
                     find_violation(&x.found, cases[c].id)->message);
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

static void overrides_break_it_once(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x;
        made_good(&x, cases[c].base, cases[c].overrides);
        int n = times_reported(&x.found, cases[c].id);
        if (n != 1)
            complain("%s is reported %d times by %s | %s", cases[c].id, n, cases[c].base,
                     cases[c].overrides);
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

/* The key or the value of a knob that somebody set, or a Megatron-LM flag. */
static bool names_a_knob(const made *x, const char *message)
{
    for (int k = 0; k < K_COUNT; k++) {
        const setting *now = &x->r.knob[k];
        const char *last = strrchr(knobs[k].key, '.');
        if (strstr(message, knobs[k].key) || strstr(message, last ? last + 1 : knobs[k].key))
            return true;
        if (now->from == FROM_USER && now->v.kind != V_NULL &&
            strstr(message, value_text(x->a, now->v)))
            return true;
    }
    return false;
}

static void messages_name_what_is_wrong(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x;
        made_good(&x, cases[c].base, cases[c].overrides);
        for (int i = 0; i < x.found.n; i++) {
            const violation *v = &x.found.list[i];
            bool text = strlen(v->message) > 10 && !strchr(v->message, '{');
            if (!text) complain("%s says '%s'", v->rule->id, v->message);
            if (v->rule->severity != NOTE && !names_a_knob(&x, v->message))
                complain("%s names no knob: %s", v->rule->id, v->message);
        }
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

static void first_repair_mends(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x, y;
        made_good(&x, cases[c].base, cases[c].overrides);
        const violation *v = find_violation(&x.found, cases[c].id);
        if (!v) {
            complain("%s is not reported", cases[c].id);
            made_release(&x);
            continue;
        }
        if (v->rule->severity != NOTE && !v->n_repairs)
            complain("%s has no repair for %s | %s", cases[c].id, cases[c].base,
                     cases[c].overrides);
        if (v->n_repairs) {
            status st = made_again(&y, &x, v->repairs[0]);
            if (st || times_reported(&y.found, cases[c].id))
                complain("%s: %s ... does not mend %s | %s (%s)", cases[c].id, v->repairs[0][0],
                         cases[c].base, cases[c].overrides, y.err.text);
            made_release(&y);
        }
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

/* Any alternative, not only the first, can be read. */
static void every_repair_can_be_read(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x, y;
        made_good(&x, cases[c].base, cases[c].overrides);
        for (int i = 0; i < x.found.n; i++)
            for (int k = 0; k < x.found.list[i].n_repairs; k++) {
                const violation *v = &x.found.list[i];
                assert_true(count_words(v->repairs[k]) > 0);
                if (made_again(&y, &x, v->repairs[k]))
                    complain("%s: repair %d (%s ...): %s", v->rule->id, k, v->repairs[k][0],
                             y.err.text);
                made_release(&y);
            }
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

static void fix_makes_each_case_valid(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x, y;
        made_good(&x, cases[c].base, cases[c].overrides);
        const char *const *set = NULL;
        if (!rules_fix(&x.r, x.a, &set)) complain("%s: no fix", cases[c].id);
        assert_int_equal(made_again(&y, &x, set), OK);
        if (y.found.n_errors) print_errors(&y.found);
        assert_int_equal(y.found.n_errors, 0);
        made_release(&y);
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

static void violations_are_sorted_by_severity(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x;
        made_good(&x, cases[c].base, cases[c].overrides);
        int errors = 0;
        for (int i = 0; i < x.found.n; i++) {
            errors += x.found.list[i].rule->severity == ERROR;
            if (i)
                assert_true(x.found.list[i - 1].rule->severity <= x.found.list[i].rule->severity);
        }
        assert_int_equal(errors, x.found.n_errors);
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

/* ---- where rules apply */

static void gpu_rules_spare_cpus_but_not_exports(void **state)
{
    (void)state;
    int n_checked = 0;
    for (int c = 0; c < n_cases; c++) {
        int n;
        const rule *rules = rules_table(&n), *r = NULL;
        for (int i = 0; i < n; i++)
            if (strcmp(rules[i].id, cases[c].id) == 0) r = &rules[i];
        if (!r || r->scope != ON_GPU) continue;
        made x;
        made_good(&x, cases[c].base, cases[c].overrides);
        recipe_set(&x.wrote, K_GPU, value_of_text("cpu"), "test");
        assert_int_equal(made_resolve(&x), OK);
        violations here, abroad;
        rules_check(&here, &x.s, false, x.a);
        rules_check(&abroad, &x.s, true, x.a);
        assert_int_equal(times_reported(&here, r->id), 0);
        assert_true(abroad.n >= here.n);
        n_checked += times_reported(&abroad, r->id);
        made_release(&x);
    }
    assert_true(n_checked >= 15); /* the others ask for a kind of GPU */
}

static void ep_overlap_on_cpus_may_be_fp32(void **state)
{
    (void)state;
    made x;
    made_good(&x, "tiny GPU=cpu EP=4", "EP_OVERLAP=true");
    assert_int_equal(x.found.n_errors, 0);
    violations abroad;
    rules_check(&abroad, &x.s, true, x.a);
    assert_int_equal(times_reported(&abroad, "ep-overlap-needs-half-weights"), 1);
    made_release(&x);
}

/* ---- what people wrote is never a template */

static void braces_in_values_stay_text(void **state)
{
    (void)state;
    static const char *const words[] = {"{",          "{TP",       "{TP}", "}{",
                                        "{nonsense}", "{=TP:why}", "%s%n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        made x;
        made_begin(&x);
        assert_int_equal(made_words(&x, "tiny"), OK);
        recipe_set(&x.wrote, K_DISPATCHER, value_of_text(words[i]), "test");
        assert_int_equal(made_resolve(&x), OK);
        rules_check(&x.found, &x.s, false, x.a);
        const violation *v = find_violation(&x.found, "value-in-range");
        assert_non_null(v);
        assert_non_null(strstr(v->message, words[i]));
        assert_true(v->n_repairs > 0);
        made_release(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_unique_words_with_dashes),
        cmocka_unit_test(texts_name_known_words),
        cmocka_unit_test(every_rule_has_a_case),
        cmocka_unit_test(base_keeps_the_rule),
        cmocka_unit_test(overrides_break_it_once),
        cmocka_unit_test(messages_name_what_is_wrong),
        cmocka_unit_test(first_repair_mends),
        cmocka_unit_test(every_repair_can_be_read),
        cmocka_unit_test(fix_makes_each_case_valid),
        cmocka_unit_test(violations_are_sorted_by_severity),
        cmocka_unit_test(gpu_rules_spare_cpus_but_not_exports),
        cmocka_unit_test(ep_overlap_on_cpus_may_be_fp32),
        cmocka_unit_test(braces_in_values_stay_text),
    };
    return cmocka_run_group_tests(tests, read_cases, forget_cases);
}
