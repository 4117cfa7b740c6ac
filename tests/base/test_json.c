/* test_json.c - JSON that is written lacks nothing without a word, and what is read is text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"

static arena *a;
static error err;

static void text_that_is_not_utf8_is_escaped(void **state)
{
    (void)state;
    const char *text;
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string("odd\xffname"));
    assert_int_equal(json_print(a, "out", o, JSON_COMPACT, &text, &err), OK);
    assert_string_equal(text, "{\"name\":\"odd\\\\xffname\"}");
    json_decref(o);
}

static void control_characters_in_strings_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"a\":[\"\\u001b[31m\"]}", "{\"a\\u0007\":1}",
                                      "[\"\\u009b\"]", "[\"\x7f\"]"};
    json_t *o;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(json_parse("x.json", bad[i], strlen(bad[i]), &o, &err), ERR_INPUT);
        assert_non_null(strstr(err.text, "x.json: a string in it holds a control character"));
        assert_null(json_line(bad[i], strlen(bad[i]), 0));
    }
    static const char fine[] = "{\"recipe\":\"a:\\n\\tb: 1\"}";
    assert_int_equal(json_parse("x.json", fine, sizeof fine - 1, &o, &err), OK);
    json_decref(o);
}

/* The last: what is missing is told until the program ends. */
static void what_cannot_be_made_is_an_error(void **state)
{
    (void)state;
    const char *text;
    assert_null(json_missing());
    json_t *o = json_object();
    assert_int_equal(json_object_set_new(o, "inner", json_pack("{s:s}", "name", "odd\xff")), -1);
    assert_non_null(json_missing());
    assert_int_equal(json_print(a, "out.json", o, 0, &text, &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "out.json: its JSON cannot be made"));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_not_utf8_is_escaped),
        cmocka_unit_test(control_characters_in_strings_are_refused),
        cmocka_unit_test(what_cannot_be_made_is_an_error),
    };
    a = arena_create();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(a);
    return failed;
}
