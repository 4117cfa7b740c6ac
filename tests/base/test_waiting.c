/* The line that says how long a command will take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/waiting.h"

static const char *text(waiting_state w)
{
    static char out[240];
    w.command = "check";
    w.what = "messages";
    waiting_text(out, (int)sizeof out, &w);
    return out;
}

static void a_part_gives_an_estimate(void **state)
{
    (void)state;
    assert_string_equal(text((waiting_state){.elapsed = 3, .part = 0.25}),
                        "moefold check: messages, 3 s so far, 25 %, about 9 s left");
    assert_string_equal(text((waiting_state){.elapsed = 600, .part = 0.5}),
                        "moefold check: messages, 600 s so far, 50 %, about 10 min left");
    assert_string_equal(text((waiting_state){.elapsed = 3, .part = -1}),
                        "moefold check: messages, 3 s so far");
}

static void a_limit_gives_one_too(void **state)
{
    (void)state;
    assert_string_equal(
        text((waiting_state){.elapsed = 5, .part = -1, .limit = WAITING_AT_MOST, .seconds = 60}),
        "moefold check: messages, 5 s so far, at most 55 s left");
    assert_string_equal(
        text((waiting_state){.elapsed = 5, .part = -1, .limit = WAITING_ABOUT, .seconds = 4}),
        "moefold check: messages, 5 s so far, nearly done");
}

static void a_narrow_terminal_cuts_it(void **state)
{
    (void)state;
    char out[12];
    waiting_text(out, (int)sizeof out, &(waiting_state){.command = "plan", .what = "x"});
    assert_string_equal(out, "moefold pla");
}

/* Begins inside a begin, ends without a terminal: nothing happens, and nothing hangs. */
static void begins_nest(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        waiting_begin("plan", "outer", WAITING_UNKNOWN, 0);
        waiting_begin("plan", "inner", WAITING_ABOUT, 1);
        waiting_part(0.5);
        waiting_part(7); /* not one */
        waiting_clear();
        waiting_end();
        waiting_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_gives_an_estimate),
        cmocka_unit_test(a_limit_gives_one_too),
        cmocka_unit_test(a_narrow_terminal_cuts_it),
        cmocka_unit_test(begins_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
