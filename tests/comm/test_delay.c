/* The text of moefold.comm_delay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "backend/comm/delay.h"

static comm_delay parsed(const char *text)
{
    comm_delay d = {0};
    error err = {{0}};
    if (comm_delay_parse(text, &d, &err)) fail_msg("%s", err.text);
    return d;
}

static bool same(double a, double b)
{
    return a >= b * (1 - 1e-12) && a <= b * (1 + 1e-12);
}

static void one_link_counts_for_all_levels(void **state)
{
    (void)state;
    comm_delay d = parsed("5us+10GB/s");
    assert_true(d.on);
    for (int k = LEVEL_NODE; k <= LEVEL_ACROSS; k++) {
        assert_true(same(d.link[k].latency, 5e-6));
        assert_true(same(d.link[k].bandwidth, 1e10));
    }
    assert_true(d.link[LEVEL_SELF].latency == 0 && d.link[LEVEL_SELF].bandwidth == 0);
}

static void levels_are_named(void **state)
{
    (void)state;
    comm_delay d = parsed("  node=2us+100GB/s   across=1.5ms+10MB/s ");
    assert_true(same(d.link[LEVEL_NODE].latency, 2e-6));
    assert_true(same(d.link[LEVEL_NODE].bandwidth, 1e11));
    assert_true(d.link[LEVEL_DOMAIN].latency == 0 && d.link[LEVEL_DOMAIN].bandwidth == 0);
    assert_true(same(d.link[LEVEL_ACROSS].latency, 1.5e-3));
    assert_true(same(d.link[LEVEL_ACROSS].bandwidth, 1e7));
    d = parsed("1s domain=3ns");
    assert_true(same(d.link[LEVEL_NODE].latency, 1));
    assert_true(same(d.link[LEVEL_DOMAIN].latency, 3e-9));
}

static void one_of_the_two_may_be_missing(void **state)
{
    (void)state;
    comm_delay d = parsed("7ms");
    assert_true(same(d.link[LEVEL_NODE].latency, 7e-3) && d.link[LEVEL_NODE].bandwidth == 0);
    assert_true(comm_link_busy(&d.link[LEVEL_NODE], 1e9) == 0);
    d = parsed("2KB/s");
    assert_true(d.link[LEVEL_NODE].latency == 0);
    assert_true(same(comm_link_busy(&d.link[LEVEL_NODE], 1e3), 0.5));
    d = parsed("4GB/s+1us"); /* either may come first */
    assert_true(same(d.link[LEVEL_NODE].latency, 1e-6) && same(d.link[LEVEL_NODE].bandwidth, 4e9));
}

static void nothing_means_no_delay(void **state)
{
    (void)state;
    assert_false(parsed(NULL).on);
    assert_false(parsed("").on);
    assert_false(parsed("  ").on);
}

static void bad_spellings_are_named_and_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "5",
        "5 us",
        "us",
        "-5us",
        "5us+",
        "+5us",
        "5us+6us",
        "1GB/s+2GB/s",
        "5us+0GB/s",
        "nan us",
        "infs",
        "inf",
        "1e400s",
        "0x5",
        "rack=5us",
        "node=",
        "node",
        "node=5us across",
        "5us,10GB/s",
        "node=node=5us",
        "5us+10GB",
        "99999999999s",
        "5us+10GB/s+1us",
        "555555555555555555555555555555555555555555555555555555555555555555555555555us"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        comm_delay d = {.on = false, .link[LEVEL_NODE] = {42, 43}};
        error err = {{0}};
        if (comm_delay_parse(bad[i], &d, &err) != ERR_INPUT) fail_msg("'%s' passed", bad[i]);
        assert_non_null(strstr(err.text, "moefold.comm_delay="));
        assert_non_null(strstr(err.text, "5us+10GB/s"));
        assert_true(!d.on && d.link[LEVEL_NODE].latency == 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_link_counts_for_all_levels),
        cmocka_unit_test(levels_are_named),
        cmocka_unit_test(one_of_the_two_may_be_missing),
        cmocka_unit_test(nothing_means_no_delay),
        cmocka_unit_test(bad_spellings_are_named_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
