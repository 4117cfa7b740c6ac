/* test_text.c - strings, saturating sizes, arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/maths.h"
#include "base/text.h"

static void distance_counts_edits_and_swaps(void **state)
{
    (void)state;
    assert_int_equal(text_distance("seq_length", "seq_length"), 0);
    assert_int_equal(text_distance("seq_lenght", "seq_length"), 1); /* a swap is one edit */
    assert_int_equal(text_distance("abc", "abcd"), 1);
    assert_int_equal(text_distance("", "abc"), 3);
    char huge[200];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    assert_true(text_distance(huge, "x") > 100);
}

static void nearest_is_near_or_nothing(void **state)
{
    (void)state;
    static const char *const words[] = {"alltoall", "allgather", "flex"};
    assert_string_equal(text_nearest("alltoal", words, 3), "alltoall");
    assert_string_equal(text_nearest("allgathr", words, 3), "allgather");
    assert_null(text_nearest("zzzzzzzzzzzz", words, 3));
}

static void a_beginning_is_nearer_than_edits(void **state)
{
    (void)state;
    static const char *const words[] = {"qwen3-32b", "qwen3-30b-a3b", "mixtral-8x7b",
                                        "mixtral-8x22b"};
    const char *first;
    arena *a = arena_create();
    assert_string_equal(text_meant(a, "qwen3-30b", words, 4), "qwen3-30b-a3b");
    assert_int_equal(text_begun("Qwen3-30B", words, 4, &first), 1);
    assert_string_equal(first, "qwen3-30b-a3b");
    assert_string_equal(text_meant(a, "mixtral", words, 4), "mixtral-8x7b or mixtral-8x22b");
    assert_string_equal(text_meant(a, "qwen3-33b", words, 4), "qwen3-32b");
    assert_int_equal(text_begun("mi", words, 4, &first), 0); /* too little */
    assert_int_equal(text_begun("mixtral-8x7b-instruct", words, 4, &first), 0);
    assert_null(first);
    assert_null(text_meant(a, "llama", words, 4));
    arena_destroy(a);
}

static void what_is_foreign_is_escaped(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"}, {"a\tb", "a\tb"},
        {"a\nb", "a\\nb"},  {"\033[31m", "\\x1b[31m"},
        {"\xff", "\\xff"},  {"\xc3\xa9", "\xc3\xa9"},
        {"\xc3", "\\xc3"},  {"\xc2\x9b", "\\xc2\\x9b"},
        {"\x7f", "\\x7f"},  {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
    };
    arena *a = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(text_visible(a, cases[i][0]), cases[i][1]);
    uint32_t seed = 7;
    for (int round = 0; round < 2000; round++) { /* whatever it is, and wherever it is cut */
        char s[40], out[24];
        for (size_t i = 0; i < sizeof s - 1; i++) {
            seed = seed * 1664525 + 1013904223;
            s[i] = (char)(seed >> 24 ? seed >> 24 : 1);
        }
        s[sizeof s - 1] = 0;
        assert_true(text_is_plain(text_visible(a, s)));
        text_escape(out, sizeof out, s, false);
        assert_true(text_is_plain(out));
        assert_true(strlen(out) < sizeof out);
    }
    arena_destroy(a);
}

static void words_of_a_list_match_whole(void **state)
{
    (void)state;
    assert_true(text_in("moe|moe_act|mlp", '|', "moe"));
    assert_true(text_in("moe|moe_act|mlp", '|', "mlp"));
    assert_false(text_in("moe_act|mlp", '|', "moe"));
    assert_false(text_in("", '|', "moe"));
}

static void numbers_are_written_for_people(void **state)
{
    (void)state;
    arena *a = arena_create();
    assert_string_equal(text_grouped(a, 1234567), "1,234,567");
    assert_string_equal(text_grouped(a, -1234), "-1,234");
    assert_string_equal(text_grouped(a, 999), "999");
    assert_string_equal(text_bytes(a, 512), "512 bytes");
    assert_string_equal(text_bytes(a, 1536), "1.50 KiB");
    assert_string_equal(text_bytes(a, 80LL << 30), "80.00 GiB");
    assert_string_equal(text_count(a, 671026404352), "671.03 B");
    assert_string_equal(text_count(a, 1251328), "1.25 M");
    arena_destroy(a);
}

static void a_buffer_grows(void **state)
{
    (void)state;
    arena *a = arena_create();
    textbuf t = text_init(a);
    for (int i = 0; i < 1000; i++) text_add(&t, "%d,", i % 10);
    assert_int_equal(t.n, 2000);
    assert_int_equal(strlen(t.s), 2000);
    arena_destroy(a);
}

static void released_memory_comes_back_zeroed(void **state)
{
    (void)state;
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    char *first = arena_take(a, 1000);
    memset(first, 'x', 1000);
    arena_take(a, 1 << 20); /* a chunk of its own */
    arena_release(a, mark);
    char *again = arena_take(a, 1000);
    assert_ptr_equal(first, again);
    for (int i = 0; i < 1000; i++) assert_int_equal(again[i], 0);
    arena_destroy(a);
}

static void sizes_saturate(void **state)
{
    (void)state;
    assert_int_equal(mul_sat(6, 7), 42);
    assert_int_equal(mul_sat(1LL << 40, 1LL << 40), SIZE_HUGE);
    assert_int_equal(mul_sat(SIZE_HUGE, 2), SIZE_HUGE);
    assert_int_equal(lcm64(6, 4), 12);
    assert_int_equal(round_up(61, 8), 64);
    assert_true(divides(4, 12));
    assert_false(divides(5, 12));
    assert_true(divides(0, 12)); /* another rule's business */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_edits_and_swaps),
        cmocka_unit_test(nearest_is_near_or_nothing),
        cmocka_unit_test(a_beginning_is_nearer_than_edits),
        cmocka_unit_test(what_is_foreign_is_escaped),
        cmocka_unit_test(words_of_a_list_match_whole),
        cmocka_unit_test(numbers_are_written_for_people),
        cmocka_unit_test(a_buffer_grows),
        cmocka_unit_test(released_memory_comes_back_zeroed),
        cmocka_unit_test(sizes_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
