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

/* What is wrong with a repair; NULL: nothing. The recipe is written anew with it, as a person would
 * do. */
static const char *fault_of(const made *x, const violation *v, const char *const *repair)
{
    made y;
    const char *fault = NULL;
    const rule *own = v->rule;
    severity most = own->severity == ERROR ? ERROR : WARNING;
    if (made_again(&y, x, repair))
        fault = arena_text(x->a, "cannot be read: %s", y.err.text);
    else if (times_reported(&y.found, own->id) >= times_reported(&x->found, own->id))
        fault = "leaves it broken";
    for (int i = 0; !fault && i < y.found.n; i++) {
        const rule *r = y.found.list[i].rule;
        if (r->severity <= most &&
            times_reported(&y.found, r->id) > times_reported(&x->found, r->id))
            fault = arena_text(x->a, "breaks %s", r->id);
    }
    made_release(&y);
    return fault;
}

static void judge_repairs(const made *x, const violation *v, const char *where)
{
    for (int k = 0; k < v->n_repairs; k++) {
        const char *const *words = edits_words(v->repairs[k], x->a);
        assert_true(count_words(words) > 0);
        const char *fault = fault_of(x, v, words);
        if (!fault) continue;
        complain("%s (%s): a repair %s", v->rule->id, where, fault);
        for (const char *const *p = words; *p; p++) print_message("    %s\n", *p);
    }
}

/* What must fit is repaired where memory is known, by src/plan/autofit.c. */
static bool needs_repair(const rule *r)
{
    return r->severity != NOTE && strcmp(r->id, "state-fits-the-gpu") != 0;
}

static void every_repair_repairs_and_breaks_nothing(void **state)
{
    (void)state;
    complaints = 0;
    int n_repairs = 0;
    for (int c = 0; c < n_cases; c++) {
        made x;
        made_good(&x, cases[c].base, cases[c].overrides);
        rules_prove(&x.found, &x.s, false, x.a);
        const violation *own = find_violation(&x.found, cases[c].id);
        if (!own || (needs_repair(own->rule) && !own->n_repairs))
            complain("%s has no repair for %s | %s", cases[c].id, cases[c].base,
                     cases[c].overrides);
        for (int i = 0; i < x.found.n; i++) {
            judge_repairs(&x, &x.found.list[i], cases[c].overrides);
            n_repairs += x.found.list[i].n_repairs;
        }
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
    assert_true(n_repairs > 400);
}

/* A word that has another name, and what the first repair makes of it. */
static void wrong_words_become_what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *base, *wrong, *right[3];
    } words[] = {
        {"deepseek-v3 EP=64 PP=4", "DISPATCHER=deepep", {"DISPATCHER=flex", "FLEX=deepep"}},
        {"qwen3-30b-a3b EP=8", "DISPATCHER=deepep", {"DISPATCHER=flex", "FLEX=deepep"}},
        {"qwen3-30b-a3b EP=8 GPU=GB200",
         "DISPATCHER=hybridep",
         {"DISPATCHER=flex", "FLEX=hybridep"}},
        {"deepseek-v3", "PRECISION=fp8", {"PRECISION=bf16_with_fp8_subchannel_scaling_mixed"}},
        {"deepseek-v3 GPU=GB200", "PRECISION=fp8", {"PRECISION=bf16_with_mxfp8_mixed"}},
        {"qwen3-30b-a3b GPU=A100", "PRECISION=fp8", {"PRECISION=bf16_mixed"}},
        {"qwen3-30b-a3b",
         "PRECISION=tensorwise",
         {"PRECISION=bf16_with_fp8_current_scaling_mixed"}},
        {"qwen3-30b-a3b", "PRECISION=half", {"PRECISION=fp16_mixed"}},
        {"qwen3-30b-a3b CP=2", "CP_COMM=ring", {"CP_COMM=p2p"}},
        {"qwen3-30b-a3b CP=2", "CP_COMM=ulysses", {"CP_COMM=a2a"}},
        {"qwen3-30b-a3b", "OPTIMIZER=adamw", {"OPTIMIZER=adam"}},
        {"qwen3-30b-a3b", "ACTIVATION=swiglu", {"ACTIVATION=silu"}},
    };
    complaints = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        made x, y;
        made_good(&x, words[i].base, words[i].wrong);
        rules_prove(&x.found, &x.s, false, x.a);
        const violation *v = find_violation(&x.found, "value-in-range");
        assert_true(v && v->n_repairs);
        assert_int_equal(made_again(&y, &x, edits_words(v->repairs[0], x.a)), OK);
        for (int k = 0; k < 3 && words[i].right[k]; k++) {
            const char *const with[] = {with_key(x.a, words[i].right[k]), NULL};
            made z;
            assert_int_equal(made_again(&z, &y, with), OK);
            for (int q = 0; q < K_COUNT; q++)
                if (!value_equal(z.s.r.knob[q].v, y.s.r.knob[q].v))
                    complain("%s %s: the first repair is not %s", words[i].base, words[i].wrong,
                             words[i].right[k]);
            made_release(&z);
        }
        if (y.found.n_errors) complain("%s: not valid then", words[i].wrong);
        made_release(&y);
        made_release(&x);
    }
    assert_int_equal(complaints, 0);
}

/* Where no repair of a rule does, all of the recipe is repaired, and what was tried is known. */
static void what_was_tried_is_kept(void **state)
{
    (void)state;
    made x;
    made_good(&x, "qwen3-30b-a3b EP=8 N_GPUS=64", "N_GPUS=12");
    violation *v = &x.found.list[0];
    const edits nonsense = EDITS(SET_INT(TP, 7));
    for (int i = 0; i < v->n_repairs; i++) v->repairs[i] = nonsense;
    rules_prove(&x.found, &x.s, false, x.a);
    assert_true(v->n_tried > 0 && v->n_repairs == 1); /* the whole recipe is repaired instead */
    assert_null(fault_of(&x, v, edits_words(v->repairs[0], x.a)));
    made_release(&x);
}

static void fix_makes_each_case_valid(void **state)
{
    (void)state;
    complaints = 0;
    for (int c = 0; c < n_cases; c++) {
        made x, y;
        made_good(&x, cases[c].base, cases[c].overrides);
        const char *const *set = NULL;
        if (!(set = fix_words(&x.r, x.a))) complain("%s: no fix", cases[c].id);
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
        cmocka_unit_test(every_repair_repairs_and_breaks_nothing),
        cmocka_unit_test(wrong_words_become_what_was_meant),
        cmocka_unit_test(what_was_tried_is_kept),
        cmocka_unit_test(fix_makes_each_case_valid),
        cmocka_unit_test(violations_are_sorted_by_severity),
        cmocka_unit_test(gpu_rules_spare_cpus_but_not_exports),
        cmocka_unit_test(ep_overlap_on_cpus_may_be_fp32),
        cmocka_unit_test(braces_in_values_stay_text),
    };
    return cmocka_run_group_tests(tests, read_cases, forget_cases);
}
