/* test_screen.c - screens: no line is wider than the window and no word is lost; numbers have the
 * digits that they bear; rounded parts add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/screen.h"

enum { COLUMNS = 60, ROOM = 65536 };

static FILE *kept;
static int own_output;

static void keep(void)
{
    fflush(stdout);
    kept = tmpfile();
    own_output = dup(STDOUT_FILENO);
    dup2(fileno(kept), STDOUT_FILENO);
}

static char *printed(void)
{
    static char text[ROOM];
    fflush(stdout);
    dup2(own_output, STDOUT_FILENO);
    close(own_output);
    rewind(kept);
    text[fread(text, 1, ROOM - 1, kept)] = 0;
    fclose(kept);
    return text;
}

static size_t widest(const char *text)
{
    size_t most = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strcspn(text, "\n") > most) most = strcspn(text, "\n");
    return most;
}

/* The letters, without blanks and ends of lines. */
static const char *letters(const char *s)
{
    static char out[2][ROOM];
    static int which;
    char *to = out[which ^= 1], *at = to;
    for (; *s; s++)
        if (*s != ' ' && *s != '\n') *at++ = *s;
    *at = 0;
    return to;
}

static void lines_fit_and_lose_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "TP 2  CP 16 (a2a+p2p)  EP 32  PP 8  VPP 4  DP 1  micro batch 1  DeepEP",
        "one sentence of many words that is longer than a line of this window and goes on, and on",
        ("model.recompute_granularity=selective,model.recompute_modules=[layernorm,mla_up_proj,moe]"
         "x"),
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "",
        "a",
        "takes 132 s of 140 s on each of 256 GPUs at 298 TFLOP/s and 69.9 GiB of 75.1 GiB"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        keep();
        screen_line("", "%s", texts[i]);
        const char *text = printed();
        assert_true(widest(text) <= COLUMNS);
        assert_string_equal(letters(text), letters(texts[i]));
        keep();
        screen_print(texts[i]);
        text = printed();
        assert_true(widest(text) <= COLUMNS);
        assert_string_equal(letters(text), letters(texts[i]));
    }
}

static void pieces_and_units_stay_together(void **state)
{
    (void)state;
    keep();
    screen_line("TAKE", "a first piece that fills most  of the line  and a third piece");
    assert_string_equal(printed(), "TAKE     a first piece that fills most  of the line\n"
                                   "         and a third piece\n");
    keep();
    screen_line("STEP", "the number at the end of this line has to be a 132 s");
    assert_string_equal(printed(), "STEP     the number at the end of this line has to be a\n"
                                   "         132 s\n");
}

static void commands_can_be_copied(void **state)
{
    (void)state;
    keep();
    screen_command("NEXT", "moefold check recipe.yaml model.pipeline_model_parallel_size=4 --fix");
    assert_string_equal(printed(), "NEXT     moefold check recipe.yaml \\\n"
                                   "         model.pipeline_model_parallel_size=4 --fix\n");
}

static void tables_fit(void **state)
{
    (void)state;
    static const screen_column columns[] = {{"", false, 0},
                                            {"step", false, 0},
                                            {"tokens/s/GPU", false, 1},
                                            {"memory", false, 0},
                                            {"layout", true, 0}};
    static const char *const cells[] = {
        "1", "128 s", "256", "74.4 GiB", "TP 8  CP 4  recompute layernorm+mla_up_proj+moe",
        "2", NULL,    "255", "71.7 GiB", "TP 8"};
    keep();
    screen_table(columns, 5, cells, 2);
    assert_string_equal(printed(), "             step    memory  layout\n"
                                   "         1  128 s  74.4 GiB  TP 8  CP 4  recompute\n"
                                   "                             layernorm+mla_up_proj+moe\n"
                                   "         2         71.7 GiB  TP 8\n");
}

static void held_text_is_wrapped(void **state)
{
    (void)state;
    keep();
    screen_hold();
    printf("Heading  text that was laid out for a window that is wider than this\n   in  wards\n");
    screen_release();
    assert_string_equal(printed(), "Heading  text that was laid out for a window that is wider\n"
                                   "         than this\n"
                                   "   in  wards\n");
}

static void what_begins_far_in_is_not_broken_in_a_word(void **state)
{
    (void)state;
    keep();
    screen_print("                              no part changes by 0.1 % of the step\n");
    assert_string_equal(printed(), "               no part changes by 0.1 % of the step\n");
}

static void numbers_have_units_and_digits(void **state)
{
    arena *a = *state;
    assert_string_equal(screen_seconds(a, 132.302), "132 s");
    assert_string_equal(screen_seconds(a, 1015.7), "1,020 s");
    assert_string_equal(screen_seconds(a, 0.002684), "2.68 ms");
    assert_string_equal(screen_seconds(a, 6.177e-06), "6.18 us");
    assert_string_equal(screen_seconds(a, 0.99999), "1.00 s");
    assert_string_equal(screen_bytes(a, 0.02 * 1073741824), "20.5 MiB");
    assert_string_equal(screen_bytes(a, 75.14 * 1073741824), "75.1 GiB");
    assert_string_equal(screen_bytes(a, 2048.0 * 1073741824), "2.00 TiB");
    assert_string_equal(screen_flops(a, 12.34e9), "12.3 GFLOP/s");
    assert_string_equal(screen_count(a, 247123456), "247 M");
    assert_string_equal(screen_count(a, 751), "751");
    assert_string_equal(screen_percent(a, -0.014), "-1.4 %");
    assert_string_equal(screen_percent(a, 0.0001), "0 %");
    assert_string_equal(screen_band(a, 132.302, 111.2, 157.9), "132 s (111 to 158)");
    assert_string_equal(screen_band(a, 0.002684, 0.00226, 0.0032), "2.68 ms (2.26 to 3.20)");
}

static void parts_add_up(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed < 200; seed++) {
        double x[9], sum = 0;
        int64_t out[9], all = 0;
        for (int i = 0; i < 9; i++) {
            seed = seed * 1103515245u + 12345u;
            sum += x[i] = (double)(seed >> 16 & 1023);
        }
        screen_round(out, x, 9, sum / 100);
        for (int i = 0; i < 9; i++) all += out[i];
        assert_int_equal(all, 100);
        seed %= 1000;
    }
}

static void bars_show_what_is_above(void **state)
{
    arena *a = *state;
    const screen_part parts[] = {{"weights", 4, 'w'}, {"gradients", 4, 'g'}};
    assert_string_equal(screen_bar(a, parts, 2, 10, 12), "|wwwwgggg..|");
    assert_string_equal(screen_bar(a, parts, 2, 6, 10), "|wwwwgg!!|");
}

static int begin_all(void **state)
{
    *state = arena_create();
    return setenv("COLUMNS", "60", 1);
}

static int end_all(void **state)
{
    arena_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_fit_and_lose_nothing),
        cmocka_unit_test(pieces_and_units_stay_together),
        cmocka_unit_test(commands_can_be_copied),
        cmocka_unit_test(tables_fit),
        cmocka_unit_test(held_text_is_wrapped),
        cmocka_unit_test(what_begins_far_in_is_not_broken_in_a_word),
        cmocka_unit_test(numbers_have_units_and_digits),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(bars_show_what_is_above),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
