/* Each row of the table of versions at both sides of its ends, and reading moefold.versions. */
#include "rules/testing.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/file.h"
#include "config/job_of.h"
#include "config/versions.h"

#define CASES "tests/data/rules.txt"

static const struct row {
    const char *id, *part, *since, *until;
} rows[] = {
#define V(id, part, since, until, severity, source, condition, message, repair)                    \
    {#id, part, since, until},
#include "rules/rules_versions.def"
#undef V
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static arena *all;
static char *cases;

static int read_cases(void **state)
{
    (void)state;
    size_t n;
    error err;
    all = arena_create();
    return file_read(all, CASES, 1 << 20, &cases, &n, &err) ? -1 : 0;
}

static int forget_cases(void **state)
{
    (void)state;
    arena_destroy(all);
    return 0;
}

/* "te_has_fp4" -> the text behind "te-has-fp4 | " in the cases, up to the end of the line. */
static const char *case_of(const char *id, char name[64])
{
    size_t n = strlen(id);
    assert_true(n < 60);
    for (size_t i = 0; i <= n; i++) name[i] = id[i] == '_' ? '-' : id[i];
    const char *line = strstr(cases, arena_text(all, "\n%s | ", name));
    if (!line) fail_msg("%s has no case", name);
    line += n + strlen("\n | ");
    return arena_copy(all, line, strcspn(line, "\n"));
}

/* "2.15" -> "2.14.99", "2.0" -> "1.99": nothing published lies between. */
static const char *before(const char *text)
{
    long x[3] = {0};
    int n = sscanf(text, "%ld.%ld.%ld", &x[0], &x[1], &x[2]), last = n - 1;
    while (last > 0 && x[last] == 0) last--;
    x[last]--;
    if (last == 2) return arena_text(all, "%ld.%ld.%ld", x[0], x[1], x[2]);
    return last == 1 ? arena_text(all, "%ld.%02ld.99", x[0], x[1])
                     : arena_text(all, "%ld.99", x[0]);
}

static void says(const struct row *row, const char *version, bool expected)
{
    char name[64];
    const char *text = case_of(row->id, name), *bar = strstr(text, " | ");
    const bool container = strcmp(row->part, "container") == 0;
    const char *set = container ? arena_text(all, "VERSIONS=null STACK=%s", version)
                                : arena_text(all, "STACK=null VERSIONS=%s=%s", row->part, version);
    made x;
    made_good(&x, arena_copy(all, text, (size_t)(bar - text)),
              arena_text(all, "%s %s", bar + 3, set));
    int n = times_reported(&x.found, name);
    if (n != expected) fail_msg("%s is reported %d times by %s %s", name, n, row->part, version);
    made_release(&x);
}

static void rows_end_where_they_say(void **state)
{
    (void)state;
    assert_true(ROWS >= 15);
    for (int i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        assert_true(*row->since || *row->until);
        if (*row->until) says(row, row->until, false);
        if (*row->until) says(row, before(row->until), true);
        if (*row->since) says(row, row->since, true);
        if (*row->since) says(row, before(row->since), false);
    }
}

static void made_with(made *x, const char *stack, const char *versions)
{
    made_begin(x);
    recipe_init(&x->r, x->a, "test");
    if (stack) recipe_set(&x->r, K_STACK, value_of_text(stack), "test");
    if (versions) recipe_set(&x->r, K_VERSIONS, value_of_text(versions), "test");
}

static void containers_stand_for_versions(void **state)
{
    (void)state;
    static const struct {
        const char *stack, *versions, *part, *text; /* NULL: not known */
    } known[] = {
        {"25.11", NULL, "te", "2.9"},
        {"26.04.01", NULL, "te", "2.14"},
        {"26.06", NULL, "cudnn", "9.21.1"},
        {"26.06", NULL, "nccl", NULL},
        {"26.06", "nccl=2.28.9", "nccl", "2.28.9"},
        {"26.02", "te=2.12.1", "te", "2.12.1"},
        {"26.02", "cudnn=9", "cudnn", "9.18.0"},
        {"26.08", NULL, "te", NULL},
        {"any", NULL, "container", NULL},
        {NULL, "torch=2.9.0a0+5228986c39.nv25.6", "torch", "2.9.0a0+5228986c39.nv25.6"},
        {NULL, "torch=2.9", "te", NULL},
        {NULL, NULL, "te", NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        made x;
        part_version v;
        made_with(&x, known[i].stack, known[i].versions);
        job j;
        job_of(&j, &x.r);
        bool is = version_of(&j, known[i].part, &v);
        if (is != (known[i].text != NULL)) fail_msg("row %zu: known: %d", i, is);
        if (is) assert_string_equal(v.text, known[i].text);
        made_release(&x);
    }
}

static void versions_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: it is read */
    } said[] = {
        {"te=2.12", NULL},
        {"te=2.14+71bbefb,torch=2.11.0a0+eb65b36914.nv26.02,cudnn=9.20.0.48-1,nccl=2.29", NULL},
        {"transformer_engine=2.12", "te=2.12"},
        {"pytorch=2.9", "torch=2.9"},
        {"cuDNN=9.14", "cudnn=9.14"},
        {"ncl=2.28", "nccl=2.28"},
        {"te=two", "no version"},
        {"te=2.", "no version"},
        {"te=2.1 2", "no version"},
        {"te=12345678901234", "no version"},
        {"te=", "no version"},
        {"te", "no version"},
        {"te=2.12,te=2.13", "twice"},
        {",te=2.12", "none of te"},
        {"", "empty"},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        made x;
        made_with(&x, NULL, said[i].text);
        status st = recipe_versions_read(&x.r, &x.err);
        if ((st != OK) != (said[i].says != NULL)) fail_msg("'%s': %d", said[i].text, st);
        if (st && !strstr(x.err.text, said[i].says)) fail_msg("%s", x.err.text);
        made_release(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_where_they_say),
        cmocka_unit_test(containers_stand_for_versions),
        cmocka_unit_test(versions_are_read),
    };
    return cmocka_run_group_tests(tests, read_cases, forget_cases);
}
