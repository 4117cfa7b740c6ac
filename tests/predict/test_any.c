/* Recipes that break rules get an audit or a reason, never a crash; the cases are the rules'. */
#include "rules/testing.h"

#include "predict/audit/audit.h"
#include "base/file.h"

#define CASES "tests/data/rules.txt"

typedef struct counts {
    int audited, refused;
} counts;

/* Without errors there is a program (FSDP and Muon apart), and it has no fault. */
static void audit_one(counts *n, const char *id, const char *base, const char *overrides)
{
    made x;
    if (made_init(&x, base, overrides) == OK) {
        audit_result r;
        if (audit_run(&r, &x.s, NULL, x.a, &x.err)) fail_msg("%s: %s", id, x.err.text);
        bool valid = x.found.n_errors == 0 && !audit_not_known(&x.s, x.a);
        if (valid && r.why_not) fail_msg("%s: %s %s: %s", id, base, overrides, r.why_not);
        if (valid && !r.ok) fail_msg("%s: %s %s: %s", id, base, overrides, r.faults[0].text);
        if (!r.why_not) assert_true(r.fullest->arena_bytes > 0);
        n->refused += r.why_not != NULL;
        n->audited += r.why_not == NULL;
    }
    made_release(&x);
}

static void every_case_of_the_rules(void **state)
{
    (void)state;
    arena *a = arena_create();
    char *data, *rest = NULL;
    size_t size;
    error err;
    counts n = {0, 0};
    assert_int_equal(file_read(a, CASES, 1 << 20, &data, &size, &err), OK);
    for (char *line = strtok_r(data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *base = strstr(line, " | "), *overrides = base ? strstr(base + 3, " | ") : NULL;
        if (*line == '#' || !overrides) continue;
        *base = *overrides = 0;
        audit_one(&n, line, base + 3, "");
        audit_one(&n, line, base + 3, overrides + 3);
    }
    print_message("%d audited, %d refused\n", n.audited, n.refused);
    assert_true(n.audited > 300);
    assert_true(n.refused > 30);
    arena_destroy(a);
}

static void impossible_layouts_say_why(void **state)
{
    (void)state;
    counts n = {0, 0};
    audit_one(&n, "layout", "deepseek-v3", "TP=3");
    audit_one(&n, "zero", "deepseek-v3", "CP=0");
    assert_int_equal(n.audited, 0);
    assert_int_equal(n.refused, 2);
    made x;
    made_good(&x, "deepseek-v3", "GBS=1073741824 MBS=1");
    assert_non_null(strstr(audit_why_not(&x.s, x.a), "train.global_batch_size"));
    made_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_the_rules),
        cmocka_unit_test(impossible_layouts_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
