/* List expressions: patterns of layers as Megatron-LM writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/megatron_list.h"

static arena *memory;
static error err;

static int begin(void **state)
{
    (void)state;
    memory = arena_create();
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static void assert_pattern(const char *text, const char *expected)
{
    value v;
    status s = list_expression(memory, text, &v, &err);
    if (s) fail_msg("%s: %s", text, err.text);
    assert_string_equal(value_text(memory, v), expected);
}

static void patterns_are_evaluated_as_python_does(void **state)
{
    (void)state;
    assert_pattern("([1]*3+[0])*2", "[1,1,1,0,1,1,1,0]");
    assert_pattern("2*[0,1] + [1]", "[0,1,0,1,1]");
    assert_pattern("[1]*0+[1]*-1", "[]");
    assert_pattern("(127,0)", "[127,0]");
    assert_pattern("127,0", "[127,0]");
    assert_pattern("(2+1)*4", "12");
    assert_pattern("[1,]", "[1]");
    assert_pattern("([0]*2+[1]*3)*1", "[0,0,1,1,1]");
}

static void bad_patterns_name_the_column(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "column 1"},
        {"[1", "column 3"},
        {"([0]*3", "column 7"},
        {"[0]*3]", "column 6"},
        {"[0]+1", "cannot be added"},
        {"[0]*[1]", "cannot be multiplied"},
        {"[[1]]", "a list inside a list"},
        {"()", "empty"},
        {"[1]*x", "column 5"},
        {"[0]*1000000000", "4096"},
        {"[0]*4096+[1]", "4096"},
        {"9223372036854775807+1", "64 bits"},
        {"99999999999*99999999999", "64 bits"},
        {"99999999999999999999", "64 bits"},
        {"((((((((((((((((((1))))))))))))))))))", "deeply"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        value v;
        assert_int_equal(list_expression(memory, bad[i][0], &v, &err), ERR_INPUT);
        if (!strstr(err.text, bad[i][1])) fail_msg("'%s' is not in: %s", bad[i][1], err.text);
    }
}

static void a_pattern_that_makes_much_and_keeps_nothing_is_refused(void **state)
{
    (void)state;
    textbuf t = text_init(memory);
    text_add(&t, "[1]");
    for (int i = 0; i < 10000; i++) text_add(&t, "+[0]*4096*0");
    value v;
    assert_int_equal(list_expression(memory, t.s, &v, &err), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
        T(patterns_are_evaluated_as_python_does),
        T(bad_patterns_name_the_column),
        T(a_pattern_that_makes_much_and_keeps_nothing_is_refused),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
