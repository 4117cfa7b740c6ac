/* test_arena.c - an arena's child lives as long as what its parent took when it was made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/arena.h"

static void a_child_outlives_later_releases(void **state)
{
    (void)state;
    arena *a = arena_create(), *child = arena_child(a);
    arena_place mark = arena_mark(a);
    char *kept = arena_copy(child, "kept", 4);
    arena *later = arena_child(a);
    arena_take(later, 1 << 20);
    arena_take(a, 1 << 20);
    arena_release(a, mark); /* `later` ends; under the address sanitizer a use of it is seen */
    memset(arena_take(a, 1 << 20), 0xff, 1 << 20);
    assert_string_equal(kept, "kept");
    assert_string_equal(arena_copy(child, "more", 4), "more");
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_outlives_later_releases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
